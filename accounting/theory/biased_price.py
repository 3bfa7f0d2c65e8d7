"""The price of suppressed counts of data that are themselves a sample with unequal rates."""

from __future__ import annotations

import math
from decimal import Decimal

from ...mechanisms.amount_format import amount_exact
from ...mechanisms.biased_sampling import BiasedSampleCounts
from ...mechanisms.refusal import InputRefused
from .cost import RELATION, Price, check_request
from .crowd_blending import epsilon_zero_knowledge_robust
from .least_epsilon import least_epsilon
from .robust_sampling import delta_robust
from .rounding import decimal_up, float_down, float_up

__all__ = ["delta_biased", "price_biased_counts", "zero_knowledge_epsilon_biased", "zero_knowledge_holds"]

_LARGEST_EPSILON = 60.0


def delta_biased(event: BiasedSampleCounts, *, epsilon: float, target: float | None = None) -> float:
    """δ at ε of the suppressed counts, with the rates rounded outward; `target` as in `delta_robust`.

    Raises:
        InputRefused: ε below −ln(1 − p_max), or rates too far apart for it.
    """
    return delta_robust(
        k=event.k,
        lowest_rate=float_down(event.lowest_rate),
        highest_rate=float_up(event.highest_rate),
        largest_rate=float_up(event.largest_rate),
        exceptions=event.exceptions,
        epsilon=epsilon,
        target=target,
    )


def zero_knowledge_holds(event: BiasedSampleCounts) -> bool:
    """Whether the hypotheses of CBP, Theorem 2 hold: k ≥ 2 and ℓ < k − 1."""
    return event.k >= 2 and event.exceptions < event.k - 1


def zero_knowledge_epsilon_biased(event: BiasedSampleCounts) -> Decimal:
    """ε of zero-knowledge privacy for the aggregates iRS(p, p′, ℓ). CBP, Theorem 2.

    Its δ falls with k − ℓ and has no stated constant.

    Raises:
        InputRefused: the theorem's hypotheses don't hold.
    """
    if not zero_knowledge_holds(event):
        raise InputRefused(
            "zero-knowledge privacy is proved for k of at least 2 and fewer than k - 1 exceptions, not for "
            f"k = {event.k} and {event.exceptions}."
        )
    return epsilon_zero_knowledge_robust(
        Decimal(0), lowest_rate=event.lowest_rate, highest_rate=event.highest_rate, largest_rate=event.largest_rate
    )


def price_biased_counts(event: BiasedSampleCounts, *, delta: Decimal) -> Price:
    """What the release costs under add/remove ("robust-counts/1"); the data set's own sample is spent by it.

    [Ours] The least ε from −ln(1 − p_max) on with `delta_biased` at most δ (docs/proofs/robust-sampling.md).

    Raises:
        InputRefused: δ out of range, or no ε is enough.
    """
    check_request(delta, 1)
    least = math.nextafter(-math.log1p(-float_up(event.largest_rate)), math.inf) * (1.0 + 1e-15)

    target = float_down(delta)

    def evaluated(epsilon: float) -> float:
        if epsilon < least:
            return math.inf
        try:
            return delta_biased(event, epsilon=epsilon, target=target)
        except InputRefused:
            return math.inf

    found = least if evaluated(least) <= target else least_epsilon(evaluated, target, high=_LARGEST_EPSILON)
    if found is None:
        raise InputRefused(
            f"no epsilon is enough for delta {amount_exact(delta)} with rates from "
            f"{event.lowest_rate} to {event.highest_rate}, and "
            f"up to {event.largest_rate} for {event.exceptions} records.",
            remedy="Raise k, or bound the rates more tightly.",
        )
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule="robust-counts/1", releases=1)
