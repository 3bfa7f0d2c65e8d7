"""Real numbers cut at declared places: a hierarchy for columns whose values need not be whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, nan

import numpy as np
from numpy.typing import NDArray

from .hierarchy import BUCKET_CODE, BUCKET_LABEL, description_digest

__all__ = ["NumberSteps", "number_of_text"]

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
