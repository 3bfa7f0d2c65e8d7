"""Synthetic points outside of their mechanism: the axes of a grid, the cells' centres, and bounds on the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .hierarchies.decimals import NumberSteps
from .kernel.noise import TwoSidedGeometricNoise
from .kernel.recoding import BUCKET_CODE
from .kinds.histogram import NoisyHistogram
from .kinds.points import SyntheticPoints

_TILTS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class PointAxis:
    """A column that is scaled so that its bounds become 0 and 1.

    Args:
        lower: what becomes 0; smaller values count as this.
        upper: what becomes 1, above `lower`; larger values count as this.
        missing: what a value that is no number counts as; within the bounds.

    Raises:
        ValueError: bounds or a value for missing ones that are not so.
    """

    name: str
    lower: Decimal
    upper: Decimal
    missing: Decimal

    def __post_init__(self) -> None:
        if not (self.lower.is_finite() and self.upper.is_finite() and self.lower < self.upper):
            raise ValueError(f"bounds must be finite, the lower below the upper, not {self.lower} and {self.upper}")
        if not (self.missing.is_finite() and self.lower <= self.missing <= self.upper):
            raise ValueError(
                f"what is missing must count as a number within {self.lower} … {self.upper}, not {self.missing}"
            )

    def places(self, numerators: Sequence[int], denominator: int) -> tuple[float, ...]:
        """Return the doubles nearest to lower + (upper − lower)·numerator/denominator."""
        lower, width = Fraction(self.lower), Fraction(self.upper) - Fraction(self.lower)
        return tuple(float(lower + width * numerator / denominator) for numerator in numerators)


def axis_steps(axis: PointAxis, *, cells: int) -> NumberSteps:
    """Return the equal cells of an axis, as steps; the first and the last hold what lies beyond the bounds too.

    Raises:
        ValueError: bounds so close that doubles don't part the cells.
    """
    return NumberSteps(cuts=axis.places(range(1, cells), cells))


def sides_of_codes(axis: PointAxis, *, cells: int) -> NDArray[np.int64]:
    """Return the cell of an axis that each code of `axis_steps` stands for, from 0 on; shape (codes,)."""
    steps = axis_steps(axis, cells=cells)
    codes = np.arange(steps.size(0), dtype=np.int64)
    missing = steps.codes_of_numbers(np.array([float(axis.missing)]), 0)
    return np.where(codes == BUCKET_CODE, missing, codes) - 1


def centres(axes: Sequence[PointAxis], numbers: NDArray[np.int64], *, cells: int) -> list[NDArray[np.float64]]:
    """Return for each axis the centres of some cells, in the column's own units.

    Args:
        numbers: numbers of cells, shape (n,).
    """
    sides = np.unravel_index(numbers, (cells,) * len(axes))
    middles = [np.array(axis.places(range(1, 2 * cells, 2), 2 * cells)) for axis in axes]
    return [middle[side] for middle, side in zip(middles, sides, strict=True)]


def cell_numbers(grid: SyntheticPoints, points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cell of each point; total: what lies outside is moved to the nearest edge, what is not a number to 0.

    Args:
        points: shape (n, d).

    Returns:
        Numbers 0 … r^d − 1, the first coordinate the most significant; shape (n,).

    Raises:
        ValueError: points of another dimension.
    """
    if points.ndim != 2 or points.shape[1] != grid.dimensions:
        raise ValueError(f"points of {grid.dimensions} dimensions have shape (n, {grid.dimensions})")
    inside = np.clip(np.nan_to_num(points, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    # A coordinate of exactly 1 belongs to the last cell.
    places = np.minimum((inside * grid.cells_per_side).astype(np.int64), grid.cells_per_side - 1)
    numbers = np.ravel_multi_index(tuple(places.T), (grid.cells_per_side,) * grid.dimensions)
    return np.asarray(numbers, dtype=np.int64)


def points_of_counts(grid: SyntheticPoints, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return every cell's centre, as often as its published count says; negative counts give none.

    Args:
        counts: published counts, shape (r^d,).

    Returns:
        Shape (points, d), cells ascending.
    """
    sides = np.unravel_index(np.arange(grid.cells), (grid.cells_per_side,) * grid.dimensions)
    centres = (np.column_stack(sides) + 0.5) / grid.cells_per_side
    return np.repeat(centres, np.maximum(counts, 0), axis=0)


def error_bound(
    grid: SyntheticPoints,
    *,
    modulus: Callable[[float], float],
    oscillation: float,
    counts: NDArray[np.int64],
    published: NDArray[np.int64],
) -> float:
    """Return a bound on |mean of f over the counted points − mean of f over the synthetic ones|, for every smooth f.

    ω(√d/(2r)) + osc(f)·½Σ_cells |share of the counts − share of the published ones|; where counts are only
    dropped the second term is osc(f) times the dropped share (docs/proofs/points.md).

    PRIVACY: it needs the counts before suppression, so it is the steward's, or for public or synthetic data.

    Args:
        modulus: ω, an upper bound on |f(x) − f(y)| for each distance of x and y.
        oscillation: sup f − inf f.
        counts: exact counts of the points (of the sample, if one was drawn), shape (r^d,), not all 0.
        published: published counts, shape (r^d,).

    Raises:
        ValueError: nothing was counted or nothing is published.
    """
    shown = np.maximum(published, 0)
    if counts.sum() == 0 or shown.sum() == 0:
        raise ValueError("a mean needs at least one counted and one published point")
    moved = 0.5 * float(np.abs(counts / counts.sum() - shown / shown.sum()).sum())
    return modulus(grid.radius) + oscillation * moved


def stated_moved_share(grid: SyntheticPoints, published: NDArray[np.int64], *, confidence: float) -> float:
    """Return a bound on the share of points moved or lost, from the published counts alone, so that it may leave.

    With it |mean of f over the counted points − mean of f over the synthetic ones| ≤ ω(√d/(2r)) + osc(f)·share, for
    every smooth f at once (docs/proofs/points.md). Where counts are only dropped it holds for certain: each cell that
    is published as 0 has lost fewer than k points. Where they are noisy it holds with the given confidence: in all,
    counts are off by at most the sum of as many draws of the noise as there are cells.

    Args:
        published: published counts, shape (r^d,).

    Raises:
        ValueError: a confidence outside (0, 1).
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence must lie strictly between 0 and 1, not {confidence}")
    shown = float(np.maximum(published, 0).sum())
    if shown == 0.0:
        return 1.0
    counts = grid.counts
    if isinstance(counts, NoisyHistogram):
        return min(
            1.0,
            _most_noise(TwoSidedGeometricNoise(epsilon=counts.epsilon), draws=grid.cells, confidence=confidence)
            / shown,
        )
    lost = (counts.k - 1) * int(np.count_nonzero(published == 0))
    return lost / (lost + shown)


def _most_noise(noise: TwoSidedGeometricNoise, *, draws: int, confidence: float) -> float:
    """Return what the sum of |x| over independent draws exceeds with a probability of at most 1 − confidence.

    Chernoff's bound with E[e^{s|x|}] = (1−α)/(1+α)·(1+αe^s)/(1−αe^s): it holds for every s in (0, −ln α), and the
    least of several is taken.
    """
    tilts = np.arange(1, _TILTS) / (_TILTS * noise.scale)
    tilted = np.exp(tilts - 1.0 / noise.scale)
    logs = np.log((1.0 - noise.decay) / (1.0 + noise.decay)) + np.log((1.0 + tilted) / (1.0 - tilted))
    return float(((draws * logs - math.log(1.0 - confidence)) / tilts).min())
