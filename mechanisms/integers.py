"""Whole numbers as texts: the canonical decimal form, by which texts and integer columns agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["INT64_MAX", "INT64_MIN", "IntegerIndex", "canonical_integer"]

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1

_CANONICAL = re.compile(rb"-?[1-9][0-9]*|0")
_SAFE_DIGITS = 40
_BEYOND: int = 10**_SAFE_DIGITS
_DENSE_SLACK = 1 << 12


def canonical_integer(text: bytes) -> int | None:
    """The whole number that a text writes in canonical decimal (no sign +, no leading zeros, no -0), or None.

    Numbers of more than 40 characters are answered by ±10**40: far outside every domain here, and Python
    limits how long a text it converts.
    """
    if _CANONICAL.fullmatch(text) is None:
        return None
    if len(text) > _SAFE_DIGITS:
        return -_BEYOND if text.startswith(b"-") else _BEYOND
    return int(text)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class IntegerIndex:
    """A finite map from 64-bit integers to codes, 0 for every other integer.

    Args:
        numbers: ascending, distinct; shape (n,).
        codes: the code of each number; shape (n,).
        dense: where the numbers lie close together, the code of numbers[0] + i at place i + 1 with a 0 at
            either end; otherwise empty.
    """

    numbers: NDArray[np.int64]
    codes: NDArray[np.int64]
    dense: NDArray[np.int64]

    @staticmethod
    def of(pairs: Sequence[tuple[int, int]]) -> IntegerIndex:
        """Build the index from (number, code) pairs of distinct numbers within 64 bits."""
        ordered = sorted(pairs)
        numbers = np.array([number for number, _ in ordered], dtype=np.int64)
        codes = np.array([code for _, code in ordered], dtype=np.int64)
        dense = np.empty(0, dtype=np.int64)
        if ordered:
            first, last = ordered[0][0], ordered[-1][0]
            inside = first > INT64_MIN and last < INT64_MAX
            if inside and last - first < _DENSE_SLACK + 4 * len(ordered):
                dense = np.zeros(last - first + 3, dtype=np.int64)
                dense[numbers - first + 1] = codes
        return IntegerIndex(numbers=numbers, codes=codes, dense=dense)

    def lookup(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The code of every value; shape as given."""
        if self.numbers.size == 0:
            return np.zeros(values.shape, dtype=np.int64)
        if self.dense.size:
            first, last = int(self.numbers[0]), int(self.numbers[-1])
            return self.dense[np.clip(values, first - 1, last + 1) - (first - 1)]
        places = np.minimum(np.searchsorted(self.numbers, values), self.numbers.size - 1)
        return np.where(self.numbers[places] == values, self.codes[places], 0)
