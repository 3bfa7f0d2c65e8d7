"""What a whole `crowdblend run` costs in seconds and processor seconds, the other commands, and ten million records.

Everything is measured as a person has it: commands in processes of their own, with bytecode written by a first run.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crowdblend.deploy.prefect_environment import QUIET, SCHEDULING, start_server

from .generated_pages import machine, write_between
from .record_path.census_data import COLUMNS, generate
from .record_path.contestants import Question, duckdb

__all__ = ["machine", "main", "write_between"]

STAGES = ("start", "charge", "select", "count", "publish", "close")
WORK = ("charge", "count", "publish", "close")
SUM, WHOLE = "charge, count, publish and close", "the whole command"
DUCKDB = "the same query by DuckDB"
BY = "benchmarks/whole_run.py"
PROGRAM = [sys.executable, "-m", "crowdblend.deploy"]
SPEC = """\
[release]
name = "benchmark"
form = "counts"
format = "parquet"
output = "out"
[data]
dataset = "census"
source = "{source}"
[sampling]
rate = 0.1
[suppression]
k = 20
[privacy]
delta = 1e-6
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one command took: seconds, and processor seconds of it and of all that it started."""

    wall: float
    cpu: float
    answer: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder with a ledger, and the environment of commands in it."""

    folder: Path
    extra: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """The surroundings without Prefect's variables, and with bytecode kept."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "CROWDBLEND_"))}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        own = {"CROWDBLEND_HOME": str(self.folder / "private"), "PYTHONWARNINGS": "ignore"}
        return kept | own | {"CROWDBLEND_LEDGER": f"sqlite:///{self.folder / 'ledger.db'}"} | self.extra

    def measure(self, *argv: str, codes: Sequence[int] = (0,)) -> Cost:
        """Run a command of crowdblend to its end."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            begun = time.perf_counter()
            process = subprocess.Popen(
                [*PROGRAM, *argv], stdout=out, stderr=err, env=self.environment(), cwd=self.folder
            )
            _, status, used = os.wait4(process.pid, 0)
            wall = time.perf_counter() - begun
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in codes:
                err.seek(0)
                raise RuntimeError(f"{argv}: {err.read()[-2000:]}")
            out.seek(0)
            return Cost(wall=wall, cpu=used.ru_utime + used.ru_stime, answer=out.read())


def medians(rounds: int, measured: Callable[[int], Cost]) -> tuple[float, float]:
    """Seconds and processor seconds, each the median of some rounds after one that warms up."""
    measured(-1)
    costs = [measured(number) for number in range(rounds)]
    return statistics.median(cost.wall for cost in costs), statistics.median(cost.cpu for cost in costs)


def runs(folder: Path, rounds: int) -> list[tuple[str, float, float]]:
    """A run on the demonstration's records, by where Prefect's server is; and other commands in its folder."""
    own = Place(folder=folder)
    own.measure("demo", "--output", str(folder / "demo"))
    own.measure("dataset", "add", "census-2000", "--epsilon", "1000", "--delta", "0.1")
    spec = "demo/census2000.toml"

    def run(place: Place, name: str) -> Callable[[int], Cost]:
        return lambda number: place.measure("run", spec, "--output", f"{name}-{number}")

    found = [("`run` with a Prefect server of its own", *medians(rounds, run(own, "own")))]
    kept = folder / "prefect"
    kept.mkdir()
    complete = Place(folder=folder, extra={"PREFECT_HOME": str(kept)})
    found.append(("`run` with a complete server (`PREFECT_HOME`)", *medians(rounds, run(complete, "kept"))))
    os.environ.update(QUIET)
    server = start_server(kept, role=SCHEDULING)
    try:
        server.wait()
        up = Place(folder=folder, extra={"PREFECT_API_URL": server.api_url})
        found.append(("`run` with a server that is up (`PREFECT_API_URL`)", *medians(rounds, run(up, "up"))))
    finally:
        server.stop()
    certificate = "own-0/certificate.json"
    (folder / "wrong.toml").write_text("[release]\nname = 3\n", encoding="utf-8")
    poor = folder / "poor"
    poor.mkdir()
    refused = Place(folder=poor)
    refused.measure("dataset", "add", "census-2000", "--epsilon", "0.01", "--delta", "0.1")
    plan = ("plan", "--k", "20", "--sampling-rate", "0.1", "--delta", "1e-6", "--releases", "12")
    for name, place, argv, code in (
        ("`plan`", own, plan, 0),
        ("`explain`", own, ("explain", spec), 0),
        ("`ledger show`", own, ("ledger", "show"), 0),
        ("`ledger verify`", own, ("ledger", "verify"), 0),
        ("`verify`", own, ("verify", certificate), 0),
        ("a refusal: wrong specification", own, ("run", "wrong.toml"), 2),
        ("a refusal: past the budget", refused, ("run", f"../{spec}", "--output", "out"), 3),
    ):
        cost = medians(rounds, lambda _, place=place, argv=argv, code=code: place.measure(*argv, codes=(code,)))
        found.append((name, *cost))
    return found


