"""Records that are public, read to learn which values columns may have: no record of the release is among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ...flows.paths import resolve_paths
from ...mechanisms.kernel.errors import InputRefused
from ...tasks.inputs.list import list_source
from ...tasks.inputs.schema import read_names
from ...tasks.inputs.source import check_metadata
from ...tasks.readers.source_files import open_input
from ...tasks.readers.values import RecordReading
from ..documents.preview.reference_population import OwnRecords, require_public

MOST_RECORDS = 100_000
"""That are read: the first ones. Frequencies of more tell nothing new of which values are rare."""
MOST_VALUES = 20_000
"""Distinct texts of a column that are kept; one with more is an identifier, a free text or a number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicRecords:
    """What public records tell.

    Args:
        origin: what they are called.
        columns: by name.
        remark: where they couldn't be compared with the records of the specification; else empty.
    """

    origin: str
    columns: Mapping[str, PublicColumn]
    remark: str


@dataclass(frozen=True, kw_only=True)
class PublicColumn:
    """A column of public records, as texts.

    Args:
        texts: those that aren't missing, by how many records have each, the most frequent first.
        distinct: how many texts there are, kept or not.
        numbers: all values that are numbers, in ascending order.
        records: that aren't missing.
    """

    texts: Mapping[str, int]
    distinct: int
    numbers: Sequence[float]
    records: int

    @cached_property
    def not_numbers(self) -> int:
        """Return how many records have a text that writes no number."""
        return self.records - len(self.numbers)

    @property
    def complete(self) -> bool:
        """Tell whether all texts were kept."""
        return self.distinct == len(self.texts)


def read_public(public: str, *, names: Sequence[str], own: OwnRecords | None) -> PublicRecords:
    """Read public records of some columns.

    PRIVACY: whoever names them says that they are public; by names, places, sizes, headers and footers they must not
    be the records that the specification is of, nor any that were released.

    Args:
        public: file, folder or pattern of CSV or Parquet, seen from the working folder.
        names: of the columns that are wanted; those that the public records lack are left out.
        own: the records that the specification is of, which aren't read; None where nobody knows them yet.

    Raises:
        InputRefused: they are private by what metadata tell, or can't be read, or have none of the columns.
    """
    there = read_names(public, base=Path.cwd())
    listed = list_source(public, base=Path.cwd())
    if listed.table is not None or listed.file_format.name not in ("csv", "parquet"):
        raise _refused(public, "public records are read from files of CSV or Parquet.")
    in_folders = {name for name, _ in listed.files[0].partition}
    wanted = {*names} - in_folders
    stored = [column.name for column in there.columns if column.name in wanted]
    if not stored:
        raise _refused(public, "these records have none of the columns.")
    reading = RecordReading(separator=there.separator or ",")
    try:
        remark = require_public(check_metadata(listed, columns=stored, reading=reading), own, home=resolve_paths().home)
    except InputRefused as refusal:
        raise _refused(
            public,
            refusal.what,
            "Name other records that are public, such as last year's or a census sample; or leave this out.",
        ) from None
    try:
        batches = list(
            _first(
                batch
                for file in listed.files
                for batch in _batches(file.path, stored, csv=listed.file_format.name == "csv", reading=reading)
            )
        )
        if not any(batch.num_rows for batch in batches):
            raise _refused(public, "there are no records.")
        table = pa.Table.from_batches(batches)
        columns = {name: _column(table.column(name)) for name in stored}
    except (OSError, ImportError, pa.ArrowException, ValueError) as error:
        raise _refused(public, f"the public records cannot be read ({type(error).__name__}).") from None
    return PublicRecords(origin=public, columns=columns, remark=remark)


def _refused(public: str, what: str, remedy: str = "") -> InputRefused:
    not_done = "No record of the specification was read, and nothing was written."
    return InputRefused(what, where=f"--public {public}", not_done=not_done, remedy=remedy)


def _first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    left = MOST_RECORDS
    for batch in batches:
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def _batches(path: str, names: Sequence[str], *, csv: bool, reading: RecordReading) -> Iterator[pa.RecordBatch]:
    """Yield a file's records with all values as texts."""
    if csv:
        from pyarrow import csv as arrow_csv

        compression = {".gz": "gzip", ".zst": "zstd"}.get(Path(path).suffix.lower())
        with open_input(path) as file, pa.input_stream(file, compression=compression) as stream:
            yield from arrow_csv.open_csv(
                stream,
                parse_options=arrow_csv.ParseOptions(delimiter=reading.separator, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=list(names),
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
        return
    from pyarrow import parquet

    with open_input(path) as file:
        for batch in parquet.ParquetFile(file).iter_batches(columns=list(names)):
            texts = {name: _as_texts(batch.column(name)) for name in names}
            yield pa.RecordBatch.from_pydict(texts, schema=pa.schema([(name, pa.string()) for name in names]))


def _as_texts(values: pa.Array) -> pa.Array:
    """Return values as texts; those of a type that has none are missing."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        return values.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.nulls(len(values), pa.string())


_NUMBER = r"^-?[0-9]{1,18}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?$"


def _column(values: pa.ChunkedArray) -> PublicColumn:
    present = values.drop_null()
    counts = present.value_counts()
    order = pc.array_sort_indices(counts.field("counts"), order="descending")
    texts = {one["values"]: one["counts"] for one in counts.take(order.slice(0, MOST_VALUES)).to_pylist()}
    numbers = present.filter(pc.match_substring_regex(present, _NUMBER)).cast(pa.float64()).sort()
    return PublicColumn(texts=texts, distinct=len(counts), numbers=numbers.to_numpy().tolist(), records=len(present))
