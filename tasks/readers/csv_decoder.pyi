"""Which line feeds of delimited text end a record, and known fields' codes; absent where no compiler was at hand."""

import numpy as np
from numpy.typing import NDArray

def follow_quotes(
    block: NDArray[np.uint8], separator: int, quoted: bool, fresh: bool, wanted: bool, /
) -> tuple[bool, bool, bool, bytes]:
    """Follow the quotes of a block of bytes.

    Args:
        block: the bytes.
        separator: one byte.
        quoted: whether the block begins within quotes.
        fresh: whether a quote that is its first byte would open a quoted field.
        wanted: whether the ends of records are wanted.

    Returns:
        Whether every quote outside of quotes begins a field or doubles the one before it, without which the other
        answers mean nothing but the second; whether one, neither the first byte nor the last, stands alone behind what
        begins no field; whether the end lies within quotes; offsets of the line feeds outside of quotes, int64.
    """

Column = tuple[int, bytes, NDArray[np.int64]]
"""A field's place in its record, codes by bytes (`page_decoder.entry_index`), and what they are added to."""

def add_known_fields(
    text: NDArray[np.uint8] | bytes,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    separator: int,
    quoted: bool,
    fields: int,
    columns: list[Column],
    /,
) -> bytes:
    """Add the codes of records' fields, of those records alone that are simple and have known fields.

    A record is simple that has as many fields as it should, each without quotes, or with two around it, or, if it does
    not begin with one, with any.

    Args:
        text: bytes that hold the records.
        starts: offset of each record; int64, shape (n,).
        ends: where its content ends, before the line break; shape (n,).
        separator: one byte.
        quoted: whether quotes mean anything.
        fields: of a record.
        columns: of different places; each with int64, writable, shape (n,), to add to.

    Returns:
        For each record a byte: 1 where nothing was added, which is the caller's to do.

    Raises:
        ValueError: a record lies outside of the text, or arrays don't fit each other; something may have been added.
    """
