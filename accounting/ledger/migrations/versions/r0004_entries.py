"""A ledger's tables: its entries with their guards, and the signed snapshot of what follows from them.

A migration is never changed once released; it shares no code with the current tables for that reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from alembic import op
from sqlalchemy import Connection, inspect, text

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = (
    """
    CREATE TABLE entry (
        position {place} NOT NULL PRIMARY KEY CHECK (position >= 0),
        previous TEXT NOT NULL UNIQUE,
        hash TEXT NOT NULL UNIQUE,
        body TEXT NOT NULL,
        release_id TEXT UNIQUE,
        sample_id TEXT UNIQUE,
        selection_sample_id TEXT UNIQUE,
        CHECK (length(hash) = 64 AND length(previous) = 64)
    )
    """,
    """
    CREATE TABLE snapshot (
        slot {place} NOT NULL PRIMARY KEY CHECK (slot = 0),
        state TEXT NOT NULL,
        statement TEXT NOT NULL
    )
    """,
)
UNIQUE = ("position", "previous", "hash", "release_id", "sample_id", "selection_sample_id")
GENESIS = "0" * 64

# What must not hold of a new entry, in the SQL that both databases share; the guard aborts where it does.
OUT_OF_ORDER = f"""
    NEW.position <> (SELECT COALESCE(MAX(position) + 1, 0) FROM entry)
    OR NEW.previous <> COALESCE((SELECT hash FROM entry ORDER BY position DESC LIMIT 1), '{GENESIS}')
    OR EXISTS (SELECT 1 FROM entry WHERE sample_id = NEW.selection_sample_id OR selection_sample_id = NEW.sample_id)
    """  # noqa: S608 - nothing here comes from outside

# Of the earlier revision, each before those that it refers to.
EARLIER = (
    *("series_release", "series", "survey_use", "release_stage", "sample", "release", "account", "dataset"),
    *("state_node", "signed_state"),
)
EARLIER_GUARDS = ("entry", "account", "sample", "release_stage", "series_release")


def upgrade() -> None:
    """Create the tables and their guards; carry over the entries of the earlier revision's tables, if there are any."""
    connection = op.get_bind()
    earlier = inspect(connection).has_table("entry")
    if earlier:
        _set_aside(connection)
    place = {"sqlite": "INTEGER", "postgresql": "BIGINT"}[connection.dialect.name]
    for statement in TABLES:
        op.execute(statement.format(place=place))
    if earlier:
        _carry_over(connection)
        op.execute("DROP TABLE earlier_entry")
        if connection.dialect.name == "postgresql":
            for function in ("append_only", *(f"{name}_in_order" for name in EARLIER_GUARDS)):
                op.execute(f"DROP FUNCTION IF EXISTS ledger_{function}()")
    if connection.dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def downgrade() -> None:
    """Refuse: a ledger's entries are never dropped.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("a ledger is never taken back to an earlier version")


def _set_aside(connection: Connection) -> None:
    """Drop what followed from the entries, and rename their table."""
    for table in EARLIER:
        op.execute(f"DROP TABLE IF EXISTS {table}")
    op.execute("ALTER TABLE entry RENAME TO earlier_entry")
    if (
        connection.dialect.name == "postgresql"
    ):  # which keeps names of indexes and checks, and the new table's are these
        op.execute("ALTER TABLE earlier_entry DROP CONSTRAINT IF EXISTS entry_check")
        op.execute("ALTER TABLE earlier_entry DROP CONSTRAINT IF EXISTS entry_position_check")
        for index in ("entry_pkey", "entry_previous_key", "entry_hash_key"):
            op.execute(f"ALTER INDEX IF EXISTS {index} RENAME TO earlier_{index}")


def _carry_over(connection: Connection) -> None:
    insert = text(
        "INSERT INTO entry (position, previous, hash, body, release_id, sample_id, selection_sample_id) VALUES "
        "(:position, :previous, :hash, :body, :release_id, :sample_id, :selection_sample_id)"
    )
    for part in _parts(connection):
        connection.execute(insert, part)


def _parts(connection: Connection) -> Iterator[list[dict[str, Any]]]:
    """Give the earlier table's rows with what each charge takes for itself, some thousands at a time."""
    query, after, most = "SELECT position, previous, hash, body FROM earlier_entry WHERE position > :after", -1, 5_000
    while rows := connection.execute(text(f"{query} ORDER BY position LIMIT {most}"), {"after": after}).all():
        yield [{**row._mapping, **_taken(row.body)} for row in rows]
        after = rows[-1].position


def _taken(body: str) -> dict[str, str | None]:
    fields = json.loads(body)
    names = ("release_id", "sample_id", "selection_sample_id")
    charged = str(fields["kind"]).startswith("release-charged/")
    return {name: fields.get(name) if charged else None for name in names}


def _guard_sqlite() -> None:
    abort = "BEGIN SELECT RAISE(ABORT, 'the table entry is append-only'); END"
    op.execute(f"CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry {abort}")
    op.execute(f"CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry {abort}")
    # INSERT OR REPLACE would delete the old row without firing the trigger above.
    same = " OR ".join(f"{column} = NEW.{column}" for column in UNIQUE)
    op.execute(
        f"CREATE TRIGGER entry_no_replace BEFORE INSERT ON entry WHEN EXISTS (SELECT 1 FROM entry WHERE {same}) {abort}"  # noqa: S608
    )
    op.execute(
        f"CREATE TRIGGER entry_in_order BEFORE INSERT ON entry WHEN {OUT_OF_ORDER} "
        "BEGIN SELECT RAISE(ABORT, 'the new entry breaks a rule of the ledger'); END"
    )


def _guard_postgresql() -> None:
    for name, when, raised in (
        ("append_only", "BEFORE UPDATE OR DELETE OR TRUNCATE ON entry FOR EACH STATEMENT", "the table is append-only"),
        ("in_order", "BEFORE INSERT ON entry FOR EACH ROW", "the new entry breaks a rule of the ledger"),
    ):
        condition = "TRUE" if name == "append_only" else OUT_OF_ORDER
        op.execute(
            f"""
            CREATE FUNCTION ledger_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF {condition} THEN
                    RAISE EXCEPTION '{raised}' USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN NEW;
            END $$
            """
        )
        op.execute(f"CREATE TRIGGER entry_{name} {when} EXECUTE FUNCTION ledger_{name}()")
