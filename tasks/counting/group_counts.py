"""Group counts of the sampled records: what a worker does with its chunks, and partial counts merged in a tree.

A worker reads the key, draws its chunks' coins and counts groups; records stay where they are.
"""

from __future__ import annotations

import ctypes
import math
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.group_counts import GroupCounts, joined_counts
from ...mechanisms.recoding import GeneralizationMap
from ..inputs.list import SourceLayout
from ..kernel.counting import (
    BlockCounts,
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
from ..readers.file_source import FileSource
from ..readers.values import RecordReading
from .chunks import Chunk, group_chunks, shared_chunks, with_quote_states
from .executors import Executor, LocalThreads, OnProgress, computed, computed_on_threads, tasks_at_once

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

    from ...mechanisms.kernel.contributions import ContributionLimit

__all__ = [
    "GROUPS_AT_ONCE",
    "count_chunks",
    "count_job",
    "counting_graph",
    "counts_of_frame",
    "frame_of_counts",
    "group_counts",
    "merged_counts",
    "partial_counts",
    "require_room",
    "room_bytes",
]

_GIB = 1 << 30
_NUMBER_BYTES = 8
_FEW_GROUPS = 1 << 20
"""So many groups take less memory than reading the records does."""
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


@naming_kinds_only
def count_chunks(chunks: tuple[Chunk, ...], *, job: CountJob) -> pd.DataFrame:
    """Return what was counted as a partition of a Dask dataframe, with its blocks: int64 columns key0 … and count."""
    return frame_of_counts(marked(counted_blocks(chunks, job=job)))


def require_room(layout: SourceLayout, *, maps: Sequence[GeneralizationMap]) -> None:
    """Refuse records that may have more distinct groups than there is memory for; only metadata is looked at.

    There are no more groups than combinations of labels, nor than records; CSV has at least a byte for each field, but
    for compressed CSV, of which nothing is known. Of each group of the first map key and count are in memory, with five
    more numbers while records are deleted and labels put together, or twice with one more; and of each group of a later
    stage a key and four numbers.

    Args:
        layout: the files of the records.
        maps: the maps of the stages, at least one, the finest first.

    Raises:
        InputRefused: the groups may need more than CROWDBLEND_MEMORY says, or half of this machine's memory.
    """
    records = layout.records
    if records is None and layout.n_bytes:
        records = layout.n_bytes // len(maps[0].columns)
    groups = [one.cells if records is None else min(records, one.cells) for one in maps]
    numbers = groups[0] * max(2 * maps[0].key_words + 3, maps[0].key_words + 6)
    numbers += sum(many * (one.key_words + 4) for many, one in zip(groups[1:], maps[1:], strict=True))
    needed, room = numbers * _NUMBER_BYTES, room_bytes()
    if groups[0] > _FEW_GROUPS and needed > room:
        raise InputRefused(
            f"there may be so many distinct groups that they need {_rounded(needed)} GiB of memory, and "
            f"{room / _GIB:.3g} GiB are meant for them.",
            where="[columns]",
            remedy="Begin with coarser levels or fewer columns; or, where there is more memory or there are surely "
            f"fewer groups, set CROWDBLEND_MEMORY to {_rounded(needed)}.",
        )


def _rounded(n_bytes: int) -> int:
    """GiB, the next power of two. PRIVACY: the number of records, which decides it, is told to its order alone."""
    return 1 << max(0, (-(-n_bytes // _GIB) - 1).bit_length())


def room_bytes() -> float:
    """Bytes that groups may take: what the steward says, or half of what the machine or container has.

    Raises:
        InputRefused: what the steward says is no number of GiB.
    """
    said = os.environ.get("CROWDBLEND_MEMORY")
    if said is not None:
        try:
            gib = float(said)
        except ValueError:
            gib = math.nan
        if not 0 < gib < math.inf:
            raise InputRefused(
                "this is no number of GiB above 0.", where="CROWDBLEND_MEMORY", remedy="Write, for example, 4 or 0.5."
            )
        return gib * _GIB
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such file, or "max"
        machine = min(machine, int(_CONTAINER_LIMIT.read_text(encoding="ascii")))
    return machine / 2


def frame_of_counts(groups: GroupCounts) -> pd.DataFrame:
    """Partial counts as a partition of a Dask dataframe: columns key0 … and count, all int64."""
    import pandas as pd  # its import takes longer than counting a few million records

    columns = {f"key{word}": values for word, values in enumerate(groups.keys)}
    return pd.DataFrame({**columns, "count": groups.counts})


def counts_of_frame(frame: pd.DataFrame) -> GroupCounts:
    """The inverse of `frame_of_counts`; where frames were put together, groups may repeat."""
    key_words = [frame[name].to_numpy(dtype=np.int64) for name in frame.columns if name != "count"]
    return GroupCounts(np.array(key_words, dtype=np.int64), frame["count"].to_numpy(dtype=np.int64))


_SPLIT_EVERY = 8
_STEPS_AHEAD = 2
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
) -> CountJob:
    """Describe the counting of one release; every call makes a job whose tasks are its own.

    Args:
        release_id: id of the release.
        sample_id: `sample_commitment` of the key, as in the ledger; None where every record is counted.
        generalization: the map.
        rate: sampling rate; None counts every record.
        reading: how the records are read.
        key_source: where workers read the key; None where every record is counted.
        limit: how many records of a person count; None where all do.

    Raises:
        ValueError: a rate or limit without a sample and its key, or a sample or key without either.
    """
    source = FileSource(columns=generalization.columns, reading=reading, person=None if limit is None else limit.column)
    return CountJob(
        release_id=release_id,
        token=uuid.uuid4().hex,
        sample_id=sample_id,
        layout=generalization.layout,
        rate=rate,
        source=source,
        key_source=key_source,
        limit=limit,
    )


def partial_counts(groups: Sequence[tuple[Chunk, ...]], *, job: CountJob) -> dd.DataFrame:
    """A lazy Dask dataframe with one partition per group of chunks: columns key0 … and count.

    Args:
        groups: at least one; how chunks are grouped changes no coin.
        job: map, rate, and the place of the key.
    """
    import dask
    import dask.dataframe as dd

    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(
            count_chunks,
            list(groups),
            job=job,
            meta=frame_of_counts(empty_counts(job.layout.key_words)),
            label=f"count-{job.release_id}",
            enforce_metadata=False,
        )


def merged_counts(partial: dd.DataFrame, *, split_every: int = _SPLIT_EVERY) -> dd.DataFrame:
    """Add up partial counts in a tree; one partition, groups ascending.

    Args:
        partial: as `partial_counts`.
        split_every: branches of the tree.
    """
    return partial.reduction(
        chunk=_unchanged,
        combine=_merged,
        aggregate=_merged,
        meta=partial._meta,
        split_every=split_every,
    )


def group_counts(
    chunks: Sequence[Chunk], *, job: CountJob, executor: Executor, on_progress: OnProgress | None = None
) -> GroupCounts:
    """Count the sampled records of every group.

    PRIVACY: the result still has the groups below the threshold; it goes to `suppress` and nowhere else.

    Args:
        chunks: as `plan_chunks`.
        job: as `count_job`.
        executor: where the work is done.
        on_progress: called with the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records cannot be read, or the workers were lost.
    """
    if not chunks:
        return empty_counts(job.layout.key_words)
    chunks = with_quote_states(chunks, executor=executor, on_progress=on_progress)
    if isinstance(executor, LocalThreads):
        groups, total = group_chunks(chunks), (list[GroupCounts](), list[NDArray[np.int64]]())
        for first in range(0, len(groups), GROUPS_AT_ONCE):
            those = groups[first : first + GROUPS_AT_ONCE]
            told = on_progress and partial(_told_in_all, on_progress, groups=(first, len(those), len(groups)))
            graph, last = counting_graph(those, job=job, total=total)
            total = computed_on_threads(graph, last, executor=executor, on_progress=told)
        counts, blocks = total
        require_every_block(np.concatenate(blocks), chunks)
        return _joined(counts)
    shared = shared_chunks(chunks, workers=tasks_at_once(executor))
    frame = merged_counts(partial_counts(shared, job=job))
    sum_of_all = unmarked(counts_of_frame(computed(frame, executor=executor, on_progress=on_progress)))
    require_every_block(sum_of_all.blocks, chunks)
    return sum_of_all.counts


def _told_in_all(on_progress: OnProgress, done: int, tasks: int, *, groups: tuple[int, int, int]) -> None:
    """Tell how many groups of chunks are counted, from the tasks of those that are counted now.

    Args:
        on_progress: told.
        done: tasks that are done.
        tasks: of how many.
        groups: how many are counted already, how many are counted now, and all.
    """
    before, now, every = groups
    on_progress(before + now * done // max(tasks, 1), every)


def counting_graph(
    groups: Sequence[tuple[Chunk, ...]], *, job: CountJob, total: Total, together: int = _SPLIT_EVERY
) -> tuple[dict[Any, Any], Any]:
    """What `partial_counts` adds to a sum in blocks, as a Dask graph without dataframes.

    Importing `dask.dataframe` takes longer than counting ten million records; threads can share arrays.

    Each step adds the counts of the next few groups of chunks to the sum of all before. Of a tree, whose branches wait
    for one another, several partial sums would be in memory at once, each with nearly all groups. Chunks are counted
    for no more than two steps at a time: where there are millions of groups, adding takes longer than counting.

    Args:
        groups: at least one, of `GROUPS_AT_ONCE` at most: the memory in which Dask orders a graph as deep as this one
            grows with the square of its tasks.
        job: as `count_job`.
        total: as `add_block_counts`; used up.
        together: how many are added in a step.

    Returns:
        The graph, and the key of its result, which is the new sum in blocks.
    """
    name = "-".join(job.__dask_tokenize__())
    parts = [(name, 0, place) for place in range(len(groups))]
    graph: dict[Any, Any] = {}
    adding: tuple[Any, ...] = (partial(add_block_counts, total),)
    for step, first in enumerate(range(0, len(parts), together)):
        those = slice(first, first + together)
        for key, group in zip(parts[those], groups[those], strict=True):
            counted = partial(counted_blocks, group, job=job)
            graph[key] = (counted,) if step < _STEPS_AHEAD else (_after, counted, (name, 2, step - _STEPS_AHEAD))
        graph[name, 1, step] = (*adding, parts[those])
        adding = (add_block_counts, (name, 1, step))
        if first + _STEPS_AHEAD * together < len(parts):
            graph[name, 2, step] = (_done, (name, 1, step))
    return graph, adding[1]


def _after(counted: Callable[[], BlockCounts], _earlier: None) -> BlockCounts:
    return counted()


def _done(_sum: Total) -> None:
    """An earlier step is done; what waits for this does not keep its sum in memory."""


def _joined(total: list[GroupCounts]) -> GroupCounts:
    """The blocks of the sum as one, and what they and their parts needed given back to the system."""
    many = len(total) > 1
    counts = joined_counts(total)
    if many:
        _give_back_memory()
    return counts


def _give_back_memory() -> None:
    """Give the system what is free: the C library keeps what threads have freed, for each of them."""
    with suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)


def _unchanged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@naming_kinds_only
def _merged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame_of_counts(marked(unmarked(counts_of_frame(frame))))
