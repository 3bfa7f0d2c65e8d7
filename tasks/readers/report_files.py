"""Files of local reports, Parquet or CSV: their columns and their reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...mechanisms.kinds.krandomization import KRandomization
from ...mechanisms.kinds.sketch import CountMeanSketch, SketchReports
from ...mechanisms.local_reports.device import SKETCH_COLUMNS, VECTOR_COLUMNS
from .csv_header import LINE_LIMIT, CsvChunk
from .csv_records import blocks_of_range, is_record, sort_records, take_records
from .file_formats import records_read
from .parquet_footer import open_parquet
from .source_files import SourceFile, open_records

Collection = CountMeanSketch | KRandomization
"""What the reports of a collection were made with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportGroup:
    """Neighbouring row groups of one file, enough for a task."""

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
    """Return the columns that a file of such reports has."""
    return SKETCH_COLUMNS if isinstance(collection, CountMeanSketch) else VECTOR_COLUMNS


_BATCH_BYTES = 1 << 23
_LARGEST_HASH = (1 << 16) - 1


def sketch_batches(task: ReportTask, sketch: CountMeanSketch) -> Iterator[SketchReports]:
    """Yield the reports of a task; one with a missing or malformed field is passed over, alone.

    Raises:
        ReleaseFailed: the file can't be read.
    """
    width = sketch.bits // 8
    if isinstance(task, CsvChunk):
        for numbers, bits in _csv_fields(task):
            # Five digits are as many as a 16-bit number has; the comparison below leaves out those that are too large.
            # So no text of any length is ever converted.
            good = pc.and_(_decimal(numbers, digits=5), _hexadecimal(bits, digits=2 * width))
            hashes = _numbers(numbers.filter(good))
            known = hashes <= _LARGEST_HASH
            packed = np.frombuffer(bytes.fromhex(_joined(bits.filter(good))), dtype=np.uint8).reshape(-1, width)
            yield SketchReports(hash_numbers=hashes[known].astype(np.uint16), packed_bits=packed[known])
        return
    for batch in _parquet_batches(task, report_columns(sketch), rows=max(1, _BATCH_BYTES // width)):
        whole = batch.filter(_all_valid(batch))
        bits = whole.column(1)
        # The buffer is used without a copy; a slice of an Arrow array shares it with the whole and begins at its
        # offset.
        packed = np.frombuffer(bits.buffers()[1], dtype=np.uint8)[bits.offset * width :][: len(bits) * width]
        yield SketchReports(
            hash_numbers=whole.column(0).to_numpy(zero_copy_only=False), packed_bits=packed.reshape(-1, width)
        )


def vector_batches(task: ReportTask, mechanism: KRandomization) -> Iterator[NDArray[np.unsignedinteger]]:
    """Yield the vectors of a task, arrays of shape (n,); a missing or malformed one is passed over, alone.

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
    with records_read(group.file.path, "reports"), open_parquet(group.file) as file:
        for batch in file.iter_batches(
            batch_size=rows, row_groups=list(group.blocks), columns=list(columns), use_threads=False
        ):
            yield batch.select(list(columns))


def _csv_fields(chunk: CsvChunk) -> Iterator[list[pa.LargeBinaryArray]]:
    """The fields of the reports' columns, window by window; a record of another number of fields is passed over."""
    layout = chunk.layout
    with records_read(chunk.file.path, "reports"), open_records(chunk.file) as file:
        for block in blocks_of_range(file, chunk, record_limit=LINE_LIMIT, window=_BATCH_BYTES):
            usable = np.flatnonzero(is_record(block, layout) & (block.ends - block.starts <= LINE_LIMIT))
            records, _ = sort_records(take_records(block, usable), layout)
            yield [records.column(position) for position in layout.positions]


def _decimal(fields: pa.LargeBinaryArray, *, digits: int) -> pa.BooleanArray:
    return _matches(fields, f"[0-9]{{1,{digits}}}")


def _hexadecimal(fields: pa.LargeBinaryArray, *, digits: int) -> pa.BooleanArray:
    """Tell which fields are so many hexadecimal digits; a pattern can't count beyond a thousand."""
    return pc.and_(_matches(fields, "[0-9a-fA-F]*"), pc.equal(pc.binary_length(fields), digits))


def _matches(fields: pa.LargeBinaryArray, pattern: str) -> pa.BooleanArray:
    r"""Return which fields are wholly of a pattern; `\A` and `\z`, since `$` would let a line feed pass."""
    return pc.match_substring_regex(fields, rf"\A{pattern}\z")


def _numbers(digits: pa.LargeBinaryArray) -> NDArray[np.uint32]:
    numbers: NDArray[np.uint32] = digits.cast(pa.large_string()).cast(pa.uint32()).to_numpy(zero_copy_only=False)
    return numbers


def _joined(fields: pa.LargeBinaryArray) -> str:
    """Return all fields, one after the other."""
    _, offsets, raw_bytes = fields.buffers()
    if raw_bytes is None or not len(fields):
        return ""
    bounds = np.frombuffer(offsets, dtype=np.int64)[fields.offset : fields.offset + len(fields) + 1]
    text: bytes = raw_bytes.to_pybytes()[bounds[0] : bounds[-1]]
    return text.decode("ascii")
