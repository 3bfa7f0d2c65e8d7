"""The state of the tables under a signature: a tree of digests over all rows, and the signed statement of its root.

A migration is never changed once released; it shares no code with the current tables for that reason.
"""

from __future__ import annotations

from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create two tables, empty: the state is built from the entries afterwards, and signed."""
    sqlite = op.get_context().dialect.name == "sqlite"
    place, path = ("INTEGER", "TEXT") if sqlite else ("BIGINT", 'TEXT COLLATE "C"')
    op.execute(f"CREATE TABLE state_node (path {path} NOT NULL PRIMARY KEY, children TEXT NOT NULL)")
    op.execute(
        f"CREATE TABLE signed_state (slot {place} NOT NULL PRIMARY KEY CHECK (slot = 0), "
        "root TEXT NOT NULL CHECK (length(root) = 64), statement TEXT NOT NULL)"
    )


def downgrade() -> None:
    """Refuse: what vouches for the tables is never dropped.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("a ledger is never taken back to an earlier version")
