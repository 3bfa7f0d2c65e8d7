"""The derived tables held against the entries that they follow from, in step with the chain and in little memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Table, select

from .chain import Finding
from .derive import Row
from .schema import DERIVED_TABLES, as_stored

__all__ = ["STREAMED", "DerivedRows"]

# For one statement at a time: the same options on the connection would stay with it.
STREAMED: Mapping[str, int] = {"yield_per": 2_000}


class DerivedRows:
    """The rows of every derived table, read once in the order of their positions.

    Args:
        connection: a connection in a reading transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self._tables = [_TableRows(connection, table) for table in DERIVED_TABLES]

    def check(self, position: int, expected: tuple[Row, ...]) -> Iterator[Finding]:
        """Compare what is stored for an entry with what follows from it; positions must rise from call to call."""
        due: dict[Table, list[Row]] = {}
        for row in expected:
            due.setdefault(row.table, []).append(row)
        for table in self._tables:
            if table.position <= position or table.table in due:
                yield from table.check(position, due.get(table.table, []))

    def take(self, position: int) -> tuple[Row, ...]:
        """The rows up to an entry that can't be held against it: it is missing, or another one than was written."""
        return tuple(row for table in self._tables for row in table.take(position))

    def check_rest(self) -> Iterator[Finding]:
        """Find what lies beyond the last entry: one finding, however many rows missing entries have left there."""
        strangers = [stranger for table in self._tables for stranger in table.strangers(float("inf"))]
        if len(strangers) == 1:
            yield from strangers
        elif strangers:
            names = ", ".join(table.table.name for table in self._tables if table.found_strangers)
            first = min(stranger.position for stranger in strangers if stranger.position is not None)
            what = f"the chain ends before it, and {len(strangers)} rows of this place or later ones are left"
            yield Finding(position=first, what=f"{what} in the tables {names}")
        for table in self._tables:
            yield from table.check_homeless()


class _TableRows:
    """The rows of one table from one position on."""

    def __init__(self, connection: Connection, table: Table) -> None:
        self.table = table
        self.position = float("inf")  # of the row that comes next
        self._names = [column.name for column in table.columns if column.name != "position"]
        columns = [as_stored(table.c[name]) for name in ("position", *self._names)]
        # A cursor of its own for each table, so that all can be read in step.
        result = connection.execute(select(*columns).order_by(table.c.position), execution_options=STREAMED)
        self._rows: Iterator[tuple[Any, ...]] = (tuple(row) for part in result.partitions() for row in part)
        self._homeless = 0
        self.found_strangers = False
        self._next: tuple[Any, ...] | None = None
        self._advance()

    def check(self, position: int, expected: list[Row]) -> Iterator[Finding]:
        """Compare the rows at a position, and find those before it, which belong to no entry."""
        yield from self.strangers(position)
        stored = []
        while self._next is not None and self.position == position:
            stored.append(self._next[1:])
            self._advance()
        due = [tuple(row.values[name] for name in self._names) for row in expected]
        if stored == due:
            return
        if any(row not in stored for row in due):
            yield Finding(position=position, what=f"its row in the table {self.table.name} is missing or changed")
        else:
            yield self._stranger(position)

    def take(self, position: int) -> Iterator[Row]:
        """The rows at a position and before it."""
        while self._next is not None and self.position <= position:
            yield Row(table=self.table, values=dict(zip(self._names, self._next[1:], strict=True)))
            self._advance()

    def check_homeless(self) -> Iterator[Finding]:
        """Find the rows that no entry can have."""
        if self._homeless:
            yield Finding(
                position=None, what=f"{self._homeless} rows in the table {self.table.name} name no place in the chain"
            )

    def strangers(self, before: float) -> Iterator[Finding]:
        """Find the rows before a position that belong to no entry, and go past them."""
        while self._next is not None and self.position < before:
            self.found_strangers = True
            yield self._stranger(int(self.position))
            self._advance()

    def _stranger(self, position: int) -> Finding:
        return Finding(position=position, what=f"a row in the table {self.table.name} does not follow from it")

    def _advance(self) -> None:
        """Go to the next row whose position is a whole number; SQLite would store others, if its checks were off."""
        for row in self._rows:
            if type(row[0]) is int:
                self._next, self.position = row, row[0]
                return
            self._homeless += 1
        self._next, self.position = None, float("inf")
