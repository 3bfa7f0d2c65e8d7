"""The pages' pictures: budget bars, an account over time, and the ε–δ curve of one release with its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from markupsafe import Markup

from ....mechanisms.amounts import amount_shown, share_shown
from ....mechanisms.errors import InputRefused
from ...ledger.entries.kinds import DatasetAdded, FilterDatasetAdded
from ...ledger.entries.values import Account, amount_text
from ...theory.kinds.registry import kind_of_record
from ..charts import (
    Axis,
    BarRow,
    Legend,
    area,
    bar_chart,
    dot,
    line,
    line_chart,
    linear_axis,
    log_axis,
    share_bar,
    steps,
)
from ..work import Answer, JobQueue
from .rows import Amount, amount, amount_or_none, day_of
from .state import AccountChange, PageRequest

__all__ = [
    "ChangeRow",
    "Curve",
    "CurvePoint",
    "LastingRow",
    "SharePoint",
    "Timeline",
    "TimelinePoint",
    "budget_bar",
    "change_picture",
    "curve_of",
    "curve_picture",
    "epsilon_of",
    "estimate_of",
    "lasting_picture",
    "shares_of",
    "shares_picture",
    "timeline_of",
    "timeline_picture",
]

SECONDS_TO_WAIT = 0.5
LARGEST_K = 10_000
FOR_SEVERAL_RECORDS = (
    "No curve is drawn where a person may have several records: the profile is that of one record, and its price is "
    "carried over to several by group privacy."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """One point of the curve; both δ are upper bounds.

    Args:
        epsilon: ε.
        delta_exact: δ by the exact profile.
        delta_paper: δ by the paper's theorem; None where that proves nothing.
    """

    epsilon: float
    delta_exact: float
    delta_paper: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A release's ε–δ curve.

    Args:
        points: by rising ε; none where the curve isn't there.
        theorem: of Li, Qardaji, Su, arXiv:1101.2604v2, that gives the paper's δ.
        why_not: why there is no curve; None where it is there.
        computing: whether it is being computed; ask again for it.
    """

    points: tuple[CurvePoint, ...]
    theorem: str
    why_not: str | None
    computing: bool


def curve_of(mechanism: Mapping[str, str | int], *, rows_per_person: int, delta: str, queue: JobQueue) -> Curve:
    """The curve of a mechanism's record.

    Args:
        mechanism: the record, as the ledger has it.
        rows_per_person: the most records of one person.
        delta: the δ that the picture must show.
        queue: computes it.
    """
    try:
        curves = kind_of_record(mechanism.get("kind")).curves
    except InputRefused:
        curves = None
    theorem = "" if curves is None else curves.theorem
    k = mechanism.get("k")
    if rows_per_person != 1:
        why_not = FOR_SEVERAL_RECORDS
    elif not theorem:
        why_not = "No curve is known for this kind of mechanism."
    elif not isinstance(k, int) or k > LARGEST_K:
        why_not = f"No curve is drawn for a k above {LARGEST_K}."
    else:
        answer = queue.ask("curve", {"mechanism": dict(mechanism), "delta": delta}, wait=SECONDS_TO_WAIT)
        if answer.found is None:
            return Curve(points=(), theorem=theorem, why_not=answer.why_not, computing=answer.pending)
        found = answer.found
        points = tuple(
            CurvePoint(epsilon=epsilon, delta_exact=exact, delta_paper=paper)
            for epsilon, exact, paper in zip(found["epsilons"], found["exact"], found["paper"], strict=True)
        )
        return Curve(points=points, theorem=theorem, why_not=None, computing=False)
    return Curve(points=(), theorem=theorem, why_not=why_not, computing=False)


