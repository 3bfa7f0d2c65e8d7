"""What counts of records cost that are drawn with unequal rates, each with its own coin."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ...mechanisms.kinds.biased_sampling import UnequalRatesHistogram, UnequalRatesProtection
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ..kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm
from .composition.composed import filter_parts_of_one
from .composition.group_privacy import even_group_price, rule_for_group
from .composition.robust_counts import price_robust_counts
from .microdata_prices import group_price_fixed
from .survey_prices import price_biased_counts


def highest_rate_release(mechanism: UnequalRatesHistogram) -> StronglySafeRelease:
    """The release at the highest rate: lower rates are the same of fewer records, each left out by its own coin."""
    return StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate)


def _price(mechanism: UnequalRatesHistogram, delta: Decimal, _releases: int, records: int) -> Price:
    if records == 1:
        return price_biased_counts(mechanism.as_survey, delta=delta)
    at_one_rate = group_price_fixed(highest_rate_release(mechanism), delta=delta, records=records)
    return replace(at_one_rate, rule=rule_for_group("unequal-rates/1", even=False))


UNEQUAL_RATES: MechanismKind[UnequalRatesHistogram] = MechanismKind(
    records={"unequal-rates-histogram/1": RecordForm(mechanism=UnequalRatesHistogram)},
    protections=(UnequalRatesProtection,),
    pure=False,
    series=False,
    price=_price,
    filter_parts=filter_parts_of_one(lambda mechanism: (highest_rate_release(mechanism),)),
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    survey_rate=None,
    exclusive=False,
    earlier={
        "robust-counts/1": even_group_price(
            lambda mechanism, delta, _: price_robust_counts(mechanism.as_survey, delta=delta)
        )
    },
)
