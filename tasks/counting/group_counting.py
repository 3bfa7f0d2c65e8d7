"""Group counts of the sampled records: what a worker does with its chunks, and partial counts merged in a tree.

A worker reads the key, draws its chunks' coins and counts groups; records stay where they are.
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.group_counts import GroupCounts, joined_counts
from ..kernel.counting import (
    BlockCounts,
    Counting,
    CountJob,
    KeySource,
    add_block_counts,
    counted_blocks,
    empty_counts,
    marked,
    naming_kinds_only,
    require_every_block,
    unmarked,
)
from ..readers.file_formats import Chunk, group_chunks, shared_chunks
from ..readers.file_source import FileSource
from ..readers.values import RecordReading
from .count_frames import counts_of_frame, frame_of_counts, merged_counts
from .executors import (
    SPLIT_EVERY,
    Executor,
    LocalThreads,
    OnProgress,
    computed,
    computed_on_threads,
    frame_of_tasks,
    tasks_at_once,
)
from .quote_states import with_quote_states

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

    from ...mechanisms.kernel.contributions import ContributionLimit
    from ...mechanisms.unit_records import UnitRule


@naming_kinds_only
def count_chunks(chunks: tuple[Chunk, ...], *, job: CountJob) -> pd.DataFrame:
    """Return what was counted as a partition of a Dask dataframe, with its blocks: int64 columns key0 … and count."""
    return frame_of_counts(marked(counted_blocks(chunks, job=job)))


_STEPS_AHEAD = 2
_FEW_CELLS = 1 << 22
_NARROW_CELLS = 1 << 32
Total = tuple[list[GroupCounts], list[NDArray[np.int64]]]
"""A sum in ranges of keys, and the blocks that it was counted from."""
GROUPS_AT_ONCE = 1 << 10
"""Groups of chunks that threads count before they begin with the next ones."""


def count_job(
    *,
    release_id: str,
    sample_id: str | None,
    generalization: GeneralizationMap,
    rate: Decimal | None,
    reading: RecordReading,
    key_source: KeySource | None,
    limit: ContributionLimit | None = None,
    unit_rule: UnitRule | None = None,
    with_members: bool = False,
) -> CountJob:
    """Describe the counting of one release; every call makes a job whose tasks are its own. Arguments: `counting_of`.

    Raises:
        ValueError: a rate or limit without a sample and its key, or a sample or key without either.
    """
    counting = counting_of(
        generalization, reading=reading, rate=rate, limit=limit, unit_rule=unit_rule, with_members=with_members
    )
    return CountJob(
        release_id=release_id,
        token=uuid.uuid4().hex,
        sample_id=sample_id,
        layout=counting.layout,
        rate=rate,
        source=counting.source,
        key_source=key_source,
        limit=limit,
        units=counting.units,
    )


def counting_of(
    generalization: GeneralizationMap,
    *,
    reading: RecordReading,
    rate: Decimal | None,
    limit: ContributionLimit | None,
    rates: tuple[Decimal, ...] | None = None,
    unit_rule: UnitRule | None = None,
    with_members: bool = False,
) -> Counting:
    """Return how files are counted by a map.

    Args:
        rates: of each code of the map's last column, where that says the rate of each record.
        unit_rule: by which each unit's records make one; None where they count as they are.
        with_members: whether a unit's key has the codes of the members that the rule publishes besides.
    """
    person = None if limit is None else limit.column
    columns = generalization.columns if unit_rule is None else unit_rule.members
    units = None if unit_rule is None else unit_rule.records(generalization, with_members=with_members)
    return Counting(
        layout=generalization.layout if units is None else units.layout,
        source=FileSource(columns=columns, reading=reading, person=person),
        rate=rate,
        limit=limit,
        rates=rates,
        units=units,
    )


def partial_counts(groups: Sequence[tuple[Chunk, ...]], *, job: CountJob) -> dd.DataFrame:
    """Return a lazy Dask dataframe with one partition per group of chunks: columns key0 … and count."""
    meta = frame_of_counts(empty_counts(job.layout.key_words))
    return frame_of_tasks(count_chunks, groups, job=job, meta=meta, label=f"count-{job.release_id}")


def group_counts(
    chunks: Sequence[Chunk], *, job: CountJob, executor: Executor, on_progress: OnProgress | None = None
) -> GroupCounts:
    """Count the sampled records of every group, as `block_counts`, and see that every block is counted once."""
    total = block_counts(chunks, job=job, executor=executor, on_progress=on_progress)
    require_every_block(total.blocks, chunks)
    return total.counts


def block_counts(
    chunks: Sequence[Chunk], *, job: CountJob, executor: Executor, on_progress: OnProgress | None = None
) -> BlockCounts:
    """Return the counts of the sampled records of every group, and the blocks that they were counted from.

    PRIVACY: the result still has the groups below the threshold; it goes to the gate and nowhere else.

    Raises:
        ReleaseFailed: the records cannot be read, or the workers were lost.
    """
    if not chunks:
        return BlockCounts(empty_counts(job.layout.key_words), np.empty(0, dtype=np.int64))
    if job.limit is not None:
        from .person_counts import person_counts  # of releases with such a limit alone

        return person_counts(chunks, job=job, executor=executor, on_progress=on_progress)
    chunks = with_quote_states(chunks, executor=executor, on_progress=on_progress)
    if isinstance(executor, LocalThreads):
        # Where there may be millions of groups the counts of larger tasks would take more memory than they save time.
        few = job.layout.cells <= _FEW_CELLS
        groups = shared_chunks(chunks, workers=tasks_at_once(executor)) if few else group_chunks(chunks)
        total = list[GroupCounts](), list[NDArray[np.int64]]()
        # Dask's memory for ordering grows with the square of a deep graph's tasks, hence graphs of a thousand groups.
        for first in range(0, len(groups), GROUPS_AT_ONCE):
            those = groups[first : first + GROUPS_AT_ONCE]
            overall = on_progress and partial(_overall_progress, on_progress, groups=(first, len(those), len(groups)))
            graph, last = counting_graph(those, job=job, total=total)
            total = computed_on_threads(graph, last, executor=executor, on_progress=overall)
        counts, blocks = total
        return BlockCounts(_joined(counts), np.concatenate(blocks))
    shared = shared_chunks(chunks, workers=tasks_at_once(executor))
    frame = merged_counts(partial_counts(shared, job=job))
    return unmarked(counts_of_frame(computed(frame, executor=executor, on_progress=on_progress)))


def _overall_progress(on_progress: OnProgress, done: int, tasks: int, *, groups: tuple[int, int, int]) -> None:
    """Tell how many groups of chunks are counted, from the tasks of those that are counted now."""
    before, now, every = groups
    on_progress(before + now * done // max(tasks, 1), every)


def counting_graph(
    groups: Sequence[tuple[Chunk, ...]], *, job: CountJob, total: Total, together: int = SPLIT_EVERY
) -> tuple[dict[Any, Any], Any]:
    """Return what `partial_counts` adds to a sum in blocks, as a Dask graph without dataframes.

    Importing `dask.dataframe` takes longer than counting ten million records; threads can share arrays.

    Each step adds the counts of the next few groups of chunks to the sum of all before. Of a tree, whose branches wait
    for one another, several partial sums would be in memory at once, each with nearly all groups. Chunks are counted
    for no more than two steps at a time: where there are millions of groups, adding takes longer than counting.

    Args:
        groups: at least one, of `GROUPS_AT_ONCE` at most: the memory in which Dask orders a graph as deep as this one
            grows with the square of its tasks.

    Returns:
        The graph, and the key of its result, which is the new sum in blocks.
    """
    name = "-".join(job.__dask_tokenize__())
    parts = [(name, 0, place) for place in range(len(groups))]
    graph: dict[Any, Any] = {}
    adding: tuple[Any, ...] = (partial(_added, total),)
    for step, first in enumerate(range(0, len(parts), together)):
        those = slice(first, first + together)
        for key, group in zip(parts[those], groups[those], strict=True):
            counted = partial(_counted_narrowly, group, job=job)
            # Counting waits for the sum of two steps before, so that few partial counts lie in memory at once.
            graph[key] = (counted,) if step < _STEPS_AHEAD else (_after, counted, (name, 2, step - _STEPS_AHEAD))
        graph[name, 1, step] = (*adding, parts[those])
        adding = (_added, (name, 1, step))
        if first + _STEPS_AHEAD * together < len(parts):
            graph[name, 2, step] = (_done, (name, 1, step))
    return graph, adding[1]


def _counted_narrowly(group: tuple[Chunk, ...], *, job: CountJob) -> BlockCounts:
    """Return what was counted of some chunks in the narrowest types, since several of these wait to be added up."""
    (keys, counts), blocks = counted_blocks(group, job=job)
    narrow: NDArray[Any] = keys.astype(np.uint32) if job.layout.cells <= _NARROW_CELLS else keys
    count_type: np.dtype[Any] = np.min_scalar_type(counts.max(initial=0))
    return BlockCounts(GroupCounts(narrow, counts.astype(count_type)), blocks)


def _added(total: Total, parts: Sequence[BlockCounts]) -> Total:
    """Return `add_block_counts`; where there are millions of groups, memory that is free goes back after each step."""
    added = add_block_counts(total, parts)
    if len(added[0]) > 1:
        _give_back_memory()
    return added


def _after(counted: Callable[[], BlockCounts], _earlier: None) -> BlockCounts:
    return counted()


def _done(_sum: Total) -> None:
    """Tell that an earlier step is done: what waits for this does not keep its sum in memory."""


def _joined(total: list[GroupCounts]) -> GroupCounts:
    """Return the blocks of the sum as one, and what they and their parts needed given back to the system."""
    many = len(total) > 1
    counts = joined_counts(total)
    if many:
        _give_back_memory()
    return counts


def _give_back_memory() -> None:
    """Give the system what is free: the C library keeps what threads have freed, for each of them."""
    with suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)
