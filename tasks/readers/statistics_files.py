"""Files of SPSS, Stata and SAS, read by pyreadstat: what their heads say, and some of their records at a time.

pyreadstat is an extra. It has a file's columns, their types and value labels without a record.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...mechanisms.hierarchies.declare import Hierarchy, ValueHierarchy
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.recoding import BUCKET_CODE
from ...mechanisms.kernel.sampling import ChunkIdentity
from ...mechanisms.wording import did_you_mean
from ..kernel.counting import CoinsOfBlocks
from .column_codes import ColumnCoder, RecordCoder, arrow_of
from .file_formats import (
    AskedColumns,
    Chunk,
    FileFormat,
    FileLayout,
    NamedColumn,
    SourceNames,
    changed_since_listed,
    column_kind,
    records_read,
)
from .parquet_footer import ParquetLayout
from .source_files import Location, open_input, path_of, reject_duplicate_partition_column

_READERS: Mapping[str, str] = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
"""Endings of the names of files that are read, and by which function of pyreadstat."""

BLOCK_RECORDS = 1 << 17
"""Records of a chunk. INVARIANT: it decides the coins, and so is never another."""

_SPSS = (".sav", ".zsav")
_SAS_TRANSPORT, _TRANSPORT_BYTES = ".xpt", 80
_ANY_BYTES = "ISO-8859-1"
_TYPES = {
    "string": pa.large_string(),
    "int8": pa.int64(),
    "int16": pa.int64(),
    "int32": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_DATE = {
    **dict.fromkeys(_SPSS, re.compile(r"(DATE|ADATE|EDATE|JDATE|SDATE)[0-9.]*")),
    ".dta": re.compile(r"%-?t?d.*"),
    **dict.fromkeys(
        (".sas7bdat", ".xpt"), re.compile(r"(DATE|(DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?|[BE]8601DA|IS8601DA|WEEKDATE)[0-9.]*")
    ),
}
_TIME = {
    **dict.fromkeys(_SPSS, re.compile(r"(DATETIME|YMDHMS|TIME|DTIME|MTIME|MOYR|QYR|WKYR)[0-9.]*")),
    ".dta": re.compile(r"%-?t[cC].*"),
    **dict.fromkeys(
        (".sas7bdat", ".xpt"),
        re.compile(r"(DATETIME|DATEAMPM|TIME|TIMEAMPM|TOD|HHMM|MMSS|[BE]8601D[TZN]|[BE]8601TM)[0-9.]*"),
    ),
}
_EPOCH_DAYS = {**dict.fromkeys(_SPSS, -141_428), ".dta": -3_653, ".sas7bdat": -3_653, ".xpt": -3_653}
_DAY_UNITS = {**dict.fromkeys(_SPSS, 86_400), ".dta": 1, ".sas7bdat": 1, ".xpt": 1}

StoredLabels = Mapping[float | str, str]
"""A column's value labels: {stored value: label}."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsHead:
    """What a file says before its records.

    Args:
        records: how many there are; None where it isn't said, as in a transport file of SAS.
        types: Arrow's type of each column, in the file's order.
        labels: of each column that has some.
        missing: of SPSS, per column with user-missing values, (least, greatest) of each range.
        epoch_days: what is added to a stored day to have days since 1970.
        day_units: how many of the stored units are a day.
    """

    records: int | None
    types: Mapping[str, pa.DataType]
    labels: Mapping[str, StoredLabels]
    missing: Mapping[str, tuple[tuple[float, float], ...]]
    epoch_days: int
    day_units: int


@contextmanager
def _head_refused(path: str) -> Iterator[None]:
    try:
        import pyreadstat
    except ImportError:
        raise InputRefused(
            "this is a file of a statistics package, and the package that reads it isn't installed.",
            where=path,
            remedy="Install it: pip install 'crowdblend[statistics]'.",
        ) from None
    del pyreadstat
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        raise InputRefused(
            f"the file's head cannot be read ({type(error).__name__}).",
            where=path,
            remedy="The file is cut off, damaged, encrypted, or of another kind than its name says.",
        ) from None


