"""Parquet pages at chosen positions, and whether a footer is sound; absent where no compiler was at hand."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def page_headers(
    chunk: Buffer, records: int, codec: int, positions: NDArray[np.int64], /
) -> list[tuple[int, int, int, int, int, int, int, int, int, int]]:
    """Headers of a column chunk's dictionary page and of its pages of indices that hold chosen records.

    Args:
        chunk: the column's bytes of one row group.
        records: of the row group.
        codec: the compression, as Parquet numbers them.
        positions: ascending int64; the chosen records.

    Returns:
        For each page: whether it is of the second version, where its bytes begin and how many they are, how many once
        unpacked, its values, the bytes of levels that stand before the packed part (second version), whether it is
        unpacked already, the first of the positions that lie in it, the first after them, and the row group's record
        with which it begins. The dictionary's is the first.

    Raises:
        ValueError: bytes that are no page headers, or pages that this reader does not know.
    """

Page = tuple[Buffer, int, int, int, int, int, bool, bytes | NDArray[np.int64], NDArray[np.int64]]
"""A page of indices, unpacked, and what is to be done with it.

In this order: levels, width and indices; the first of the positions that lie in the page, and the first after them;
the row group's record with which it begins; its records; its bytes of definition levels, -1 where it begins with that
number; whether there are levels; int64 codes, one for each entry of the dictionary and one for null; int64, writable,
as many as the positions.
"""

def add_codes(pages: list[Page], positions: NDArray[np.int64], /) -> None:
    """Add to each page's `out[first:last]` its table's entry for each of the records positions[first:last].

    Args:
        pages: in any order; those of several columns may share what they add to.
        positions: ascending int64; records of the row group.

    Raises:
        ValueError: a page is damaged or unknown; then something may have been added already.
    """

def plain_texts(page: Buffer, count: int, /) -> tuple[bytes, bytes]:
    """The texts of a dictionary page: int64 offsets (count + 1) and bytes.

    Raises:
        ValueError: they do not fill the page exactly.
    """

def entry_index(known: dict[bytes, int], /) -> bytes:
    """Codes by an entry's bytes, in a form that `known_codes` looks them up in."""

def known_codes(page: Buffer, count: int, width: int, known: bytes, null_code: int, /) -> bytes | None:
    """The codes of a dictionary page's entries, int64, and at the end that of null.

    Args:
        page: unpacked.
        count: its entries.
        width: bytes of an entry; 0 where each begins with its length.
        known: as `entry_index` gives it.
        null_code: of null.

    Returns:
        None where an entry is not known, or the page does not hold `count` entries and nothing else.
    """

def sound_footer(footer: Buffer, /) -> bool:
    """Whether a footer (Thrift's FileMetaData) has what pyarrow takes for granted when it looks at a column.

    Each row group has a part for each column, none is encrypted, types and codecs are known ones, and histograms of
    levels have a place for each level.
    What pyarrow throws otherwise no Python code can catch: it ends the process.
    """
