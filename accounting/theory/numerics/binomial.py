"""Probabilities with a bound on their error: binomial logarithms, and convolutions by direct summation.

The logarithm of a binomial probability with a bound on its error, for arrays, in double precision.

Convolution of non-negative arrays by direct summation: every entry has a small relative error.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

__all__ = ["ULP", "convolution_slack", "convolve_direct", "log_binomial_pmf", "tail_up"]

ULP = 2.0**-52

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
    m = np.maximum(n, 17.0)
    s = 1.0 / (m * m)
    large = (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * 691 / 360360))))) / m
    return np.where(n <= 16, small, large)


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
        n: trials, whole numbers 1 ≤ n < 2**52, same shape as `j`.
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
    short, long = (first, second) if first.size <= second.size else (second, first)
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
