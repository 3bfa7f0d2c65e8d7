"""Parquet files of local reports: their columns, their check by the footer alone, and their batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..mechanisms.count_sketch import CountMeanSketch, SketchReports
from ..mechanisms.krandomization import KRandomization
from ..mechanisms.refusal import InputRefused, ReleaseFailed
from .opening import open_parquet
from .source import RecordFormat, Source

__all__ = [
    "Collection",
    "ReportGroup",
    "check_report_files",
    "sketch_batches",
    "sketch_table",
    "vector_batches",
    "vector_table",
]

Collection = CountMeanSketch | KRandomization
"""What the reports of a collection were made with."""

_HASH, _BITS, _VECTOR = "hash", "bits", "vector"
_BATCH_BYTES = 1 << 23
_TASK_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportGroup:
    """Neighbouring row groups of one file, enough for a task.

    Args:
        path: file or URL.
        blocks: numbers of the row groups.
        reports: reports in them, by the footer.
    """

    path: str
    blocks: tuple[int, ...]
    reports: int


def sketch_table(sketch: CountMeanSketch, reports: SketchReports) -> pa.Table:
    """Reports of a sketch as they are stored: `hash` (uint16) and `bits` (fixed size binary of m/8 bytes)."""
    width = sketch.bits // 8
    data = pa.py_buffer(np.ascontiguousarray(reports.packed_bits))
    bits = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), reports.hash_numbers.size, [None, data])
    return pa.table({_HASH: pa.array(reports.hash_numbers, type=pa.uint16()), _BITS: bits})


def vector_table(vectors: NDArray[np.unsignedinteger]) -> pa.Table:
    """K-randomized vectors as they are stored: `vector`, an unsigned integer of 8, 16 or 32 bits; shape (n,)."""
    return pa.table({_VECTOR: pa.array(vectors)})


def check_report_files(source: Source, *, collection: Collection) -> tuple[ReportGroup, ...]:
    """Check the columns of every file by its footer, and cut the files into tasks.

    Raises:
        InputRefused: not Parquet, a footer that cannot be read, or a column that is missing or of another type.
    """
    if source.record_format is not RecordFormat.PARQUET:
        raise InputRefused("reports are read from Parquet files.", where=source.files[0].path)
    groups: list[ReportGroup] = []
    for file in source.files:
        try:
            with open_parquet(file.path) as opened:
                schema, metadata = opened.schema_arrow, opened.metadata
        except (OSError, pa.ArrowException) as error:
            raise InputRefused(f"the footer cannot be read ({type(error).__name__}).", where=file.path) from None
        _check_schema(schema, collection, file.path)
        groups.extend(
            _row_groups(
                file.path,
                [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)],
                bytes_per_report=_bytes_per_report(collection),
            )
        )
    return tuple(groups)


def sketch_batches(group: ReportGroup, sketch: CountMeanSketch) -> Iterator[SketchReports]:
    """The reports of a group, a few megabytes at a time; a report with a missing field is passed over.

    Raises:
        ReleaseFailed: a page cannot be read.
    """
    width = sketch.bits // 8
    for batch in _batches(group, [_HASH, _BITS], rows=max(1, _BATCH_BYTES // width)):
        whole = batch.filter(_all_valid(batch))
        bits = whole.column(1)
        packed = np.frombuffer(bits.buffers()[1], dtype=np.uint8)[bits.offset * width :][: len(bits) * width]
        yield SketchReports(
            hash_numbers=whole.column(0).to_numpy(zero_copy_only=False), packed_bits=packed.reshape(-1, width)
        )


def vector_batches(group: ReportGroup) -> Iterator[NDArray[np.unsignedinteger]]:
    """The vectors of a group, a few megabytes at a time, each of shape (n,); a missing one is passed over.

    Raises:
        ReleaseFailed: a page cannot be read.
    """
    for batch in _batches(group, [_VECTOR], rows=_BATCH_BYTES // 4):
        yield batch.column(0).drop_null().to_numpy(zero_copy_only=False)


def _all_valid(batch: pa.RecordBatch) -> pa.Array:
    valid = np.ones(batch.num_rows, dtype=np.bool_)
    for column in batch.columns:
        valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(valid)


def _batches(group: ReportGroup, columns: list[str], *, rows: int) -> Iterator[pa.RecordBatch]:
    try:
        with open_parquet(group.path) as file:
            yield from file.iter_batches(
                batch_size=rows, row_groups=list(group.blocks), columns=columns, use_threads=False
            )
    except (OSError, pa.ArrowException) as error:
        raise ReleaseFailed(f"the reports cannot be read ({type(error).__name__}).", where=group.path) from None


def _check_schema(schema: pa.Schema, collection: Collection, path: str) -> None:
    match collection:
        case CountMeanSketch(bits=bits):
            wanted = {_HASH: {pa.uint16()}, _BITS: {pa.binary(bits // 8)}}
        case KRandomization():
            wanted = {_VECTOR: {pa.uint8(), pa.uint16(), pa.uint32()}}
        case _:
            assert_never(collection)
    for name, types in wanted.items():
        places = schema.get_all_field_indices(name)
        if len(places) != 1 or schema.field(places[0]).type not in types:
            raise InputRefused(
                f"the column {name!r} must stand there once, as {' or '.join(sorted(map(str, types)))}.",
                where=path,
                remedy="Were the reports made with these parameters?",
            )


def _bytes_per_report(collection: Collection) -> int:
    match collection:
        case CountMeanSketch(bits=bits):
            return bits // 8
        case KRandomization():
            return 4
        case _:
            assert_never(collection)


def _row_groups(path: str, rows: list[int], *, bytes_per_report: int) -> Iterator[ReportGroup]:
    blocks: list[int] = []
    reports = 0
    for block, more in enumerate(rows):
        if blocks and (reports + more) * bytes_per_report > _TASK_BYTES:
            yield ReportGroup(path=path, blocks=tuple(blocks), reports=reports)
            blocks, reports = [], 0
        blocks.append(block)
        reports += more
    if reports:
        yield ReportGroup(path=path, blocks=tuple(blocks), reports=reports)
