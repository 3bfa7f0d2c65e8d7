"""Group counts of the sampled records: partial counts by Dask, merged in a tree."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.suppression import GroupCounts, merge_counts, sum_counts
from .chunk_counts import (
    CountJob,
    KeySource,
    count_chunks,
    counted_chunks,
    counts_of_frame,
    empty_counts,
    frame_of_counts,
)
from .chunks import Chunk, group_chunks, shared_chunks
from .executors import Advanced, Executor, LocalThreads, computed, computed_on_threads, tasks_at_once
from .quote_states import with_quote_states
from .record_reading import RecordReading
from .worker_faults import telling_kinds_only

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

__all__ = ["count_job", "counting_graph", "group_counts", "merged_counts", "partial_counts"]

_SPLIT_EVERY = 8


def count_job(
    *,
    release_id: str,
    sample_id: str | None,
    generalization: GeneralizationMap,
    rate: Decimal | None,
    reading: RecordReading,
    key_source: KeySource | None,
) -> CountJob:
    """Describe the counting of one release; every call makes a job whose tasks are its own.

    Args:
        release_id: id of the release.
        sample_id: `sample_commitment` of the key, as in the ledger; None where every record is counted.
        generalization: the map.
        rate: sampling rate; None counts every record.
        reading: how the records are read.
        key_source: where workers read the key; None where every record is counted.

    Raises:
        ValueError: a rate without a sample and its key, or a sample or key without a rate.
    """
    return CountJob(
        release_id=release_id,
        token=uuid.uuid4().hex,
        sample_id=sample_id,
        map=generalization,
        rate=rate,
        reading=reading,
        key_source=key_source,
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
            meta=frame_of_counts(empty_counts(job.map.words)),
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
    chunks: Sequence[Chunk], *, job: CountJob, executor: Executor, advanced: Advanced | None = None
) -> GroupCounts:
    """Count the sampled records of every group.

    PRIVACY: the result still has the groups below the threshold; it goes to `suppress` and nowhere else.

    Args:
        chunks: as `plan_chunks`.
        job: as `count_job`.
        executor: where the work is done.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records cannot be read, or the workers were lost.
    """
    if not chunks:
        return empty_counts(job.map.words)
    chunks = with_quote_states(chunks, executor=executor, advanced=advanced)
    if isinstance(executor, LocalThreads):
        graph, last = counting_graph(group_chunks(chunks), job=job)
        counts: GroupCounts = computed_on_threads(graph, last, executor=executor, advanced=advanced)
        return counts
    shared = shared_chunks(chunks, workers=tasks_at_once(executor))
    frame = merged_counts(partial_counts(shared, job=job))
    return counts_of_frame(computed(frame, executor=executor, advanced=advanced))


def counting_graph(
    groups: Sequence[tuple[Chunk, ...]], *, job: CountJob, split_every: int = _SPLIT_EVERY
) -> tuple[dict[Any, Any], Any]:
    """The same tree as of `partial_counts` and `merged_counts`, as a Dask graph without dataframes.

    Importing `dask.dataframe` takes longer than counting ten million records; threads can share arrays.

    Args:
        groups: at least one.
        job: as `count_job`.
        split_every: branches of the tree.

    Returns:
        The graph, and the key of its result.
    """
    name = "-".join(job.__dask_tokenize__())
    level = [(name, 0, place) for place in range(len(groups))]
    graph: dict[Any, Any] = {
        key: (partial(counted_chunks, group, job=job),) for key, group in zip(level, groups, strict=True)
    }
    while len(level) > 1:
        depth = level[0][1] + 1
        above = [(name, depth, place) for place in range(-(-len(level) // split_every))]
        for key in above:
            below = level[key[2] * split_every : (key[2] + 1) * split_every]
            graph[key] = (merge_counts, below)
        level = above
    return graph, level[0]


def _unchanged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@telling_kinds_only
def _merged(frame: pd.DataFrame) -> pd.DataFrame:
    counts = counts_of_frame(frame)
    return frame_of_counts(sum_counts(counts.keys, counts.counts))
