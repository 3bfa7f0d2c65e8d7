"""Whether a data set's budget allows a price: the same rules for a look and for a charge."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from ...mechanisms.amount_format import amount_shown
from ...mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.points import SyntheticPoints
from ...mechanisms.refusal import AccountantRefused, InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from ..theory.price import mechanism_of_record
from ..theory.shuffling import holds_alone
from .budget import Account
from .queries import DatasetState
from .release_entries import ChargedPrice, Fields, ReleaseCharged
from .what_fits import what_fits

__all__ = [
    "Objection",
    "objection_to",
    "price_differs",
    "sample_faults",
    "survey_differs",
    "survey_fault",
    "unit_differs",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Objection:
    """Why the accountant says no.

    Args:
        cause: short name of the rule, for the record.
        what: the fault in one sentence, with its numbers.
        where: what it concerns.
        remedy: what the reader can do next.
    """

    cause: str
    what: str
    where: str
    remedy: str

    @property
    def refusal(self) -> AccountantRefused:
        """The objection as an exception."""
        return AccountantRefused(self.what, where=self.where, remedy=self.remedy, cause=self.cause)


def price_differs(faults: tuple[str, ...], *, where: str) -> Objection | None:
    """The objection to a price that is not its mechanism's, None where there is no fault."""
    if not faults:
        return None
    return Objection(
        cause="price-differs", what=f"{faults[0]}.", where=where, remedy="Charge what the mechanism costs."
    )


def unit_differs(rows_per_person: int, dataset: DatasetState) -> Objection | None:
    """The objection to a price for another number of records of a person, None where it is the data set's."""
    if rows_per_person == dataset.rows_per_person:
        return None
    return Objection(
        cause="rows-per-person",
        what=f"it was added with at most {_records(dataset.rows_per_person)} of a person in a delivery, and this price "
        f"covers {_records(rows_per_person)}.",
        where=f"dataset '{dataset.name}'",
        remedy=f"Write rows_per_person = {dataset.rows_per_person} below [data].",
    )


def sample_faults(charge: ReleaseCharged) -> tuple[str, ...]:
    """What is wrong with a charge's samples, in sentences; nothing where they are what its mechanism reads.

    A release reads a sample of its own. A map that is chosen on a fresh sample is chosen on another one, since the
    release's price holds for a choice that its own sample has no part in (docs/proofs/selection.md). One that reads
    every record takes a sample all the same, and draws nothing from it: the sample's id ties charge, draws and output
    together (docs/decisions/0009-releases-without-a-sample.md).
    """
    try:
        mechanism = mechanism_of_record(dict(charge.mechanism))
    except InputRefused:
        return ()  # which has no price either, and that is said
    match mechanism:
        case StronglySafeRelease() | SuppressedHistogram() | NoisyHistogram() | OutlierPrivateHistogram():
            needed = 1
        case SyntheticPoints() | BiasedSampleCounts() | UnequalRatesHistogram():
            needed = 1
        case CountAnswer() | SumAnswer() | MeanAnswer():
            needed = 1
        case CountMeanSketch() | KRandomization() | OutcomeCounts():
            needed = 1
        case EpsilonSafeRelease(selection_rate=rate):
            needed = 1 if rate is None else 2
        case _:
            assert_never(mechanism)
    taken = [sample for _, sample in charge.samples]
    if len(taken) != needed:
        return (f"its mechanism reads {needed} samples, and {len(taken)} are taken",)
    if len(set(taken)) != needed:
        return ("its map would be chosen on the release's own sample",)
    return ()


def survey_fault(mechanism: Fields, survey_rate: Decimal | None) -> str | None:
    """What is wrong with a data set's own sampling as protection, in a sentence; None where nothing is.

    A mechanism that draws no coins of its own, and leans on those that the data were drawn with, is sound once: so
    its data set must be registered as a sample, which the ledger lets be released once, and its rates must not be
    below what was registered.

    Args:
        mechanism: the mechanism's versioned record.
        survey_rate: as registered; None for a data set that is no sample.
    """
    try:
        found = mechanism_of_record(dict(mechanism))
    except InputRefused:
        return None  # which has no price either, and that is said
    if not isinstance(found, BiasedSampleCounts):
        return None
    if survey_rate is None:
        return "its price leans on the data having been sampled, and the data set is not registered as a sample"
    if survey_rate > found.largest_rate:
        return (
            f"it says that no record was sampled at a rate above {found.largest_rate}, and the data set is registered "
            f"as sampled at {survey_rate}"
        )
    return None


