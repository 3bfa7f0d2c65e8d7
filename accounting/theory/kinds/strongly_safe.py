"""Strongly-safe releases: microdata with a map that was fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.amounts import amount_exact, amount_of_log10
from ....mechanisms.errors import InputRefused
from ....mechanisms.microdata import StronglySafeRelease
from ..arithmetic import decimal_up, divide_down, float_down, float_up, log_down, multiply_up
from ..composition.group_privacy import best_split, even_group_price, no_price_for_group, rule_for_group
from ..composition.loss_distribution import COMPOSED_FLOOR, epsilon_composed
from ..composition.series_game import epsilon_of_game
from ..privacy_profile import (
    delta_paper,
    epsilon_of_log_delta,
    epsilon_paper,
    farthest_epsilon,
    least_epsilon_of_paper,
    log_profile,
)
from .kind import (
    CHOSEN,
    RELATION,
    Curves,
    MechanismKind,
    Price,
    PrivacyCurve,
    Published,
    RecordForm,
    Statements,
    Tunable,
    check_request,
    filter_parts_of_one,
)

__all__ = [
    "DONE",
    "EXACT_PROFILE",
    "KIND",
    "RECORDS",
    "SERIES",
    "composed_price_fixed",
    "group_price_fixed",
    "no_finite_price",
    "paper_price_fixed",
    "price_fixed",
    "release_curve",
]

DONE = (
    "The records were sampled with fresh independent coins, recoded with {map}, and groups of fewer than k sampled "
    "records were left out."
)
SERIES = (
    "Each release sampled the records with fresh independent coins, recoded them with {map}, and left groups of fewer "
    "than k sampled records out."
)
EXACT_PROFILE = "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs"
RECORDS = Published("group", "groups", "record")
_FIXED_MAP = "a map that was fixed before they were read"


def price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price:
    """What is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    One release costs its exact profile ("exact-profile/1", docs/proofs/exact-profile.md). Several cost what an
    adversary can reach who picks each release's groups by the outputs before it ("series-game/1"), or, where that is
    smaller or the game too long, their composed privacy losses ("pld/1"), or the sum of the exact profiles at δ/T where
    that is smaller or δ is below the floor of composed prices ("basic-exact/1"; docs/proofs/composition.md).

    Args:
        mechanism: the release; its rate is rounded up to a double, since δ grows with the rate.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.

    Raises:
        InputRefused: δ or T is out of range, no finite ε has this δ, or the parameters are beyond double precision.
    """
    return _priced(mechanism, delta, releases, games=True)


def composed_price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price:
    """As `price_fixed`, without a game: what earlier versions charged for a series."""
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


def paper_price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price | None:
    """The price by the paper alone: δ split evenly over the releases, ε added up; None where it has none.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9.

    Raises:
        InputRefused: δ or the number of releases is out of range.
    """
    check_request(delta, releases)
    share = float_down(divide_down(delta, releases))
    rate = float_up(mechanism.sampling_rate)
    if share <= 0.0 or rate >= 1.0:
        return None
    found = epsilon_paper(k=mechanism.k, sampling_rate=rate, delta=share)
    if found is None:
        return None
    return Price(
        epsilon=decimal_up(multiply_up(decimal_up(found), releases)),
        delta=delta,
        relation=RELATION,
        rule="lqs-theorem-3.9/1",
        releases=releases,
    )


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
    """The game's ε where it is below the composed one, which was found before; None elsewhere."""
    try:
        found = epsilon_of_game(mechanism, releases=releases, delta=float_down(delta), composed=composed)
    except ValueError:
        return None  # what a game's grid can't hold has a composed price all the same
    return found if found is not None and found < composed else None


def no_finite_price(mechanism: StronglySafeRelease, delta: Decimal) -> InputRefused:
    """The refusal of a δ that no ε is enough for."""
    floor = amount_of_log10(mechanism.k * float(mechanism.sampling_rate.log10()))
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with k = {mechanism.k} at sampling "
        f"rate {mechanism.sampling_rate}: "
        f"delta must be above rate^k, about {floor} (for each release).",
        remedy="Raise k or delta, or lower the rate.",
    )


