"""Arithmetic that rounds against the one who spends: exact decimals, doubles, binomials, convolutions, searches."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

__all__ = [
    "ABOVE",
    "BELOW",
    "PRICE_DIGITS",
    "ULP",
    "add_down",
    "add_up",
    "convolution_slack",
    "convolve_direct",
    "decimal_down",
    "decimal_up",
    "divide_down",
    "divide_up",
    "exact_log_down",
    "exp_up",
    "first_whole",
    "float_down",
    "float_up",
    "last_real",
    "least_epsilon",
    "log_binomial_pmf",
    "log_down",
    "log_up",
    "multiply_down",
    "multiply_up",
    "sum_margin",
    "tail_up",
]

PRICE_DIGITS = 12

_DOUBLE_UP = Context(prec=PRICE_DIGITS, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOUBLE_DOWN = Context(prec=PRICE_DIGITS, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_LOG = Context(prec=30, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def decimal_up(amount: float | Decimal) -> Decimal:
    """The least decimal of at most 12 significant digits that is not below a finite, non-negative amount.

    Raises:
        ValueError: the amount is negative, infinite or not a number.
    """
    exact = Decimal(amount)
    if not exact.is_finite() or exact < 0:
        raise ValueError(f"an amount must be finite and at least 0, not {amount}")
    return _DOUBLE_UP.plus(exact)


def decimal_down(amount: Decimal) -> Decimal:
    """The largest decimal of at most 12 significant digits that is not above an amount."""
    return _DOUBLE_DOWN.plus(amount)


def float_up(amount: Decimal) -> float:
    """The least double that is not below a decimal (the decimal itself where it is a double)."""
    nearest = float(amount)
    return nearest if Decimal(nearest) >= amount else math.nextafter(nearest, math.inf)


def float_down(amount: Decimal) -> float:
    """The greatest double that is not above a decimal (the decimal itself where it is a double)."""
    nearest = float(amount)
    return nearest if Decimal(nearest) <= amount else math.nextafter(nearest, -math.inf)


def log_down(amount: Decimal) -> float:
    """A double that is not above ln(amount), also where the amount itself is below the smallest double.

    Raises:
        ValueError: the amount is not positive and finite.
    """
    if not amount.is_finite() or amount <= 0:
        raise ValueError(f"the logarithm needs a positive finite amount, not {amount}")
    return float_down(_LOG.ln(amount).next_minus(_LOG))


_UP = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def exp_up(exponent: Decimal) -> Decimal:
    """An upper bound on e^x, above it by less than 1e-58 relative; exact at 0.

    Decimal's `exp` and `ln` are correctly rounded to nearest whatever the context says, hence the step up.
    """
    return Decimal(1) if exponent == 0 else _UP.next_plus(_UP.exp(exponent))


def log_up(value: Decimal) -> Decimal:
    """An upper bound on ln x for x ≥ 1, above it by less than 1e-58 relative; exact at 1."""
    return Decimal(0) if value == 1 else _UP.next_plus(_UP.ln(value))


def exact_log_down(value: Decimal) -> Decimal:
    """A lower bound on ln x for x > 0, below it by less than 1e-58 relative; exact at 1."""
    return Decimal(0) if value == 1 else _DOWN.next_minus(_DOWN.ln(value))


def multiply_up(first: Decimal, second: Decimal | int) -> Decimal:
    """The product, rounded up where it has more than 60 digits."""
    return _UP.multiply(first, second)


def divide_up(dividend: Decimal, divisor: Decimal | int) -> Decimal:
    """The quotient, rounded up where it has more than 60 digits."""
    return _UP.divide(dividend, divisor)


def divide_down(dividend: Decimal, divisor: Decimal | int) -> Decimal:
    """The quotient, rounded down where it has more than 60 digits."""
    return _DOWN.divide(dividend, divisor)


def add_up(first: Decimal | int, second: Decimal) -> Decimal:
    """The sum, rounded up where it has more than 60 digits."""
    return _UP.add(first, second)


def add_down(first: Decimal | int, second: Decimal) -> Decimal:
    """The sum, rounded down where it has more than 60 digits."""
    return _DOWN.add(first, second)


def multiply_down(first: Decimal, second: Decimal) -> Decimal:
    """The product, rounded down where it has more than 60 digits."""
    return _DOWN.multiply(first, second)


def first_whole(cost: Callable[[int], float], target: float, *, largest: int, guess: int = 1) -> int | None:
    """The first whole number from 1 at which a falling cost is at most a target; None where none is up to `largest`.

    From the guess the search steps outward until it has both a failing and a fitting number; between them the next
    number follows the power law through both costs (halving where a cost is 0 or infinite, and after every step
    that left most of the range).
    """
    step = max(1, guess // 256)
    low, low_cost = 0, math.inf
    high, high_cost = guess, cost(guess)
    while not high_cost <= target:
        if high >= largest:
            return None
        low, low_cost = high, high_cost
        high, step = min(high + step, largest), 4 * step
        high_cost = cost(high)
    while low == 0 and high > 1:
        below = max(high - step, 1)
        step *= 4
        below_cost = cost(below)
        if below_cost <= target:
            high, high_cost = below, below_cost
        else:
            low, low_cost = below, below_cost
    halve = False
    while high - low > 1:
        width = high - low
        middle = (low + high) // 2
        share = None if halve else _power_share(low_cost, high_cost, target)
        if share is not None:
            middle = min(max(round(low * (high / low) ** share), low + 1), high - 1)
        value = cost(middle)
        if value <= target:
            high, high_cost = middle, value
        else:
            low, low_cost = middle, value
        halve = 2 * (high - low) > width
    return high


def last_real(cost: Callable[[float], float], target: float, *, low: float, high: float, precision: float) -> float:
    """About the last number at which a rising cost is at most a target, given that it is at `low` and not at `high`.

    Args:
        cost: rising with its argument, of at least 0, perhaps infinite.
        target: the cost allowed.
        low: positive, fits.
        high: above `low`, does not fit.
        precision: relative width at which the search stops.

    Returns:
        A number that fits; a number above it by at most `precision` does not.
    """
    low_cost, high_cost = cost(low), cost(high)
    halve = False
    while high / low > 1.0 + precision:
        width = math.log(high / low)
        middle = math.sqrt(low) * math.sqrt(high)
        share = None if halve else _power_share(high_cost, low_cost, target)
        if share is not None:
            margin = 0.25 * precision / width
            middle = low * math.exp(width * min(max(1.0 - share, margin), 1.0 - margin))
        if not low < middle < high:
            break
        value = cost(middle)
        if value <= target:
            low, low_cost = middle, value
        else:
            high, high_cost = middle, value
        halve = 2.0 * math.log(high / low) > width
    return low


def _power_share(failing: float, fitting: float, target: float) -> float | None:
    """Where a power law reaches the target, as a share of the way from failing to fitting; None where there is none."""
    if not (math.isfinite(failing) and 0.0 < fitting < failing and fitting <= target):
        return None
    return math.log(failing / target) / math.log(failing / fitting)


_BISECTIONS = 60


def least_epsilon(delta_of: Callable[[float], float], delta: float, *, high: float) -> float | None:
    """About the least ε ≥ 0 at which a falling δ(ε) is at most δ; the answer has been evaluated. None above `high`."""
    if delta_of(0.0) <= delta:
        return 0.0
    low, top = 0.0, 1.0
    while delta_of(top) > delta:
        low, top = top, 2.0 * top
        if top > high:
            return None
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + top)
        if top - low <= 1e-12 * top or not low < middle < top:
            break
        if delta_of(middle) <= delta:
            top = middle
        else:
            low = middle
    return top


ULP = 2.0**-52

ABOVE, BELOW = 1.0 + 8.0 * ULP, 1.0 - 8.0 * ULP
"""Factors that cover a value of `exp`, `expm1`, `log` or `log1p`, or a few operations."""


def sum_margin(terms: int) -> float:
    """The factor that covers a sum of so many non-negative doubles, each with up to 64 roundings of its own."""
    return 1.0 + (terms + 64.0) * ULP


_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)

# ln n! − (n + 1/2) ln n + n − ln(2π)/2 for n = 0 … 16; the entry for 0 is never used.
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
    """The remainder of Stirling's formula for n!; absolute error below 2e-17 for n of at least 1."""
    small = _STIRLING_ERRORS[np.minimum(n, 16).astype(np.int64)]
    return np.where(n <= 16, small, _stirling_series(np.maximum(n, 17.0)))


