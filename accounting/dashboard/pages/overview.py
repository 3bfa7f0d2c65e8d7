"""The overview of all data sets, and the page of one: its budget over time, its series, its releases."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice

from ....mechanisms.amounts import share_shown, times_in
from ....mechanisms.errors import InputRefused
from ...ledger.entries.kinds import (
    BudgetRaised,
    DatasetAdded,
    FilterDatasetAdded,
    FreeSeriesRegistered,
    ReleaseCharged,
    SeriesRegistered,
)
from ...ledger.entries.values import Account, amount_text
from ...ledger.overview import ESTIMATE_NOTE
from ..views.pictures import SharePoint, Timeline, TimelinePoint, epsilon_of, estimate_of, shares_of, timeline_of
from ..views.rows import Amount, ReleaseRow, amount, amount_or_none, mechanism_label, release_rows
from ..views.state import LedgerView, PageHeader, PageRequest
from ..work import Answer
from .samples import RefusalRow, refusal_rows

__all__ = [
    "BudgetRow",
    "DatasetPage",
    "NextRelease",
    "OverviewPage",
    "RaiseRow",
    "SeriesRow",
    "dataset_page",
    "overview_page",
]

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
        parts: of a series of different mechanisms, each with how many of its places are taken; none of another.
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
    parts: tuple[str, ...]


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
        next_release: what one more like the last would take of a filter budget; None elsewhere, and before the first.
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
        timeline: the account's changes, or some of them spread evenly; none of a filter budget.
        shares: the same of a filter budget; none of an additive one.
        changes_in_all: how many there were.
        series: the latest first.
        releases: the latest first.
        older: what to ask for to see the releases before, None on the last page.
    """

    frame: PageHeader
    budget: BudgetRow
    next_release: NextRelease | None
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
    shares: tuple[SharePoint, ...]
    changes_in_all: int
    series: tuple[SeriesRow, ...]
    releases: tuple[ReleaseRow, ...]
    older: int | None


def dataset_page(page_request: PageRequest, position: int, *, before: int | None) -> DatasetPage:
    """Build the page of the data set that an entry registers, with its releases before a place.

    Raises:
        InputRefused: that entry registers none.
    """
    view = page_request.view
    registration = view.entries([position]).get(position)
    if registration is None or not isinstance(registration.entry, DatasetAdded):
        raise InputRefused("This entry registers no data set.", where=f"entry {position}", not_done="")
    added = registration.entry
    name = added.dataset
    last = view.last_change(name)
    looks = page_request.dashboard.follower.looks(name, up_to=view.head.position)
    timeline, estimate = Timeline(points=(), computing=False), Answer(found=None, why_not="")
    shares: tuple[SharePoint, ...] = ()
    if isinstance(added, FilterDatasetAdded):
        shares = shares_of(page_request, added, last=last)
    else:
        timeline = timeline_of(page_request, added, last=last)
        estimate = estimate_of(page_request, added, last.position, last.account, wait=SECONDS_TO_WAIT)
    found = view.releases(name=name, before=before, limit=ROWS_A_PAGE + 1)
    return DatasetPage(
        frame=page_request.frame(),
        budget=budget_row(added, position, last.account),
        next_release=_next_release(view, added, last.account),
        relation=added.relation,
        survey_rate=None if added.survey_rate is None else amount_text(added.survey_rate),
        rows_per_person=added.rows_per_person,
        added=added.day.isoformat(),
        raises=_raises(page_request, name),
        private_looks=tuple(place for place, _ in looks[-MOST_LOOKS:]),
        private_looks_in_all=len(looks),
        epsilon_estimate=epsilon_of(estimate),
        estimate_note=ESTIMATE_NOTE,
        computing=timeline.computing or estimate.pending,
        timeline=timeline.points,
        shares=shares,
        changes_in_all=last.sequence + 1,
        series=_series(view, name),
        releases=release_rows(view, found[:ROWS_A_PAGE]),
        older=found[ROWS_A_PAGE - 1] if len(found) > ROWS_A_PAGE else None,
    )


