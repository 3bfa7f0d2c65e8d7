"""Time the record path beside what people would write by hand: DuckDB, Polars, dask.dataframe, on the same files."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..generated_pages import record
from .agreement import faults
from .census_data import ROW_GROUP, SMALL_ROW_GROUPS, Records, generate
from .contestants import ALL, CLUSTERS, CONTESTANTS, EVERY_RECORD, THREADS
from .report import Timing, page, write_picture

__all__ = ["main", "measure"]

RATE = 0.1
K = 20
SLOW = {
    "dask.dataframe": 10_000_000,
    **dict.fromkeys((*CLUSTERS, "Polars"), 100_000_000),
    "ours, pyarrow alone": 331_000_000,
}
"""Contestants that answer up to this number of records only."""
NOT_ASKED = {("csv", "dask.dataframe"), ("csv.gz", "dask.dataframe")}
_CSV = {"csv": "CSV", "csv.gz": "CSV in gzip"}
PROJECT = Path(__file__).resolve().parents[2]


class _Contestant:
    """A process that answers whenever it is told to."""

    def __init__(self, name: str, records: Records, folder: Path, rate: float | None) -> None:
        self.name = name
        self.target = folder / f"{len(list(folder.iterdir()))}.npy"
        self.target.touch()
        folders = str(records.files[0].parent.absolute()), str(self.target.absolute())
        argv = [name, folders[0], ALL if rate is None else str(rate), str(K), folders[1]]
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.record_path.contestants", *argv],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> dict[str, float]:
        """The next answer's line."""
        if self.process.stdout is None:
            raise RuntimeError("the process has no output")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} did not answer")
        found: dict[str, float] = json.loads(line)
        return found

    def again(self) -> dict[str, float]:
        """Tell it to answer once more."""
        if self.process.stdin is None:
            raise RuntimeError("the process has no input")
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        """Stop it, if it has not left."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()

    def leave(self) -> tuple[np.ndarray, os.struct_rusage]:
        """Let it end: its last answer's counts, and what it used in all."""
        if self.process.stdin is None:
            raise RuntimeError("the process has no input")
        self.process.stdin.close()
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            raise RuntimeError(f"{self.name} failed")
        return np.load(self.target), used


def measure(
    records: Records, *, names: Sequence[str], rounds: int, folder: Path, rate: float | None = RATE
) -> dict[str, Timing]:
    """Let every contestant answer in turn, `rounds` times warm and as often as whole processes; check each answer.

    Args:
        records: the data set.
        names: of the contestants.
        rounds: answers of each, warm and whole.
        folder: for their answers.
        rate: sampling rate; None counts every record.

    Raises:
        RuntimeError: an answer is not that of a right release.
    """
    warm: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    whole: dict[str, list[tuple[float, os.struct_rusage]]] = {name: [] for name in names}
    peaks: dict[str, list[float]] = {name: [] for name in names}
    running = {name: _Contestant(name, records, folder, rate) for name in names}
    try:
        for contestant in running.values():
            contestant.answer()
        for _ in range(rounds):
            for name, contestant in running.items():
                warm[name].append(contestant.again())
        for contestant in running.values():
            _check(contestant.name, contestant.leave()[0], records, rate)
    finally:
        for contestant in running.values():
            contestant.end()
    for _ in range(rounds):
        for name in names:
            begun = time.perf_counter()
            contestant = _Contestant(name, records, folder, rate)
            peaks[name].append(contestant.answer()["peak_mb"])
            counts, used = contestant.leave()
            whole[name].append((time.perf_counter() - begun, used))
            _check(name, counts, records, rate)
    return {
        name: Timing(
            warm=statistics.median(line["seconds"] for line in warm[name]),
            warm_processor=statistics.median(line["processor"] for line in warm[name]),
            whole=statistics.median(seconds for seconds, _ in whole[name]),
            whole_processor=statistics.median(used.ru_utime + used.ru_stime for _, used in whole[name]),
            peak_mb=statistics.median(peaks[name]),
        )
        for name in names
    }


