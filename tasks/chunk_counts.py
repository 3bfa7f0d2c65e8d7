"""What a worker does: read the key, draw its chunks' coins, count groups; records stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.refusal import ReleaseFailed
from ..mechanisms.sampling import sample_commitment
from ..mechanisms.suppression import GroupCounts, count_keys, merge_counts
from .chunks import Chunk, CsvChunk, ParquetChunk
from .column_codes import ColumnCoder
from .csv_records import csv_keys
from .parquet_records import parquet_keys
from .record_reading import RecordReading
from .worker_faults import telling_kinds_only

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CountJob",
    "KeySource",
    "count_chunks",
    "counted_chunks",
    "counts_of_frame",
    "empty_counts",
    "frame_of_counts",
]

_KEYS_AT_ONCE = 1 << 21


class KeySource(Protocol):
    """Where a worker finds the secret; the object travels through the graph and has none of it."""

    def load(self) -> bytes:
        """The key, from the private store or from the memory of the worker."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class CountJob:
    """All that a task needs to know besides its chunks.

    PRIVACY: this object is part of the graph, which the scheduler holds; it must never carry the key.

    Args:
        release_id: id of the release.
        token: unique to this computation; with the release id it is part of every task's key, because Dask
            takes two tasks of one key for the same and would let two releases share a sample.
        sample_id: the ledger's name of the sample; another key is refused. None where every record is counted.
        map: the generalization map.
        rate: sampling rate; None counts every record and needs no key.
        reading: how the records are read.
        key_source: where the key lies; None where every record is counted.

    Raises:
        ValueError: a rate without a sample and its key, or a sample or key without a rate.
    """

    release_id: str
    token: str
    sample_id: str | None
    map: GeneralizationMap
    rate: Decimal | None
    reading: RecordReading
    key_source: KeySource | None = field(repr=False)

    def __post_init__(self) -> None:
        if not (self.rate is None) == (self.sample_id is None) == (self.key_source is None):
            raise ValueError("a rate, a sample and its key go together; without a rate every record is counted")

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        """What stands for this job in the names of tasks."""
        return ("crowdblend-count", self.release_id, self.token)


@telling_kinds_only
def count_chunks(chunks: tuple[Chunk, ...], *, job: CountJob) -> pd.DataFrame:
    """As `counted_chunks`, as a partition of a Dask dataframe: columns key0 … (int64 words) and count (int64)."""
    return frame_of_counts(counted_chunks(chunks, job=job))


def counted_chunks(chunks: tuple[Chunk, ...], *, job: CountJob) -> GroupCounts:
    """Sample, recode and count the records of some chunks.

    Args:
        chunks: chunks of one task.
        job: map, rate, and the place of the key.

    Raises:
        ReleaseFailed: the key is missing or another one, or the records cannot be read.
    """
    key = _key(job)
    reading = job.reading if chunks and isinstance(chunks[0], CsvChunk) else job.reading.of_unicode
    coders = [
        ColumnCoder(column=column, placement=place, reading=reading)
        for column, place in zip(job.map.columns, job.map.placements, strict=True)
    ]
    parts = [empty_counts(job.map.words)]
    waiting: list[NDArray[np.int64]] = []
    held = 0
    for keys in _keys(chunks, coders=coders, key=key, job=job):
        waiting.append(keys)
        held += keys.shape[1]
        if held >= _KEYS_AT_ONCE:
            parts = [merge_counts([*parts, _counted(waiting, job)])]
            waiting, held = [], 0
    return merge_counts([*parts, _counted(waiting, job)])


def empty_counts(words: int) -> GroupCounts:
    """No groups."""
    return GroupCounts(np.empty((words, 0), dtype=np.int64), np.empty(0, dtype=np.int64))


def frame_of_counts(groups: GroupCounts) -> pd.DataFrame:
    """Partial counts as a partition of a Dask dataframe: columns key0 … and count, all int64."""
    import pandas as pd  # its import takes longer than counting a few million records

    columns = {f"key{word}": values for word, values in enumerate(groups.keys)}
    return pd.DataFrame({**columns, "count": groups.counts})


def counts_of_frame(frame: pd.DataFrame) -> GroupCounts:
    """The inverse of `frame_of_counts`; where frames were put together, groups may repeat."""
    words = [frame[name].to_numpy(dtype=np.int64) for name in frame.columns if name != "count"]
    return GroupCounts(np.array(words, dtype=np.int64), frame["count"].to_numpy(dtype=np.int64))


def _keys(
    chunks: Sequence[Chunk], *, coders: Sequence[ColumnCoder], key: bytes | None, job: CountJob
) -> Iterator[NDArray[np.int64]]:
    row_groups = [chunk for chunk in chunks if isinstance(chunk, ParquetChunk)]
    for _, group in groupby(row_groups, key=lambda chunk: chunk.path):
        yield from parquet_keys(list(group), coders=coders, words=job.map.words, key=key, rate=job.rate)
    for chunk in chunks:
        if isinstance(chunk, CsvChunk):
            yield from csv_keys(chunk, coders=coders, words=job.map.words, key=key, rate=job.rate)


def _counted(waiting: Sequence[NDArray[np.int64]], job: CountJob) -> GroupCounts:
    if not waiting:
        return empty_counts(job.map.words)
    keys = waiting[0] if len(waiting) == 1 else np.concatenate(waiting, axis=1)
    return count_keys(keys, cells=job.map.cells)


def _key(job: CountJob) -> bytes | None:
    if job.key_source is None:
        return None
    try:
        key = job.key_source.load()
    except OSError as error:
        raise ReleaseFailed(
            f"a worker cannot read the sampling key ({type(error).__name__}).",
            remedy="Processes of this machine read it in the private store (CROWDBLEND_HOME).",
        ) from None
    # INVARIANT: one release, one sample; a worker that sees another key store must not mix a second one in.
    if sample_commitment(key) != job.sample_id:
        raise ReleaseFailed(
            "a worker found a sampling key that is not this release's.",
            remedy="Run again with the same release id.",
        )
    return key