def _raises(page_request: PageRequest, name: str) -> tuple[RaiseRow, ...]:
    places = page_request.dashboard.follower.raises(name, up_to=page_request.view.head.position)[-MOST_RAISES:]
    return tuple(
        RaiseRow(
            epsilon=amount(raised.epsilon),
            delta=amount(raised.delta),
            reason=raised.reason,
            by=raised.by,
            day=raised.day.isoformat(),
            position=position,
        )
        for position, raised in page_request.view.entries_of(BudgetRaised, places).items()
    )


def _series(view: LedgerView, name: str) -> tuple[SeriesRow, ...]:
    found = {position: taken for _, position, taken in view.series_of(name, limit=MOST_SERIES)}
    return tuple(
        SeriesRow(
            series=registered.series,
            mechanism=mechanism_label(dict(registered.mechanism)) + _freedom(registered),
            releases=registered.price.releases,
            taken=found[position],
            remaining=registered.price.releases - found[position],
            epsilon=amount(registered.price.epsilon),
            delta=amount(registered.price.delta),
            epsilon_paper=amount_or_none(registered.epsilon_paper),
            day=registered.day.isoformat(),
            position=position,
            parts=_parts(view, registered),
        )
        for position, registered in sorted(view.entries_of(SeriesRegistered, found).items(), reverse=True)
    )


def _parts(view: LedgerView, registered: SeriesRegistered) -> tuple[str, ...]:
    """Each part of a series of different mechanisms, and how many of its places are taken."""
    if (mixed := registered.mixed) is None:
        return ()
    taken = Counter(mixed.part_of(number) for number in view.numbers_taken(registered.series))
    return tuple(
        f"part {number}: {part}, {taken[number]} of {part.releases} taken"
        for number, part in enumerate(mixed.each, start=1)
    )


def _freedom(registered: SeriesRegistered) -> str:
    """What the releases of a series may have of their own, after its mechanism."""
    if registered.mixed is not None or not isinstance(registered, FreeSeriesRegistered):
        return ""
    return "; each has its own columns, and may have a higher k or a lower rate"


DATASETS_A_PAGE = 50
LATEST = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRow:
    """A data set and its budget.

    Args:
        dataset: its name.
        position: where it is registered; its page's permanent address.
        accounting: "additive", or "filter".
        epsilon_spent: sum of the ε charged and not given back; None of a filter budget, which adds up divergences.
        epsilon_budget: the most that it may become; of a filter budget what all releases together keep.
        epsilon_left: the difference, 0 where the budget is passed; None of a filter budget.
        delta_spent: the same of δ.
        delta_budget: the same of δ.
        delta_left: the same of δ.
        epsilon_share: spent of the budget, 0 to 1 and above where it is passed; of a filter budget by its divergences.
        delta_share: the same of δ; of a filter budget by its tails.
        order: α of a filter budget, fixed with it; None of an additive one, as all that follows but the share.
        divergence_spent: sum of the divergences charged and not given back.
        divergence_budget: the most that it may become.
        tail_spent: the same of the tails.
        tail_budget: the most that they may become.
        spent_share: the larger of both shares.
        spent_shown: in percent, rounded up.
    """

    dataset: str
    position: int
    accounting: str
    epsilon_spent: Amount | None
    epsilon_budget: Amount
    epsilon_left: Amount | None
    delta_spent: Amount | None
    delta_budget: Amount
    delta_left: Amount | None
    epsilon_share: float
    delta_share: float
    order: str | None
    divergence_spent: Amount | None
    divergence_budget: Amount | None
    tail_spent: Amount | None
    tail_budget: Amount | None
    spent_share: float
    spent_shown: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NextRelease:
    """What one more release like the last would take of a filter budget.

    Args:
        mechanism: of the last release that paid for itself.
        position: of its charge.
        divergence: what it took.
        tail: what it took.
        share: of the whole budget, the larger of both.
        share_shown: in percent, rounded up.
        fit: how many more of them fit, counted up to a million.
    """

    mechanism: str
    position: int
    divergence: Amount
    tail: Amount
    share: float
    share_shown: str
    fit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewPage:
    """The overview.

    Args:
        frame: of the ledger.
        datasets: their budgets, in the order of their registration.
        datasets_in_all: how many there are.
        releases: the latest.
        releases_in_all: how many there are.
        refusals: the latest.
        more: where the next page of data sets begins, None on the last.
    """

    frame: PageHeader
    datasets: tuple[BudgetRow, ...]
    datasets_in_all: int
    releases: tuple[ReleaseRow, ...]
    releases_in_all: int
    refusals: tuple[RefusalRow, ...]
    more: int | None