def _check(name: str, counts: np.ndarray, records: Records, rate: float | None) -> None:
    if rate is None:
        same = np.array_equal(counts, np.where(records.exact >= K, records.exact, 0))
        wrong = [] if same else ["the groups are not those of the records"]
    else:
        wrong = faults(counts, exact=records.exact, rate=rate, k=K)
    if wrong:
        raise RuntimeError(f"{name} does not agree with the records: {'; '.join(wrong)}")


def _without_folders(argv: list[str]) -> list[str]:
    """The arguments but for the folders of data and output, which change no figure."""
    folders = {"--data", "--output"}
    return [word for before, word in zip(["", *argv], argv, strict=False) if not folders & {before, word}]


def main(argv: list[str] | None = None) -> None:
    """Generate, measure, check, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000], help="records of each data set")
    parser.add_argument(
        "--small-row-groups", type=int, nargs="*", default=[], help="of these, also cut as other writers do"
    )
    parser.add_argument("--csv", type=int, nargs="*", default=[], help="of these, as CSV, and compressed")
    parser.add_argument(
        "--all-records", type=int, nargs="*", default=[], help="of these, also without sampling; DuckDB and ours alone"
    )
    parser.add_argument("--rounds", type=int, default=5, help="answers of each contestant, warm and whole")
    parser.add_argument("--leave-out", nargs="*", default=[], choices=list(CONTESTANTS), help="contestants")
    parser.add_argument("--clusters", action="store_true", help="also on two, three and four worker processes")
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    parser.add_argument("--output", type=Path, help="folder for the page record-path.md and its picture")
    arguments = parser.parse_args(argv)
    names = [name for name in CONTESTANTS if name not in arguments.leave_out] + [*CLUSTERS] * arguments.clusters
    results: dict[str, dict[str, Timing]] = {}
    loads: list[float] = []
    with tempfile.TemporaryDirectory(prefix="record-path-") as temporary:
        data = arguments.data or Path(temporary) / "data"
        answers = Path(temporary) / "answers"
        answers.mkdir()
        for rows in arguments.rows:
            forms = [("parquet", ROW_GROUP)]
            forms += [("parquet", size) for size in SMALL_ROW_GROUPS if rows in arguments.small_row_groups]
            for form, row_group in forms + [(form, ROW_GROUP) for form in ("csv", "csv.gz") if rows in arguments.csv]:
                records = generate(data, rows=rows, row_group=row_group, form=form)
                cut = f"row groups of {row_group:,}" if form == "parquet" else _CSV[form]
                title = f"{rows:,} records of {records.size / rows:.1f} bytes, {cut}"
                answering = [name for name in names if rows <= SLOW.get(name, rows) and (form, name) not in NOT_ASKED]
                questions: dict[str, tuple[float | None, list[str]]] = {title: (RATE, answering)}
                if rows in arguments.all_records and (form, row_group) == forms[0]:
                    questions[f"{title}, without sampling"] = None, [one for one in answering if one in EVERY_RECORD]
                for about, (rate, those) in questions.items():
                    loads.append(os.getloadavg()[0])
                    results[about] = measure(records, names=those, rounds=arguments.rounds, folder=answers, rate=rate)
                    print(page({about: results[about]}, rounds=arguments.rounds), flush=True)
                if arguments.data is None:
                    shutil.rmtree(records.files[0].parent)
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        write_picture(results, arguments.output / "record-path.svg")
        command = "python -m benchmarks.record_path " + " ".join(
            _without_folders(sys.argv[1:] if argv is None else argv)
        )
        waiting = ", ".join(f"{load:.1f}" for load in loads)
        machine = (
            f"{os.cpu_count()} processors ({platform.machine()}), of which every contestant uses {THREADS}; "
            f"before each data set's measurement the load average of the last minute was {waiting}."
        )
        text = page(results, rounds=arguments.rounds, command=command, picture="record-path.svg", machine=machine)
        (arguments.output / "record-path.md").write_text(text, encoding="utf-8")
        record(arguments.output / "record-path.md")


if __name__ == "__main__":
    main()
