"""The privacy profile of one strongly-safe release, exactly and by the paper's bound d(k, β, ε): δ(ε) and ε(δ).

The exact one has both hockey-stick divergences of the sampled, suppressed count, at their peaks over the group size."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .arithmetic import ULP, bisected, log_binomial_pmf

LARGEST_GROUP = 2.0**50
MARGIN = 16.0 * ULP
_BLOCK = 1_048_576
_DECAY = 40.0

Array = NDArray[np.float64]


def log_adding(*, k: int, sampling_rate: float, epsilons: Array) -> Array:
    """Return upper bounds on ln sup_n Σ_{j≥k} max(0, f(j;n,β) − e^ε·f(j;n−1,β)), for ε ≥ 0 of shape (n,).

    The supremum is attained at the first n ≥ k with γn ≥ k − 1, where γ = 1 − (1−β)e^{−ε}
    (docs/proofs/exact-profile.md, Lemma 3), so that one n is evaluated, as a sum of positive terms. (k−1)/β must be
    below `LARGEST_GROUP`. Each is above the true logarithm by rounding only (about 1e-10 for k up to a thousand).
    """
    # INVARIANT: γ is rounded down. The supremum falls with γ, so that the bound can only become larger.
    gamma = (sampling_rate * np.exp(-epsilons) - np.expm1(-epsilons)) * (1.0 - MARGIN)
    n, theta = groups_of_adding(k, gamma)
    log_weight = log_weighted_sum(
        theta=theta, top=n - k, bottom=np.full_like(n, k + 1.0), odds=sampling_rate / (1.0 - sampling_rate)
    )
    log_first, error = log_binomial_pmf(np.full_like(n, float(k)), n, sampling_rate)
    return np.asarray(log_first + error + log_weight - np.log(n * (1.0 - gamma)) + MARGIN, dtype=np.float64)


def log_removing(*, k: int, sampling_rate: float, epsilons: Array) -> Array:
    """Return upper bounds on ln sup_n of the divergence of removing the record, one for each ε ≥ 0; as `log_adding`.

    The divergence is max over m ≥ k of Pr[Bin(n−1,β) < m] − e^ε·Pr[Bin(n,β) < m]. With η = 1 − e^ε(1−β) it is 0 where
    η ≤ 0, with the logarithm −∞; else its supremum is attained at the first n ≥ 1 with ηn ≥ k − 1
    (docs/proofs/exact-profile.md, Lemma 4).
    """
    with np.errstate(over="ignore"):
        growth = np.expm1(epsilons) * (1.0 - sampling_rate)
    # INVARIANT: η is rounded up (the supremum grows with η), also where its group would be beyond counting.
    eta = sampling_rate - growth + MARGIN * sampling_rate
    positive = eta > 0.0
    result = np.full(epsilons.shape, -np.inf)
    n, theta = groups_of_removing(k, np.maximum(eta[positive], (k - 1.0) / LARGEST_GROUP))
    log_weight = log_weighted_sum(
        theta=theta, top=np.full_like(n, k - 1.0), bottom=n - k + 2.0, odds=(1.0 - sampling_rate) / sampling_rate
    )
    log_first, error = log_binomial_pmf(np.full_like(n, k - 1.0), n, sampling_rate)
    result[positive] = log_first + error + log_weight - np.log(n) - math.log1p(-sampling_rate) + MARGIN
    return result


def groups_of_adding(k: int, gamma: Array) -> tuple[Array, Array]:
    """Return the first n ≥ k with γn ≥ k − 1, and θ = k − γn, in whole numbers, and rounded to the nearest double."""
    # θ is a small difference of large numbers, in which doubles would lose every digit; fractions are exact.
    n, theta = np.empty_like(gamma), np.empty_like(gamma)
    for place, factor in enumerate(gamma.tolist()):
        over, under = factor.as_integer_ratio()
        first = max(_quotient_up((k - 1) * under, over), k)
        n[place], theta[place] = first, (k * under - first * over) / under
    return n, theta


def groups_of_removing(k: int, eta: Array) -> tuple[Array, Array]:
    """Return the first n ≥ 1 with ηn ≥ k − 1, and θ = ηn − (k − 1), likewise."""
    n, theta = np.empty_like(eta), np.empty_like(eta)
    for place, factor in enumerate(eta.tolist()):
        over, under = factor.as_integer_ratio()
        first = max(_quotient_up((k - 1) * under, over), 1)
        n[place], theta[place] = first, (first * over - (k - 1) * under) / under
    return n, theta


def _quotient_up(over: int, under: int) -> int:
    return -(-over // under)


def log_weighted_sum(*, theta: Array, top: Array, bottom: Array, odds: float) -> Array:
    """Return upper bounds on ln Σ_{i≥0} (θ + i)·Π_{l<i} r_l with r_l = odds·(top − l)/(bottom + l), 0 beyond l = top.

    The ratios fall with l and r_0 < 1; what is cut off after the m-th term is replaced by its geometric bound.
    """
    result = np.empty_like(theta)
    terms = _terms(top, bottom, odds)
    for rows in _blocks(terms):
        result[rows] = _block_of_sums(theta[rows], top[rows], bottom[rows], odds, int(terms[rows[-1]]))
    return result


def _terms(top: Array, bottom: Array, odds: float) -> Array:
    """Return how many ratios are multiplied: until their product is about e^−40, but never past the one that is 0."""
    # After m ratios the product is about exp(−dm − cm²/2), with d the first one's drop and c how much it grows; the
    # quadratic formula gives m (with half of c). A wrong m costs time or slack, since the rest is bounded in any case.
    some = np.maximum(top, 1.0)
    drop = -np.log(odds * some / bottom)
    growing = 1.0 / bottom + 1.0 / some
    return np.minimum(np.ceil(2.0 * _DECAY / (drop + np.sqrt(drop * drop + _DECAY * growing))), top + 1.0)


def _blocks(terms: Array) -> Iterator[NDArray[np.intp]]:
    """Yield the rows by their numbers of terms, in blocks whose longest row times their size is at most `_BLOCK`."""
    order = np.argsort(terms)
    start = 0
    for stop in range(1, order.size + 1):
        if stop == order.size or (stop + 1 - start) * terms[order[stop]] > _BLOCK:
            yield order[start:stop]
            start = stop


def _block_of_sums(theta: Array, top: Array, bottom: Array, odds: float, terms: int) -> Array:
    steps = np.arange(terms, dtype=np.float64)
    ratios = top[:, None] - steps  # 0 at a row's end, so that its products are 0 from there on
    ratios /= bottom[:, None] + steps
    ratios *= odds
    products = np.cumprod(ratios, axis=1)
    end = products[:, -1]
    # The ratios fall, so the terms that are cut off are below a geometric series with the last ratio.
    last = odds * (top - terms) / (bottom + terms)
    gap = 1.0 - last
    plain = 1.0 + products[:, :-1].sum(axis=1) + end / gap
    graded = products[:, :-1] @ steps[1:] + end * (terms + last / gap) / gap
    return np.asarray(np.log(theta * plain + graded) + _cost_of_sums(terms), dtype=np.float64)


def _cost_of_sums(terms: int) -> float:
    """Return the most that the roundings of a sum of so many products can cost, relatively."""
    return (8.0 * terms + 32.0) * ULP


def check_parameters(k: int, sampling_rate: float) -> None:
    """Refuse what double precision can't hold.

    Raises:
        ValueError: k < 1, a rate outside (1e-300, 1 − 1e-12), or a rate so small for this k that the decisive group
            has more than 2**50 records.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if not 1e-300 < sampling_rate < 1.0 - 1e-12:
        raise ValueError(f"the sampling rate must lie between 1e-300 and 1 - 1e-12, not {sampling_rate}")
    if k - 1 > sampling_rate * (LARGEST_GROUP / 4):
        raise ValueError(f"a sampling rate of {sampling_rate:g} with k = {k} is beyond double precision")