def stages(folder: Path, *, files: Sequence[str], rounds: int) -> dict[str, float]:
    """Stages of a release of many records and DuckDB's query of the same, one after the other; medians, seconds."""
    place = Place(folder=folder)
    for column in COLUMNS:
        lines = [f"{value};{label};*\n" for value, label in zip(column.values, column.labels, strict=True)]
        (folder / f"{column.name}.csv").write_text("".join(lines), encoding="utf-8")
    columns = [f'[columns.{column.name}]\nhierarchy = "{column.name}.csv"\nlevel = 1\n' for column in COLUMNS]
    source = str(Path(files[0]).parent / "*.parquet")
    (folder / "spec.toml").write_text(SPEC.format(source=source) + "".join(columns), encoding="utf-8")
    place.measure("dataset", "add", "census", "--epsilon", "1000", "--delta", "0.1")
    query = duckdb(Question(files=tuple(files), columns=COLUMNS, rate=0.1, k=20))
    found: list[dict[str, float]] = []
    for number in range(-1, rounds):
        cost = place.measure("run", "spec.toml", "--output", f"out-{number}", "--json")
        timings = json.loads(cost.answer)["timings"]
        begun = time.perf_counter()
        query()
        peer = time.perf_counter() - begun
        whole = {SUM: sum(timings[name] for name in WORK), DUCKDB: peer}
        found.append({**{name: timings[name] for name in STAGES}, **whole, WHOLE: cost.wall, "processor": cost.cpu})
    return {name: statistics.median(run[name] for run in found[1:]) for name in found[0]}


def main(argv: list[str] | None = None) -> None:
    """Measure, print, and write the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="records of the large release; 0 leaves it out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    parser.add_argument("--write", type=Path, help="page with the table, such as docs/benchmarks/whole-run.md")
    arguments = parser.parse_args(argv)
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    tell(f"Medians of {arguments.rounds} in seconds, after one that warms up; {machine()}.\n")
    tell("| | wall | processor |\n|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="whole-run-") as temporary:
        folder = Path(temporary)
        small = folder / "small"
        small.mkdir()
        for name, wall, used in runs(small, arguments.rounds):
            tell(f"| {name} | {wall:.2f} | {used:.2f} |")
        if arguments.rows:
            records = generate(arguments.data or folder / "data", rows=arguments.rows)
            work = folder / "work"
            work.mkdir()
            found = stages(work, files=[str(path) for path in records.files], rounds=arguments.rounds)
            processor = found.pop("processor")
            for name, seconds in found.items():
                cpu = f"{processor:.2f}" if name == WHOLE else ""
                tell(f"| {arguments.rows:,} records: {name} | {seconds:.2f} | {cpu} |")
    if arguments.write is not None:
        write_between(arguments.write, lines, by=BY)


if __name__ == "__main__":
    main()
