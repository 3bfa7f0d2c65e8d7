"""Refusals made by the writer: the callers' mistakes, and the accountant's objections with their record."""

from __future__ import annotations

from datetime import date

from sqlalchemy import Connection

from ...mechanisms.refusal import InputRefused
from .append import append_entry
from .release_entries import ReleaseRefused
from .rules import Objection
from .store import Store

__all__ = ["malformed", "record_objection", "record_refusal"]


def malformed(error: ValueError) -> InputRefused:
    """The refusal of a value that the ledger can't hold."""
    return InputRefused(f"{error}.", where="ledger")


def record_objection(
    connection: Connection, objection: Objection, *, release_id: str | None, dataset: str, day: date
) -> None:
    """Append the entry that keeps a refusal as evidence.

    Args:
        connection: a connection in a writing transaction.
        objection: why the accountant says no.
        release_id: the id asked for, None where there was none.
        dataset: whose budget was asked.
        day: today.
    """
    refused = ReleaseRefused(
        release_id=release_id,
        dataset=dataset,
        cause=objection.cause,
        reason=objection.refusal.message,
        day=day,
    )
    append_entry(connection, refused, rows=())


def record_refusal(store: Store, *, release_id: str | None, dataset: str, cause: str, reason: str, day: date) -> None:
    """Append the entry that keeps a refusal made outside the ledger's own transactions.

    Raises:
        InputRefused: a value that the ledger can't hold.
    """
    try:
        refused = ReleaseRefused(release_id=release_id, dataset=dataset, cause=cause, reason=reason, day=day)
    except ValueError as error:
        raise malformed(error) from None
    with store.writing() as connection:
        append_entry(connection, refused, rows=())
