"""The tables of earlier versions: ledgers that have them are brought on by the next revision, and none is made anew."""

from __future__ import annotations

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Leave a new database empty for the next revision."""


def downgrade() -> None:
    """Refuse: a ledger's entries are never dropped.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("a ledger is never taken back before its first version")
