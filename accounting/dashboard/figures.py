"""Figures as pages show them: the exact amount, and the amount for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import assert_never

from ...mechanisms.amount_format import amount_exact, amount_shown, counted
from ..ledger.budget import amount_text
from ..ledger.entry import BudgetRaised, DatasetAdded, Entry, LedgerCreated, PrivateLook
from ..ledger.release_entries import (
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesRegistered,
)
from ..ledger.token_entries import TokenAdded, TokenRevoked

__all__ = [
    "Amount",
    "amount",
    "amount_or_none",
    "day_of",
    "described",
    "factor_shown",
    "mechanism_in_words",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """An ε or a δ.

    Args:
        exact: the amount itself, in plain decimal notation.
        shown: rounded up to six significant digits.
    """

    exact: str
    shown: str


def amount(value: Decimal) -> Amount:
    """An amount for a page."""
    return Amount(exact=amount_text(value), shown=amount_shown(value))


def amount_or_none(value: Decimal | None) -> Amount | None:
    """An amount for a page, where there is one."""
    return None if value is None else amount(value)


def described(entry: Entry) -> str:  # noqa: PLR0911, PLR0912 - one return for each kind
    """What an entry says, in a sentence."""
    match entry:
        case LedgerCreated():
            return "The ledger was created."
        case DatasetAdded():
            return (
                f"Data set '{entry.dataset}' got the budget ε = {amount_exact(entry.epsilon)}, "
                f"δ = {amount_exact(entry.delta)}."
            )
        case BudgetRaised():
            return (
                f"The budget of '{entry.dataset}' was raised to ε = {amount_exact(entry.epsilon)}, "
                f"δ = {amount_exact(entry.delta)}: {entry.reason}"
            )
        case SeriesRegistered():
            releases = counted(entry.price.releases, "release")
            return f"Series '{entry.series}' of {releases} was charged to '{entry.dataset}' whole."
        case ReleaseCharged():
            payer = f"series '{entry.series.name}'" if entry.series else f"'{entry.dataset}'"
            return f"Release '{entry.release_id}' was charged to {payer}, and its sample reserved."
        case ReleaseReading():
            return f"Release '{entry.release_id}' began to read records: its cost is spent for ever."
        case ReleasePublished():
            return f"Release '{entry.release_id}' was published."
        case ReleaseAbandoned():
            back = "its cost was given back" if entry.refunded else "its cost stays spent"
            return f"Release '{entry.release_id}' was abandoned, {back}: {entry.reason}"
        case ReleaseRefused():
            return f"The accountant refused ({entry.cause}): {entry.reason}"
        case PrivateLook():
            return f"Somebody looked at the records of '{entry.dataset}' outside any release: {entry.what}"
        case TokenAdded():
            return f"A token of these pages was added for '{entry.name}', until {entry.expires - timedelta(days=1)}."
        case TokenRevoked():
            return f"The token {entry.token_id} was revoked."
        case _:
            assert_never(entry)


def day_of(entry: Entry) -> str | None:
    """The day that an entry bears, None where it bears none."""
    match entry:
        case LedgerCreated() | ReleaseReading() | ReleasePublished():
            return None
        case (
            DatasetAdded()
            | BudgetRaised()
            | SeriesRegistered()
            | ReleaseCharged()
            | ReleaseAbandoned()
            | ReleaseRefused()
            | PrivateLook()
            | TokenAdded()
            | TokenRevoked()
        ):
            return entry.day.isoformat()
        case _:
            assert_never(entry)


def mechanism_in_words(record: Mapping[str, str | int]) -> str:
    """A mechanism's record as a line."""
    if record.get("kind") == "strongly-safe-release/1":
        return f"k = {record.get('k')}, rate {record.get('sampling_rate')}"
    if record.get("kind") == "epsilon-safe-release/1":
        rate = record.get("selection_rate")
        of = "all records" if rate == "whole" else f"a fresh sample at rate {rate}"
        chosen = f"map chosen at ε {record.get('selection_epsilon')} on {of}"
        return f"k = {record.get('k')}, rate {record.get('sampling_rate')}, {chosen}"
    named = ", ".join(f"{name} {value}" for name, value in record.items() if name != "kind")
    return f"{record.get('kind')}: {named}"


def factor_shown(factor: float) -> str:
    """A factor of at least 1 for people: four significant digits, rounded up."""
    return (
        amount_shown(Decimal(factor).quantize(Decimal("0.001"), rounding="ROUND_CEILING"))
        if factor < 1e6
        else "10^6 or more"
    )
