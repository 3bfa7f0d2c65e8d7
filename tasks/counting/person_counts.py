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

from ...mechanisms.kernel.contributions import PERSON_WORDS, sorted_records
from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.group_counts import GroupCounts, merge_counts
from ..kernel.counting import (
    BlockCounts,
    CountJob,
    added_records,
    chosen_records,
    empty_counts,
    marked,
    naming_kinds_only,
    person_records,
    unmarked,
)
from ..readers.file_formats import Chunk, chunks_of_tasks, shared_chunks
from .count_frames import counts_of_frame, frame_of_counts, merged_counts
from .executors import (
    DaskCluster,
    Executor,
    LocalProcesses,
    LocalThreads,
    OnProgress,
    computed,
    computed_on_threads,
    frame_of_tasks,
    task_room,
    tasks_at_once,
)
from .memory import room_bytes
from .quote_states import with_quote_states

if TYPE_CHECKING:
    import pandas as pd

_BUCKET_RECORDS = 1 << 19
_FEWEST_RECORDS = 1 << 15
_MOST_RECORDS = 1 << 22
_COPIES = 8
"""Of each record that a task holds while it sorts them: as read, put together, sorted, and what is between."""
_MOST_BUCKETS = 1 << 12
_CSV_RECORD_BYTES = 16
_UNKNOWN_RECORDS = 1 << 25  # of a compressed file
_MERGED_AT_ONCE = 1 << 21
_TOGETHER = 8
_NUMBER_BYTES = 8
_BUCKET = "bucket"


def person_counts(
    chunks: Sequence[Chunk], *, job: CountJob, executor: Executor, on_progress: OnProgress | None = None
) -> BlockCounts:
    """Count the sampled ones of the records that count, of every group, and name the blocks that they are of.

    PRIVACY: the result still has the groups below the threshold. Which records count, and which of them are sampled,
    follows from the records and the key alone, however the work is split.

    Raises:
        ReleaseFailed: the records cannot be read, or the workers were lost.
    """
    chunks = with_quote_states(chunks, executor=executor, on_progress=on_progress)
    rows = PERSON_WORDS + job.read_layout.key_words + 1
    most = _records_at_once(executor, rows=rows)
    buckets = _bucket_bits(chunks, most=most)
    if isinstance(executor, LocalThreads):
        with PersonBuckets(bits=buckets, rows=rows, room=room_bytes() / 2) as held:
            graph, last = _graph(chunks_of_tasks(chunks, records=most), job=job, buckets=held)
            counts, blocks = computed_on_threads(graph, last, executor=executor, on_progress=on_progress)
            return BlockCounts(counts, np.concatenate(blocks))
    return _shuffled(chunks, job=job, executor=executor, bits=buckets, most=most, on_progress=on_progress)


