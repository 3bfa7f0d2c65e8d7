"""Split up a whole `crowdblend run`: its stages, what is around them, and an empty Prefect flow of the same run."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from census_data import COLUMNS, generate

__all__ = ["main", "measure"]

STAGES = ("start", "charge", "select", "count", "publish", "close")
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
EMPTY = """\
import os, sys, time
begun = time.perf_counter()
from crowdblend.deploy.prefect_environment import settle_prefect, settled_api
from pathlib import Path
wait = settle_prefect(Path(sys.argv[1]))
from prefect import flow
from prefect import task
@task
def nothing():
    pass
@flow(name="empty", persist_result=False, log_prints=False, validate_parameters=False)
def empty():
    for _ in range(5):
        nothing()
wait()
with settled_api():
    empty()
"""


def measure(folder: Path, *, source: str, rounds: int) -> dict[str, float]:
    """Seconds, each the median of some runs that alternate with empty flows.

    Args:
        folder: an empty folder.
        source: pattern of the Parquet files.
        rounds: runs of each kind.

    Returns:
        Each stage; `stages` (their sum), `wall` (the whole process), `interpreter` (the rest: start of Python and
        its end); `flow`, a process with an embedded server and a flow of five empty tasks; and `over`, how
        much longer the run takes, the count left out.
    """
    environment = os.environ | {"CROWDBLEND_HOME": str(folder / "home"), "PYTHONWARNINGS": "ignore"}
    environment["CROWDBLEND_LEDGER"] = f"sqlite:///{folder / 'ledger.db'}"
    environment.pop("PREFECT_API_URL", None)
    for column in COLUMNS:
        lines = [f"{value};{label};*\n" for value, label in zip(column.values, column.labels, strict=True)]
        (folder / f"{column.name}.csv").write_text("".join(lines), encoding="utf-8")
    columns = [f'[columns.{column.name}]\nhierarchy = "{column.name}.csv"\nlevel = 1\n' for column in COLUMNS]
    (folder / "spec.toml").write_text(SPEC.format(source=source) + "".join(columns), encoding="utf-8")
    program = [sys.executable, "-m", "crowdblend.deploy"]
    added = [*program, "dataset", "add", "census", "--epsilon", "100", "--delta", "0.01"]
    subprocess.run(added, check=True, capture_output=True, env=environment, cwd=folder)
    runs: list[dict[str, float]] = []
    for number in range(rounds):
        words = [*program, "run", "spec.toml", "--output", f"out-{number}", "--json"]
        wall, answer = _timed(words, environment, folder)
        timings = json.loads(answer)["timings"]
        flow, _ = _timed([sys.executable, "-c", EMPTY, str(folder / "home")], environment, folder)
        stages = sum(timings.values())
        split = {**timings, "stages": stages, "wall": wall, "interpreter": wall - stages, "flow": flow}
        runs.append({**split, "over": wall - timings["count"] - flow})
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _timed(words: list[str], environment: dict[str, str], folder: Path) -> tuple[float, str]:
    begun = time.perf_counter()
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment, cwd=folder)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return time.perf_counter() - begun, done.stdout


def main(words: list[str] | None = None) -> None:
    """Generate, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="whole-run-") as temporary:
        folder = Path(temporary)
        records = generate(asked.data or folder / "data", rows=asked.rows)
        work = folder / "work"
        work.mkdir()
        found = measure(work, source=str(records.files[0].parent / "*.parquet"), rounds=asked.rounds)
    print(f"{asked.rows:,} records, medians of {asked.rounds}, seconds\n\n| | s |\n|---|---|")
    for name in (*STAGES, "stages", "interpreter", "wall", "flow", "over"):
        print(f"| {name} | {found[name]:.2f} |")


if __name__ == "__main__":
    main()
