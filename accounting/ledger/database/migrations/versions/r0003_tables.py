"""A ledger's tables: entries, what follows from them, the guards that hold the rules, and the signed state over all.

A migration is never changed once released; it shares no code with the current tables for that reason.
"""

from __future__ import annotations

from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None

# Each table with its columns and, for its guards, the sets of columns that are unique.
TABLES: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "entry": (
        """
        position {place} NOT NULL PRIMARY KEY CHECK (position >= 0),
        previous TEXT NOT NULL UNIQUE,
        hash TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        CHECK (length(hash) = 64 AND length(previous) = 64)
        """,
        (("position",), ("previous",), ("hash",)),
    ),
    "dataset": (
        """
        name TEXT NOT NULL PRIMARY KEY,
        position {place} NOT NULL UNIQUE REFERENCES entry (position)
        """,
        (("name",), ("position",)),
    ),
    "account": (
        """
        dataset TEXT NOT NULL REFERENCES dataset (name),
        sequence {place} NOT NULL CHECK (sequence >= 0),
        position {place} NOT NULL UNIQUE REFERENCES entry (position),
        epsilon_spent TEXT NOT NULL,
        delta_spent TEXT NOT NULL,
        epsilon_budget TEXT NOT NULL,
        delta_budget TEXT NOT NULL,
        PRIMARY KEY (dataset, sequence)
        """,
        (("dataset", "sequence"), ("position",)),
    ),
    "release": (
        """
        release_id TEXT NOT NULL PRIMARY KEY,
        dataset TEXT NOT NULL REFERENCES dataset (name),
        position {place} NOT NULL UNIQUE REFERENCES entry (position)
        """,
        (("release_id",), ("position",)),
    ),
    # A release takes a sample of its own, and one more where its map is chosen on a sample.
    "sample": (
        """
        sample_id TEXT NOT NULL PRIMARY KEY,
        release_id TEXT NOT NULL REFERENCES release (release_id),
        position {place} NOT NULL REFERENCES entry (position),
        purpose TEXT NOT NULL CHECK (purpose IN ('release', 'selection')),
        UNIQUE (release_id, purpose),
        UNIQUE (position, purpose)
        """,
        (("sample_id",), ("release_id", "purpose"), ("position", "purpose")),
    ),
    "release_stage": (
        """
        release_id TEXT NOT NULL REFERENCES release (release_id),
        stage TEXT NOT NULL,
        outcome TEXT NOT NULL,
        position {place} NOT NULL UNIQUE REFERENCES entry (position),
        PRIMARY KEY (release_id, stage),
        CHECK (
            (stage IN ('charged', 'reading') AND outcome = stage)
            OR (stage = 'closed' AND outcome IN ('published', 'abandoned', 'refunded'))
        )
        """,
        (("release_id", "stage"), ("position",)),
    ),
    "survey_use": (
        """
        dataset TEXT NOT NULL PRIMARY KEY REFERENCES dataset (name),
        release_id TEXT NOT NULL UNIQUE REFERENCES release (release_id),
        position {place} NOT NULL UNIQUE REFERENCES entry (position)
        """,
        (("dataset",), ("release_id",), ("position",)),
    ),
    "series": (
        """
        name TEXT NOT NULL PRIMARY KEY,
        dataset TEXT NOT NULL REFERENCES dataset (name),
        releases {place} NOT NULL CHECK (releases >= 1),
        position {place} NOT NULL UNIQUE REFERENCES entry (position)
        """,
        (("name",), ("position",)),
    ),
    # A place that was given back unread can be taken again: the same number, the next turn.
    "series_release": (
        """
        series TEXT NOT NULL REFERENCES series (name),
        number {place} NOT NULL CHECK (number >= 1),
        turn {place} NOT NULL CHECK (turn >= 0),
        release_id TEXT NOT NULL UNIQUE REFERENCES release (release_id),
        position {place} NOT NULL UNIQUE REFERENCES entry (position),
        PRIMARY KEY (series, number, turn)
        """,
        (("series", "number", "turn"), ("release_id",), ("position",)),
    ),
}

# What vouches for the rows above, replaced by each write: a tree of digests over all rows, and its root's signature.
STATE = (
    "CREATE TABLE state_node (path {path} NOT NULL PRIMARY KEY, children TEXT NOT NULL)",
    "CREATE TABLE signed_state (slot {place} NOT NULL PRIMARY KEY CHECK (slot = 0), "
    "root TEXT NOT NULL CHECK (length(root) = 64), statement TEXT NOT NULL)",
)

GENESIS = "0" * 64

