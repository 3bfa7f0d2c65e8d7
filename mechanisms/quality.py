"""The quality of a candidate map in exact integers: information kept times records above a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np
from numpy.typing import NDArray

from .hierarchy import Hierarchy
from .lattice import Lattice, Levels

__all__ = ["QUALITY", "WEIGHT_UNIT", "MapWeights", "group_threshold", "information_kept"]

QUALITY = "weighted-excess/1"
WEIGHT_UNIT = 1 << 20
"""A quality is an integer number of 1/WEIGHT_UNIT-ths; adding a record moves it by 0 … WEIGHT_UNIT of them."""

_SHARE_UNIT = 1 << 40
_EXACT = Context(prec=60)


def group_threshold(k: int, sampling_rate: Decimal, selection_rate: Decimal | None) -> int:
    """The size k′ from which a group's records count: about k of them will be sampled.

    k′ = ⌈k/β⌉ where the map is chosen on the whole data, ⌈k·β_s/β⌉ on a fresh sample at rate β_s; exactly.

    Args:
        k: suppression threshold of the release.
        sampling_rate: β, the release's rate.
        selection_rate: β_s; None is the whole data.

    Raises:
        ValueError: k below 1, or a rate outside (0, 1).
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    for rate in (sampling_rate, selection_rate):
        if rate is not None and not 0 < rate < 1:
            raise ValueError(f"a rate must lie strictly between 0 and 1, not {rate}")
    ratio = k * (Fraction(1) if selection_rate is None else Fraction(selection_rate)) / Fraction(sampling_rate)
    return -(-ratio.numerator // ratio.denominator)


def information_kept(hierarchy: Hierarchy, level: int) -> Fraction:
    """The share of a column's information that a level keeps, 0 … 1, rounded to a multiple of 2⁻⁴⁰.

    1 − (1/m) Σ_v ln(c_v)/ln(m) for a domain of m declared values, where v shares its label with c_v − 1 others:
    how well the label tells the value, if every declared value were as likely as every other. The value itself
    keeps 1, a single label for all keeps 0, and so does a domain of one value. Coarser levels keep no more.

    Raises:
        IndexError: the hierarchy has no such level.
    """
    sizes = hierarchy.label_sizes(level)
    domain = sum(size * labels for size, labels in sizes.items())
    if domain <= 1 or (len(sizes) == 1 and domain in sizes):
        return Fraction(0)
    # Decimal logarithms are correctly rounded, so that every machine finds the same integer.
    lost = Decimal(0)
    for size, labels in sorted(sizes.items()):
        if size > 1:
            lost = _EXACT.add(lost, _EXACT.multiply(Decimal(size * labels), _EXACT.ln(Decimal(size))))
    share = _EXACT.divide(lost, _EXACT.multiply(Decimal(domain), _EXACT.ln(Decimal(domain))))
    return 1 - Fraction(round(Fraction(share) * _SHARE_UNIT), _SHARE_UNIT)


@dataclass(frozen=True, kw_only=True)
class MapWeights:
    """W(g) of every candidate: an integer, WEIGHT_UNIT for the candidates that keep most.

    W(g) = ⌊WEIGHT_UNIT · w(g) / max w⌋, where w(g) is the average of `information_kept` over the columns with
    their weights, and the largest is taken over the candidates. The quality of g in units of 1/WEIGHT_UNIT is
    W(g)·Σ max(0, c − k′ + 1), c running over the sizes of its groups.

    INVARIANT: 0 ≤ W(g) ≤ WEIGHT_UNIT, and W is a function of the lattice alone (docs/proofs/map-quality.md).

    Args:
        lattice: the candidates.
    """

    lattice: Lattice

    def of(self, levels: Levels) -> int:
        """W of the map with these levels; they must lie within the columns' bounds."""
        largest = self._largest
        return 0 if largest == 0 else WEIGHT_UNIT * self._sum(levels) // largest

    def of_all(self) -> NDArray[np.int64]:
        """W of every candidate, by number; shape (size,)."""
        weights = (self.of(self.lattice.levels_of(index)) for index in range(self.lattice.size))
        return np.fromiter(weights, dtype=np.int64, count=self.lattice.size)

    @cached_property
    def _shares(self) -> tuple[tuple[int, ...], ...]:
        """Per column and level from its finest, weight · information kept over a common denominator."""
        columns = self.lattice.columns
        exact = [
            [
                Fraction(column.weight) * information_kept(column.hierarchy, level)
                for level in range(column.min_level, column.max_level + 1)
            ]
            for column in columns
        ]
        denominator = _common([share for shares in exact for share in shares])
        return tuple(tuple(int(share * denominator) for share in shares) for shares in exact)

    @cached_property
    def _largest(self) -> int:
        if self.lattice.candidates is None:  # finer levels keep no less
            return self._sum(self.lattice.finest)
        return max(self._sum(levels) for levels in self.lattice.candidates)

    def _sum(self, levels: Levels) -> int:
        return sum(
            shares[level - column.min_level]
            for shares, column, level in zip(self._shares, self.lattice.columns, levels, strict=True)
        )


def _common(fractions: Sequence[Fraction]) -> int:
    """A common denominator."""
    return lcm(*(fraction.denominator for fraction in fractions))
