"""What releases would cost and how long a budget lasts: the price calculator and the forecast, asked by plain forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ....mechanisms.amounts import amount_exact, counted, share_left_shown, share_shown
from ....mechanisms.errors import InputRefused
from ...ledger.entries.kinds import DatasetAdded, FilterDatasetAdded
from ...ledger.entries.values import Account, amount_text
from ...theory.planning.forecast import CALENDARS, RATE, K, read_calendar, require_forecast
from ..views.pictures import ChangeRow, Curve, LastingRow, curve_of
from ..views.rows import Amount, amount
from ..views.state import PageHeader, PageRequest

__all__ = [
    "NUMBER",
    "Asked",
    "AskedCalendars",
    "CalculatorPage",
    "ForecastPage",
    "PriceRow",
    "calculator_page",
    "forecast_page",
]

# At most twelve digits and a small exponent: enough for any price, and nothing that takes long to read.
NUMBER = r"^ *([0-9]{1,9}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})? *$"
SECONDS_TO_WAIT = 0.7
LARGEST_K = 10_000
MOST_RELEASES = 10_000
LEAST = Decimal("1e-60")
MOST_EPSILON = Decimal(200)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What was filled in, as it was written; empty where nothing was.

    Args:
        k: suppression threshold.
        sampling_rate: β.
        epsilon: over all releases.
        delta: over all releases.
        releases: how many.
    """

    k: str = ""
    sampling_rate: str = ""
    epsilon: str = ""
    delta: str = ""
    releases: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceRow:
    """One figure of the answer.

    Args:
        name: of the figure.
        exact: by the exact profile, composed; None where there is none or it isn't asked for.
        paper: by Theorem 3.9; None likewise.
    """

    name: str
    exact: Amount | None
    paper: Amount | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CalculatorPage:
    """The calculator.

    Args:
        frame: of the ledger.
        asked: what was filled in.
        filled: the name of the figure that was filled in, None where there is no answer, or all were given.
        k: of the answer, None where there is no answer.
        sampling_rate: of the answer.
        releases: of the answer.
        prices: the answer's figures.
        why_not: why there is no answer; None where there is one, or nothing was asked.
        computing: whether it is being computed; ask again for it.
        curve: of one release with these parameters, None where there is no answer.
    """

    frame: PageHeader
    asked: Asked
    filled: str | None
    k: int | None
    sampling_rate: str | None
    releases: int | None
    prices: tuple[PriceRow, ...]
    why_not: str | None
    computing: bool
    curve: Curve | None


def calculator_page(page_request: PageRequest, asked: Asked) -> CalculatorPage:
    """Build the calculator's page, with the answer where something was asked."""
    if asked == Asked():
        return _page(page_request, asked)
    wanted = _wanted(asked)
    if isinstance(wanted, str):
        return _page(page_request, asked, why_not=wanted)
    answer = page_request.dashboard.calculator.ask("plan", wanted, wait=SECONDS_TO_WAIT)
    if answer.found is None:
        return _page(page_request, asked, why_not=answer.why_not, computing=answer.pending)
    return _page(page_request, asked, found=answer.found)


def _wanted(asked: Asked) -> dict[str, str | int | None] | str:
    """The planner's arguments, or why there are none."""
    wanted: dict[str, str | int | None] = {}
    bounds = {
        "k": (Decimal(1), Decimal(LARGEST_K)),
        "sampling_rate": (Decimal("1e-9"), Decimal("0.99999")),
        "epsilon": (LEAST, MOST_EPSILON),
        "delta": (LEAST, Decimal("0.5")),
        "releases": (Decimal(1), Decimal(MOST_RELEASES)),
    }
    for name, (least, most) in bounds.items():
        text = getattr(asked, name).strip()
        if not text:
            wanted[name] = 1 if name == "releases" else None
            continue
        if not re.fullmatch(NUMBER, text):
            return f"{LABELS[name]} must be a number."
        value = Decimal(text)
        if not least <= value <= most:
            return f"{LABELS[name]} must lie between {least} and {most} here; the command line takes more."
        whole = name in ("k", "releases")
        if whole and value != value.to_integral_value():
            return f"{LABELS[name]} must be a whole number."
        wanted[name] = int(value) if whole else str(value)
    missing = [LABELS[name] for name in ("k", "sampling_rate", "epsilon", "delta") if wanted[name] is None]
    if len(missing) > 1:
        return f"Give all but one of k, sampling rate, ε and δ; these are missing: {', '.join(missing)}."
    return wanted


