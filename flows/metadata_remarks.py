"""What seems wrong by a source's metadata and may be right: told before the charge, and decides nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from ..mechanisms.hierarchies.declare import BUCKET_CODE, Hierarchy, ValueHierarchy
from ..tasks.inputs.csv_header import CsvLayout
from ..tasks.inputs.list import SourceLayout
from ..tasks.inputs.parquet_footer import ParquetLayout
from ..tasks.request import Request

__all__ = ["metadata_remarks"]

_DAY = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TRUTHS = (b"true", b"false")


def metadata_remarks(layout: SourceLayout, request: Request) -> tuple[str, ...]:
    """Sentences about headers that look like records, and columns whose type has none of the declared values.

    PRIVACY: headers and Parquet schemas alone are looked at, and nothing of a header is quoted.

    Args:
        layout: the source's metadata.
        request: what is asked for.
    """
    found: list[str] = []
    for file, part in zip(layout.source.files, layout.layouts, strict=True):
        match part:
            case CsvLayout(remarks=remarks):
                found.extend(f"{file.path}, line 1: {remark}." for remark in remarks)
            case ParquetLayout(types=types) if request.source_columns:
                found.extend(f"{file.path}: {remark}." for remark in _impossible_columns(types, request))
    return tuple(found)


def _impossible_columns(types: tuple[pa.DataType, ...], request: Request) -> Iterator[str]:
    for column, type_ in zip(request.source_columns, types, strict=True):
        if _unseen(type_, column.hierarchy):
            yield f"the column {column.name!r} has the type {type_}, and no value of it is declared: all would be `*`"


def _unseen(type_: pa.DataType, hierarchy: Hierarchy) -> bool:
    """Whether every value of a type has the bucket's code."""
    if pa.types.is_dictionary(type_):
        return _unseen(type_.value_type, hierarchy)
    if pa.types.is_null(type_):
        return True
    if pa.types.is_boolean(type_):
        return bool((hierarchy.codes_of_texts(_TRUTHS, 0) == BUCKET_CODE).all())
    if pa.types.is_date(type_):
        return not isinstance(hierarchy, ValueHierarchy) or not any(map(_DAY.fullmatch, hierarchy.leaf_of_text))
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return isinstance(hierarchy, ValueHierarchy) and hierarchy.leaf_of_integer.numbers.size == 0
    return False
