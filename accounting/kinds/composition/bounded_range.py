"""Draws of the exponential mechanism by a monotone quality: the logarithms of their ratios lie within one range.

Sources: Dong, Durfee, Rogers, arXiv:1909.13830; Cesar, Rogers, arXiv:2004.07223; own proofs in
docs/proofs/bounded-range.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from ...kernel.prices.arithmetic import add_up, divide_up, multiply_up

Array = NDArray[np.float64]

_LOG_SLACK, _LOG_UNITS = 1e-14, 2.0**-51
_FINE = Context(prec=120, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)
_FINE_SLACK = Decimal("1e-80")
_TOO_SMALL, _TOO_LARGE = Decimal("1e-30"), Decimal("1e9")


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundedRange:
    """One draw whose loss lies, whatever the records are, within some interval of length ε in either direction.

    Args:
        epsilon: the length of the interval, which holds 0; above 0.

    Raises:
        ValueError: it is not above 0 and finite.
    """

    epsilon: Decimal

    def __post_init__(self) -> None:
        """Refuse what is no range."""
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError(f"a range must be positive and finite, not {self.epsilon}")


def range_log_delta(epsilon: float, epsilons: Array, *, low: Array, high: Array) -> Array:
    """Return upper bounds on ln δ at x ≥ 0 of all draws of one range ε whose largest loss lies in [low, high] ⊆ [0, ε].

    A draw is at most the pair of two outcomes with the losses t and t − ε, which has
    δ(x) = max(0, 1 − e^{t−ε})·(1 − e^{x−t})/(1 − e^{−ε}); over t it rises up to t = (x + ε)/2, and falls from there.
    The shapes go together.
    """
    best = 0.5 * (epsilons + epsilon)
    largest = np.clip(best, low, high)
    # Where t is the best, both differences are half of ε − x. Of the rounded t they may be nothing where x is near ε.
    free, half = largest == best, 0.5 * (epsilon - epsilons)
    with np.errstate(divide="ignore"):
        likely = np.log(np.maximum(-np.expm1(-np.where(free, half, epsilon - largest)), 0.0))
        gain = np.log(np.maximum(-np.expm1(-np.where(free, half, largest - epsilons)), 0.0))
    # Each difference is correctly rounded, so that all is right but for a few units in the last place.
    both = (likely + gain) * (1 - _LOG_UNITS)
    return np.asarray(both - math.log(-math.expm1(-epsilon)) + _LOG_SLACK, dtype=np.float64)


def range_divergence(part: BoundedRange, *, order: float) -> Decimal:
    """Return the largest D_α of draws of one range: the least of three upper bounds, the first of which is attained.

    ln K/(α − 1), with K the largest mean of Y^α over all Y of mean 1 within [A, A·e^ε], in closed form
    (docs/proofs/bounded-range.md, 3); α·ε²/8; and ε, the largest loss.
    """
    epsilon, exact_order = part.epsilon, Decimal(order)
    bound = min(epsilon, divide_up(multiply_up(exact_order, multiply_up(epsilon, epsilon)), 8))
    if not (_TOO_SMALL < epsilon < _TOO_LARGE and exact_order - 1 > _TOO_SMALL):
        return bound
    attained = divide_up(add_up(_FINE_SLACK, _log_largest_mean(epsilon, exact_order)), exact_order - 1)
    return min(bound, max(attained, Decimal(0)))


def _log_largest_mean(epsilon: Decimal, order: Decimal) -> Decimal:
    """Return ln K to nearest, with an error far below `_FINE_SLACK`."""
    # With h = e^ε, K is (h^α − h)/((α−1)(h−1)) · ((α−1)/α · (h^α − 1)/(h^α − h))^α; the large powers of h are taken out
    # of the logarithms, since they would overflow.
    fine = _FINE
    above = fine.subtract(order, Decimal(1))

    def log_one_less(exponent: Decimal) -> Decimal:
        return fine.ln(fine.subtract(Decimal(1), fine.exp(fine.minus(exponent))))

    near, whole = log_one_less(fine.multiply(above, epsilon)), log_one_less(fine.multiply(order, epsilon))
    first = fine.subtract(
        fine.add(fine.multiply(above, epsilon), near), fine.add(fine.ln(above), log_one_less(epsilon))
    )
    second = fine.add(fine.subtract(fine.ln(above), fine.ln(order)), fine.subtract(whole, near))
    return fine.add(first, fine.multiply(order, second))
