"""What a ledger costs as it grows: a charge, verifying, showing.

    python -m benchmarks.ledger.scale                                        # 1,000, 10,000 and 100,000 entries, SQLite
    python -m benchmarks.ledger.scale --entries 1000 --ledger postgresql://… # in an empty database of a server

The commands are run as a person runs them, so their times include the program's start.
`python -m benchmarks.ledger.scale --entries 10000 100000 1000000 --write docs/operations/ledger.md` writes the table of
that page."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.kernel.ledger.database import STREAMED, entry
from crowdblend.accounting.kernel.ledger.entries import Head
from crowdblend.accounting.kernel.ledger.transactions import last_place
from crowdblend.accounting.keys.anchor import Anchoring, line_of_head
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.ledger.charge_request import RECORDS
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.ledger_writer import open_writer
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.accounting.ledger.reader import open_reader
from sqlalchemy import select

from ..generated_pages import machine, write_between
from .of_size import charge_of, grow

__all__ = ["Command", "Scale", "measure"]

CHARGES, FEWEST_CHARGES, ENTRIES_READ = 60, 3, 1_000_000
"""How many charges are measured at a size: so many that together they read so many entries, within bounds."""
BY = "python -m benchmarks.ledger.scale"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What a command cost, in a process of its own.

    Args:
        seconds: until it ended.
        processor: seconds of processor time.
        memory: the most MB that it held.
    """

    seconds: float
    processor: float
    memory: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """What was measured at one size.

    Args:
        entries: how many entries the ledger has.
        charge: seconds of a charge, durable and anchored, in the median.
        charge_processor: its processor time in the median.
        show: processor seconds to look up what `ledger show` prints, within a running program.
        verify: `crowdblend ledger verify`, against an anchor with a signed line for every tenth entry.
        anchor: processor seconds to hold the ledger against that anchor, within a program; part of the above.
    """

    entries: int
    charge: float
    charge_processor: float
    show: float
    verify: Command
    anchor: float


