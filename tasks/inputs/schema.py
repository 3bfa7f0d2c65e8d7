"""The names and types of a source's columns, and nothing else of it: for starting a specification."""

from __future__ import annotations

from pathlib import Path

from ..readers.file_formats import NamedColumn, SourceNames, column_kind
from .list import list_source
from .source import Source


def read_names(source: str, *, base: Path, separator: str | None = None) -> SourceNames:
    """Read the names and types of the source's first file, and of the columns that folders or a table's log have.

    Args:
        separator: of CSV; None takes the one that splits the first line into most fields.

    Raises:
        InputRefused: it is of a kind that isn't read, can't be read, or its first line is no header.
    """
    listed = list_source(source, base=base)
    partition_columns = _partition_columns(listed)
    names = listed.file_format.names(listed.files[0].path, separator=separator)
    stored = [column for column in names.columns if column.name not in {one.name for one in partition_columns}]
    if listed.table is not None:
        stored = [column for column in stored if column.name in listed.table.columns]
    return SourceNames(separator=names.separator, columns=(*stored, *partition_columns))


def _partition_columns(listed: Source) -> tuple[NamedColumn, ...]:
    """Return the columns that have one value in a whole file: folders have texts, a table's log has types."""
    names = [name for name, _ in listed.files[0].partition]
    if listed.table is None:
        return tuple(NamedColumn(name=name, kind="unknown") for name in names)
    types = [listed.table.partition_types.get(name) for name in names]
    kinds = ["unmapped" if type_ is None else column_kind(type_) for type_ in types]
    return tuple(NamedColumn(name=name, kind=kind) for name, kind in zip(names, kinds, strict=True))
