"""A release of Parquet files that other writers made, with what these do unasked: its stages beside DuckDB's query.

The records are those of the record path's benchmark. DuckDB's COPY writes one file, pandas one for every ten million
records, Polars four; they choose row groups, pages, encodings and compression themselves. A run of the command and
DuckDB's query of the same answer in turn, as in `benchmarks.whole_run`; then both count in one process, also in turn,
and what that takes of the processors is told too: where others compute, wall times stretch.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..generated_pages import machine, write_between
from ..whole_run import DUCKDB, SUM, stages
from .census_data import generate
from .contestants import THREADS, Question, duckdb, ours

__all__ = ["BY", "main"]

BY = "benchmarks.record_path.outside_files"
POLARS_ROWS = 3_300_000
LEAST = 2.0
"""So many times DuckDB's speed is what the stages of a run are meant to have."""


def _by_duckdb(files: Sequence[Path], folder: Path) -> None:
    import duckdb as database

    connection = database.connect(config={"threads": THREADS})
    source = "SELECT * FROM read_parquet($files)"
    target = folder / "part-0000.parquet"
    connection.execute(f"COPY ({source}) TO '{target}' (FORMAT parquet)", {"files": [str(path) for path in files]})


def _by_polars(files: Sequence[Path], folder: Path) -> None:
    import polars as frames

    for path in files:
        for number, part in enumerate(frames.read_parquet(path).iter_slices(POLARS_ROWS)):
            part.write_parquet(folder / f"{path.stem}-{number}.parquet")


def _by_pandas(files: Sequence[Path], folder: Path) -> None:
    import pandas as pd

    for path in files:
        pd.read_parquet(path).to_parquet(folder / path.name)


WRITERS: dict[str, Callable[[Sequence[Path], Path], None]] = {
    "DuckDB": _by_duckdb,
    "Polars": _by_polars,
    "pandas": _by_pandas,
}


def written(files: Sequence[Path], data: Path, *, writer: str, rows: int) -> list[str]:
    """Write the records of some files anew, or find them there; return the paths."""
    folder = data / f"{writer}-{rows}"
    if not folder.exists():
        unfinished = data / f"{writer}-{rows}.unfinished"
        unfinished.mkdir()
        WRITERS[writer](files, unfinished)
        unfinished.rename(folder)
    return sorted(str(path) for path in folder.iterdir())


def counting(files: Sequence[str], *, rounds: int) -> dict[str, float]:
    """Medians of the processor seconds in which each counts the sample, after one answer that warms up."""
    question = Question(files=tuple(files))
    contestants = {"ours": ours(question), "DuckDB": duckdb(question)}
    used: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):
        for name, answer in contestants.items():
            begun = time.process_time()
            answer()
            used[name].append(time.process_time() - begun)
    return {name: statistics.median(times[1:]) for name, times in used.items()}


def _row(writer: str, files: Sequence[str], *, work: Path, rounds: int) -> tuple[str, float]:
    """Return one writer's line of the table, and how many times DuckDB's speed the stages have."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(files[0])
    found = stages(work, files=files, rounds=rounds)
    took, peer = found[SUM], found[DUCKDB]
    used = counting(files, rounds=rounds)
    size = sum(Path(path).stat().st_size for path in files) / 1e6
    cells = (
        f"{writer}: {len(files)} × {size / len(files):.0f} MB",
        f"{footer.row_group(0).num_rows:,}",
        *(f"{one:.2f}" for one in (took, peer, peer / took, used["ours"], used["DuckDB"])),
        f"{used['DuckDB'] / used['ours']:.2f}",
    )
    return f"| {' | '.join(cells)} |", peer / took


def main(argv: list[str] | None = None) -> int:
    """Generate, have it written, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--writers", nargs="+", choices=WRITERS, default=list(WRITERS))
    parser.add_argument("--data", type=Path, help="folder for the files, kept; otherwise a temporary one")
    parser.add_argument("--write", type=Path, help="page with a place for the table: docs/benchmarks/whole-run.md")
    parser.add_argument("--judge", action="store_true", help=f"leave with 1 where a ratio of stages is below {LEAST:g}")
    asked, ratios = parser.parse_args(argv), []
    with tempfile.TemporaryDirectory(prefix="outside-files-") as temporary:
        data = (asked.data or Path(temporary) / "data").absolute()
        records = generate(data, rows=asked.rows)
        lines = [
            f"{asked.rows:,} records; medians of {asked.rounds}, after one that warms up; {machine()}. The aim is a "
            f"ratio of {LEAST:g}.",
            "",
            "| written by | records of a row group | stages, s | DuckDB's query, s | ratio | counting, processor s | "
            "DuckDB's, processor s | ratio |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for writer in asked.writers:
            files = written(records.files, data, writer=writer, rows=asked.rows)
            work = Path(temporary) / writer
            work.mkdir()
            line, ratio = _row(writer, files, work=work, rounds=asked.rounds)
            lines.append(line)
            ratios.append(ratio)
            print(lines[-1], flush=True)
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)
    return 1 if asked.judge and min(ratios) < LEAST else 0


if __name__ == "__main__":
    raise SystemExit(main())