LABELS: Mapping[str, str] = {
    "k": "k",
    "sampling_rate": "The sampling rate",
    "epsilon": "ε",
    "delta": "δ",
    "releases": "The number of releases",
}


def _page(
    page_request: PageRequest,
    asked: Asked,
    *,
    found: Mapping[str, Any] | None = None,
    why_not: str | None = None,
    computing: bool = False,
) -> CalculatorPage:
    curve = None
    if found is not None:
        mechanism = {"kind": "strongly-safe-release/1", "k": found["k"], "sampling_rate": found["sampling_rate"]}
        curve = curve_of(mechanism, rows_per_person=1, delta=found["delta"], queue=page_request.dashboard.calculator)
    return CalculatorPage(
        frame=page_request.frame(),
        asked=asked,
        filled=None if found is None else found["filled"],
        k=None if found is None else found["k"],
        sampling_rate=None if found is None else found["sampling_rate"],
        releases=None if found is None else found["releases"],
        prices=() if found is None else _prices(found),
        why_not=why_not,
        computing=computing or (curve is not None and curve.computing),
        curve=curve,
    )


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
LEAST_RATE, LARGEST_RATE = Decimal("1e-9"), Decimal("0.99999")


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedCalendars:
    """What was filled in, as it was written; empty where nothing was.

    Args:
        calendars: with semicolons between them.
        k: of releases of which a calendar says nothing.
        sampling_rate: likewise.
    """

    calendars: str = ""
    k: str = ""
    sampling_rate: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastPage:
    """How long a budget lasts.

    Args:
        frame: of the ledger.
        dataset: the data set's name.
        position: where it is registered.
        epsilon_left: what is left of ε; None of a filter budget.
        delta_left: what is left of δ; None likewise.
        share_left: what share of a filter budget is left; None of an additive one.
        asked: what was filled in.
        rows: for each calendar and way what fits; none where there is no forecast, or it is being computed.
        changes: what another k or rate buys, with the first calendar's own first.
        why_not: why there is no forecast; None where there is one, or it is being computed.
        computing: whether it is being computed; ask again for it.
    """

    frame: PageHeader
    dataset: str
    position: int
    epsilon_left: Amount | None
    delta_left: Amount | None
    share_left: str | None
    asked: AskedCalendars
    rows: tuple[LastingRow, ...]
    changes: tuple[ChangeRow, ...]
    why_not: str | None
    computing: bool


