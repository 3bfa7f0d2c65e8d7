"""Locally randomized reports, count mean sketches and K-randomization: what one costs the person who sends it."""

from __future__ import annotations

from decimal import Decimal

from ....mechanisms.local_reports.krandomization import KRandomization
from ....mechanisms.local_reports.sketch import CountMeanSketch
from ....mechanisms.mechanism import REPLACEMENT
from ..arithmetic import add_up, decimal_up, divide_up, log_up, multiply_up
from ..composition.amplification import Guarantee
from ..composition.group_privacy import summed_group_price
from .kind import CHOSEN, MechanismKind, Price, Published, RecordForm, Statements, pure_filter_parts

__all__ = [
    "ESTIMATES",
    "KIND",
    "LOCAL_RULE",
    "REPORTS",
    "LocalReport",
    "local_epsilon",
    "local_statement",
    "price_of_report",
]

ESTIMATES = Published("estimate", "estimates", "")
REPORTS = (
    "Each report was randomized on a person's device before it was sent. Every report was read; no sample was drawn. "
    "They were added up, and from the sums alone the effect of the coins was taken out on average."
)

LOCAL_RULE = "local/1"

LocalReport = CountMeanSketch | KRandomization


def local_epsilon(mechanism: LocalReport) -> Decimal:
    """ε of one report: L·ln((1−q)/q) of K-randomization (KR); ε of a count mean sketch (Apple 2017), rounded up.

    A count mean sketch's bits of two values differ in at most two places, each with a loss of ln((1−q)/q) ≤ ε/2.
    """
    if isinstance(mechanism, CountMeanSketch):
        return decimal_up(mechanism.epsilon)
    q = mechanism.flip_probability
    return decimal_up(multiply_up(log_up(divide_up(add_up(1, q.copy_negate()), q)), mechanism.bits))


def price_of_report(mechanism: LocalReport) -> Price:
    """The price of one report, whoever sees it: a replacement price, since that somebody reports is not hidden."""
    return Price(epsilon=local_epsilon(mechanism), delta=Decimal(0), relation=REPLACEMENT, rule=LOCAL_RULE, releases=1)


def local_statement(mechanism: LocalReport) -> str:
    """The guarantee of one report, which needs no trust in whoever collects it."""
    statement = (
        f"Each report is {local_epsilon(mechanism)}-locally private: it is randomized before it leaves the device, so "
        "that nobody, the collector included, need be trusted. That a person reports at all is not hidden."
    )
    if isinstance(mechanism, KRandomization) and mechanism.bits == 1:
        q = mechanism.flip_probability
        statement += (
            f" Of one bit the largest ratio of two neighbours' probabilities is (1 − {q})/{q} exactly, for one "
            "report as for the number of ones among many (K-Randomization, 2016)."
        )
    return statement


def _price(mechanism: LocalReport, _delta: Decimal, _releases: int) -> Price:
    return price_of_report(mechanism)


KIND: MechanismKind[LocalReport] = MechanismKind(
    records={
        "count-mean-sketch/1": RecordForm(mechanism=CountMeanSketch),
        "k-randomization/1": RecordForm(mechanism=KRandomization),
    },
    pure=True,
    price=_price,
    group_price=summed_group_price(_price),
    paper_price=None,
    losses=lambda mechanism: (Guarantee(epsilon=local_epsilon(mechanism), delta=Decimal(0)),),
    filter_parts=pure_filter_parts(summed_group_price(_price)),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda _: None,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        LOCAL_RULE: "randomized response on the device (Apple, Learning with Privacy at Scale, 2017; Zhilyaev, Zeber, "
        "K-Randomization, 2016); proved in docs/proofs/local.md"
    },
    statements=Statements(
        done=lambda _: REPORTS,
        proved=lambda mechanism, _: local_statement(mechanism),
        chosen=CHOSEN,
        series=None,
        published=ESTIMATES,
    ),
)
