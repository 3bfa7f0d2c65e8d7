"""How long a data set's budget lasts, by calendars that a plain form asks for."""

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
from ..views.pictures import ChangeRow, LastingRow
from ..views.rows import Amount, amount
from ..views.state import PageHeader, PageRequest
from .calculator import NUMBER

__all__ = ["MOST_CALENDARS", "AskedCalendars", "ForecastPage", "forecast_page"]

SECONDS_TO_WAIT = 1.0
MOST_CALENDARS = 5
LARGEST_K = 10_000
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


def forecast_page(seen: PageRequest, position: int, asked: AskedCalendars) -> ForecastPage:
    """Build the page of the data set that an entry registers.

    Raises:
        InputRefused: that entry registers none.
    """
    registration = seen.view.entries([position]).get(position)
    if registration is None or not isinstance(registration.entry, DatasetAdded):
        raise InputRefused("This entry registers no data set.", where=f"entry {position}", not_done="")
    added = registration.entry
    account = seen.view.last_change(added.dataset).account
    filtered = isinstance(added, FilterDatasetAdded)
    found: Mapping[str, Any] = {"calendars": (), "changes": ()}
    why_not, computing = None, False
    try:
        require_forecast(
            relation=added.relation, survey=added.survey_rate is not None, rows_per_person=added.rows_per_person
        )
        wanted = _wanted(asked)
        asked_for = {"left": _left(added, account)} | wanted
        answer = seen.around.calculator.ask("forecast", asked_for, wait=SECONDS_TO_WAIT)
        found, why_not, computing = answer.found or found, answer.why_not, answer.pending
    except InputRefused as refusal:
        why_not = " ".join(part for part in (refusal.what, refusal.remedy) if part)
    return ForecastPage(
        frame=seen.frame(),
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


def _wanted(asked: AskedCalendars) -> dict[str, Any]:
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


def _amount(text: str | None) -> Amount | None:
    return None if text is None else amount(Decimal(text))


def _plain(rate: str) -> str:
    return amount_exact(Decimal(rate))
