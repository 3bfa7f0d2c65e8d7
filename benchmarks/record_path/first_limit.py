"""A release of 10¹¹ records on 64 workers: what each part of it would take, and which part reaches its limit first.

Costs are measured on this machine; the workers are assumed, and stand in the page. Every task is taken to meet every
group, as far as it has records: the most that can travel. Nothing of it was run on 64 workers.
"""

from __future__ import annotations

import argparse
import math
import pickle
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..generated_pages import machine, write_between
from .census_data import ROW_GROUP, SMALL_ROW_GROUP
from .plan import BRANCHES, RECORDS, TASK_RECORDS, Costs, measure

__all__ = ["Assumed", "Part", "Travel", "lines_of", "main", "memory_limit", "parts_of"]

BY = "benchmarks.record_path.first_limit"
GROUPS = (10**4, 10**6, 10**7, 10**8)
FILE_RECORDS = 10**7


@dataclass(frozen=True, kw_only=True, slots=True)
class Travel:
    """What was measured of the work that isn't done on records.

    Args:
        file: processor seconds of the client for a file of the source.
        row_group: and for one of its row groups.
        told_row_group: bytes by which a worker is told of a row group, through the scheduler.
        sent_group: bytes of one group's count, as one worker sends it to another.
        merged_group: processor seconds of one group's count in one of the counts that are added up.
        memory_group: bytes of memory, of the same, at the most that adding them up needs.
    """

    file: float
    row_group: float
    told_row_group: float
    sent_group: float
    merged_group: float
    memory_group: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumed:
    """The machines; the client's and the scheduler's are as each of the workers'."""

    workers: int = 64
    processors: int = 16
    memory: float = 64e9
    network: float = 1.25e9
    storage: float = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part of a release: seconds, and what keeps it from being faster."""

    name: str
    seconds: float
    held_by: str


def _levels(groups: int) -> Iterator[tuple[int, int, int]]:
    """Of each level of the tree of sums: how many are made, from how many, and the groups of each that goes in."""
    parts, records = math.ceil(RECORDS / TASK_RECORDS), TASK_RECORDS
    while parts > 1:
        made = math.ceil(parts / BRANCHES)
        yield made, parts, min(groups, records)
        parts, records = made, records * BRANCHES


def parts_of(costs: Costs, travel: Travel, assumed: Assumed, *, groups: int, row_group: int) -> list[Part]:
    """Return all parts of a release, one after the other, as if none of them overlapped."""
    row_groups, files, tasks = RECORDS / row_group, RECORDS / FILE_RECORDS, math.ceil(RECORDS / TASK_RECORDS)
    everywhere = assumed.workers * assumed.processors
    scheduler = max((many, cost) for (place, many), cost in costs.tasks.items() if place == "cluster")[1]
    sending = adding = 0.0
    for made, parts, each in _levels(groups):
        all_bytes = parts * each * travel.sent_group
        # A sum is made by one worker, which gets all but one of its parts over its own link.
        busiest = min(parts, BRANCHES) * math.ceil(made / assumed.workers) * each * travel.sent_group
        sending += max(all_bytes / assumed.workers, busiest) / assumed.network
        adding += parts * each * travel.merged_group / min(made, everywhere)
    return [
        Part(
            name="the files' footers",
            seconds=files * travel.file + row_groups * travel.row_group,
            held_by="one processor of the client",
        ),
        Part(
            name="telling the workers of row groups",
            seconds=row_groups * travel.told_row_group / assumed.network,
            held_by="the scheduler's link",
        ),
        Part(
            name="reading the files",
            seconds=RECORDS * costs.bytes_of_record / assumed.workers / assumed.storage,
            held_by="storage",
        ),
        Part(
            name="counting",
            seconds=(RECORDS * costs.record + row_groups * costs.row_group) / everywhere,
            held_by="all processors",
        ),
        Part(name="scheduling tasks", seconds=tasks * scheduler, held_by="one processor of the scheduler"),
        Part(name="sending counts", seconds=sending, held_by="the workers' links"),
        Part(name="adding counts up", seconds=adding, held_by="processors, one for each sum"),
    ]


def memory_of(travel: Travel, assumed: Assumed, *, groups: int) -> float:
    """Return the most memory of a worker, bytes: as many sums at once as it has processors or sums to make."""
    return max(
        min(math.ceil(made / assumed.workers), assumed.processors) * min(parts, BRANCHES) * each * travel.memory_group
        for made, parts, each in _levels(groups)
    )


def memory_limit(travel: Travel, assumed: Assumed) -> int:
    """Return the least number of groups, to two digits, for which a worker's memory doesn't do; 0 where any does."""
    sizes = [digits * 10**power for power in range(3, 10) for digits in range(10, 100)]
    return next((size for size in sizes if memory_of(travel, assumed, groups=size) > assumed.memory), 0)


def _processor(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _looked_at(folder: Path, *, files: int, row_groups: int) -> tuple[float, float]:
    """Processor seconds of a look at the metadata of files, and bytes in which a worker is told of one row group."""
    from crowdblend.tasks.inputs.list import list_source
    from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
    from crowdblend.tasks.readers.values import RecordReading

    place = folder / f"{files}-{row_groups}"
    place.mkdir()
    columns = {name: np.arange(row_groups, dtype=np.int64) % 5 for name in ("age", "area", "marital")}
    pq.write_table(pa.table(columns), place / "0.parquet", row_group_size=1)
    for number in range(1, files):
        (place / f"{number}.parquet").write_bytes((place / "0.parquet").read_bytes())
    chunks: list[Any] = []

    def look() -> None:
        listed = list_source(str(place / "*.parquet"), base=Path())
        chunks[:] = plan_chunks(check_metadata(listed, columns=tuple(columns), reading=RecordReading(separator=",")))

    look()
    seconds = _processor(look)
    return seconds, len(pickle.dumps(tuple(chunks[:row_groups]))) / row_groups


def measure_travel(*, groups: int) -> Travel:
    """Measure all of it, with eight sums of so many groups, each of which is in half of them."""
    from crowdblend.mechanisms.kernel.group_counts import GroupCounts, merge_counts
    from crowdblend.tasks.counting.count_frames import frame_of_counts
    from distributed.protocol import serialize

    with tempfile.TemporaryDirectory(prefix="first-limit-") as temporary:
        few, many = 50, 1000
        one_each, told = _looked_at(Path(temporary), files=many, row_groups=1)
        in_few, told = _looked_at(Path(temporary), files=few, row_groups=many)
    row_group = max(0.0, (in_few - few * one_each / many) / (few * (many - 1)))
    generator = np.random.default_rng(3)
    # Keys are combinations of labels, most of which no record has.
    parts = []
    for _ in range(BRANCHES):
        keys = np.flatnonzero(generator.random(2 * groups) < 0.5).astype(np.int64) * 1009
        parts.append(GroupCounts(keys[None, :], np.ones(keys.size, dtype=np.int64)))
    entries = sum(part.counts.size for part in parts)
    _, frames = serialize(frame_of_counts(parts[0]))
    merged = _processor(lambda: merge_counts(parts))
    tracemalloc.start()
    merge_counts([GroupCounts(part.keys.copy(), part.counts.copy()) for part in parts])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Travel(
        file=max(0.0, one_each / many - row_group),
        row_group=row_group,
        told_row_group=told,
        sent_group=sum(memoryview(frame).nbytes for frame in frames) / parts[0].counts.size,
        merged_group=merged / entries,
        memory_group=peak / entries,
    )


def lines_of(costs: Costs, travel: Travel, assumed: Assumed) -> Iterator[str]:
    """Return the page's tables: what was measured, each part's seconds, and what reaches its limit first."""
    yield "| what | measured |\n|---|---|"
    yield f"| a record, counted | {1e9 * costs.record:.1f} ns, of {costs.bytes_of_record:.1f} bytes |"
    yield f"| a row group, counted | {1e6 * costs.row_group:.0f} µs |"
    yield f"| a file's footer, at the client | {1e6 * travel.file:.0f} µs |"
    yield f"| a row group in a footer, at the client | {1e6 * travel.row_group:.1f} µs |"
    yield f"| a row group in what a worker is told | {travel.told_row_group:.0f} bytes |"
    yield f"| a group's count, sent | {travel.sent_group:.0f} bytes |"
    yield f"| a group's count, added to others | {1e9 * travel.merged_group:.0f} ns, {travel.memory_group:.0f} bytes |"
    yield (
        f"\nAssumed: {assumed.workers} workers of {assumed.processors} processors, {assumed.memory / 1e9:.0f} GB, "
        f"{8 * assumed.network / 1e9:.0f} Gbit/s to each other and {assumed.storage / 1e9:.0f} GB/s from storage; "
        f"client and scheduler on machines like these; files of {FILE_RECORDS:,} records.\n"
    )
    for row_group in (ROW_GROUP, SMALL_ROW_GROUP):
        columns = [parts_of(costs, travel, assumed, groups=groups, row_group=row_group) for groups in GROUPS]
        yield f"Row groups of {row_group:,}; seconds of {RECORDS:,} records, by the number of groups:\n"
        yield "| part | held up by | " + " | ".join(f"{groups:,}" for groups in GROUPS) + " |"
        yield "|---|---|" + "---|" * len(GROUPS)
        for same in zip(*columns, strict=True):
            seconds = " | ".join(f"{part.seconds:,.1f}" for part in same)
            yield f"| {same[0].name} | {same[0].held_by} | {seconds} |"
        yield (
            "| all, one after the other | | "
            + " | ".join(f"{sum(part.seconds for part in parts):,.0f}" for parts in columns)
            + " |"
        )
        memory = [memory_of(travel, assumed, groups=groups) for groups in GROUPS]
        yield "| most memory of a worker | GB | " + " | ".join(f"{used / 1e9:,.1f}" for used in memory) + " |"
        first = [
            "a worker's memory" if used > assumed.memory else max(parts, key=lambda part: part.seconds).name
            for used, parts in zip(memory, columns, strict=True)
        ]
        yield "| **reaches its limit first** | | " + " | ".join(first) + " |\n"
    least = memory_limit(travel, assumed)
    yield (
        f"A worker's memory doesn't do from {least:,} groups on. What is longest above is what more workers don't make "
        "shorter, unless it is held up by all processors, by storage or by the workers' links."
        if least
        else "A worker's memory does for any number of groups."
    )


def main(argv: list[str] | None = None) -> None:
    """Measure, compute, print, and write the tables into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=10_000, help="empty ones")
    parser.add_argument("--groups", type=int, default=2_000_000, help="of each of the sums that are added up")
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    parser.add_argument("--write", type=Path, help="page with a place for the tables")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="first-limit-") as temporary:
        costs = measure(asked.data or Path(temporary), rows=asked.rows, rounds=asked.rounds, tasks=[asked.tasks])
    travel = measure_travel(groups=asked.groups)
    lines = [f"Measured with {asked.rows:,} records; {machine()}.\n", *lines_of(costs, travel, Assumed())]
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)


if __name__ == "__main__":
    main()
