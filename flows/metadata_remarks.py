"""What seems wrong by a source's metadata and may be right: it gives a warning, and refuses nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from ..mechanisms.hierarchies.build import DateHierarchy
from ..mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from ..mechanisms.kernel.recoding import BUCKET_CODE
from ..tasks.request import Request

if TYPE_CHECKING:
    import pyarrow as pa

    from ..tasks.inputs.source import SourceLayout
    from ..tasks.readers.statistics_files import StoredLabels

_DAY = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(_DAY.pattern + rb" [0-9:.]+")
_TRUTHS = (b"true", b"false")


def metadata_remarks(layout: SourceLayout, request: Request) -> tuple[str, ...]:
    """Sentences about headers that look like records, columns whose type has no declared value, codes, and no records.

    PRIVACY: headers, Parquet footers and sizes alone are looked at, and nothing of a header is quoted. That there are
    no records is a warning and no refusal: if a table of one record were released and an empty one not, a release
    would tell that the one person is in the table. So a release of no records is charged and published as any other.
    """
    found: list[str] = []
    for file, part in zip(layout.source.files, layout.layouts, strict=True):
        found.extend(f"{file.path}, line 1: {remark}." for remark in part.remarks)
        if part.types is not None:
            found.extend(f"{file.path}: {remark}." for remark in _impossible_columns(part.types, part.labels, request))
            found.extend(f"{file.path}: {remark}." for remark in _other_codes(part.labels, request))
            found.extend(f"{file.path}: {remark}." for remark in _codes_of_a_head(part.labels, request))
    if layout.without_records:
        found.append(f"{request.source}: no record follows the header, and a release is charged all the same.")
    return tuple(found)


def _impossible_columns(types: tuple[pa.DataType, ...], labels: Collection[str], request: Request) -> Iterator[str]:
    for column, type_ in zip(request.source_columns, types, strict=False):  # a column of ids may come after them
        if column.name in labels:  # its values may be read as value labels
            continue
        if _unseen(type_, column.hierarchy) or _has_places(type_, column.hierarchy, request):
            yield f"the column {column.name!r} has the type {type_}, and no value of it is declared: all would be `*`"


def _other_codes(labels: Mapping[str, StoredLabels], request: Request) -> Iterator[str]:
    """Columns whose labels would have other codes in a file for the same package than they have in the source."""
    from ..tasks.readers.statistics_files import labels_are_meant

    for column in request.source_columns if request.also else ():
        own = labels.get(column.name, {})
        if own and labels_are_meant(column.hierarchy, own):
            declared = request.codes.get(column.name, {})
            if any(declared.get(label.strip()) not in (None, code) for code, label in own.items()):
                yield f"the codes that [columns.{column.name}] declares are not those of the file's value labels"
            elif not declared:
                yield (
                    f"[columns.{column.name}] declares no codes, so in {' and '.join(request.also)} its labels have "
                    "other codes than here, and programs that were written for these would run and be wrong: declare "
                    "codes, as crowdblend spec new writes them"
                )


def _codes_of_a_head(labels: Mapping[str, StoredLabels], request: Request) -> Iterator[str]:
    """Columns whose codes are declared, though the head has labels: it may have been made from the records."""
    from ..tasks.readers.statistics_files import codes_are_listed

    for column in request.source_columns:
        if codes_are_listed(column.hierarchy, labels.get(column.name, {})):
            yield (
                f"the column {column.name!r} has value labels, and its codes are declared: where a program gave the "
                "codes by sorting the values that occur, one record more may change everybody's, which no price "
                "covers, so declare the labels instead"
            )


def _has_places(type_: pa.DataType, hierarchy: Hierarchy, request: Request) -> bool:
    """Return whether values are decimals such as 30.0, where whole numbers are declared and aren't read of them."""
    import pyarrow as pa

    places = pa.types.is_decimal(type_) and type_.scale > 0
    return places and not request.reading.whole_floats and isinstance(hierarchy, IntervalHierarchy)


def _unseen(type_: pa.DataType, hierarchy: Hierarchy) -> bool:
    """Return whether every value of a type has the bucket's code."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return _unseen(type_.value_type, hierarchy)
    if pa.types.is_null(type_):
        return True
    if pa.types.is_boolean(type_):
        return bool((hierarchy.codes_of_texts(_TRUTHS, 0) == BUCKET_CODE).all())
    if pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and not isinstance(hierarchy, DateHierarchy)):
        form = _DAY if pa.types.is_date(type_) else _TIME
        return not isinstance(hierarchy, ValueHierarchy) or not any(map(form.fullmatch, hierarchy.leaf_of_text))
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return isinstance(hierarchy, ValueHierarchy) and hierarchy.leaf_of_integer.numbers.size == 0
    return False
