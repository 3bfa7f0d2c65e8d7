"""How an earlier version's ledger comes to the present tables: on purpose, whole, and verified before it counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from ...mechanisms.refusal import AccountantRefused, InputRefused
from .anchoring import Anchoring
from .append import head_of
from .schema import EARLIER_REVISIONS, SCHEMA_REVISION, VERSION_TABLE
from .signed_state import sign_state, vouched
from .store import open_database, present_head, revision_of

__all__ = ["MIGRATIONS", "Migrated", "migrate_ledger", "upgrade_tables"]

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, kw_only=True, slots=True)
class Migrated:
    """What a migration did.

    Args:
        before: the schema revision that was found.
        after: the one that the ledger has now; the same where nothing was to be done.
        entries: how many entries the ledger has, before and after.
    """

    before: str
    after: str
    entries: int


def upgrade_tables(connection: Connection) -> None:
    """Bring the tables to this version's schema revision, inside the transaction of the connection.

    Args:
        connection: a connection in a writing transaction.
    """
    from alembic import command  # takes a third of a second, and most commands never need it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    command.upgrade(config, SCHEMA_REVISION)


def migrate_ledger(url: str, *, anchoring: Anchoring) -> Migrated:
    """Bring a ledger to this version's schema revision, in one transaction; its entries stay as they are.

    INVARIANT: the ledger continues its anchor, its head is signed by a key of the private store, it keeps that head,
    and it verifies as a whole in the new tables; else nothing is changed. So the new signature covers no entry that the
    old one did not.

    Args:
        url: its address; on PostgreSQL the role must own the tables.
        anchoring: who signs the chain's heads, and where they are copied to.

    Raises:
        InputRefused: there is no ledger, or one of a revision that this version does not know.
        AccountantRefused: it is behind its anchor, its head isn't signed by a key of the private store, or it does not
            hold.
        ReleaseFailed: the database fails.
    """
    # With these come all prices' modules, which creating a ledger does without.
    from .audit import verify_ledger
    from .state_building import build_state

    store = open_database(url, anchoring=anchoring)
    try:
        before = revision_of(store)
        if before == SCHEMA_REVISION:
            with store.reading() as connection:
                return Migrated(before=before, after=before, entries=head_of(connection).position + 1)
        if before not in EARLIER_REVISIONS:
            raise InputRefused(
                f"this ledger has schema revision {before}, which this version of crowdblend does not know.",
                where=store.shown,
                not_done="Nothing was changed in it.",
                remedy="Use the version of crowdblend that wrote it, or a later one.",
            )
        with store.changing() as connection:
            head = present_head(connection)
            anchoring.require_continued(connection, ledger_id=head.ledger_id, last=anchoring.last_of(head.ledger_id))
            anchoring.require_signed(connection, head)
            upgrade_tables(connection)
            build_state(connection)
            sign_state(connection, head, anchoring.keys.current(), root=vouched(connection).root)
            findings = verify_ledger(connection, dialect=store.dialect)
            if findings or present_head(connection) != head:
                what = findings[0] if findings else "its head would change"
                raise AccountantRefused(
                    f"the migrated ledger would not hold: {what}.",
                    where=store.shown,
                    not_done="Nothing was changed in it.",
                    remedy="Run `crowdblend ledger verify` of the version that wrote it.",
                )
    finally:
        store.close()
    return Migrated(before=before, after=SCHEMA_REVISION, entries=head.position + 1)