def survey_differs(mechanism: Fields, dataset: DatasetState) -> Objection | None:
    """The objection to a mechanism for what its data set's own sampling is, None where there is none."""
    if (fault := survey_fault(mechanism, dataset.survey_rate)) is None:
        return None
    return Objection(
        cause="survey-differs",
        what=f"{fault}.",
        where=f"dataset '{dataset.name}'",
        remedy="Register the data under a name of their own with `crowdblend dataset add NAME --survey-rate RATE`, "
        "RATE being the largest; or draw a fresh sample with [sampling].rate.",
    )


def objection_to(
    price: ChargedPrice,
    *,
    mechanism: Fields | None,
    rows_per_person: int,
    dataset: DatasetState,
    released_before: str | None,
) -> Objection | None:
    """What speaks against charging a price to a data set, None where nothing does.

    Args:
        price: what would be charged.
        mechanism: the mechanism's versioned record, to say what would fit; None where it isn't known.
        rows_per_person: the most records of one person in a delivery that the price covers.
        dataset: the data set and its account now.
        released_before: a release beside which this one may not stand (`alone.released_before`); None where there is
            none.
    """
    where = f"dataset '{dataset.name}'"
    if price.relation != dataset.relation:
        return Objection(
            cause="relation-mismatch",
            what=f"this price holds for the neighbouring relation {price.relation}, the budget's is "
            f"{dataset.relation}.",
            where=where,
            remedy="Use a mechanism that is priced for the budget's relation.",
        )
    if (objection := unit_differs(rows_per_person, dataset)) is not None:
        return objection
    if dataset.survey and price.releases > 1:
        return Objection(
            cause="survey-released",
            what="it is itself a sample and can be released once, so it can have no series.",
            where=where,
            remedy="Release it once, without a series.",
        )
    if released_before is not None:
        return _beside(price, dataset=dataset, other=released_before)
    after = dataset.account.charged(epsilon=price.epsilon, delta=price.delta)
    if after.within_budget:
        return None
    asked = "this release" if price.releases == 1 else f"this series of {price.releases} releases"
    return Objection(
        cause="over-budget",
        what=f"{asked} would bring {_excess(dataset.account, after)}.",
        where=where,
        remedy=what_fits(dataset.account, price, mechanism=mechanism, rows_per_person=rows_per_person),
    )


def _beside(price: ChargedPrice, *, dataset: DatasetState, other: str) -> Objection:
    """The objection to a release that may not stand beside another one."""
    where = f"dataset '{dataset.name}'"
    if dataset.survey:
        return Objection(
            cause="survey-released",
            what="it is itself a sample, can be released once, and has been: its sampling was part of that "
            f"price (release '{other}').",
            where=where,
            remedy="Use what was published.",
        )
    return Objection(
        cause="counts-not-alone",
        what="the price of outcome counts holds only while nothing else is published of their reports, and this "
        f"release would stand beside release '{other}'.",
        where=where,
        remedy="Use what was published; or, where that was at another price, leave out [privacy] and least_people: the "
        "reports themselves can be charged."
        if holds_alone(price.rule)
        else "Use what was published.",
    )


def _records(count: int) -> str:
    return "one record" if count == 1 else f"{count} records"


def _excess(before: Account, after: Account) -> str:
    parts = []
    for symbol, old, new, budget in (
        ("ε", before.epsilon_spent, after.epsilon_spent, after.epsilon_budget),
        ("δ", before.delta_spent, after.delta_spent, after.delta_budget),
    ):
        if new > budget:
            shown = [amount_shown(amount) for amount in (old, new, budget)]
            parts.append(f"{symbol} from {shown[0]} to {shown[1]}, past the budget {shown[2]}")
    return " and ".join(parts)
