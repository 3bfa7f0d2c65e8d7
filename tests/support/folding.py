"""Entries folded with the ledger's own rules, without a database."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from crowdblend.accounting.kernel.ledger.entries import Entry
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState
from crowdblend.accounting.kernel.ledger.rules import violations


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
