"""The names and types of a source's columns, and nothing else of it: for starting a specification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from ...mechanisms.kernel.errors import InputRefused
from ..readers.csv_header import CsvHeader, header_of, likeness, read_head
from ..readers.parquet_footer import open_parquet
from ..readers.statistics_files import read_statistics_head
from ..readers.values import RecordReading
from .list import foreign_source, list_source
from .source import RecordFormat, Source

ColumnKind = Literal["text", "integer", "boolean", "date", "number", "unknown", "unmapped"]
SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedColumn:
    """One column.

    Args:
        name: as the source has it.
        kind: what its type is to a hierarchy; "unknown" in CSV, which has no types, "unmapped" for a type that has
            no text.
        labels: of a statistics package's file, the column's value labels with their codes, in the order of the codes.
    """

    name: str
    kind: ColumnKind
    labels: tuple[tuple[float | str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceNames:
    """What may be known of a source before anything is decided.

    Args:
        separator: of CSV records; None for others.
        columns: in their order.
    """

    separator: str | None
    columns: tuple[NamedColumn, ...]


def read_names(source: str, *, base: Path, separator: str | None = None) -> SourceNames:
    """Read the names and types of the source's first file, and of the columns that folders or a table's log have.

    PRIVACY: of a Parquet file only the schema is looked at; the statistics, dictionaries and metadata of its footer
    are not, nor what a nested type is made of. Of a statistics package's file the head is taken with its value labels,
    which its makers declared. Of a CSV file the first line is taken, and refused where it looks
    like a record; no refusal quotes it.

    Args:
        source: file, folder, glob or URL.
        base: folder that a relative path starts from.
        separator: of CSV; None takes the one that splits the first line into most fields.

    Raises:
        InputRefused: it is of a kind that isn't read, can't be read, or its first line is no header.
    """
    foreign = foreign_source(source)
    if foreign is not None:
        raise foreign
    listed = list_source(source, base=base)
    path = listed.files[0].path
    borne = _borne_columns(listed)
    if listed.record_format is not RecordFormat.CSV:
        typed = _parquet_columns if listed.record_format is RecordFormat.PARQUET else _statistics_columns
        stored = [column for column in typed(path) if column.name not in {one.name for one in borne}]
        if listed.table is not None:
            stored = [column for column in stored if column.name in listed.table.columns]
        return SourceNames(separator=None, columns=(*stored, *borne))
    names, mark = _header(path, separator)
    stored = [NamedColumn(name=name, kind="unknown") for name in names]
    return SourceNames(separator=mark, columns=(*stored, *borne))


def _borne_columns(listed: Source) -> tuple[NamedColumn, ...]:
    """The columns that have one value in a whole file: folders have texts, a table's log has types."""
    names = [name for name, _ in listed.files[0].partition]
    if listed.table is None:
        return tuple(NamedColumn(name=name, kind="unknown") for name in names)
    types = listed.table.partition_types
    kinds = [(name, types.get(name)) for name in names]
    return tuple(NamedColumn(name=name, kind="unmapped" if kind is None else _kind(kind)) for name, kind in kinds)


def _parquet_columns(path: str) -> tuple[NamedColumn, ...]:
    try:
        with open_parquet(path) as file:
            fields = [(field.name, field.type) for field in file.schema_arrow]
    except (OSError, ImportError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InputRefused(f"the Parquet footer cannot be read ({type(error).__name__}).", where=path) from None
    return tuple(NamedColumn(name=name, kind=_kind(type_)) for name, type_ in fields)


def _statistics_columns(path: str) -> tuple[NamedColumn, ...]:
    head = read_statistics_head(path)
    return tuple(
        NamedColumn(
            name=name,
            kind="unknown" if name in head.labels else _kind(type_),
            labels=tuple(
                sorted(head.labels.get(name, {}).items(), key=lambda pair: (isinstance(pair[0], str), pair[0]))
            ),
        )
        for name, type_ in head.types.items()
    )


def _kind(type_: pa.DataType) -> ColumnKind:
    if pa.types.is_dictionary(type_):
        return _kind(type_.value_type)
    if pa.types.is_decimal(type_):
        return "integer" if type_.scale == 0 else "number"
    kinds: tuple[tuple[ColumnKind, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
        ("text", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
        ("integer", (pa.types.is_integer,)),
        ("boolean", (pa.types.is_boolean,)),
        ("date", (pa.types.is_date,)),
        ("number", (pa.types.is_floating,)),
    )
    if pa.types.is_timestamp(type_) and type_.tz is None:
        return "date"
    for kind, tests in kinds:
        if any(test(type_) for test in tests):
            return kind
    return "unmapped"


def _header(path: str, separator: str | None) -> tuple[list[str], str]:
    marks = SEPARATORS if separator is None else (separator,)
    if any(len(mark) != 1 or not mark.isascii() or mark in '"\r\n\0' for mark in marks):
        raise InputRefused("a separator is one ASCII character, no quote or line break.", where="--separator")
    head = read_head(path)
    found: list[tuple[CsvHeader, str]] = []
    refusals: list[InputRefused] = []
    for mark in marks:
        try:
            found.append((header_of(head, path=path, reading=RecordReading(separator=mark)), mark))
        except InputRefused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    header, mark = max(found, key=lambda each: len(each[0].names))
    names = list(header.names)
    _require_names(names, where=f"{path}, line 1")
    return names, mark


def _require_names(names: list[str], *, where: str) -> None:
    # PRIVACY: where there is no header, the first line is a record, and its values would stand in the specification.
    for place, name in enumerate(names, start=1):
        looks = likeness(name)
        if looks is not None:
            raise InputRefused(
                f"field {place} of the first line is {looks}, so the line seems to be a record and not a header.",
                where=where,
                remedy="The first line has to name the columns. A column that is really called so must be renamed.",
            )
    if len(set(names)) != len(names):
        raise InputRefused(
            "the first line has a field twice, so it seems to be a record and not a header.",
            where=where,
            remedy="The first line has to name each column once.",
        )
