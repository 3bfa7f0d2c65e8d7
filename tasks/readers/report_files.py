"""Files of local reports, Parquet or CSV: their columns, their check by footer or header alone, and their tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.kinds.krandomization import KRandomization
from ...mechanisms.kinds.sketch import CountMeanSketch, SketchReports
from ...mechanisms.local_reports.device import SKETCH_COLUMNS, VECTOR_COLUMNS
from ..counting.chunks import CsvChunk, plan_chunks
from ..inputs.csv_header import LINE_LIMIT, CsvLayout, read_csv_layout, separator_byte
from ..inputs.files import SourceFile, changes_refused, open_records
from ..inputs.list import RecordFormat, Source, SourceLayout
from ..inputs.parquet_footer import ParquetLayout, open_parquet
from .csv_records import blocks_of_range, is_record, sort_records, take_records
from .values import RecordReading

__all__ = [
    "Collection",
    "ReportGroup",
    "ReportTask",
    "check_report_files",
    "report_layout",
    "report_tasks",
    "sketch_batches",
    "sketch_table",
    "vector_batches",
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
        file: as it was listed.
        blocks: numbers of the row groups.
        reports: reports in them, by the footer.
    """

    file: SourceFile
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
    with changes_refused():
        return _checked_layout(source, collection=collection, reading=reading)


def _checked_layout(source: Source, *, collection: Collection, reading: RecordReading) -> SourceLayout:
    match source.record_format:
        case RecordFormat.CSV:
            separator_byte(reading.separator)
            columns = report_columns(collection)
            headers = tuple(read_csv_layout(file, columns=columns, reading=reading) for file in source.files)
            return SourceLayout(source=source, layouts=headers)
        case RecordFormat.PARQUET:
            footers = tuple(_parquet_layout(file, collection) for file in source.files)
            return SourceLayout(source=source, layouts=footers)
        case RecordFormat.STATISTICS:
            raise InputRefused(
                "reports of local noise are read from CSV or Parquet.",
                where=source.files[0].path,
                remedy="Write them to one of these.",
            )
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
                tasks.extend(_row_groups(file, rows, bytes_per_report=_bytes_per_report(collection)))
            case _:
                assert_never(part)
    return tuple(tasks)


def _parquet_layout(file: SourceFile, collection: Collection) -> ParquetLayout:
    try:
        with open_parquet(file) as open_file:
            schema, metadata = open_file.schema_arrow, open_file.metadata
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


def _row_groups(file: SourceFile, rows: tuple[int, ...], *, bytes_per_report: int) -> Iterator[ReportGroup]:
    blocks: list[int] = []
    reports = 0
    for block, more in enumerate(rows):
        if blocks and (reports + more) * bytes_per_report > _TASK_BYTES:
            yield ReportGroup(file=file, blocks=tuple(blocks), reports=reports)
            blocks, reports = [], 0
        blocks.append(block)
        reports += more
    if reports:
        yield ReportGroup(file=file, blocks=tuple(blocks), reports=reports)


_BATCH_BYTES = 1 << 23
_LARGEST_HASH = (1 << 16) - 1


