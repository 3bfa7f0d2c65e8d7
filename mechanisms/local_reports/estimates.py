"""Estimates from the totals of local reports, with their standard errors: functions of what devices have protected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..kinds.krandomization import KRandomization
from ..kinds.sketch import CountMeanSketch, SketchSums, hash_positions

Counts = NDArray[np.int64]
Reals = NDArray[np.float64]


def estimated_distribution(mechanism: KRandomization, outcomes: Counts) -> Reals:
    """Return unbiased estimates of how many people have each of the 2^L vectors; shape (2^L,), may be negative.

    The inverse of the flip matrix, which is a tensor product of 2 × 2 matrices: O(L·2^L). It goes
    through sums and differences of each bit (Walsh and Hadamard), whose eigenvalues are 1 and 1 − 2q.
    """
    same, other = _inverse(mechanism)
    return _each_bit(outcomes.astype(np.float64), same, other)


def standard_errors(mechanism: KRandomization, outcomes: Counts) -> Reals:
    """Return standard errors of the estimates, from the published outcome counts; shape (2^L,).

    Their squares are unbiased for the estimates' variances wherever they are positive: for x_r people of vector r,
    Σ_r x_r·(Π over bits of (p³+q³)/(1−2q)² where r and s agree, pq/(1−2q)² where not) − x_s, p = 1 − q.
    """
    same, other = _inverse(mechanism)
    squares = _each_bit(outcomes.astype(np.float64), same * same, other * other)
    return np.sqrt(np.maximum(squares - estimated_distribution(mechanism, outcomes), 0.0))


def estimated_ones(mechanism: KRandomization, outcomes: Counts) -> Reals:
    """Return unbiased estimates of how many people have each bit set: (ones reported − n·q)/(1 − 2q); shape (L,).

    With one bit for each value they are the values' counts, with a smaller error than the vectors' estimates, which
    answer more.
    """
    q = float(mechanism.real_flip_probability)
    reported = np.array([float(outcomes.reshape(-1, 2, 1 << bit)[:, 1].sum()) for bit in range(mechanism.bits)])
    return (reported - q * float(outcomes.sum())) / (1.0 - 2.0 * q)


def standard_error_of_ones(mechanism: KRandomization, *, people: int) -> float:
    """Return the exact standard error of each bit's estimate of n people: √(n·q(1−q))/(1−2q), whatever they have."""
    q = float(mechanism.real_flip_probability)
    return math.sqrt(people * q * (1.0 - q)) / (1.0 - 2.0 * q)


def _inverse(mechanism: KRandomization) -> tuple[float, float]:
    """Diagonal and off-diagonal of the inverse of [[1−q, q], [q, 1−q]]."""
    gap = 1 - 2 * mechanism.real_flip_probability
    return float((1 - mechanism.real_flip_probability) / gap), float(-mechanism.real_flip_probability / gap)


def _each_bit(values: Reals, same: float, other: float) -> Reals:
    """Apply [[same, other], [other, same]] along every bit."""
    result = values.astype(np.float64)
    width = 1
    while width < result.size:
        pairs = result.reshape(-1, 2, width)
        low, high = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0] = same * low + other * high
        pairs[:, 1] = other * low + same * high
        width *= 2
    return result


def estimated_counts(sketch: CountMeanSketch, sums: SketchSums, values: Sequence[str]) -> NDArray[np.float64]:
    """Return how many people have each value: m/(m−1)·(Σ reports' unflipped bit at its place − n/m), shape (values,).

    Unbiased over the choice of hash functions: m/(m−1) and n/m take out the expected collisions.
    """
    n = float(sums.reports.sum())
    half = 0.5 * (1.0 - sketch.correction)
    answers = np.empty(len(values), dtype=np.float64)
    for place, value in enumerate(values):
        ones = float(sums.ones[np.arange(sketch.hashes), hash_positions(sketch, value)].sum())
        answers[place] = (sketch.correction * ones + half * n - n / sketch.bits) * sketch.bits / (sketch.bits - 1)
    return answers


def standard_error(sketch: CountMeanSketch, *, reports: int) -> float:
    """Return the largest standard error that the coins of n reports can give an estimate: m/(m−1)·c·√n/2."""
    return sketch.bits / (sketch.bits - 1) * sketch.correction * math.sqrt(reports) / 2.0
