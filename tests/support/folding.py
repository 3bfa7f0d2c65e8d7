"""Entries folded with the ledger's own rules, without a database."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

from crowdblend.accounting.kernel.ledger.entries import (
    BudgetRaised,
    DatasetAdded,
    DatasetUnit,
    Entry,
    FilterAccounting,
    FilterDatasetAdded,
    LedgerCreated,
    ReleaseAbandoned,
    TokenAdded,
    TokenRevoked,
    UnitDatasetAdded,
)
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState
from crowdblend.accounting.kernel.ledger.rules import violations

DAY = date(2026, 3, 4)


def faults_of(entry: Entry, state: LedgerState) -> list[str]:
    """What the rules say of an entry as the next one; the state stays as it is."""
    return [violation.fault for violation in violations(entry, state)]


def fold(entries: Iterable[Entry]) -> tuple[LedgerState, list[str]]:
    """The state after entries, and what the rules said of them on the way."""
    state, faults = LedgerState(), []
    for position, entry in enumerate(entries):
        faults += faults_of(entry, state)
        with suppress(ValueError):
            state.apply(entry, f"{position:064x}")
    return state, faults


def sound_state(*entries: Entry) -> LedgerState:
    """The state of a ledger with these entries after its first, none of which breaks a rule."""
    state, faults = fold([LedgerCreated(ledger_id="1" * 64), *entries])
    assert faults == []
    return state


def dataset(
    name: str = "census",
    *,
    unit: DatasetUnit | None = None,
    accounting: FilterAccounting | None = None,
    **changes: Any,
) -> DatasetAdded:
    """The registration of a data set with a large budget."""
    values: dict[str, Any] = {
        "dataset": name,
        "epsilon": Decimal(10),
        "delta": Decimal("0.001"),
        "relation": "add/remove",
        "survey_rate": None,
        "rows_per_person": 1,
        "by": "steward",
        "day": DAY,
    }
    if accounting is not None:
        return FilterDatasetAdded(**values | changes, accounting=accounting)
    return DatasetAdded(**values | changes) if unit is None else UnitDatasetAdded(**values | changes, unit=unit)


def raised(epsilon: str, delta: str, name: str = "census") -> BudgetRaised:
    return BudgetRaised(dataset=name, epsilon=Decimal(epsilon), delta=Decimal(delta), reason="why", by="board", day=DAY)


def abandoned(release_id: str = "one", *, refunded: bool) -> ReleaseAbandoned:
    return ReleaseAbandoned(release_id=release_id, reason="why", refunded=refunded, by="me", day=DAY)


def token(token_id: str = "7" * 16) -> TokenAdded:
    return TokenAdded(
        token_id=token_id, name="auditor", secret_digest="6" * 64, expires=date(2026, 6, 2), by="me", day=DAY
    )


def revoked(token_id: str = "7" * 16) -> TokenRevoked:
    return TokenRevoked(token_id=token_id, by="me", day=DAY)
