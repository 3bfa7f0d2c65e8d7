"""Counting every record in millions of groups: time and most memory, beside DuckDB, each in a process of its own.

The groups are combinations of the columns' own values; both must find as many, and all records in them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..whole_run import machine
from .__main__ import PROJECT
from .census_data import COLUMNS, generate
from .contestants import THREADS, peak_mb

__all__ = ["main"]

DEFAULT = ("age", "sex", "state", "area")
CONTESTANTS = ("ours", "DuckDB")


def _ours(folder: Path, names: tuple[str, ...]) -> tuple[int, int]:
    from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
    from crowdblend.mechanisms.recoding import GeneralizationMap, MappedColumn
    from crowdblend.tasks.counting.chunks import plan_chunks
    from crowdblend.tasks.counting.executors import LocalThreads
    from crowdblend.tasks.counting.group_counts import count_job, group_counts
    from crowdblend.tasks.inputs.list import check_metadata, list_source
    from crowdblend.tasks.readers.values import RecordReading

    finest = GeneralizationMap(
        columns=tuple(
            MappedColumn(
                name=column.name,
                hierarchy=ValueHierarchy.from_rows([(str(value), "*") for value in column.values]),
                level=0,
            )
            for column in COLUMNS
            if column.name in names
        )
    )
    listed = list_source(str(folder / "*.parquet"), base=Path())
    chunks = plan_chunks(check_metadata(listed, columns=finest.names, reading=RecordReading(separator=",")))
    job = count_job(
        release_id="benchmark",
        sample_id=None,
        generalization=finest,
        rate=None,
        reading=RecordReading(),
        key_source=None,
    )
    found = group_counts(chunks, job=job, executor=LocalThreads(workers=THREADS))
    return found.counts.size, int(found.counts.sum())


def _duckdb(folder: Path, names: tuple[str, ...]) -> tuple[int, int]:
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    columns = ", ".join(names)
    connection.execute(
        f"CREATE TABLE counted AS SELECT {columns}, count(*) AS n FROM read_parquet($files) GROUP BY ALL",  # noqa: S608
        {"files": str(folder / "*.parquet")},
    )
    groups, records = connection.execute("SELECT count(*), sum(n) FROM counted").fetchall()[0]
    return groups, int(records)


def _answer(name: str, folder: Path, names: tuple[str, ...]) -> None:
    """Count once in this process, and print what it took."""
    begun, used = time.perf_counter(), time.process_time()
    groups, records = (_ours if name == CONTESTANTS[0] else _duckdb)(folder, names)
    times = time.perf_counter() - begun, time.process_time() - used
    print(json.dumps([groups, records, *times, peak_mb()]))


def main(argv: list[str] | None = None) -> None:
    """Generate, measure, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument(
        "--columns", nargs="+", default=list(DEFAULT), choices=[column.name for column in COLUMNS], metavar="NAME"
    )
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    parser.add_argument("--answer", choices=CONTESTANTS, help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.answer:
        _answer(asked.answer, asked.data, tuple(asked.columns))
        return
    with tempfile.TemporaryDirectory(prefix="many-groups-") as temporary:
        folder = generate(asked.data or Path(temporary), rows=asked.rows).files[0].parent.absolute()
        found = {}
        for name in CONTESTANTS:
            words = ["--answer", name, "--data", str(folder), "--columns", *asked.columns]
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.record_path.many_groups", *words],
                cwd=PROJECT,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            found[name] = json.loads(done.stdout)
    groups = found[CONTESTANTS[0]][0]
    if any(one[:2] != [groups, asked.rows] for one in found.values()):
        raise ValueError("the contestants don't find the same groups")
    print(f"{asked.rows:,} records in {groups:,} groups, imports included; {machine()}.\n")
    print("| | seconds | processor seconds | MiB |\n|---|---|---|---|")
    for name, (_, _, wall, used, peak) in found.items():
        print(f"| {name} | {wall:.2f} | {used:.2f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
