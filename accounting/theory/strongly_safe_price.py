"""What is charged for strongly-safe releases, whose map is fixed beforehand."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from functools import lru_cache

import numpy as np

from ...mechanisms.amount_format import amount_exact, amount_of_log10
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .composition import COMPOSED_FLOOR, epsilon_composed
from .cost import RELATION, Price, check_request
from .exact_decimals import divide_down, multiply_up
from .paper_bound import epsilon_paper
from .profile import epsilon_of_log_delta, log_profile
from .rounding import decimal_up, float_down, float_up, log_down

__all__ = ["no_finite_price", "paper_price_fixed", "price_fixed"]


def price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price:
    """What is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    One release costs its exact profile ("exact-profile/1", docs/proofs/exact-profile.md). Several cost their
    composed privacy losses ("pld/1", docs/proofs/composition.md), or the sum of the exact profiles at δ/T where
    that is smaller or δ is below the floor of composed prices ("basic-exact/1").

    Args:
        mechanism: the release; its rate is rounded up to a double, since δ grows with the rate.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.

    Raises:
        InputRefused: δ or T is out of range, no finite ε has this δ, or the parameters are beyond double precision.
    """
    check_request(delta, releases)
    found: float | Decimal | None
    if releases == 1:
        found, rule = _epsilon(mechanism, log_delta=log_down(delta)), "exact-profile/1"
    else:
        found, rule = _epsilon_of_series(mechanism, delta, releases)
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


def no_finite_price(mechanism: StronglySafeRelease, delta: Decimal) -> InputRefused:
    """The refusal of a δ that no ε is enough for."""
    floor = amount_of_log10(mechanism.k * float(mechanism.sampling_rate.log10()))
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with k = {mechanism.k} at sampling "
        f"rate {mechanism.sampling_rate}: "
        f"delta must be above rate^k, about {floor} (for each release).",
        remedy="Raise k or delta, or lower the rate.",
    )
