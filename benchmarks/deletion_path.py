"""A deletion release of many records: counting them all beside DuckDB, and what a whole run takes of time and memory.

DuckDB and this project's counting answer in turn, in one process, on two threads each, and every answer is checked
against the records' exact counts. The run is the command with its flow, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .generated_pages import machine
from .record_path.census_data import COLUMNS, Column, Records, generate
from .record_path.contestants import Answer, Question, cell_counts, duckdb, ours
from .whole_run import PROGRAM, Place

__all__ = ["main"]

SPEC = """\
[release]
name = "benchmark"
form = "{form}"
format = "parquet"
output = "out"
[data]
dataset = "census"
source = "{source}"
[deletion]
[privacy]
epsilon = {epsilon}
delta = 1e-6
{margins}
"""
BESIDE = {
    "one-way margins": ("[margins]", "levels = [0, 1]"),
    "chosen pairs": ('[margins]\npairs = "auto"', "levels = [0, 1]"),
    "chosen pairs and labels": ('[margins]\npairs = "auto"', 'levels = "auto"'),
}
"""What is published beside the rows: in words, its table, and the levels of every column."""
POLLED_SECONDS = 0.02


def answered(answers: Callable[[], Answer], records: Records) -> tuple[float, float]:
    """Seconds and processor seconds of one answer.

    Raises:
        RuntimeError: it is not what the records have.
    """
    begun, used = time.perf_counter(), time.process_time()
    answer = answers()
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    if not np.array_equal(cell_counts(answer), records.exact):
        raise RuntimeError("the groups are not those of the records")
    return seconds, processor


def counted(records: Records, *, rounds: int) -> dict[str, tuple[float, float]]:
    """Medians of seconds and processor seconds of each contestant, after one answer that warms up."""
    question = Question(files=tuple(str(path) for path in records.files), rate=None, k=1)
    contestants = {"ours": ours(question), "DuckDB": duckdb(question)}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):
        for name, answers in contestants.items():
            found[name].append(answered(answers, records))
    return {
        name: (statistics.median(wall for wall, _ in told[1:]), statistics.median(used for _, used in told[1:]))
        for name, told in found.items()
    }


def run(
    records: Records,
    folder: Path,
    *,
    form: str,
    columns: Sequence[Column] = COLUMNS,
    levels: str | Mapping[str, str] = "level = 1",
    margins: str = "",
    epsilon: str = "1",
) -> tuple[dict[str, Any], dict[str, float]]:
    """One release by the command.

    Args:
        levels: the line of every column's table that says its levels, or of each column its own.

    Returns:
        What the command tells; and what it takes: seconds of its stages and of all, processor seconds, and at most
        how many MiB.
    """
    place = Place(folder=folder)
    for column in columns:
        lines = [f"{value};{label};*\n" for value, label in zip(column.values, column.labels, strict=True)]
        (folder / f"{column.name}.csv").write_text("".join(lines), encoding="utf-8")
    line = dict.fromkeys((one.name for one in columns), levels) if isinstance(levels, str) else levels
    tables = [f'[columns.{one.name}]\nhierarchy = "{one.name}.csv"\n{line[one.name]}\n' for one in columns]
    source = str(records.files[0].parent.absolute() / "*.parquet")
    spec = SPEC.format(source=source, form=form, epsilon=epsilon, margins=margins) + "".join(tables)
    (folder / "spec.toml").write_text(spec, encoding="utf-8")
    place.measure("dataset", "add", "census", "--epsilon", "1000", "--delta", "0.1")
    return measured_run(place, "spec.toml")


def measured_run(place: Place, *argv: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Run a specification in the place's folder, and return what `run` does there."""
    begun, folder = time.perf_counter(), place.folder
    with (folder / "told.json").open("w") as told, (folder / "err").open("w") as err:
        process = subprocess.Popen(
            [*PROGRAM, "run", *argv, "--json"], stdout=told, stderr=err, env=place.environment(), cwd=folder
        )
        peak = 0
        while True:
            peak = max(peak, peak_kib(process.pid))
            done, status, used = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            time.sleep(POLLED_SECONDS)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError((folder / "err").read_text()[-2000:])
    answer = json.loads((folder / "told.json").read_text())
    whole = {"all": time.perf_counter() - begun, "processor": used.ru_utime + used.ru_stime, "MiB": peak / 1024}
    stages = {name: answer["timings"][name] for name in ("start", "charge", "count", "publish", "close")}
    return answer, stages | whole


def beside(records: Records, folder: Path, *, rounds: int) -> list[str]:
    """Return a table of what runs take that publish counts beside the rows, each way in turn, and its ratios."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in BESIDE}
    for number in range(rounds):
        for way, (margins, levels) in BESIDE.items():
            place = folder / f"{way}-{number}"
            place.mkdir()
            found[way].append(run(records, place, form="counts", margins=margins, levels=levels)[1])
    medians = {
        way: {name: statistics.median(one[name] for one in told) for name in ("all", "processor", "MiB")}
        for way, told in found.items()
    }
    base = next(iter(medians.values()))
    return [
        "| run | seconds | processor seconds | of one-way margins' | MiB |",
        "|---|---|---|---|---|",
        *(
            f"| {way} | {one['all']:.1f} | {one['processor']:.1f} | {one['processor'] / base['processor']:.2f} | "
            f"{one['MiB']:.0f} |"
            for way, one in medians.items()
        ),
    ]


def peak_kib(process: int) -> int:
    """The most memory that a process had so far; 0 where it has ended.

    What the system tells of a child that has ended begins with its parent's figure.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def main(argv: list[str] | None = None) -> None:
    """Generate, measure, check and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000], help="records of each data set")
    parser.add_argument("--rounds", type=int, default=5, help="answers of each, and runs; 0 leaves the answers out")
    parser.add_argument("--form", choices=["microdata", "counts"], default="microdata", help="what the runs publish")
    parser.add_argument("--beside", action="store_true", help="runs with margins and with chosen pairs alone, in turn")
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="deletion-path-") as temporary:
        for rows in arguments.rows:
            records = generate(arguments.data or Path(temporary) / "data", rows=rows)
            groups = int(np.count_nonzero(records.exact))
            print(f"{rows:,} records in {groups:,} groups; medians of {max(1, arguments.rounds)}; {machine()}.\n")
            if arguments.beside:
                print("\n".join(beside(records, Path(temporary), rounds=max(1, arguments.rounds))), flush=True)
                continue
            if arguments.rounds:
                print("| counting every record | seconds | processor seconds |\n|---|---|---|")
                times = counted(records, rounds=arguments.rounds)
                for name, (wall, used) in times.items():
                    print(f"| {name} | {wall:.2f} | {used:.2f} |")
                shares = [times["ours"][place] / times["DuckDB"][place] for place in (0, 1)]
                print(f"| ours over DuckDB's | {shares[0]:.2f} | {shares[1]:.2f} |\n", flush=True)
            found = []
            for number in range(max(1, arguments.rounds)):
                folder = Path(temporary) / f"run-{rows}-{number}"
                folder.mkdir()
                found.append(run(records, folder, form=arguments.form)[1])
            names = list(found[0])
            print(f"| {' | '.join(['run', *names])} |\n|{'---|' * (len(names) + 1)}")
            figures = [f"{statistics.median(one[name] for one in found):.2f}" for name in names]
            print(f"| {' | '.join([arguments.form, *figures])} |\n", flush=True)


if __name__ == "__main__":
    main()
