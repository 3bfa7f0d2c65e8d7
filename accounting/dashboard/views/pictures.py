"""The pages' pictures: budget bars, an account over time, and the ε–δ curve of one release with its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup

from ....mechanisms.kernel.amounts import amount_shown
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.wording import share_shown
from ... import charts
from ...descriptions.description_registry import description_of_record
from ...kernel.field_forms import Fields
from ...kernel.ledger.entries import GENESIS, DatasetAdded
from ...kernel.ledger.ledger_state import Account, Dataset, LedgerState, amounts_of
from ..work import Answer, JobQueue
from .rows import Amount, Row, amount
from .state import Followed, PageRequest

SECONDS_TO_WAIT = 0.5
LARGEST_K = 10_000
FOR_SEVERAL_RECORDS = (
    "No curve is drawn where a person may have several records: the profile is that of one record, and its price is "
    "carried over to several by group privacy."
)


class CurvePoint(Row):
    """One point of the curve; both δ are upper bounds."""

    epsilon: float
    delta_exact: float  # δ by the exact profile
    delta_paper: float | None  # δ by the paper's theorem; None where that proves nothing


class Curve(Row):
    """A release's ε–δ curve."""

    points: tuple[CurvePoint, ...] = ()  # by rising ε; none where the curve isn't there
    theorem: str  # of Li, Qardaji, Su, arXiv:1101.2604v2, that gives the paper's δ
    why_not: str | None = None
    computing: bool = False


def curve_of(mechanism: Mapping[str, str | int], *, rows_per_person: int, delta: str, queue: JobQueue) -> Curve:
    """Return the curve of a mechanism's record, down to a δ that the picture must show; the queue computes it."""
    try:
        curves = description_of_record(mechanism.get("kind")).curves
    except InputRefused:
        curves = None
    theorem, k = "" if curves is None else curves.theorem, mechanism.get("k")
    if rows_per_person != 1:
        return Curve(theorem=theorem, why_not=FOR_SEVERAL_RECORDS)
    if not theorem:
        return Curve(theorem=theorem, why_not="No curve is known for this kind of mechanism.")
    if not isinstance(k, int) or k > LARGEST_K:
        return Curve(theorem=theorem, why_not=f"No curve is drawn for a k above {LARGEST_K}.")
    answer = queue.ask("curve", {"mechanism": dict(mechanism), "delta": delta}, wait=SECONDS_TO_WAIT)
    if (found := answer.found) is None:
        return Curve(theorem=theorem, why_not=answer.why_not, computing=answer.pending)
    return Curve(points=tuple(CurvePoint(**one) for one in found["points"]), theorem=theorem)


MOST_POINTS = 48
MOST_COMPOSED = 12


class Change(NamedTuple):
    """A data set's account after one change."""

    change: int  # how many changes came before
    position: int  # the entry that changed it
    account: Account  # the account
    paid: Counter[Fields]  # mechanism → releases of it that are paid for and not given back
    paper: Decimal | None  # ε by the published bound; None from the first payment on for which it gives no guarantee


