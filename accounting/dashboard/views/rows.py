"""Rows and figures that several pages have: releases, outcomes, and amounts for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Literal, assert_never

from ....mechanisms.amounts import amount_exact, amount_shown, counted
from ...ledger.entries.kinds import (
    MIXED,
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
from ...ledger.entries.values import amount_text
from ...theory.kinds.registry import kind_of, mechanism_of_record
from .state import LedgerView

__all__ = [
    "Amount",
    "ReleaseRow",
    "Stage",
    "amount",
    "amount_or_none",
    "day_of",
    "described",
    "draws_sample",
    "factor_shown",
    "mechanism_label",
    "release_row",
    "release_rows",
    "stage_of",
]


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
    """An amount for a page."""
    return Amount(exact=amount_text(value), shown=amount_shown(value))


def amount_or_none(value: Decimal | None) -> Amount | None:
    """An amount for a page, where there is one."""
    return None if value is None else amount(value)


def _for_unit(added: DatasetAdded) -> str:
    """Whom its releases hide, where a column tells."""
    unit = added.fixed_unit
    if unit is None or unit.column is None:
        return ""
    return f", and all its releases limit each {unit.name}'s records by the column {unit.column!r}"


def described(entry: Entry) -> str:  # noqa: PLR0911, PLR0912 - one return for each kind
    """What an entry says, in a sentence."""
    match entry:
        case LedgerCreated():
            return "The ledger was created."
        case DatasetAdded():
            filters = (
                f", a filter's of order {entry.accounting.order:f}" if isinstance(entry, FilterDatasetAdded) else ""
            )
            return (
                f"Data set '{entry.dataset}' got the budget ε = {amount_exact(entry.epsilon)}, "
                f"δ = {amount_exact(entry.delta)}{filters}{_for_unit(entry)}."
            )
        case BudgetRaised():
            return (
                f"The budget of '{entry.dataset}' was raised to ε = {amount_exact(entry.epsilon)}, "
                f"δ = {amount_exact(entry.delta)}: {entry.reason}"
            )
        case SeriesRegistered():
            releases = counted(entry.price.releases, "release")
            free = ", each with columns of its own," if isinstance(entry, FreeSeriesRegistered) else ""
            if entry.mixed is not None:
                free = f" ({entry.mixed.parts}){free}"
            return f"Series '{entry.series}' of {releases}{free} was charged to '{entry.dataset}' whole."
        case ReleaseCharged():
            payer = f"series '{entry.series.name}'" if entry.series else f"'{entry.dataset}'"
            reserved = ", and its sample reserved" if draws_sample(dict(entry.mechanism)) else ""
            return f"Release '{entry.release_id}' was charged to {payer}{reserved}."
        case ReleaseReading():
            return f"Release '{entry.release_id}' began to read records: its cost is spent for ever."
        case ReleasePublished():
            return f"Release '{entry.release_id}' was published."
        case ReleaseAbandoned():
            back = "its cost was given back" if entry.refunded else "its cost stays spent"
            return f"Release '{entry.release_id}' was abandoned, {back}: {entry.reason}"
        case ReleaseRefused():
            return f"The accountant refused ({entry.cause}): {entry.reason}"
        case DataAccess():
            return f"Somebody looked at the records of '{entry.dataset}' outside any release: {entry.what}"
        case TokenAdded():
            return f"A token of these pages was added for '{entry.name}', until {entry.expires - timedelta(days=1)}."
        case TokenRevoked():
            return f"The token {entry.token_id} was revoked."
        case _:
            assert_never(entry)


def day_of(entry: Entry) -> str | None:
    """The day that an entry bears, None where it bears none."""
    day: date | None = getattr(entry, "day", None)
    return None if day is None else day.isoformat()


def mechanism_label(record: Mapping[str, str | int]) -> str:
    """A mechanism's record as a line."""
    if record.get("kind") == "strongly-safe-release/1":
        return f"k = {record.get('k')}, rate {record.get('sampling_rate')}"
    if record.get("kind") in ("epsilon-safe-release/1", "epsilon-safe-release/2"):
        rate = record.get("selection_rate")
        of = "all records" if rate == "whole" else f"a fresh sample at rate {rate}"
        chosen = f"map chosen at ε {record.get('selection_epsilon')} on {of}"
        return f"k = {record.get('k')}, rate {record.get('sampling_rate')}, {chosen}"
    if record.get("kind") in ("deletion-release/1", "selected-deletion-release/1", "selected-deletion-release/2"):
        stages = counted(int(record.get("stages", 1)), "stage")
        own = record.get("selection_epsilon")
        chosen = "" if own is None else f", levels chosen at ε {own} on all records"
        return f"deletion in {stages}, k = {record.get('k')}, {_noise_in_words(record)}{chosen}"
    if record.get("kind") == MIXED:
        return str(record.get("parts"))
    named = ", ".join(f"{name} {value}" for name, value in record.items() if name != "kind")
    return f"{record.get('kind')}: {named}"


