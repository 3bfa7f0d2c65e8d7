"""What is charged for each mechanism, and how the ledger writes the mechanism down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import assert_never

from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.event import Mechanism
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .cost import RELATION, Price, check_request
from .group_privacy import best_split, check_records, even_split, no_price_for_group, rule_for_group
from .profile import farthest_epsilon, log_profile
from .rounding import decimal_up, float_up
from .selection import paper_price_selected, price_selected
from .strongly_safe_price import paper_price_fixed, price_fixed

__all__ = ["RELATION", "Price", "check_request", "mechanism_of_record", "mechanism_record", "paper_price", "price"]

_STRONGLY_SAFE = "strongly-safe-release/1"
_EPSILON_SAFE = "epsilon-safe-release/1"
_FIELDS = {
    _STRONGLY_SAFE: ("k", "sampling_rate"),
    _EPSILON_SAFE: ("k", "sampling_rate", "selection_epsilon", "selection_rate"),
}
_WHOLE_DATA = "whole"
_AMOUNT_TEXT = re.compile(r"[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?")


def price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price:
    """What is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    Strongly-safe releases: docs/proofs/exact-profile.md and docs/proofs/composition.md. ε-safe releases, each with
    a choice of its own: docs/proofs/selection.md. Where a person has several records, the same prices for one record
    are carried over by group privacy: docs/proofs/group-privacy.md.

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: δ, T or M is out of range, no finite ε has this δ, or the parameters are beyond double precision.
    """
    if rows_per_person != 1:
        return _price_for_group(mechanism, delta=delta, releases=releases, records=rows_per_person)
    match mechanism:
        case StronglySafeRelease():
            return price_fixed(mechanism, delta=delta, releases=releases)
        case EpsilonSafeRelease():
            return price_selected(
                mechanism.release,
                selection_epsilon=mechanism.selection_epsilon,
                selection_rate=mechanism.selection_rate,
                delta=delta,
                releases=releases,
            )
        case _:
            assert_never(mechanism)


def _price_for_group(mechanism: Mechanism, *, delta: Decimal, releases: int, records: int) -> Price:
    """The price where a person has up to M records, from the prices for one record."""
    check_request(delta, releases)
    check_records(records)
    if releases == 1 and isinstance(mechanism, StronglySafeRelease):
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


def paper_price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price | None:
    """The price by the paper alone: δ split evenly over the releases, ε added up; None where it has none.

    The paper's is a bound for one record, so there is none where a person has several.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9; with a choice of the map Theorem 3.11.

    Raises:
        InputRefused: δ, the number of releases or of records is out of range.
    """
    check_records(rows_per_person)
    if rows_per_person != 1:
        check_request(delta, releases)
        return None
    match mechanism:
        case StronglySafeRelease():
            return paper_price_fixed(mechanism, delta=delta, releases=releases)
        case EpsilonSafeRelease():
            return paper_price_selected(
                mechanism.release,
                selection_epsilon=mechanism.selection_epsilon,
                selection_rate=mechanism.selection_rate,
                delta=delta,
                releases=releases,
            )
        case _:
            assert_never(mechanism)


def mechanism_record(mechanism: Mechanism) -> dict[str, str | int]:
    """The mechanism as the ledger stores it: kind with version, and its parameters, rates as exact decimal texts.

    A choice that is made on the whole data has the selection rate "whole".
    """
    match mechanism:
        case StronglySafeRelease():
            return {"kind": _STRONGLY_SAFE, "k": mechanism.k, "sampling_rate": str(mechanism.sampling_rate)}
        case EpsilonSafeRelease():
            rate = mechanism.selection_rate
            return {
                "kind": _EPSILON_SAFE,
                "k": mechanism.k,
                "sampling_rate": str(mechanism.sampling_rate),
                "selection_epsilon": str(mechanism.selection_epsilon),
                "selection_rate": _WHOLE_DATA if rate is None else str(rate),
            }
        case _:
            assert_never(mechanism)


def mechanism_of_record(record: Mapping[str, object]) -> Mechanism:
    """The mechanism that a stored record describes.

    Raises:
        InputRefused: an unknown kind, a missing or unknown field, or a value of the wrong form.
    """
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InputRefused(f"unknown kind of mechanism: {kind!r}.")
    fields = _FIELDS[kind]
    if set(record) != {"kind", *fields}:
        raise InputRefused(f"a {kind} record has the fields {' and '.join(fields)}, not {sorted(record)}.")
    k = record["k"]
    if type(k) is not int:
        raise InputRefused(f"a {kind} record needs a whole number k.")
    try:
        rate = _amount(kind, record, "sampling_rate")
        if kind == _STRONGLY_SAFE:
            return StronglySafeRelease(k=k, sampling_rate=rate)
        whole = record["selection_rate"] == _WHOLE_DATA
        return EpsilonSafeRelease(
            k=k,
            sampling_rate=rate,
            selection_epsilon=_amount(kind, record, "selection_epsilon"),
            selection_rate=None if whole else _amount(kind, record, "selection_rate"),
        )
    except (ValueError, InvalidOperation) as fault:
        raise InputRefused(f"a {kind} record is out of range: {fault}.") from fault


def _amount(kind: str, record: Mapping[str, object], name: str) -> Decimal:
    text = record[name]
    if not isinstance(text, str) or not _AMOUNT_TEXT.fullmatch(text):
        raise InputRefused(f"a {kind} record needs a decimal text {name}.")
    return Decimal(text)
