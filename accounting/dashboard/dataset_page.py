"""A data set: its budget over time, its series with what remains of them, its releases."""

from __future__ import annotations

from dataclasses import dataclass

from ...mechanisms.refusal import InputRefused
from ..ledger.budget import amount_text
from ..ledger.entry import BudgetRaised, DatasetAdded, PrivateLook
from ..ledger.odometer import ESTIMATE_NOTE
from ..ledger.release_entries import SeriesRegistered
from .estimate import epsilon_of, estimate_of
from .figures import Amount, amount, amount_or_none, mechanism_in_words
from .ledger_view import LedgerView, Stored
from .overview import BudgetRow, budget_row
from .rows import ReleaseRow, release_rows
from .surroundings import Frame, Seen
from .timeline import TimelinePoint, UnreadableChange, timeline_of
from .unreadable import UnreadableRow, unreadable_entry

__all__ = ["DatasetPage", "RaiseRow", "SeriesRow", "dataset_page"]

ROWS_A_PAGE = 50
MOST_SERIES = 50
MOST_LOOKS = 10
MOST_RAISES = 10
SECONDS_TO_WAIT = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRow:
    """A series in a table.

    Args:
        series: its name.
        mechanism: what each release runs.
        releases: how many it has paid for.
        taken: how many hold a place.
        remaining: the difference.
        epsilon: charged for all of them.
        delta: charged for all of them.
        epsilon_paper: by the published bound, None where that gives none.
        day: of the registration.
        position: of the registration.
    """

    series: str
    mechanism: str
    releases: int
    taken: int
    remaining: int
    epsilon: Amount
    delta: Amount
    epsilon_paper: Amount | None
    day: str
    position: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RaiseRow:
    """A raise of a budget.

    Args:
        epsilon: the new budget of ε.
        delta: the new budget of δ.
        reason: why, as it was given.
        by: who raised it.
        day: when.
        position: of its entry.
    """

    epsilon: Amount
    delta: Amount
    reason: str
    by: str
    day: str
    position: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetPage:
    """A data set.

    Args:
        frame: of the ledger.
        budget: what is spent of what.
        relation: the neighbouring relation of its prices.
        survey_rate: rate of its own sampling where that is part of the price, else None.
        rows_per_person: the most records that one person has.
        added: the day of its registration.
        raises: of its budget; the latest ones, in the order of the chain.
        private_looks: looks at its records outside any release; the latest ones.
        private_looks_in_all: how many there were.
        unreadable_looks: looks that can't be read, at the records of this data set or of another; the latest ones.
        epsilon_estimate: the composed estimate now, None where there is none or a payment can't be read.
        estimate_note: what the estimate is.
        computing: whether estimates are still being computed; ask again for them.
        timeline: the account's changes, or some of them spread evenly and those whose entries can't be read.
        changes_in_all: how many there were.
        series: the latest first.
        releases: the latest first.
        older: what to ask for to see the releases before, None on the last page.
    """

    frame: Frame
    budget: BudgetRow
    relation: str
    survey_rate: str | None
    rows_per_person: int
    added: str
    raises: tuple[RaiseRow | UnreadableRow, ...]
    private_looks: tuple[int, ...]
    private_looks_in_all: int
    unreadable_looks: tuple[UnreadableRow, ...]
    epsilon_estimate: Amount | None
    estimate_note: str
    computing: bool
    timeline: tuple[TimelinePoint | UnreadableChange, ...]
    changes_in_all: int
    series: tuple[SeriesRow | UnreadableRow, ...]
    releases: tuple[ReleaseRow | UnreadableRow, ...]
    older: int | None


