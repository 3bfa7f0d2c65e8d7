"""What follows from each entry: the rows of the derived tables, the same when written and when checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar, assert_never

from sqlalchemy import Table

from .budget import Account, amount_of_text, amount_text
from .entry import BudgetRaised, DatasetAdded, Entry, LedgerCreated, PrivateLook
from .release_entries import (
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesRegistered,
)
from .schema import account, dataset, release, release_stage, sample, series, series_release, survey_use
from .signed_state import Count
from .token_entries import TokenAdded, TokenRevoked

__all__ = ["AccountAt", "Row", "account_of_row", "counts_of", "rows_of"]


Fact = TypeVar("Fact")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a derived table, but for its position, which is its entry's.

    Args:
        table: the derived table.
        values: column → value.
    """

    table: Table
    values: Mapping[str, str | int]


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountAt:
    """A data set's account after its latest change.

    Args:
        sequence: how many changes came before, from 0.
        account: what is spent and what may be.
    """

    sequence: int
    account: Account


def account_of_row(values: Mapping[str, str | int]) -> AccountAt:
    """Read an account back from its row.

    Raises:
        ValueError: an amount is not in its one form.
    """
    return AccountAt(
        sequence=int(values["sequence"]),
        account=Account(
            epsilon_spent=amount_of_text(str(values["epsilon_spent"])),
            delta_spent=amount_of_text(str(values["delta_spent"])),
            epsilon_budget=amount_of_text(str(values["epsilon_budget"])),
            delta_budget=amount_of_text(str(values["delta_budget"])),
        ),
    )


def rows_of(  # noqa: PLR0911 - one return for each kind
    entry: Entry, *, before: AccountAt | None, charge: ReleaseCharged | None, survey: bool, turn: int = 0
) -> tuple[Row, ...]:
    """The rows that an entry brings.

    Args:
        entry: the entry.
        before: account of the data set that it concerns, None for an entry that changes no account.
        charge: the charge of the release that it concerns, None for an entry before or without one.
        survey: whether that release's data set can be released once: it is itself a sample, or the price
            holds for outcome counts alone.
        turn: for a release of a series, how many releases had its place before and gave it back.

    Raises:
        ValueError: an account or a charge that the entry needs is not there.
    """
    match entry:
        case LedgerCreated() | PrivateLook() | ReleaseRefused() | TokenAdded() | TokenRevoked():
            return ()
        case DatasetAdded():
            return _rows_of_dataset(entry)
        case BudgetRaised():
            known = _known(before)
            raised = known.account.raised(epsilon=entry.epsilon, delta=entry.delta)
            return (_account_row(entry.dataset, known.sequence + 1, raised),)
        case SeriesRegistered():
            registered: dict[str, str | int] = {
                "name": entry.series,
                "dataset": entry.dataset,
                "releases": entry.price.releases,
            }
            return (Row(table=series, values=registered), _charged_row(entry, before))
        case ReleaseCharged():
            return _rows_of_charge(entry, before, turn)
        case ReleaseReading(release_id=release_id):
            stage = _stage_row(release_id, "reading", "reading")
            if not survey:
                return (stage,)
            use = {"dataset": _known(charge).dataset, "release_id": release_id}
            return (stage, Row(table=survey_use, values=use))
        case ReleasePublished(release_id=release_id):
            return (_stage_row(release_id, "closed", "published"),)
        case ReleaseAbandoned():
            return _rows_of_end(entry, before, charge)
        case _:
            assert_never(entry)


def counts_of(entry: Entry, *, rows: tuple[Row, ...], charge: ReleaseCharged | None) -> Mapping[tuple[Count, str], int]:
    """How an entry changes the counts of the ledger's state.

    Args:
        entry: the entry.
        rows: that it brings.
        charge: the charge of the release that it gives up.

    Raises:
        ValueError: a refund without its charge.
    """
    counts: Counter[tuple[Count, str]] = Counter({("entries", entry.KIND): 1})
    for row in rows:
        counts["rows", row.table.name] += 1
        if row.table is release_stage:
            counts["outcome", str(row.values["outcome"])] += 1
    match entry:
        case ReleaseCharged():
            counts.update(_standing(entry, 1))
        case ReleaseAbandoned(refunded=True):
            counts.update(_standing(_known(charge), -1))
        case _:
            pass
    return counts


def _standing(charge: ReleaseCharged, change: int) -> dict[tuple[Count, str], int]:
    """What a release takes by its charge, and gives back by a refund."""
    from ..theory.shuffling import holds_alone  # with it come numerics, which creating a ledger does without

    counts: dict[tuple[Count, str], int] = {("released", charge.dataset): change}
    if holds_alone(charge.price.rule):
        counts["alone", charge.dataset] = change
    if charge.series is not None:
        counts["held", charge.series.name] = change
    return counts


def _rows_of_dataset(entry: DatasetAdded) -> tuple[Row, ...]:
    empty = Account(
        epsilon_spent=Decimal(0),
        delta_spent=Decimal(0),
        epsilon_budget=entry.epsilon,
        delta_budget=entry.delta,
    )
    return (Row(table=dataset, values={"name": entry.dataset}), _account_row(entry.dataset, 0, empty))


def _rows_of_charge(entry: ReleaseCharged, before: AccountAt | None, turn: int) -> tuple[Row, ...]:
    rows = (
        Row(table=release, values={"release_id": entry.release_id, "dataset": entry.dataset}),
        *(
            Row(table=sample, values={"sample_id": taken, "release_id": entry.release_id, "purpose": purpose})
            for purpose, taken in entry.samples
        ),
        _stage_row(entry.release_id, "charged", "charged"),
    )
    if entry.series is None:
        return (*rows, _charged_row(entry, before))
    # INVARIANT: a release of a series costs nothing more, since the series was paid for whole; it takes a place.
    taken: dict[str, str | int] = {
        "series": entry.series.name,
        "number": entry.series.number,
        "turn": turn,
        "release_id": entry.release_id,
    }
    return (*rows, Row(table=series_release, values=taken))


def _rows_of_end(entry: ReleaseAbandoned, before: AccountAt | None, charge: ReleaseCharged | None) -> tuple[Row, ...]:
    end = _stage_row(entry.release_id, "closed", "refunded" if entry.refunded else "abandoned")
    if not entry.refunded or _known(charge).series is not None:
        return (end,)
    known, paid = _known(before), _known(charge)
    after = known.account.refunded(epsilon=paid.price.epsilon, delta=paid.price.delta)
    return (end, _account_row(paid.dataset, known.sequence + 1, after))


def _charged_row(entry: SeriesRegistered | ReleaseCharged, before: AccountAt | None) -> Row:
    known = _known(before)
    after = known.account.charged(epsilon=entry.price.epsilon, delta=entry.price.delta)
    return _account_row(entry.dataset, known.sequence + 1, after)


def _account_row(name: str, sequence: int, after: Account) -> Row:
    return Row(
        table=account,
        values={
            "dataset": name,
            "sequence": sequence,
            "epsilon_spent": amount_text(after.epsilon_spent),
            "delta_spent": amount_text(after.delta_spent),
            "epsilon_budget": amount_text(after.epsilon_budget),
            "delta_budget": amount_text(after.delta_budget),
        },
    )


def _stage_row(release_id: str, stage: str, outcome: str) -> Row:
    return Row(table=release_stage, values={"release_id": release_id, "stage": stage, "outcome": outcome})


def _known(fact: Fact | None) -> Fact:
    if fact is None:
        raise ValueError("the entry follows from none before it")
    return fact
