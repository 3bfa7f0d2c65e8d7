"""What counts of a survey's records cost, whose rates of inclusion are known within bounds."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.biased_sampling import BiasedSampleCounts, SurveyProtection
from ..kernel.prices.arithmetic import decimal_up, float_down, float_up, log_down
from ..kernel.prices.mechanism_kind import (
    RELATION,
    MechanismKind,
    Price,
    RecordForm,
    check_request,
    no_price_for_surveyed_group,
)
from ..kernel.prices.privacy_profile import epsilon_of_log_delta
from .composition.composed import no_filter_parts
from .composition.robust_counts import no_epsilon_for_counts, price_robust_counts
from .composition.unequal_rates_profile import least_epsilon_unequal

Array = NDArray[np.float64]
_LARGEST_EPSILON = 60.0


def price_biased_counts(mechanism: BiasedSampleCounts, *, delta: Decimal) -> Price:
    """Return what the release costs under add/remove ("unequal-rates/1"); the data set's own sample is spent by it.

    [Ours] The least ε ≥ 0 with `delta_unequal` at most δ: the exact price for all rates up to p′, but for the
    exceptions up to p_max; no lower bound of the rates is used (docs/proofs/robust-sampling.md).

    Raises:
        InputRefused: δ out of range, or no ε is enough.
    """
    check_request(delta)
    try:
        found = _least_epsilon(mechanism, delta)
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault
    if found is None:
        raise no_epsilon_for_counts(mechanism, delta)
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule="unequal-rates/1", releases=1)


def _least_epsilon(mechanism: BiasedSampleCounts, delta: Decimal) -> float | None:
    rate, top = float_up(mechanism.highest_rate), float_up(mechanism.largest_rate)
    if rate == top:
        return epsilon_of_log_delta(k=mechanism.k, sampling_rate=top, log_delta=log_down(delta))
    return least_epsilon_unequal(
        k=mechanism.k,
        highest_rate=rate,
        largest_rate=top,
        exceptions=mechanism.exceptions,
        delta=float_down(delta),
        high=_LARGEST_EPSILON,
    )


def _price(mechanism: BiasedSampleCounts, delta: Decimal, _releases: int, records: int) -> Price:
    if records > 1:
        raise no_price_for_surveyed_group(records)
    return price_biased_counts(mechanism, delta=delta)


def _earlier_price(mechanism: BiasedSampleCounts, delta: Decimal, _releases: int, records: int) -> Price:
    if records > 1:
        raise no_price_for_surveyed_group(records)
    return price_robust_counts(mechanism, delta=delta)


SURVEY_COUNTS: MechanismKind[BiasedSampleCounts] = MechanismKind(
    records={"biased-sample-counts/1": RecordForm(mechanism=BiasedSampleCounts)},
    protections=(SurveyProtection,),
    pure=False,
    series=False,
    price=_price,
    filter_parts=no_filter_parts("its protection is the data set's own sampling, which serves one release ever"),
    sampling_rate=lambda _: None,
    survey_rate=lambda mechanism: mechanism.largest_rate,
    exclusive=False,
    earlier={"robust-counts/1": _earlier_price},
)
