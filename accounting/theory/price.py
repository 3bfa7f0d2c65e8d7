"""What is charged for a strongly-safe release, and how the ledger writes the mechanism down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np

from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .composition import COMPOSED_FLOOR, epsilon_composed
from .exact_decimals import divide_down, multiply_up
from .group_privacy import best_split, check_records, even_split, no_price_for_group, rule_for_group
from .paper_bound import epsilon_paper
from .profile import epsilon_of_log_delta, farthest_epsilon, log_profile
from .rounding import decimal_up, float_down, float_up, log_down

__all__ = ["RELATION", "Price", "check_request", "mechanism_of_record", "mechanism_record", "paper_price", "price"]

RELATION = "add/remove"

_KIND = "strongly-safe-release/1"
_RATE_TEXT = re.compile(r"[0-9]+(\.[0-9]+)?(E-?[0-9]+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """An (ε, δ) cost, rounded up, with the rule that gave it.

    Args:
        epsilon: ε of at least 0, at most 12 significant digits.
        delta: δ, the total over all releases.
        relation: the neighbour relation, "add/remove": data sets that differ by one person's presence.
        rule: the versioned rule that was applied, for example "exact-profile/1".
        releases: how many releases of the mechanism the price covers, at least 1.
        rows_per_person: the most records of one person in a delivery that it covers, at least 1.

    Raises:
        ValueError: a field outside its range.
    """

    epsilon: Decimal
    delta: Decimal
    relation: str
    rule: str
    releases: int
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        """Refuse what is not a price."""
        if not (self.epsilon.is_finite() and self.epsilon >= 0):
            raise ValueError(f"epsilon must be finite and at least 0, not {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, not {self.delta}")
        if self.releases < 1:
            raise ValueError(f"releases must be at least 1, not {self.releases}")
        if self.rows_per_person < 1:
            raise ValueError(f"a person has at least one record, not {self.rows_per_person}")


def price(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price:
    """What is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    One release costs its exact profile ("exact-profile/1", docs/proofs/exact-profile.md). Several cost their
    composed privacy losses ("pld/1", docs/proofs/composition.md), or the sum of the exact profiles at δ/T where
    that is smaller or δ is below the floor of composed prices ("basic-exact/1"). Where a person has several
    records, the same prices for one record are carried over by group privacy (docs/proofs/group-privacy.md).

    Args:
        mechanism: the release; its rate is rounded up to a double, since δ grows with the rate.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: δ, T or M is out of range, no finite ε has this δ, or the parameters are beyond double precision.
    """
    if rows_per_person != 1:
        return _price_for_group(mechanism, delta=delta, releases=releases, records=rows_per_person)
    check_request(delta, releases)
    found: float | Decimal | None
    if releases == 1:
        found, rule = _epsilon(mechanism, log_delta=log_down(delta)), "exact-profile/1"
    else:
        found, rule = _epsilon_of_series(mechanism, delta, releases)
    if found is None:
        raise _no_finite_price(mechanism, delta)
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule=rule, releases=releases)


def _price_for_group(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int, records: int) -> Price:
    """The price where a person has up to M records, from the prices for one record."""
    check_request(delta, releases)
    check_records(records)
    if releases == 1:
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
        epsilon, rule = decimal_up(found), rule_for_group("exact-profile/1", even=False)
    else:
        one, total = even_split(
            lambda share: price(mechanism, delta=share, releases=releases),
            lambda cost: cost.epsilon,
            delta=delta,
            records=records,
        )
        epsilon, rule = decimal_up(total), rule_for_group(one.rule, even=True)
    return Price(epsilon=epsilon, delta=delta, relation=RELATION, rule=rule, releases=releases, rows_per_person=records)


def paper_price(
    mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1
) -> Price | None:
    """The price by the paper alone: δ split evenly over the releases, ε added up; None where it has none.

    The paper's is a bound for one record, so there is none where a person has several.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9.

    Raises:
        InputRefused: δ, the number of releases or of records is out of range.
    """
    check_request(delta, releases)
    check_records(rows_per_person)
    if rows_per_person != 1:
        return None
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


def mechanism_record(mechanism: StronglySafeRelease) -> dict[str, str | int]:
    """The mechanism as the ledger stores it: kind with version, k, and the rate as exact decimal text."""
    return {"kind": _KIND, "k": mechanism.k, "sampling_rate": str(mechanism.sampling_rate)}


def mechanism_of_record(record: Mapping[str, object]) -> StronglySafeRelease:
    """The mechanism that a stored record describes.

    Raises:
        InputRefused: an unknown kind, a missing or unknown field, or a value of the wrong form.
    """
    if record.get("kind") != _KIND:
        raise InputRefused(f"unknown kind of mechanism: {record.get('kind')!r}.")
    if set(record) != {"kind", "k", "sampling_rate"}:
        raise InputRefused(f"a {_KIND} record has the fields k and sampling_rate, not {sorted(record)}.")
    k, rate = record["k"], record["sampling_rate"]
    if type(k) is not int or not isinstance(rate, str) or not _RATE_TEXT.fullmatch(rate):
        raise InputRefused(f"a {_KIND} record needs a whole number k and a decimal text sampling_rate.")
    try:
        return StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
    except (ValueError, InvalidOperation) as fault:
        raise InputRefused(f"a {_KIND} record is out of range: {fault}.") from fault


def check_request(delta: Decimal, releases: int) -> None:
    """Whether δ and a number of releases can be priced at all.

    Raises:
        InputRefused: δ is outside (0, 1), or there is less than one release.
    """
    if not (delta.is_finite() and 0 < delta < 1):
        raise InputRefused(f"delta must lie strictly between 0 and 1, not {delta}.")
    if releases < 1:
        raise InputRefused(f"the number of releases must be at least 1, not {releases}.")


def _epsilon(mechanism: StronglySafeRelease, *, log_delta: float) -> float | None:
    try:
        return epsilon_of_log_delta(k=mechanism.k, sampling_rate=float_up(mechanism.sampling_rate), log_delta=log_delta)
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault


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


def _no_finite_price(mechanism: StronglySafeRelease, delta: Decimal) -> InputRefused:
    floor = mechanism.k * float(mechanism.sampling_rate.log10())
    return InputRefused(
        f"no epsilon is enough for delta {delta} with k = {mechanism.k} at sampling rate {mechanism.sampling_rate}: "
        f"delta must be above rate^k, about 1e{floor:.1f} (for each release).",
        remedy="Raise k or delta, or lower the rate.",
    )
