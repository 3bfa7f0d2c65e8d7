"""What is charged for each mechanism."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from ...mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.event import Mechanism
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .cost import RELATION, Price, check_request
from .event_price import price_event
from .exact_decimals import multiply_up
from .group_privacy import best_split, check_records, even_split, no_price_for_group, rule_for_group
from .mechanism_records import mechanism_of_record, mechanism_record
from .profile import farthest_epsilon, log_profile
from .rounding import decimal_up, float_up
from .selection import paper_price_selected, price_selected
from .strongly_safe_price import paper_price_fixed, price_fixed

__all__ = ["RELATION", "Price", "check_request", "mechanism_of_record", "mechanism_record", "paper_price", "price"]


def price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price:
    """What is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    Strongly-safe releases: docs/proofs/exact-profile.md and docs/proofs/composition.md. ε-safe releases, each with
    a choice of its own: docs/proofs/selection.md. Histograms: docs/proofs/noisy-histogram.md and
    docs/proofs/outlier-privacy.md; answers, whose δ is 0: docs/proofs/answers.md. Where a person has several records,
    the same prices for one record are carried over by group privacy: docs/proofs/group-privacy.md.

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1; 0 for an answer.
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
        case SuppressedHistogram() | NoisyHistogram() | OutlierPrivateHistogram():
            _require_one(releases)
            return price_event(mechanism, delta=delta)
        case CountAnswer() | SumAnswer() | MeanAnswer():
            _require_one(releases)
            _require_pure(delta)
            return price_event(mechanism, delta=delta)
        case _:
            assert_never(mechanism)


def _require_one(releases: int) -> None:
    if releases != 1:
        raise InputRefused(
            f"{releases} releases of this mechanism have no price as a series.", remedy="Charge each for itself."
        )


def _require_pure(delta: Decimal) -> None:
    if delta != 0:
        raise InputRefused(f"an answer's price has delta 0, not {delta}.")


def _price_for_group(mechanism: Mechanism, *, delta: Decimal, releases: int, records: int) -> Price:
    """The price where a person has up to M records, from the prices for one record."""
    check_records(records)
    if isinstance(mechanism, CountAnswer | SumAnswer | MeanAnswer):
        pure = price(mechanism, delta=delta, releases=releases)
        return Price(
            epsilon=decimal_up(multiply_up(pure.epsilon, records)),
            delta=delta,
            relation=pure.relation,
            rule=rule_for_group(pure.rule, even=True),
            releases=1,
            rows_per_person=records,
        )
    check_request(delta, releases)
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
    check_records(rows_per_person)
    if rows_per_person != 1:
        if not isinstance(mechanism, CountAnswer | SumAnswer | MeanAnswer):
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
        case SuppressedHistogram():
            if mechanism.sampling_rate is None:
                return None
            sampled = StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate)
            return paper_price_fixed(sampled, delta=delta, releases=releases)
        case NoisyHistogram() | OutlierPrivateHistogram() | CountAnswer() | SumAnswer() | MeanAnswer():
            return None
        case _:
            assert_never(mechanism)