def changes_of(followed: Followed, known: Dataset, *, most: int = MOST_POINTS) -> tuple[tuple[Change, ...], int]:
    """Return the changes of a data set's account, and how many there are in all.

    Of more than the most that are wanted some are returned, spread evenly; the first and the last are among them.
    """
    state, name, begun = followed.state, known.added.dataset, LedgerState()
    begun.apply(known.added, GENESIS)
    payments: dict[int, tuple[Decimal, Decimal, Fields, int, Decimal | None]] = {}
    for registered, position in ((one.registered, one.position) for one in state.series.values()):
        if registered.dataset == name:
            amounts = amounts_of(registered.price, registered.of_filter)
            bought = registered.mechanism, registered.price.releases, registered.epsilon_paper
            payments[position] = (*amounts, *bought)
    for release in (state.releases[release_id] for release_id in known.releases):
        if release.series is None:
            amounts = Decimal(release.epsilon), Decimal(release.delta)
            mechanism, more = followed.own[release.release_id]
            payments[release.position] = (*amounts, mechanism, 1, more)
            if release.refunded and release.closed is not None:
                payments[release.closed] = (*amounts, mechanism, -1, None if more is None else -more)
    raises = {position: raised for position, raised in state.raises if raised.dataset == name}
    places = sorted({known.position, *payments, *raises})
    last = len(places) - 1
    step = max(1, -(-last // max(1, most - 1)))
    account, paid, found = begun.datasets[name].account, Counter[Fields](), []
    paper: Decimal | None = Decimal(0)
    for number, place in enumerate(places):
        if place in raises:
            budget = raises[place]
            account = replace(account, epsilon_budget=budget.epsilon, delta_budget=budget.delta)
        elif place in payments:
            epsilon, delta, mechanism, times, more = payments[place]
            account = (account.charged if times > 0 else account.refunded)(epsilon=epsilon, delta=delta)
            paid[mechanism] += times
            paper = None if paper is None or more is None else paper + more
        if number % step == 0 or number == last:
            found.append(Change(change=number, position=place, account=account, paid=+paid, paper=paper))
    return tuple(found), len(places)


def estimate_of(page_request: PageRequest, added: DatasetAdded, change: Change, *, wait: float) -> Answer:
    """Return what the queue knows of the composed estimate after a change, having waited some seconds."""
    asked = {"charged": change.paid, "account": change.account, "rows_per_person": added.rows_per_person}
    return page_request.dashboard.queue.ask("estimate", asked, wait=wait)


def epsilon_of(answer: Answer) -> Amount | None:
    """Return the estimated ε, None where there is none or it is still being computed."""
    epsilon = None if answer.found is None else answer.found["epsilon"]
    return None if epsilon is None else amount(epsilon)


def _days(page_request: PageRequest, changes: Sequence[Change]) -> list[str | None]:
    stored = page_request.entries(change.position for change in changes)
    return [getattr(stored[change.position].entry, "day", None) for change in changes]


class TimelinePoint(Row):
    """The account after one change."""

    change: int  # how many changes came before
    position: int
    day: str | None
    epsilon_spent: Amount  # charged and not given back: this counts
    epsilon_budget: Amount  # the most that it may become
    delta_spent: Amount  # the same of δ
    epsilon_composed: Amount | None  # the composed estimate; None where it isn't computed for this point
    epsilon_paper: Amount | None  # what the published bound would have charged; None where it gives no guarantee


def timeline_of(
    page_request: PageRequest, added: DatasetAdded, changes: Sequence[Change]
) -> tuple[tuple[TimelinePoint, ...], bool]:
    """Return changes of a data set's account, and whether estimates of them are still being computed."""
    step = max(1, -(-len(changes) // MOST_COMPOSED))
    some = changes[(len(changes) - 1) % step :: step]
    composed = {change.change: estimate_of(page_request, added, change, wait=0.0) for change in some}
    points = tuple(
        TimelinePoint.of(
            change.account,
            change,
            day=day,
            epsilon_composed=epsilon_of(composed.get(change.change, Answer())),
            epsilon_paper=change.paper,
        )
        for change, day in zip(changes, _days(page_request, changes), strict=True)
    )
    return points, any(answer.pending for answer in composed.values())


class SharePoint(Row):
    """A filter budget after one change."""

    change: int  # how many changes came before
    position: int
    day: str | None
    divergence: Amount  # sum of what was charged and not given back
    tail: Amount  # the same of the tails
    share: float  # spent of the budget, the larger of both, 0 to 1 and above where it is passed
    share_shown: str  # in percent, rounded up


def shares_of(page_request: PageRequest, changes: Sequence[Change]) -> tuple[SharePoint, ...]:
    """Return changes of a filter data set's account."""
    return tuple(
        SharePoint.of(
            change,
            day=day,
            divergence=change.account.epsilon_spent,
            tail=change.account.delta_spent,
            share=float(change.account.spent_share),
            share_shown=share_shown(change.account.spent_share),
        )
        for change, day in zip(changes, _days(page_request, changes), strict=True)
    )


LEAST_DELTA = 1e-30
MOST_LABELS = 5


def budget_bar(share: float, *, label: str) -> Markup:
    """Return how much of a budget is spent, 0 to 1; more is drawn as full, in the colour of a fault."""
    return charts.share_bar(share, label=label, style="over" if share > 1 else "high" if share >= 0.8 else "low")


def timeline_picture(points: Sequence[TimelinePoint]) -> Markup:
    """Return a data set's ε over its account's changes: charged, composed, by the paper, against the budget."""

    def series(name: str) -> list[tuple[float, float]]:
        known = ((point.change, getattr(point, name)) for point in points)
        return [(float(change), float(value.exact)) for change, value in known if value is not None]

    last, charged, budgets = points[-1], series("epsilon_spent"), series("epsilon_budget")
    top = 1.08 * max(*(up for _, up in (*budgets, *charged)), 1e-9)
    x, y = _change_axis(points), charts.linear_axis(0.0, top, name="ε", across=False)
    parts = [
        charts.area(charged, x=x, y=y),
        charts.steps(budgets, x=x, y=y, style="budget"),
        charts.steps(_up_to(series("epsilon_paper"), top), x=x, y=y, style="paper"),
        charts.line(series("epsilon_composed"), x=x, y=y, style="composed"),
        charts.steps(charged, x=x, y=y, style="charged"),
    ]
    names = {"composed": "composed (estimate)", "paper": "by the paper's bound"}
    legends = [charts.Legend(style=one, text=names.get(one, one)) for one in ("budget", "charged", "composed", "paper")]
    budget = last.epsilon_budget.shown
    said = f"After {last.change} changes ε = {last.epsilon_spent.shown} is charged of a budget of {budget}."
    if last.epsilon_composed is not None:
        said += f" Composed tightly it is estimated at {last.epsilon_composed.shown}."
    if last.epsilon_paper is not None:
        said += f" The paper's bound would have charged {last.epsilon_paper.shown}."
    title = "Cumulative ε against the budget"
    return charts.line_chart(parts, x=x, y=y, legends=legends, key="timeline", title=title, description=said)


def shares_picture(points: Sequence[SharePoint]) -> Markup:
    """Return a filter budget's spent share over its account's changes, against the whole."""
    last = points[-1]
    spent = [(float(point.change), 100 * point.share) for point in points]
    whole = [(float(point.change), 100.0) for point in points]
    top = 1.08 * max(100.0, *(up for _, up in spent))
    x, y = _change_axis(points), charts.linear_axis(0.0, top, name="%", across=False)
    parts = [
        charts.area(spent, x=x, y=y),
        charts.steps(whole, x=x, y=y, style="budget"),
        charts.steps(spent, x=x, y=y, style="charged"),
    ]
    legends = [
        charts.Legend(style="budget", text="filter budget"),
        charts.Legend(style="charged", text="spent share of it"),
    ]
    said = f"After {last.change} changes {last.share_shown} of the filter budget is spent."
    title = "Spent share of the filter budget"
    return charts.line_chart(parts, x=x, y=y, legends=legends, key="timeline", title=title, description=said)


def curve_picture(points: Sequence[CurvePoint], *, theorem: str, epsilon: float | None, delta: float | None) -> Markup:
    """The ε–δ curve of one release, exact and by the paper, through at least one point, and where it is charged."""
    exact = [(point.epsilon, point.delta_exact) for point in points if point.delta_exact > LEAST_DELTA]
    paper = [(point.epsilon, known) for point in points if (known := point.delta_paper or 0.0) > LEAST_DELTA]
    values = [up for _, up in (*exact, *paper)] or [LEAST_DELTA, 1.0]
    x = charts.linear_axis(0.0, points[-1].epsilon, name="ε", across=True)
    y = charts.log_axis(min(values), max(values), name="δ", across=False)
    parts = [charts.line(paper, x=x, y=y, style="paper"), charts.line(exact, x=x, y=y, style="charged")]
    first, last = amount_shown(points[0].delta_exact), amount_shown(points[-1].delta_exact)
    said = f"δ falls from {first} at ε = 0 to {last} at ε = {amount_shown(points[-1].epsilon)} by the exact profile"
    said += f"; the paper's bound lies above it, and begins at ε = {amount_shown(paper[0][0])}." if paper else "."
    legends = [charts.Legend(style="charged", text="exact"), charts.Legend(style="paper", text=f"paper, {theorem}")]
    if epsilon is not None and delta is not None:
        parts.append(charts.dot(epsilon, delta, x=x, y=y, radius=5, style="dot"))
        said += f" The dot is the price: ε = {amount_shown(epsilon)}, δ = {amount_shown(delta)}."
    title = "ε–δ curve of one release"
    return charts.line_chart(parts, x=x, y=y, legends=legends, key="curve", title=title, description=said)


WAYS = {"filter": "filtered", "one by one": "alone", "series": "together"}  # way of paying → style of its bars


class LastingRow(Row):
    """How long what is left lasts under one calendar, paid for in one way."""

    calendar: str  # so many releases in a period
    k: int
    sampling_rate: str
    way: str  # how they are paid for
    releases: int  # how many fit
    most: bool  # whether there are more, which were not counted
    years: float  # how long they last
    lasts: str  # the same for people
    epsilon: Amount | None  # of all of them; None of a filter, whose charges are no ε
    delta: Amount | None  # of all of them; None likewise
    epsilon_each: Amount | None  # of one of them, where they are charged one by one
    delta_each: Amount | None  # that each states, likewise
    share_each: str | None  # of a filter budget that one of them takes
    limited_by: str | None  # what of a filter budget is used up first, "divergence" or "tails"; None of other ways

    @property
    def label(self) -> str:
        """The calendar with its parameters."""
        return f"{self.calendar}, k = {self.k}, rate {self.sampling_rate}"


class ChangeRow(Row):
    """What another k or rate buys: of each way of paying about how many releases fit."""

    k: int
    sampling_rate: str
    releases: Mapping[str, int]

    @property
    def label(self) -> str:
        """The parameters."""
        return f"k = {self.k}, rate {self.sampling_rate}"


def lasting_picture(rows: Sequence[LastingRow]) -> Markup:
    """Return how long a budget lasts: for each calendar a bar for each way of paying, at least one."""
    ways = tuple(dict.fromkeys(row.way for row in rows))
    groups = [rows[place : place + len(ways)] for place in range(0, len(rows), len(ways))]
    bars = [(group[0].label, {row.way: (row.years, row.lasts) for row in group}) for group in groups]
    return _bars(bars, key="lasting", title="How long what is left lasts")


def change_picture(rows: Sequence[ChangeRow]) -> Markup:
    """Return about how many releases fit with each k and rate: a bar for each way of paying."""
    bars = [(row.label, {way: (float(many), f"{many:,}") for way, many in row.releases.items()}) for row in rows]
    return _bars(bars, key="changes", title="Releases that fit, by k and rate")


def _bars(rows: Sequence[tuple[str, dict[str, tuple[float, str]]]], *, key: str, title: str) -> Markup:
    """Bars for each way of paying: their lengths, and their figures."""
    bars = []
    for label, of in rows:
        values, shown = zip(*of.values(), strict=True)
        bars.append(charts.BarRow(label=label, values=values, shown=shown))
    return charts.bar_chart(bars, series=[(WAYS[way], way) for way in rows[0][1]], key=key, title=title)


def _change_axis(points: Sequence[TimelinePoint | SharePoint]) -> charts.Axis:
    """Return the account's changes, labelled by their days; a day is named once."""
    first, last = float(points[0].change), float(points[-1].change)
    plain = charts.linear_axis(first, max(last, first + 1.0), name="changes of the account, by day", across=True)
    some = points[:: max(1, -(-len(points) // MOST_LABELS))]
    begins = {point.day or "?": float(point.change) for point in reversed(some)}
    ticks = tuple(sorted((change, day) for day, change in begins.items()))
    return replace(plain, start=plain.start + 24, end=plain.end - 24, ticks=ticks)


def _up_to(points: Sequence[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """Return the points up to the first that lies above the picture."""
    last = next((number for number, (_, up) in enumerate(points) if up > top), len(points))
    return [(across, min(up, top)) for across, up in points[: last + 1]]


PICTURES = (budget_bar, change_picture, curve_picture, lasting_picture, shares_picture, timeline_picture)
"""What templates may draw."""