def measure(url: str, *, home: Path, sizes: Sequence[int]) -> Iterator[Scale]:
    """Create a ledger in an empty database, let it grow, and measure at some sizes.

    Args:
        url: where no ledger is yet.
        home: an empty folder, for the keys and the anchor.
        sizes: how many entries, rising; some more come with what is measured.

    Raises:
        ValueError: the ledger does not hold.
    """
    create_where_none(SigningKeys(home=home), os.urandom)
    anchoring = Anchoring(home=home, file=None)
    ledger_id = create_ledger(url, anchoring=anchoring)
    anchor = anchoring.anchor_of(ledger_id).path
    for size in sizes:
        grow(url, anchoring=anchoring, entries=size)
        number = max(FEWEST_CHARGES, min(CHARGES, ENTRIES_READ // size))
        charges = list(_charges(url, anchoring, f"at-{size}", number))
        with open_reader(url) as reader:
            reader.overview(latest=1)  # loads what it needs
            begun = time.process_time()
            reader.overview(latest=50)
            shown = time.process_time() - begun
            _anchor_entries(url, anchor, ledger_id, anchoring)
            begun = time.process_time()
            reader.verify_anchor(anchor, trusted=anchoring.keys.public_keys())
            anchored = time.process_time() - begun
        whole, said = _verify(url=url, home=home)
        if not said["ok"]:
            raise ValueError(f"{said}")
        yield Scale(
            entries=size,
            charge=statistics.median(seconds for seconds, _ in charges),
            charge_processor=statistics.median(processor for _, processor in charges),
            show=shown,
            verify=whole,
            anchor=anchored,
        )


def _charges(url: str, anchoring: Anchoring, label: str, how_many: int) -> Iterator[tuple[float, float]]:
    """Seconds and processor seconds of some charges."""
    with open_writer(url, anchoring=anchoring) as writer:
        for number in range(how_many):
            charge = charge_of(number, label=label)
            begun = time.perf_counter(), time.process_time()
            writer.charge(charge, rows_per_person=1, unit=RECORDS)
            yield time.perf_counter() - begun[0], time.process_time() - begun[1]


def _anchor_entries(url: str, anchor: Path, ledger_id: str, anchoring: Anchoring) -> None:
    """An anchor of every tenth entry and the last one."""
    key, store = anchoring.keys.current(), open_store(url, read_only=True)
    try:
        with store.reading() as connection, anchor.open("wb") as file:
            end = last_place(connection).position
            tenth = (entry.c.position % 10 == 0) | (entry.c.position == end)
            links = select(entry.c.position, entry.c.hash).where(tenth).order_by(entry.c.position)
            for position, own in connection.execute(links, execution_options=STREAMED):
                file.write(line_of_head(Head(ledger_id=ledger_id, position=position, hash=own), key))
    finally:
        store.close()


PROGRAM = """
import atexit, pathlib, sys
from crowdblend.deploy.cli import main
atexit.register(lambda: print(pathlib.Path("/proc/self/status").read_text(), file=sys.stderr))
main(sys.argv[1:])
"""
"""The command line, which says at its end what memory it has held: what the kernel tells its parent is of both."""


def _verify(*, url: str, home: Path) -> tuple[Command, dict[str, object]]:
    """Run `crowdblend ledger verify` in a process of its own: what it cost, and what it said."""
    program = [sys.executable, "-c", PROGRAM, "ledger", "verify", "--json"]
    environment = os.environ | {"CROWDBLEND_LEDGER": url, "CROWDBLEND_HOME": str(home)}
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile("w+") as status:
        child = subprocess.Popen(program, env=environment, stdout=output, stderr=status)
        _, ended, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(ended)
        for file in (output, status):
            file.seek(0)
        said: dict[str, object] = json.loads(output.read())
        peak = next(line for line in status if line.startswith("VmHWM"))
    memory = int(peak.split()[1]) / 1024
    return Command(seconds=seconds, processor=used.ru_utime + used.ru_stime, memory=memory), said


def table(scales: Sequence[Scale]) -> Iterator[str]:
    """The lines of a page's table."""
    yield (
        "| entries | a charge, ms | of it processor, ms | `show`, processor s | `verify`, processor s | µs an entry "
        "| MB | its anchor, µs a line |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in scales:
        verify = one.verify
        yield (
            f"| {one.entries:,} | {1000 * one.charge:.1f} | {1000 * one.charge_processor:.1f} | {one.show:.2f} "
            f"| {verify.processor:.1f} | {1e6 * verify.processor / one.entries:.0f} | {verify.memory:.0f} "
            f"| {1e7 * one.anchor / one.entries:.0f} |"
        )


def main() -> None:
    """Measure, print, and write the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--ledger", help="SQLAlchemy URL of an empty database; default: an SQLite file")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, help="page with a place for the table, such as docs/operations/ledger.md")
    arguments = parser.parse_args()
    scales: list[Scale] = []
    with tempfile.TemporaryDirectory(prefix="crowdblend-scale-") as folder:
        url = arguments.ledger or f"sqlite:///{folder}/ledger.db"
        for scale in measure(url, home=Path(folder) / "home", sizes=arguments.entries):
            scales.append(scale)
            print(json.dumps(asdict(scale)) if arguments.json else f"{scale.entries:,}: {asdict(scale)}", flush=True)
    first, last = scales[0], scales[-1]
    lines = [
        f"On {machine()}. A charge at {last.entries:,} entries took {last.charge / first.charge:.2f} times that at "
        f"{first.entries:,} ({last.charge_processor / first.charge_processor:.2f} of processor time).\n",
        *table(scales),
    ]
    if not arguments.json:
        print("\n".join(lines))
    if arguments.write is not None:
        write_between(arguments.write, lines, by=BY)


if __name__ == "__main__":
    main()
