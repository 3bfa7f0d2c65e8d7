"""The column that names persons or households: there in every file, and of one type; no record is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from ...mechanisms.contributions import ContributionLimit
from ...mechanisms.errors import InputRefused
from ..readers.person_ids import id_class
from ..readers.values import RecordReading
from .list import Source, SourceLayout, check_metadata
from .parquet_footer import ParquetLayout

__all__ = ["with_person_column"]


def with_person_column(
    source: Source, *, columns: Sequence[str], reading: RecordReading, limit: ContributionLimit
) -> SourceLayout:
    """The files of a source with the released columns and, as the last, the one that names persons.

    Args:
        source: the files, which have the released columns.
        columns: names of the released columns.
        reading: how the records are read.
        limit: names the column.

    Raises:
        InputRefused: a file lacks the column, or has it in a type that names nobody or in another one than the first;
            or folders or partitions have it.
    """
    key = f"[data].{limit.unit}"
    if any(limit.column == name for name, _ in source.files[0].partition):
        raise InputRefused(
            f"the column {limit.column!r} is in no file: folders or the table's partitions have it.",
            where=key,
            remedy="Store the ids in the files.",
        )
    try:
        layout = check_metadata(source, columns=(*columns, limit.column), reading=reading)
    except InputRefused as refusal:
        raise InputRefused(
            refusal.what, where=refusal.where, remedy=f"Check {key}: it names the column of the {limit.unit}s' ids."
        ) from None
    first: tuple[str, str] | None = None
    for file, part in zip(source.files, layout.layouts, strict=True):
        if not isinstance(part, ParquetLayout):
            continue
        type_ = part.types[-1]
        found = id_class(type_)
        if found is None:
            raise InputRefused(
                f"the column {limit.column!r} has the type {type_}, by which no {limit.unit} can be told: "
                "a missing number is unlike itself, and large numbers run together.",
                where=file.path,
                remedy="Store the ids as texts or integers (pandas: astype('Int64')).",
            )
        if first is None:
            first = found, file.path
        elif found != first[0]:
            raise InputRefused(
                f"the column {limit.column!r} holds ids as {_named(found)} here, and as {_named(first[0])} in "
                f"{first[1]}: one {limit.unit} could bear two.",
                where=file.path,
                remedy="Store the ids in one type in all files.",
            )
    return layout


def _named(found: str) -> str:
    return "texts" if found == "text" else "integers"
