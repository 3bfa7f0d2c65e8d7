"""Parquet pages at chosen positions, and whether a footer is sound; absent where no compiler was at hand."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def page_headers(chunk: Buffer, records: int, codec: int, /) -> list[tuple[int, int, int, int, int, int, int, int]]:
    """Headers of a column chunk's pages, until they hold `records` records.

    Returns:
        For each page: its kind (0 data, 2 dictionary, 3 data of the second version), where its bytes begin and how
        many they are, how many once unpacked, its values, their encoding, the bytes of levels that stand
        before the packed part (second version), and whether it is unpacked already.

    Raises:
        ValueError: bytes that are no page headers, or pages that this reader does not know.
    """

def add_codes(
    page: Buffer,
    positions: NDArray[np.int64],
    first: int,
    last: int,
    origin: int,
    records: int,
    levels: int,
    optional: bool,
    table: NDArray[np.int64],
    out: NDArray[np.int64],
    /,
) -> None:
    """Add to out[first:last] the table's entry for each of the records positions[first:last] of a page.

    Args:
        page: levels, width and indices, unpacked.
        positions: ascending int64; records of the row group.
        first: first of the positions that lie in the page.
        last: first after them.
        origin: the row group's record with which the page begins.
        records: records of the page.
        levels: bytes of definition levels; -1 where the page begins with that number.
        optional: whether there are levels.
        table: int64; one entry per dictionary entry, and one for null.
        out: int64, writable, as many as positions.

    Raises:
        ValueError: the page is damaged or unknown; then some of `out` may have been added to.
    """

def plain_texts(page: Buffer, count: int, /) -> tuple[bytes, bytes]:
    """The texts of a dictionary page: int64 offsets (count + 1) and bytes.

    Raises:
        ValueError: they do not fill the page exactly.
    """

def known_codes(page: Buffer, count: int, width: int, known: dict[bytes, int], null_code: int, /) -> bytes | None:
    """The codes of a dictionary page's entries, int64, and at the end that of null.

    Args:
        page: unpacked.
        count: its entries.
        width: bytes of an entry; 0 where each begins with its length.
        known: codes by an entry's bytes.
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