# What must not hold of a new row, in the SQL that both databases share; a guard aborts where it does.
OUT_OF_ORDER = {
    "entry": f"""
        NEW.position <> (SELECT COALESCE(MAX(position) + 1, 0) FROM entry)
        OR NEW.previous <> COALESCE((SELECT hash FROM entry ORDER BY position DESC LIMIT 1), '{GENESIS}')
        """,  # noqa: S608 - nothing here comes from outside
    "account": """
        NEW.sequence <> (SELECT COALESCE(MAX(sequence) + 1, 0) FROM account WHERE dataset = NEW.dataset)
        OR {over_budget}
        """,
    # A sample is taken by its release's charge and by nothing later.
    "sample": "NEW.position <> (SELECT position FROM release WHERE release_id = NEW.release_id)",
    "release_stage": """
        (NEW.stage = 'charged' AND EXISTS (SELECT 1 FROM release_stage WHERE release_id = NEW.release_id))
        OR (NEW.stage <> 'charged' AND NOT EXISTS (
            SELECT 1 FROM release_stage WHERE release_id = NEW.release_id AND stage = 'charged'))
        OR (NEW.stage = 'reading' AND EXISTS (
            SELECT 1 FROM release_stage WHERE release_id = NEW.release_id AND stage = 'closed'))
        OR (NEW.outcome = 'refunded' AND EXISTS (
            SELECT 1 FROM release_stage WHERE release_id = NEW.release_id AND stage = 'reading'))
        OR (NEW.outcome IN ('published', 'abandoned') AND NOT EXISTS (
            SELECT 1 FROM release_stage WHERE release_id = NEW.release_id AND stage = 'reading'))
        """,
    "series_release": """
        NOT EXISTS (
            SELECT 1 FROM series JOIN release ON release.dataset = series.dataset
            WHERE series.name = NEW.series AND release.release_id = NEW.release_id
            AND NEW.number <= series.releases)
        OR NEW.turn <> (
            SELECT COUNT(*) FROM series_release AS other
            JOIN release_stage AS ending ON ending.release_id = other.release_id AND ending.outcome = 'refunded'
            WHERE other.series = NEW.series AND other.number = NEW.number)
        OR NEW.turn <> (
            SELECT COUNT(*) FROM series_release AS other
            WHERE other.series = NEW.series AND other.number = NEW.number)
        """,
}
# PostgreSQL compares the amounts exactly. SQLite has no exact decimals: there this is a coarse net below
# the exact comparison that the writer makes in the same transaction.
OVER_BUDGET = {
    "postgresql": """NEW.epsilon_spent::numeric > NEW.epsilon_budget::numeric
        OR NEW.delta_spent::numeric > NEW.delta_budget::numeric""",
    "sqlite": """CAST(NEW.epsilon_spent AS REAL) > CAST(NEW.epsilon_budget AS REAL) * 1.000000001
        OR CAST(NEW.delta_spent AS REAL) > CAST(NEW.delta_budget AS REAL) * 1.000000001""",
}


def upgrade() -> None:
    """Create the tables and their guards."""
    dialect = op.get_context().dialect.name
    place = {"sqlite": "INTEGER", "postgresql": "BIGINT"}[dialect]
    path = {"sqlite": "TEXT", "postgresql": 'TEXT COLLATE "C"'}[dialect]
    for name, (columns, _) in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({columns.format(place=place)})")
    for statement in STATE:
        op.execute(statement.format(place=place, path=path))
    op.execute("CREATE INDEX ix_release_dataset ON release (dataset)")
    if dialect == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def downgrade() -> None:
    """Refuse: a ledger's entries are never dropped.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("a ledger is never taken back before its first version")


def _guard_sqlite() -> None:
    for name, (_, unique) in TABLES.items():
        abort = f"BEGIN SELECT RAISE(ABORT, 'the table {name} is append-only'); END"
        op.execute(f"CREATE TRIGGER {name}_no_update BEFORE UPDATE ON {name} {abort}")
        op.execute(f"CREATE TRIGGER {name}_no_delete BEFORE DELETE ON {name} {abort}")
        # INSERT OR REPLACE would delete the old row without firing the trigger above.
        same = " OR ".join(
            "(" + " AND ".join(f"{column} = NEW.{column}" for column in columns) + ")" for columns in unique
        )
        op.execute(  # the names are this file's own
            f"CREATE TRIGGER {name}_no_replace BEFORE INSERT ON {name} "  # noqa: S608
            f"WHEN EXISTS (SELECT 1 FROM {name} WHERE {same}) {abort}"
        )
    for name, condition in OUT_OF_ORDER.items():
        op.execute(
            f"CREATE TRIGGER {name}_in_order BEFORE INSERT ON {name} "
            f"WHEN {condition.format(over_budget=OVER_BUDGET['sqlite'])} "
            f"BEGIN SELECT RAISE(ABORT, 'the new row of {name} breaks a rule of the ledger'); END"
        )


def _guard_postgresql() -> None:
    op.execute(
        """
        CREATE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'the table % is append-only', TG_TABLE_NAME
                USING ERRCODE = 'integrity_constraint_violation';
        END $$
        """
    )
    for name in TABLES:
        op.execute(
            f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
            "FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only()"
        )
    for name, condition in OUT_OF_ORDER.items():
        op.execute(
            f"""
            CREATE FUNCTION ledger_{name}_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF {condition.format(over_budget=OVER_BUDGET["postgresql"])} THEN
                    RAISE EXCEPTION 'the new row of % breaks a rule of the ledger', TG_TABLE_NAME
                        USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN NEW;
            END $$
            """
        )
        op.execute(
            f"CREATE TRIGGER {name}_in_order BEFORE INSERT ON {name} "
            f"FOR EACH ROW EXECUTE FUNCTION ledger_{name}_in_order()"
        )
