"""A data set: its budget over time, its series with what remains of them, its releases."""

from __future__ import annotations

from dataclasses import dataclass

from ....mechanisms.errors import InputRefused
from ...ledger.entries.kinds import BudgetRaised, DatasetAdded, SeriesRegistered
from ...ledger.entries.values import amount_text
from ...ledger.overview import ESTIMATE_NOTE
from ..views.pictures import TimelinePoint, epsilon_of, estimate_of, timeline_of
from ..views.rows import Amount, ReleaseRow, amount, amount_or_none, mechanism_in_words, release_rows
from ..views.state import LedgerView, PageHeader, PageRequest
from .overview import BudgetRow, budget_row

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
        epsilon_estimate: the composed estimate now, None where there is none.
        estimate_note: what the estimate is.
        computing: whether estimates are still being computed; ask again for them.
        timeline: the account's changes, or some of them spread evenly.
        changes_in_all: how many there were.
        series: the latest first.
        releases: the latest first.
        older: what to ask for to see the releases before, None on the last page.
    """

    frame: PageHeader
    budget: BudgetRow
    relation: str
    survey_rate: str | None
    rows_per_person: int
    added: str
    raises: tuple[RaiseRow, ...]
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


def dataset_page(seen: PageRequest, position: int, *, before: int | None) -> DatasetPage:
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
    looks = seen.around.follower.looks(name, up_to=view.head.position)
    timeline = timeline_of(seen, added, last=last)
    estimate = estimate_of(seen, added, last.position, last.account, wait=SECONDS_TO_WAIT)
    found = view.releases(name=name, before=before, limit=ROWS_A_PAGE + 1)
    return DatasetPage(
        frame=seen.frame(),
        budget=budget_row(name, position, last.account),
        relation=added.relation,
        survey_rate=None if added.survey_rate is None else amount_text(added.survey_rate),
        rows_per_person=added.rows_per_person,
        added=added.day.isoformat(),
        raises=_raises(seen, name),
        private_looks=tuple(place for place, _ in looks[-MOST_LOOKS:]),
        private_looks_in_all=len(looks),
        epsilon_estimate=epsilon_of(estimate),
        estimate_note=ESTIMATE_NOTE,
        computing=timeline.computing or estimate.pending,
        timeline=timeline.points,
        changes_in_all=last.sequence + 1,
        series=_series(view, name),
        releases=release_rows(view, found[:ROWS_A_PAGE]),
        older=found[ROWS_A_PAGE - 1] if len(found) > ROWS_A_PAGE else None,
    )


def _raises(seen: PageRequest, name: str) -> tuple[RaiseRow, ...]:
    places = seen.around.follower.raises(name, up_to=seen.view.head.position)[-MOST_RAISES:]
    return tuple(
        RaiseRow(
            epsilon=amount(raised.epsilon),
            delta=amount(raised.delta),
            reason=raised.reason,
            by=raised.by,
            day=raised.day.isoformat(),
            position=position,
        )
        for position, raised in seen.view.entries_of(BudgetRaised, places).items()
    )


def _series(view: LedgerView, name: str) -> tuple[SeriesRow, ...]:
    found = {position: taken for _, position, taken in view.series_of(name, limit=MOST_SERIES)}
    return tuple(
        SeriesRow(
            series=registered.series,
            mechanism=mechanism_in_words(dict(registered.mechanism)),
            releases=registered.price.releases,
            taken=found[position],
            remaining=registered.price.releases - found[position],
            epsilon=amount(registered.price.epsilon),
            delta=amount(registered.price.delta),
            epsilon_paper=amount_or_none(registered.epsilon_paper),
            day=registered.day.isoformat(),
            position=position,
        )
        for position, registered in sorted(view.entries_of(SeriesRegistered, found).items(), reverse=True)
    )
