"""Cells that hold what no ledger writes: SQLite gives whatever is in a file, and it is told in words."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.ledger.database import METADATA
from crowdblend.mechanisms.kernel.errors import Refusal

CELLS = [(table.name, column.name) for table in METADATA.tables.values() for column in table.columns]
LOOKS = [
    lambda reader: reader.datasets(),
    lambda reader: reader.releases(),
    lambda reader: reader.all_series(),
    lambda reader: reader.tokens(),
    lambda reader: reader.overview(latest=None),
    lambda reader: reader.overview(latest=1),
    lambda reader: list(reader.entries()),
    lambda reader: reader.private_looks(),
    lambda reader: reader.series("monthly"),
    lambda reader: reader.release("one"),
    lambda reader: reader.head(),
    lambda reader: reader.ledger_id,
]


def put(path: Path, table: str, column: str, value: bytes | str | int | None) -> bool:
    """Write a value into a table's last row past all that guards it; whether SQLite could be brought to it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        schema = database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        for kind, name, _ in schema:
            if kind == "trigger":
                database.execute(f"DROP TRIGGER {name}")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = ?", (table,))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        try:
            last = f"(SELECT max(rowid) FROM {table})"
            changed = database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = {last}", (value,)).rowcount
        except sqlite3.IntegrityError:  # the number of a row is always one
            changed = 0
        database.execute("PRAGMA writable_schema = ON")
        for kind, name, definition in schema:
            if kind == "trigger":
                database.execute(definition)
            elif name == table:
                database.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (definition, name))
    return changed == 1


VALUES = (None, b"\x00\xff", "no amount", 1 << 60)


@pytest.mark.parametrize(
    "turn",
    [pytest.param(turn, marks=() if turn == 0 else pytest.mark.slow) for turn in range(len(VALUES))],
)
def test_a_cell_that_no_ledger_writes_is_a_finding_and_told_wherever_it_is_looked_at(sqlite_books, turn) -> None:
    """One value in each cell, by turns; all four turns put each value into each cell."""
    books = sqlite_books
    books.add()
    books.register()
    books.writer().charge(books.of_series("two"))
    books.writer().charge(books.of_two_samples("one"))
    path = Path(books.url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sound, told, damaged = path.read_bytes(), 0, 0
    for number, (table, column) in enumerate(CELLS):
        value = VALUES[(number + turn) % len(VALUES)]
        if not put(path, table, column, value):
            assert column in ("position", "slot"), (table, column)
            continue
        damaged += 1
        assert books.findings() != [], (table, column, value)
        with books.reader() as reader:
            for look in LOOKS:
                try:
                    look(reader)
                except Refusal:
                    told += 1
        for beside in path.parent.glob(f"{path.name}-*"):
            beside.unlink()
        path.write_bytes(sound)
    assert books.findings() == []
    assert damaged >= len(CELLS) - 2
    assert told > 0