def dataset_page(seen: Seen, position: int, *, before: int | None) -> DatasetPage:
    """Build the page of the data set that an entry registers, with its releases before a place.

    Raises:
        InputRefused: that entry registers none.
    """
    view = seen.view
    registration = view.entries([position]).get(position)
    if registration is None or not isinstance(registration.entry, DatasetAdded):
        raise InputRefused("This entry registers no data set.", where=f"entry {position}", not_done="")
    added = registration.entry
    name = added.dataset
    last = view.last_change(name)
    if last is None or last.account is None:
        raise InputRefused("The account of this data set can't be read.", where=f"entry {position}", not_done="")
    looks = seen.around.follower.looks(name, up_to=view.head.position)
    unread = [one for one in seen.around.follower.unread(up_to=view.head.position) if one.kind == PrivateLook.KIND]
    timeline = timeline_of(seen, added, last=last)
    estimate = None
    if timeline.estimated and last.position is not None:
        estimate = estimate_of(seen, added, last.position, last.account, wait=SECONDS_TO_WAIT)
    found = view.releases(name=name, before=before, limit=ROWS_A_PAGE + 1)
    releases, stored = release_rows(view, found[:ROWS_A_PAGE])
    series, registered = _series(view, name)
    raises, raising = _raises(seen, name)
    return DatasetPage(
        frame=seen.frame(registration, *stored, *registered, *raising, *timeline.stored, faults=timeline.faults),
        budget=budget_row(name, position, last.account),
        relation=added.relation,
        survey_rate=None if added.survey_rate is None else amount_text(added.survey_rate),
        rows_per_person=added.rows_per_person,
        added=added.day.isoformat(),
        raises=raises,
        private_looks=tuple(place for place, _ in looks[-MOST_LOOKS:]),
        private_looks_in_all=len(looks),
        unreadable_looks=tuple(
            unreadable_entry(one.position, told="a look at the records of some data set")
            for one in unread[-MOST_LOOKS:]
        ),
        epsilon_estimate=None if estimate is None else epsilon_of(estimate),
        estimate_note=ESTIMATE_NOTE,
        computing=timeline.computing or (estimate is not None and estimate.pending),
        timeline=timeline.points,
        changes_in_all=last.sequence + 1,
        series=series,
        releases=releases,
        older=found[ROWS_A_PAGE - 1] if len(found) > ROWS_A_PAGE else None,
    )


def _raises(seen: Seen, name: str) -> tuple[tuple[RaiseRow | UnreadableRow, ...], tuple[Stored, ...]]:
    places = seen.around.follower.raises(name, up_to=seen.view.head.position)[-MOST_RAISES:]
    entries = seen.view.entries(places)
    rows: list[RaiseRow | UnreadableRow] = []
    for position, stored in entries.items():
        raised = stored.entry
        if not isinstance(raised, BudgetRaised):
            rows.append(unreadable_entry(position, told="a raise of the budget"))
            continue
        rows.append(
            RaiseRow(
                epsilon=amount(raised.epsilon),
                delta=amount(raised.delta),
                reason=raised.reason,
                by=raised.by,
                day=raised.day.isoformat(),
                position=position,
            )
        )
    return tuple(rows), tuple(entries.values())


def _series(view: LedgerView, name: str) -> tuple[tuple[SeriesRow | UnreadableRow, ...], tuple[Stored, ...]]:
    found = view.series_of(name, limit=MOST_SERIES)
    entries = view.entries(position for _, position, _ in found)
    rows: list[SeriesRow | UnreadableRow] = []
    for _, position, taken in found:
        stored = entries.get(position)
        if stored is None or not isinstance(stored.entry, SeriesRegistered):
            rows.append(unreadable_entry(position, told="a series with its price"))
            continue
        registered = stored.entry
        rows.append(
            SeriesRow(
                series=registered.series,
                mechanism=mechanism_in_words(dict(registered.mechanism)),
                releases=registered.price.releases,
                taken=taken,
                remaining=registered.price.releases - taken,
                epsilon=amount(registered.price.epsilon),
                delta=amount(registered.price.delta),
                epsilon_paper=amount_or_none(registered.epsilon_paper),
                day=registered.day.isoformat(),
                position=position,
            )
        )
    return tuple(rows), tuple(entries.values())
