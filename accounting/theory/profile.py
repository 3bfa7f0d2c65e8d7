"""The exact privacy profile of one strongly-safe release: δ(ε) and ε(δ), both directions, all ε ≥ 0."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .binomial import ULP
from .hockey_stick import LARGEST_GROUP, log_adding, log_removing

__all__ = [
    "check_parameters",
    "delta_exact",
    "epsilon_exact",
    "epsilon_of_log_delta",
    "farthest_epsilon",
    "least_log_delta",
    "log_profile",
]

_RELATIVE_WIDTH = 1e-14


def check_parameters(k: int, sampling_rate: float) -> None:
    """Whether the profile can be computed in double precision.

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
    """Upper bounds on ln δ(ε), the larger of the two directions, for an array of ε ≥ 0; shape as given.

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
    """The least δ for which one release is (ε, δ)-private under add/remove, rounded outward.

    Args:
        k: suppression threshold, at least 1.
        sampling_rate: β, 0 < β < 1.
        epsilon: ε of at least 0.

    Returns:
        δ, never below the truth and above it by rounding only; at least the smallest double.

    Raises:
        ValueError: parameters that `check_parameters` refuses, or ε below 0.
    """
    value = float(log_profile(k=k, sampling_rate=sampling_rate, epsilons=np.array([epsilon], dtype=np.float64))[0])
    return exp_up(value)


def exp_up(log_value: float) -> float:
    """An upper bound on e^x for x ≤ 0, at most 1 and at least the smallest double."""
    return min(1.0, math.nextafter(math.exp(log_value) * (1.0 + 8.0 * ULP), math.inf))


def least_log_delta(*, k: int, sampling_rate: float) -> float:
    """Upper bound on ln β^k: below it no ε is finite, since k sampled records out of k betray each of them."""
    return k * math.log(sampling_rate) * (1.0 - 8.0 * ULP)


def farthest_epsilon(*, k: int, sampling_rate: float) -> float:
    """An ε > 0 beyond which the decisive group has k records, and δ(ε) = β^k is constant."""
    return max(math.log(k) + math.log1p(-sampling_rate), -math.log1p(-sampling_rate)) + 1e-6


def epsilon_exact(*, k: int, sampling_rate: float, delta: float) -> float | None:
    """The least ε ≥ 0 with δ(ε) ≤ δ, rounded outward; None where no finite ε has it (δ below β^k).

    Raises:
        ValueError: parameters that `check_parameters` refuses, or δ outside (0, 1).
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    return epsilon_of_log_delta(k=k, sampling_rate=sampling_rate, log_delta=math.log(delta) * (1.0 + 4.0 * ULP))


def epsilon_of_log_delta(*, k: int, sampling_rate: float, log_delta: float) -> float | None:
    """As `epsilon_exact`, for ln δ < 0: also for a δ below the smallest double.

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
    low = 0.0
    # It ends: an ε below some 1e-17 of the rate cannot be told from 0, which does not hold.
    while high - low > _RELATIVE_WIDTH * high:
        middle = 0.5 * (low + high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
