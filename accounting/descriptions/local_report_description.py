"""Describe locally randomized reports, and the published counts of many."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from ..kinds.composition.amplification import Guarantee
from ..kinds.composition.composed import Part
from ..kinds.local_report_prices import LOCAL_RULE, LocalReport, local_epsilon
from ..kinds.outcome_counts_prices import EXACT_RULE, SHUFFLED_RULE
from .kind_description import KindDescription, Published, TrustModel

ESTIMATES = Published("estimate", "estimates", "")
REPORTS = (
    "Each report was randomized on a person's device before it was sent. Every report was read; no sample was drawn. "
    "They were added up, and from the sums alone the effect of the coins was taken out on average."
)


def local_statement(mechanism: LocalReport) -> str:
    """Return the guarantee of one report, which needs no trust in whoever collects it."""
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


def outcome_statement(mechanism: OutcomeCounts, rule: str) -> str:
    """What the price of published outcome counts rests on, and what holds for whoever sees the reports themselves."""
    if rule == EXACT_RULE:
        basis = f"the exact distribution of the number of ones among {mechanism.least_people} people or more"
    else:
        basis = (
            f"amplification by shuffling (arXiv:2012.12803, Theorem 3.1), whose condition that the local epsilon is at "
            f"most ln(n/(16 ln(2/delta))) was checked with n = {mechanism.least_people}"
        )
    return (
        f"The price is that of the counts of all reports, by {basis}. It is for those who see this release and not the "
        "reports, and it holds while at least so many people's devices flipped their bits as stated and independently, "
        "and nothing else is ever published of these reports. Against whoever holds the reports this holds: "
        f"{local_statement(mechanism.randomizer)}"
    )


def _outcome_losses(_counts: OutcomeCounts) -> tuple[Part, ...]:
    raise InputRefused("the price of outcome counts stands alone and is not composed.")


_LOCAL = TrustModel(
    "Local",
    "Each person's device randomizes its report before sending it.",
    "Nobody but a person's own device is trusted with what the person has.",
)
_SHUFFLE = TrustModel(
    "Shuffle",
    "Each person's device randomizes its report before sending it; only the counts of all reports are published.",
    "Whoever holds the reports is trusted to publish nothing of them but these counts. Without that trust each "
    "report is still locally private, at a larger epsilon that the guarantee's words name.",
)


LOCAL_REPORTS: KindDescription[LocalReport] = KindDescription(
    done=lambda _: REPORTS,
    proved=lambda mechanism, _: local_statement(mechanism),
    published=ESTIMATES,
    theorems={
        LOCAL_RULE: "randomized response on the device (Apple, Learning with Privacy at Scale, 2017; Zhilyaev, Zeber, "
        "K-Randomization, 2016); proved in docs/proofs/local.md"
    },
    losses=lambda mechanism: (Guarantee(epsilon=local_epsilon(mechanism), delta=Decimal(0)),),
    trust=_LOCAL,
)


OUTCOME_COUNTS: KindDescription[OutcomeCounts] = KindDescription(
    done=lambda _: REPORTS,
    proved=outcome_statement,
    published=ESTIMATES,
    theorems={
        EXACT_RULE: "Zhilyaev, Zeber, K-Randomization, 2016; exact form proved in docs/proofs/outcome-counts.md",
        SHUFFLED_RULE: "Feldman, McMillan, Talwar, arXiv:2012.12803, Theorem 3.1; used as in "
        "docs/proofs/outcome-counts.md",
    },
    losses=_outcome_losses,
    trust=_SHUFFLE,
)
