"""Group counts where at most M records of a person count: each person's records are brought together, then chosen.

What is brought together is a keyed hash of the id, the key of the group and a count. On threads it lies in memory, or
in a file without a name where there is not room enough; on processes and clusters Dask shuffles it between workers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from threading import Lock
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.contributions import (
    PERSON_WORDS,
    ContributionKeys,
    ContributionLimit,
    chosen_counts,
    sorted_records,
)
from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.group_counts import GroupCounts, merge_counts
from ...mechanisms.kernel.recoding import Placement
from ..readers.column_codes import ColumnCoder, RecordCoder
from ..readers.person_ids import PersonCoder
from .chunks import UNKNOWN_END, Chunk, CsvChunk, ParquetChunk, group_chunks, shared_chunks, with_quote_states
from .executors import (
    DaskCluster,
    Executor,
    LocalProcesses,
    LocalThreads,
    OnProgress,
    computed,
    computed_on_threads,
    tasks_at_once,
)
from .group_counts import (
    CountJob,
    counts_of_frame,
    empty_counts,
    frame_of_counts,
    merged_counts,
    room_bytes,
    secret_of,
    whole_keys,
)
from .workers import naming_kinds_only

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PersonBuckets", "person_counts"]

_BUCKET_RECORDS = 1 << 19
_MOST_BUCKETS = 1 << 12
_CSV_RECORD_BYTES = 16
_UNKNOWN_RECORDS = 1 << 25  # of a compressed file
_MERGED_AT_ONCE = 1 << 21
_TOGETHER = 8
_NUMBER_BYTES = 8
_BUCKET = "bucket"


def person_counts(
    chunks: Sequence[Chunk], *, job: CountJob, executor: Executor, on_progress: OnProgress | None = None
) -> GroupCounts:
    """Count the sampled ones of the records that count, of every group.

    PRIVACY: the result still has the groups below the threshold. Which records count, and which of them are sampled,
    follows from the records and the key alone, however the work is split.

    Args:
        chunks: as `plan_chunks`.
        job: as `count_job`, with a limit.
        executor: where the work is done.
        on_progress: called with the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records cannot be read, or the workers were lost.
    """
    if not chunks:
        return empty_counts(job.map.key_words)
    chunks = with_quote_states(chunks, executor=executor, on_progress=on_progress)
    buckets = _bucket_bits(chunks)
    if isinstance(executor, LocalThreads):
        with PersonBuckets(bits=buckets, rows=PERSON_WORDS + job.map.key_words + 1, room=room_bytes() / 2) as held:
            graph, last = _graph(group_chunks(chunks), job=job, buckets=held)
            counts: GroupCounts = computed_on_threads(graph, last, executor=executor, on_progress=on_progress)
            return counts
    return _shuffled(chunks, job=job, executor=executor, bits=buckets, on_progress=on_progress)


def person_records(chunks: tuple[Chunk, ...], *, job: CountJob) -> GroupCounts:
    """How many records each person has in each group, among those of some chunks; keys of shape (2 + words, n).

    Raises:
        ReleaseFailed: the key is missing or another one, or the records cannot be read.
    """
    keys, limit = _keys_and_limit(job)
    reading = job.reading if chunks and isinstance(chunks[0], CsvChunk) else job.reading.of_unicode
    coders: list[RecordCoder] = [
        ColumnCoder(
            column=column, placement=Placement(word=PERSON_WORDS + place.word, stride=place.stride), reading=reading
        )
        for column, place in zip(job.map.columns, job.map.placements, strict=True)
    ]
    coders.append(PersonCoder(name=limit.column, keys=keys, reading=reading))
    found, read, parts = [], 0, [empty_counts(PERSON_WORDS + job.map.key_words)]
    before: Chunk | None = None
    held = 0
    for chunk, batch in whole_keys(chunks, coders=coders, key_words=PERSON_WORDS + job.map.key_words):
        read = read if chunk is before else 0
        before = chunk
        alone = np.flatnonzero((batch[0] == 0) & (batch[1] == 0))
        if alone.size:
            places = keys.of_places(alone + read, file=chunk.identity.file, block=chunk.identity.block)
            batch[:PERSON_WORDS, alone] = np.ascontiguousarray(places).view(np.int64)
        read += batch.shape[1]
        found.append(batch)
        held += batch.shape[1]
        if held >= _MERGED_AT_ONCE:
            parts, found, held = [_added([*parts, _sorted(found, job)], job)], [], 0
    return _added([*parts, _sorted(found, job)] if found else parts, job)


def chosen_records(records: GroupCounts, *, job: CountJob) -> GroupCounts:
    """As `chosen_counts`, by a job; every record of a person is among those given.

    Raises:
        ReleaseFailed: the key is missing or another one.
    """
    keys, limit = _keys_and_limit(job)
    return chosen_counts(records, most=limit.records, rate=job.rate, cells=job.map.cells, keys=keys)


class PersonBuckets:
    """The records of many persons, those of one person in one bucket; beyond some room they go into a nameless file.

    PRIVACY: the file has keyed hashes and codes. It has no name, so that nothing is left of it when the process ends,
    however it ends.

    Args:
        bits: there are two to the power of this many buckets.
        rows: words of a key and one for the count.
        room: bytes that may be held in memory.
    """

    def __init__(self, *, bits: int, rows: int, room: float) -> None:
        self.number = 1 << bits
        self._rows = rows
        self._room = room
        step = 1 << (64 - bits)
        self._edges = np.array([bucket * step - (1 << 63) for bucket in range(1, self.number)], dtype=np.int64)
        self._parts: list[list[NDArray[np.int64]]] = [[] for _ in range(self.number)]
        self._written: list[list[tuple[int, int]]] = [[] for _ in range(self.number)]
        self._held = 0
        self._file: IO[bytes] | None = None
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._parts, self._written = [], []
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def add(self, records: GroupCounts) -> None:
        """Take some records in, sorted by their keys.

        Raises:
            ReleaseFailed: there is no room on the disk.
        """
        stacked = np.vstack((records.keys, records.counts))
        bounds = [0, *np.searchsorted(stacked[0], self._edges).tolist(), stacked.shape[1]]
        with self._lock:
            for bucket, (start, stop) in enumerate(pairwise(bounds)):
                if stop > start:
                    self._parts[bucket].append(np.ascontiguousarray(stacked[:, start:stop]))
            self._held += stacked.nbytes
            if self._held > self._room:
                self._write()

    def take(self, bucket: int) -> Iterator[GroupCounts]:
        """What is in a bucket, part by part, for once.

        Raises:
            ReleaseFailed: the file can't be read.
        """
        held, self._parts[bucket] = self._parts[bucket], []
        while held:
            part = held.pop()
            yield GroupCounts(part[:-1], part[-1])
        for start, size in self._written[bucket]:
            part = self._read(start, size)
            yield GroupCounts(part[:-1], part[-1])

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the buckets are left
            end = self._file.seek(0, 2)
            for bucket, parts in enumerate(self._parts):
                for part in parts:
                    self._file.write(part.data.cast("B"))
                    self._written[bucket].append((end, part.shape[1]))
                    end += part.nbytes
            self._file.flush()
        except OSError as error:
            raise _no_room(error) from None
        self._parts = [[] for _ in range(self.number)]
        self._held = 0

    def _read(self, start: int, size: int) -> NDArray[np.int64]:
        if self._file is None:
            raise ValueError("nothing was written")
        try:
            with self._lock:
                self._file.seek(start)
                raw_bytes = self._file.read(size * self._rows * _NUMBER_BYTES)
        except OSError as error:
            raise _no_room(error) from None
        return np.frombuffer(raw_bytes, dtype=np.int64).reshape(self._rows, size)


def _no_room(error: OSError) -> ReleaseFailed:
    return ReleaseFailed(
        f"a temporary file for the records of each person can't be written or read ({error.strerror}).",
        where=tempfile.gettempdir(),
        remedy="Make room there, name another folder by TMPDIR, or allow more memory by CROWDBLEND_MEMORY; then run "
        "again with the same release id: it takes the same sample and is not charged twice.",
    )


def _bucket_bits(chunks: Sequence[Chunk]) -> int:
    """Two to the power of this many buckets have about half a million records each; it changes no draw."""
    records = 0
    for chunk in chunks:
        match chunk:
            case ParquetChunk():
                records += chunk.records
            case CsvChunk(stop=stop):
                records += _UNKNOWN_RECORDS if stop == UNKNOWN_END else (stop - chunk.start) // _CSV_RECORD_BYTES
    return (min(_MOST_BUCKETS, max(1, -(-records // _BUCKET_RECORDS))) - 1).bit_length()


def _graph(groups: Sequence[tuple[Chunk, ...]], *, job: CountJob, buckets: PersonBuckets) -> tuple[dict[Any, Any], Any]:
    """All records into buckets; when the last is there, bucket after bucket is chosen from and counted."""
    name = "-".join(job.__dask_tokenize__())
    filled = [(name, 0, place) for place in range(len(groups))]
    graph: dict[Any, Any] = {
        key: (partial(_put, group, job=job, buckets=buckets),) for key, group in zip(filled, groups, strict=True)
    }
    graph[name, 1] = (_all_there, filled)
    parts = [(name, 2, bucket) for bucket in range(buckets.number)]
    graph |= {key: (partial(_chosen_of_bucket, job=job, buckets=buckets, bucket=key[2]), (name, 1)) for key in parts}
    last: list[Any] = []
    for step, first in enumerate(range(0, len(parts), _TOGETHER)):
        graph[name, 3, step] = (merge_counts, [*last, *parts[first : first + _TOGETHER]])
        last = [(name, 3, step)]
    return graph, last[0]


def _put(group: tuple[Chunk, ...], *, job: CountJob, buckets: PersonBuckets) -> None:
    buckets.add(person_records(group, job=job))


def _all_there(done: Sequence[None]) -> None:
    del done


def _chosen_of_bucket(done: None, *, job: CountJob, buckets: PersonBuckets, bucket: int) -> GroupCounts:
    del done
    waiting, held, merged = [empty_counts(PERSON_WORDS + job.map.key_words)], 0, 0
    for part in buckets.take(bucket):
        waiting.append(part)
        held += part.counts.size
        if held >= max(_MERGED_AT_ONCE, 2 * merged):
            waiting = [_added(waiting, job)]
            held = merged = waiting[0].counts.size
    return chosen_records(_added(waiting, job), job=job)


def _shuffled(
    chunks: Sequence[Chunk],
    *,
    job: CountJob,
    executor: LocalProcesses | DaskCluster,
    bits: int,
    on_progress: OnProgress | None,
) -> GroupCounts:
    import dask
    import dask.dataframe as dd

    workers = tasks_at_once(executor)
    bits = max(bits, (workers - 1).bit_length())
    records = empty_counts(PERSON_WORDS + job.map.key_words)
    with dask.config.set({"dataframe.convert-string": False}):
        rows = dd.from_map(
            _frame_of_records,
            shared_chunks(chunks, workers=workers),
            job=job,
            bits=bits,
            meta=_frame_in_buckets(records, bits),
            label=f"persons-{job.release_id}",
            enforce_metadata=False,
        )
        together = rows.shuffle(on=_BUCKET, npartitions=1 << bits, shuffle_method="tasks")
        chosen = together.map_partitions(
            _frame_of_chosen,
            job=job,
            meta=frame_of_counts(empty_counts(job.map.key_words)),
            enforce_metadata=False,
        )
        return counts_of_frame(computed(merged_counts(chosen), executor=executor, on_progress=on_progress))


@naming_kinds_only
def _frame_of_records(chunks: tuple[Chunk, ...], *, job: CountJob, bits: int) -> pd.DataFrame:
    return _frame_in_buckets(person_records(chunks, job=job), bits)


def _frame_in_buckets(records: GroupCounts, bits: int) -> pd.DataFrame:
    """As `frame_of_counts`, with the bucket of each person: the first bits of the hash."""
    return frame_of_counts(records).assign(**{_BUCKET: records.keys[0] >> (64 - bits) if bits else records.keys[0] * 0})


@naming_kinds_only
def _frame_of_chosen(frame: pd.DataFrame, *, job: CountJob) -> pd.DataFrame:
    records = counts_of_frame(frame.drop(columns=_BUCKET))
    return frame_of_counts(chosen_records(sorted_records(*records, cells=job.map.cells), job=job))


def _keys_and_limit(job: CountJob) -> tuple[ContributionKeys, ContributionLimit]:
    secret = secret_of(job)
    if secret is None or job.limit is None:
        raise ValueError("records are chosen by a limit and a key")
    return ContributionKeys(secret=secret), job.limit


def _sorted(batches: Sequence[NDArray[np.int64]], job: CountJob) -> GroupCounts:
    return sorted_records(batches[0] if len(batches) == 1 else np.concatenate(batches, axis=1), cells=job.map.cells)


def _added(parts: Sequence[GroupCounts], job: CountJob) -> GroupCounts:
    """Partial counts of persons and groups put together."""
    filled = [part for part in parts if part.counts.size] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    keys = np.concatenate([part.keys for part in filled], axis=1)
    return sorted_records(keys, np.concatenate([part.counts for part in filled]), cells=job.map.cells)
