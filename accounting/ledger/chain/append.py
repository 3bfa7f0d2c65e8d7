"""Appending one entry and what follows from it, inside a writing transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from ..database.projections import counts_of, rows_of
from ..database.schema import entry as entry_table
from ..entries.codec import bytes_of_entry
from ..entries.kinds import Entry
from ..rules.ledger_state import LedgerState
from .hashing import GENESIS, link_hash
from .signed_state import SignedState, Vouched, vouch, vouched

__all__ = ["Place", "append_entry", "head_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where an entry stands in the chain.

    Args:
        position: from 0.
        hash: its link's hash, 64 hexadecimal digits.
    """

    position: int
    hash: str


def head_of(connection: Connection) -> Place:
    """The last entry's place; position -1 before the first."""
    head = connection.execute(
        select(entry_table.c.position, entry_table.c.hash).order_by(entry_table.c.position.desc()).limit(1)
    ).one_or_none()
    return Place(position=-1, hash=GENESIS) if head is None else Place(position=head.position, hash=head.hash)


def append_entry(connection: Connection, entry: Entry, state: LedgerState) -> Place:
    """Append an entry to the chain, with what follows from it; the cost hardly grows with the ledger.

    Args:
        connection: a connection in a writing transaction.
        entry: what is recorded; whether it may be isn't asked here.
        state: the ledger before it.

    Returns:
        The new head, which is signed with the state at the end of the transaction.

    Raises:
        ForgedState: what is to be written is in the signed state, or that is damaged.
        ValueError: an account or a charge that the entry needs is not there.
    """
    head, rows = vouched(connection), rows_of(entry, state)
    counts = counts_of(entry, rows=rows, state=state)
    position, previous = head.position + 1, head.hash
    body = bytes_of_entry(entry)
    own = link_hash(previous=previous, position=position, body=body)
    link = {"position": position, "previous": previous, "hash": own, "kind": entry.KIND, "body": body.decode("ascii")}
    written: list[tuple[Table, dict[str, Any]]] = [
        (entry_table, link),
        *((row.table, {"position": position, **row.values}) for row in rows),
    ]
    for table, values in written:
        connection.execute(insert(table).values(**values))
    root = SignedState(connection).add(written, counts)
    vouch(connection, Vouched(position=position, hash=own, root=root))
    return Place(position=position, hash=own)
