"""What a release of microdata costs whose map is chosen privately, for that release alone."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from functools import lru_cache

import numpy as np

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.microdata import EpsilonSafeRelease, ExponentialSafeRelease, StronglySafeRelease, Suppression
from ...mechanisms.map_selection.choice import QUALITY, group_threshold
from ..kernel.prices.arithmetic import add_up, bisected, decimal_up, float_down, float_up, log_down, multiply_up
from ..kernel.prices.mechanism_kind import (
    RELATION,
    MechanismKind,
    Price,
    RecordForm,
    Selection,
    check_request,
    covered_by_fewer,
)
from .composition.amplification import Guarantee
from .composition.bounded_range import BoundedRange
from .composition.composed import COMPOSED_FLOOR, Part, epsilon_composed, filter_parts_of_one
from .composition.group_privacy import even_group_price
from .composition.paper_bound import paper_price_selected
from .composition.private_choice import log_profile_selected, range_of_draw, selection_cost
from .composition.series_game import epsilon_of_drawn_game
from .microdata_prices import composed_price_fixed


def price_selected(
    mechanism: StronglySafeRelease,
    *,
    selection_epsilon: Decimal,
    selection_rate: Decimal | None,
    delta: Decimal,
    releases: int = 1,
    draws: int | None = None,
    games: bool = True,
) -> Price:
    """Return what is charged for `releases` rounds of choosing a map and releasing with it on a fresh sample.

    One round costs its exact mixture of profiles ("exact-profile-selection/1"), several their composed losses
    ("pld-selection/1"), or the sum ε₁·T + the release's price where that is smaller ("basic-selection/1"). Where the
    map is drawn by exponential mechanisms, it costs the least of these and what an adversary reaches who picks each
    draw's and each release's worst pair by the outputs before it ("bounded-range-game/1"), or the composed losses of
    draws of bounded range and releases ("bounded-range-pld/1"; docs/proofs/bounded-range.md).

    Args:
        mechanism: the release.
        selection_epsilon: ε₁ of one choice.
        selection_rate: rate of the choice's own fresh sample; None where it is made on the whole data.
        delta: δ over everything together.
        releases: rounds, at least 1.
        draws: how many draws of the exponential mechanism share ε₁ evenly in a round; None for any ε₁-private choice.
        games: whether the game is played; without it the price is higher, and there sooner.

    Raises:
        InputRefused: as `price_fixed` and `selection_cost`; several draws from one fresh sample.
    """
    check_request(delta, releases)
    if draws is not None and (draws < 1 or (draws > 1 and selection_rate is not None)):
        raise InputRefused("a map is drawn at least once, and once alone from a fresh sample.")
    # Each of the prices below is proved by itself, so the least of them may be charged.
    cost = selection_cost(selection_epsilon, selection_rate=selection_rate)
    rest = composed_price_fixed(mechanism, delta=delta, releases=releases)
    best = decimal_up(add_up(rest.epsilon, multiply_up(cost.epsilon, releases)))
    rule = "basic-selection/1"
    try:
        if releases == 1:
            together = _epsilon_of_one(mechanism, float_up(cost.epsilon), log_down(delta), float_up(best))
        elif delta >= COMPOSED_FLOOR:
            parts: dict[Part, int] = {mechanism: releases, cost: releases}
            together = epsilon_composed(parts, delta=float_down(delta))
        else:
            together = None
    except ValueError:  # no grid holds these losses; the sum is a price all the same
        together = None
    if together is not None and decimal_up(together) <= best:
        best = decimal_up(together)
        rule = "exact-profile-selection/1" if releases == 1 else "pld-selection/1"
    if draws is not None and delta >= COMPOSED_FLOOR:
        draw = range_of_draw(cost.epsilon, draws=draws)
        for by_range, epsilon in _epsilons_of_drawn(mechanism, draw, draws, delta, releases, games).items():
            if epsilon < best:
                best, rule = epsilon, by_range
    return Price(epsilon=best, delta=delta, relation=RELATION, rule=rule, releases=releases)


@lru_cache(maxsize=1024)
def _epsilons_of_drawn(
    mechanism: StronglySafeRelease, draw: BoundedRange, draws: int, delta: Decimal, releases: int, games: bool
) -> dict[str, Decimal]:
    """Return what draws of bounded range and releases cost, by rule; without what no grid can hold."""
    parts: dict[Part, int] = {mechanism: releases, draw: releases * draws}
    costs: dict[str, Decimal] = {}
    with suppress(ValueError):
        composed = epsilon_composed(parts, delta=float_down(delta))
        if composed:
            costs["bounded-range-pld/1"] = decimal_up(composed)
            played = None
            if games:
                played = epsilon_of_drawn_game(
                    mechanism, draw, draws=draws, releases=releases, delta=float_down(delta), composed=composed
                )
            if played is not None:
                costs["bounded-range-game/1"] = decimal_up(played)
    return costs


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

    return bisected(holds, 0.0, high, width=1e-13, most_steps=200) if holds(high) else None


def _price(mechanism: EpsilonSafeRelease, delta: Decimal, releases: int) -> Price:
    return price_selected(
        mechanism.release,
        selection_epsilon=mechanism.selection_epsilon,
        selection_rate=mechanism.selection_rate,
        delta=delta,
        releases=releases,
        draws=draws_of(mechanism),
    )


def _paper_price(mechanism: EpsilonSafeRelease, delta: Decimal, releases: int) -> Price | None:
    return paper_price_selected(
        mechanism.release,
        selection_epsilon=mechanism.selection_epsilon,
        selection_rate=mechanism.selection_rate,
        delta=delta,
        releases=releases,
    )


def selected_cost(mechanism: EpsilonSafeRelease) -> Guarantee:
    """Return what the choice of a release's map costs."""
    return selection_cost(mechanism.selection_epsilon, selection_rate=mechanism.selection_rate)


def draws_of(mechanism: EpsilonSafeRelease) -> int | None:
    """Return how many exponential mechanisms share ε₁; None for any ε₁-private draw."""
    return mechanism.selection_draws if isinstance(mechanism, ExponentialSafeRelease) else None


def selected_losses(mechanism: EpsilonSafeRelease) -> tuple[Part, ...]:
    """Return what a release is in a composition: itself, and the draws of its map."""
    cost, draws = selected_cost(mechanism), draws_of(mechanism)
    if draws is None:
        return (mechanism.release, cost)
    return (mechanism.release, *(range_of_draw(cost.epsilon, draws=draws),) * draws)


EPSILON_SAFE: MechanismKind[EpsilonSafeRelease] = MechanismKind(
    records={
        "epsilon-safe-release/1": RecordForm(mechanism=EpsilonSafeRelease),
        "epsilon-safe-release/2": RecordForm(mechanism=ExponentialSafeRelease),
    },
    protections=(Suppression,),
    pure=False,
    series=True,
    price=even_group_price(_price),
    paper_price=_paper_price,
    filter_parts=filter_parts_of_one(selected_losses),
    selection=lambda chosen: Selection(
        chosen.selection_epsilon,
        chosen.selection_rate,
        group_threshold(chosen.k, chosen.sampling_rate, chosen.selection_rate),
        QUALITY,
        draws_of(chosen),
    ),
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    survey_rate=None,
    exclusive=False,
    not_covered=covered_by_fewer,
)
