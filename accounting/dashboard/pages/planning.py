"""What releases would cost and how long a budget lasts: the price calculator and the forecast, asked by plain forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Query

from ....mechanisms.kernel.amounts import amount_exact, counted
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.wording import share_left_shown, share_shown
from ...kernel.field_forms import amount_text
from ...kernel.ledger.entries import DatasetAdded, FilterDatasetAdded
from ...kernel.ledger.ledger_state import Account
from ...theory.planning.budget_forecast import CALENDARS, RATE, K, read_calendar, require_forecast
from ..views.pictures import ChangeRow, Curve, LastingRow, curve_of
from ..views.rows import Amount, Page, Row, amount
from ..views.state import OneState, Position
from ..work import Answer
from .overview import dataset_at

# At most twelve digits and a small exponent: enough for any price, and nothing that takes long to read.
NUMBER = r"^ *([0-9]{1,9}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})? *$"
SECONDS_TO_WAIT = 0.7
LARGEST_K = 10_000
MOST_RELEASES = 10_000
LEAST = Decimal("1e-60")
Number = Annotated[str, Query(max_length=60)]
Calendars = Annotated[str, Query(max_length=200)]


class Asked(Row):
    """What was filled in of the calculator, as it was written; empty where nothing was."""

    k: str = ""
    sampling_rate: str = ""
    epsilon: str = ""
    delta: str = ""
    releases: str = ""


class PriceRow(Row):
    """One figure of the answer: by the exact profile, composed, and by Theorem 3.9; None where it isn't there."""

    name: str
    exact: Amount | None
    paper: Amount | None


class CalculatorPage(Page):
    """The calculator; parameters and prices are of the answer, and None where there is none."""

    TABLE = "prices"
    asked: Asked  # what was filled in
    # the name of the figure that was filled in, None where there is no answer, or all were given
    filled: str | None = None
    k: int | None = None
    sampling_rate: str | None = None
    releases: int | None = None  # how many
    prices: tuple[PriceRow, ...] = ()  # the answer's figures
    why_not: str | None = None
    computing: bool = False
    curve: Curve | None = None  # of one release with these parameters, None where there is no answer


def calculator_page(
    page_request: OneState,
    k: Number = "",
    sampling_rate: Number = "",
    epsilon: Number = "",
    delta: Number = "",
    releases: Number = "",
) -> CalculatorPage:
    """What releases would cost; what is left out among k, sampling rate, ε and δ is filled in."""
    asked = Asked(k=k, sampling_rate=sampling_rate, epsilon=epsilon, delta=delta, releases=releases)
    calculator = page_request.dashboard.calculator
    if asked == Asked():
        return CalculatorPage(frame=page_request.frame(), asked=asked)
    try:
        answer = calculator.ask("plan", _wanted(asked), wait=SECONDS_TO_WAIT)
    except InputRefused as refusal:
        answer = Answer(why_not=refusal.what)
    if (found := answer.found) is None:
        return CalculatorPage(frame=page_request.frame(), asked=asked, why_not=answer.why_not, computing=answer.pending)
    mechanism = {"kind": "strongly-safe-release/1", "k": found["k"], "sampling_rate": found["sampling_rate"]}
    curve = curve_of(mechanism, rows_per_person=1, delta=found["delta"], queue=calculator)
    return CalculatorPage(
        frame=page_request.frame(),
        asked=asked,
        **{name: found[name] for name in ("filled", "k", "sampling_rate", "releases")},
        prices=_prices(found),
        computing=curve.computing,
        curve=curve,
    )


FIELDS: Mapping[str, tuple[str, Decimal, Decimal]] = {  # name → label, least and most
    "k": ("k", Decimal(1), Decimal(LARGEST_K)),
    "sampling_rate": ("The sampling rate", Decimal("1e-9"), Decimal("0.99999")),
    "epsilon": ("ε", LEAST, Decimal(200)),
    "delta": ("δ", LEAST, Decimal("0.5")),
    "releases": ("The number of releases", Decimal(1), Decimal(MOST_RELEASES)),
}
WHOLE = ("k", "releases")


def _number(asked: Row, name: str) -> Decimal | None:
    """A number that was filled in; None where nothing was.

    Raises:
        InputRefused: it has another form, or is out of range.
    """
    text, (label, least, most) = getattr(asked, name).strip(), FIELDS[name]
    if not text:
        return None
    if not (re.fullmatch(NUMBER, text) and least <= Decimal(text) <= most):
        raise InputRefused(f"{label} must be a number from {least} to {most} here; the command line takes more.")
    if name in WHOLE and Decimal(text) % 1:
        raise InputRefused(f"{label} must be a whole number.")
    return Decimal(text)


def _wanted(asked: Asked) -> dict[str, str | int | None]:
    """The planner's arguments.

    Raises:
        InputRefused: a field has another form, or is out of range; or more than one is missing.
    """
    numbers = {name: _number(asked, name) for name in FIELDS}
    missing = [FIELDS[name][0] for name, value in numbers.items() if value is None and name != "releases"]
    if len(missing) > 1:
        raise InputRefused(f"Give all but one of k, sampling rate, ε and δ; these are missing: {', '.join(missing)}.")
    given = {name: value for name, value in numbers.items() if value is not None}
    wanted = {name: int(value) if name in WHOLE else str(value) for name, value in given.items()}
    return {**dict.fromkeys(FIELDS), "releases": 1, **wanted}


