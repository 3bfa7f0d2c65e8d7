"""The price of choosing the map privately and then releasing with it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.event import Mechanism
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.points import SyntheticPoints
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .amplification import amplified
from .answer_price import price_answer
from .composition import COMPOSED_FLOOR, epsilon_composed
from .cost import RELATION, Price, check_request
from .exact_decimals import add_up, multiply_up
from .guarantee import Guarantee
from .hockey_stick import log_adding, log_removing
from .local_reports import price_of_report
from .loss_curves import Part
from .profile import check_parameters
from .rounding import decimal_up, float_down, float_up, log_down
from .strongly_safe_price import paper_price_fixed, price_fixed

__all__ = ["log_profile_selected", "paper_price_selected", "parts_of_mechanism", "price_selected", "selection_cost"]

_BISECTIONS = 200
_LOG_SLACK = 1e-13


def selection_cost(selection_epsilon: Decimal, *, selection_rate: Decimal | None) -> Guarantee:
    """What the choice of one map costs: ε₁ on the whole data, ln(1 + β_s(e^{ε₁} − 1)) on a fresh sample at rate β_s.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.11 and Theorem 1. The caller promises that the choice is
    ε₁-private under add/remove, and that it is made on the whole data with coins of its own, or on a sample that
    serves nothing else; never on the release's own sample (docs/proofs/selection.md).

    Raises:
        InputRefused: ε₁ is not positive, or the rate is out of range.
    """
    if not (selection_epsilon.is_finite() and selection_epsilon > 0):
        raise InputRefused(f"the selection's epsilon must be positive, not {selection_epsilon}.")
    whole = Guarantee(epsilon=selection_epsilon, delta=Decimal(0))
    if selection_rate is None:
        return whole
    return amplified(whole, from_rate=Decimal(1), to_rate=selection_rate)


def parts_of_mechanism(mechanism: Mechanism) -> tuple[Part, ...]:
    """What one run of a mechanism is composed of: its release, and the choice of its map where there is one.

    Raises:
        InputRefused: a mechanism for which no losses are composed here.
    """
    match mechanism:
        case StronglySafeRelease():
            return (mechanism,)
        case EpsilonSafeRelease(selection_epsilon=epsilon, selection_rate=rate):
            return (mechanism.release, selection_cost(epsilon, selection_rate=rate))
        case SuppressedHistogram(k=k, sampling_rate=Decimal() as sampled):
            return (StronglySafeRelease(k=k, sampling_rate=sampled),)
        case SyntheticPoints(counts=StronglySafeRelease() as counts):
            return (counts,)
        case CountAnswer() | SumAnswer() | MeanAnswer():
            return (Guarantee(epsilon=price_answer(mechanism).epsilon, delta=Decimal(0)),)
        case CountMeanSketch() | KRandomization():
            return (Guarantee(epsilon=price_of_report(mechanism).epsilon, delta=Decimal(0)),)
        case OutcomeCounts():
            raise InputRefused("the price of outcome counts stands alone and is not composed.")
        case SuppressedHistogram() | NoisyHistogram() | OutlierPrivateHistogram() | SyntheticPoints():
            raise InputRefused("this mechanism's losses are not composed.")
        case BiasedSampleCounts() | UnequalRatesHistogram():
            raise InputRefused("this mechanism's losses are not composed.")
        case _:
            assert_never(mechanism)


def log_profile_selected(
    *, k: int, sampling_rate: float, selection_epsilon: float, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Upper bounds on ln δ(ε) of an ε₁-private choice followed by the release, for ε ≥ 0, both directions.

    With p = e^{ε₁}/(1 + e^{ε₁}) and δ± the release's profile in one direction, δ(ε) = p·δ±(ε − ε₁) + (1−p)·δ±(ε + ε₁)
    (docs/proofs/selection.md). The shape is that of the ε.

    Raises:
        ValueError: parameters out of range.
    """
    check_parameters(k, sampling_rate)
    likely = -math.log1p(math.exp(-selection_epsilon))
    # Both curves fall, so that arguments rounded down are outward.
    low = np.nextafter(epsilons - selection_epsilon, -np.inf)
    high = np.nextafter(epsilons + selection_epsilon, 0.0)
    curves = []
    for ahead, behind in ((log_adding, log_removing), (log_removing, log_adding)):
        forward = ahead(k=k, sampling_rate=sampling_rate, epsilons=np.abs(low))
        backward = behind(k=k, sampling_rate=sampling_rate, epsilons=np.abs(low))
        negative = np.minimum(low, 0.0)
        with np.errstate(divide="ignore"):
            mirrored = np.logaddexp(np.log(-np.expm1(negative)), negative + backward)
        near = np.where(low >= 0.0, forward, mirrored) + likely
        far = ahead(k=k, sampling_rate=sampling_rate, epsilons=high) + likely - selection_epsilon
        curves.append(np.logaddexp(near, far))
    # The logarithms of the two weights and of the sums err by a few units in the last place.
    return np.minimum(np.maximum(curves[0], curves[1]) + _LOG_SLACK * (1.0 + selection_epsilon), 0.0)


