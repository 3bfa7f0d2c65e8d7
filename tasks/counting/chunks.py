"""How the input is cut: chunks whose identities decide the coins, and groups of chunks that share a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...mechanisms.sampling import ChunkIdentity
from ..inputs.csv_header import CsvLayout
from ..inputs.list import SourceFile, SourceLayout
from ..inputs.parquet_footer import ParquetLayout
from ..readers.csv_quotes import QuoteState

__all__ = [
    "RANGE_BYTES",
    "Chunk",
    "CsvChunk",
    "ParquetChunk",
    "csv_ranges",
    "group_chunks",
    "plan_chunks",
    "shared_chunks",
]

RANGE_BYTES = 64 << 20

_TASK_RECORDS = 1 << 20
_TASK_BYTES = 64 << 20
_LARGEST_TASK = 4
_TASKS_EACH = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetChunk:
    """One row group of a Parquet file.

    Args:
        path: file or URL.
        identity: the file's number and the row group's.
        records: number of records, by the footer.
        read_bytes: bytes to be decoded.
    """

    path: str
    identity: ChunkIdentity
    records: int
    read_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvChunk:
    """The records of a CSV file whose first bytes lie in start ≤ offset < stop.

    Args:
        path: file or URL.
        identity: the file's number and the number of the fixed range of RANGE_BYTES.
        start: first byte of the range, or of the first record if that is later.
        stop: first byte after the range, at most the file's size.
        layout: the file's header.
        before: the state of the quotes one byte before `start`; None where it isn't known yet, or nothing comes before.
    """

    path: str
    identity: ChunkIdentity
    start: int
    stop: int
    layout: CsvLayout
    before: QuoteState | None = None


Chunk = ParquetChunk | CsvChunk


def plan_chunks(layout: SourceLayout) -> tuple[Chunk, ...]:
    """Cut the input into chunks: row groups of Parquet files, ranges of RANGE_BYTES of CSV files.

    INVARIANT: the cut depends on the files alone, never on the machine, the workers, or a setting, since a
    chunk's identity decides its coins.

    Args:
        layout: the checked source.
    """
    chunks: list[Chunk] = []
    parts: Sequence[CsvLayout | ParquetLayout] = layout.layouts
    for number, (file, part) in enumerate(zip(layout.source.files, parts, strict=True)):
        match part:
            case ParquetLayout():
                chunks.extend(_row_groups(file, number, part))
            case CsvLayout():
                chunks.extend(csv_ranges(file, number, part, range_bytes=RANGE_BYTES))
    return tuple(chunks)


def csv_ranges(file: SourceFile, number: int, layout: CsvLayout, *, range_bytes: int) -> list[CsvChunk]:
    """The ranges of one CSV file; a release always takes RANGE_BYTES, tests take a few bytes."""
    chunks: list[CsvChunk] = []
    for block in range(layout.first_record // range_bytes, -(-file.size // range_bytes)):
        start = max(block * range_bytes, layout.first_record)
        stop = min((block + 1) * range_bytes, file.size)
        if start < stop:
            identity = ChunkIdentity(file=number, block=block)
            chunks.append(CsvChunk(path=file.path, identity=identity, start=start, stop=stop, layout=layout))
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


def _row_groups(file: SourceFile, number: int, layout: ParquetLayout) -> list[ParquetChunk]:
    return [
        ParquetChunk(
            path=file.path,
            identity=ChunkIdentity(file=number, block=block),
            records=records,
            read_bytes=size,
        )
        for block, (records, size) in enumerate(zip(layout.rows, layout.read_bytes, strict=True))
        if records
    ]
