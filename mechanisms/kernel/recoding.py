"""Keys of groups: one number for each combination of codes, and coarser groups by tables of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import ReleaseFailed

CodeTable = NDArray[np.integer]
"""Code of a column → its code at a coarser level; shape (codes of the column,)."""

BUCKET_CODE = 0
"""Of every column the code of `*`, for what is missing or was not declared."""

_WORD_CELLS = 1 << 63
_RECODED_AT_ONCE = 1 << 18


class Placement(NamedTuple):
    """Where a column's code stands in a key: code · stride is added to word number `word`.

    Args:
        word: number of the key's 64-bit word, from 0.
        stride: what one step of the code adds to it, at least 1.
        size: number of codes of the column.
    """

    word: int
    stride: int
    size: int

    def scaled(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what codes of the column, or of its dictionary's entries, add to the word of their keys; any shape.

        Raises:
            ReleaseFailed: one of them isn't a code of the column.
        """
        # Before codes are added up: one that is out of range would carry into the next column, and name another group.
        if codes.size and not (int(codes.min()) >= 0 and int(codes.max()) < self.size):
            raise ReleaseFailed("a reader gave a code that its column doesn't declare.")
        return codes * self.stride


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyLayout:
    """How the codes of a record's columns make the key of its group.

    A key is the mixed-radix number of its codes, the first column the most significant. Columns whose sizes multiply
    to less than 2**63 share a word; keys have shape (words, n), so that comparing keys word by word compares codes
    column by column, in the order of the columns.

    Args:
        sizes: number of codes of each column, at least one column; the codes of a column are 0 … size - 1.

    Raises:
        ValueError: no columns, or a column without codes.
    """

    sizes: tuple[int, ...]
    placements: tuple[Placement, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError("a key needs at least one column, and each column a code")
        object.__setattr__(self, "placements", _place(self.sizes))

    @property
    def key_words(self) -> int:
        """Number of 64-bit words of a key."""
        return self.placements[-1].word + 1

    @property
    def cells(self) -> int:
        """Number of possible groups (may exceed 64 bits)."""
        product = 1
        for size in self.sizes:
            product *= size
        return product

    def keys(self, codes: Sequence[NDArray[np.int64]] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the keys of n records, shape (words, n), by each column's codes of shape (n,)."""
        keys = np.zeros((self.key_words, codes[0].size), dtype=np.int64)
        for place, column_codes in zip(self.placements, codes, strict=True):
            keys[place.word] += column_codes * place.stride
        return keys

    def require_keys(self, keys: NDArray[np.int64]) -> None:
        """Refuse keys of records, which a reader has added up, that have another form, or are of no group.

        Raises:
            ReleaseFailed: they are such.
        """
        if keys.dtype != np.int64 or keys.ndim != 2 or keys.shape[0] != self.key_words or not self.holds(keys):
            raise ReleaseFailed("a reader gave a record with codes that its columns don't declare.")

    def decode(self, keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the codes per column of keys of shape (words, n); the inverse of `keys`."""
        return [self.codes_of(keys, number) for number in range(len(self.sizes))]

    def codes_of(self, keys: NDArray[np.int64], number: int) -> NDArray[np.int64]:
        """Return the codes of one column, by its number from 0, of keys of shape (words, n); shape (n,)."""
        place = self.placements[number]
        codes: NDArray[np.int64] = keys[place.word] // place.stride
        # The remainder by one number takes numpy several times as long as the quotient.
        above = codes // place.size
        above *= place.size
        codes -= above
        return codes

    def holds(self, keys: NDArray[np.int64]) -> bool:
        """Return whether every one of some keys, shape (words, n), is of a group."""
        cells = [0] * self.key_words
        for place, size in zip(self.placements, self.sizes, strict=True):
            cells[place.word] = max(cells[place.word], place.stride * size)
        return keys.size == 0 or all(
            int(word.min()) >= 0 and int(word.max()) < most for word, most in zip(keys, cells, strict=True)
        )


def coarsened(
    keys: NDArray[np.int64], *, finer: KeyLayout, coarser: KeyLayout, tables: Sequence[CodeTable | None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the groups of a coarser map that some groups become part of; recoded some at a time, in little memory.

    Args:
        keys: groups of the finer layout, shape (words, n).
        finer: the layout that they are keys of.
        coarser: one of the same columns.
        tables: per column, the coarser code of each finer one; None where the codes stay.

    Returns:
        The keys of the coarser groups, distinct and ascending, shape (words, m); and for each group that was given
        the place of its own among them, shape (n,).
    """
    # In blocks, since the codes of all columns take several times the memory of the keys.
    blocks = [slice(first, first + _RECODED_AT_ONCE) for first in range(0, keys.shape[1], _RECODED_AT_ONCE)]
    places = np.empty(keys.shape[1], dtype=np.int64)
    parts = [np.empty((coarser.key_words, 0), dtype=np.int64)]
    for block in blocks:
        codes = [
            column_codes if table is None else table[column_codes].astype(np.int64, copy=False)
            for table, column_codes in zip(tables, finer.decode(keys[:, block]), strict=True)
        ]
        above, places[block] = _distinct(coarser.keys(codes))
        parts.append(above)
    # Each block has numbered its own coarser groups; these numbers become those of all blocks together.
    whole, of_parts = _distinct(np.concatenate(parts, axis=1))
    end = 0
    for block, above in zip(blocks, parts[1:], strict=True):
        begin, end = end, end + above.shape[1]
        places[block] = of_parts[begin:end][places[block]]
    return whole, places


def _distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct ones of some keys, ascending, and the place of each key among them."""
    if keys.shape[0] == 1:
        single, inverse = np.unique(keys[0], return_inverse=True)
        return single.reshape(1, -1), inverse.reshape(-1)
    order = np.lexsort(keys[::-1])
    ordered = keys[:, order]
    first = np.ones(order.size, dtype=np.bool_)
    first[1:] = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    places = np.empty(order.size, dtype=np.int64)
    places[order] = np.cumsum(first) - 1
    return ordered[:, first], places


def _place(sizes: Sequence[int]) -> tuple[Placement, ...]:
    """Fill words from the first column on; within a word the last column has stride 1."""
    key_words: list[list[int]] = [[]]
    cells = 1
    for size in sizes:
        # Keys below 2**63 neither overflow a signed word nor become negative, which would reverse their order.
        if cells * size >= _WORD_CELLS:
            key_words.append([])
            cells = 1
        key_words[-1].append(size)
        cells *= size
    placements: list[Placement] = []
    for word, members in enumerate(key_words):
        stride = 1
        strides: list[int] = []
        for size in reversed(members):
            strides.append(stride)
            stride *= size
        placements.extend(
            Placement(word=word, stride=stride, size=size)
            for stride, size in zip(reversed(strides), members, strict=True)
        )
    return tuple(placements)
