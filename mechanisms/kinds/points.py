"""Synthetic points in the unit cube, from the counts of a declared grid whose axes are columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import Mechanism, Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import KeyLayout
from .histogram import HistogramProtection, NoisyHistogram, SuppressedHistogram
from .microdata import StronglySafeRelease

MOST_CELLS = 1 << 26
MOST_DIMENSIONS = 1_000


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
