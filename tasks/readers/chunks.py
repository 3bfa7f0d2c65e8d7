"""Chunks of the input, whose identities decide the coins, and groups of chunks that share a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...mechanisms.kernel.sampling import ChunkIdentity
from .csv_header import CsvLayout
from .csv_quotes import QuoteState
from .parquet_footer import ParquetLayout
from .source_files import SourceFile, unpacked_name

if TYPE_CHECKING:
    pass


RANGE_BYTES = 64 << 20
UNKNOWN_END = 1 << 62
"""Where the one range of a compressed file stops, beyond any end."""

_TASK_RECORDS = 1 << 20
_TASK_BYTES = 64 << 20
_LARGEST_TASK = 4
_TASKS_EACH = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetChunk:
    """One row group of a Parquet file.

    Args:
        file: as it was listed.
        identity: the file's number and the row group's.
        records: number of records, by the footer.
        read_bytes: bytes to be decoded.
    """

    file: SourceFile
    identity: ChunkIdentity
    records: int
    read_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvChunk:
    """The records of a CSV file whose first bytes lie in start ≤ offset < stop.

    Args:
        file: as it was listed.
        identity: the file's number and the number of the fixed range of RANGE_BYTES.
        start: first byte of the range, or of the first record if that is later.
        stop: first byte after the range, at most the file's size; of a compressed file beyond any end.
        layout: the file's header.
        before: the state of the quotes one byte before `start`; None where it isn't known yet, or nothing comes before.
    """

    file: SourceFile
    identity: ChunkIdentity
    start: int
    stop: int
    layout: CsvLayout
    before: QuoteState | None = None

    @property
    def records(self) -> None:
        """How many records there are isn't known before they are read."""
        return


Chunk = ParquetChunk | CsvChunk


def csv_ranges(file: SourceFile, number: int, layout: CsvLayout) -> list[CsvChunk]:
    """The ranges of one CSV file.

    A compressed file is one range, since it can be read from its beginning alone, and its end isn't known.
    """
    chunks: list[CsvChunk] = []
    first, size, range_bytes = layout.first_record, file.size, RANGE_BYTES
    if unpacked_name(file.path)[1] is not None:
        first, size, range_bytes = 0, UNKNOWN_END, UNKNOWN_END
    for block in range(first // range_bytes, -(-size // range_bytes)):
        start = max(block * range_bytes, layout.first_record)
        stop = min((block + 1) * range_bytes, size)
        if start < stop:
            identity = ChunkIdentity(file=number, block=block)
            chunks.append(CsvChunk(file=file, identity=identity, start=start, stop=stop, layout=layout))
    return chunks


def group_chunks(
    chunks: Sequence[Chunk], *, task_records: int = _TASK_RECORDS, task_bytes: int = _TASK_BYTES
) -> list[tuple[Chunk, ...]]:
    """Put neighbouring chunks together until a task has about a million records, or 64 MiB to decode.

    How they are grouped changes no coin. A chunk that is larger stays alone.

    Args:
        chunks: in the order of `plan_chunks`.
        task_records: records that are enough for a task.
        task_bytes: bytes that are enough for a task.
    """
    groups: list[list[Chunk]] = []
    records, size = task_records, task_bytes
    for chunk in chunks:
        match chunk:
            case ParquetChunk():
                more_records, more_bytes = chunk.records, chunk.read_bytes
            case CsvChunk():
                more_records, more_bytes = 0, chunk.stop - chunk.start
        if records + more_records > task_records or size + more_bytes > task_bytes:
            groups.append([])
            records, size = 0, 0
        groups[-1].append(chunk)
        records += more_records
        size += more_bytes
    return [tuple(group) for group in groups]


def shared_chunks(chunks: Sequence[Chunk], *, workers: int) -> list[tuple[Chunk, ...]]:
    """As `group_chunks`, for worker processes, which send what they counted: up to four times as much in a task.

    Every worker still gets at least four tasks, where there are so many.

    Args:
        chunks: in the order of `plan_chunks`.
        workers: how many tasks run at once.
    """
    groups = group_chunks(chunks)
    larger = max(1, min(_LARGEST_TASK, len(groups) // (_TASKS_EACH * workers)))
    return group_chunks(chunks, task_records=larger * _TASK_RECORDS, task_bytes=larger * _TASK_BYTES)


def row_groups(file: SourceFile, number: int, layout: ParquetLayout) -> list[ParquetChunk]:
    """Return the row groups of one file that have records."""
    return [
        ParquetChunk(
            file=file,
            identity=ChunkIdentity(file=number, block=block),
            records=records,
            read_bytes=size,
        )
        for block, (records, size) in enumerate(zip(layout.rows, layout.read_bytes, strict=True))
        if records
    ]
