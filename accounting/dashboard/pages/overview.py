"""The overview of all data sets, and the page of one: its budget over time, its series, its releases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any

from fastapi import Query

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.wording import share_shown, times_in
from ...kernel.field_forms import amount_text
from ...kernel.ledger.entries import FilterDatasetAdded, FreeSeriesRegistered, ReleaseCharged
from ...kernel.ledger.ledger_state import Dataset
from ...ledger.budget_overview import ESTIMATE_NOTE
from ...ledger.lookup import SeriesState
from ..views.pictures import SharePoint, TimelinePoint, changes_of, epsilon_of, estimate_of, shares_of, timeline_of
from ..views.rows import Amount, Page, ReleaseRow, Row, mechanism_label, release_rows
from ..views.state import LAST, Before, OneState, PageRequest, Position
from .chain import RefusalRow, refusal_rows

ROWS_A_PAGE = 50
MOST_SERIES = 50
MOST_LOOKS = 10
MOST_RAISES = 10
SECONDS_TO_WAIT = 0.3
After = Annotated[int | None, Query(ge=0, le=LAST, description="Only what stands after this place in the chain.")]


class SeriesRow(Row):
    """A series in a table; ε and δ are charged for all of its releases."""

    series: str
    mechanism: str
    releases: int
    taken: int  # how many of its releases hold a place
    remaining: int  # how many places are left
    epsilon: Amount
    delta: Amount
    epsilon_paper: Amount | None
    day: str
    position: int
    # of a series of different mechanisms, each with how many of its places are taken; none of another
    parts: tuple[str, ...]


class RaiseRow(Row):
    """A raise of a budget: the new one, and why."""

    epsilon: Amount
    delta: Amount
    reason: str
    by: str
    day: str
    position: int


class BudgetRow(Row):
    """A data set and its budget. Its position is its page's permanent address."""

    dataset: str
    position: int
    accounting: str
    # sum of the ε charged and not given back; None of a filter budget, which adds up divergences
    epsilon_spent: Amount | None = None
    epsilon_budget: Amount  # the most that it may become; of a filter budget what all releases together keep
    epsilon_left: Amount | None = None  # the difference, 0 where the budget is passed; None of a filter budget
    delta_spent: Amount | None = None  # the same of δ
    delta_budget: Amount  # the same of δ
    delta_left: Amount | None = None  # the same of δ
    # spent of the budget, 0 to 1 and above where it is passed; of a filter budget by its divergences
    epsilon_share: float
    delta_share: float  # the same of δ; of a filter budget by its tails
    order: str | None  # α of a filter budget, fixed with it; None of an additive one, as all that follows but the share
    divergence_spent: Amount | None  # sum of the divergences charged and not given back
    divergence_budget: Amount | None  # the most that it may become
    tail_spent: Amount | None  # the same of the tails
    tail_budget: Amount | None  # the most that they may become
    spent_share: float  # the larger of both shares
    spent_shown: str  # in percent, rounded up


class NextRelease(Row):
    """What one more release like the last that paid for itself would take of a filter budget."""

    mechanism: str
    position: int
    divergence: Amount  # what it took
    tail: Amount  # what it took
    share: float  # of the whole budget, the larger of both
    share_shown: str  # in percent, rounded up
    fit: int  # how many more of them fit, counted up to a million


class DatasetPage(Page):
    """A data set."""

    budget: BudgetRow  # what is spent of what
    # what one more like the last would take of a filter budget; None elsewhere, and before the first
    next_release: NextRelease | None
    relation: str  # the neighbouring relation of its prices
    survey_rate: str | None  # rate of its own sampling where that is part of the price, else None
    rows_per_person: int  # the most records that one person has
    added: str  # the day of its registration
    raises: tuple[RaiseRow, ...]  # of its budget; the latest ones, in the order of the chain
    private_looks: tuple[int, ...]  # looks at its records outside any release; the latest ones
    private_looks_in_all: int  # how many there were
    epsilon_estimate: Amount | None = None  # the composed estimate now, None where there is none
    estimate_note: str  # what the estimate is
    computing: bool = False
    timeline: tuple[TimelinePoint, ...] = ()  # the account's changes, or some spread evenly; none of a filter budget
    shares: tuple[SharePoint, ...] = ()  # the same of a filter budget; none of an additive one
    changes_in_all: int  # how many there were
    series: tuple[SeriesRow, ...]  # the latest first
    releases: tuple[ReleaseRow, ...]
    older: int | None

    @property
    def table(self) -> tuple[Any, ...]:
        """The account's changes."""
        return self.shares or self.timeline


def dataset_page(page_request: OneState, position: Position, before: Before = None) -> DatasetPage:
    """A data set, by the place of its registration."""
    known = dataset_at(page_request, position)
    added, name, state = known.added, known.added.dataset, page_request.state
    looks = [place for place, look in state.looks if look.dataset == name]
    raises = [(place, raised) for place, raised in state.raises if raised.dataset == name]
    changes, in_all = changes_of(page_request.followed, known)
    if isinstance(added, FilterDatasetAdded):
        account: dict[str, Any] = {"shares": shares_of(page_request, changes)}
    else:
        timeline, computing = timeline_of(page_request, added, changes)
        answer = estimate_of(page_request, added, changes[-1], wait=SECONDS_TO_WAIT)
        account = {"timeline": timeline, "computing": computing or answer.pending}
        account["epsilon_estimate"] = epsilon_of(answer)
    found = page_request.releases(dataset=name, before=before, limit=ROWS_A_PAGE + 1)
    return DatasetPage.of(
        added,
        frame=page_request.frame(),
        budget=_budget_row(known),
        next_release=_next_release(page_request, known),
        survey_rate=None if added.survey_rate is None else amount_text(added.survey_rate),
        added=added.day,
        raises=tuple(RaiseRow.of(raised, position=place) for place, raised in raises[-MOST_RAISES:]),
        private_looks=tuple(looks[-MOST_LOOKS:]),
        private_looks_in_all=len(looks),
        **account,
        estimate_note=ESTIMATE_NOTE,
        changes_in_all=in_all,
        series=tuple(_series(page_request, name)),
        releases=release_rows(page_request, found[:ROWS_A_PAGE]),
        older=found[ROWS_A_PAGE - 1].position if len(found) > ROWS_A_PAGE else None,
    )


