"""Appending one entry and what follows from it, inside a writing transaction."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from .canonical import bytes_of_entry
from .chain import GENESIS, link_hash
from .derive import Row
from .entry import Entry
from .schema import entry as entry_table

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


def append_entry(connection: Connection, entry: Entry, *, rows: tuple[Row, ...]) -> Place:
    """Append an entry to the chain, with its derived rows; the cost does not grow with the ledger.

    Args:
        connection: a connection in a writing transaction.
        entry: what is recorded.
        rows: what follows from it.

    Returns:
        The new head.
    """
    head = head_of(connection)
    position, previous = head.position + 1, head.hash
    body = bytes_of_entry(entry)
    own = link_hash(previous=previous, position=position, body=body)
    connection.execute(
        insert(entry_table).values(
            position=position, previous=previous, hash=own, kind=entry.KIND, body=body.decode("ascii")
        )
    )
    for row in rows:
        connection.execute(insert(row.table).values(position=position, **row.values))
    return Place(position=position, hash=own)
