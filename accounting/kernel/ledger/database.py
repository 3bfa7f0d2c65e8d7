"""The database under a ledger: its tables, its connections, and its two kinds of transaction.

Migrations make the tables, with guards that let nothing but appends through. A cell may hold anything, since SQLite
gives whatever is in a file: nothing that is read here is believed to have its column's type.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError
from sqlalchemy.pool import NullPool

from ....mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed

SECONDS_TO_WAIT = 60
METADATA = MetaData()
PLACE = BigInteger().with_variant(Integer(), "sqlite")
# For one statement at a time: the same options on the connection would stay with it.
STREAMED: Mapping[str, int] = {"yield_per": 2_000}

entry = Table(
    "entry",
    METADATA,
    Column("position", PLACE, primary_key=True, autoincrement=False),
    Column("previous", Text, nullable=False, unique=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("body", Text, nullable=False),
    # Of a charge, and empty elsewhere: what two racing writers must not both take.
    Column("release_id", Text, unique=True),
    Column("sample_id", Text, unique=True),
    Column("selection_sample_id", Text, unique=True),
)
"""The chain. Nothing else is stored of it but the snapshot."""
UNIQUE_OF_CHARGE = ("release_id", "sample_id", "selection_sample_id")

snapshot = Table(
    "snapshot",
    METADATA,
    Column("slot", PLACE, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("statement", Text, nullable=False),
)
"""One row, replaced by each write: the state at the head, and the signature over both."""


def _sqlite_engine(path: Path, *, read_only: bool) -> Engine:
    """Return an engine for an SQLite file that is there."""
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
    # A writer locks the database before it reads: one that read first could decide by a state that others have changed.
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _postgresql_engine(parsed: URL, shown: str, *, read_only: bool) -> Engine:
    """Return an engine for a PostgreSQL database."""
    try:
        engine = create_engine(parsed, poolclass=NullPool, hide_parameters=True)
    except ModuleNotFoundError:
        remedy = "Install it: pip install 'crowdblend[postgres]'."
        raise InputRefused("PostgreSQL needs its driver.", where=shown, remedy=remedy) from None
    if read_only:
        event.listen(engine, "connect", _let_it_write_nothing)
    return engine


def _let_it_write_nothing(connection: DBAPIConnection, _: object) -> None:
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
        path: the SQLite file, None for a PostgreSQL database.
        engine: SQLAlchemy's engine; it keeps no connection between transactions.
        read_only: whether the database itself refuses writes through this store.
        creating: whether the ledger is about to be created, so that nothing is anchored yet.
    """

    shown: str
    path: Path | None
    engine: Engine
    read_only: bool
    creating: bool

    @property
    def dialect(self) -> str:
        """Its kind of database: "sqlite" or "postgresql"."""
        return self.engine.dialect.name

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open one transaction that sees one state of the ledger throughout.

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
        """Open one transaction, alone among writers from its first statement to its commit, durable after it.

        Raises:
            AccountantRefused: a constraint of the database refuses, or others hold the ledger too long.
            ReleaseFailed: the database fails.
        """
        if self.read_only:
            raise ReleaseFailed("this ledger is open for looking only.", where=self.shown, not_done="")
        try:
            with self.engine.begin() as connection:
                if self.dialect == "postgresql":
                    # Else the lock would be waited for with a view of the ledger from before it.
                    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{SECONDS_TO_WAIT}s'")
                    # Whatever the server's default is: a charge that has returned must survive a crash.
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
            refuse_busy(error, self.shown)
            raise ReleaseFailed(
                f"the ledger can't be written ({type(error.orig).__name__}).",
                where=self.shown,
                not_done="",
                remedy="Look at its state with `crowdblend ledger show` before trying again.",
            ) from None

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()


def refuse_busy(error: DatabaseError, shown: str) -> None:
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


def open_database(parsed: URL, *, shown: str, read_only: bool, creating: bool) -> Store:
    """Open the database of an address, whether or not a ledger is in it, and of whatever schema revision.

    The other arguments are those of `Store`. A driver that is missing raises `InputRefused`.
    """
    if parsed.get_backend_name() == "sqlite":
        path = Path(str(parsed.database))
        engine = _sqlite_engine(path, read_only=read_only)
    else:
        path, engine = None, _postgresql_engine(parsed, shown, read_only=read_only)
    return Store(shown=shown, path=path, engine=engine, read_only=read_only, creating=creating)