def log_profile(*, k: int, sampling_rate: float, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return upper bounds on ln δ(ε), the larger of the two directions, for an array of ε ≥ 0; shape as given.

    Source: docs/proofs/exact-profile.md (the mechanism is that of LQS, arXiv:1101.2604v2, Theorem 3.9).

    Raises:
        ValueError: parameters that `check_parameters` refuses, or an ε below 0.
    """
    check_parameters(k, sampling_rate)
    if np.any(~(epsilons >= 0.0)):
        raise ValueError("epsilon must be at least 0")
    adding = log_adding(k=k, sampling_rate=sampling_rate, epsilons=epsilons)
    removing = log_removing(k=k, sampling_rate=sampling_rate, epsilons=epsilons)
    return np.asarray(np.maximum(adding, removing), dtype=np.float64)


def delta_exact(*, k: int, sampling_rate: float, epsilon: float) -> float:
    """Return the least δ at which one release is (ε, δ)-private under add/remove, rounded up; as `log_profile`."""
    value = float(log_profile(k=k, sampling_rate=sampling_rate, epsilons=np.array([epsilon], dtype=np.float64))[0])
    return exp_up(value)


def exp_up(log_value: float) -> float:
    """Return an upper bound on e^x for x ≤ 0, at most 1 and at least the smallest double."""
    return min(1.0, math.nextafter(math.exp(log_value) * (1.0 + 8.0 * ULP), math.inf))


def least_log_delta(*, k: int, sampling_rate: float) -> float:
    """Return an upper bound on ln β^k: below it no ε is finite, since k sampled records out of k betray each."""
    return k * math.log(sampling_rate) * (1.0 - 8.0 * ULP)


def farthest_epsilon(*, k: int, sampling_rate: float) -> float:
    """Return an ε > 0 beyond which the decisive group has k records, and δ(ε) = β^k is constant."""
    return max(math.log(k) + math.log1p(-sampling_rate), -math.log1p(-sampling_rate)) + 1e-6


def epsilon_of_log_delta(*, k: int, sampling_rate: float, log_delta: float) -> float | None:
    """Return the least ε found with ln δ(ε) at most a bound below 0; None where no finite one has it.

    INVARIANT: the returned ε has itself been evaluated, and its rounded-up δ is at most the target.
    """

    def holds(epsilon: float) -> bool:
        point = np.array([epsilon], dtype=np.float64)
        return bool(log_profile(k=k, sampling_rate=sampling_rate, epsilons=point)[0] <= log_delta)

    if holds(0.0):
        return 0.0
    high = farthest_epsilon(k=k, sampling_rate=sampling_rate)
    if not holds(high):
        return None
    return bisected(holds, 0.0, high, width=1e-14)
