"""What a release publishes: a table written as Parquet, CSV, SPSS or Stata, and what its certificate says of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...mechanisms.generalization_map import ColumnsTold, GeneralizationMap, columns_told
from ...mechanisms.hierarchies.declare import BUCKET_LABEL, canonical_integer
from ..readers.column_codes import arrow_of, numbers_of, texts_of
from ..request import LARGEST_CODE, AlsoFormat, FileFormat

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 1 << 20
TEXT_ROWS_AT_ONCE = 1 << 16
_WRITTEN_AT_ONCE = 1 << 16
"""Rows of a column that Arrow encodes in a step; each step has the same cost, and Arrow's own are of 1,024 rows."""
_BUFFERED_BYTES = 1 << 18
_DENSE_CODES = 1 << 16
_SHORT_PLACES = 1 << 15
_GROUPS_AT_ONCE = 1 << 18
_MOST_LABELS = 30_000
_LABEL_BYTES = 120
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SAV_TIME, _DTA_TIME = 92, b"<timestamp>\x11"
_HEAD = 400
ROWS_OF_LABELS = frozenset({"microdata", "counts", "synthetic"})
"""Forms of a table whose rows are of records with labels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableColumn:
    """One published column.

    Args:
        values: one for each distinct row; shape (rows,). Parquet has their type. Numbers may lie in several chunks.
        shown: how CSV shows one of them.
    """

    name: str
    values: pa.Array | pa.ChunkedArray
    shown: Callable[[Any], str] = str

    @property
    def texts(self) -> list[str]:
        """Return the values as CSV shows them."""
        if not pa.types.is_dictionary(self.values.type):
            return [self.shown(value) for value in self.values.to_pylist()]
        entries = [self.shown(entry) for entry in self.values.dictionary.to_pylist()]
        return [entries[place] for place in numbers_of(self.values.indices).tolist()]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedTable:
    """What may leave: distinct rows, and how often each is there.

    PRIVACY: the rows' order, and everything written from them, is a function of this object alone.

    Args:
        columns: at least one; all of the same length.
        times: how often each row is published, at least 0; int64, shape (rows,). None publishes each once.
    """

    columns: tuple[TableColumn, ...]
    times: NDArray[np.int64] | None

    @property
    def distinct(self) -> int:
        """Return how many rows there are before they are repeated."""
        return len(self.columns[0].values)

    @property
    def rows(self) -> int:
        """Return how many rows are published."""
        return self.distinct if self.times is None else int(self.times.sum())

    @property
    def records(self) -> int:
        """Return how many records the rows show: as many as there are rows, or what their counts add up to."""
        return int(self._counts.sum())

    @property
    def told(self) -> dict[str, Any]:
        """Return how much the labels of its rows tell."""
        labels = {column.name: column.values for column in self.columns if pa.types.is_dictionary(column.values.type)}
        return labels_told(labels, self._counts).facts

    @property
    def _counts(self) -> NDArray[Any]:
        if self.times is not None:
            return self.times
        return next(numbers_of(_whole(column.values)) for column in self.columns if column.name == "count")

    @property
    def schema(self) -> pa.Schema:
        """Return names and types of the columns."""
        return pa.schema([pa.field(column.name, column.values.type) for column in self.columns])

    def blocks(self, rows_at_once: int) -> Iterator[pa.Table]:
        """Yield all published rows, some at a time."""
        schema, values = self.schema, [column.values for column in self.columns]
        if self.times is None:
            for first in range(0, self.distinct, rows_at_once):
                yield pa.Table.from_arrays([_whole(own.slice(first, rows_at_once)) for own in values], schema=schema)
            return
        # Rows are repeated block by block, since all repetitions at once may not fit in memory.
        ends = np.cumsum(self.times)
        published = int(self.times.sum())
        for first in range(0, published, rows_at_once):
            last = min(first + rows_at_once, published)
            begin, end = np.searchsorted(ends, (first, last - 1), side="right").tolist()
            times = np.diff(np.minimum(ends[begin : end + 1], last), prepend=first)
            taken, some = arrow_of(np.repeat(np.arange(end + 1 - begin, dtype=np.int64), times)), end + 1 - begin
            yield pa.Table.from_arrays([_whole(own.slice(begin, some)).take(taken) for own in values], schema=schema)


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A table that may leave.

    PRIVACY: all of it is public before the records are read, or a function of the published table.

    Args:
        table: the rows, or the first table of them.
        stem: the name of its file.
        beside: other tables of the release, each in a file of its name.
        groups: how many groups, cells or answers it has.
        records: how many records it shows; None where it counts none.
        form: what it is, for example "microdata".
        details: what else its certificate says of it, in JSON's types.
    """

    table: PublishedTable
    stem: str = "data"
    beside: Mapping[str, PublishedTable] = field(default_factory=dict)
    file_format: FileFormat
    groups: int
    records: int | None
    form: str
    details: Mapping[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        """Return the certificate's part about what is published; of rows of labels also how much they tell.

        Nothing of a histogram, which publishes every cell, and whose noisy counts are of no records. Of several tables
        of rows the details say it.
        """
        told = self.table.told if self.form in ROWS_OF_LABELS and self.stem == "data" else {}
        return {"form": self.form, "groups": self.groups, "records": self.records, **self.details, **told}


def labels_told(labels: Mapping[str, pa.Array], times: NDArray[Any]) -> ColumnsTold:
    """Count what the published records tell: the labels that aren't `*`.

    Args:
        labels: of each column, the label of each row as a dictionary; each of shape (rows,).
        times: how many records each row stands for, shape (rows,).
    """
    stars = {}
    for name, values in labels.items():
        places = numbers_of(values.indices)
        stars[name] = np.zeros(places.size, dtype=np.bool_)
        for place, label in enumerate(values.dictionary.to_pylist()):
            if label == BUCKET_LABEL:
                stars[name] |= places == place
    return columns_told(stars, times)


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return values as one array, which of one chunk is no copy."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def label_columns(keys: NDArray[np.int64], *, generalization: GeneralizationMap) -> Iterator[TableColumn]:
    """Yield the labels of some groups; a column's dictionary holds those that some group has and nothing else.

    Args:
        keys: the groups, shape (words, n).
    """
    for number, column in enumerate(generalization.columns):
        possible = sum(column.hierarchy.size(level) for level in range(column.hierarchy.levels))
        # Of all maps one type, so that stages can stand below one another.
        places = np.empty(keys.shape[1], dtype=np.int16 if possible <= _SHORT_PLACES else np.int32)
        present = _number_labels(keys, number, generalization=generalization, into=places)
        labels = texts_of(column.hierarchy.labels(present, column.level))
        values = pa.DictionaryArray.from_arrays(arrow_of(places), labels)
        yield TableColumn(name=column.name, values=values)


def _number_labels(
    keys: NDArray[np.int64], number: int, *, generalization: GeneralizationMap, into: NDArray[Any]
) -> NDArray[np.int64]:
    """The distinct codes of a column, ascending; the place of each group's among them is written, some at a time."""
    size = generalization.columns[number].size
    if size > max(_DENSE_CODES, keys.shape[1]):
        present, into[:] = np.unique(generalization.codes_of(keys, number), return_inverse=True)
        return present
    blocks = [slice(first, first + _GROUPS_AT_ONCE) for first in range(0, keys.shape[1], _GROUPS_AT_ONCE)]
    there = np.zeros(size, dtype=np.bool_)
    for block in blocks:
        there[generalization.codes_of(keys[:, block], number)] = True
    # Code → place among the codes that occur: a dictionary must hold no label that no published group has.
    place_of = (np.cumsum(there) - 1).astype(into.dtype)
    for block in blocks:
        into[block] = place_of[generalization.codes_of(keys[:, block], number)]
    return np.flatnonzero(there)


def stacked_columns(parts: Sequence[Iterable[TableColumn]]) -> tuple[TableColumn, ...]:
    """Return columns of labels below one another; a dictionary holds the labels that some row has and nothing else.

    The parts' columns are taken one after the other, so that of one column alone there is a copy in memory.
    """
    return tuple(
        TableColumn(
            name=columns[0].name,
            values=pa.chunked_array([column.values for column in columns]).unify_dictionaries().combine_chunks(),
        )
        for columns in zip(*parts, strict=True)
    )


def figure_column(name: str, *parts: NDArray[np.int64] | NDArray[np.float64]) -> TableColumn:
    """Return one column of numbers, those of its parts below one another without a copy; each of shape (rows of it,).

    A part may be given several times, and takes no more memory for it.
    """
    return TableColumn(name=name, values=pa.chunked_array([arrow_of(part) for part in parts]))


def text_column(name: str, values: Sequence[str | None]) -> TableColumn:
    """Return one column of texts, in a dictionary of those that are there; None is null, which is empty in CSV."""
    return TableColumn(name=name, values=pa.array(values, type=pa.string()).dictionary_encode())


def count_table(
    keys: NDArray[np.int64],
    counts: NDArray[np.int64],
    *,
    generalization: GeneralizationMap,
    form: Literal["microdata", "counts"],
) -> PublishedTable:
    """Return the labels of some groups, with their counts or repeated as often.

    Args:
        counts: what is published of each group's size; int64, shape (n,). Only as "counts" it may be 0 or negative.
        form: "microdata" repeats each row, "counts" gives each its count.
    """
    columns = tuple(label_columns(keys, generalization=generalization))
    if form == "microdata":
        return PublishedTable(columns=columns, times=counts)
    return PublishedTable(columns=(*columns, TableColumn(name="count", values=arrow_of(counts))), times=None)


def figure_columns(
    names: tuple[str, str, str, str],
    values: Sequence[float],
    widths: Sequence[float],
    errors: Sequence[float],
    *,
    shown: Callable[[float], str],
) -> tuple[TableColumn, ...]:
    """Return an estimate, the ends of its interval, and its standard error, as four columns of one row for each."""
    value, width = np.array(values, dtype=np.float64), np.array(widths, dtype=np.float64)
    columns = (value, value - width, value + width, np.array(errors, dtype=np.float64))
    return tuple(
        TableColumn(name=name, values=arrow_of(figures), shown=shown)
        for name, figures in zip(names, columns, strict=True)
    )


def write_table(table: PublishedTable, *, folder: Path, file_format: FileFormat, stem: str = "data") -> str:
    """Write `data.parquet` or `data.csv`, or a file of another stem, into a folder and return the file's name.

    Raises:
        OSError: the folder can't be written.
    """
    name = f"{stem}.{file_format}"
    if file_format == "parquet":
        # PRIVACY: every dictionary entry and statistic in this file is of a published value.
        options = {"compression": "zstd", "store_schema": False, "write_batch_size": _WRITTEN_AT_ONCE}
        with pq.ParquetWriter(folder / name, table.schema, **options) as writer:
            for block in table.blocks(ROWS_AT_ONCE):
                writer.write_table(block, row_group_size=ROWS_AT_ONCE)
        return name
    with (folder / name).open("wb", buffering=_BUFFERED_BYTES) as file:
        file.write(_csv_line([column.name for column in table.columns]))
        for number, lines in enumerate(_csv_lines(table)):
            if table.times is None:
                file.write(_bytes(lines))
                continue
            times = table.times[number * TEXT_ROWS_AT_ONCE :][: len(lines)].tolist()
            for line, count in zip(lines.cast(pa.large_binary()).to_pylist(), times, strict=True):
                for first in range(0, count, ROWS_AT_ONCE):
                    file.write(line * min(ROWS_AT_ONCE, count - first))
    return name


def _csv_lines(table: PublishedTable) -> Iterator[pa.Array]:
    """Yield the lines of the distinct rows, TEXT_ROWS_AT_ONCE at a time."""
    known = [_shown_entries(column, table) for column in table.columns]
    comma, nothing, line_feed = texts_of([",", "", "\n"]).cast(pa.large_string())
    for block in PublishedTable(columns=table.columns, times=None).blocks(TEXT_ROWS_AT_ONCE):
        fields = [
            _csv_fields(block.column(place).chunk(0), column, entries, table)
            for place, (column, entries) in enumerate(zip(table.columns, known, strict=True))
        ]
        yield pc.binary_join_element_wise(pc.binary_join_element_wise(*fields, comma), line_feed, nothing)


def _shown_entries(column: TableColumn, table: PublishedTable) -> pa.Array | None:
    """Return what CSV has for each entry of a column's dictionary; None where it has no dictionary."""
    if not pa.types.is_dictionary(column.values.type):
        return None
    return _quoted([column.shown(entry) for entry in column.values.dictionary.to_pylist()], table)


def _csv_fields(values: pa.Array, column: TableColumn, entries: pa.Array | None, table: PublishedTable) -> pa.Array:
    """Return what CSV has for some values of a column, each distinct one shown once."""
    encoded = values if entries is not None else values.dictionary_encode()
    if entries is None:
        entries = _quoted([column.shown(value) for value in encoded.dictionary.to_pylist()], table)
    taken = entries.take(encoded.indices)
    return taken.fill_null("") if taken.null_count else taken


def _quoted(texts: Sequence[str], table: PublishedTable) -> pa.Array:
    """Texts as fields of CSV, with quotes where one needs them; one that is alone in its row needs some if empty."""
    alone = len(table.columns) == 1
    rest = b"\n" if alone else b",\n"
    fields = [_csv_line([text] if alone else [text, ""]).removesuffix(rest).decode("utf-8") for text in texts]
    return texts_of(fields).cast(pa.large_string())


def _bytes(lines: pa.Array) -> memoryview:
    """Return the bytes of some texts, one after the other."""
    _, ends, content = lines.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(content)[offsets[0] : offsets[-1]]


def _csv_line(fields: tuple[str, ...] | list[str]) -> bytes:
    """Return one row with minimal quotes and a line feed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_MINIMAL).writerow(fields)
    return text.getvalue().encode("utf-8")


def write_statistics_table(
    table: PublishedTable,
    *,
    folder: Path,
    format_: AlsoFormat,
    stem: str,
    day: date,
    codes: Mapping[str, Mapping[str, int]],
) -> str:
    """Write `data.sav` or `data.dta`, or a file of another stem, into a folder and return the file's name.

    A column of labels has codes and the labels as their value labels: those that are declared, of a whole number that
    number, and of others the next ones in the labels' order. One with labels that are too long or too many for that
    has texts. All rows are in memory at once.

    PRIVACY: the file is a function of the published table, the declared codes and the day; no clock is in it. Codes
    are never those of the source's head, which may have been made from the records.

    Args:
        codes: column → label → code, as declared; distinct in each column.

    Raises:
        OSError: the folder can't be written.
    """
    import pandas as pd
    import pyreadstat

    name = f"{stem}.{format_}"
    columns: dict[str, Any] = {}
    labels: dict[str, dict[int | float, str]] = {}
    for column in table.columns:
        columns[column.name] = _repeated(_values(column, labels, codes.get(column.name, {})), table)
    write = pyreadstat.write_sav if format_ == "sav" else pyreadstat.write_dta
    write(_frame(pd, columns), folder / name, variable_value_labels=labels)
    _set_day(folder / name, format_, day)
    return name


def _frame(pandas: Any, columns: dict[str, Any]) -> pd.DataFrame:  # noqa: ANN401 - the module, which loads slowly
    frame: pd.DataFrame = pandas.DataFrame(columns)
    return frame


def _values(
    column: TableColumn, labels: dict[str, dict[int | float, str]], declared: Mapping[str, int]
) -> NDArray[Any]:
    """Return a column's distinct values, null as missing; the value labels of its codes are added to others'."""
    values = _whole(column.values)
    if pa.types.is_dictionary(values.type):
        entries = [column.shown(entry) for entry in values.dictionary.to_pylist()]
        places = numbers_of(values.indices.fill_null(0))
        none = values.is_null().to_numpy(zero_copy_only=False)
        of_codes = len(entries) <= _MOST_LABELS and all(0 < len(entry.encode()) <= _LABEL_BYTES for entry in entries)
        if of_codes and (entries or not none.size):
            own = _codes(entries, declared)
            labels[column.name] = dict(zip(own, entries, strict=True))
            codes: NDArray[Any] = np.array(own, dtype=np.int32)[places]
            return np.where(none, np.nan, codes) if none.any() else codes
        # Texts have no missing value but the empty one.
        texts: NDArray[Any] = np.array([*entries, ""], dtype=object)[np.where(none, len(entries), places)]
        return texts
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return numbers_of(values).astype(np.float64)
    return np.array(column.texts, dtype=object)


def _codes(entries: Sequence[str], declared: Mapping[str, int]) -> list[int]:
    """A code for each label: the declared one, else its own number where it is one, else the next that is free."""
    numbers = {entry: number for entry in entries if (number := canonical_integer(entry.encode())) is not None}
    if declared or any(abs(number) > LARGEST_CODE for number in numbers.values()):
        numbers = {}
    taken = {**numbers, **declared}
    first = max([0, *taken.values()]) + 1
    others = (entry for entry in entries if entry not in taken)
    taken |= {entry: code for code, entry in enumerate(others, start=first)}
    return [taken[entry] for entry in entries]


def _repeated(values: NDArray[Any], table: PublishedTable) -> NDArray[Any]:
    return values if table.times is None else np.repeat(values, table.times)


def _set_day(path: Path, format_: AlsoFormat, day: date) -> None:
    """Put the release's day, at midnight, where the head has the time at which the file was written."""
    month = _MONTHS[day.month - 1]
    with path.open("r+b") as file:
        head = file.read(_HEAD)
        if format_ == "sav":
            start, said = _SAV_TIME, f"{day.day:02} {month} {day.year % 100:02}00:00:00"
        else:
            start, said = head.index(_DTA_TIME) + len(_DTA_TIME), f"{day.day:02} {month} {day.year} 00:00"
        file.seek(start)
        file.write(said.encode("ascii"))