def statistics_head(location: Location) -> StatisticsHead:
    """Return what a file says before its records.

    Raises:
        OSError, ValueError, ImportError: it can't be read, or says something that isn't understood.
    """
    suffix = _suffix(path_of(location))
    _, said = _read(location, metadataonly=True)
    names = list(said.column_names)
    if len(set(names)) != len(names):
        raise ValueError("a column is there twice")
    types = {
        name: _type(said.readstat_variable_types[name], said.original_variable_types.get(name) or "", suffix)
        for name in names
    }
    ranges = {
        name: tuple((one["lo"], one["hi"]) for one in found if not isinstance(one["lo"], str))
        for name, found in said.missing_ranges.items()
    }
    return StatisticsHead(
        records=None if said.number_rows is None or said.number_rows < 0 else said.number_rows,
        types=types,
        labels=dict(said.variable_value_labels),
        missing=ranges,
        epoch_days=_EPOCH_DAYS[suffix],
        day_units=_DAY_UNITS[suffix],
    )


def number_of_records(location: Location, head: StatisticsHead) -> int:
    """Return how many records a file has; where its head doesn't say, they are counted by reading one column.

    PRIVACY: this runs before the charge, so no record's text may make it fail: every byte is a character of Latin-1.

    Raises:
        OSError, ValueError, ImportError: it can't be read.
    """
    if head.records is not None:
        return head.records
    _, said = _read(location, metadataonly=True, encoding=_ANY_BYTES)
    column, start = said.column_names[:1], 0
    while True:
        found, _ = _read(location, usecols=column, row_offset=start, row_limit=BLOCK_RECORDS, encoding=_ANY_BYTES)
        read = max(map(len, found.values()), default=0)
        start += read
        # A block that isn't full is the last one.
        if read < BLOCK_RECORDS:
            return start


def read_block(location: Location, *, columns: Sequence[str], start: int, records: int) -> dict[str, list[Any]]:
    """Return some columns of some records: numbers and texts in lists, None where nothing is stored.

    Raises:
        OSError, ValueError, ImportError: they can't be read, or there are others than were asked for.
    """
    found, _ = _read(location, usecols=list(columns), row_offset=start, row_limit=records)
    # A damaged file may give fewer records than its head says; then coins and records would not belong together.
    if set(found) != set(columns) or any(len(values) != records for values in found.values()):
        raise ValueError("there are other records than were announced")
    return dict(found)


def require_one_meaning(
    layouts: Iterable[FileLayout], paths: Iterable[str], *, hierarchies: Mapping[str, Hierarchy]
) -> None:
    """Refuse value labels where a hierarchy could mean them or their codes.

    PRIVACY: it follows from the hierarchies and the files' heads, and from a record only where a head was made from the
    records.

    Raises:
        InputRefused: of one column codes and labels are both declared, and don't agree.
    """
    for path, layout in zip(paths, layouts, strict=True):
        for column, labels in layout.labels.items():
            if column in hierarchies and _declared(hierarchies[column], labels) == (True, True):
                raise InputRefused(
                    f"codes and value labels of the column {column!r} are both declared, so it is ambiguous "
                    "which of them a value means.",
                    where=path,
                    remedy="Declare its codes alone, or its labels alone.",
                )


def labels_are_meant(hierarchy: Hierarchy, labels: StoredLabels) -> bool:
    """Whether a hierarchy's values are a column's value labels: one is declared, and no code that bears another one.

    A value without a label is its code in any case. Intervals are of codes.
    """
    return _declared(hierarchy, labels) == (False, True)


def codes_are_listed(hierarchy: Hierarchy, labels: StoredLabels) -> bool:
    """Return whether a hierarchy's values are codes of which one bears a value label; intervals list none."""
    return isinstance(hierarchy, ValueHierarchy) and _declared(hierarchy, labels) == (True, False)


