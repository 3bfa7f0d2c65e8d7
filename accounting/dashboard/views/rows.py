"""Rows and figures that several pages have: releases, outcomes, and amounts for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Literal, Self, dataclass_transform

from ....mechanisms.kernel.amounts import amount_exact, amount_shown, counted
from ....mechanisms.kernel.errors import InputRefused
from ...descriptions.description_registry import description_of_record
from ...kernel.field_forms import amount_text
from ...kernel.ledger.entries import (
    BudgetRaised,
    DataAccess,
    DatasetAdded,
    Entry,
    FilterDatasetAdded,
    FreeSeriesRegistered,
    LedgerCreated,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)
from ...kernel.ledger.ledger_state import Release
from ...kernel.prices.registry import kind_of, mechanism_of_record
from .state import PageHeader, PageRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """An ε or a δ.

    Args:
        exact: the amount itself, in plain decimal notation.
        shown: rounded up to six significant digits.
    """

    exact: str
    shown: str


def amount(value: Decimal) -> Amount:
    """Return an amount for a page."""
    return Amount(exact=amount_text(value), shown=amount_shown(value))


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Row:
    """A part of a page; whatever derives from it is a dataclass. What several of them have is explained here.

    Args:
        accounting: "additive", or "filter".
        by: who did it.
        cause: the rule that refused.
        computing: whether something of it is still being computed; ask again for it.
        dataset: the data set's name.
        dataset_position: where that data set is registered, None where it isn't.
        day: when, None where the entry bears none.
        delta: as charged, or as it was set; None where a series was charged whole: its price stands with the series.
        epsilon: the same of ε.
        epsilon_paper: by the published bound; None where that gives none, and for a release of a series.
        exact: by the exact profile.
        hash: of the entry's link.
        k: suppression threshold.
        kind: the versioned kind of entry.
        label: its name for people.
        mechanism: what was run.
        position: of its entry in the chain.
        reason: as the person who asked was told, or as it was given.
        release_id: id of the release; None for an entry that tells of none.
        releases: how many releases.
        sample_id: commitment to the key that the sample's coins come from.
        sampling_rate: of each release.
        series: name of the series, or of the one that paid; None for a release that paid for itself.
        stage: what became of the release: "charged", "reading", "published", "abandoned", "given back".
        what: what the entry says, in a sentence.
        why_not: why there is none; None where there is one, or it is being computed.
    """

    def __init_subclass__(cls) -> None:
        """Make a dataclass of what derives from it."""
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def of(cls, *sources: object, **others: Any) -> Self:  # noqa: ANN401 - fields of any type
        """Return one with what is given, and else with what the first of some objects has under the same name."""
        names = [one.name for one in fields(cls) if one.name not in others]
        same = {name: getattr(source, name) for source in reversed(sources) for name in names if hasattr(source, name)}
        return cls(**{name: _shown(value) for name, value in (same | others).items()})


def _shown(value: object) -> object:
    match value:
        case Decimal():
            return amount(value)
        case date():
            return value.isoformat()
        case _:
            return value


class Page(Row):
    """A page.

    Args:
        frame: of the ledger.
        older: what to ask for to see those before, None on the last page.
        releases: the latest first.
        releases_in_all: how many there are.
        refusals: the latest first.
    """

    TABLE: ClassVar[str] = ""
    frame: PageHeader

    @property
    def table(self) -> tuple[Any, ...]:
        """The rows of its main table."""
        return tuple(getattr(self, self.TABLE))


def _for_unit(added: DatasetAdded) -> str:
    """Whom its releases hide, where a column tells."""
    unit = added.fixed_unit
    if unit is None or unit.column is None:
        return ""
    return f", and all its releases limit each {unit.name}'s records by the column {unit.column!r}"


SENTENCES: Mapping[type, str] = {
    LedgerCreated: "The ledger was created.",
    DatasetAdded: "Data set '{0.dataset}' got the budget ε = {epsilon}, δ = {delta}{more}.",
    BudgetRaised: "The budget of '{0.dataset}' was raised to ε = {epsilon}, δ = {delta}: {0.reason}",
    SeriesRegistered: "Series '{0.series}' of {more} was charged to '{0.dataset}' whole.",
    ReleaseCharged: "Release '{0.release_id}' was charged to {more}.",
    ReleaseReading: "Release '{0.release_id}' began to read records: its cost is spent for ever.",
    ReleasePublished: "Release '{0.release_id}' was published.",
    ReleaseAbandoned: "Release '{0.release_id}' was abandoned, its cost {more}: {0.reason}",
    ReleaseRefused: "The accountant refused ({0.cause}): {0.reason}",
    DataAccess: "Somebody looked at the records of '{0.dataset}' outside any release: {0.what}",
    TokenAdded: "A token of these pages was added for '{0.name}', until {more}.",
    TokenRevoked: "The token {0.token_id} was revoked.",
}


def described(entry: Entry) -> str:
    """Return what an entry says, in a sentence."""
    sentence = next(said for kind, said in SENTENCES.items() if isinstance(entry, kind))
    amounts = {name: amount_exact(getattr(entry, name)) for name in ("epsilon", "delta") if hasattr(entry, name)}
    return sentence.format(entry, more=_more(entry), **amounts)


def _more(entry: Entry) -> str:
    """Return what varies of an entry's sentence."""
    match entry:
        case DatasetAdded():
            order = f", a filter's of order {entry.accounting.order:f}" if isinstance(entry, FilterDatasetAdded) else ""
            return order + _for_unit(entry)
        case SeriesRegistered():
            free = ", each with columns of its own," if isinstance(entry, FreeSeriesRegistered) else ""
            mixed = "" if entry.mixed is None else f" ({entry.mixed.parts})"
            return counted(entry.price.releases, "release") + mixed + free
        case ReleaseCharged():
            payer = f"series '{entry.series.name}'" if entry.series else f"'{entry.dataset}'"
            return payer + (", and its sample reserved" if draws_sample(dict(entry.mechanism)) else "")
        case ReleaseAbandoned():
            return "was given back" if entry.refunded else "stays spent"
        case TokenAdded():
            return str(entry.expires - timedelta(days=1))
        case _:
            return ""


