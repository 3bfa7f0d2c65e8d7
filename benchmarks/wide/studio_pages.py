"""Measure how long the studio takes to start and to answer, of a draft with a hundred columns.

python -m benchmarks.wide.studio_pages --write
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from crowdblend.deploy.studio.page_contexts import STEPS

from ..generated_pages import machine, write_between

__all__ = ["COLUMNS", "main", "measured"]

BY = "benchmarks/wide/studio_pages.py"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "studio.md"
COLUMNS = 100
MIDDLE = COLUMNS // 2
MARK = re.compile(r'name="mark" value="(\w+)"')
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of the server's processor, and by the clock until the answer was there."""

    processor: float
    clock: float


class Asked:
    """A studio of its own that is asked for pages.

    Args:
        folder: for the ledger, the records and the studio.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.times: dict[str, list[Taken]] = {}
        begun = time.perf_counter()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CROWDBLEND_")}
        own = {"CROWDBLEND_HOME": str(folder / "home"), "CROWDBLEND_LEDGER": f"sqlite:///{folder / 'ledger.db'}"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crowdblend.deploy", "studio", "--port", "0", "--no-browser", "--folder", "studio"],
            cwd=folder,
            env=kept | own,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline() if self.process.stdout is not None else ""
        address = re.search(r"http://\S+", line)
        if address is None:
            raise RuntimeError(f"the studio didn't start: {line}")
        self.start = Taken(processor=self.processor_seconds(), clock=time.perf_counter() - begun)
        url = address[0].partition("/enter")[0]
        self.client = httpx.Client(base_url=url, headers={"origin": url}, timeout=600)
        self.client.get(address[0]).raise_for_status()

    def processor_seconds(self) -> float:
        """Return what the server has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def ask(self, name: str, path: str, form: Mapping[str, str] | None = None) -> None:
        """Ask for a page, or send its form with its mark, and take note of the time under a name."""
        if form is not None and (mark := MARK.search(self.client.get(path).text)) is not None:
            form = {"mark": mark[1], **form}
        before, begun = self.processor_seconds(), time.perf_counter()
        answer = self.client.get(path) if form is None else self.client.post(path, data=form)
        taken = Taken(processor=self.processor_seconds() - before, clock=time.perf_counter() - begun)
        if answer.status_code not in (200, 303):
            raise RuntimeError(f"{path} was answered with {answer.status_code}")
        self.times.setdefault(name, []).append(taken)

    def wait(self) -> None:
        """Wait until what is computed beside the pages is there."""
        while any("data-computing" in self.client.get(path).text for path in ("/matters", "/price", "/review")):
            time.sleep(0.2)


@contextmanager
def _asked() -> Iterator[Asked]:
    with TemporaryDirectory() as folder:
        asked = Asked(Path(folder))
        try:
            yield asked
        finally:
            asked.client.close()
            asked.process.kill()
            asked.process.wait()
            if asked.process.stdout is not None:
                asked.process.stdout.close()


def measured(rounds: int) -> tuple[Taken, Taken, dict[str, Taken]]:
    """Return what the start takes, what all takes that is planned beside the pages, and each page.

    Of a page it is the processor's time in the mean, and the longest time by the clock.
    """
    with _asked() as asked:
        source = asked.folder / "wide.csv"
        source.write_text(",".join(f"t{n // 10}_item{n}" for n in range(COLUMNS)) + "\n", encoding="utf-8")
        add = {"do": "add", "new_dataset": "wide", "budget_epsilon": "5", "budget_delta": "1e-4"}
        asked.client.post("/dataset", data=add)
        asked.client.post("/file", data={"source": str(source), "records": "100000"})
        roles = {f"role-{n}": "release" for n in range(COLUMNS)}
        before, begun = asked.processor_seconds(), time.perf_counter()
        asked.ask("columns, roles stored", "/columns", roles)
        asked.wait()
        draft = asked.folder / "studio" / "draft.toml"
        values = 'levels = "auto"\nvalues = ["1", "2", "3"]'
        draft.write_text(draft.read_text(encoding="utf-8").replace('levels = "auto"', values), encoding="utf-8")
        asked.wait()
        beside = Taken(processor=asked.processor_seconds() - before, clock=time.perf_counter() - begun)
        for _ in range(rounds):
            for path in (*STEPS, f"columns/{MIDDLE}"):
                asked.ask(path, f"/{path}")
            asked.ask("columns, roles stored", "/columns", roles)
            asked.ask("one column, stored", f"/columns/{MIDDLE}", {"form": "values", "text": "1\n2\n3"})
        pages = {
            name: Taken(
                processor=statistics.mean(one.processor for one in taken), clock=max(one.clock for one in taken)
            )
            for name, taken in asked.times.items()
        }
        return asked.start, beside, pages


def main(argv: list[str] | None = None) -> None:
    """Measure, print, and write the table into docs/studio.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="into docs/studio.md")
    asked = parser.parse_args(argv)
    start, beside, pages = measured(asked.rounds)
    rows = {"the start, until the address is printed": start}
    rows |= {name.replace(f"columns/{MIDDLE}", "one column"): took for name, took in sorted(pages.items())}
    rows |= {"beside the pages: tables, price and review, once": beside}
    lines = [
        f"A draft of {COLUMNS} columns, {asked.rounds} answers of each page, {machine()}.",
        "",
        "| | processor seconds, mean | seconds by the clock, longest |",
        "|---|---|---|",
        *(f"| {name} | {taken.processor:.2f} | {taken.clock:.2f} |" for name, taken in rows.items()),
    ]
    print("\n".join(lines))
    if asked.write:
        write_between(PAGE, lines, by=BY)


if __name__ == "__main__":
    main()
