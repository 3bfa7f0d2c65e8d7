"""The price calculator: what a release would cost, asked by a plain form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..views.pictures import Curve, curve_of
from ..views.rows import Amount, amount
from ..views.state import PageHeader, PageRequest

__all__ = ["NUMBER", "Asked", "CalculatorPage", "PriceRow", "calculator_page"]

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


def calculator_page(seen: PageRequest, asked: Asked) -> CalculatorPage:
    """Build the calculator's page, with the answer where something was asked."""
    if asked == Asked():
        return _page(seen, asked)
    wanted = _wanted(asked)
    if isinstance(wanted, str):
        return _page(seen, asked, why_not=wanted)
    answer = seen.around.calculator.ask("plan", wanted, wait=SECONDS_TO_WAIT)
    if answer.found is None:
        return _page(seen, asked, why_not=answer.why_not, computing=answer.pending)
    return _page(seen, asked, found=answer.found)


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
    seen: PageRequest,
    asked: Asked,
    *,
    found: Mapping[str, Any] | None = None,
    why_not: str | None = None,
    computing: bool = False,
) -> CalculatorPage:
    curve = None
    if found is not None:
        mechanism = {"kind": "strongly-safe-release/1", "k": found["k"], "sampling_rate": found["sampling_rate"]}
        curve = curve_of(mechanism, rows_per_person=1, delta=found["delta"], queue=seen.around.calculator)
    return CalculatorPage(
        frame=seen.frame(),
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