def _stirling_series(m: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first six terms of the remainder's asymptotic series, B_{2i}/(2i(2i−1)m^{2i−1})."""
    s = 1.0 / (m * m)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * 691 / 360360))))) / m


def _deviance(x: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """The term x ln(x/mean) + mean − x, without cancellation near x = mean.

    Source: C. Loader, Fast and Accurate Computation of Binomial Probabilities (2000).
    """
    difference = x - mean
    v = difference / (x + mean)
    w = v * v
    tail = np.zeros_like(v)
    for order in range(23, 1, -2):
        tail = w * (1.0 / order + tail)
    near = difference * v + 2.0 * x * v * tail
    far = x * np.log(x / mean) - difference
    return np.where(np.abs(v) < 0.1, near, far)


def log_binomial_pmf(
    j: NDArray[np.float64], n: NDArray[np.float64], p: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The natural logarithm of Pr[Bin(n, p) = j] and a bound on its absolute error.

    The bound assumes that `log`, `log1p` and `exp` err by at most 4 units in the last place; it is derived in
    docs/proofs/floating-point.md.

    Args:
        j: successes, whole numbers 0 ≤ j ≤ n.
        n: trials, whole numbers 0 ≤ n < 2**52, same shape as `j`.
        p: probability of success, 0 < p < 1.

    Returns:
        The logarithms, and error bounds of the same shape.
    """
    inner = (j > 0) & (j < n)
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


def tail_up(least: int, trials: int, p: float) -> float:
    """An upper bound on Pr[Bin(trials, p) ≥ least]: the first probability times a geometric series; 1 near the mean.

    Successive probabilities fall by the ratio (trials − j)p/((j+1)(1−p)), which itself falls with j, so a series with
    the first ratio is above the tail (docs/proofs/floating-point.md, 5).

    Args:
        least: successes, a whole number of any size.
        trials: 0 ≤ trials < 2**52.
        p: probability of success, 0 < p < 1.
    """
    if least <= 0:
        return 1.0
    if least > trials:
        return 0.0
    ratio = (trials - least) * p / ((least + 1.0) * (1.0 - p)) * (1.0 + 16.0 * ULP)
    if ratio >= 0.99:
        return 1.0
    logs, errors = log_binomial_pmf(np.array([float(least)]), np.array([float(trials)]), p)
    first = math.exp(min(float(logs[0] + errors[0]), 0.0)) * (1.0 + 16.0 * ULP) + 5e-324
    return min(1.0, first / (1.0 - ratio) * (1.0 + 16.0 * ULP))


_BLOCK = 128
_SMALL = 2048


def convolution_slack(first: int, second: int) -> float:
    """The relative error of every entry of a direct convolution of arrays of these lengths.

    A sum of m products of non-negative doubles, in any order, errs by at most m + 1 rounding errors.
    """
    return (min(first, second) + 2.0) * ULP


def convolve_direct(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The full convolution, without Fourier transforms, whose error would be relative to the largest entry only.

    The shorter array is cut into blocks; a matrix product convolves every block with the longer array at once.

    Args:
        first: non-negative, shape (m,).
        second: non-negative, shape (n,).

    Returns:
        Shape (m + n − 1,), relative error of every entry at most `convolution_slack(m, n)`, but for products below
        the smallest normal double.
    """
    short, long = sorted((first, second), key=len)
    if short.size * long.size <= _SMALL * _SMALL:
        return np.convolve(short, long)
    blocks = -(-short.size // _BLOCK)
    padded = np.zeros(blocks * _BLOCK)
    padded[: short.size] = short
    edge = np.zeros(_BLOCK - 1)
    windows = sliding_window_view(np.concatenate([edge, long, edge]), _BLOCK)
    rows = padded.reshape(blocks, _BLOCK)[:, ::-1] @ np.ascontiguousarray(windows).T
    result = np.zeros(blocks * _BLOCK + long.size - 1)
    for block in range(blocks):
        start = block * _BLOCK
        result[start : start + rows.shape[1]] += rows[block]
    return result[: short.size + long.size - 1]
