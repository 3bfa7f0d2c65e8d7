"""Arithmetic that rounds against the one who spends: exact decimals, doubles, binomials, convolutions, searches."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.typing import NDArray

PRICE_DIGITS = 12

_DOUBLE_UP = Context(prec=PRICE_DIGITS, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOUBLE_DOWN = Context(prec=PRICE_DIGITS, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_LOG = Context(prec=30, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def decimal_up(amount: float | Decimal) -> Decimal:
    """Return the least decimal of at most 12 significant digits that is not below a finite, non-negative amount.

    Raises:
        ValueError: the amount is negative, infinite or not a number.
    """
    exact = Decimal(amount)
    if not exact.is_finite() or exact < 0:
        raise ValueError(f"an amount must be finite and at least 0, not {amount}")
    return _DOUBLE_UP.plus(exact)


def decimal_down(amount: Decimal) -> Decimal:
    """Return the largest decimal of at most 12 significant digits that is not above an amount."""
    return _DOUBLE_DOWN.plus(amount)


def float_up(amount: Decimal) -> float:
    """Return the least double that is not below a decimal (the decimal itself where it is a double)."""
    nearest = float(amount)
    return nearest if Decimal(nearest) >= amount else math.nextafter(nearest, math.inf)


def float_down(amount: Decimal) -> float:
    """Return the greatest double that is not above a decimal (the decimal itself where it is a double)."""
    nearest = float(amount)
    return nearest if Decimal(nearest) <= amount else math.nextafter(nearest, -math.inf)


def log_down(amount: Decimal) -> float:
    """Return a double not above ln(amount), for any amount above 0, also one below the smallest double."""
    if not amount.is_finite() or amount <= 0:
        raise ValueError(f"the logarithm needs a positive finite amount, not {amount}")
    return float_down(_LOG.ln(amount).next_minus(_LOG))


_UP = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def exp_up(exponent: Decimal) -> Decimal:
    """Return an upper bound on e^x, above it by less than 1e-58 relative; exact at 0.

    Decimal's `exp` and `ln` are correctly rounded to nearest whatever the context says, hence the step up.
    """
    return Decimal(1) if exponent == 0 else _UP.next_plus(_UP.exp(exponent))


def log_up(value: Decimal) -> Decimal:
    """Return an upper bound on ln x for x ≥ 1, above it by less than 1e-58 relative; exact at 1."""
    return Decimal(0) if value == 1 else _UP.next_plus(_UP.ln(value))


def exact_log_down(value: Decimal) -> Decimal:
    """Return a lower bound on ln x for x > 0, below it by less than 1e-58 relative; exact at 1."""
    return Decimal(0) if value == 1 else _DOWN.next_minus(_DOWN.ln(value))


def multiply_up(first: Decimal, second: Decimal | int) -> Decimal:
    """Return the product, rounded up where it has more than 60 digits."""
    return _UP.multiply(first, second)


def divide_up(dividend: Decimal, divisor: Decimal | int) -> Decimal:
    """Return the quotient, rounded up where it has more than 60 digits."""
    return _UP.divide(dividend, divisor)


def divide_down(dividend: Decimal, divisor: Decimal | int) -> Decimal:
    """Return the quotient, rounded down where it has more than 60 digits."""
    return _DOWN.divide(dividend, divisor)


def add_up(first: Decimal | int, second: Decimal) -> Decimal:
    """Return the sum, rounded up where it has more than 60 digits."""
    return _UP.add(first, second)


def add_down(first: Decimal | int, second: Decimal) -> Decimal:
    """Return the sum, rounded down where it has more than 60 digits."""
    return _DOWN.add(first, second)


def multiply_down(first: Decimal, second: Decimal) -> Decimal:
    """Return the product, rounded down where it has more than 60 digits."""
    return _DOWN.multiply(first, second)


def bisected(
    holds: Callable[[float], bool], low: float, high: float, *, width: float, most_steps: int = 1 << 12
) -> float:
    """Return a number that holds, nearly the least: `high`, or one nearer to `low`, which doesn't hold.

    The search ends at a relative width, after `most_steps`, or between neighbouring doubles. Above some number between
    `low` and `high` all must hold.
    """
    for _ in range(most_steps):
        middle = 0.5 * (low + high)
        if high - low <= width * high or not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def least_epsilon(delta_of: Callable[[float], float], delta: float, *, high: float) -> float | None:
    """Return about the least ε ≥ 0 at which a falling δ(ε) is at most δ, itself evaluated; None above `high`."""
    if delta_of(0.0) <= delta:
        return 0.0
    low, top = 0.0, 1.0
    while delta_of(top) > delta:
        low, top = top, 2.0 * top
        if top > high:
            return None
    return bisected(lambda epsilon: delta_of(epsilon) <= delta, low, top, width=1e-12, most_steps=60)


ULP = 2.0**-52

ABOVE, BELOW = 1.0 + 8.0 * ULP, 1.0 - 8.0 * ULP
"""Factors that cover a value of `exp`, `expm1`, `log` or `log1p`, or a few operations."""


def sum_margin(terms: int) -> float:
    """Return the factor that covers a sum of so many non-negative doubles, each with up to 64 roundings of its own."""
    return 1.0 + (terms + 64.0) * ULP


_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_STIRLING_ERRORS = np.array(
    [
        0.0,
        0.08106146679532725822,
        0.041340695955409294094,
        0.027677925684998339149,
        0.020790672103765093112,
        0.016644691189821192163,
        0.013876128823070747999,
        0.011896709945891770095,
        0.010411265261972096497,
        0.0092554621827127329177,
        0.0083305634333628712565,
        0.007573675487951840795,
        0.0069428401072095298657,
        0.0064089941880042070684,
        0.0059513701127588477356,
        0.005554733551962801371,
        0.0052076559196096404407,
    ]
)


def _stirling_error(n: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the remainder of Stirling's formula for n!; absolute error below 2e-17 for n of at least 1."""
    # Six terms of the series are exact enough from 17 on; below, the remainders are tabulated.
    small = _STIRLING_ERRORS[np.minimum(n, 16).astype(np.int64)]
    return np.where(n <= 16, small, _stirling_series(np.maximum(n, 17.0)))


