"""[data]: how records are read, as the specification declares it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..mechanisms.hierarchy import ValueHierarchy
from ..mechanisms.lattice import LatticeColumn
from ..mechanisms.recoding import MappedColumn
from ..mechanisms.refusal import InputRefused
from ..tasks.record_reading import RecordReading
from .spec_tables import SpecTables

__all__ = ["check_declared_values", "record_reading"]


def record_reading(spec: SpecTables) -> RecordReading:
    """How the specification's records are read.

    Args:
        spec: its tables.
    """
    table = spec.data
    return RecordReading(
        separator=table.separator,
        quoting=table.quoting,
        encoding=table.encoding,
        null_values=tuple(sorted(set(table.null))),
        trim=table.trim,
        decimal=table.decimal,
        whole_floats=table.whole_floats,
    )


def check_declared_values(path: Path, columns: Sequence[MappedColumn | LatticeColumn], reading: RecordReading) -> None:
    """Refuse declared values that no record can have, the way its texts are read.

    Args:
        path: the specification's file, for messages.
        columns: the columns that the records have.
        reading: how the records are read.

    Raises:
        InputRefused: there is such a value.
    """
    plain = reading.of_unicode
    if not plain.rewrites:
        return
    for column in columns:
        if not isinstance(column.hierarchy, ValueHierarchy):
            continue
        for value, *_ in column.hierarchy.rows():
            if value not in plain.null_values and plain.meant(value.encode()) != value.encode():
                raise InputRefused(
                    f"no record can have the declared value {value!r}: a text is read otherwise by trim, decimal or "
                    "whole_floats.",
                    where=f"{path}: [columns.{column.name}]",
                    remedy="Declare the value as it is read, or remove the key from [data].",
                )
