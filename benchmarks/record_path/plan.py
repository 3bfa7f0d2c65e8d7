"""What 10¹¹ records would take on a cluster, from what a record, a row group and a task cost on this machine.

Processor time is measured, which other work on the machine stretches little; the rest is arithmetic. A share of the
thread that the others wait for is that of as many records as are measured: of few it is larger.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..generated_pages import machine, write_between
from .census_data import ROW_GROUP, SMALL_ROW_GROUP, Records, generate
from .contestants import Question, ours

__all__ = ["Costs", "lines_of", "main", "speed_up"]

BY = "benchmarks.record_path.plan"
RECORDS = 10**11
TASK_RECORDS = 4 << 20
"""Of a task on worker processes, as `shared_chunks` puts row groups together."""
CLUSTERS = ((4, 16), (16, 16), (64, 16), (64, 64))
BRANCHES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What was measured; processor seconds.

    Args:
        record: of one record, drawing its coin included.
        row_group: of one row group, whatever its records.
        bytes_of_record: in the files.
        serial: share of an answer's processor time in the thread that all others wait for.
        walls: seconds of an answer, by the number of threads.
        tasks: of one empty task, by where it runs and how many there are.
    """

    record: float
    row_group: float
    bytes_of_record: float
    serial: float
    walls: dict[int, float]
    tasks: dict[tuple[str, int], float]


def speed_up(share: float, processors: int) -> float:
    """How many times faster so many processors are than one, where a share of the work stays with one (Amdahl)."""
    return 1 / (share + (1 - share) / processors)


def _answers(records: Records, *, threads: int, rounds: int) -> tuple[float, float, float]:
    """Medians of seconds, of processor seconds, and of those of the thread that asks; after one that warms up."""
    answer = ours(Question(files=tuple(map(str, records.files))), threads)
    answer()
    told = []
    for _ in range(rounds):
        begun = time.perf_counter(), time.process_time(), time.thread_time()
        answer()
        told.append((time.perf_counter() - begun[0], time.process_time() - begun[1], time.thread_time() - begun[2]))
    walls, every, own = zip(*told, strict=True)
    return statistics.median(walls), statistics.median(every), statistics.median(own)


def _empty() -> np.ndarray:
    return np.zeros(1, dtype=np.int64)