def overview_page(page_request: PageRequest, *, after: int | None) -> OverviewPage:
    """Build the overview of the data sets registered after a place."""
    view = page_request.view
    found = view.datasets(after=-1 if after is None else after, limit=DATASETS_A_PAGE + 1)
    added = view.entries_of(DatasetAdded, [position for _, position in found[:DATASETS_A_PAGE]])
    latest = islice(page_request.dashboard.follower.refusals(up_to=view.head.position), LATEST)
    return OverviewPage(
        frame=page_request.frame(),
        datasets=tuple(
            budget_row(one, position, view.last_change(one.dataset).account) for position, one in added.items()
        ),
        datasets_in_all=view.count("dataset"),
        releases=release_rows(view, view.releases(name=None, before=None, limit=LATEST)),
        releases_in_all=view.count("release"),
        refusals=refusal_rows(view, [refusal.position for refusal in latest]),
        more=found[DATASETS_A_PAGE - 1][1] if len(found) > DATASETS_A_PAGE else None,
    )


def budget_row(added: DatasetAdded, position: int, account: Account) -> BudgetRow:
    """A data set's budget as a row."""
    row = BudgetRow(
        dataset=added.dataset,
        position=position,
        accounting="additive",
        epsilon_spent=amount(account.epsilon_spent),
        epsilon_budget=amount(account.epsilon_budget),
        epsilon_left=amount(account.epsilon_left),
        delta_spent=amount(account.delta_spent),
        delta_budget=amount(account.delta_budget),
        delta_left=amount(account.delta_left),
        epsilon_share=_share(account.epsilon_spent, account.epsilon_budget),
        delta_share=_share(account.delta_spent, account.delta_budget),
        order=None,
        divergence_spent=None,
        divergence_budget=None,
        tail_spent=None,
        tail_budget=None,
        spent_share=float(account.spent_share),
        spent_shown=share_shown(account.spent_share),
    )
    if not isinstance(added, FilterDatasetAdded):
        return row
    return replace(
        row,
        accounting="filter",
        epsilon_spent=None,
        epsilon_budget=amount(added.epsilon),
        epsilon_left=None,
        delta_spent=None,
        delta_budget=amount(added.delta),
        delta_left=None,
        order=amount_text(added.accounting.order),
        divergence_spent=amount(account.epsilon_spent),
        divergence_budget=amount(account.epsilon_budget),
        tail_spent=amount(account.delta_spent),
        tail_budget=amount(account.delta_budget),
    )


MOST_LOOKED_AT = 50
MOST_COUNTED = 1_000_000


def _next_release(view: LedgerView, added: DatasetAdded, account: Account) -> NextRelease | None:
    """What one more release like the last that paid for itself would take, and how many of them fit."""
    if not isinstance(added, FilterDatasetAdded):
        return None
    places = view.releases(name=added.dataset, before=None, limit=MOST_LOOKED_AT)
    for position, charge in sorted(view.entries_of(ReleaseCharged, places).items(), reverse=True):
        if (taken := charge.of_filter) is not None:
            once = Account(
                epsilon_spent=taken.divergence,
                delta_spent=taken.tail,
                epsilon_budget=account.epsilon_budget,
                delta_budget=account.delta_budget,
            )
            sums = ((account.epsilon_left, taken.divergence), (account.delta_left, taken.tail))
            return NextRelease(
                mechanism=mechanism_label(dict(charge.mechanism)),
                position=position,
                divergence=amount(taken.divergence),
                tail=amount(taken.tail),
                share=float(once.spent_share),
                share_shown=share_shown(once.spent_share),
                fit=min(times_in(left, each, most=MOST_COUNTED) for left, each in sums),
            )
    return None


def _share(spent: Decimal, budget: Decimal) -> float:
    if budget > 0:
        return round(float(spent / budget), 4)
    return 0.0 if spent == 0 else 2.0