def forecast_page(page_request: PageRequest, position: int, asked: AskedCalendars) -> ForecastPage:
    """Build the page of the data set that an entry registers.

    Raises:
        InputRefused: that entry registers none.
    """
    registration = page_request.view.entries([position]).get(position)
    if registration is None or not isinstance(registration.entry, DatasetAdded):
        raise InputRefused("This entry registers no data set.", where=f"entry {position}", not_done="")
    added = registration.entry
    account = page_request.view.last_change(added.dataset).account
    filtered = isinstance(added, FilterDatasetAdded)
    found: Mapping[str, Any] = {"calendars": (), "changes": ()}
    why_not, computing = None, False
    try:
        require_forecast(
            relation=added.relation, survey=added.survey_rate is not None, rows_per_person=added.rows_per_person
        )
        wanted = _calendars_wanted(asked)
        asked_for = {"left": _left(added, account)} | wanted
        answer = page_request.dashboard.calculator.ask("forecast", asked_for, wait=SECONDS_FOR_FORECAST)
        found, why_not, computing = answer.found or found, answer.why_not, answer.pending
    except InputRefused as refusal:
        why_not = " ".join(part for part in (refusal.what, refusal.remedy) if part)
    return ForecastPage(
        frame=page_request.frame(),
        dataset=added.dataset,
        position=position,
        epsilon_left=None if filtered else amount(account.epsilon_left),
        delta_left=None if filtered else amount(account.delta_left),
        share_left=share_left_shown(max(1 - account.spent_share, Decimal(0))) if filtered else None,
        asked=asked,
        rows=tuple(_row(calendar, way) for calendar in found["calendars"] for way in calendar["ways"]),
        changes=tuple(
            ChangeRow(k=one["k"], sampling_rate=_plain(one["sampling_rate"]), releases=one["releases"])
            for one in found["changes"]
        ),
        why_not=why_not,
        computing=computing,
    )


def _left(added: DatasetAdded, account: Account) -> dict[str, Any]:
    """What is left, as texts; of a filter with the terms that its registration fixed."""
    left = {"epsilon": amount_text(account.epsilon_left), "delta": amount_text(account.delta_left)}
    if not isinstance(added, FilterDatasetAdded):
        return left
    accounting = added.accounting
    terms = {"epsilon": added.epsilon, "delta": added.delta} | {
        name: getattr(accounting, name) for name in ("order", "tail_delta", "tail_each")
    }
    return {
        "divergence": left["epsilon"],
        "tail": left["delta"],
        "terms": {name: amount_text(value) for name, value in terms.items()},
    }


def _calendars_wanted(asked: AskedCalendars) -> dict[str, Any]:
    """The forecast's arguments.

    Raises:
        InputRefused: a field has another form, or is out of range.
    """
    for name, text, least, most in (
        ("k", asked.k, Decimal(1), Decimal(LARGEST_K)),
        ("The sampling rate", asked.sampling_rate, LEAST_RATE, LARGEST_RATE),
    ):
        if text.strip() and not (re.fullmatch(NUMBER, text) and least <= Decimal(text.strip()) <= most):
            raise InputRefused(f"{name} must be a number from {least} to {most}.")
    k = Decimal(asked.k.strip() or K)
    if k != int(k):
        raise InputRefused("k must be a whole number.")
    rate = Decimal(asked.sampling_rate.strip() or RATE)
    calendars = [text.strip() for text in asked.calendars.split(";") if text.strip()] or list(CALENDARS)
    if len(calendars) > MOST_CALENDARS:
        raise InputRefused(f"at most {counted(MOST_CALENDARS, 'calendar')} fit on this page; the command takes more.")
    for text in calendars:
        if read_calendar(text, k=int(k), sampling_rate=rate).mechanism.k > LARGEST_K:
            raise InputRefused(f"k must be a number from 1 to {LARGEST_K}.")
    return {"calendars": calendars, "k": int(k), "sampling_rate": str(rate)}


def _row(calendar: Mapping[str, Any], way: Mapping[str, Any]) -> LastingRow:
    return LastingRow(
        calendar=calendar["calendar"],
        k=calendar["k"],
        sampling_rate=_plain(calendar["sampling_rate"]),
        way=way["way"],
        releases=way["releases"],
        most=way["most"],
        years=way["years"],
        lasts=way["lasts"],
        epsilon=_amount(way["epsilon"]),
        delta=_amount(way["delta"]),
        epsilon_each=_amount(way["epsilon_each"]),
        delta_each=_amount(way["delta_each"]),
        share_each=None if way["share_each"] is None else share_shown(Decimal(way["share_each"])),
        limited_by=way["limited_by"],
    )


def _plain(rate: str) -> str:
    return amount_exact(Decimal(rate))
