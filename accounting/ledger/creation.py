"""How a ledger comes into being: tables, guards and first entry in one transaction."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from sqlalchemy import inspect

from ...mechanisms.refusal import InputRefused, ReleaseFailed
from .anchor import AnchorFile, Head
from .anchoring import Anchoring
from .append import append_entry
from .connection import locate
from .entry import LedgerCreated
from .migration import upgrade_tables
from .schema import VERSION_TABLE, entry
from .signed_state import begin_state, sign_state, signer_of, vouched
from .store import keep_write_ahead_log, open_database, open_store, present_head
from .stored_state import StoredState

__all__ = ["begin_anchor", "create_ledger", "ledger_exists"]

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
        anchoring.record(head, key)
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
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).is_file():
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
