"""The database itself holds the rules, against code that goes past the ledger's own."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError


@pytest.fixture
def filled(books):
    """A ledger with two charges, the later of which takes two samples."""
    books.add()
    books.charge("one")
    books.writer().charge(books.of_two_samples("two", selection_sample_id="e" * 64))
    return books


def rows_of(books) -> list[Any]:
    return list(books.raw(lambda connection: connection.execute(text("SELECT * FROM entry ORDER BY position")).all()))


def test_no_entry_is_changed_or_removed(filled) -> None:
    rows = rows_of(filled)
    statements = [f"UPDATE entry SET {name} = {name}" for name in rows[0]._fields]
    statements.append("DELETE FROM entry WHERE position = 3")
    if filled.dialect == "postgresql":
        statements.append("TRUNCATE entry")
    else:
        statements.append("INSERT OR REPLACE INTO entry SELECT * FROM entry")
    for statement in statements:
        with pytest.raises(DatabaseError):
            filled.sql(statement)
    assert rows_of(filled) == rows


def next_row(books, **changes: Any) -> dict[str, Any]:
    """A row that continues the chain and says nothing, with changes."""
    last = rows_of(books)[-1]
    fresh = {"release_id": None, "sample_id": None, "selection_sample_id": None}
    return {"position": last.position + 1, "previous": last.hash, "hash": "f" * 64, "body": "x"} | fresh | changes


def insert(books, row: dict[str, Any]) -> None:
    books.sql(f"INSERT INTO entry ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})", **row)


@pytest.mark.parametrize(
    "changes",
    [
        {"position": 99},
        {"position": 3},
        {"position": -1},
        {"previous": "0" * 64},
        {"previous": "d" * 64},
        {"hash": "f" * 63},
        {"body": None},
        {"release_id": "two"},
        {"sample_id": "of two"},
        {"selection_sample_id": "e" * 64},
        {"sample_id": "e" * 64},
        {"selection_sample_id": "of two"},
    ],
    ids="-".join,
)
def test_rows_against_the_rules_are_refused_by_the_database(filled, changes) -> None:
    used = rows_of(filled)[-1].sample_id
    row = next_row(filled, **{name: used if value == "of two" else value for name, value in changes.items()})
    with pytest.raises(DatabaseError):
        insert(filled, row)


def test_a_control_rows_within_the_rules_are_taken(filled) -> None:
    insert(filled, next_row(filled))
    insert(filled, next_row(filled, hash="a" * 64, release_id="new", sample_id="b" * 64, selection_sample_id="c" * 64))


def test_there_is_one_snapshot(filled) -> None:
    with pytest.raises(DatabaseError):
        filled.sql("INSERT INTO snapshot VALUES (1, 'x', 'x')")


def test_a_reader_can_not_write(filled) -> None:
    with filled.reader() as reader, reader._store.reading() as connection, pytest.raises(DatabaseError):
        connection.exec_driver_sql("UPDATE snapshot SET state = state")