def _declared(hierarchy: Hierarchy, labels: StoredLabels) -> tuple[bool, bool]:
    """Whether a code that bears a label is declared, and whether a label is; one that is its code tells nothing."""
    if not isinstance(hierarchy, ValueHierarchy):
        return True, False
    pairs = [(code_text(value), label) for value, label in labels.items()]
    others = [(code, label) for code, label in pairs if code != label]
    codes = [code.encode() for code, _ in others]
    texts = [text.encode() for _, label in others for text in (label, label.strip())]
    return _any_declared(hierarchy, codes), _any_declared(hierarchy, texts)


def _any_declared(hierarchy: Hierarchy, texts: Sequence[bytes]) -> bool:
    return bool((hierarchy.codes_of_texts(texts, 0) != BUCKET_CODE).any()) if texts else False


def code_text(value: float | str) -> str:
    """Return a stored value as text; whole numbers without a decimal point."""
    if isinstance(value, str):
        return value
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


def _type(stored: str, shown: str, suffix: str) -> pa.DataType:
    type_ = _TYPES[stored]
    if stored != "string":
        if _TIME[suffix].fullmatch(shown):
            return pa.timestamp("s")
        if _DATE[suffix].fullmatch(shown):
            return pa.date32()
    return type_


def _read(location: Location, **options: Any) -> tuple[Mapping[str, list[Any]], Any]:  # noqa: ANN401 - pyreadstat's options
    """Return what pyreadstat reads; numbers stay as they are stored, and user-missing values of SPSS are values."""
    import pyreadstat

    suffix = _suffix(path_of(location))
    if suffix in _SPSS:
        options["user_missing"] = True
    with closing(open_input(location)) as file:
        if suffix == _SAS_TRANSPORT and file.seek(0, 2) % _TRANSPORT_BYTES:
            raise ValueError("a transport file has whole records of 80 bytes")
        file.seek(0)
        try:
            found: tuple[Mapping[str, list[Any]], Any] = getattr(pyreadstat, _READERS[suffix])(
                file, output_format="dict", disable_datetime_conversion=True, **options
            )
        except Exception as error:  # noqa: BLE001 - of classes of its own; what it says may quote a value
            raise ValueError(type(error).__name__) from None
    return found


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


_MOST_DAYS = 1 << 31


class StatisticsFormat(FileFormat):
    """Files of SPSS, Stata and SAS, whose chunks are blocks of BLOCK_RECORDS records."""

    name = "statistics"
    shown = "a statistics package"
    suffixes = tuple(_READERS)

    def names(self, location: Location, *, separator: str | None) -> SourceNames:
        """Return the columns of the head with their value labels, which its makers declared."""
        del separator
        with _head_refused(path_of(location)):
            head = statistics_head(location)
        columns = tuple(
            NamedColumn(
                name=name,
                kind="unknown" if name in head.labels else column_kind(type_),
                labels=tuple(
                    sorted(head.labels.get(name, {}).items(), key=lambda pair: (isinstance(pair[0], str), pair[0]))
                ),
            )
            for name, type_ in head.types.items()
        )
        return SourceNames(separator=None, columns=columns)

    def layout(self, file: Location, asked: AskedColumns) -> ParquetLayout:
        """Check the columns by the head; what follows is cut into blocks, as row groups are."""
        path, columns = path_of(file), asked.names
        with _head_refused(path):
            head = statistics_head(file)
            n_records = number_of_records(file, head)
        reject_duplicate_partition_column(head.types.keys(), partition_columns=asked.partition_columns, where=path)
        for column in columns:
            if column not in head.types:
                remedy = f"{did_you_mean([column], head.types)} Check [columns].".strip()
                raise InputRefused(f"there is no column {column!r}.", where=path, remedy=remedy)
            if pa.types.is_timestamp(head.types[column]):
                raise InputRefused(
                    f"the column {column!r} has times of day or months, which have no text here.",
                    where=path,
                    remedy="Give it a format of dates, or write it as text.",
                )
        blocks = range(0, n_records, BLOCK_RECORDS)
        rows = tuple(min(BLOCK_RECORDS, n_records - start) for start in blocks)
        return ParquetLayout(
            rows=rows,
            read_bytes=tuple(8 * len(columns) * records for records in rows),
            types=tuple(head.types[column] for column in columns),
            labels={column: head.labels[column] for column in columns if column in head.labels},
        )

    def keys(
        self, chunks: Sequence[Chunk], *, coders: Sequence[RecordCoder], key_words: int, coins: CoinsOfBlocks
    ) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
        """Give the keys, block by block; memory is bounded by the records of a block."""
        head: StatisticsHead | None = None
        all_records = 0
        for chunk in chunks:
            block, place = chunk.identity.block, f"{chunk.file.path}, block {chunk.identity.block}"
            with records_read(place):
                if head is None:
                    head = statistics_head(chunk.file)
                    all_records = number_of_records(chunk.file, head)
                records = min(BLOCK_RECORDS, all_records - block * BLOCK_RECORDS)
                if records != chunk.records:
                    raise changed_since_listed(place)
                positions = coins(chunk.identity).kept(records)
                keys = np.zeros((key_words, records if positions is None else positions.size), dtype=np.int64)
                if coders and keys.shape[1]:
                    names, start = [coder.name for coder in coders], block * BLOCK_RECORDS
                    columns = read_block(chunk.file, columns=names, start=start, records=records)
                    for coder in coders:
                        values = _stored(columns.pop(coder.name), coder, head)
                        keys[coder.rows] += coder.scaled_codes(values, positions)
            yield chunk.identity, keys


