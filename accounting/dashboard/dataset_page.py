"""A data set: its budget over time, its series with what remains of them, its releases."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ...mechanisms.refusal import InputRefused
from ..ledger.budget import Account, amount_text
from ..ledger.entry import DatasetAdded
from ..ledger.odometer import ESTIMATE_NOTE
from ..ledger.release_entries import SeriesRegistered
from .figures import Amount, amount, amount_or_none, day_of, mechanism_in_words
from .ledger_view import AccountChange, LedgerView, Stored
from .overview import BudgetRow, budget_row
from .rows import ReleaseRow, release_rows
from .surroundings import Frame, Seen
from .work import Answer

__all__ = ["DatasetPage", "SeriesRow", "TimelinePoint", "dataset_page"]

ROWS_A_PAGE = 50
MOST_SERIES = 50
MOST_LOOKS = 10
MOST_POINTS = 48
MOST_COMPOSED = 12
SECONDS_TO_WAIT = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelinePoint:
    """The account after one change.

    Args:
        change: how many changes came before.
        position: the entry that changed it.
        day: when, None where the entry can't be read.
        epsilon_spent: charged and not given back: this counts.
        epsilon_budget: the most that it may become.
        delta_spent: the same of δ.
        epsilon_composed: the composed estimate; None where it isn't computed for this point.
        epsilon_paper: what the published bound would have charged; None where it gives no guarantee.
    """

    change: int
    position: int
    day: str | None
    epsilon_spent: Amount
    epsilon_budget: Amount
    delta_spent: Amount
    epsilon_composed: Amount | None
    epsilon_paper: Amount | None


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
class DatasetPage:
    """A data set.

    Args:
        frame: of the ledger.
        budget: what is spent of what.
        relation: the neighbouring relation of its prices.
        survey_rate: rate of its own sampling where that is part of the price, else None.
        rows_per_person: the most records that one person has.
        added: the day of its registration.
        private_looks: looks at its records outside any release; the latest ones.
        private_looks_in_all: how many there were.
        epsilon_estimate: the composed estimate now, None where there is none.
        estimate_note: what the estimate is.
        computing: whether estimates are still being computed; ask again for them.
        timeline: the account's changes, or some of them spread evenly.
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
    private_looks: tuple[int, ...]
    private_looks_in_all: int
    epsilon_estimate: Amount | None
    estimate_note: str
    computing: bool
    timeline: tuple[TimelinePoint, ...]
    changes_in_all: int
    series: tuple[SeriesRow, ...]
    releases: tuple[ReleaseRow, ...]
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
    changes = view.changes(name, last=last, most=MOST_POINTS)
    looks = seen.around.follower.looks(name, up_to=view.head.position)
    timeline, computing = _timeline(seen, added, changes)
    estimate = _estimate(seen, added, last.position, last.account, wait=SECONDS_TO_WAIT)
    found = view.releases(name=name, before=before, limit=ROWS_A_PAGE + 1)
    releases, stored = release_rows(view, found[:ROWS_A_PAGE])
    series, registered = _series(view, name)
    return DatasetPage(
        frame=seen.frame(registration, *stored, *registered),
        budget=budget_row(name, position, last.account),
        relation=added.relation,
        survey_rate=None if added.survey_rate is None else amount_text(added.survey_rate),
        rows_per_person=added.rows_per_person,
        added=added.day.isoformat(),
        private_looks=tuple(place for place, _ in looks[-MOST_LOOKS:]),
        private_looks_in_all=len(looks),
        epsilon_estimate=_epsilon(estimate),
        estimate_note=ESTIMATE_NOTE,
        computing=computing or estimate.pending,
        timeline=timeline,
        changes_in_all=last.sequence + 1,
        series=series,
        releases=releases,
        older=found[ROWS_A_PAGE - 1] if len(found) > ROWS_A_PAGE else None,
    )


def _timeline(
    seen: Seen, added: DatasetAdded, changes: tuple[AccountChange, ...]
) -> tuple[tuple[TimelinePoint, ...], bool]:
    """The points of the picture, and whether some are still being computed."""
    entries = seen.view.entries(change.position for change in changes)
    papers = seen.around.follower.paper_spent(added.dataset, up_to=tuple(change.position for change in changes))
    step = max(1, -(-len(changes) // MOST_COMPOSED))
    points: list[TimelinePoint] = []
    computing = False
    for number, (change, paper) in enumerate(zip(changes, papers, strict=True)):
        if change.account is None:
            continue
        composed = None
        if (len(changes) - 1 - number) % step == 0:
            answer = _estimate(seen, added, change.position, change.account, wait=0.0)
            composed, computing = _epsilon(answer), computing or answer.pending
        stored = entries.get(change.position)
        points.append(
            TimelinePoint(
                change=change.sequence,
                position=change.position,
                day=None if stored is None else day_of(stored.entry),
                epsilon_spent=amount(change.account.epsilon_spent),
                epsilon_budget=amount(change.account.epsilon_budget),
                delta_spent=amount(change.account.delta_spent),
                epsilon_composed=composed,
                epsilon_paper=amount_or_none(paper),
            )
        )
    return tuple(points), computing


def _estimate(seen: Seen, added: DatasetAdded, position: int, account: Account, *, wait: float) -> Answer:
    charged = seen.around.follower.payments(added.dataset, up_to=position)
    amounts = {
        part: amount_text(getattr(account, part))
        for part in ("epsilon_spent", "delta_spent", "epsilon_budget", "delta_budget")
    }
    counted = sorted([list(mechanism), times] for mechanism, times in charged.items())
    asked = {"charged": counted, "account": amounts, "rows_per_person": added.rows_per_person}
    return seen.around.desk.ask("estimate", asked, wait=wait)


def _epsilon(answer: Answer) -> Amount | None:
    if answer.found is None or answer.found["epsilon"] is None:
        return None
    return amount(Decimal(answer.found["epsilon"]))


def _series(view: LedgerView, name: str) -> tuple[tuple[SeriesRow, ...], tuple[Stored, ...]]:
    found = view.series_of(name, limit=MOST_SERIES)
    entries = view.entries(position for _, position, _ in found)
    rows: list[SeriesRow] = []
    for _, position, taken in found:
        stored = entries.get(position)
        if stored is None or not isinstance(stored.entry, SeriesRegistered):
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
