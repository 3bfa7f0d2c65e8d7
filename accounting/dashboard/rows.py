"""Rows that several pages have: releases and their outcomes, as the chain tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..ledger.release_entries import ReleaseCharged
from .figures import Amount, amount, amount_or_none, mechanism_in_words
from .ledger_view import LedgerView

__all__ = ["ReleaseRow", "Stage", "release_row", "release_rows", "stage_of"]

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
        mechanism: what was run.
        epsilon: charged; None for a release of a series, which was charged whole: its price stands with the series.
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
        mechanism=mechanism_in_words(dict(charge.mechanism)),
        epsilon=amount(charge.price.epsilon) if itself else None,
        delta=amount(charge.price.delta) if itself else None,
        epsilon_paper=amount_or_none(charge.epsilon_paper) if itself else None,
        sample_id=charge.sample_id,
        day=charge.day.isoformat(),
        position=position,
    )
