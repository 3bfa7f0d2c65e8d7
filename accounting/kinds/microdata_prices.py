"""What a release of microdata from a fresh sample costs whose map is fixed."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from functools import lru_cache

import numpy as np

from ...mechanisms.kernel.amounts import amount_exact, amount_of_log10
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.microdata import StronglySafeRelease, Suppression
from ..kernel.prices.arithmetic import (
    decimal_up,
    divide_down,
    float_down,
    float_up,
    log_down,
    multiply_up,
)
from ..kernel.prices.mechanism_kind import (
    RELATION,
    MechanismKind,
    Price,
    RecordForm,
    check_request,
    covered_by_fewer,
)
from ..kernel.prices.privacy_profile import (
    epsilon_of_log_delta,
    farthest_epsilon,
    log_profile,
)
from .composition.composed import COMPOSED_FLOOR, epsilon_composed, filter_parts_of_one
from .composition.group_privacy import PriceOfGroup, best_split, even_group_price, no_price_for_group, rule_for_group
from .composition.paper_bound import paper_price_fixed
from .composition.series_game import epsilon_of_game


def price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price:
    """Return what is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    One release costs its exact profile ("exact-profile/1", docs/proofs/exact-profile.md). Several cost what an
    adversary can reach who picks each release's groups by the outputs before it ("series-game/1"), or, where that is
    smaller or the game too long, their composed privacy losses ("pld/1"), or the sum of the exact profiles at δ/T where
    that is smaller or δ is below the floor of composed prices ("basic-exact/1"; docs/proofs/composition.md). The
    rate is rounded up to a double, since δ grows with it.

    Raises:
        InputRefused: δ or T is out of range, no finite ε has this δ, or the parameters are beyond double precision.
    """
    return _priced(mechanism, delta, releases, games=True)


def composed_price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price:
    """Return `price_fixed` without a game: what earlier versions charged for a series."""
    return _priced(mechanism, delta, releases, games=False)


def _priced(mechanism: StronglySafeRelease, delta: Decimal, releases: int, *, games: bool) -> Price:
    check_request(delta, releases)
    found: float | Decimal | None
    if releases == 1:
        found, rule = _epsilon(mechanism, log_delta=log_down(delta)), "exact-profile/1"
    else:
        found, rule = _epsilon_of_series(mechanism, delta, releases)
        if games and rule == "pld/1" and (game := _epsilon_of_game(mechanism, delta, releases, float(found or 0))):
            found, rule = game, "series-game/1"
    if found is None:
        raise no_finite_price(mechanism, delta)
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule=rule, releases=releases)


@lru_cache(maxsize=1024)  # whoever charges prices again what the specification has priced
def _epsilon(mechanism: StronglySafeRelease, *, log_delta: float) -> float | None:
    try:
        return epsilon_of_log_delta(k=mechanism.k, sampling_rate=float_up(mechanism.sampling_rate), log_delta=log_delta)
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault


@lru_cache(maxsize=1024)
def _epsilon_of_series(
    mechanism: StronglySafeRelease, delta: Decimal, releases: int
) -> tuple[float | Decimal | None, str]:
    share = log_down(divide_down(delta, releases))
    composed: float | None = None
    if delta >= COMPOSED_FLOOR:
        # A curve that can't be put on a grid is no fault of the request: the sum is a price too.
        with suppress(ValueError):
            composed = epsilon_composed({mechanism: releases}, delta=float_down(delta))
    if composed is not None:
        point = np.array([composed / releases], dtype=np.float64)
        rate = float_up(mechanism.sampling_rate)
        if float(log_profile(k=mechanism.k, sampling_rate=rate, epsilons=point)[0]) > share:
            return composed, "pld/1"
    each = _epsilon(mechanism, log_delta=share)
    return None if each is None else multiply_up(decimal_up(each), releases), "basic-exact/1"


@lru_cache(maxsize=1024)
def _epsilon_of_game(mechanism: StronglySafeRelease, delta: Decimal, releases: int, composed: float) -> float | None:
    """Return the game's ε where it is below the composed one, which was found before; None elsewhere."""
    try:
        found = epsilon_of_game(mechanism, releases=releases, delta=float_down(delta), composed=composed)
    except ValueError:
        return None  # what a game's grid can't hold has a composed price all the same
    return found if found is not None and found < composed else None


def no_finite_price(mechanism: StronglySafeRelease, delta: Decimal) -> InputRefused:
    """Return the refusal of a δ that no ε is enough for."""
    floor = amount_of_log10(mechanism.k * float(mechanism.sampling_rate.log10()))
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with k = {mechanism.k} at sampling "
        f"rate {mechanism.sampling_rate}: "
        f"delta must be above rate^k, about {floor} (for each release).",
        remedy="Raise k or delta, or lower the rate.",
    )


def _price(mechanism: StronglySafeRelease, delta: Decimal, releases: int, records: int) -> Price:
    """Return the price: of one release, where a person has M records, by the best split of ε over them."""
    if records > 1 and releases == 1:
        return group_price_fixed(mechanism, delta=delta, records=records)
    of_series: PriceOfGroup[StronglySafeRelease] = even_group_price(
        lambda release, share, times: price_fixed(release, delta=share, releases=times)
    )
    return of_series(mechanism, delta, releases, records)


def group_price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, records: int) -> Price:
    """Return the price of one release where a person has M > 1 records.

    Raises:
        InputRefused: as `price_fixed`.
    """
    check_request(delta)
    k, rate = mechanism.k, float_up(mechanism.sampling_rate)
    try:
        found = best_split(
            lambda epsilons: log_profile(k=k, sampling_rate=rate, epsilons=epsilons),
            delta=delta,
            records=records,
            largest_epsilon=farthest_epsilon(k=k, sampling_rate=rate),
        )
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault
    if found is None:
        raise no_price_for_group(delta, records)
    rule = rule_for_group("exact-profile/1", even=False)
    return Price(
        epsilon=decimal_up(found), delta=delta, relation=RELATION, rule=rule, releases=1, rows_per_person=records
    )


_earlier_price: PriceOfGroup[StronglySafeRelease] = even_group_price(
    lambda mechanism, delta, releases: composed_price_fixed(mechanism, delta=delta, releases=releases)
)
"""What earlier versions charged for a series."""

STRONGLY_SAFE: MechanismKind[StronglySafeRelease] = MechanismKind(
    records={"strongly-safe-release/1": RecordForm(mechanism=StronglySafeRelease)},
    protections=(Suppression,),
    pure=False,
    series=True,
    price=_price,
    paper_price=lambda mechanism, delta, releases: paper_price_fixed(mechanism, delta=delta, releases=releases),
    filter_parts=filter_parts_of_one(lambda mechanism: (mechanism,)),
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    survey_rate=None,
    exclusive=False,
    earlier={"pld/1": _earlier_price, "basic-exact/1": _earlier_price},
    not_covered=covered_by_fewer,
)