STATISTICS = StatisticsFormat()


def _stored(values: list[Any], coder: RecordCoder, head: StatisticsHead) -> pa.Array:
    """Return a column as an Arrow array of the type that the head gives it, or of the texts of its value labels."""
    type_ = head.types[coder.name]
    labels = head.labels.get(coder.name, {})
    text = pa.types.is_large_string(type_)
    numbers = np.empty(0) if text else np.array(values, dtype=np.float64)  # None is NaN
    if isinstance(coder, ColumnCoder):
        hierarchy = coder.column.hierarchy
        if labels_are_meant(hierarchy, labels):
            return _labelled(
                values if text else [None if isnan(number) else number for number in numbers.tolist()],
                labels,
                coder.null_values,
            )
        if not isinstance(hierarchy, ValueHierarchy):
            for least, greatest in head.missing.get(coder.name, ()):
                # User-missing values are numbers to the file's reader; to an interval of numbers they mean nothing.
                numbers[(numbers >= least) & (numbers <= greatest)] = np.nan
    if text:
        return pa.array(values, type=type_)
    if pa.types.is_date(type_):
        numbers = np.floor(numbers / head.day_units) + head.epoch_days
        numbers[~(np.abs(numbers) < _MOST_DAYS)] = np.nan
        return _whole(numbers, pa.date32(), np.int32)
    if pa.types.is_integer(type_):
        return _whole(numbers, pa.int64(), np.int64)
    return arrow_of(numbers.astype(np.float32) if type_ == pa.float32() else numbers)


def _whole(numbers: NDArray[np.float64], type_: pa.DataType, kind: type[np.signedinteger[Any]]) -> pa.Array:
    """Whole numbers of a type, null where there is none."""
    known = ~np.isnan(numbers)
    stored = np.where(known, numbers, 0.0).astype(kind)
    present = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(type_, stored.size, [present, pa.py_buffer(stored)])


def _labelled(values: Iterable[Any], labels: StoredLabels, kept: frozenset[bytes]) -> pa.Array:
    """Return the value label of each value, or its code where it bears none or its code means null; in a dictionary."""
    places: dict[Any, int] = {}
    indices = [places.setdefault(value, len(places)) for value in values]
    texts = [_text(value, labels, kept) for value in places]
    return pa.DictionaryArray.from_arrays(
        arrow_of(np.array(indices, dtype=np.int32)), pa.array(texts, type=pa.large_string())
    )


def _text(value: float | str | None, labels: StoredLabels, kept: frozenset[bytes]) -> str | None:
    if value is None:
        return None
    code = code_text(value)
    return code if code.encode() in kept else labels.get(value, code)
