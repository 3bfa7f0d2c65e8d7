"""An explicit δ for the suppressed counts of a data set whose own sampling rates are only known within bounds."""

from __future__ import annotations

import math

import numpy as np

from ...mechanisms.amount_format import amount_shown
from ...mechanisms.refusal import InputRefused
from .binomial import ULP, log_binomial_pmf, tail_up

__all__ = ["delta_robust"]

_MOST_GROUPS = 200_000
_BLOCK = 128
_TAIL_SLACK = 1.0 + 16.0 * ULP
_DEVIATIONS = 12.0
_MORE_TERMS = 60.0


def delta_robust(
    *,
    k: int,
    lowest_rate: float,
    highest_rate: float,
    largest_rate: float,
    exceptions: int,
    epsilon: float,
    target: float | None = None,
) -> float:
    """δ at ε ≥ −ln(1 − p_max) of releasing counts of at least k, records sampled at rates within [p, p′] but for ℓ.

    With n regular records in the group of the record in question, φ(j) = max(0, 1 − e^ε/ρ_j), ρ_j = 1 − p_max +
    p_max·j(1−p)/((n−j+1)p) and k′ = max(1, k − ℓ), the δ is the largest over n of E[φ(X + B); X + B ≥ k′], X ~
    Bin(n, p′), B ~ Bernoulli(p_max) independent (docs/proofs/robust-sampling.md). For p = p′ = p_max and ℓ = 0 it
    is the exact profile of adding a record. The setting is that of CBP, Theorem 2.

    Args:
        k: suppression threshold, at least 1.
        lowest_rate: p, 0 < p.
        highest_rate: p′, p ≤ p′ < 1.
        largest_rate: p_max, the rate that no record exceeds, p′ ≤ p_max < 1.
        exceptions: ℓ, how many records may have a rate outside [p, p′].
        epsilon: ε of at least −ln(1 − p_max).
        target: where only the side of this δ is asked for, which is decided sooner.

    Returns:
        δ, rounded outward; with a target a number on the same side of it as δ, and at least δ where that is below.

    Raises:
        InputRefused: a value out of range, or bounds so wide that δ does not fall with the size of the group.
    """
    p, q, top = lowest_rate, highest_rate, largest_rate
    if k < 1 or exceptions < 0:
        raise InputRefused(f"k must be at least 1 and the exceptions at least 0, not {k} and {exceptions}.")
    if not 0.0 < p <= q <= top < 1.0:
        raise InputRefused(f"rates must satisfy 0 < lowest ≤ highest ≤ largest < 1, not {p}, {q}, {top}.")
    if not epsilon >= -math.log1p(-top):
        raise InputRefused(
            f"epsilon must be at least {amount_shown(-math.log1p(-top))} for rates up to {top}, not {epsilon}."
        )
    threshold = max(1, k - exceptions)
    wanted = (math.expm1(epsilon) + top) / top * (p / (1.0 - p))
    share = wanted / (1.0 + wanted)
    if share <= q * (1.0 + 1e-6):
        raise InputRefused(
            f"sampling rates from {p} to {q} are too far apart for epsilon {amount_shown(epsilon)}: "
            f"delta would not fall with the "
            "size of a group.",
            remedy="Raise epsilon, or bound the rates more tightly.",
        )
    divergence = share * math.log(share / q) + (1.0 - share) * (math.log1p(-share) - math.log1p(-q))
    tilt = share * (1.0 - q) / (q * (1.0 - share))
    factor = (1.0 + top * (tilt - 1.0)) / (1.0 + q * (tilt - 1.0))
    best, skipped, n = 0.0, 0.0, max(threshold - 1, 0)
    while n < _MOST_GROUPS:
        # INVARIANT: the bound falls with n, so that no later group can reach the best once it is below it.
        bound = factor * math.exp(-(n + 1.0) * divergence * (1.0 - 1e-9)) * (1.0 + 1e-9)
        if target is not None and (best > target or bound <= target):
            return min(1.0, max(best, skipped, bound) if best <= target else best)
        if bound <= best or bound < 1e-300:
            return min(1.0, best + 5e-324)
        last = n + n // _BLOCK
        least = max(threshold, math.floor((n + 1.0) * share * (1.0 - 1e-12)) + 1)
        above = _at_least(least, last, q=q, top=top)
        # INVARIANT: no group of n … last exceeds this one's bound, which is what is skipped.
        if above <= (best if target is None else max(best, target)):
            skipped = max(skipped, above)
            n = last + 1
            continue
        best = max(best, _at_group(n, threshold, p, q, top, epsilon))
        n += 1
    raise InputRefused(
        f"the search for delta at epsilon {amount_shown(epsilon)} is too long: the rates are too far apart."
    )


def _at_least(least: int, trials: int, *, q: float, top: float) -> float:
    """At least Pr[X + B ≥ least], X ~ Bin(trials, q), B ~ Bernoulli(top)."""
    return ((1.0 - top) * tail_up(least, trials, q) + top * tail_up(least - 1, trials, q)) * _TAIL_SLACK + 1e-300


def _at_group(n: int, threshold: int, p: float, q: float, top: float, epsilon: float) -> float:
    """The expectation for one n, rounded outward; what lies far above the mean counts in full."""
    first = max(threshold, 1)
    spread = _DEVIATIONS * math.sqrt(n * q * (1.0 - q) + 1.0) + _MORE_TERMS
    last = min(n + 1, max(first, math.floor(n * q)) + math.ceil(spread))
    counts = np.arange(first, last + 1, dtype=np.float64)
    trials = np.full_like(counts, max(n, 1))

    def pmf(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if n == 0:
            return np.where(values == 0.0, 1.0, 0.0)
        inside = np.clip(values, 0.0, trials)
        logs, errors = log_binomial_pmf(inside, trials, q)
        return np.where(values <= n, np.exp(logs + errors + 4.0 * ULP), 0.0)

    weights = (1.0 - top) * pmf(counts) + top * pmf(counts - 1.0)
    ratios = 1.0 - top + top * counts * (1.0 - p) / ((n - counts + 1.0 + 1e-300) * p)
    gains = np.maximum(-np.expm1(epsilon - np.log(ratios)) + max(1e-14, (10.0 + 5.0 * epsilon) * ULP), 0.0)
    gains = np.where(ratios * (1.0 + 1e-13) > math.exp(epsilon), np.minimum(gains, 1.0), 0.0)
    total = float(weights @ gains) * (1.0 + (counts.size + 64.0) * ULP)
    if last <= n:
        # Successive weights fall by at most this ratio, and ever faster: the rest is below a geometric series.
        ratio = (n - last + 1.0) * q / (last * (1.0 - q))
        total += float(weights[-1]) * ratio / (1.0 - ratio) * (1.0 + 1e-9)
    return total
