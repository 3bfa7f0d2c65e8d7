"""Synthetic points in the unit cube, from the counts of a declared grid whose axes are columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import Mechanism, Randomness
from ..kernel.noise import TwoSidedGeometricNoise
from ..kernel.protection import Numbers
from ..kernel.recoding import KeyLayout
from .histogram import HistogramProtection, NoisyHistogram, SuppressedHistogram
from .microdata import StronglySafeRelease

__all__ = [
    "PointsProtection",
    "SyntheticPoints",
    "cell_numbers",
    "error_bound",
    "points_of_counts",
    "stated_moved_share",
]

MOST_CELLS = 1 << 26
MOST_DIMENSIONS = 1_000
_TILTS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticPoints(Mechanism):
    """A grid of equal cells on [0,1]^d; each cell's published count of points at its centre.

    Source: CBP, Example 4 (full version). Its price is that of the counts: the points are a function of them.

    Args:
        dimensions: d, 1 to 1,000.
        cells_per_side: r, at least 1; r^d at most 2²⁶.
        counts: how the cells' counts are released.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "points"

    dimensions: int
    cells_per_side: int
    counts: StronglySafeRelease | NoisyHistogram

    def __post_init__(self) -> None:
        sensible = 1 <= self.dimensions <= MOST_DIMENSIONS and 1 <= self.cells_per_side <= MOST_CELLS
        if not sensible or self.cells > MOST_CELLS:
            raise ValueError(
                f"a grid has 1 to {MOST_DIMENSIONS} dimensions, at least one cell a side, and at most {MOST_CELLS} "
                f"cells, not {self.cells_per_side}^{self.dimensions}"
            )

    @property
    def cells(self) -> int:
        """Number of cells r^d."""
        return int(self.cells_per_side**self.dimensions)

    @property
    def radius(self) -> float:
        """The greatest distance of a point from its cell's centre, √d/(2r)."""
        return math.sqrt(self.dimensions) / (2.0 * self.cells_per_side)


def cell_numbers(grid: SyntheticPoints, points: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cell of each point; total: what lies outside is moved to the nearest edge, what is not a number to 0.

    Args:
        grid: the declared grid.
        points: shape (n, d).

    Returns:
        Numbers 0 … r^d − 1, the first coordinate the most significant; shape (n,).

    Raises:
        ValueError: points of another dimension.
    """
    if points.ndim != 2 or points.shape[1] != grid.dimensions:
        raise ValueError(f"points of {grid.dimensions} dimensions have shape (n, {grid.dimensions})")
    inside = np.clip(np.nan_to_num(points, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    places = np.minimum((inside * grid.cells_per_side).astype(np.int64), grid.cells_per_side - 1)
    numbers = np.ravel_multi_index(tuple(places.T), (grid.cells_per_side,) * grid.dimensions)
    return np.asarray(numbers, dtype=np.int64)


def points_of_counts(grid: SyntheticPoints, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Every cell's centre, as often as its published count says; negative counts give none.

    Args:
        grid: the declared grid.
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
    """A bound on |mean of f over the counted points − mean of f over the synthetic ones|, for every smooth f.

    ω(√d/(2r)) + osc(f)·½Σ_cells |share of the counts − share of the published ones|; where counts are only
    dropped the second term is osc(f) times the dropped share (docs/proofs/points.md).

    PRIVACY: it needs the counts before suppression, so it is the steward's, or for public or synthetic data.

    Args:
        grid: the declared grid.
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
    """A bound on the share of the points that is moved or lost, from the published counts alone, so that it may leave.

    With it |mean of f over the counted points − mean of f over the synthetic ones| ≤ ω(√d/(2r)) + osc(f)·share, for
    every smooth f at once (docs/proofs/points.md). Where counts are only dropped it holds for certain: each cell that
    is published as 0 has lost fewer than k points. Where they are noisy it holds with the given confidence: in all,
    counts are off by at most the sum of as many draws of the noise as there are cells.

    Args:
        grid: the declared grid and how its counts are released.
        published: published counts, shape (r^d,).
        confidence: of the bound for noisy counts, between 0 and 1.

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
    """What the sum of |x| over independent draws exceeds with a probability of at most 1 − confidence.

    Chernoff's bound with E[e^{s|x|}] = (1−α)/(1+α)·(1+αe^s)/(1−αe^s): it holds for every s in (0, −ln α), and the
    least of several is taken.
    """
    tilts = np.arange(1, _TILTS) / (_TILTS * noise.scale)
    tilted = np.exp(tilts - 1.0 / noise.scale)
    logs = np.log((1.0 - noise.decay) / (1.0 + noise.decay)) + np.log((1.0 + tilted) / (1.0 - tilted))
    return float(((draws * logs - math.log(1.0 - confidence)) / tilts).min())


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PointsProtection:
    """The published count of every cell of the grid, which the points are a function of.

    Args:
        mechanism: the release.
        layout: of the axes' columns.
        sides: for each axis the cell of each code, 0 … cells_per_side − 1.

    Raises:
        ValueError: they don't go together.
    """

    mechanism: SyntheticPoints
    layout: KeyLayout
    sides: tuple[NDArray[np.int64], ...]
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.sides) != self.mechanism.dimensions or tuple(map(len, self.sides)) != self.layout.sizes:
            raise ValueError("each axis of the grid needs the cell of each of its codes")
        if any(side.min() < 0 or side.max() >= self.mechanism.cells_per_side for side in self.sides):
            raise ValueError("a code has a cell that its axis doesn't have")

    @property
    def _cells(self) -> HistogramProtection:
        grid, counts = self.mechanism, self.mechanism.counts
        layout = KeyLayout(sizes=(grid.cells_per_side,) * grid.dimensions)
        if isinstance(counts, NoisyHistogram):
            return HistogramProtection(mechanism=counts, layout=layout)
        suppressed = SuppressedHistogram(k=counts.k, sampling_rate=counts.sampling_rate)
        return HistogramProtection(mechanism=suppressed, layout=layout)

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> list[int]:
        """Return the published count of every cell, the first axis the most significant."""
        grid = self._cells
        codes = [side[own] for side, own in zip(self.sides, self.layout.decode(exact.keys), strict=True)]
        return grid.protect(GroupCounts(grid.layout.keys(codes), exact.counts), randomness=randomness)

    def fits(self, numbers: Numbers) -> bool:
        """Return whether there is a number for every cell."""
        return len(numbers) == self.mechanism.cells