def _noise_in_words(record: Mapping[str, str | int]) -> str:
    """The noise of a deletion release."""
    match record.get("noise"):
        case "optimal":
            return f"optimal noise for ε {record.get('epsilon')} and δ {record.get('delta')} a stage"
        case "geometric":
            return f"geometric noise of ε {record.get('epsilon')}, m = {record.get('width')}"
        case other:
            return f"{other} noise of σ {record.get('scale')}, m = {record.get('width')}"


def draws_sample(record: Mapping[str, str | int]) -> bool:
    """Whether a mechanism draws a sample with coins of its own; it is reserved an id of one in any case."""
    mechanism = mechanism_of_record(record)
    return kind_of(mechanism).sampling_rate(mechanism) is not None


def factor_shown(factor: float) -> str:
    """A factor of at least 1 for people: four significant digits, rounded up."""
    return (
        amount_shown(Decimal(factor).quantize(Decimal("0.001"), rounding="ROUND_CEILING"))
        if factor < 1e6
        else "10^6 or more"
    )


Stage = Literal["charged", "reading", "published", "abandoned", "given back"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRow:
    """A release in a table.

    Args:
        release_id: its id.
        label: its name for people.
        dataset: whose budget paid.
        dataset_position: where that data set is registered.
        stage: what became of it: "charged", "reading", "published", "abandoned", "given back".
        series: the series that paid for it, None for a release that paid for itself.
        series_number: its place there.
        filtered: whether it paid for itself with its share of a filter budget; its ε and δ are then its own promise.
        mechanism: what was run.
        epsilon: its price; None for a release of a series, which was charged whole: its price stands with the series.
        delta: the same of δ.
        epsilon_paper: by the published bound; None where that gives none, and for a release of a series.
        sample_id: its one sample.
        day: of the charge.
        position: of the charge in the chain.
    """

    release_id: str
    label: str
    dataset: str
    dataset_position: int
    stage: Stage
    series: str | None
    series_number: int | None
    filtered: bool
    mechanism: str
    epsilon: Amount | None
    delta: Amount | None
    epsilon_paper: Amount | None
    sample_id: str
    day: str
    position: int


def release_rows(view: LedgerView, positions: Iterable[int]) -> tuple[ReleaseRow, ...]:
    """The releases charged at these places, the latest first."""
    charges = view.entries_of(ReleaseCharged, positions)
    outcomes = view.outcomes(charge.release_id for charge in charges.values())
    places = view.places_of_datasets(charge.dataset for charge in charges.values())
    return tuple(
        _row(charge, position, outcomes.get(charge.release_id, {}), places[charge.dataset])
        for position, charge in sorted(charges.items(), reverse=True)
    )


def release_row(view: LedgerView, charge: ReleaseCharged, *, position: int) -> ReleaseRow:
    """The release of a charge at a place."""
    outcomes = view.outcomes([charge.release_id]).get(charge.release_id, {})
    return _row(charge, position, outcomes, view.places_of_datasets([charge.dataset])[charge.dataset])


def stage_of(outcomes: Mapping[str, int]) -> Stage:
    """What became of a release."""
    if "published" in outcomes:
        return "published"
    if "refunded" in outcomes:
        return "given back"
    if "abandoned" in outcomes:
        return "abandoned"
    return "reading" if "reading" in outcomes else "charged"


def _row(charge: ReleaseCharged, position: int, outcomes: Mapping[str, int], place: int) -> ReleaseRow:
    itself = charge.series is None
    return ReleaseRow(
        release_id=charge.release_id,
        label=charge.label,
        dataset=charge.dataset,
        dataset_position=place,
        stage=stage_of(outcomes),
        series=None if charge.series is None else charge.series.name,
        series_number=None if charge.series is None else charge.series.number,
        filtered=charge.of_filter is not None,
        mechanism=mechanism_label(dict(charge.mechanism)),
        epsilon=amount(charge.price.epsilon) if itself else None,
        delta=amount(charge.price.delta) if itself else None,
        epsilon_paper=amount_or_none(charge.epsilon_paper) if itself else None,
        sample_id=charge.sample_id,
        day=charge.day.isoformat(),
        position=position,
    )
