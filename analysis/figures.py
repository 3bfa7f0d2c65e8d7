"""Hold what an analysis answers: figures with intervals, frames of them, and the intervals of ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..mechanisms.kernel.errors import InputRefused

if TYPE_CHECKING:
    from typing import TypeAlias

    import pandas as pd
    import polars as pl

    DataFrame: TypeAlias = pd.DataFrame | pl.DataFrame

Source = Literal["margins", "pairs", "rows", "copies", "answer"]
Frames = Literal["pandas", "polars"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A figure of all records, with the ends of an interval that is made to hold it in 19 of 20 releases.

    Args:
        estimate: of the figure.
        lower: end of the interval; None where none is offered.
        upper: likewise.
        source: of what it is made: "margins", "pairs", "rows", or "copies".
        note: what a reader must know besides; empty where there is nothing.
    """

    estimate: float
    lower: float | None
    upper: float | None
    source: Source
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by their names, as a row of a table."""
        return {
            "estimate": self.estimate,
            "lower": self.lower,
            "upper": self.upper,
            "source": self.source,
            "note": self.note,
        }


def frame_of(rows: Sequence[Mapping[str, Any]], frames: Frames) -> DataFrame:
    """Return rows as a frame of pandas or Polars; figures without an interval have missing ends.

    Raises:
        InputRefused: Polars isn't installed.
    """
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    if frames == "polars":
        try:
            import polars
        except ImportError:
            raise InputRefused(
                "Polars isn't installed.", not_done="Nothing was made.", remedy='Install it, or take frames="pandas".'
            ) from None
        return polars.DataFrame(columns)
    import pandas

    frame: DataFrame = pandas.DataFrame(columns)
    return frame


def quantile_of(error: float) -> float:
    """Return the normal law's width whose two sides have this error together."""
    from scipy.special import ndtri  # SciPy's functions load faster than its distributions

    return -float(ndtri(error / 2.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """An estimated numerator and denominator with the covariance of their errors."""

    above: float
    below: float
    variance_above: float
    covariance: float
    variance_below: float

    @property
    def estimate(self) -> float:
        """Return the ratio of the estimates; not a number where the denominator isn't above 0."""
        return self.above / self.below if self.below > 0 else math.nan

    def interval(self, width: float) -> tuple[float, float]:
        """Return all ratios that aren't rejected, by so many standard errors; infinite ends where all ratios may be.

        Source: E. Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954).
        """
        square = width * width
        leading = self.below**2 - square * self.variance_below
        if leading <= 0 or self.below <= 0:
            return -math.inf, math.inf
        middle = self.above * self.below - square * self.covariance
        root = math.sqrt(max(middle**2 - leading * (self.above**2 - square * self.variance_above), 0.0))
        return (middle - root) / leading, (middle + root) / leading
