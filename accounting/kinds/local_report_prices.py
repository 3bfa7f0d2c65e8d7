"""What locally randomized reports cost, each its sender."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.kernel.mechanism import REPLACEMENT
from ...mechanisms.kinds.krandomization import KRandomization
from ...mechanisms.kinds.local_reports import ReportsProtection
from ...mechanisms.kinds.sketch import CountMeanSketch
from ..kernel.prices.arithmetic import (
    add_up,
    decimal_up,
    divide_up,
    log_up,
    multiply_up,
)
from ..kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm
from .composition.composed import pure_filter_parts
from .composition.group_privacy import summed_group_price

LOCAL_RULE = "local/1"

LocalReport = CountMeanSketch | KRandomization


def local_epsilon(mechanism: LocalReport) -> Decimal:
    """Return ε of one report: L·ln((1−q)/q) of K-randomization (KR); ε of a count mean sketch (Apple 2017), rounded up.

    A count mean sketch's bits of two values differ in at most two places, each with a loss of ln((1−q)/q) ≤ ε/2.
    """
    if isinstance(mechanism, CountMeanSketch):
        return decimal_up(mechanism.epsilon)
    q = mechanism.flip_probability
    return decimal_up(multiply_up(log_up(divide_up(add_up(1, q.copy_negate()), q)), mechanism.bits))


def price_of_report(mechanism: LocalReport) -> Price:
    """Return the price of one report, whoever sees it: of replacement, since that somebody reports is not hidden."""
    return Price(epsilon=local_epsilon(mechanism), delta=Decimal(0), relation=REPLACEMENT, rule=LOCAL_RULE, releases=1)


_price = summed_group_price(price_of_report)

LOCAL_REPORTS: MechanismKind[LocalReport] = MechanismKind(
    records={
        "count-mean-sketch/1": RecordForm(mechanism=CountMeanSketch),
        "k-randomization/1": RecordForm(mechanism=KRandomization),
    },
    protections=(ReportsProtection,),
    pure=True,
    series=False,
    price=_price,
    filter_parts=pure_filter_parts(_price),
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
)