def _added(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.sum(parts, axis=0)


def _chain(tasks: int) -> tuple[dict[Any, Any], Any]:
    """A graph of empty tasks whose results are added up as the threads' counts are."""
    graph: dict[Any, Any] = {("part", place): (_empty,) for place in range(tasks)}
    last: list[Any] = []
    for step, first in enumerate(range(0, tasks, BRANCHES)):
        parts = [("part", place) for place in range(first, min(first + BRANCHES, tasks))]
        graph["sum", step] = (_added, [*last, *parts])
        last = [("sum", step)]
    return graph, last[0]


def _on_threads(tasks: int) -> float:
    from crowdblend.tasks.counting.executors import LocalThreads, computed_on_threads
    from crowdblend.tasks.counting.group_counting import GROUPS_AT_ONCE

    def run() -> None:
        for first in range(0, tasks, GROUPS_AT_ONCE):
            graph, last = _chain(min(GROUPS_AT_ONCE, tasks - first))
            computed_on_threads(graph, last, executor=LocalThreads(workers=2), on_progress=None)

    return _processor(run)


def _on_cluster(tasks: int) -> float:
    """Client, scheduler and worker in this process, so that all of their processor time counts."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def run() -> None:
            parts = [client.submit(_empty, pure=False) for _ in range(tasks)]
            while len(parts) > 1:
                parts = [client.submit(_added, parts[at : at + BRANCHES]) for at in range(0, len(parts), BRANCHES)]
            parts[0].result()

        return _processor(run)


def _processor(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measure(data: Path, *, rows: int, rounds: int, tasks: Sequence[int]) -> Costs:
    """Measure all of it; the same records in row groups of two sizes tell a record's cost from a row group's."""
    large, small = (generate(data, rows=rows, row_group=size) for size in (ROW_GROUP, SMALL_ROW_GROUP))
    walls = {threads: _answers(large, threads=threads, rounds=rounds) for threads in (1, 2)}
    of_small = _answers(small, threads=2, rounds=rounds)[1]
    groups = [len(_row_groups(records)) for records in (large, small)]
    row_group = max(0.0, (of_small - walls[2][1]) / (groups[1] - groups[0]))
    return Costs(
        record=(walls[2][1] - groups[0] * row_group) / rows,
        row_group=row_group,
        bytes_of_record=large.size / rows,
        serial=walls[2][2] / walls[2][1],
        walls={threads: found[0] for threads, found in walls.items()},
        tasks={
            (place, many): run(many) / many
            for place, run in (("threads", _on_threads), ("cluster", _on_cluster))
            for many in tasks
        },
    )


def _row_groups(records: Records) -> list[int]:
    """Records of each row group."""
    import pyarrow.parquet as pq

    footers = [pq.read_metadata(path) for path in records.files]
    return [footer.row_group(number).num_rows for footer in footers for number in range(footer.num_row_groups)]


def lines_of(costs: Costs) -> Iterator[str]:
    """The page's tables: what was measured, what follows for more processors, and for 10¹¹ records on clusters."""
    yield "| what | processor time |\n|---|---|"
    yield f"| a record | {1e9 * costs.record:.1f} ns, of {costs.bytes_of_record:.1f} bytes |"
    yield f"| a row group | {1e6 * costs.row_group:.0f} µs |"
    for (place, many), seconds in costs.tasks.items():
        yield f"| an empty task on {'a ' * (place == 'cluster')}{place}, of {many:,} | {1e6 * seconds:.0f} µs |"
    yield f"\nSeconds of an answer: {costs.walls[1]:.2f} with one thread, {costs.walls[2]:.2f} with two. The thread"
    yield f"that the others wait for has {costs.serial:.1%} of the processor time. By Amdahl's law alone, without waits"
    yield "for locks and memory, that allows\n\n| threads | times faster than one |\n|---|---|"
    for processors in (2, 16, 64):
        yield f"| {processors} | {speed_up(costs.serial, processors):.1f} |"
    scheduler = max((many, seconds) for (place, many), seconds in costs.tasks.items() if place == "cluster")[1]
    tasks = math.ceil(RECORDS / TASK_RECORDS)
    planned = tasks * scheduler
    yield f"\n{RECORDS:,} records are {RECORDS * costs.bytes_of_record / 1e9:,.0f} GB and {tasks:,} tasks, for which"
    yield f"client, scheduler and workers need {planned:,.0f} s of one processor. A release takes what its records"
    yield "need of all processors, or what the tasks need of one, whichever is more:\n"
    yield "| workers, with processors each | row groups of | records, s | tasks, s | GB/s that a worker reads |"
    yield "|---|---|---|---|---|"
    for workers, processors in CLUSTERS:
        for size in (ROW_GROUP, SMALL_ROW_GROUP):
            seconds = (RECORDS * costs.record + RECORDS / size * costs.row_group) / (workers * processors)
            rate = RECORDS * costs.bytes_of_record / 1e9 / max(seconds, planned) / workers
            yield f"| {workers} of {processors} | {size:,} | {seconds:.1f} | {planned:.1f} | {rate:.2f} |"


def main(argv: list[str] | None = None) -> None:
    """Measure, compute, print, and write the tables into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10_000, 100_000], help="empty ones")
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    parser.add_argument("--write", type=Path, help="page with a place for the tables")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="record-path-plan-") as temporary:
        costs = measure(asked.data or Path(temporary), rows=asked.rows, rounds=asked.rounds, tasks=asked.tasks)
    lines = [f"Measured with {asked.rows:,} records; {machine()}.\n", *lines_of(costs)]
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)


if __name__ == "__main__":
    main()
