"""What is charged for each mechanism."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ...mechanisms.errors import InputRefused
from ...mechanisms.mechanism import Mechanism
from .composition.group_privacy import check_records
from .cost import Price, check_request
from .kinds.kind import MechanismKind
from .kinds.registry import kind_of

__all__ = ["paper_price", "price", "recorded_price"]


def price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price:
    """What is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    Strongly-safe releases: docs/proofs/exact-profile.md and docs/proofs/composition.md. ε-safe releases, each with
    a choice of its own: docs/proofs/selection.md. Histograms: docs/proofs/noisy-histogram.md and
    docs/proofs/outlier-privacy.md, with unequal rates docs/proofs/robust-sampling.md; points cost what their counts do:
    docs/proofs/points.md; answers, whose δ is 0: docs/proofs/answers.md; local reports, whose δ is 0, and their counts:
    docs/proofs/local.md and docs/proofs/outcome-counts.md; deletion releases: docs/proofs/deletion.md.
    Where a person has several records, the same prices for one record are carried over by group privacy, those of
    deletion releases exactly: docs/proofs/group-privacy.md.

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1; 0 for an answer or local reports.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: δ, T or M is out of range, no finite ε has this δ, the parameters are beyond double precision, or
            no price is proved for M (a survey's own sampling, the counts of local reports).
    """
    kind = _checked_kind(mechanism, delta, releases, rows_per_person)
    if rows_per_person == 1:
        return kind.price(mechanism, delta, releases)
    return kind.group_price(mechanism, delta, releases, rows_per_person)


def recorded_price(
    mechanism: Mechanism, *, rule: str, delta: Decimal, releases: int = 1, rows_per_person: int = 1
) -> Price:
    """The price that a record with this rule must have: by that rule if earlier versions charged by it, else `price`.

    An earlier rule is proved as well, and charged more.

    Args:
        mechanism: the release.
        rule: the versioned rule that the record names, for several records of a person with its prefix.
        delta: δ over all releases together, 0 < δ < 1; 0 for an answer or local reports.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: as `price`.
    """
    by_rule = kind_of(mechanism).earlier.get(rule.rpartition("+")[2])
    if by_rule is None:
        return price(mechanism, delta=delta, releases=releases, rows_per_person=rows_per_person)
    _checked_kind(mechanism, delta, releases, rows_per_person)
    return by_rule(mechanism, delta, releases, rows_per_person)


def _checked_kind(mechanism: Mechanism, delta: Decimal, releases: int, rows_per_person: int) -> MechanismKind[Any]:
    """The kind, if it has a price for so many releases and records at all."""
    kind = kind_of(mechanism)
    check_records(rows_per_person)
    if releases != 1 and kind.statements.series is None:
        raise InputRefused(
            f"{releases} releases of this mechanism have no price as a series.", remedy="Charge each for itself."
        )
    if kind.pure and delta != 0:
        raise InputRefused(f"the price of an answer or of local reports has delta 0, not {delta}.")
    return kind


def paper_price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price | None:
    """The price by the paper alone: δ split evenly over the releases, ε added up; None where it has none.

    It prices releases of groups of at least k, not those with noise, and for one record: there is none where a person
    has several.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9; with a choice of the map Theorem 3.11.

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: δ, the number of releases or of records is out of range.
    """
    kind = kind_of(mechanism)
    check_records(rows_per_person)
    if rows_per_person == 1:
        return None if kind.paper_price is None else kind.paper_price(mechanism, delta, releases)
    if not kind.pure:
        check_request(delta, releases)
    return None