def _stirling_series(m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first six terms of the remainder's asymptotic series, B_{2i}/(2i(2i−1)m^{2i−1})."""
    s = 1.0 / (m * m)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * 691 / 360360))))) / m


def _deviance(x: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x ln(x/mean) + mean − x, without cancellation near x = mean.

    Source: C. Loader, Fast and Accurate Computation of Binomial Probabilities (2000).
    """
    difference = x - mean
    v = difference / (x + mean)
    w = v * v
    tail = np.zeros_like(v)
    for order in range(23, 1, -2):
        tail = w * (1.0 / order + tail)
    # Near the mean the two parts of the formula nearly cancel; a series in v has no such difference.
    near = difference * v + 2.0 * x * v * tail
    far = x * np.log(x / mean) - difference
    return np.where(np.abs(v) < 0.1, near, far)


def log_binomial_pmf(
    j: NDArray[np.float64], n: NDArray[np.float64], p: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ln Pr[Bin(n, p) = j] and bounds on its absolute errors, for whole 0 ≤ j ≤ n < 2**52 and 0 < p < 1.

    The bound assumes that `log`, `log1p` and `exp` err by at most 4 units in the last place; it is derived in
    docs/proofs/floating-point.md. All have the shape of `j` and `n`.
    """
    inner = (j > 0) & (j < n)
    # Loader's form adds small terms. A difference of logarithms of factorials would lose its digits for large n.
    x = np.where(inner, j, 1.0)
    m = np.where(inner, n, 2.0)
    y = m - x
    mean, rest = m * p, m * (1.0 - p)
    deviances = _deviance(x, mean) + _deviance(y, rest)
    shape = _stirling_error(m) - _stirling_error(x) - _stirling_error(y)
    scale = _HALF_LOG_TWO_PI + 0.5 * np.log(x * (y / m))
    inside = shape - deviances - scale
    inside_error = ULP * (64.0 * deviances + 3.0 * np.abs(x - mean) + 3.0 * np.abs(scale) + 8.0)
    edge = np.where(j == 0, n * math.log1p(-p), n * math.log(p))
    return (
        np.where(inner, inside, edge),
        np.where(inner, inside_error, ULP * (8.0 * np.abs(edge) + 4.0)),
    )