def estimate_of(
    page_request: PageRequest, added: DatasetAdded, position: int, account: Account, *, wait: float
) -> Answer:
    """What the queue knows of the estimate by now.

    Args:
        page_request: the ledger.
        added: the data set.
        position: the entry after which the account is.
        account: what is spent and what may be.
        wait: seconds to wait for an answer.
    """
    charged = page_request.dashboard.follower.payments(added.dataset, up_to=position)
    amounts = {
        part: amount_text(getattr(account, part))
        for part in ("epsilon_spent", "delta_spent", "epsilon_budget", "delta_budget")
    }
    counted = sorted([list(mechanism), times] for mechanism, times in charged.items())
    asked = {"charged": counted, "account": amounts, "rows_per_person": added.rows_per_person}
    return page_request.dashboard.queue.ask("estimate", asked, wait=wait)


def epsilon_of(answer: Answer) -> Amount | None:
    """The estimated ε, None where there is none or it is still being computed."""
    if answer.found is None or answer.found["epsilon"] is None:
        return None
    return amount(Decimal(answer.found["epsilon"]))


MOST_POINTS = 48
MOST_COMPOSED = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelinePoint:
    """The account after one change.

    Args:
        change: how many changes came before.
        position: the entry that changed it.
        day: when, None where the entry bears none.
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
class Timeline:
    """An account's changes, or some of them spread evenly.

    Args:
        points: in the order of the chain.
        computing: whether estimates are still being computed.
    """

    points: tuple[TimelinePoint, ...]
    computing: bool


def timeline_of(page_request: PageRequest, added: DatasetAdded, *, last: AccountChange) -> Timeline:
    """The changes of a data set's account up to its last."""
    changes = page_request.view.changes(added.dataset, last=last, most=MOST_POINTS)
    places = tuple(change.position for change in changes)
    stored = page_request.view.entries(places)
    papers = page_request.dashboard.follower.paper_spent(added.dataset, up_to=places)
    step = max(1, -(-len(changes) // MOST_COMPOSED))
    points: list[TimelinePoint] = []
    computing = False
    for number, (change, paper) in enumerate(zip(changes, papers, strict=True)):
        composed = None
        if (len(changes) - 1 - number) % step == 0:
            answer = estimate_of(page_request, added, change.position, change.account, wait=0.0)
            composed, computing = epsilon_of(answer), computing or answer.pending
        points.append(
            TimelinePoint(
                change=change.sequence,
                position=change.position,
                day=day_of(stored[change.position].entry),
                epsilon_spent=amount(change.account.epsilon_spent),
                epsilon_budget=amount(change.account.epsilon_budget),
                delta_spent=amount(change.account.delta_spent),
                epsilon_composed=composed,
                epsilon_paper=amount_or_none(paper),
            )
        )
    return Timeline(points=tuple(points), computing=computing)


@dataclass(frozen=True, kw_only=True, slots=True)
class SharePoint:
    """A filter budget after one change.

    Args:
        change: how many changes came before.
        position: the entry that changed it.
        day: when, None where the entry bears none.
        divergence: sum of what was charged and not given back.
        tail: the same of the tails.
        share: spent of the budget, the larger of both, 0 to 1 and above where it is passed.
        share_shown: in percent, rounded up.
    """

    change: int
    position: int
    day: str | None
    divergence: Amount
    tail: Amount
    share: float
    share_shown: str


def shares_of(page_request: PageRequest, added: FilterDatasetAdded, *, last: AccountChange) -> tuple[SharePoint, ...]:
    """The changes of a filter data set's account up to its last, or some of them spread evenly."""
    changes = page_request.view.changes(added.dataset, last=last, most=MOST_POINTS)
    stored = page_request.view.entries(change.position for change in changes)
    return tuple(
        SharePoint(
            change=change.sequence,
            position=change.position,
            day=day_of(stored[change.position].entry),
            divergence=amount(change.account.epsilon_spent),
            tail=amount(change.account.delta_spent),
            share=float(change.account.spent_share),
            share_shown=share_shown(change.account.spent_share),
        )
        for change in changes
    )


LEAST_DELTA = 1e-30
MOST_LABELS = 5


def budget_bar(share: float, *, label: str) -> Markup:
    """How much of a budget is spent.

    Args:
        share: spent of the budget, 0 to 1; more is drawn as full, in the colour of a fault.
        label: what stands for the bar where it isn't page_request.
    """
    return share_bar(share, label=label, style="over" if share > 1 else "high" if share >= 0.8 else "low")


def timeline_picture(points: Sequence[TimelinePoint]) -> Markup:
    """A data set's ε over its account's changes: charged, composed, by the paper, against the budget."""
    last = points[-1]
    budgets = [(float(point.change), float(point.epsilon_budget.exact)) for point in points]
    charged = [(float(point.change), float(point.epsilon_spent.exact)) for point in points]
    composed = [
        (float(point.change), float(point.epsilon_composed.exact))
        for point in points
        if point.epsilon_composed is not None
    ]
    paper = [
        (float(point.change), float(point.epsilon_paper.exact)) for point in points if point.epsilon_paper is not None
    ]
    top = 1.08 * max(*(up for _, up in budgets), *(up for _, up in charged), 1e-9)
    x = _change_axis(points)
    y = linear_axis(0.0, top, name="ε", across=False)
    parts = [
        area(charged, x=x, y=y),
        steps(budgets, x=x, y=y, style="budget"),
        steps(_up_to(paper, top), x=x, y=y, style="paper"),
        line(composed, x=x, y=y, style="composed"),
        steps(charged, x=x, y=y, style="charged"),
    ]
    legends = [
        Legend(style="budget", text="budget"),
        Legend(style="charged", text="charged"),
        Legend(style="composed", text="composed (estimate)"),
        Legend(style="paper", text="by the paper's bound"),
    ]
    said = (
        f"After {last.change} changes ε = {last.epsilon_spent.shown} is charged of a budget of "
        f"{last.epsilon_budget.shown}."
    )
    if last.epsilon_composed is not None:
        said += f" Composed tightly it is estimated at {last.epsilon_composed.shown}."
    if last.epsilon_paper is not None:
        said += f" The paper's bound would have charged {last.epsilon_paper.shown}."
    return line_chart(
        parts, x=x, y=y, legends=legends, key="timeline", title="Cumulative ε against the budget", description=said
    )


def shares_picture(points: Sequence[SharePoint]) -> Markup:
    """A filter budget's spent share over its account's changes, against the whole."""
    last = points[-1]
    spent = [(float(point.change), 100 * point.share) for point in points]
    whole = [(float(point.change), 100.0) for point in points]
    x = _change_axis(points)
    y = linear_axis(0.0, 1.08 * max(100.0, *(up for _, up in spent)), name="%", across=False)
    parts = [area(spent, x=x, y=y), steps(whole, x=x, y=y, style="budget"), steps(spent, x=x, y=y, style="charged")]
    legends = [Legend(style="budget", text="filter budget"), Legend(style="charged", text="spent share of it")]
    said = f"After {last.change} changes {last.share_shown} of the filter budget is spent."
    title = "Spent share of the filter budget"
    return line_chart(parts, x=x, y=y, legends=legends, key="timeline", title=title, description=said)


def curve_picture(points: Sequence[CurvePoint], *, theorem: str, epsilon: float | None, delta: float | None) -> Markup:
    """The ε–δ curve of one release, exact and by the paper, through at least one point, and where it is charged."""
    exact = [(point.epsilon, point.delta_exact) for point in points if point.delta_exact > LEAST_DELTA]
    paper = [
        (point.epsilon, point.delta_paper)
        for point in points
        if point.delta_paper is not None and point.delta_paper > LEAST_DELTA
    ]
    values = [up for _, up in (*exact, *paper)] or [LEAST_DELTA, 1.0]
    x = linear_axis(0.0, points[-1].epsilon, name="ε", across=True)
    y = log_axis(min(values), max(values), name="δ", across=False)
    parts = [line(paper, x=x, y=y, style="paper"), line(exact, x=x, y=y, style="charged")]
    said = (
        f"δ falls from {amount_shown(points[0].delta_exact)} at ε = 0 to {amount_shown(points[-1].delta_exact)} at "
        f"ε = {amount_shown(points[-1].epsilon)} by the exact profile"
    )
    said += f"; the paper's bound lies above it, and begins at ε = {amount_shown(paper[0][0])}." if paper else "."
    legends = [Legend(style="charged", text="exact"), Legend(style="paper", text=f"paper, {theorem}")]
    if epsilon is not None and delta is not None:
        parts.append(dot(epsilon, delta, x=x, y=y, radius=5, style="dot"))
        said += f" The dot is the price: ε = {amount_shown(epsilon)}, δ = {amount_shown(delta)}."
    return line_chart(parts, x=x, y=y, legends=legends, key="curve", title="ε–δ curve of one release", description=said)


WAYS = {"filter": "filtered", "one by one": "alone", "series": "together"}
"""Way of paying → style of its bars."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LastingRow:
    """How long what is left lasts under one calendar, paid for in one way.

    Args:
        calendar: so many releases in a period.
        k: of each release.
        sampling_rate: of each release.
        way: how they are paid for.
        releases: how many fit.
        most: whether there are more, which were not counted.
        years: how long they last.
        lasts: the same for people.
        epsilon: of all of them; None of a filter, whose charges are no ε.
        delta: of all of them; None likewise.
        epsilon_each: of one of them, where they are charged one by one.
        delta_each: that each states, likewise.
        share_each: of a filter budget that one of them takes.
        limited_by: what of a filter budget is used up first, "divergence" or "tails"; None of other ways.
    """

    calendar: str
    k: int
    sampling_rate: str
    way: str
    releases: int
    most: bool
    years: float
    lasts: str
    epsilon: Amount | None
    delta: Amount | None
    epsilon_each: Amount | None
    delta_each: Amount | None
    share_each: str | None
    limited_by: str | None

    @property
    def label(self) -> str:
        """The calendar with its parameters."""
        return f"{self.calendar}, k = {self.k}, rate {self.sampling_rate}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeRow:
    """What another k or rate buys.

    Args:
        k: of each release.
        sampling_rate: of each release.
        releases: way → about how many releases fit.
    """

    k: int
    sampling_rate: str
    releases: Mapping[str, int]

    @property
    def label(self) -> str:
        """The parameters."""
        return f"k = {self.k}, rate {self.sampling_rate}"


def lasting_picture(rows: Sequence[LastingRow]) -> Markup:
    """How long a budget lasts: for each calendar a bar for each way of paying, at least one."""
    ways = tuple(dict.fromkeys(row.way for row in rows))
    by_calendar = [rows[place : place + len(ways)] for place in range(0, len(rows), len(ways))]
    bars = [
        BarRow(label=group[0].label, values=tuple(row.years for row in group), shown=tuple(row.lasts for row in group))
        for group in by_calendar
    ]
    return bar_chart(
        bars, series=[(WAYS[way], way) for way in ways], key="lasting", title="How long what is left lasts"
    )


def change_picture(rows: Sequence[ChangeRow]) -> Markup:
    """About how many releases fit with each k and rate: a bar for each way of paying."""
    bars = [
        BarRow(
            label=row.label,
            values=tuple(float(many) for many in row.releases.values()),
            shown=tuple(f"{many:,}" for many in row.releases.values()),
        )
        for row in rows
    ]
    ways = [(WAYS[way], way) for way in rows[0].releases]
    return bar_chart(bars, series=ways, key="changes", title="Releases that fit, by k and rate")


def _change_axis(points: Sequence[TimelinePoint] | Sequence[SharePoint]) -> Axis:
    """The account's changes, labelled by their days; a day is named once."""
    first, last = float(points[0].change), float(points[-1].change)
    plain = linear_axis(first, max(last, first + 1.0), name="changes of the account, by day", across=True)
    labels: list[tuple[float, str]] = []
    step = max(1, -(-len(points) // MOST_LABELS))
    for point in points[::step]:
        day = point.day or "?"
        if not labels or labels[-1][1] != day:
            labels.append((float(point.change), day))
    return replace(plain, start=plain.start + 24, end=plain.end - 24, ticks=tuple(labels))


def _up_to(points: Sequence[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """The points up to the first that lies above the picture."""
    kept: list[tuple[float, float]] = []
    for across, up in points:
        kept.append((across, min(up, top)))
        if up > top:
            break
    return kept
