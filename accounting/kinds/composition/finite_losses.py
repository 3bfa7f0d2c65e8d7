"""Privacy losses that are known one by one: from the integer weights that a mechanism draws by, or from masses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kernel.mechanism import Mechanism
from ...kernel.prices.arithmetic import ULP, divide_up, log_up

_LOG_SLACK = 8.0 * ULP
_FINER = 0.25


class LossesInDoubles(NamedTuple):
    """The losses of one step in one direction.

    Args:
        losses: the finite ones, rounded up by at least 4 units in the last place of 1 + |loss|; shape (n,).
        masses: their probabilities, to nearest; shape (n,).
        infinite: the probability of an infinite one, rounded up.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    infinite: float


BothDirections = tuple[LossesInDoubles, LossesInDoubles]
"""Of adding the person, and of removing it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LossesBySize:
    """A step whose losses are known for each size of the person's group by itself.

    Args:
        mechanism: the step.
        sizes: mechanism → for the sizes from 1 on, one after the other, the losses, and losses that are no smaller
            for this size and every later one; the sizes end where the later ones are like the last.
    """

    mechanism: Mechanism
    sizes: Callable[[Any], Iterator[tuple[BothDirections, BothDirections | None]]]


def losses_of_masses(upper: NDArray[np.float64], lower: NDArray[np.float64], rest: float = 0.0) -> LossesInDoubles:
    """Return the losses of outcomes of which upper bounds of one law's masses are known, and lower ones of the other's.

    Args:
        upper: shape (n,).
        lower: shape (n,).
        rest: what the one law has beside these outcomes.
    """
    possible = (upper > 0.0) & (lower > 0.0)
    losses = np.log(upper[possible] / lower[possible])
    return LossesInDoubles(
        losses=losses + _LOG_SLACK * (1.0 + np.abs(losses)),
        masses=upper[possible],
        infinite=(rest + float(upper[lower <= 0.0].sum())) * (1.0 + (upper.size + 8.0) * ULP),
    )


@dataclass(frozen=True, kw_only=True)
class FiniteLosses:
    """A run of `times` steps, each with the same finitely many outcomes, the pair of laws given in integer weights.

    Args:
        outcomes: for each outcome its weights with and without the person, not both 0.
        total: what the weights with, and those without the person add up to.
        times: how many such steps one run is, at least 1.
    """

    outcomes: tuple[tuple[int, int], ...]
    total: int
    times: int

    @property
    def directions(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """The outcomes' weights when the person is added, and, each the other way round, when it is removed."""
        return self.outcomes, tuple((without, present) for present, without in self.outcomes)

    @property
    def infinite(self) -> Fraction:
        """The probability of what can happen in a step on one side only, the larger of the two directions."""
        return max(Fraction(_one_sided(atoms), self.total) for atoms in self.directions)

    @property
    def adding_end(self) -> float:
        """The largest finite loss of a step when the person is added."""
        return max(float(self.in_doubles[0].losses.max(initial=0.0)), 0.0)

    @property
    def removing_end(self) -> float:
        """The largest finite loss of a step when the person is removed."""
        return max(float(self.in_doubles[1].losses.max(initial=0.0)), 0.0)

    @property
    def deviation(self) -> float:
        """Decides how fine the grid is, nothing else: a share of the root mean square of a step's finite losses."""
        losses, masses, _ = self.in_doubles[0]
        return max(_FINER * math.sqrt(float(masses @ losses**2)), 1e-12)

    @cached_property
    def in_doubles(self) -> tuple[LossesInDoubles, LossesInDoubles]:
        """The losses of a step when the person is added, and when it is removed."""
        adding, removing = (_in_doubles(atoms, self.total) for atoms in self.directions)
        return adding, removing

    def epsilon_of_step(self, delta: Decimal) -> Decimal | None:
        """Return the least ε at which one step is (ε, δ)-private in both directions; None where `infinite` is above δ.

        The logarithm alone is rounded, up.
        """
        largest = Fraction(1)
        for atoms in self.directions:
            growth = _least_growth(atoms, Fraction(delta) * self.total)
            if growth is None:
                return None
            largest = max(largest, growth)
        return log_up(divide_up(Decimal(largest.numerator), largest.denominator))


def _in_doubles(atoms: tuple[tuple[int, int], ...], total: int) -> LossesInDoubles:
    pairs = [(upper, lower) for upper, lower in atoms if upper and lower]
    # A quotient of whole numbers is correctly rounded, and its logarithm errs by two units in the last place.
    losses = np.log(np.array([upper / lower for upper, lower in pairs], dtype=np.float64))
    return LossesInDoubles(
        losses=losses + _LOG_SLACK * (1.0 + np.abs(losses)),
        masses=np.array([upper / total for upper, _ in pairs], dtype=np.float64),
        infinite=math.nextafter(one_sided / total, math.inf) if (one_sided := _one_sided(atoms)) else 0.0,
    )


def _one_sided(atoms: tuple[tuple[int, int], ...]) -> int:
    return sum(upper for upper, lower in atoms if lower == 0)


def _least_growth(atoms: tuple[tuple[int, int], ...], target: Fraction) -> Fraction | None:
    """Return the least E ≥ 0 with Σ max(0, P − E·Q) ≤ target, exactly; None where there is none."""
    # Between two ratios P/Q of outcomes the sum is U − E·L, with U and L the sums over the outcomes of larger ratios.
    # It rises as E falls, so the ratios are walked down until the target would be passed.
    above, below = _one_sided(atoms), 0
    if above > target:
        return None
    finite = [(upper, lower) for upper, lower in atoms if upper and lower]
    # In whole numbers, which are much quicker than fractions. Different ratios of numbers below 2^b differ by more than
    # 2^-2b, so that their whole parts after this shift differ too; the order of equal ones makes no difference.
    shift = 2 * max((lower.bit_length() for _, lower in finite), default=0) + 1
    finite.sort(key=lambda pair: (pair[0] << shift) // pair[1], reverse=True)
    allowed, parts = target.numerator, target.denominator
    for upper, lower in finite:
        if (above * lower - upper * below) * parts > allowed * lower:
            break
        above, below = above + upper, below + lower
    return Fraction(above - target) / below if below else Fraction(0)