def _records_at_once(executor: Executor, *, rows: int) -> int:
    """Return how many records a task may put together, so that half of its room is enough; it changes no draw.

    Args:
        executor: where the tasks run.
        rows: numbers of each record: words of its key, and its count.
    """
    room = task_room(executor) / 2 / (rows * _NUMBER_BYTES * _COPIES)
    return int(min(_MOST_RECORDS, max(_FEWEST_RECORDS, room)))


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
        # The first words of the hashes are uniform, so equal ranges of them make buckets of about equal sizes.
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
        # The records are sorted by their hashes, so that each bucket's are one slice.
        bounds = [0, *np.searchsorted(stacked[0], self._edges).tolist(), stacked.shape[1]]
        with self._lock:
            for bucket, (start, stop) in enumerate(pairwise(bounds)):
                if stop > start:
                    self._parts[bucket].append(np.ascontiguousarray(stacked[:, start:stop]))
            self._held += stacked.nbytes
            if self._held > self._room:
                self._write()

    def take(self, bucket: int) -> Iterator[GroupCounts]:
        """Yield what is in a bucket, part by part, for once.

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


def _bucket_bits(chunks: Sequence[Chunk], *, most: int) -> int:
    """Two to the power of this many buckets have about half a million records each, or as many as are put together."""
    records = 0
    for chunk in chunks:
        guessed = min(chunk.read_bytes // _CSV_RECORD_BYTES, _UNKNOWN_RECORDS)
        records += guessed if chunk.records is None else chunk.records
    return (min(_MOST_BUCKETS, max(1, -(-records // min(_BUCKET_RECORDS, most)))) - 1).bit_length()


def _graph(groups: Sequence[tuple[Chunk, ...]], *, job: CountJob, buckets: PersonBuckets) -> tuple[dict[Any, Any], Any]:
    """Plan the tasks: all records go into buckets; then bucket after bucket is chosen from and counted.

    The last key gives the counts, and the blocks of each group of chunks.
    """
    name = "-".join(job.__dask_tokenize__())
    filled = [(name, 0, place) for place in range(len(groups))]
    graph: dict[Any, Any] = {
        key: (partial(_put, group, job=job, buckets=buckets),) for key, group in zip(filled, groups, strict=True)
    }
    # No bucket may be chosen from before the last record is in its bucket: a person's records lie in any block.
    graph[name, 1] = (_all_there, filled)
    parts = [(name, 2, bucket) for bucket in range(buckets.number)]
    graph |= {key: (partial(_chosen_of_bucket, job=job, buckets=buckets, bucket=key[2]), (name, 1)) for key in parts}
    last: list[Any] = []
    for step, first in enumerate(range(0, len(parts), _TOGETHER)):
        graph[name, 3, step] = (merge_counts, [*last, *parts[first : first + _TOGETHER]])
        last = [(name, 3, step)]
    graph[name, 4] = (_with_blocks, last[0], filled)
    return graph, (name, 4)


def _with_blocks(
    counts: GroupCounts, blocks: Sequence[NDArray[np.int64]]
) -> tuple[GroupCounts, Sequence[NDArray[np.int64]]]:
    return counts, blocks


def _put(group: tuple[Chunk, ...], *, job: CountJob, buckets: PersonBuckets) -> NDArray[np.int64]:
    records, blocks = person_records(group, job=job)
    buckets.add(records)
    return blocks


def _all_there(blocks: Sequence[NDArray[np.int64]]) -> None:
    del blocks


def _chosen_of_bucket(done: None, *, job: CountJob, buckets: PersonBuckets, bucket: int) -> GroupCounts:
    del done
    waiting, held, merged = [empty_counts(PERSON_WORDS + job.read_layout.key_words)], 0, 0
    for part in buckets.take(bucket):
        waiting.append(part)
        held += part.counts.size
        # Merged when the bucket has doubled, so that every record is merged only a logarithmic number of times.
        if held >= max(_MERGED_AT_ONCE, 2 * merged):
            waiting = [added_records(waiting, job=job)]
            held = merged = waiting[0].counts.size
    return chosen_records(added_records(waiting, job=job), job=job)


def _shuffled(
    chunks: Sequence[Chunk],
    *,
    job: CountJob,
    executor: LocalProcesses | DaskCluster,
    bits: int,
    most: int,
    on_progress: OnProgress | None,
) -> BlockCounts:
    workers = tasks_at_once(executor)
    bits = max(bits, (workers - 1).bit_length())
    records = empty_counts(PERSON_WORDS + job.read_layout.key_words)
    rows = frame_of_tasks(
        _frame_of_records,
        shared_chunks(chunks, workers=workers, records=most),
        job=job,
        bits=bits,
        meta=_frame_in_buckets(records, bits),
        label=f"persons-{job.release_id}",
    )
    # All records of a person must meet in one partition, since the limit looks at all of them.
    together = rows.shuffle(on=_BUCKET, npartitions=1 << bits, shuffle_method="tasks")
    meta = frame_of_counts(empty_counts(job.layout.key_words))
    chosen = together.map_partitions(_frame_of_chosen, job=job, meta=meta, enforce_metadata=False)
    return unmarked(counts_of_frame(computed(merged_counts(chosen), executor=executor, on_progress=on_progress)))


@naming_kinds_only
def _frame_of_records(chunks: tuple[Chunk, ...], *, job: CountJob, bits: int) -> pd.DataFrame:
    records, blocks = person_records(chunks, job=job)
    # A block's mark lies among the records of its bucket with the count -1: hashes leave no word free for it.
    marks = np.zeros((records.keys.shape[0], blocks.size), dtype=np.int64)
    marks[0] = blocks
    keys = np.concatenate((records.keys, marks), axis=1)
    return _frame_in_buckets(GroupCounts(keys, np.append(records.counts, np.full(blocks.size, -1))), bits)


def _frame_in_buckets(records: GroupCounts, bits: int) -> pd.DataFrame:
    """As `frame_of_counts`, with the bucket of each person: the first bits of the hash."""
    return frame_of_counts(records).assign(**{_BUCKET: records.keys[0] >> (64 - bits) if bits else records.keys[0] * 0})


@naming_kinds_only
def _frame_of_chosen(frame: pd.DataFrame, *, job: CountJob) -> pd.DataFrame:
    keys, counts = counts_of_frame(frame.drop(columns=_BUCKET))
    there = counts > 0
    chosen = chosen_records(sorted_records(keys[:, there], counts[there], cells=job.read_layout.cells), job=job)
    return frame_of_counts(marked(BlockCounts(chosen, keys[0, ~there])))
