"""Every record in millions of groups, counted, and a whole deletion release of them: time and most memory.

DuckDB counts them beside it, and counts, filters and writes what a release would. Each is in a process of its own. The
groups are combinations of the columns' own values; both must find as many, and all records in them.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from crowdblend.mechanisms.kernel.amounts import counted

from ..deletion_path import run
from ..generated_pages import machine, write_between
from .__main__ import PROJECT
from .census_data import COLUMNS, Column, Records, generate
from .contestants import THREADS, peak_mb

__all__ = ["main"]

STAGES: tuple[tuple[str, ...], ...] = ((), ("occupation",), ("age", "occupation"))
"""Of each stage the columns whose labels it releases instead of their values."""
DEFAULT = ("age", "occupation", "area", "marital")
OURS, DUCKDB = "ours", "DuckDB"
BY = "benchmarks.record_path.many_groups"


def _ours(folder: Path, columns: tuple[Column, ...], coarse: Sequence[str]) -> tuple[int, int]:
    """Groups and records that this project counts, by the labels of the coarse columns and the others' own values."""
    from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
    from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
    from crowdblend.tasks.counting.executors import LocalThreads
    from crowdblend.tasks.counting.group_counting import count_job, group_counts
    from crowdblend.tasks.inputs.list import list_source
    from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
    from crowdblend.tasks.readers.values import RecordReading

    finest = GeneralizationMap(
        columns=tuple(
            MappedColumn(
                name=column.name,
                hierarchy=ValueHierarchy.from_rows(
                    [(str(value), label, "*") for value, label in zip(column.values, column.labels, strict=True)]
                ),
                level=int(column.name in coarse),
            )
            for column in columns
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


def _duckdb(folder: Path, columns: tuple[Column, ...], *, least: int | None) -> tuple[int, int]:
    """Groups and records that DuckDB counts; or that it writes, of the groups of at least so many records."""
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    names = ", ".join(column.name for column in columns)
    files = {"files": str(folder / "*.parquet")}
    counted = f"SELECT {names}, count(*) AS n FROM read_parquet($files) GROUP BY ALL"  # noqa: S608
    if least is None:
        connection.execute(f"CREATE TABLE counted AS {counted}", files)
        groups, records = connection.execute("SELECT count(*), sum(n) FROM counted").fetchall()[0]
        return groups, int(records)
    with tempfile.TemporaryDirectory(prefix="many-groups-") as place:
        target = f"{place}/data.parquet"
        kept = f"{counted} HAVING count(*) >= {least}"
        connection.execute(f"COPY ({kept}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)", files)
        groups, records = connection.execute(f"SELECT count(*), sum(n) FROM '{target}'").fetchall()[0]  # noqa: S608
        return groups, int(records or 0)


def _answer(asked: argparse.Namespace, columns: tuple[Column, ...]) -> None:
    """Count once in this process, and print what it took."""
    begun, used = time.perf_counter(), time.process_time()
    if asked.answer == OURS:
        groups, records = _ours(asked.data, columns, asked.coarse)
    else:
        groups, records = _duckdb(asked.data, columns, least=asked.least)
    times = time.perf_counter() - begun, time.process_time() - used
    print(json.dumps([groups, records, *times, peak_mb()]))


def _answered(folder: Path, columns: tuple[Column, ...], name: str, *more: str) -> list[float]:
    """What one answer in a process of its own says: groups, records, seconds, processor seconds and MiB."""
    words = ["--answer", name, *more, "--data", str(folder), "--columns", *(column.name for column in columns)]
    done = subprocess.run(
        [sys.executable, "-m", BY, *words], cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True
    )
    found: list[float] = json.loads(done.stdout)
    return found


def _measured(records: Records, columns: tuple[Column, ...], *, epsilon: str, place: Path) -> tuple[list[str], float]:
    """The lines of the page, and the most MiB of a release."""
    folder = records.files[0].parent.absolute()
    lines = [
        "| | groups | seconds | processor seconds | MiB |",
        "|---|---|---|---|---|",
    ]

    def tell(name: str, groups: float, wall: float, used: float, peak: float) -> None:
        lines.append(f"| {name} | {groups:,} | {wall:.1f} | {used:.1f} | {peak:.0f} |")

    both = {name: _answered(folder, columns, name) for name in (OURS, DUCKDB)}
    groups = both[OURS][0]
    if any(one[:2] != [groups, records.rows] for one in both.values()):
        raise ValueError("the contestants don't find the same groups")
    for name, (_, _, *took) in both.items():
        tell(name, groups, *took)
    chain = [stage for stage in STAGES if set(stage) <= {column.name for column in columns}]
    every = [groups, *(_answered(folder, columns, OURS, "--coarse", *stage)[0] for stage in chain[1:])]
    noise, most = 0, 0.0
    for number in sorted({1, len(chain)}):
        own = place / f"stages-{number}"
        own.mkdir()
        levels = {one.name: f"levels = {[int(one.name in stage) for stage in chain[:number]]}" for one in columns}
        told, figures = run(records, own, form="counts", columns=columns, levels=levels, epsilon=epsilon)
        of = "" if number == 1 else f" of {counted(number, 'stage')}, with {sum(every[:number]):,} groups"
        took = [figures[one] for one in ("all", "processor", "MiB")]
        tell(f"ours: a whole deletion release{of}", told["published_groups"], *took)
        most = max(most, figures["MiB"])
        noise = noise or told["stages"][0]["largest_deletion"]
    # The noise lies as much below its mean as above.
    least = 1 + noise // 2
    written, _, *took = _answered(folder, columns, DUCKDB, "--least", str(least))
    tell(f"DuckDB: groups of {least} records or more, written", written, *took)
    head = (
        f"{records.rows:,} records in {groups:,} groups, imports included; the release's ε is {epsilon}; {machine()}."
    )
    return [head, "", *lines], most


def main(argv: list[str] | None = None) -> int:
    """Generate, measure, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument(
        "--columns", nargs="+", default=list(DEFAULT), choices=[column.name for column in COLUMNS], metavar="NAME"
    )
    parser.add_argument("--epsilon", default="4", help="of the release; where it is higher, more groups are published")
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    parser.add_argument("--write", type=Path, help="page with a place for the table")
    parser.add_argument("--most-mib", type=float, default=math.inf, help="leave with 1 where a release takes more")
    parser.add_argument("--answer", choices=(OURS, DUCKDB), help=argparse.SUPPRESS)
    parser.add_argument("--least", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--coarse", nargs="*", default=[], help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    columns = tuple(column for column in COLUMNS if column.name in asked.columns)
    if asked.answer:
        _answer(asked, columns)
        return 0
    with tempfile.TemporaryDirectory(prefix="many-groups-") as temporary:
        place = Path(temporary) / "run"
        place.mkdir()
        records = generate(asked.data or Path(temporary), rows=asked.rows)
        lines, most = _measured(records, columns, epsilon=asked.epsilon, place=place)
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)
    return 1 if most > asked.most_mib else 0


if __name__ == "__main__":
    raise SystemExit(main())
