"""Oracles by definition: whole-number and 50-digit arithmetic, every group size, nothing telescoped."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import mpmath
import pytest

DIGITS = 60
SCALE = 10**DIGITS


def fixed_point(value):
    """e to the given double, times 10**60, rounded to nearest."""
    with mpmath.workdps(DIGITS + 20):
        return int(mpmath.nint(mpmath.exp(mpmath.mpf(value)) * SCALE))


def counts(n, rate):
    """Whole numbers proportional to Pr[Bin(n, rate) = j], their sum being rate's denominator to the n."""
    successes, trials = rate.numerator, rate.denominator
    row = [1]
    for _ in range(n):
        row = [
            (successes * row[j - 1] if j else 0) + ((trials - successes) * row[j] if j < len(row) else 0)
            for j in range(len(row) + 1)
        ]
    return row


def suppressed(row, k):
    """The distribution of the released count: everything below k in one atom."""
    return [sum(row[:k]), *row[k:]]


def deltas_over_groups(*, k, sampling_rate, epsilons, largest_n):
    """For each ε the largest divergence over n ≤ largest_n, as exact fractions: (adding, removing)."""
    rate = Fraction(sampling_rate)
    growths = [fixed_point(epsilon) for epsilon in epsilons]
    adding = [Fraction(0)] * len(epsilons)
    removing = [Fraction(0)] * len(epsilons)
    successes, trials = rate.numerator, rate.denominator
    before = [1]
    for n in range(1, largest_n + 1):
        after = [
            (successes * before[j - 1] if j else 0) + ((trials - successes) * before[j] if j < n else 0)
            for j in range(n + 1)
        ]
        with_t = suppressed(after, k)
        without = [trials * value for value in suppressed(before, k)]
        without += [0] * (len(with_t) - len(without))
        total = trials**n * SCALE
        for i, growth in enumerate(growths):
            add = sum(max(0, p * SCALE - growth * q) for p, q in zip(with_t, without, strict=True))
            rem = sum(max(0, q * SCALE - growth * p) for p, q in zip(with_t, without, strict=True))
            adding[i] = max(adding[i], Fraction(add, total))
            removing[i] = max(removing[i], Fraction(rem, total))
        before = after
    return adding, removing


def pair(*, n, k, sampling_rate):
    """The released count with and without the record, as 50-digit probabilities over the same atoms."""
    rate = Fraction(sampling_rate)
    with_t = suppressed(counts(n, rate), k)
    without = suppressed(counts(n - 1, rate), k)
    without += [0] * (len(with_t) - len(without))
    with mpmath.workdps(50):
        return (
            [mpmath.mpf(value) / rate.denominator**n for value in with_t],
            [mpmath.mpf(value) / rate.denominator ** (n - 1) for value in without],
        )


def hockey_stick(upper, lower, epsilon):
    """Σ max(0, P − e^ε Q)."""
    with mpmath.workdps(50):
        growth = mpmath.exp(mpmath.mpf(epsilon))
        return mpmath.fsum(max(mpmath.mpf(0), p - growth * q) for p, q in zip(upper, lower, strict=True))


def product(pairs):
    """The joint distributions of independent pairs."""
    with mpmath.workdps(50):
        upper = [mpmath.fprod(atoms) for atoms in itertools.product(*(one[0] for one in pairs))]
        lower = [mpmath.fprod(atoms) for atoms in itertools.product(*(one[1] for one in pairs))]
    return upper, lower


def least_epsilon(upper, lower, delta):
    """The least ε ≥ 0 at which the divergence is at most δ, exactly; None where no finite one is.

    Between two likelihood ratios the divergence is U − e^ε·L, with U and L the sums over the atoms above.
    """
    with mpmath.workdps(50):
        atoms = sorted(
            ((p / q if q else mpmath.inf, p, q) for p, q in zip(upper, lower, strict=True) if p), reverse=True
        )
        above_upper = above_lower = mpmath.mpf(0)
        for ratio, p, q in atoms:
            if ratio != mpmath.inf and above_upper - ratio * above_lower > delta:
                break
            above_upper += p
            above_lower += q
        if above_lower == 0:
            return None if above_upper > delta else 0.0
        growth = (above_upper - delta) / above_lower
        return float(mpmath.log(growth)) if growth > 1 else 0.0


@pytest.fixture(scope="session")
def oracle():
    return SimpleNamespace(
        deltas_over_groups=deltas_over_groups,
        pair=pair,
        hockey_stick=hockey_stick,
        product=product,
        least_epsilon=least_epsilon,
    )


@pytest.fixture(scope="session")
def vectors():
    folder = Path(__file__).parents[1] / "vectors"
    return {
        "lqs": json.loads((folder / "lqs_tables.json").read_text(encoding="utf-8")),
        "exact": json.loads((folder / "exact_prices.json").read_text(encoding="utf-8")),
    }