def _prices(found: Mapping[str, Any]) -> tuple[PriceRow, ...]:
    asked = found["filled"] != "epsilon"
    rows = [
        ("ε over all releases", "epsilon", "epsilon_paper", True),
        ("δ over all releases", "delta", "delta", True),
        ("ε of one release at this δ", "epsilon_exact", None, found["releases"] > 1),
        ("δ at the ε asked for", "delta_exact", "delta_paper", asked),
        ("least k for the ε asked for", "k_exact", "k_paper", asked),
    ]
    return tuple(
        PriceRow(name=name, exact=_amount(found[exact]), paper=None if paper is None else _amount(found[paper]))
        for name, exact, paper, shown in rows
        if shown
    )


def _amount(value: str | int | None) -> Amount | None:
    return None if value is None else amount(Decimal(value))


SECONDS_FOR_FORECAST = 1.0
MOST_CALENDARS = 5


class AskedCalendars(Row):
    """What was filled in of the forecast, as it was written; k and rate are of what a calendar says nothing of."""

    calendars: str = ""  # with semicolons between them
    k: str = ""
    sampling_rate: str = ""


class ForecastPage(Page):
    """How long a budget lasts."""

    TABLE = "rows"
    dataset: str
    position: int
    epsilon_left: Amount | None = None  # what is left of ε; None of a filter budget
    delta_left: Amount | None = None  # what is left of δ; None likewise
    share_left: str | None  # what share of a filter budget is left; None of an additive one
    asked: AskedCalendars  # what was filled in
    # for each calendar and way what fits; none where there is no forecast, or it is being computed
    rows: tuple[LastingRow, ...]
    changes: tuple[ChangeRow, ...]  # what another k or rate buys, with the first calendar's own first
    why_not: str | None
    computing: bool


def forecast_page(
    page_request: OneState, position: Position, calendars: Calendars = "", k: Number = "", sampling_rate: Number = ""
) -> ForecastPage:
    """How long what is left of a data set's budget lasts, under calendars with semicolons between them."""
    asked = AskedCalendars(calendars=calendars, k=k, sampling_rate=sampling_rate)
    known = dataset_at(page_request, position)
    added, account = known.added, known.account
    filtered = isinstance(added, FilterDatasetAdded)
    try:
        require_forecast(
            relation=added.relation, survey=added.survey_rate is not None, rows_per_person=added.rows_per_person
        )
        asked_for = {"left": _left(added, account)} | _calendars_wanted(asked)
        answer = page_request.dashboard.calculator.ask("forecast", asked_for, wait=SECONDS_FOR_FORECAST)
    except InputRefused as refusal:
        answer = Answer(why_not=" ".join(part for part in (refusal.what, refusal.remedy) if part))
    found = answer.found or {"calendars": (), "changes": ()}
    return ForecastPage.of(
        added,
        *(() if filtered else (account,)),
        frame=page_request.frame(),
        position=position,
        share_left=share_left_shown(max(1 - account.spent_share, Decimal(0))) if filtered else None,
        asked=asked,
        rows=tuple(_row(calendar, way) for calendar in found["calendars"] for way in calendar["ways"]),
        changes=tuple(ChangeRow(**one | {"sampling_rate": _plain(one["sampling_rate"])}) for one in found["changes"]),
        why_not=answer.why_not,
        computing=answer.pending,
    )


def _left(added: DatasetAdded, account: Account) -> dict[str, Any]:
    """What is left, as texts; of a filter with the terms that its registration fixed."""
    names = ("divergence", "tail") if isinstance(added, FilterDatasetAdded) else ("epsilon", "delta")
    left: dict[str, Any] = dict(zip(names, map(amount_text, (account.epsilon_left, account.delta_left)), strict=True))
    if isinstance(added, FilterDatasetAdded):
        fixed = {name: getattr(added.accounting, name) for name in ("order", "tail_delta", "tail_each")}
        terms = {"epsilon": added.epsilon, "delta": added.delta, **fixed}
        left["terms"] = {name: amount_text(value) for name, value in terms.items()}
    return left


def _calendars_wanted(asked: AskedCalendars) -> dict[str, Any]:
    """The forecast's arguments.

    Raises:
        InputRefused: a field has another form, or is out of range.
    """
    k, rate = int(_number(asked, "k") or K), _number(asked, "sampling_rate") or RATE
    calendars = [text.strip() for text in asked.calendars.split(";") if text.strip()] or list(CALENDARS)
    if len(calendars) > MOST_CALENDARS:
        raise InputRefused(f"at most {counted(MOST_CALENDARS, 'calendar')} fit on this page; the command takes more.")
    for text in calendars:
        if read_calendar(text, k=k, sampling_rate=rate).mechanism.k > LARGEST_K:
            raise InputRefused(f"k must be a number from 1 to {LARGEST_K}.")
    return {"calendars": calendars, "k": k, "sampling_rate": str(rate)}


def _row(calendar: Mapping[str, Any], way: Mapping[str, Any]) -> LastingRow:
    shown = {name: _amount(way[name]) for name in ("epsilon", "delta", "epsilon_each", "delta_each")}
    share = None if way["share_each"] is None else share_shown(Decimal(way["share_each"]))
    rate = _plain(calendar["sampling_rate"])
    more = {"calendar": calendar["calendar"], "k": calendar["k"], "sampling_rate": rate, "share_each": share}
    return LastingRow(**{**way, **shown, **more})


def _plain(rate: str) -> str:
    return amount_exact(Decimal(rate))
