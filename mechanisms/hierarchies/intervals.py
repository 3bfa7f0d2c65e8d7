"""Hierarchies of numbers in closed form: intervals of whole numbers, and real numbers cut at declared places.

Declared intervals of whole numbers: a hierarchy in closed form, so that its domain may be very large.

Real numbers cut at declared places: a hierarchy for columns whose values need not be whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, nan

import numpy as np
from numpy.typing import NDArray

from ..integers import canonical_integer
from .declare import BUCKET_CODE, BUCKET_LABEL, description_digest

__all__ = ["IntervalHierarchy", "NumberSteps", "number_of_text"]

_BOTTOM_CODE = 1
_FIRST_CODE = 2
_BOUND = 1 << 60


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalHierarchy:
    """Whole numbers lower ≤ v < upper at levels: the value, each width in turn, `*`.

    Intervals are anchored at `lower`; the last of a level is cut off at `upper`. At every level but the last
    a smaller number has the bottom code (`< lower`), a larger one the top code (`>= upper`), and whatever is
    not an integer in canonical decimal has the bucket's. Codes ascend: bucket, bottom, intervals, top.

    Args:
        lower: least number of the domain.
        upper: first number above the domain.
        widths: ascending, each dividing the next; may be empty.

    Raises:
        ValueError: an empty or too large domain, or widths that are not nested.
    """

    lower: int
    upper: int
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not -_BOUND <= self.lower < self.upper <= _BOUND:
            raise ValueError(f"an interval needs lower < upper, both within ±2**60, not {self.lower} and {self.upper}")
        if any(width < 1 for width in self.widths):
            raise ValueError(f"interval widths must be at least 1, not {list(self.widths)}")
        if any(finer >= coarser or coarser % finer for finer, coarser in pairwise(self.widths)):
            raise ValueError(f"interval widths must ascend, each dividing the next, not {list(self.widths)}")
        if any(width > 2 * _BOUND for width in self.widths):
            raise ValueError(f"interval widths must be at most 2**61, not {list(self.widths)}")

    @property
    def levels(self) -> int:
        """Number of levels: the value, the widths, `*`."""
        return len(self.widths) + 2

    def size(self, level: int) -> int:
        """Number of codes at a level, the bucket included."""
        width = self._width(level)
        return 1 if width is None else _FIRST_CODE + -(-(self.upper - self.lower) // width) + 1

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Code of each text at a level; None and texts that are no canonical integer have the bucket's."""
        numbers = [None if text is None else canonical_integer(text) for text in texts]
        clipped = [self.lower if n is None else min(max(n, self.lower - 1), self.upper) for n in numbers]
        codes = self.codes_of_integers(np.array(clipped, dtype=np.int64), level)
        codes[np.array([n is None for n in numbers], dtype=np.bool_)] = BUCKET_CODE
        return codes

    def codes_of_integers(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Code of each integer at a level; shape (n,)."""
        width = self._width(level)
        if width is None:
            return np.zeros(values.shape, dtype=np.int64)
        offsets = np.clip(values, self.lower - 1, self.upper) - self.lower
        codes = offsets // width + _FIRST_CODE  # one below the domain gives the bottom code
        codes[offsets == self.upper - self.lower] = self.size(level) - 1
        return codes

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Codes at level `to` of codes at a level that is not above it; shape as given.

        Raises:
            ValueError: `to` lies below the level.
        """
        if to < level:
            raise ValueError(f"level {to} is finer than level {level}")
        width, coarse = self._width(level), self._width(to)
        if coarse is None or width is None:
            return np.zeros(codes.shape, dtype=np.int64)
        merged = (codes - _FIRST_CODE) // (coarse // width) + _FIRST_CODE  # the bottom code stays what it is
        merged[codes == BUCKET_CODE] = BUCKET_CODE
        merged[codes == self.size(level) - 1] = self.size(to) - 1
        return merged

    def label_sizes(self, level: int) -> dict[int, int]:
        """How many labels of a level cover how many declared values: {values: labels}; no bottom or top."""
        width = self._width(level)
        domain = self.upper - self.lower
        if width is None or width >= domain:
            return {domain: 1}
        whole, rest = divmod(domain, width)
        return {width: whole} | ({rest: 1} if rest else {})

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """How many declared numbers each code of a level may stand for; bucket, bottom and top: all; shape (n,)."""
        width, domain = self._width(level), self.upper - self.lower
        covered = np.full(codes.shape, domain, dtype=np.int64)
        if width is None:
            return covered
        inside = (codes >= _FIRST_CODE) & (codes < self.size(level) - 1)
        starts = (codes[inside] - _FIRST_CODE) * width
        covered[inside] = np.minimum(width, domain - starts)
        return covered

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Published label of each code of a level, for example `[0, 5000)`, `< 0` or `>= 200000`."""
        return [self._label(code, level) for code in codes.tolist()]

    def description(self) -> dict[str, object]:
        """The bounds and widths."""
        return {"kind": "interval/1", "lower": self.lower, "upper": self.upper, "widths": list(self.widths)}

    def digest(self) -> str:
        """SHA-256 of the bounds and widths in canonical form, 64 hexadecimal digits."""
        return description_digest(self.description())

    def _width(self, level: int) -> int | None:
        if not 0 <= level < self.levels:
            raise IndexError(f"level {level} of {self.levels}")
        if level == self.levels - 1:
            return None
        return 1 if level == 0 else self.widths[level - 1]

    def _label(self, code: int, level: int) -> str:
        width = self._width(level)
        if not 0 <= code < self.size(level):
            raise IndexError(f"code {code} at level {level}")
        if width is None or code == BUCKET_CODE:
            return BUCKET_LABEL
        if code == _BOTTOM_CODE:
            return f"< {self.lower}"
        if code == self.size(level) - 1:
            return f">= {self.upper}"
        start = self.lower + (code - _FIRST_CODE) * width
        return str(start) if level == 0 else f"[{start}, {min(start + width, self.upper)})"


_NUMBER = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number_of_text(text: bytes | None) -> float:
    """The double nearest to the decimal number that a text writes; not a number for any other text, and for None."""
    return nan if text is None or _NUMBER.fullmatch(text) is None else float(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberSteps:
    """Numbers at two levels: the step between two neighbouring cuts, and `*`.

    Step j, from 0, holds the numbers that are at least j of the cuts and below the others; its code is j + 1. What is
    not a number has the bucket's code. Numbers are compared as doubles, whatever they are stored as: a text counts
    as the double nearest to it.

    Args:
        cuts: finite and ascending, none twice; there may be none.

    Raises:
        ValueError: cuts that are not so.
    """

    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        if not all(isfinite(cut) for cut in self.cuts) or any(a >= b for a, b in pairwise(self.cuts)):
            raise ValueError("the places where numbers are cut must be finite and ascend, none twice")

    @property
    def levels(self) -> int:
        """Number of levels: the step and `*`."""
        return 2

    def size(self, level: int) -> int:
        """Number of codes at a level, the bucket included."""
        return 1 if self._merged(level) else len(self.cuts) + 2

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Code of each text at a level; None and texts that write no number have the bucket's."""
        return self.codes_of_numbers(np.array([number_of_text(text) for text in texts], dtype=np.float64), level)

    def codes_of_integers(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Code of each integer at a level; shape (n,)."""
        return self.codes_of_numbers(values.astype(np.float64), level)

    def codes_of_numbers(self, values: NDArray[np.float64], level: int) -> NDArray[np.int64]:
        """Code of each number at a level; infinities are beyond every cut; shape (n,)."""
        if self._merged(level):
            return np.zeros(values.shape, dtype=np.int64)
        codes = np.searchsorted(np.array(self.cuts, dtype=np.float64), values, side="right").astype(np.int64) + 1
        codes[np.isnan(values)] = BUCKET_CODE
        return codes

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Codes at level `to` of codes at a level that is not above it; shape as given.

        Raises:
            ValueError: `to` lies below the level.
        """
        if to < level:
            raise ValueError(f"level {to} is finer than level {level}")
        return np.zeros(codes.shape, dtype=np.int64) if self._merged(to) else codes.copy()

    def label_sizes(self, level: int) -> dict[int, int]:
        """How many labels of a level cover how many steps: {steps: labels}."""
        steps = len(self.cuts) + 1
        return {steps: 1} if self._merged(level) else {1: steps}

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """How many steps each code of a level may stand for, the bucket all of them; shape (n,)."""
        covered = np.where((codes == BUCKET_CODE) | self._merged(level), len(self.cuts) + 1, 1)
        return covered.astype(np.int64)

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Published label of each code of a level, for example `[0.25, 0.5)`, `< 0.25` or `>= 0.75`."""
        return [self._label(code, level) for code in codes.tolist()]

    def description(self) -> dict[str, object]:
        """The cuts as hexadecimal floating-point numbers, which lose nothing."""
        return {"kind": "number-steps/1", "cuts": [cut.hex() for cut in self.cuts]}

    def digest(self) -> str:
        """SHA-256 of the cuts in canonical form, 64 hexadecimal digits."""
        return description_digest(self.description())

    def _merged(self, level: int) -> bool:
        if not 0 <= level < self.levels:
            raise IndexError(f"level {level} of {self.levels}")
        return level == 1

    def _label(self, code: int, level: int) -> str:
        if not 0 <= code < self.size(level):
            raise IndexError(f"code {code} at level {level}")
        if code == BUCKET_CODE or not self.cuts:
            return BUCKET_LABEL if code == BUCKET_CODE else "any number"
        if code == 1:
            return f"< {self.cuts[0]!r}"
        if code == len(self.cuts) + 1:
            return f">= {self.cuts[-1]!r}"
        return f"[{self.cuts[code - 2]!r}, {self.cuts[code - 1]!r})"