def price_selected(
    mechanism: StronglySafeRelease,
    *,
    selection_epsilon: Decimal,
    selection_rate: Decimal | None,
    delta: Decimal,
    releases: int = 1,
) -> Price:
    """What is charged for `releases` rounds of choosing a map and releasing with it on a fresh sample.

    One round costs its exact mixture of profiles ("exact-profile-selection/1"), several their composed losses
    ("pld-selection/1"), or the sum ε₁·T + the release's price where that is smaller ("basic-selection/1").

    Args:
        mechanism: the release.
        selection_epsilon: ε₁ of one choice.
        selection_rate: rate of the choice's own fresh sample; None where it is made on the whole data.
        delta: δ over everything together.
        releases: rounds, at least 1.

    Raises:
        InputRefused: as `price_fixed` and `selection_cost`.
    """
    check_request(delta, releases)
    cost = selection_cost(selection_epsilon, selection_rate=selection_rate)
    rest = price_fixed(mechanism, delta=delta, releases=releases)
    best = decimal_up(add_up(rest.epsilon, multiply_up(cost.epsilon, releases)))
    rule = "basic-selection/1"
    try:
        if releases == 1:
            found = _epsilon_of_one(mechanism, float_up(cost.epsilon), log_down(delta), float_up(best))
        elif delta >= COMPOSED_FLOOR:
            parts: dict[Part, int] = {mechanism: releases, cost: releases}
            found = epsilon_composed(parts, delta=float_down(delta))
        else:
            found = None
    except ValueError:
        found = None
    if found is not None and decimal_up(found) <= best:
        best = decimal_up(found)
        rule = "exact-profile-selection/1" if releases == 1 else "pld-selection/1"
    return Price(epsilon=best, delta=delta, relation=RELATION, rule=rule, releases=releases)


def _epsilon_of_one(
    mechanism: StronglySafeRelease, selection_epsilon: float, log_delta: float, high: float
) -> float | None:
    rate = float_up(mechanism.sampling_rate)

    def holds(epsilon: float) -> bool:
        value = log_profile_selected(
            k=mechanism.k,
            sampling_rate=rate,
            selection_epsilon=selection_epsilon,
            epsilons=np.array([epsilon], dtype=np.float64),
        )
        return bool(value[0] <= log_delta)

    if not holds(high):
        return None
    low = 0.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if high - low <= 1e-13 * high or not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def paper_price_selected(
    mechanism: StronglySafeRelease,
    *,
    selection_epsilon: Decimal,
    selection_rate: Decimal | None,
    delta: Decimal,
    releases: int = 1,
) -> Price | None:
    """The paper's price of the same: ε₁ + the release's ε by the bound d, added up; None where it has none.

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
