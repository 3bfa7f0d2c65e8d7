"""What a large ledger costs: appending, verifying and showing, with as many entries as are asked for.

    python -m benchmarks.ledger.scale                              # 100,000 entries in an SQLite file
    python -m benchmarks.ledger.scale --ledger postgresql://...    # in an empty database of a server

The commands are run as a person runs them, so their times include the program's start.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from crowdblend.accounting.ledger.chain.anchor import AnchorFile, Anchoring, line_of_head
from crowdblend.accounting.ledger.chain.hashing import Head
from crowdblend.accounting.ledger.database.creation import create_ledger
from crowdblend.accounting.ledger.private_store.signing import SigningKeys
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.accounting.ledger.writer import open_writer

from .of_size import charge_of, grow

__all__ = ["Scale", "measure"]

CHARGES = 60
SMALL = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """What was measured; seconds, but for the memory in MB.

    Args:
        entries: how many entries the large ledger has.
        charge_small: median of a charge, durable and anchored, with `SMALL` entries.
        charge_large: the same with all entries.
        show: looking up all that `ledger show` prints, within a running program.
        verify: checking the whole ledger within a running program.
        verify_anchor: holding it against an anchor with a signed line for every entry.
        show_command: `crowdblend ledger show`.
        verify_command: `crowdblend ledger verify --anchor`.
        verify_memory: the most memory that that command held.
    """

    entries: int
    charge_small: float
    charge_large: float
    show: float
    verify: float
    verify_anchor: float
    show_command: float
    verify_command: float
    verify_memory: float


def measure(url: str, *, home: Path, entries: int) -> Scale:
    """Create a ledger in an empty database, let it grow, and measure.

    Args:
        url: where no ledger is yet.
        home: an empty folder, for the keys and the anchor.
        entries: how many entries it shall have, more than `SMALL`.

    Raises:
        ValueError: the ledger does not hold.
    """
    SigningKeys(home=home).create_where_none(os.urandom)
    anchoring = Anchoring(home=home, file=None)
    ledger_id = create_ledger(url, anchoring=anchoring)
    anchor = anchoring.anchor_of(ledger_id)
    grow(url, anchoring=anchoring, entries=min(SMALL, entries))
    small = _seconds_of_a_charge(url, anchoring, "small")
    grow(url, anchoring=anchoring, entries=entries)
    large = _seconds_of_a_charge(url, anchoring, "large")
    _anchor_every_entry(url, anchor, anchoring)
    with open_reader(url) as reader:
        begun = time.perf_counter()
        reader.overview(latest=50)
        shown = time.perf_counter()
        findings = [str(finding) for finding in reader.verify()]
        verified = time.perf_counter()
        findings += reader.verify_anchor(anchor.path, trusted=anchoring.keys.public_keys()).findings
        anchored = time.perf_counter()
    if findings:
        raise ValueError(findings[0])
    show_command, _ = _command("show", url=url, home=home)
    verify_command, memory = _command("verify", "--anchor", str(anchor.path), url=url, home=home)
    return Scale(
        entries=entries,
        charge_small=small,
        charge_large=large,
        show=shown - begun,
        verify=verified - shown,
        verify_anchor=anchored - verified,
        show_command=show_command,
        verify_command=verify_command,
        verify_memory=memory,
    )


def _seconds_of_a_charge(url: str, anchoring: Anchoring, label: str) -> float:
    times = []
    with open_writer(url, anchoring=anchoring) as writer:
        for number in range(CHARGES):
            charge = charge_of(number, label=label)
            begun = time.perf_counter()
            writer.charge(charge)
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _anchor_every_entry(url: str, anchor: AnchorFile, anchoring: Anchoring) -> None:
    """What the anchor would be if every entry had been written by itself."""
    key = anchoring.keys.current()
    with open_reader(url) as reader:
        ledger_id = reader.ledger_id
    with open_reader(url) as reader, anchor.path.open("wb") as file:
        for link in reader.entries():
            head = Head(ledger_id=ledger_id, position=link.position, hash=link.hash)
            file.write(line_of_head(head, key))


def _command(*words: str, url: str, home: Path) -> tuple[float, float]:
    """Run `crowdblend ledger` in a process of its own: its seconds, and the most MB that it held."""
    program = [sys.executable, "-m", "crowdblend.deploy", "ledger", *words]
    environment = os.environ | {"CROWDBLEND_LEDGER": url, "CROWDBLEND_HOME": str(home)}
    begun = time.perf_counter()
    child = subprocess.Popen(program, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise ValueError(f"crowdblend ledger {words[0]} ended with {child.returncode}")
    return time.perf_counter() - begun, used.ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--ledger", help="SQLAlchemy URL of an empty database; default: an SQLite file")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crowdblend-scale-") as folder:
        url = arguments.ledger or f"sqlite:///{folder}/ledger.db"
        scale = measure(url, home=Path(folder) / "home", entries=arguments.entries)
    if arguments.json:
        print(json.dumps(asdict(scale)))
        return
    print(f"{scale.entries:,} entries")
    print(
        f"a charge: {1000 * scale.charge_small:.1f} ms at {SMALL:,} entries, {1000 * scale.charge_large:.1f} ms at all"
    )
    print(f"show: {scale.show:.2f} s; the command with its start: {scale.show_command:.1f} s")
    print(f"verify: {scale.verify:.1f} s; against an anchor of as many lines: {scale.verify_anchor:.1f} s more")
    print(f"the command verify --anchor: {scale.verify_command:.1f} s, at most {scale.verify_memory:.0f} MB")


if __name__ == "__main__":
    main()
