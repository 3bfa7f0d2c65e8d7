"""A column that says with what rate its record is or was included, and what is done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nextafter

import numpy as np
from numpy.typing import NDArray

from .hierarchy import BUCKET_CODE
from .number_steps import NumberSteps
from .recoding import MappedColumn

__all__ = ["InclusionColumn", "drawn_rates", "stated_rates"]

_WITHIN = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class InclusionColumn:
    """A column of inclusion rates, read beside the columns of the cells and never published.

    Args:
        column: the column, cut into steps.
        rates: where the rates are drawn with, the declared ones, ascending; None where a survey was drawn with them.
    """

    column: MappedColumn
    rates: tuple[Decimal, ...] | None

    def counted(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which records of a survey count: those whose stated rate lies within the declared bounds."""
        return np.equal(codes, _WITHIN)

    def rates_of(self, codes: NDArray[np.int64]) -> Sequence[Decimal]:
        """The rate that each code is drawn with: the greatest declared one that isn't above what the record says.

        A record that says less than the lowest, or nothing that is a number, has the lowest.

        Raises:
            ValueError: a survey's column, which nothing is drawn with.
        """
        if self.rates is None:
            raise ValueError("nothing is drawn with the rates of a survey that is over")
        return [self.rates[0 if code == BUCKET_CODE else code - 1] for code in codes.tolist()]


def drawn_rates(name: str, rates: Sequence[Decimal]) -> InclusionColumn:
    """A column whose rates the release draws with.

    Args:
        name: the column's name.
        rates: the declared rates, ascending.
    """
    steps = NumberSteps(cuts=tuple(float(rate) for rate in rates[1:]))
    return InclusionColumn(column=MappedColumn(name=name, hierarchy=steps, level=0), rates=tuple(rates))


def stated_rates(name: str, *, lowest: Decimal, highest: Decimal) -> InclusionColumn:
    """A column of rates that a survey was drawn with, and the bounds within which a record counts.

    PRIVACY: a record beyond the bounds is left out, as if its rate were 0; a refusal would tell of it.

    Args:
        name: the column's name.
        lowest: the least rate with which a record counts.
        highest: the greatest.
    """
    steps = NumberSteps(cuts=(float(lowest), nextafter(float(highest), inf)))
    return InclusionColumn(column=MappedColumn(name=name, hierarchy=steps, level=0), rates=None)
