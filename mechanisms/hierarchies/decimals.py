"""Hierarchies of numbers with decimals: intervals of equal widths, steps between declared cuts, classes of weights.

Numbers are compared as doubles, whatever they are stored as: a text counts as the double nearest to it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from ..kernel.recoding import BUCKET_CODE
from .declare import BUCKET_LABEL, IntervalHierarchy, description_digest, number_of_text

_MOST_UNITS = 10**15
_MOST_PLACES = 15
_WRITTEN = re.compile(r"-?[0-9]{1,16}\.[0-9]{1,15}")
_LABEL = re.compile(r"\[(-?[0-9.]{1,18}), -?[0-9.]{1,18}\)|(<|>=) (-?[0-9.]{1,18})")
_BOUND = re.compile(r"[0-9]{1,16}(\.[0-9]{1,30})?")
MOST_CLASSES = 100
"""Of survey weights."""


class _OfNumbers(ABC):
    """What is coded by the double that a text or an integer is nearest to."""

    __slots__ = ()

    @abstractmethod
    def codes_of_numbers(self, values: NDArray[np.float64], level: int) -> NDArray[np.int64]: ...

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Return the code of each text at a level; None and texts that write no number have the bucket's."""
        return self.codes_of_numbers(np.array([number_of_text(text) for text in texts], dtype=np.float64), level)

    def codes_of_integers(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return the code of each integer at a level; shape (n,)."""
        return self.codes_of_numbers(values.astype(np.float64), level)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecimalIntervals(_OfNumbers):
    """Numbers lower ≤ x < upper at levels: the unit 10**-places, each width in turn, `*`; build it with `of`.

    Level 0 has intervals too, one unit wide: a number may have more places than were declared. INVARIANT: bounds have
    at most 15 digits, of which no two decimals have one nearest double, so that 0.3 is never below the bound 0.3.

    Args:
        places: decimal places of the unit, at least 1.
        units: the same intervals, in units.
    """

    places: int
    units: IntervalHierarchy

    @staticmethod
    def of(*, lower: Decimal, upper: Decimal, widths: Sequence[Decimal]) -> DecimalIntervals:
        """Declare intervals; the unit follows from the most places that a number has.

        Args:
            widths: ascending, each dividing the next; may be empty.

        Raises:
            ValueError: numbers of too many digits, an empty domain, or widths that are not nested.
        """
        numbers = (lower, upper, *widths)
        if not all(number.is_finite() for number in numbers):
            raise ValueError("intervals need finite numbers")
        places = max(1, *(-int(number.as_tuple().exponent) for number in numbers))
        beyond = any(number.adjusted() > _MOST_PLACES for number in numbers if number)
        if places > _MOST_PLACES or beyond or any(abs(number) * 10**places > _MOST_UNITS for number in numbers):
            raise ValueError("numbers with decimals have at most 15 digits, with the places of the most exact of them")
        least, above, *units = (int(number.scaleb(places)) for number in numbers)
        if least >= above:
            raise ValueError(f"an interval needs lower < upper, not {lower} and {upper}")
        try:
            return DecimalIntervals(
                places=places, units=IntervalHierarchy(lower=least, upper=above, widths=tuple(units))
            )
        except ValueError:
            raise ValueError(
                f"interval widths must be above 0 and ascend, each dividing the next, not {[*map(str, widths)]}"
            ) from None

    @property
    def levels(self) -> int:
        """Return the number of levels: the unit, the widths, `*`."""
        return self.units.levels

    def size(self, level: int) -> int:
        """Return the number of codes at a level, the bucket included."""
        return self.units.size(level)

    def codes_of_numbers(self, values: NDArray[np.float64], level: int) -> NDArray[np.int64]:
        """Return the code of each number at a level; infinities are outside, what is no number is `*`; shape (n,).

        A bound of u units is the double u / 10**places, the nearest to it since both are exact. The product that
        guesses the number of units is at most one beside the greatest whose bound isn't above the number.
        """
        scale = float(10**self.places)
        known = ~np.isnan(values)
        outside = (self.units.lower - 1) / scale, self.units.upper / scale
        # Clipped first: the product of a huge number would not fit into 64 bits.
        numbers = np.clip(np.where(known, values, 0.0), *outside)
        units = np.floor(numbers * scale)
        # The product may be off by one unit, since it rounds. It is corrected by the comparison of doubles that defines
        # the intervals, so that a bound itself is always in the interval that begins with it.
        units -= units / scale > numbers
        units += (units + 1) / scale <= numbers
        codes = self.units.codes_of_integers(units.astype(np.int64), level)
        codes[~known] = BUCKET_CODE
        return codes

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Return the codes at level `to`, which may not lie below the level; shape as given."""
        return self.units.coarser(codes, level=level, to=to)

    def label_sizes(self, level: int) -> dict[int, int]:
        """Return how many labels of a level cover how many units: {units: labels}; no bottom or top."""
        return self.units.label_sizes(level)

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return how many units each code of a level may stand for; bucket, bottom and top: all; shape (n,)."""
        return self.units.values_covered(codes, level)

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Return the published label of each code of a level, for example `[0.5, 1.0)`, `< 0.0` or `>= 2.5`."""
        return [self.units.label(code, level, shown=self.shown) for code in codes.tolist()]

    def publishes(self, label: str, level: int) -> bool:
        """Return whether a text is the label of a number at a level; there may be too many labels to list."""
        match = _LABEL.fullmatch(label)
        if match is None or _WRITTEN.fullmatch(written := match[1] or match[3]) is None:
            return False
        number = Decimal(written) - (Decimal(1).scaleb(-self.places) if match[2] == "<" else 0)
        return self.labels(self.codes_of_texts([f"{number:f}".encode()], level), level) == [label]

    def description(self) -> dict[str, object]:
        """Return the bounds and widths as texts."""
        lower, upper, *widths = map(self.shown, (self.units.lower, self.units.upper, *self.units.widths))
        return {"kind": "decimal-interval/1", "lower": lower, "upper": upper, "widths": widths}

    @staticmethod
    def described(description: Mapping[str, object]) -> DecimalIntervals:
        """Return the intervals that were described.

        Raises:
            KeyError, TypeError, ValueError: it describes none.
        """
        widths = description["widths"]
        numbers = (description["lower"], description["upper"], *(widths if isinstance(widths, list) else [None]))
        if not all(isinstance(number, str) and _WRITTEN.fullmatch(number) for number in numbers):
            raise ValueError("decimal intervals have decimal numbers")
        lower, upper, *others = (Decimal(str(number)) for number in numbers)
        return DecimalIntervals.of(lower=lower, upper=upper, widths=others)

    def digest(self) -> str:
        """Return the SHA-256 of the bounds and widths in canonical form, 64 hexadecimal digits."""
        return description_digest(self.description())

    def shown(self, units: int) -> str:
        """Return a number of units in decimal, with all places."""
        return f"{Decimal(units).scaleb(-self.places):f}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberSteps(_OfNumbers):
    """Numbers at two levels: the step between two neighbouring cuts, and `*`.

    Step j, from 0, holds the numbers that are at least j of the cuts and below the others; its code is j + 1. What is
    not a number has the bucket's code.

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
        """Return the number of levels: the step and `*`."""
        return 2

    def size(self, level: int) -> int:
        """Return the number of codes at a level, the bucket included."""
        return 1 if self._merged(level) else len(self.cuts) + 2

    def codes_of_numbers(self, values: NDArray[np.float64], level: int) -> NDArray[np.int64]:
        """Return the code of each number at a level; infinities are beyond every cut; shape (n,)."""
        if self._merged(level):
            return np.zeros(values.shape, dtype=np.int64)
        codes = np.searchsorted(np.array(self.cuts, dtype=np.float64), values, side="right").astype(np.int64) + 1
        codes[np.isnan(values)] = BUCKET_CODE
        return codes

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Return the codes at level `to`, which may not lie below the level; shape as given."""
        if to < level:
            raise ValueError(f"level {to} is finer than level {level}")
        return np.zeros(codes.shape, dtype=np.int64) if self._merged(to) else codes.copy()

    def label_sizes(self, level: int) -> dict[int, int]:
        """Return how many labels of a level cover how many steps: {steps: labels}."""
        steps = len(self.cuts) + 1
        return {steps: 1} if self._merged(level) else {1: steps}

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return how many steps each code of a level may stand for, the bucket all of them; shape (n,)."""
        covered = np.where((codes == BUCKET_CODE) | self._merged(level), len(self.cuts) + 1, 1)
        return covered.astype(np.int64)

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Return the published label of each code of a level, for example `[0.25, 0.5)`, `< 0.25` or `>= 0.75`."""
        return [self._label(code, level) for code in codes.tolist()]

    def description(self) -> dict[str, object]:
        """Return the cuts as hexadecimal floating-point numbers, which lose nothing."""
        return {"kind": "number-steps/1", "cuts": [cut.hex() for cut in self.cuts]}

    def digest(self) -> str:
        """Return the SHA-256 of the cuts in canonical form, 64 hexadecimal digits."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightClasses(_OfNumbers):
    """Survey weights in declared classes, of which neighbours are merged two by two from level to level, up to `*`.

    Class j, from 0, holds the weights from bounds[j] to below bounds[j + 1]; its code at level 0 is j + 1. A weight
    below all bounds counts as the least of them and one above all as the largest, so that the first class has no least
    weight and the last no largest. What is no number has the bucket's code. INVARIANT: bounds have at most 15 digits,
    of which no two decimals have one nearest double.

    Args:
        bounds: above 0 and ascending, 3 to 101 of them; build it with `of`, which writes them canonically.

    Raises:
        ValueError: bounds that are not so.
    """

    bounds: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.bounds) - 1 <= MOST_CLASSES:
            raise ValueError(f"there are 2 to {MOST_CLASSES} classes of weights, with a bound more")
        numbers = [Decimal(bound) for bound in self.bounds]
        if not all(number.is_finite() and 0 < number < _MOST_UNITS for number in numbers):
            raise ValueError("bounds of weights must be above 0 and below 10^15")
        if any(len(number.as_tuple().digits) > _MOST_PLACES or number.adjusted() < -_MOST_PLACES for number in numbers):
            raise ValueError(f"bounds of weights have at most {_MOST_PLACES} digits")
        if any(lower >= upper for lower, upper in pairwise(numbers)):
            raise ValueError("bounds of weights must ascend, none twice")

    @staticmethod
    def of(bounds: Sequence[Decimal]) -> WeightClasses:
        """Declare classes by their bounds.

        Raises:
            ValueError: bounds out of range, or that don't ascend.
        """
        if not all(bound.is_finite() and bound.adjusted() <= _MOST_PLACES for bound in bounds):
            raise ValueError("bounds of weights must be above 0 and below 10^15")
        return WeightClasses(bounds=tuple(f"{bound.normalize():f}" for bound in bounds))

    @property
    def classes(self) -> int:
        """Return the number of classes."""
        return len(self.bounds) - 1

    @property
    def levels(self) -> int:
        """Return the number of levels: the classes, then half as many at each level, `*`."""
        return (self.classes - 1).bit_length() + 1

    def size(self, level: int) -> int:
        """Return the number of codes at a level, the bucket included."""
        return 1 if self._merged(level) else 1 + -(-self.classes >> level)

    def codes_of_numbers(self, values: NDArray[np.float64], level: int) -> NDArray[np.int64]:
        """Return the code of each weight at a level; infinities are in the first or the last class; shape (n,)."""
        if self._merged(level):
            return np.zeros(values.shape, dtype=np.int64)
        inner = np.array([float(bound) for bound in self.bounds[1:-1]])
        codes = (np.searchsorted(inner, values, side="right").astype(np.int64) >> level) + 1
        codes[np.isnan(values)] = BUCKET_CODE
        return codes

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Return the codes at level `to`, which may not lie below the level; shape as given."""
        if to < level:
            raise ValueError(f"level {to} is finer than level {level}")
        if self._merged(to) or self._merged(level):
            return np.zeros(codes.shape, dtype=np.int64)
        merged: NDArray[np.int64] = np.where(codes == BUCKET_CODE, BUCKET_CODE, ((codes - 1) >> (to - level)) + 1)
        return merged

    def label_sizes(self, level: int) -> dict[int, int]:
        """Return how many labels of a level cover how many classes: {classes: labels}."""
        width = min(1 << level, self.classes)
        whole, rest = divmod(self.classes, width)
        return {width: whole} | ({rest: 1} if rest else {})

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return how many classes each code of a level may stand for, the bucket all of them; shape (n,)."""
        width = min(1 << level, self.classes)
        covered = np.minimum(width, self.classes - (codes - 1) * width)
        covered[codes == BUCKET_CODE] = self.classes
        return covered

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Return the published label of each code of a level, for example `[20, 50)`, `< 20` or `>= 200`."""
        return [self._label(code, level) for code in codes.tolist()]

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest weight that each class counts as, of the classes in their order."""
        numbers = np.array([float(bound) for bound in self.bounds])
        return numbers[:-1], numbers[1:]

    def middles(self) -> NDArray[np.float64]:
        """Return the middle of each class by ratio, √(lower · upper): no weight differs from it by a larger factor."""
        return np.array([sqrt(lower * upper) for lower, upper in zip(*self.ends(), strict=True)])

    def description(self) -> dict[str, object]:
        """Return the bounds as texts."""
        return {"kind": "weight-classes/1", "bounds": list(self.bounds)}

    @staticmethod
    def described(description: Mapping[str, object]) -> WeightClasses:
        """Return the classes that were described.

        Raises:
            KeyError, TypeError, ValueError: it describes none.
        """
        bounds = description["bounds"]
        if not isinstance(bounds, list) or not all(isinstance(one, str) and _BOUND.fullmatch(one) for one in bounds):
            raise ValueError("classes of weights have decimal numbers as bounds")
        return WeightClasses.of([Decimal(str(bound)) for bound in bounds])

    def digest(self) -> str:
        """Return the SHA-256 of the bounds in canonical form, 64 hexadecimal digits."""
        return description_digest(self.description())

    def _merged(self, level: int) -> bool:
        if not 0 <= level < self.levels:
            raise IndexError(f"level {level} of {self.levels}")
        return level == self.levels - 1

    def _label(self, code: int, level: int) -> str:
        if not 0 <= code < self.size(level):
            raise IndexError(f"code {code} at level {level}")
        if code == BUCKET_CODE:
            return BUCKET_LABEL
        begin, end = (code - 1) << level, min(code << level, self.classes)
        if begin == 0:
            return f"< {self.bounds[end]}"
        return f">= {self.bounds[begin]}" if end == self.classes else f"[{self.bounds[begin]}, {self.bounds[end]})"
