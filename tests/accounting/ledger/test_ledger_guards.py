"""The database itself holds the rules, against code that goes past the ledger's own."""

from __future__ import annotations

import pytest
from crowdblend.accounting.ledger.chain.hashing import link_hash
from crowdblend.accounting.ledger.database.schema import APPEND_ONLY, METADATA
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

TABLES = sorted(table.name for table in APPEND_ONLY)
FILES = (("data.csv", "c" * 64),)


@pytest.fixture
def filled(books):
    """A ledger with a row in every table."""
    from decimal import Decimal

    books.add()
    books.add("survey", survey_rate=Decimal("0.05"))
    receipt = books.charge("of-survey", dataset="survey")
    with books.writer() as writer:
        writer.mark_reading(receipt)
        writer.mark_published(receipt, FILES)
    books.charge("charged")
    books.register(releases=2)
    for number in range(2):
        books.writer().charge(books.of_series(f"of-series-{number}", releases=2))
    books.charge("refunded")
    books.abandon("refunded")
    return books


def add_entry(books) -> int:
    """Append an entry that says nothing, as a row that others may refer to."""

    def work(connection):
        head = connection.execute(text("SELECT position, hash FROM entry ORDER BY position DESC LIMIT 1")).one()
        own = link_hash(previous=head.hash, position=head.position + 1, body=b"x")
        connection.execute(
            text("INSERT INTO entry VALUES (:position, :previous, :hash, 'x', 'x')"),
            {"position": head.position + 1, "previous": head.hash, "hash": own},
        )
        return head.position + 1

    return books.raw(work)


AGAINST_THE_RULES = (
    "INSERT INTO sample VALUES ('fresh', 'charged', :position, 'release')",
    "INSERT INTO sample VALUES ('fresh', 'charged', :position, 'selection')",
    "INSERT INTO sample SELECT 'fresh', release_id, position, 'other' FROM sample WHERE release_id = 'charged'",
    "INSERT INTO sample SELECT sample_id, 'unknown', :position, purpose FROM sample WHERE release_id = 'charged'",
    "INSERT INTO sample SELECT other.sample_id, release.release_id, release.position, 'selection' "
    "FROM release, sample AS other WHERE release.release_id = 'charged' AND other.release_id = 'refunded'",
    "INSERT INTO release VALUES ('charged', 'census', :position)",
    "INSERT INTO release VALUES ('new', 'unknown', :position)",
    "INSERT INTO dataset VALUES ('census', :position)",
    "INSERT INTO release_stage VALUES ('charged', 'charged', 'charged', :position)",
    "INSERT INTO release_stage VALUES ('charged', 'closed', 'published', :position)",
    "INSERT INTO release_stage VALUES ('charged', 'closed', 'abandoned', :position)",
    "INSERT INTO release_stage VALUES ('charged', 'closed', 'burnt', :position)",
    "INSERT INTO release_stage VALUES ('charged', 'elsewhere', 'charged', :position)",
    "INSERT INTO release_stage VALUES ('of-survey', 'closed', 'refunded', :position)",
    "INSERT INTO release_stage VALUES ('of-survey', 'closed', 'abandoned', :position)",
    "INSERT INTO release_stage VALUES ('refunded', 'reading', 'reading', :position)",
    "INSERT INTO survey_use VALUES ('survey', 'charged', :position)",
    "INSERT INTO series VALUES ('monthly', 'census', 9, :position)",
    "INSERT INTO series VALUES ('new', 'unknown', 9, :position)",
    "INSERT INTO series VALUES ('new', 'census', 0, :position)",
    "INSERT INTO series_release VALUES ('monthly', 3, 0, 'charged', :position)",
    "INSERT INTO series_release VALUES ('monthly', 0, 0, 'charged', :position)",
    "INSERT INTO series_release VALUES ('monthly', 2, 0, 'charged', :position)",
    "INSERT INTO series_release VALUES ('monthly', 2, 1, 'charged', :position)",
    "INSERT INTO series_release VALUES ('new', 1, 0, 'charged', :position)",
    "INSERT INTO account VALUES ('census', 0, :position, '0', '0', '9', '0.1')",
    "INSERT INTO account VALUES ('census', 9, :position, '0', '0', '9', '0.1')",
    "INSERT INTO account VALUES ('census', 5, :position, '9.1', '0', '9', '0.1')",
    "INSERT INTO account VALUES ('census', 5, :position, '1', '0.2', '9', '0.1')",
)


def rows_of(books, table: str):
    return books.raw(lambda connection: connection.execute(text(f"SELECT * FROM {table}")).all())


def test_no_row_is_changed_or_removed(filled) -> None:
    for table in TABLES:
        rows = rows_of(filled, table)
        assert rows
        column = next(iter(METADATA.tables[table].columns)).name
        statements = [f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"]
        if filled.dialect == "postgresql":
            statements.append(f"TRUNCATE {table} CASCADE")
        else:
            statements.append(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
        for statement in statements:
            with pytest.raises(DatabaseError):
                filled.sql(statement)
        assert rows == rows_of(filled, table)


def test_rows_against_the_rules_are_refused_by_the_database(filled) -> None:
    position = add_entry(filled)
    for case in AGAINST_THE_RULES:
        # SQLite knows foreign keys only where a connection asks for them, as the ledger's own do.
        statement = case.replace("'unknown'", "NULL") if filled.dialect == "sqlite" else case
        with pytest.raises(DatabaseError):
            filled.sql(statement, position=position)


@pytest.mark.slow
def test_a_control_rows_within_the_rules_are_taken(filled) -> None:
    for statement in (
        "INSERT INTO account VALUES ('census', 5, :position, '9', '0.1', '9', '0.1')",
        "INSERT INTO release_stage VALUES ('charged', 'closed', 'refunded', :position)",
        "INSERT INTO sample SELECT 'fresh', release_id, position, 'selection' FROM sample WHERE release_id = 'charged'",
    ):
        filled.sql(statement, position=add_entry(filled))


@pytest.mark.slow
def test_the_chain_grows_at_its_head_only(filled) -> None:
    with filled.reader() as reader:
        head = reader.head()
    for position, previous in ((99, head.hash), (3, head.hash), (None, "0" * 64), (None, "d" * 64)):
        with pytest.raises(DatabaseError):
            filled.sql(
                "INSERT INTO entry VALUES (:position, :previous, :hash, 'x', 'x')",
                position=head.position + 1 if position is None else position,
                previous=previous,
                hash="e" * 64,
            )


def test_a_reader_can_not_write(books) -> None:
    with books.reader() as reader, reader._store.reading() as connection, pytest.raises(DatabaseError):
        connection.exec_driver_sql("INSERT INTO dataset VALUES ('x', 0)")
