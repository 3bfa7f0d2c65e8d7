"""What crowd-blending counts are worth under sampling by the published theorems: zero-knowledge privacy."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from ...mechanisms.kernel.errors import InputRefused
from ..kernel.prices.arithmetic import (
    add_down,
    add_up,
    decimal_up,
    divide_up,
    exp_up,
    float_up,
    log_up,
    multiply_down,
    multiply_up,
)

_TAIL_SLACK = 1e-10
_BATCH = 512
_MOST_THRESHOLDS = 1 << 24


def epsilon_zero_knowledge(epsilon: Decimal, *, sampling_rate: Decimal) -> Decimal:
    """ε of a (k, ε)-crowd-blending mechanism run on a p-sample: ln(p·(2−p)/(1−p)·e^ε + 1 − p), rounded up.

    Source: CBP (Gehrke, Hay, Lui, Pass, CRYPTO 2012), Theorem 1: zero-knowledge privacy with respect to the
    aggregates iRS(p), which implies differential privacy under add/remove; its δ is `delta_zero_knowledge`.

    Args:
        epsilon: ε of the crowd-blending guarantee, at least 0.
        sampling_rate: p, 0 < p < 1.

    Raises:
        InputRefused: a value out of range.
    """
    return epsilon_zero_knowledge_robust(
        epsilon, lowest_rate=sampling_rate, highest_rate=sampling_rate, largest_rate=sampling_rate
    )


def epsilon_zero_knowledge_robust(
    epsilon: Decimal, *, lowest_rate: Decimal, highest_rate: Decimal, largest_rate: Decimal
) -> Decimal:
    """ε where records are sampled at rates within [p, p′] but for a few, which have any rate up to p_max.

    ln(p_max·(p′(1−p)(2−p))/(p(1−p′)²)·e^ε + 1 − p_max), rounded up. Source: CBP, Theorem 2 (aggregates
    iRS(p, p′, ℓ)). Inclusion rates must be functions of the record alone.

    Args:
        epsilon: ε of the crowd-blending guarantee, at least 0.
        lowest_rate: p, 0 < p.
        highest_rate: p′, p ≤ p′ < 1.
        largest_rate: p_max, p′ ≤ p_max < 1.

    Raises:
        InputRefused: a value out of range.
    """
    if not (epsilon.is_finite() and epsilon >= 0):
        raise InputRefused(f"epsilon must be finite and at least 0, not {epsilon}.")
    if not 0 < lowest_rate <= highest_rate <= largest_rate < 1:
        raise InputRefused(
            f"rates must satisfy 0 < lowest ≤ highest ≤ largest < 1, not {lowest_rate}, {highest_rate}, {largest_rate}."
        )
    p, q = lowest_rate, highest_rate
    numerator = multiply_up(multiply_up(q, add_up(1, p.copy_negate())), add_up(2, p.copy_negate()))
    outside = add_down(1, q.copy_negate())
    ratio = divide_up(numerator, multiply_down(multiply_down(p, outside), outside))
    growth = multiply_up(multiply_up(largest_rate, ratio), exp_up(epsilon))
    return decimal_up(log_up(add_up(add_up(1, largest_rate.copy_negate()), growth)))


def delta_zero_knowledge(*, k: int, sampling_rate: Decimal) -> Decimal:
    """An explicit δ to go with `epsilon_zero_knowledge`: max over n of p·Pr[Bin(n,p) ≥ max(k − 1, ⌊(n+1)p(2−p)⌋)].

    The source states e^{−Ω(k(1−p)²)} and hides the constant; docs/proofs/crowd-blending.md follows its proof
    with n, the number of records that blend with the one in question, kept exact.

    Args:
        k: size of the crowd, at least 2.
        sampling_rate: p, 0 < p < 1.

    Raises:
        InputRefused: a value out of range, or one that needs too long a search.
    """
    from scipy.special import betainc  # SciPy loads slowly, and most prices do without it

    if k < 2:
        raise InputRefused(f"a crowd has at least 2 records, not {k}.")
    if not 0 < sampling_rate < 1:
        raise InputRefused(f"the sampling rate must lie strictly between 0 and 1, not {sampling_rate}.")
    p = float_up(sampling_rate)
    if p > 1.0 - 1e-6:
        raise InputRefused(f"a sampling rate of {sampling_rate} leaves no crowd outside the sample.")
    share = p * (2.0 - p)
    divergence = share * math.log(share / p) + (1.0 - share) * (2.0 * math.log1p(-p) - math.log1p(-p))
    best = 0.0
    first = k - 1
    while first < _MOST_THRESHOLDS:
        thresholds = np.arange(first, first + _BATCH, dtype=np.float64)
        # The last n whose ⌊(n+1)p(2−p)⌋ is at most the threshold; near a tie the larger one, which is outward.
        last_n = np.maximum(np.ceil((thresholds + 1.0) / share * (1.0 + 1e-12)) - 2.0, thresholds)
        tails = p * betainc(thresholds, last_n - thresholds + 1.0, p)
        best = max(best, float(tails.max()))
        chernoff = math.exp(-(float(last_n[-1]) + 1.0) * divergence * (1.0 - 1e-9))
        if chernoff <= best or chernoff < 1e-300:
            return decimal_up(max(best * (1.0 + _TAIL_SLACK), 5e-324))
        first += _BATCH
    raise InputRefused(f"the search for delta with k = {k} at sampling rate {sampling_rate} is too long.")


def crowd_blending_statement(*, k: int, epsilon: Decimal, sampling_rate: Decimal | None) -> str:
    """The crowd-blending guarantee of counts, and with a sample the zero-knowledge one. CBP, Definition 3, Theorem 1.

    Args:
        k: the counts from which on all are published as they are.
        epsilon: ε of the noise of smaller ones; 0 where they are left out.
        sampling_rate: rate of the fresh sample that is counted; None where all records are.
    """
    if epsilon == 0:
        outside = "or the release is exactly as if they were not in the data"
    else:
        outside = f"or the release is almost as if they were not in the data (a factor of at most e^{epsilon})"
    statement = (
        f"({k}, {epsilon})-crowd-blending: each person either cannot be told apart from at least {k - 1} "
        f"others in the data, {outside}."
    )
    if sampling_rate is None:
        return (
            f"{statement} This alone is not differential privacy: the count of a group of {k} or more is published "
            "exactly."
        )
    if k < 2:  # a hypothesis of the theorem
        return statement
    epsilon_zk = epsilon_zero_knowledge(epsilon, sampling_rate=sampling_rate)
    delta_zk = delta_zero_knowledge(k=k, sampling_rate=sampling_rate)
    return (
        f"{statement} On a fresh sample at rate {sampling_rate} it is ({epsilon_zk}, {delta_zk})-zero-knowledge "
        f"private: what it tells about a person could almost be told from a {sampling_rate} sample of everybody else "
        f"(aggregates iRS({sampling_rate}))."
    )
