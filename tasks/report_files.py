"""Files of local reports, Parquet or CSV: their columns, their check by footer or header alone, and their tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..mechanisms.count_sketch import CountMeanSketch, SketchReports
from ..mechanisms.device import SKETCH_COLUMNS, VECTOR_COLUMNS
from ..mechanisms.krandomization import KRandomization
from ..mechanisms.refusal import InputRefused
from .chunks import CsvChunk, plan_chunks
from .csv_header import CsvLayout, read_csv_layout, separator_byte
from .parquet_schema import ParquetLayout, open_parquet
from .record_reading import RecordReading
from .source import RecordFormat, Source, SourceFile, SourceLayout

__all__ = [
    "Collection",
    "ReportGroup",
    "ReportTask",
    "check_report_files",
    "report_columns",
    "report_layout",
    "report_tasks",
    "sketch_table",
    "vector_table",
]

Collection = CountMeanSketch | KRandomization
"""What the reports of a collection were made with."""

_TASK_BYTES = 64 << 20
_USUAL = RecordReading()


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


ReportTask = ReportGroup | CsvChunk
"""What one task reads: row groups of a Parquet file, or a range of a CSV file."""


def sketch_table(sketch: CountMeanSketch, reports: SketchReports) -> pa.Table:
    """Reports of a sketch as they are stored: `hash` (uint16) and `bits` (fixed size binary of m/8 bytes)."""
    width = sketch.bits // 8
    data = pa.py_buffer(np.ascontiguousarray(reports.packed_bits))
    bits = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), reports.hash_numbers.size, [None, data])
    number, packed = SKETCH_COLUMNS
    return pa.table({number: pa.array(reports.hash_numbers, type=pa.uint16()), packed: bits})


def vector_table(vectors: NDArray[np.unsignedinteger]) -> pa.Table:
    """K-randomized vectors as they are stored: `vector`, an unsigned integer of 8, 16 or 32 bits; shape (n,)."""
    [vector] = VECTOR_COLUMNS
    return pa.table({vector: pa.array(vectors)})


def report_columns(collection: Collection) -> tuple[str, ...]:
    """The columns that a file of such reports has."""
    return SKETCH_COLUMNS if isinstance(collection, CountMeanSketch) else VECTOR_COLUMNS


def check_report_files(
    source: Source, *, collection: Collection, reading: RecordReading = _USUAL
) -> tuple[ReportTask, ...]:
    """Check the columns of every file by its footer or header, and cut the files into tasks.

    Raises:
        InputRefused: a footer or header that can't be read, or a column that is missing or of another type.
    """
    return report_tasks(report_layout(source, collection=collection, reading=reading), collection=collection)


def report_layout(source: Source, *, collection: Collection, reading: RecordReading) -> SourceLayout:
    """Check the columns of every file by its footer or header alone; no report is read.

    Args:
        source: the files.
        collection: what the reports were made with.
        reading: how the records are read.

    Raises:
        InputRefused: as `check_report_files`.
    """
    match source.record_format:
        case RecordFormat.CSV:
            separator_byte(reading.separator)
            columns = report_columns(collection)
            headers = tuple(read_csv_layout(file.path, columns=columns, reading=reading) for file in source.files)
            return SourceLayout(source=source, layouts=headers)
        case RecordFormat.PARQUET:
            footers = tuple(_parquet_layout(file, collection) for file in source.files)
            return SourceLayout(source=source, layouts=footers)
        case _:
            assert_never(source.record_format)


def report_tasks(layout: SourceLayout, *, collection: Collection) -> tuple[ReportTask, ...]:
    """Cut checked files into tasks of about 64 MiB; how they are cut changes no sum."""
    tasks: list[ReportTask] = []
    parts: Sequence[CsvLayout | ParquetLayout] = layout.layouts
    for file, part in zip(layout.source.files, parts, strict=True):
        match part:
            case CsvLayout():
                alone = SourceLayout(
                    source=Source(files=(file,), record_format=layout.source.record_format), layouts=(part,)
                )
                tasks.extend(chunk for chunk in plan_chunks(alone) if isinstance(chunk, CsvChunk))
            case ParquetLayout(rows=rows):
                tasks.extend(_row_groups(file.path, rows, bytes_per_report=_bytes_per_report(collection)))
            case _:
                assert_never(part)
    return tuple(tasks)


def _parquet_layout(file: SourceFile, collection: Collection) -> ParquetLayout:
    try:
        with open_parquet(file.path) as opened:
            schema, metadata = opened.schema_arrow, opened.metadata
            rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    except (OSError, ImportError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InputRefused(f"the footer cannot be read ({type(error).__name__}).", where=file.path) from None
    _check_schema(schema, collection, file.path)
    return ParquetLayout(rows=tuple(rows), read_bytes=_read_bytes(metadata))


def _read_bytes(metadata: pq.FileMetaData) -> tuple[int, ...]:
    return tuple(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def _check_schema(schema: pa.Schema, collection: Collection, path: str) -> None:
    match collection:
        case CountMeanSketch(bits=bits):
            types = [{pa.uint16()}, {pa.binary(bits // 8)}]
        case KRandomization():
            types = [{pa.uint8(), pa.uint16(), pa.uint32()}]
        case _:
            assert_never(collection)
    for name, wanted in zip(report_columns(collection), types, strict=True):
        places = schema.get_all_field_indices(name)
        if len(places) != 1 or schema.field(places[0]).type not in wanted:
            raise InputRefused(
                f"the column {name!r} must stand there once, as {' or '.join(sorted(map(str, wanted)))}.",
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


def _row_groups(path: str, rows: tuple[int, ...], *, bytes_per_report: int) -> Iterator[ReportGroup]:
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