def dataset_at(page_request: PageRequest, position: int) -> Dataset:
    """Return the data set that an entry registers."""
    found = next((known for known in page_request.state.datasets.values() if known.position == position), None)
    if found is None:
        raise InputRefused("This entry registers no data set.", where=f"entry {position}", not_done="")
    return found


def _series(page_request: PageRequest, name: str) -> Iterator[SeriesRow]:
    own = (known for known in reversed(page_request.state.series.values()) if known.registered.dataset == name)
    for one in map(SeriesState.of, islice(own, MOST_SERIES)):
        registered, mixed = one.registered, one.registered.mixed
        free = mixed is None and isinstance(registered, FreeSeriesRegistered)
        freedom = "; each has its own columns, and may have a higher k or a lower rate" if free else ""
        parts = () if mixed is None else zip(mixed.each, one.taken_of_parts, strict=True)
        yield SeriesRow.of(
            registered.price,
            one,
            registered,
            mechanism=mechanism_label(dict(registered.mechanism)) + freedom,
            parts=tuple(
                f"part {n}: {part}, {taken} of {part.releases} taken" for n, (part, taken) in enumerate(parts, start=1)
            ),
        )


DATASETS_A_PAGE = 50
LATEST = 8


class OverviewPage(Page):
    """The overview, with the latest releases and refusals."""

    TABLE = "datasets"
    datasets: tuple[BudgetRow, ...]  # their budgets, in the order of their registration
    datasets_in_all: int  # how many there are
    releases: tuple[ReleaseRow, ...]
    releases_in_all: int
    refusals: tuple[RefusalRow, ...]
    more: int | None  # where the next page of data sets begins, None on the last


def overview_page(page_request: OneState, after: After = None) -> OverviewPage:
    """Every data set with its budget, the latest releases and refusals."""
    state = page_request.state
    found = [known for known in state.datasets.values() if after is None or known.position > after]
    return OverviewPage(
        frame=page_request.frame(),
        datasets=tuple(map(_budget_row, found[:DATASETS_A_PAGE])),
        datasets_in_all=len(state.datasets),
        releases=release_rows(page_request, page_request.releases(before=None, limit=LATEST)),
        releases_in_all=len(state.releases),
        refusals=refusal_rows(page_request, [position for position, _ in page_request.refusals()[:LATEST]]),
        more=found[DATASETS_A_PAGE - 1].position if len(found) > DATASETS_A_PAGE else None,
    )


def _budget_row(known: Dataset) -> BudgetRow:
    added, account = known.added, known.account
    filtered = isinstance(added, FilterDatasetAdded)
    additive, divergences = ((), account) if filtered else ((account,), None)
    return BudgetRow.of(
        added,
        *additive,
        position=known.position,
        accounting="filter" if filtered else "additive",
        epsilon_budget=added.epsilon if filtered else account.epsilon_budget,
        delta_budget=added.delta if filtered else account.delta_budget,
        epsilon_share=_share(account.epsilon_spent, account.epsilon_budget),
        delta_share=_share(account.delta_spent, account.delta_budget),
        order=amount_text(added.accounting.order) if isinstance(added, FilterDatasetAdded) else None,
        divergence_spent=getattr(divergences, "epsilon_spent", None),
        divergence_budget=getattr(divergences, "epsilon_budget", None),
        tail_spent=getattr(divergences, "delta_spent", None),
        tail_budget=getattr(divergences, "delta_budget", None),
        spent_share=float(account.spent_share),
        spent_shown=share_shown(account.spent_share),
    )


MOST_LOOKED_AT = 50
MOST_COUNTED = 1_000_000


def _next_release(page_request: PageRequest, known: Dataset) -> NextRelease | None:
    """What one more release like the last that paid for itself would take, and how many of them fit."""
    if not isinstance(known.added, FilterDatasetAdded):
        return None
    latest = page_request.releases(dataset=known.added.dataset, before=None, limit=MOST_LOOKED_AT)
    if (last := next((one for one in latest if one.series is None), None)) is None:
        return None
    charge = page_request.entries_of(ReleaseCharged, [last.position])[last.position]
    account, divergence, tail = known.account, Decimal(last.epsilon), Decimal(last.delta)
    once = replace(account, epsilon_spent=divergence, delta_spent=tail)
    sums = ((account.epsilon_left, divergence), (account.delta_left, tail))
    return NextRelease.of(
        last,
        mechanism=mechanism_label(dict(charge.mechanism)),
        divergence=divergence,
        tail=tail,
        share=float(once.spent_share),
        share_shown=share_shown(once.spent_share),
        fit=min(times_in(left, each, most=MOST_COUNTED) for left, each in sums),
    )


def _share(spent: Decimal, budget: Decimal) -> float:
    if budget > 0:
        return round(float(spent / budget), 4)
    return 0.0 if spent == 0 else 2.0
