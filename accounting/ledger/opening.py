"""How a ledger is found by its address and opened: it must be there, in this version's schema."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ..kernel.ledger.database import Store, entry, open_database, refuse_busy
from ..kernel.ledger.entries import LedgerCreated, entry_of_bytes

SCHEMA_REVISION = "0004"
EARLIER_REVISIONS = ("0003",)  # those that a migration brings to the present one
UNSIGNED_REVISIONS = {"0001": "7a33e7453769", "0002": "822f357a1512"}
"""Schema revisions of development versions, without a signed state → the last commit of this project that knows it."""
VERSION_TABLE = "ledger_version"
LEDGER_AWAY = ("ledger-busy", "ledger-unreachable")
"""Causes of refusals that say nothing of a release but that the ledger's database can't be used now."""


def locate(url: str) -> tuple[URL, str]:
    """Parse a ledger's address: an SQLAlchemy URL of an SQLite file or of a PostgreSQL database.

    Returns:
        The parsed address, an SQLite file's path made absolute, and its text without password.

    Raises:
        InputRefused: it is not such an address.
    """
    remedy = "Write sqlite:///FILE or postgresql://USER@HOST/DATABASE."
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        # PRIVACY: the text is not repeated; it may hold a password.
        what = "the ledger's address is not a database URL."
        raise InputRefused(what, where="--ledger", remedy=remedy) from None
    shown = parsed.set(query={}).render_as_string(hide_password=True)
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg"), shown
    if backend != "sqlite" or parsed.query or not parsed.database or parsed.database == ":memory:":
        raise InputRefused("a ledger lies in an SQLite file or a PostgreSQL database.", where=shown, remedy=remedy)
    return parsed.set(drivername="sqlite", database=str(Path(parsed.database).absolute())), shown


def open_at(url: str, *, read_only: bool, creating: bool = False) -> Store:
    """Open the database at an address, whether or not a ledger is in it, and of whatever schema revision.

    Raises:
        InputRefused: the address is wrong, or the driver is missing.
    """
    parsed, shown = locate(url)
    return open_database(parsed, shown=shown, read_only=read_only, creating=creating)


def keep_write_ahead_log(store: Store) -> None:
    """Switch an SQLite file to write-ahead logging, for good; it can't be done inside a transaction.

    An empty file gets SQLite's largest pages as well: each charge reads all entries and writes the whole snapshot.

    Raises:
        ReleaseFailed: the file is not a database, or can't be written.
    """
    try:
        with closing(store.engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA page_size = 65536")
            connection.cursor().execute("PRAGMA journal_mode = WAL")
    except (DatabaseError, sqlite3.DatabaseError) as error:
        raise ReleaseFailed(f"not a writable SQLite file ({type(error).__name__}).", not_done="") from None


def open_store(url: str, *, read_only: bool) -> Store:
    """Open a ledger, which must be there, in this version's schema.

    Raises:
        InputRefused: no ledger is there, or one of another schema revision.
        AccountantRefused: it is opened for writing, and others hold it too long.
    """
    store = open_at(url, read_only=read_only)
    revision = revision_of(store)
    if revision == SCHEMA_REVISION:
        return store
    remedy = remedy_for_unknown(revision)
    if revision in EARLIER_REVISIONS:
        remedy = "Back it up, then bring it to this version's tables: crowdblend ledger migrate."
    raise InputRefused(
        f"this ledger has schema revision {revision}; this version of crowdblend uses {SCHEMA_REVISION}.",
        where=store.shown,
        not_done="Nothing was read or changed in it.",
        remedy=remedy,
    )


def remedy_for_unknown(revision: str) -> str:
    """Return what to do with a ledger of a schema revision that no migration begins at."""
    if (commit := UNSIGNED_REVISIONS.get(revision)) is None:
        return "Use the version of crowdblend that wrote it, or a later one."
    return (
        f"No later version reads it: its tables were never signed, so that nothing vouches for what they would be "
        f"brought to. Read it by the sources of commit {commit}, the last that know it; then begin a new ledger whose "
        "budgets are what is left of the old ones."
    )


def revision_of(store: Store) -> str:
    """Return the schema revision of the ledger in a database.

    Raises:
        InputRefused: no ledger is there, or its database can't be opened.
        AccountantRefused: it is opened for writing, and others hold it too long.
    """
    missing = InputRefused(
        "there is no ledger here.",
        where=store.shown,
        remedy="Is the ledger elsewhere? Name it by --ledger, CROWDBLEND_LEDGER or crowdblend.toml: a second ledger is "
        "a second budget. Only where there is none, create it: `crowdblend ledger init` or `crowdblend dataset add`.",
    )
    if store.path is not None and not is_file(store.path, shown=store.shown):
        raise missing
    try:
        with store.engine.connect() as connection:
            tables = inspect(connection)
            if not tables.has_table(entry.name) or not tables.has_table(VERSION_TABLE):
                raise missing
            revision = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    except DatabaseError as error:
        refuse_busy(error, store.shown)
        raise InputRefused(
            f"the ledger can't be opened ({type(error.orig).__name__}).",
            where=store.shown,
            remedy="Check the address, the permissions, and that the database is running.",
            cause="ledger-unreachable",
        ) from None
    return str(revision)


def is_file(path: Path | str, *, shown: str) -> bool:
    """Return whether there is a file at the place of an SQLite ledger.

    Raises:
        InputRefused: it can't be looked at, so that nobody knows; `shown` is the ledger's address for the message.
    """
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last of a path with a null character
        return False
    except OSError as error:
        raise InputRefused(
            f"the ledger's place can't be looked at ({error.strerror}).",
            where=shown,
            remedy="Check the address and the permissions.",
            cause="ledger-unreachable",
        ) from None


def ledger_id_of(connection: Connection) -> str:
    """Return the ledger's id by its first entry alone; `ReleaseFailed` where that is not what it must be."""
    body = connection.execute(select(entry.c.body).where(entry.c.position == 0)).scalar()
    with suppress(ValueError):
        first = entry_of_bytes((body if isinstance(body, str) else "").encode("ascii"))
        if isinstance(first, LedgerCreated):
            return first.ledger_id
    raise ReleaseFailed("the first entry is damaged.", not_done="", remedy="Run `crowdblend ledger verify`.")
