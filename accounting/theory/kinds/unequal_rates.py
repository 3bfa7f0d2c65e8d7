"""Suppressed counts of a fresh sample in which each record has a rate of its own, within declared bounds."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ....mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ....mechanisms.microdata import StronglySafeRelease
from ..composition.group_privacy import even_group_price, rule_for_group
from .kind import CELLS, CHOSEN, SUPPRESSED, MechanismKind, Price, RecordForm, Statements, filter_parts_of_one
from .strongly_safe import group_price_fixed
from .survey_counts import ROBUST_THEOREMS, price_biased_counts, price_robust_counts, survey_statement

__all__ = ["KIND"]

_SAMPLED = (
    "The records were sampled with fresh independent coins for this release alone, each at the rate that it names "
    "itself, within bounds that were declared beforehand."
)


def _release(mechanism: UnequalRatesHistogram) -> StronglySafeRelease:
    """The release at the highest rate: lower rates are the same of fewer records, each left out by its own coin."""
    return StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate)


def _price(mechanism: UnequalRatesHistogram, delta: Decimal, _releases: int) -> Price:
    return price_biased_counts(mechanism.as_survey, delta=delta)


def _group_price(mechanism: UnequalRatesHistogram, delta: Decimal, releases: int, records: int) -> Price:
    at_one_rate = group_price_fixed(_release(mechanism), delta, releases, records)
    return replace(at_one_rate, rule=rule_for_group("unequal-rates/1", even=False))


def _robust_price(mechanism: UnequalRatesHistogram, delta: Decimal, releases: int, records: int) -> Price:
    def of_one(survey: BiasedSampleCounts, share: Decimal, _releases: int) -> Price:
        return price_robust_counts(survey, delta=share)

    if records == 1:
        return of_one(mechanism.as_survey, delta, releases)
    return even_group_price(of_one)(mechanism.as_survey, delta, releases, records)


KIND: MechanismKind[UnequalRatesHistogram] = MechanismKind(
    records={"unequal-rates-histogram/1": RecordForm(mechanism=UnequalRatesHistogram)},
    pure=False,
    price=_price,
    group_price=_group_price,
    paper_price=None,
    losses=lambda mechanism: (_release(mechanism),),
    filter_parts=filter_parts_of_one(lambda mechanism: (_release(mechanism),)),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={"robust-counts/1": _robust_price},
    theorems=ROBUST_THEOREMS,
    statements=Statements(
        done=lambda _: f"{_SAMPLED} {SUPPRESSED}",
        proved=lambda mechanism, _: survey_statement(mechanism.as_survey),
        chosen=CHOSEN,
        series=None,
        published=CELLS,
    ),
)