NOISES: Mapping[object, str] = {
    "optimal": "optimal noise for ε {epsilon} and δ {delta} a stage",
    "geometric": "geometric noise of ε {epsilon}, m = {width}",
}


def mechanism_label(record: Mapping[str, str | int]) -> str:
    """Return a mechanism's record as a line."""
    try:
        label = description_of_record(record.get("kind")).label
    except InputRefused:  # of a later version
        label = None
    if label is None:
        named = ", ".join(f"{name} {value}" for name, value in record.items() if name != "kind")
        return f"{record.get('kind')}: {named}"
    rate = record.get("selection_rate")
    of = "all records" if rate == "whole" else f"a fresh sample at rate {rate}"
    values = defaultdict(lambda: "None", record)
    coins = NOISES.get(record.get("noise"), "{noise} noise of σ {scale}, m = {width}").format_map(values)
    stages = counted(int(record.get("stages", 1)), "stage")
    return label.format_map(values | {"of": of, "coins": coins, "in_stages": stages})


def draws_sample(record: Mapping[str, str | int]) -> bool:
    """Return whether a mechanism draws a sample with coins of its own; it is reserved an id of one in any case."""
    mechanism = mechanism_of_record(record)
    return kind_of(mechanism).sampling_rate(mechanism) is not None


ReleaseStage = Literal["charged", "reading", "published", "abandoned", "given back"]


class ReleaseRow(Row):
    """A release in a table."""

    release_id: str
    label: str
    dataset: str
    dataset_position: int
    stage: ReleaseStage
    series: str | None
    series_number: int | None  # its place in the series that paid
    filtered: bool  # whether it paid for itself with its share of a filter budget; its ε and δ are then its own promise
    mechanism: str
    epsilon: Amount | None
    delta: Amount | None
    epsilon_paper: Amount | None
    sample_id: str
    day: str
    position: int


def release_rows(page_request: PageRequest, releases: Iterable[Release]) -> tuple[ReleaseRow, ...]:
    """Return releases as rows, in their order."""
    known = tuple(releases)
    charges = page_request.entries_of(ReleaseCharged, [one.position for one in known])
    return tuple(
        ReleaseRow.of(
            one,
            charge := charges[one.position],
            dataset_position=page_request.state.datasets[one.dataset].position,
            stage=stage_of(one),
            series_number=one.number,
            filtered=charge.of_filter is not None,
            mechanism=mechanism_label(dict(charge.mechanism)),
            epsilon=charge.price.epsilon if one.series is None else None,
            delta=charge.price.delta if one.series is None else None,
            epsilon_paper=charge.epsilon_paper if one.series is None else None,
        )
        for one in known
    )


def stage_of(release: Release) -> ReleaseStage:
    """Return what became of a release."""
    return "given back" if release.refunded else release.stage
