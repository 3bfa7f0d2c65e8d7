"""Price a sampled release that publishes noisy margins of all records beside its rows."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache

from ...mechanisms.kernel.amounts import amount_exact, amount_of_log10
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.calibrated_sample import CalibratedSample, CalibratedSampleProtection
from ..kernel.prices.arithmetic import (
    add_up,
    decimal_up,
    divide_down,
    divide_up,
    float_down,
    float_up,
    log_down,
    multiply_up,
)
from ..kernel.prices.mechanism_kind import RELATION, MechanismKind, Price, RecordForm, check_request, covered_by_fewer
from ..kernel.prices.privacy_profile import epsilon_of_log_delta, least_log_delta
from .composition.composed import COMPOSED_FLOOR, Part, epsilon_composed, filter_parts_of_one
from .composition.finite_losses import FiniteLosses
from .deletion_prices import losses_of_draws


def calibrated_sample_parts(mechanism: CalibratedSample) -> tuple[Part, ...]:
    """Return what a release is in a composition: its rows, and the losses of its margins."""
    return mechanism.rows, *losses_of_draws({mechanism.margin_noise: mechanism.margins}, records=1)


def price_calibrated_sample(
    mechanism: CalibratedSample, *, delta: Decimal, releases: int = 1, records: int = 1
) -> Price:
    """Return what is charged for T releases of one mechanism, where a person has one record.

    The composed losses of rows and margins of all releases ("calibrated-sample-composed/1"), or the exact price of each
    release's rows and of each margin at an even share of δ, added up, where that is smaller or δ below the floor of
    composed prices ("calibrated-sample-sum/1"; docs/proofs/calibrated-sample.md).

    Raises:
        InputRefused: δ or T is out of range, no finite ε has this δ, the parameters are beyond double precision, or a
            person may have several records.
    """
    check_request(delta, releases)
    if records > 1:
        raise InputRefused(
            f"no price is proved for margins beside a sample where a person may have several records (here up to "
            f"{records}).",
            remedy="Keep one record of each person, or release by [deletion], whose margins have such a price.",
        )
    epsilon, rule = _epsilon(mechanism, delta, releases)
    if epsilon is None:
        raise _no_price(mechanism, delta)
    return Price(epsilon=decimal_up(epsilon), delta=delta, relation=RELATION, rule=rule, releases=releases)


@lru_cache(maxsize=1024)  # whoever charges prices again what the specification has priced
def _epsilon(mechanism: CalibratedSample, delta: Decimal, releases: int) -> tuple[Decimal | float | None, str]:
    summed, composed = _summed(mechanism, delta, releases), None
    if delta >= COMPOSED_FLOOR:
        # Losses that can't be put on a grid are no fault of the request: the sum is a price too.
        with suppress(ValueError):
            parts = Counter(calibrated_sample_parts(mechanism))
            composed = epsilon_composed(
                {part: times * releases for part, times in parts.items()}, delta=float_down(delta)
            )
    if composed is not None and (summed is None or Decimal(composed) < summed):
        return composed, "calibrated-sample-composed/1"
    return summed, "calibrated-sample-sum/1"


def _summed(mechanism: CalibratedSample, delta: Decimal, releases: int) -> Decimal | None:
    share = divide_down(delta, releases * (1 + mechanism.margins))
    try:
        rows = epsilon_of_log_delta(
            k=mechanism.k, sampling_rate=float_up(mechanism.sampling_rate), log_delta=log_down(share)
        )
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault
    margin = _margin(mechanism).epsilon_of_step(share)
    if rows is None or margin is None:
        return None
    margins = multiply_up(decimal_up(margin), mechanism.margins)
    return multiply_up(add_up(decimal_up(rows), margins), releases)


def _margin(mechanism: CalibratedSample) -> FiniteLosses:
    """Return the losses of one margin."""
    [losses] = losses_of_draws({mechanism.margin_noise: 1}, records=1)
    return losses


def _no_price(mechanism: CalibratedSample, delta: Decimal) -> InputRefused:
    ends = _margin(mechanism).infinite
    beside = amount_of_log10(float(divide_up(Decimal(ends.numerator), ends.denominator).log10()))
    log_rows = least_log_delta(k=mechanism.k, sampling_rate=float_up(mechanism.sampling_rate))
    rows = amount_of_log10(log_rows * float(Decimal(1).exp().log10()))
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with k = {mechanism.k} at sampling rate "
        f"{mechanism.sampling_rate}: the rows of each release need a delta of about {rows}, and each margin one of "
        f"about {beside}.",
        remedy="Raise k or delta, lower the rate, or widen the margins' noise.",
    )


CALIBRATED_SAMPLE: MechanismKind[CalibratedSample] = MechanismKind(
    records={"calibrated-sample-release/1": RecordForm(mechanism=CalibratedSample)},
    protections=(CalibratedSampleProtection,),
    pure=False,
    series=True,
    price=lambda mechanism, delta, releases, records: price_calibrated_sample(
        mechanism, delta=delta, releases=releases, records=records
    ),
    filter_parts=filter_parts_of_one(calibrated_sample_parts),
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
    not_covered=covered_by_fewer,
)