def release_curve(
    mechanism: StronglySafeRelease,
    *,
    log_delta: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    choice: float = 0.0,
) -> PrivacyCurve:
    """The curve of a release, of whose ε the choice of its map may have taken a part.

    The paper's δ is that of LQS, arXiv:1101.2604v2, Theorem 3.9; after a choice of the map that of what Theorem 3.11
    leaves for the release.

    Args:
        mechanism: the release.
        log_delta: ε of shape (n,) → ln δ by its exact profile, the choice included.
        choice: ε of the choice of the map; 0 where it is fixed.
    """
    k, rate = mechanism.k, float_up(mechanism.sampling_rate)
    least = least_epsilon_of_paper(rate)

    def by_the_paper(epsilon: float) -> float | None:
        left = math.nextafter(epsilon - choice, -math.inf) if choice else epsilon
        return delta_paper(k=k, sampling_rate=rate, epsilon=left) if left >= least else None

    farthest = choice + 2.0 * max(math.log(k) + math.log1p(-rate), least, 0.05)
    return PrivacyCurve(log_delta=log_delta, delta_paper=by_the_paper, farthest=farthest)


def _price(mechanism: StronglySafeRelease, delta: Decimal, releases: int) -> Price:
    return price_fixed(mechanism, delta=delta, releases=releases)


def group_price_fixed(mechanism: StronglySafeRelease, delta: Decimal, releases: int, records: int) -> Price:
    """The price for M records of a person: for one release by the best split of ε over them.

    Args:
        mechanism: the release.
        delta: δ over all releases together.
        releases: T ≥ 1.
        records: M > 1.

    Raises:
        InputRefused: as `price_fixed`.
    """
    if releases != 1:
        return even_group_price(_price)(mechanism, delta, releases, records)
    check_request(delta, releases)
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


def _composed_price(mechanism: StronglySafeRelease, delta: Decimal, releases: int) -> Price:
    return composed_price_fixed(mechanism, delta=delta, releases=releases)


def _earlier_price(mechanism: StronglySafeRelease, delta: Decimal, releases: int, records: int) -> Price:
    """What earlier versions charged for a series."""
    if records == 1:
        return _composed_price(mechanism, delta, releases)
    return even_group_price(_composed_price)(mechanism, delta, releases, records)


def _curve(mechanism: StronglySafeRelease) -> PrivacyCurve:
    rate = float_up(mechanism.sampling_rate)
    return release_curve(
        mechanism, log_delta=lambda epsilons: log_profile(k=mechanism.k, sampling_rate=rate, epsilons=epsilons)
    )


KIND: MechanismKind[StronglySafeRelease] = MechanismKind(
    records={"strongly-safe-release/1": RecordForm(mechanism=StronglySafeRelease)},
    pure=False,
    price=_price,
    group_price=group_price_fixed,
    paper_price=lambda mechanism, delta, releases: paper_price_fixed(mechanism, delta=delta, releases=releases),
    losses=lambda mechanism: (mechanism,),
    filter_parts=filter_parts_of_one(lambda mechanism: (mechanism,)),
    curves=Curves(theorem="Theorem 3.9", of=_curve),
    tunable=lambda mechanism: Tunable(mechanism, None, None),
    selection=None,
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={"pld/1": _earlier_price, "basic-exact/1": _earlier_price},
    theorems={
        "lqs-theorem-3.9/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.9",
        "exact-profile/1": EXACT_PROFILE,
        "basic-exact/1": f"{EXACT_PROFILE}, the releases' costs added up",
        "pld/1": f"{EXACT_PROFILE}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        "series-game/1": f"{EXACT_PROFILE}; of a series in docs/proofs/composition.md, The game",
    },
    statements=Statements(
        done=lambda _: DONE.format(map=_FIXED_MAP),
        proved=lambda *_: "",
        chosen=CHOSEN,
        series=SERIES.format(map=_FIXED_MAP),
        published=RECORDS,
    ),
)