def sketch_batches(task: ReportTask, sketch: CountMeanSketch) -> Iterator[SketchReports]:
    """The reports of a task; one with a missing or malformed field is passed over, alone.

    Raises:
        ReleaseFailed: the file can't be read.
    """
    width = sketch.bits // 8
    if isinstance(task, CsvChunk):
        for numbers, bits in _csv_fields(task):
            good = pc.and_(_decimal(numbers, digits=5), _hexadecimal(bits, digits=2 * width))
            hashes = _numbers(numbers.filter(good))
            known = hashes <= _LARGEST_HASH
            packed = np.frombuffer(bytes.fromhex(_joined(bits.filter(good))), dtype=np.uint8).reshape(-1, width)
            yield SketchReports(hash_numbers=hashes[known].astype(np.uint16), packed_bits=packed[known])
        return
    for batch in _parquet_batches(task, report_columns(sketch), rows=max(1, _BATCH_BYTES // width)):
        whole = batch.filter(_all_valid(batch))
        bits = whole.column(1)
        packed = np.frombuffer(bits.buffers()[1], dtype=np.uint8)[bits.offset * width :][: len(bits) * width]
        yield SketchReports(
            hash_numbers=whole.column(0).to_numpy(zero_copy_only=False), packed_bits=packed.reshape(-1, width)
        )


def vector_batches(task: ReportTask, mechanism: KRandomization) -> Iterator[NDArray[np.unsignedinteger]]:
    """The vectors of a task, arrays of shape (n,); a missing or malformed one is passed over, alone.

    Raises:
        ReleaseFailed: the file can't be read.
    """
    if isinstance(task, CsvChunk):
        for [vectors] in _csv_fields(task):
            yield _numbers(vectors.filter(_decimal(vectors, digits=8)))
        return
    for batch in _parquet_batches(task, report_columns(mechanism), rows=_BATCH_BYTES // 4):
        yield batch.column(0).drop_null().to_numpy(zero_copy_only=False)


def _all_valid(batch: pa.RecordBatch) -> pa.Array:
    valid = np.ones(batch.num_rows, dtype=np.bool_)
    for column in batch.columns:
        valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(valid)


def _parquet_batches(group: ReportGroup, columns: tuple[str, ...], *, rows: int) -> Iterator[pa.RecordBatch]:
    try:
        with open_parquet(group.file) as file:
            for batch in file.iter_batches(
                batch_size=rows, row_groups=list(group.blocks), columns=list(columns), use_threads=False
            ):
                yield batch.select(list(columns))
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(group.file.path, error) from None


def _csv_fields(chunk: CsvChunk) -> Iterator[list[pa.LargeBinaryArray]]:
    """The fields of the reports' columns, window by window; a record of another number of fields is passed over."""
    layout = chunk.layout
    try:
        with open_records(chunk.file) as file:
            for block in blocks_of_range(file, chunk, record_limit=LINE_LIMIT, window=_BATCH_BYTES):
                usable = np.flatnonzero(is_record(block, layout) & (block.ends - block.starts <= LINE_LIMIT))
                records, _ = sort_records(take_records(block, usable), layout)
                yield [records.column(position) for position in layout.positions]
    except (OSError, ImportError, ValueError, pa.ArrowException) as error:
        raise _unreadable(chunk.file.path, error) from None


def _decimal(fields: pa.LargeBinaryArray, *, digits: int) -> pa.BooleanArray:
    return _matches(fields, f"[0-9]{{1,{digits}}}")


def _hexadecimal(fields: pa.LargeBinaryArray, *, digits: int) -> pa.BooleanArray:
    """Which fields are so many hexadecimal digits; a pattern can't count beyond a thousand."""
    return pc.and_(_matches(fields, "[0-9a-fA-F]*"), pc.equal(pc.binary_length(fields), digits))


def _matches(fields: pa.LargeBinaryArray, pattern: str) -> pa.BooleanArray:
    r"""Which fields are wholly of a pattern; `\A` and `\z`, since `$` would let a line feed pass."""
    return pc.match_substring_regex(fields, rf"\A{pattern}\z")


def _numbers(digits: pa.LargeBinaryArray) -> NDArray[np.uint32]:
    numbers: NDArray[np.uint32] = digits.cast(pa.large_string()).cast(pa.uint32()).to_numpy(zero_copy_only=False)
    return numbers


def _joined(fields: pa.LargeBinaryArray) -> str:
    """All fields, one after the other."""
    _, offsets, raw_bytes = fields.buffers()
    if raw_bytes is None or not len(fields):
        return ""
    bounds = np.frombuffer(offsets, dtype=np.int64)[fields.offset : fields.offset + len(fields) + 1]
    text: bytes = raw_bytes.to_pybytes()[bounds[0] : bounds[-1]]
    return text.decode("ascii")


def _unreadable(path: str, error: Exception) -> ReleaseFailed:
    return ReleaseFailed(
        f"the reports cannot be read ({type(error).__name__}).",
        where=path,
        remedy="Repair the file, or abandon the release; its cost stays spent.",
    )
