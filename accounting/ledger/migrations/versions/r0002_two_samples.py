"""A release may take two samples, its own and the one that its map was chosen on; each still serves once.

A migration is never changed once released; it shares no code with the current tables for that reason.
"""

from __future__ import annotations

from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

PURPOSES = "('release', 'selection')"
# A sample is taken by its release's charge and by nothing later.
OUT_OF_ORDER = "NEW.position <> (SELECT position FROM release WHERE release_id = NEW.release_id)"


def upgrade() -> None:
    """Say what each sample is for; those of before are their releases' own."""
    if op.get_context().dialect.name == "sqlite":
        _upgrade_sqlite()
    else:
        _upgrade_postgresql()


def downgrade() -> None:
    """Refuse: a ledger's samples are never forgotten.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("a ledger is never taken back to an earlier version")


def _upgrade_sqlite() -> None:
    """SQLite can't drop a column's uniqueness: the table is built anew, with its rows and its guards."""
    for guard in ("no_update", "no_delete", "no_replace"):
        op.execute(f"DROP TRIGGER sample_{guard}")
    op.execute("ALTER TABLE sample RENAME TO sample_of_0001")
    op.execute(
        f"""
        CREATE TABLE sample (
            sample_id TEXT NOT NULL PRIMARY KEY,
            release_id TEXT NOT NULL REFERENCES release (release_id),
            position INTEGER NOT NULL REFERENCES entry (position),
            purpose TEXT NOT NULL CHECK (purpose IN {PURPOSES}),
            UNIQUE (release_id, purpose),
            UNIQUE (position, purpose)
        )
        """
    )
    op.execute(
        "INSERT INTO sample (sample_id, release_id, position, purpose) "
        "SELECT sample_id, release_id, position, 'release' FROM sample_of_0001"
    )
    op.execute("DROP TABLE sample_of_0001")
    abort = "BEGIN SELECT RAISE(ABORT, 'the table sample is append-only'); END"
    op.execute(f"CREATE TRIGGER sample_no_update BEFORE UPDATE ON sample {abort}")
    op.execute(f"CREATE TRIGGER sample_no_delete BEFORE DELETE ON sample {abort}")
    # INSERT OR REPLACE would delete the old row without firing the trigger above.
    op.execute(  # nothing here comes from outside
        "CREATE TRIGGER sample_no_replace BEFORE INSERT ON sample WHEN EXISTS (SELECT 1 FROM sample WHERE "  # noqa: S608
        "(sample_id = NEW.sample_id) OR (release_id = NEW.release_id AND purpose = NEW.purpose) OR "
        f"(position = NEW.position AND purpose = NEW.purpose)) {abort}"
    )
    op.execute(
        f"CREATE TRIGGER sample_in_order BEFORE INSERT ON sample WHEN {OUT_OF_ORDER} "
        "BEGIN SELECT RAISE(ABORT, 'the new row of sample breaks a rule of the ledger'); END"
    )


def _upgrade_postgresql() -> None:
    op.execute(f"ALTER TABLE sample ADD COLUMN purpose TEXT NOT NULL DEFAULT 'release' CHECK (purpose IN {PURPOSES})")
    op.execute("ALTER TABLE sample ALTER COLUMN purpose DROP DEFAULT")
    for column in ("release_id", "position"):
        op.execute(f"ALTER TABLE sample DROP CONSTRAINT sample_{column}_key")
        op.execute(f"ALTER TABLE sample ADD UNIQUE ({column}, purpose)")
    op.execute(
        f"""
        CREATE FUNCTION ledger_sample_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF {OUT_OF_ORDER} THEN
                RAISE EXCEPTION 'the new row of % breaks a rule of the ledger', TG_TABLE_NAME
                    USING ERRCODE = 'integrity_constraint_violation';
            END IF;
            RETURN NEW;
        END $$
        """
    )
    op.execute(
        "CREATE TRIGGER sample_in_order BEFORE INSERT ON sample FOR EACH ROW EXECUTE FUNCTION ledger_sample_in_order()"
    )
