"""The column that says with which rate a record is included: its own coins draw by it, or a survey's did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from math import inf, nextafter

import numpy as np
from numpy.typing import NDArray

from .generalization_map import MappedColumn
from .hierarchies.decimals import NumberSteps
from .kinds.biased_sampling import INCLUSION_LAYOUT

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

    @property
    def counted_codes(self) -> NDArray[np.bool_]:
        """Return whether a record of a survey with each code counts: its rate lies within the declared bounds."""
        return np.equal(np.arange(self.column.size), _WITHIN)

    @property
    def rates_of_codes(self) -> tuple[Decimal, ...]:
        """Return the rate that each code is drawn with: the greatest declared one not above what the record says.

        A record that says less than the lowest, or nothing that is a number, has the lowest.

        Raises:
            ValueError: a survey's column, which nothing is drawn with.
        """
        return (self.declared[0], *self.declared)

    @property
    def declared(self) -> tuple[Decimal, ...]:
        """Return the rates that are drawn with, ascending.

        Raises:
            ValueError: a survey's column, which nothing is drawn with.
        """
        if self.rates is None:
            raise ValueError("nothing is drawn with the rates of a survey that is over")
        return self.rates

    @property
    def layout(self) -> str:
        """Return the names the rule of the second coins, in ledger and certificate."""
        return INCLUSION_LAYOUT


def drawn_rates(name: str, rates: Sequence[Decimal]) -> InclusionColumn:
    """Return a column whose rates the release draws with."""
    steps = NumberSteps(cuts=tuple(float(rate) for rate in rates[1:]))
    return InclusionColumn(column=MappedColumn(name=name, hierarchy=steps, level=0), rates=tuple(rates))


def stated_rates(name: str, *, lowest: Decimal, highest: Decimal) -> InclusionColumn:
    """Return a column of rates that a survey was drawn with, and the bounds within which a record counts.

    PRIVACY: a record beyond the bounds is left out, as if its rate were 0; a refusal would tell of it.
    """
    steps = NumberSteps(cuts=(float(lowest), nextafter(float(highest), inf)))
    return InclusionColumn(column=MappedColumn(name=name, hierarchy=steps, level=0), rates=None)


def require_rates(rates: Sequence[Decimal]) -> None:
    """Refuse declared rates that can't be drawn."""
    if not rates or not all(0 < rate < 1 for rate in rates) or any(a >= b for a, b in pairwise(rates)):
        raise ValueError("rates must ascend and lie strictly between 0 and 1")
