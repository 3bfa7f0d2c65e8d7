"""What is charged for each mechanism."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from ...mechanisms.amount_format import amount_exact, amount_shown
from ...mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.event import Mechanism, PureMechanism
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.points import SyntheticPoints
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .cost import RELATION, Price, check_request
from .event_price import price_event
from .exact_decimals import multiply_up
from .group_privacy import (
    best_split,
    check_records,
    even_split,
    no_price_for_group,
    no_price_for_surveyed_group,
    rule_for_group,
)
from .local_reports import LOCAL_RULE
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
    docs/proofs/outlier-privacy.md, with unequal rates docs/proofs/robust-sampling.md; points cost what their counts do:
    docs/proofs/points.md; answers, whose δ is 0: docs/proofs/answers.md; local reports, whose δ is 0, and their counts:
    docs/proofs/local.md and docs/proofs/outcome-counts.md. Where a person has several records,
    the same prices for one record are carried over by group privacy: docs/proofs/group-privacy.md.

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1; 0 for an answer or local reports.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: δ, T or M is out of range, no finite ε has this δ, the parameters are beyond double precision, or
            no price is proved for M (a survey's own sampling, the counts of local reports).
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
        case (
            SuppressedHistogram()
            | NoisyHistogram()
            | OutlierPrivateHistogram()
            | BiasedSampleCounts()
            | UnequalRatesHistogram()
            | SyntheticPoints()
        ):
            _require_one(releases)
            return price_event(mechanism, delta=delta)
        case CountAnswer() | SumAnswer() | MeanAnswer() | CountMeanSketch() | KRandomization():
            _require_one(releases)
            _require_pure(delta)
            return price_event(mechanism, delta=delta)
        case OutcomeCounts():
            _require_one(releases)
            return _price_of_counts(mechanism, delta=delta)
        case _:
            assert_never(mechanism)


def _require_one(releases: int) -> None:
    if releases != 1:
        raise InputRefused(
            f"{releases} releases of this mechanism have no price as a series.", remedy="Charge each for itself."
        )


def _require_pure(delta: Decimal) -> None:
    if delta != 0:
        raise InputRefused(f"the price of an answer or of local reports has delta 0, not {delta}.")


def _price_of_counts(counts: OutcomeCounts, *, delta: Decimal) -> Price:
    """The price of outcome counts where one below that of the reports themselves is proved.

    PRIVACY: where none is, their price has another δ, and is charged as that of the reports.
    """
    found = price_event(counts, delta=delta)
    if found.rule == LOCAL_RULE:
        raise InputRefused(
            f"for the counts of {counts.least_people} reports nothing below the price of the reports themselves, "
            f"ε = {amount_shown(found.epsilon)}, is proved at δ = {amount_exact(delta)}.",
            remedy="Charge the reports: leave out δ and the least number of people; or count more people.",
        )
    return found


def _price_for_group(mechanism: Mechanism, *, delta: Decimal, releases: int, records: int) -> Price:
    """The price where a person has up to M records, from the prices for one record."""
    check_records(records)
    if isinstance(mechanism, BiasedSampleCounts):
        raise no_price_for_surveyed_group(records)
    if isinstance(mechanism, OutcomeCounts):
        raise InputRefused(
            "the counts of local reports have no price where a person may have several.",
            remedy="Charge the reports: leave out δ and the least number of people.",
        )
    if isinstance(mechanism, PureMechanism):
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
        if not isinstance(mechanism, PureMechanism):
            check_request(delta, releases)
        return None
    match mechanism:
        case StronglySafeRelease():
            found = paper_price_fixed(mechanism, delta=delta, releases=releases)
        case EpsilonSafeRelease():
            found = paper_price_selected(
                mechanism.release,
                selection_epsilon=mechanism.selection_epsilon,
                selection_rate=mechanism.selection_rate,
                delta=delta,
                releases=releases,
            )
        case SuppressedHistogram(k=k, sampling_rate=Decimal() as rate):
            found = paper_price_fixed(StronglySafeRelease(k=k, sampling_rate=rate), delta=delta, releases=releases)
        case SyntheticPoints(counts=StronglySafeRelease() as counts):
            found = paper_price_fixed(counts, delta=delta, releases=releases)
        case (
            SuppressedHistogram()
            | NoisyHistogram()
            | OutlierPrivateHistogram()
            | BiasedSampleCounts()
            | UnequalRatesHistogram()
            | SyntheticPoints()
            | CountAnswer()
            | SumAnswer()
            | MeanAnswer()
            | CountMeanSketch()
            | KRandomization()
            | OutcomeCounts()
        ):
            found = None
        case _:
            assert_never(mechanism)
    return found
