"""Adding up local reports: a Dask dataframe of partial sums over files, merged in a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.krandomization import KRandomization, outcome_counts
from ...mechanisms.kinds.sketch import CountMeanSketch, SketchSums, empty_sums, summed
from ..inputs.source import Source, SourceLayout
from ..readers.csv_header import CsvLayout
from ..readers.csv_records import CSV
from ..readers.file_formats import AskedColumns
from ..readers.parquet_footer import ParquetLayout, open_parquet
from ..readers.parquet_records import PARQUET
from ..readers.report_files import Collection, ReportGroup, ReportTask, report_columns, sketch_batches, vector_batches
from ..readers.source_files import SourceFile, changes_refused
from ..readers.values import RecordReading
from .executors import Executor, OnProgress, computed, frame_of_tasks, merged_frame
from .quote_states import with_quote_states

if TYPE_CHECKING:
    import pandas as pd

_SPLIT_EVERY = 4
_COLUMN = "count"


def sketch_totals(
    groups: Sequence[ReportTask],
    *,
    sketch: CountMeanSketch,
    executor: Executor,
    on_progress: OnProgress | None = None,
) -> SketchSums:
    """Add up the reports of a count mean sketch; memory is a few megabytes a thread and a few tables of k·m counts.

    Raises:
        ReleaseFailed: reports cannot be read, or the workers were lost.
    """
    flat = _totals(groups, collection=sketch, executor=executor, on_progress=on_progress)
    return SketchSums(reports=flat[: sketch.hashes], ones=flat[sketch.hashes :].reshape(sketch.hashes, sketch.bits))


def outcome_totals(
    groups: Sequence[ReportTask],
    *,
    mechanism: KRandomization,
    executor: Executor,
    on_progress: OnProgress | None = None,
) -> NDArray[np.int64]:
    """Count K-randomized vectors; shape (2^L,). Args and errors as in `sketch_totals`."""
    return _totals(groups, collection=mechanism, executor=executor, on_progress=on_progress)


def added_up(group: ReportTask, *, collection: Collection) -> pd.DataFrame:
    """Return the partial sums of one group of reports, as one column of whole numbers; this runs on workers."""
    match collection:
        case CountMeanSketch():
            sums = empty_sums(collection)
            for batch in sketch_batches(group, collection):
                more = summed(collection, batch)
                np.add(sums.reports, more.reports, out=sums.reports)
                np.add(sums.ones, more.ones, out=sums.ones)
            return _frame(np.concatenate((sums.reports, sums.ones.ravel())))
        case KRandomization():
            counts = np.zeros(1 << collection.bits, dtype=np.int64)
            for vectors in vector_batches(group, collection):
                counts += outcome_counts(collection, vectors)
            return _frame(counts)
        case _:
            assert_never(collection)


def _totals(
    groups: Sequence[ReportTask], *, collection: Collection, executor: Executor, on_progress: OnProgress | None
) -> NDArray[np.int64]:
    size = _size(collection)
    if not groups:
        return np.zeros(size, dtype=np.int64)
    groups = with_quote_states(groups, executor=executor, on_progress=on_progress)
    meta = _frame(np.empty(0, dtype=np.int64))
    partial_sums = frame_of_tasks(added_up, groups, collection=collection, meta=meta, label="reports")
    whole = merged_frame(partial_sums, partial(_added, size=size), split_every=_SPLIT_EVERY)
    total = computed(whole, executor=executor, on_progress=on_progress)[_COLUMN]
    return np.asarray(total, dtype=np.int64)


def _size(collection: Collection) -> int:
    match collection:
        case CountMeanSketch(hashes=hashes, bits=bits):
            return hashes * (bits + 1)
        case KRandomization(bits=bits):
            return 1 << bits
        case _:
            assert_never(collection)


def _added(frame: pd.DataFrame, *, size: int) -> pd.DataFrame:
    """Add up partial sums that stand one below the other."""
    return _frame(frame[_COLUMN].to_numpy(dtype=np.int64).reshape(-1, size).sum(axis=0))


def _frame(counts: NDArray[np.int64]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({_COLUMN: counts})


_TASK_BYTES = 64 << 20
_USUAL = RecordReading()


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

    Raises:
        InputRefused: as `check_report_files`.
    """
    with changes_refused():
        return _checked_layout(source, collection=collection, reading=reading)


def _checked_layout(source: Source, *, collection: Collection, reading: RecordReading) -> SourceLayout:
    if source.file_format == CSV:
        asked = AskedColumns(names=report_columns(collection), reading=reading)
        headers = tuple(CSV.layout(file, asked) for file in source.files)
        return SourceLayout(source=source, layouts=headers)
    if source.file_format == PARQUET:
        footers = tuple(_parquet_layout(file, collection) for file in source.files)
        return SourceLayout(source=source, layouts=footers)
    raise InputRefused(
        "reports of local noise are read from CSV or Parquet.",
        where=source.files[0].path,
        remedy="Write them to one of these.",
    )


def report_tasks(layout: SourceLayout, *, collection: Collection) -> tuple[ReportTask, ...]:
    """Cut checked files into tasks of about 64 MiB; how they are cut changes no sum."""
    tasks: list[ReportTask] = []
    for number, (file, part) in enumerate(zip(layout.source.files, layout.layouts, strict=True)):
        if isinstance(part, ParquetLayout):
            tasks.extend(_row_groups(file, part.rows, bytes_per_report=_bytes_per_report(collection)))
        elif isinstance(part, CsvLayout):
            tasks.extend(part.chunks(file, number, CSV))
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
        # Two columns of one name would leave it to the library which of them is read.
        if len(places) != 1 or schema.field(places[0]).type not in wanted:
            raise InputRefused(
                f"the column {name!r} must occur exactly once, as {' or '.join(sorted(map(str, wanted)))}.",
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
        # A row group is never cut: it is the smallest piece that Parquet decodes by itself.
        if blocks and (reports + more) * bytes_per_report > _TASK_BYTES:
            yield ReportGroup(file=file, blocks=tuple(blocks), reports=reports)
            blocks, reports = [], 0
        blocks.append(block)
        reports += more
    if reports:
        yield ReportGroup(file=file, blocks=tuple(blocks), reports=reports)
