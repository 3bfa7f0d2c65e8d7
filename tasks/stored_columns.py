"""How Parquet stores the columns that are known here: their types, and the entries of their dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .arrow_arrays import arrow_of

try:
    from . import page_decoder
except ImportError:  # installed where no compiler was at hand
    page_decoder = None  # type: ignore[assignment]

__all__ = ["StoredColumn", "dictionary_values", "stored_columns"]

_WIDTHS: Mapping[str, np.dtype[Any]] = {
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FLOAT": np.dtype("<f4"),
    "DOUBLE": np.dtype("<f8"),
}
_NARROW: Mapping[pa.DataType, np.dtype[Any]] = {
    pa.int8(): np.dtype("i1"),
    pa.int16(): np.dtype("<i2"),
    pa.uint8(): np.dtype("u1"),
    pa.uint16(): np.dtype("<u2"),
    pa.uint32(): np.dtype("<u4"),
    pa.uint64(): np.dtype("<u8"),
}
_TYPES: Mapping[str, frozenset[pa.DataType]] = {
    "INT32": frozenset({pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.date32()}),
    "INT64": frozenset({pa.int64(), pa.uint64()}),
    "FLOAT": frozenset({pa.float32()}),
    "DOUBLE": frozenset({pa.float64()}),
    "BYTE_ARRAY": frozenset({pa.string(), pa.large_string(), pa.string_view()}),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredColumn:
    """Where a column stands in the file, and how its values are stored.

    Args:
        place: number of the column.
        physical: Parquet's type of its values.
        type_: their type for Arrow.
        type_name: its name; types themselves are slow to look up by.
        optional: whether they may be null.
    """

    place: int
    physical: str
    type_: pa.DataType
    type_name: str
    optional: bool

    @property
    def width(self) -> int:
        """Bytes of a value; 0 where each begins with its length."""
        return 0 if self.physical == "BYTE_ARRAY" else _WIDTHS[self.physical].itemsize


def stored_columns(footer: pq.FileMetaData, schema: pa.Schema) -> dict[str, StoredColumn]:
    """The flat columns of types that are known here."""
    known: dict[str, StoredColumn] = {}
    for place in range(footer.num_columns):
        stored = footer.schema.column(place)
        if stored.max_repetition_level or stored.max_definition_level > 1 or stored.path != stored.name:
            continue
        found = schema.get_all_field_indices(stored.name)
        type_ = schema.field(found[0]).type if len(found) == 1 else None
        if type_ is not None and pa.types.is_dictionary(type_):
            type_ = type_.value_type
        if type_ in _TYPES.get(stored.physical_type, frozenset()):
            known[stored.name] = StoredColumn(
                place=place,
                physical=stored.physical_type,
                type_=type_,
                type_name=str(type_),
                optional=stored.max_definition_level == 1,
            )
    return known


def dictionary_values(octets: memoryview, count: int, column: StoredColumn) -> pa.Array:
    """The values of a dictionary page.

    Raises:
        ValueError: there are not `count` of them, or something else besides.
    """
    if column.physical == "BYTE_ARRAY":
        offsets, texts = page_decoder.plain_texts(octets, count)
        return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
    stored = _WIDTHS[column.physical]
    if count * stored.itemsize != octets.nbytes:
        raise ValueError("the dictionary has another length than its header says")
    numbers = np.frombuffer(octets, dtype=stored)
    if column.type_ == pa.date32():
        return arrow_of(numbers).cast(pa.date32())
    return arrow_of(numbers.astype(_NARROW.get(column.type_, stored)))
