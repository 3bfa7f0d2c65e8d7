"""`ledger verify` compares all that is in a ledger's database with what this version makes in one."""

from __future__ import annotations

import json
import sqlite3

import pytest
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.database_schema import OBJECTS, database_objects
from crowdblend.accounting.ledger.opening import SCHEMA_REVISION

PLANTED = {
    "sqlite": {
        "CREATE VIEW seen AS SELECT * FROM entry": "the database has a view seen, which no ledger has",
        "CREATE TABLE apart (x)": "the database has a table apart, which no ledger has",
        "CREATE TRIGGER late AFTER INSERT ON entry BEGIN SELECT 1; END": "the database has a guard late, which no",
        "CREATE INDEX more ON entry (body)": "the database has a index more, which no ledger has",
        "ALTER TABLE snapshot ADD COLUMN more TEXT": "the database's table snapshot is another one than this version",
        "INSERT INTO ledger_version VALUES ('0009')": "the database's schema revision is another one",
    },
    "postgresql": {
        "CREATE VIEW seen AS SELECT * FROM entry": "the database has a view seen, which no ledger has",
        "CREATE TABLE apart (x int)": "the database has a table apart, which no ledger has",
        "ALTER TABLE snapshot ADD COLUMN more TEXT": "the database has a column snapshot.more, which no ledger has",
        "CREATE INDEX more ON entry (body)": "the database has a index more, which no ledger has",
        "ALTER TABLE entry DROP CONSTRAINT entry_hash_key": "the database's constraint entry.entry_hash_key is missing",
        "ALTER TABLE entry ALTER COLUMN body DROP NOT NULL": "the database's column entry.body is another one",
        "CREATE OR REPLACE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN NULL; END $$": "the database's function ledger_append_only() is another one",
        "CREATE RULE quiet AS ON INSERT TO entry DO INSTEAD NOTHING": "the database has a rule entry.quiet, which",
        "ALTER TABLE entry DISABLE TRIGGER ALL": "the database's guard entry_in_order is missing",
        "ALTER TABLE snapshot ENABLE ROW LEVEL SECURITY": "the database's table snapshot is another one",
        "CREATE TABLE apart () INHERITS (entry)": "the database's table entry is another one",
        "INSERT INTO ledger_version VALUES ('0009')": "the database's schema revision is another one",
    },
}


def test_a_new_ledger_has_what_is_written_down(books) -> None:
    """Where a migration changes what is made, this names what the file must have."""
    there = books.raw(database_objects)
    assert there.pop("schema revision") == SCHEMA_REVISION
    assert there == json.loads(OBJECTS.read_bytes())[books.dialect]
    assert books.findings() == []


@pytest.mark.parametrize("number", range(max(map(len, PLANTED.values()))))
def test_whatever_else_is_in_the_database_is_found(books, number) -> None:
    planted = list(PLANTED[books.dialect].items())
    statement, finding = planted[number % len(planted)]
    books.sql(statement)
    assert any(finding in told for told in books.findings()), books.findings()


def test_a_guard_with_another_text_or_a_table_with_another_check_is_found(tmp_path, anchoring, sqlite_books) -> None:
    path = sqlite_books.url.removeprefix("sqlite:///")
    for name, before, after in (
        ("entry_no_update", "RAISE(ABORT, 'the table entry is append-only')", "1"),
        ("snapshot", "slot = 0", "slot < 9"),
    ):
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            change = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ?"
            assert connection.execute(change, (before, after, name)).rowcount == 1
        kind = "table" if name == "snapshot" else "guard"
        assert f"the database's {kind} {name} is another one than this version makes" in sqlite_books.findings()
    with pytest.raises(Exception, match="there is a ledger here already"):
        create_ledger(sqlite_books.url, anchoring=anchoring)
