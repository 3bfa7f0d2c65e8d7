"""The axes of a grid: columns that are scaled by declared bounds, cut into cells, and shown at the cells' centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .hierarchies.decimals import NumberSteps
from .kernel.recoding import BUCKET_CODE

__all__ = ["PointAxis", "axis_steps", "centres", "sides_of_codes"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PointAxis:
    """A column that is scaled so that its bounds become 0 and 1.

    Args:
        name: the column's name.
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
        """The doubles nearest to lower + (upper − lower)·numerator/denominator."""
        lower, width = Fraction(self.lower), Fraction(self.upper) - Fraction(self.lower)
        return tuple(float(lower + width * numerator / denominator) for numerator in numerators)


def axis_steps(axis: PointAxis, *, cells: int) -> NumberSteps:
    """The equal cells of an axis, as steps; the first and the last hold what lies beyond the bounds too.

    Args:
        axis: the column.
        cells: how many, at least 1.

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
    """For each axis the centres of some cells, in the column's own units.

    Args:
        axes: the columns, the first the most significant.
        numbers: numbers of cells, shape (n,).
        cells: cells a side.
    """
    sides = np.unravel_index(numbers, (cells,) * len(axes))
    middles = [np.array(axis.places(range(1, 2 * cells, 2), 2 * cells)) for axis in axes]
    return [middle[side] for middle, side in zip(middles, sides, strict=True)]
