"""Price releases by the paper's bound alone, which the ledger records beside what is charged."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache

import numpy as np

from ....mechanisms.kernel.amounts import amount_shown
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ...kernel.prices.arithmetic import add_up, bisected, decimal_up, divide_down, float_down, float_up, multiply_up
from ...kernel.prices.mechanism_kind import RELATION, Price, check_request
from .private_choice import selection_cost

_TAIL_SLACK = 1e-10
_TIE = 1e-12
_BATCH = 256


def least_epsilon_of_paper(sampling_rate: float) -> float:
    """Return the least ε for which the paper has a bound: −ln(1−β) (LQS, arXiv:1101.2604v2, Theorem 3.9)."""
    return -math.log1p(-sampling_rate)


def delta_paper(*, k: int, sampling_rate: float, epsilon: float) -> float:
    """Return the bound d(k, β, ε) = max over n ≥ ⌈k/γ − 1⌉ of Pr[Bin(n, β) > γn], with γ = (e^ε − 1 + β)/e^ε.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9. For every threshold L ≥ k the tail Pr[Bin(n, β) ≥ L] is largest at
    the last n with γn < L, so one n a threshold is looked at; the walk stops where Pr[Bin(n, β) > γn] ≤
    exp(−n·KL(γ‖β)) falls below the best value so far (docs/proofs/paper-bound.md). It is never below the bound (up to
    1e-10 relative above it); 0 only where the bound is below 1e-300.

    Raises:
        InputRefused: ε is below −ln(1−β), where the paper proves nothing.
        ValueError: k or the rate is out of range.
    """
    from scipy.special import betainc  # SciPy loads slowly, and most prices do without it

    _check(k, sampling_rate)
    if not epsilon >= least_epsilon_of_paper(sampling_rate):
        raise InputRefused(
            f"the paper's bound needs epsilon of at least {amount_shown(least_epsilon_of_paper(sampling_rate))} "
            f"at sampling rate {sampling_rate:g}, not {amount_shown(epsilon)}.",
            remedy="Use the exact profile, a lower rate, or a larger epsilon.",
        )
    kappa = (1.0 - sampling_rate) * math.exp(-epsilon)
    gamma = -math.expm1(-epsilon) + sampling_rate * math.exp(-epsilon)
    divergence = _relative_entropy(gamma, kappa, sampling_rate, epsilon)
    best = 0.0
    first = k
    while True:
        thresholds = np.arange(first, first + _BATCH, dtype=np.float64)
        last_n = np.maximum(np.ceil(thresholds / gamma * (1.0 + _TIE)) - 1.0, thresholds)
        tails = betainc(thresholds, last_n - thresholds + 1.0, sampling_rate)
        best = max(best, float(tails.max()))
        chernoff = math.exp(-float(last_n[-1]) * divergence)
        if chernoff <= best or chernoff < 1e-300:
            return min(1.0, best * (1.0 + _TAIL_SLACK))
        first += _BATCH


@lru_cache(maxsize=1024)
def epsilon_paper(*, k: int, sampling_rate: float, delta: float) -> float | None:
    """Return the least ε ≥ −ln(1−β) with d(k, β, ε) ≤ δ; None where no finite ε has it (δ below β^k).

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9; d falls with ε, so bisection finds it.

    Raises:
        ValueError: k, the rate or δ is out of range.
    """
    _check(k, sampling_rate)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    low = least_epsilon_of_paper(sampling_rate)

    def holds(epsilon: float) -> bool:
        return delta_paper(k=k, sampling_rate=sampling_rate, epsilon=epsilon) <= delta

    if holds(low):
        return low
    high = max(1.0, 2.0 * low, math.log(k) + 60.0)
    return bisected(holds, low, high, width=1e-14) if holds(high) else None


def _check(k: int, sampling_rate: float) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if not 0.0 < sampling_rate < 1.0:
        raise ValueError(f"the sampling rate must lie strictly between 0 and 1, not {sampling_rate}")


def _relative_entropy(gamma: float, kappa: float, rate: float, epsilon: float) -> float:
    """Return a lower bound on KL(Bernoulli(γ) ‖ Bernoulli(β)), where κ = 1 − γ is (1 − β)e^{−ε}."""
    # ln(κ/(1 − β)) is −ε exactly. Computed from κ it would err by 1e-16, more than all the divergence where β is small.
    ahead = gamma * math.log(gamma / rate)
    behind = kappa * epsilon if kappa > 0.0 else 0.0
    return max(0.0, ahead - behind - 1e-14 * (gamma + ahead))


def paper_price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price | None:
    """Return the price by the paper alone: δ split evenly over the releases, ε added up; None where it has none.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9.

    Raises:
        InputRefused: δ or the number of releases is out of range.
    """
    check_request(delta, releases)
    share = float_down(divide_down(delta, releases))
    rate = float_up(mechanism.sampling_rate)
    if share <= 0.0 or rate >= 1.0:
        return None
    epsilon = epsilon_paper(k=mechanism.k, sampling_rate=rate, delta=share)
    if epsilon is None:
        return None
    return Price(
        epsilon=decimal_up(multiply_up(decimal_up(epsilon), releases)),
        delta=delta,
        relation=RELATION,
        rule="lqs-theorem-3.9/1",
        releases=releases,
    )


def paper_price_selected(
    mechanism: StronglySafeRelease,
    *,
    selection_epsilon: Decimal,
    selection_rate: Decimal | None,
    delta: Decimal,
    releases: int = 1,
) -> Price | None:
    """Return the paper's price of the same after a choice: ε₁ + the release's ε by the bound d; None where it has none.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.11 with Theorem 3.9.

    Raises:
        InputRefused: as `selection_cost`.
    """
    cost = selection_cost(selection_epsilon, selection_rate=selection_rate)
    rest = paper_price_fixed(mechanism, delta=delta, releases=releases)
    if rest is None:
        return None
    return Price(
        epsilon=decimal_up(add_up(rest.epsilon, multiply_up(cost.epsilon, releases))),
        delta=delta,
        relation=RELATION,
        rule="lqs-theorem-3.11/1",
        releases=releases,
    )
