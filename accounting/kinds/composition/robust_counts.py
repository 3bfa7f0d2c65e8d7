"""What earlier versions charged for counts of records with unequal rates: a looser bound, which needs a lowest rate."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from ....mechanisms.kernel.amounts import amount_exact, amount_shown
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.biased_sampling import BiasedSampleCounts
from ...kernel.prices.arithmetic import (
    ABOVE,
    ULP,
    decimal_up,
    float_down,
    float_up,
    least_epsilon,
    log_binomial_pmf,
    sum_margin,
)
from ...kernel.prices.mechanism_kind import RELATION, Price, check_request

_DEVIATIONS = 12.0
_MORE_TERMS = 60.0
_UP = 1.0 + 1e-9
_DOWN = 1.0 - 1e-9
_LARGEST_EPSILON = 60.0
_MOST_GROUPS = 200_000
_BLOCK = 128


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
    """Return δ at ε ≥ −ln(1 − p_max) of counts of at least k, records sampled at rates in [p, p′] but for ℓ exceptions.

    With n regular records in the group of the record in question, φ(j) = max(0, 1 − e^ε/ρ_j), ρ_j = 1 − p_max +
    p_max·j(1−p)/((n−j+1)p) and k′ = max(1, k − ℓ), the δ is the largest over n of E[φ(X + B); X + B ≥ k′], X ~
    Bin(n, p′), B ~ Bernoulli(p_max) independent (docs/proofs/robust-sampling.md). For p = p′ = p_max and ℓ = 0 it
    is the exact profile of adding a record. The setting is that of CBP, Theorem 2, with 0 < p ≤ p′ ≤ p_max < 1.

    Returns:
        δ, rounded outward. With a target, where only the side of this δ is asked for, which is decided sooner, a number
        on the same side of it as δ, and at least δ where that is below.

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
    best = skipped = 0.0
    n = threshold - 1
    while n < _MOST_GROUPS:
        # INVARIANT: the bound falls with n, so that no later group can reach the best once it is below it.
        bound = factor * math.exp(-(n + 1.0) * divergence * _DOWN) * _UP
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
    """Return at least Pr[X + B ≥ least], X ~ Bin(trials, q), B ~ Bernoulli(top)."""
    return ((1.0 - top) * tail_up(least, trials, q) + top * tail_up(least - 1, trials, q)) * ABOVE**2 + 1e-300


def _at_group(n: int, threshold: int, p: float, q: float, top: float, epsilon: float) -> float:
    """Return the expectation for one n, rounded outward; what lies far above the mean counts in full."""
    spread = _DEVIATIONS * math.sqrt(n * q * (1.0 - q) + 1.0) + _MORE_TERMS
    last = min(n + 1, max(threshold, math.floor(n * q)) + math.ceil(spread))
    counts = np.arange(threshold, last + 1, dtype=np.float64)
    trials = np.full_like(counts, n)

    def pmf(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        inside = np.clip(values, 0.0, trials)
        logs, errors = log_binomial_pmf(inside, trials, q)
        return np.where(values <= n, np.exp(logs + errors) * ABOVE, 0.0)

    weights = (1.0 - top) * pmf(counts) + top * pmf(counts - 1.0)
    ratios = 1.0 - top + top * counts * (1.0 - p) / ((n - counts + 1.0 + 1e-300) * p)
    gains = np.clip(-np.expm1(epsilon - np.log(ratios)) + _loss_margin(epsilon), 0.0, 1.0)
    total = float(weights @ gains) * sum_margin(counts.size)
    if last <= n:
        # Successive weights fall by at most this ratio, and ever faster: the rest is below a geometric series.
        ratio = (n - last + 1.0) * q / (last * (1.0 - q))
        total += float(weights[-1]) * ratio / (1.0 - ratio) * _UP
    return total


def _loss_margin(epsilon: float) -> float:
    """Return what 1 − e^{ε − ln ρ} errs by at most, where it is above 0."""
    return max(1e-14, (10.0 + 5.0 * epsilon) * ULP)


def delta_biased(mechanism: BiasedSampleCounts, *, epsilon: float, target: float | None = None) -> float:
    """Return δ at ε of the suppressed counts, with the rates rounded outward; as `delta_robust`."""
    return delta_robust(
        k=mechanism.k,
        lowest_rate=float_down(mechanism.lowest_rate),
        highest_rate=float_up(mechanism.highest_rate),
        largest_rate=float_up(mechanism.largest_rate),
        exceptions=mechanism.exceptions,
        epsilon=epsilon,
        target=target,
    )


def price_robust_counts(mechanism: BiasedSampleCounts, *, delta: Decimal) -> Price:
    """Return what earlier versions charged ("robust-counts/1"), by a looser bound that needs a lowest rate.

    [Ours] The least ε from −ln(1 − p_max) on with `delta_biased` at most δ (docs/proofs/robust-sampling.md).

    Raises:
        InputRefused: δ out of range, or no ε is enough.
    """
    check_request(delta)
    least = math.nextafter(-math.log1p(-float_up(mechanism.largest_rate)), math.inf) * (1.0 + 1e-15)

    target = float_down(delta)

    def evaluated(epsilon: float) -> float:
        if epsilon < least:
            return math.inf
        try:
            return delta_biased(mechanism, epsilon=epsilon, target=target)
        except InputRefused:
            return math.inf

    epsilon = least if evaluated(least) <= target else least_epsilon(evaluated, target, high=_LARGEST_EPSILON)
    if epsilon is None:
        raise no_epsilon_for_counts(mechanism, delta)
    return Price(epsilon=decimal_up(epsilon), delta=delta, relation=RELATION, rule="robust-counts/1", releases=1)


def tail_up(least: int, trials: int, p: float) -> float:
    """Return an upper bound on Pr[Bin(trials, p) ≥ least]: the first one times a geometric series; 1 near the mean.

    Successive probabilities fall by the ratio (trials − j)p/((j+1)(1−p)), which itself falls with j, so a series with
    the first ratio is above the tail (docs/proofs/floating-point.md, 5).
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


def no_epsilon_for_counts(mechanism: BiasedSampleCounts, delta: Decimal) -> InputRefused:
    """Return the refusal of a δ that no ε is enough for."""
    few = f", and up to {mechanism.largest_rate} for {mechanism.exceptions} records" if mechanism.exceptions else ""
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with k = {mechanism.k} and rates up to "
        f"{mechanism.highest_rate}{few}.",
        remedy="Raise k or delta, or bound the rates more tightly.",
    )
