"""δ at a given ε, by the profile and by the paper, and the paper's least k."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from ...mechanisms.amount_format import amount_exact
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .composition import COMPOSED_FLOOR, delta_composed
from .exact_decimals import add_up, divide_down, multiply_up
from .inversion import LARGEST_K, Target, parts_of
from .kinds.epsilon_safe import log_profile_selected
from .paper_bound import delta_paper, least_epsilon_of_paper
from .profile import exp_up, log_profile
from .rounding import decimal_up, float_down, float_up
from .saddle_point import estimated_log_delta
from .search import first_whole

__all__ = ["delta_of_paper", "least_delta", "least_k_of_paper"]


def least_delta(mechanism: StronglySafeRelease, target: Target) -> Decimal:
    """The least δ found with which the target's releases together are (ε, δ)-private (its own δ is ignored).

    Raises:
        InputRefused: the parameters are beyond double precision, or the least δ is 1.
    """
    try:
        best = _sum_of_single(mechanism, target)
        if target.releases > 1:
            best = min(best, _composed(mechanism, target))
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault
    if best >= 1:
        raise InputRefused(
            f"at epsilon {amount_exact(target.epsilon)} the least delta is 1: this guarantees nothing.",
            remedy="Raise epsilon or k.",
        )
    return decimal_up(best)


def _sum_of_single(mechanism: StronglySafeRelease, target: Target) -> Decimal:
    point = np.array([float_down(divide_down(target.epsilon, target.releases))], dtype=np.float64)
    rate = float_up(mechanism.sampling_rate)
    if target.choice is None:
        each = log_profile(k=mechanism.k, sampling_rate=rate, epsilons=point)
    else:
        each = log_profile_selected(
            k=mechanism.k,
            sampling_rate=rate,
            selection_epsilon=float_up(target.choice.epsilon),
            epsilons=point,
        )
    return multiply_up(decimal_up(exp_up(float(each[0]))), target.releases)


def _composed(mechanism: StronglySafeRelease, target: Target) -> Decimal:
    parts = parts_of(mechanism, target)
    epsilon = float_down(target.epsilon)
    floor = float(COMPOSED_FLOOR)
    estimate = estimated_log_delta(parts, epsilon=max(epsilon, 1e-300), negligible=floor * 1e-4 / target.releases)
    resolution = min(max(math.exp(estimate), floor), 0.1)
    found = delta_composed(parts, epsilon=epsilon, resolution=resolution)
    if not resolution / 10.0 <= found <= 10.0 * resolution:
        resolution = min(max(found, floor), 0.1)
        found = min(found, delta_composed(parts, epsilon=epsilon, resolution=resolution))
    return decimal_up(found)


def _paper_epsilon_each(target: Target) -> float:
    """ε/T − ε₁ rounded down: what the paper leaves for one release."""
    spent = Decimal(0) if target.choice is None else target.choice.epsilon
    return float_down(add_up(divide_down(target.epsilon, target.releases), -spent).next_minus())


def delta_of_paper(mechanism: StronglySafeRelease, target: Target) -> Decimal | None:
    """T·d(k, β, ε/T − ε₁), at most 1; None where the paper proves nothing.

    Source: LQS, arXiv:1101.2604v2, Theorems 3.9 and 3.11.
    """
    rate, each = float_up(mechanism.sampling_rate), _paper_epsilon_each(target)
    if not rate < 1.0 or not each >= least_epsilon_of_paper(rate):
        return None
    bound = delta_paper(k=mechanism.k, sampling_rate=rate, epsilon=each)
    return min(decimal_up(multiply_up(decimal_up(bound), target.releases)), Decimal(1))


def least_k_of_paper(sampling_rate: Decimal, target: Target) -> int | None:
    """The least k by the paper: d(k, β, ε/T − ε₁) ≤ δ/T; None where it proves nothing or no k is found.

    Source: LQS, arXiv:1101.2604v2, Theorems 3.9 and 3.11.
    """
    rate, each = float_up(sampling_rate), _paper_epsilon_each(target)
    share = float_down(divide_down(target.delta, target.releases))
    if not rate < 1.0 or not each >= least_epsilon_of_paper(rate) or share <= 0.0:
        return None

    def cost(k: int) -> float:
        return 0.0 if delta_paper(k=k, sampling_rate=rate, epsilon=each) <= share else math.inf

    return first_whole(cost, share, largest=LARGEST_K)
