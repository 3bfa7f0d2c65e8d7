"""How a ledger comes into being, and how an earlier version's comes to the present tables: whole, and verified."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect

from ....mechanisms.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..chain.anchor import AnchorFile, Anchoring
from ..chain.append import append_entry
from ..chain.hashing import Head
from ..chain.signed_state import begin_state, head_of, sign_state, signer_of, vouched
from ..entries.kinds import LedgerCreated
from ..rules.rule import StoredState
from .schema import EARLIER_REVISIONS, SCHEMA_REVISION, VERSION_TABLE, entry
from .store import (
    keep_write_ahead_log,
    locate,
    open_database,
    open_store,
    present_head,
    remedy_for_unknown,
    revision_of,
)

__all__ = [
    "MIGRATIONS",
    "Migrated",
    "begin_anchor",
    "create_ledger",
    "ledger_exists",
    "migrate_ledger",
    "upgrade_tables",
]

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
    from ..rules.audit import build_state, verify_ledger

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
                remedy=remedy_for_unknown(before),
            )
        with store.changing() as connection:
            head = present_head(connection)
            anchoring.require_continued(connection, ledger_id=head.ledger_id, last=anchoring.last_of(head.ledger_id))
            anchoring.require_signed(connection, head)
            upgrade_tables(connection)
            build_state(connection)
            sign_state(connection, head, anchoring.keys.current(), root=vouched(connection).root)
            findings = verify_ledger(connection)
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


SQLITE_FILE = b"SQLite format 3\0"


def create_ledger(url: str, *, anchoring: Anchoring) -> str:
    """Create an empty ledger, its first entry anchored.

    Args:
        url: SQLAlchemy URL of an SQLite file that need not exist, or of a PostgreSQL database.
        anchoring: who signs the chain's heads, and where they are copied to.

    Returns:
        The ledger's id, 64 hexadecimal digits.

    Raises:
        InputRefused: there is a ledger, or something else, or nothing can be created there; or there is no signing
            key, or the anchor is another ledger's.
    """
    parsed, shown = locate(url)
    ledger_id = secrets.token_hex(32)  # a name that no other ledger has; nothing secret follows from it
    anchoring.keys.current()
    _require_unused(anchoring.anchor_of(ledger_id))
    if parsed.get_backend_name() == "sqlite":
        _create_file(Path(str(parsed.database)), shown)
    store = open_database(url, anchoring=anchoring, creating=True)
    try:
        if store.dialect == "sqlite":
            keep_write_ahead_log(store)
        with store.writing() as connection:
            tables = inspect(connection)
            if tables.has_table(entry.name) or tables.has_table(VERSION_TABLE):
                raise InputRefused("there is a ledger here already.", where=shown, remedy="Use it as it is.")
            if store.dialect == "sqlite" and tables.get_table_names():
                raise InputRefused("this file is another program's database.", where=shown)
            upgrade_tables(connection)
            begin_state(connection)
            append_entry(connection, LedgerCreated(ledger_id=ledger_id), StoredState(connection))
    except ReleaseFailed as failure:
        raise InputRefused(
            f"no ledger can be created here: {failure.what}",
            where=shown,
            remedy="Check the address, the permissions, and that the database is running.",
        ) from None
    finally:
        store.close()
    return ledger_id


def begin_anchor(url: str, *, anchoring: Anchoring) -> Head:
    """Begin a ledger's anchor at its present head, and sign that; what came before it is vouched for by nobody.

    Raises:
        ForgedState: no signature holds over the head and the state of the tables, whosever it be.
        InputRefused: there is no ledger or no signing key, or the anchor has a head already, or can't be written.
    """
    key = anchoring.keys.current()
    store = open_store(url, anchoring=anchoring)
    try:
        with store.changing() as connection:
            head = present_head(connection)
            _require_unused(anchoring.anchor_of(head.ledger_id))
            signer_of(connection, head)
            sign_state(connection, head, key, root=vouched(connection).root)
        anchoring.record(head, key, written=True)
    finally:
        store.close()
    return head


def _require_unused(anchor: AnchorFile) -> None:
    """Refuse an anchor that has a line already."""
    remedy = "Keep it as evidence under another name."
    try:
        used = anchor.last() is not None
    except ValueError:
        used = True
    except OSError as error:
        raise InputRefused(f"the anchor can't be read ({error.strerror}).", where=str(anchor.path)) from None
    if used:
        raise InputRefused("there is an anchor here already.", where=str(anchor.path), remedy=remedy)


def ledger_exists(url: str) -> bool:
    """Whether a ledger, of whatever schema revision, is at this address.

    Raises:
        InputRefused: the address is wrong, or its database can't be opened.
    """
    parsed, shown = locate(url)
    if parsed.get_backend_name() == "sqlite" and not os.path.isfile(str(parsed.database)):
        return False
    store = open_database(url, anchoring=None)
    try:
        with store.reading() as connection:
            return inspect(connection).has_table(entry.name)
    except ReleaseFailed as failure:
        raise InputRefused(failure.what, where=shown, remedy="Check the address and the permissions.") from None
    finally:
        store.close()


def _create_file(path: Path, shown: str) -> None:
    """Create an empty file that its owner alone can read, or leave the database that is there."""
    try:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
            beginning = file.read(len(SQLITE_FILE))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputRefused(
            f"no ledger can be created here ({error.strerror}).", where=shown, remedy="Check the folder."
        ) from None
    # SQLite would take a file of a few bytes for an empty database, and write over it.
    if beginning not in (b"", SQLITE_FILE):
        raise InputRefused("this file is not a database.", where=shown, remedy="Name another file.")
