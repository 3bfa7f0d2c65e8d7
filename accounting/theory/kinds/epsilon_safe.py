"""ε-safe releases: microdata whose map is chosen privately, and then released with."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.errors import InputRefused
from ....mechanisms.map_selection.lattice import QUALITY, group_threshold
from ....mechanisms.microdata import EpsilonSafeRelease, StronglySafeRelease
from ..arithmetic import add_up, decimal_up, float_down, float_up, log_down, multiply_up
from ..composition.amplification import Guarantee, amplified
from ..composition.group_privacy import even_group_price
from ..composition.loss_distribution import COMPOSED_FLOOR, Part, epsilon_composed
from ..privacy_profile import check_parameters, log_adding, log_removing
from .kind import (
    RELATION,
    Curves,
    MechanismKind,
    Price,
    PrivacyCurve,
    RecordForm,
    Selection,
    Statements,
    Tunable,
    check_request,
    filter_parts_of_one,
)
from .strongly_safe import DONE, RECORDS, SERIES, composed_price_fixed, paper_price_fixed, release_curve

__all__ = ["KIND", "log_profile_selected", "paper_price_selected", "price_selected", "selection_cost"]

_BISECTIONS = 200
_LOG_SLACK = 1e-13
_DRAWN_MAP = (
    "a map that was drawn privately, before they were sampled, from candidates declared before any record was read; "
    "what the draw costs is part of epsilon and delta"
)
_THEOREM = "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11"
_EXACT = f"{_THEOREM}; exact form proved in docs/proofs/selection.md"


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
    rest = composed_price_fixed(mechanism, delta=delta, releases=releases)
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


def _price(mechanism: EpsilonSafeRelease, delta: Decimal, releases: int) -> Price:
    return price_selected(
        mechanism.release,
        selection_epsilon=mechanism.selection_epsilon,
        selection_rate=mechanism.selection_rate,
        delta=delta,
        releases=releases,
    )


def _paper_price(mechanism: EpsilonSafeRelease, delta: Decimal, releases: int) -> Price | None:
    return paper_price_selected(
        mechanism.release,
        selection_epsilon=mechanism.selection_epsilon,
        selection_rate=mechanism.selection_rate,
        delta=delta,
        releases=releases,
    )


def _cost(mechanism: EpsilonSafeRelease) -> Guarantee:
    return selection_cost(mechanism.selection_epsilon, selection_rate=mechanism.selection_rate)


def _losses(mechanism: EpsilonSafeRelease) -> tuple[Part, ...]:
    return (mechanism.release, _cost(mechanism))


def _curve(mechanism: EpsilonSafeRelease) -> PrivacyCurve:
    rate, choice = float_up(mechanism.sampling_rate), float_up(_cost(mechanism).epsilon)

    def log_delta(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return log_profile_selected(k=mechanism.k, sampling_rate=rate, selection_epsilon=choice, epsilons=epsilons)

    return release_curve(mechanism.release, log_delta=log_delta, choice=choice)


KIND: MechanismKind[EpsilonSafeRelease] = MechanismKind(
    records={"epsilon-safe-release/1": RecordForm(mechanism=EpsilonSafeRelease)},
    pure=False,
    price=_price,
    group_price=even_group_price(_price),
    paper_price=_paper_price,
    losses=_losses,
    filter_parts=filter_parts_of_one(_losses),
    curves=Curves(theorem="Theorem 3.11", of=_curve),
    tunable=lambda chosen: Tunable(chosen.release, chosen.selection_epsilon, chosen.selection_rate),
    selection=lambda chosen: Selection(
        chosen.selection_epsilon,
        chosen.selection_rate,
        group_threshold(chosen.k, chosen.sampling_rate, chosen.selection_rate),
        QUALITY,
    ),
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda mechanism: 1 if mechanism.selection_rate is None else 2,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        "exact-profile-selection/1": _EXACT,
        "pld-selection/1": f"{_EXACT}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        "basic-selection/1": f"{_THEOREM}: the draw's cost and that of the releases, added up",
    },
    statements=Statements(
        done=lambda _: DONE.format(map=_DRAWN_MAP),
        proved=lambda *_: "",
        chosen="a choice of candidates, weights, k or rate",
        series=SERIES.format(map=_DRAWN_MAP),
        published=RECORDS,
    ),
)
