"""The database under a ledger: where it is, how it is opened and given back, and its two kinds of transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import NullPool

from ....mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from .tables import EARLIER_REVISIONS, SCHEMA_REVISION, UNSIGNED_REVISIONS, VERSION_TABLE, entry, snapshot

__all__ = [
    "LEDGER_AWAY",
    "SECONDS_TO_WAIT",
    "Store",
    "keep_write_ahead_log",
    "locate",
    "open_database",
    "open_store",
    "remedy_for_unknown",
    "revision_of",
]

SECONDS_TO_WAIT = 60
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


def sqlite_engine(path: Path, *, read_only: bool) -> Engine:
    """Return an engine for an SQLite file that is there; it keeps no connection between transactions."""
    # PRIVACY: who only looks has a connection that the database itself lets write nothing; neither creates the file.
    address = f"file:{quote(str(path))}?mode={'ro' if read_only else 'rw'}"

    settings = ("foreign_keys", "recursive_triggers", *(["query_only"] if read_only else []))

    def connect() -> sqlite3.Connection:
        # A server's transaction may go from one thread of its pool to another, one after the other.
        connection = sqlite3.connect(
            address, uri=True, timeout=SECONDS_TO_WAIT, isolation_level=None, check_same_thread=not read_only
        )
        try:
            for setting in settings:
                connection.execute(f"PRAGMA {setting} = ON")
            connection.execute("PRAGMA synchronous = FULL")
        except UnicodeDecodeError:
            # SQLite quotes a damaged schema in what it says, and Python's driver can't read it.
            connection.close()
            raise sqlite3.DatabaseError("the schema is damaged") from None
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "begin", start)
    return engine


def postgresql_engine(parsed: URL, shown: str, *, read_only: bool) -> Engine:
    """Return an engine for a PostgreSQL database; it keeps no connection between transactions."""
    try:
        engine = create_engine(parsed, poolclass=NullPool, hide_parameters=True)
    except ModuleNotFoundError:
        remedy = "Install it: pip install 'crowdblend[postgres]'."
        raise InputRefused("PostgreSQL needs its driver.", where=shown, remedy=remedy) from None
    if read_only:
        event.listen(engine, "connect", _let_it_write_nothing)
    return engine


def _let_it_write_nothing(connection: DBAPIConnection, _: object) -> None:
    """Make every transaction of a PostgreSQL connection read-only, whoever begins it."""
    cursor = connection.cursor()
    cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    cursor.close()
    connection.commit()


CREATORS_LOCK = 0x63726F77_626C6E64  # an advisory lock of PostgreSQL: before its tables exist a ledger has no other
# PRIVACY: only who may update the snapshot can take this lock. Any role could take an advisory lock, and keep it.
WRITERS_LOCK = f"LOCK TABLE {snapshot.name} IN EXCLUSIVE MODE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """An open ledger database.

    Args:
        shown: its address without password, for messages.
        dialect: "sqlite" or "postgresql".
        path: the SQLite file, None for another database.
        engine: SQLAlchemy's engine; it keeps no connection between transactions.
        read_only: whether the database itself refuses writes through this store.
        creating: whether the ledger is about to be created, so that nothing is anchored yet.
    """

    shown: str
    dialect: str
    path: Path | None
    engine: Engine
    read_only: bool
    creating: bool

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that sees one state of the ledger throughout.

        Raises:
            ReleaseFailed: the database fails.
        """
        try:
            with self.engine.begin() as connection:
                if self.dialect == "postgresql":
                    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield connection
        except DatabaseError as error:
            raise ReleaseFailed(
                f"the ledger can't be read ({type(error.orig).__name__}).", where=self.shown, not_done=""
            ) from None

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """One transaction, alone among writers from its first statement to its commit, durable after it.

        Raises:
            AccountantRefused: a constraint of the database refuses, or others hold the ledger too long.
            ReleaseFailed: the database fails.
        """
        if self.read_only:
            raise ReleaseFailed("this ledger is open for looking only.", where=self.shown, not_done="")
        try:
            with self.engine.begin() as connection:
                if self.dialect == "postgresql":
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{SECONDS_TO_WAIT}s'")
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
                    if self.creating:
                        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({CREATORS_LOCK})")
                    # Asked after the creators' lock: another process may have made the tables meanwhile.
                    if connection.execute(text("SELECT to_regclass(:name)"), {"name": snapshot.name}).scalar():
                        connection.exec_driver_sql(WRITERS_LOCK)
                yield connection
        except IntegrityError:
            raise AccountantRefused(
                "a constraint of the ledger's database refuses this entry.",
                where=self.shown,
                remedy="Run `crowdblend ledger verify`.",
            ) from None
        except DatabaseError as error:
            _refuse_busy(error, self.shown)
            raise ReleaseFailed(
                f"the ledger can't be written ({type(error.orig).__name__}).",
                where=self.shown,
                not_done="",
                remedy="Look at its state with `crowdblend ledger show` before trying again.",
            ) from None

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()


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


def _refuse_busy(error: DatabaseError, shown: str) -> None:
    """Say that others hold the ledger too long, where a database's error means that."""
    if not isinstance(error, OperationalError):
        return
    if isinstance(error.orig, sqlite3.OperationalError):
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        busy = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    else:
        busy = getattr(error.orig, "sqlstate", None) == "55P03"
    if busy:
        what = f"other writers held the ledger for more than {SECONDS_TO_WAIT} seconds."
        raise AccountantRefused(what, where=shown, remedy="Try again.", cause="ledger-busy") from None


def open_database(url: str, *, read_only: bool, creating: bool = False) -> Store:
    """Open a database, whether or not a ledger is in it, and of whatever schema revision.

    Raises:
        InputRefused: the address is wrong, or the driver is missing.
    """
    parsed, shown = locate(url)
    dialect = parsed.get_backend_name()
    path = Path(str(parsed.database)) if dialect == "sqlite" else None
    if path is not None:
        engine = sqlite_engine(path, read_only=read_only)
    else:
        engine = postgresql_engine(parsed, shown, read_only=read_only)
    return Store(shown=shown, dialect=dialect, path=path, engine=engine, read_only=read_only, creating=creating)


def open_store(url: str, *, read_only: bool) -> Store:
    """Open a ledger, which must be there, in this version's schema.

    Raises:
        InputRefused: no ledger is there, or one of another schema revision.
        AccountantRefused: it is opened for writing, and others hold it too long.
    """
    store = open_database(url, read_only=read_only)
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
    """The schema revision of the ledger in a database.

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
    if store.path is not None and not os.path.isfile(store.path):
        raise missing
    try:
        with store.engine.connect() as connection:
            tables = inspect(connection)
            if not tables.has_table(entry.name) or not tables.has_table(VERSION_TABLE):
                raise missing
            revision = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    except DatabaseError as error:
        _refuse_busy(error, store.shown)
        raise InputRefused(
            f"the ledger can't be opened ({type(error.orig).__name__}).",
            where=store.shown,
            remedy="Check the address, the permissions, and that the database is running.",
            cause="ledger-unreachable",
        ) from None
    return str(revision)
