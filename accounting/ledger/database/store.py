"""The database under a ledger: where it is, how it is opened and given back, and its two kinds of transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import NullPool

from ....mechanisms.amounts import counted
from ....mechanisms.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..chain.anchor import Anchoring
from ..chain.hashing import Head
from ..chain.signed_state import ForgedState, SignedState, head_of, sign_state, signer_of, vouched
from ..entries.codec import KINDS
from ..queries import ledger_id_of
from .schema import EARLIER_REVISIONS, SCHEMA_REVISION, UNSIGNED_REVISIONS, VERSION_TABLE, entry, signed_state

__all__ = [
    "LEDGER_AWAY",
    "SECONDS_TO_WAIT",
    "OpenedLedger",
    "Store",
    "keep_write_ahead_log",
    "locate",
    "open_database",
    "open_store",
    "present_head",
    "remedy_for_unknown",
    "require_known_kinds",
    "revision_of",
]

SECONDS_TO_WAIT = 60
LEDGER_AWAY = ("ledger-busy", "ledger-unreachable")
"""Causes of refusals that say nothing of a release but that the ledger's database can't be used now."""


def locate(url: str) -> tuple[URL, str]:
    """Parse a ledger's address.

    Args:
        url: an SQLAlchemy URL of an SQLite file or of a PostgreSQL database.

    Returns:
        The parsed address, an SQLite file's path made absolute, and its text without password.

    Raises:
        InputRefused: it is not such an address.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        # PRIVACY: the text is not repeated; it may hold a password.
        raise InputRefused(
            "the ledger's address is not a database URL.",
            where="--ledger",
            remedy="Write sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
        ) from None
    shown = parsed.set(query={}).render_as_string(hide_password=True)
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg"), shown
    if backend != "sqlite" or parsed.query or not parsed.database or parsed.database == ":memory:":
        raise InputRefused(
            "a ledger lies in an SQLite file or a PostgreSQL database.",
            where=shown,
            remedy="Write sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
        )
    return parsed.set(drivername="sqlite", database=str(Path(parsed.database).absolute())), shown


def sqlite_engine(path: Path, *, read_only: bool) -> Engine:
    """An engine for an SQLite file that is there; it keeps no connection between transactions.

    Args:
        path: the file.
        read_only: whether SQLite itself shall refuse writes.
    """
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
    """An engine for a PostgreSQL database; it keeps no connection between transactions.

    Args:
        parsed: the address.
        shown: the address without password, for messages.
        read_only: whether PostgreSQL itself shall refuse writes.

    Raises:
        InputRefused: the driver is missing.
    """
    try:
        engine = create_engine(parsed, poolclass=NullPool, hide_parameters=True)
    except ModuleNotFoundError:
        raise InputRefused(
            "PostgreSQL needs its driver.",
            where=shown,
            remedy="Install it: pip install 'crowdblend[postgres]'.",
        ) from None
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
# PRIVACY: only who may update the signed state can take this lock. Any role could take an advisory lock, and keep it.
WRITERS_LOCK = f"LOCK TABLE {signed_state.name} IN EXCLUSIVE MODE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """An open ledger database.

    Args:
        shown: its address without password, for messages.
        dialect: "sqlite" or "postgresql".
        path: the SQLite file, None for another database.
        engine: SQLAlchemy's engine; it keeps no connection between transactions.
        anchoring: who signs the chain's heads, and where they are copied to; None where the database itself refuses
            writes through this store.
        creating: whether the ledger is about to be created, so that nothing is anchored yet.
    """

    shown: str
    dialect: str
    path: Path | None
    engine: Engine
    anchoring: Anchoring | None
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
    def looking(self) -> Iterator[Connection]:
        """One transaction to look things up in, whose signed state belongs to the head of the chain.

        Whose key signed it isn't checked here: that takes the private store, or an anchor.

        Raises:
            ForgedState: no signature holds over the head and the state.
            ReleaseFailed: the database fails.
        """
        with self.reading() as connection:
            signer_of(connection, present_head(connection))
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, alone among writers from its first statement to its commit, durable after it.

        INVARIANT: head, budget and single use are looked at and changed inside one such transaction. It begins with
        the ledger held against its anchor, and its head and tables against their signature; it ends with the new ones
        signed, and after its commit the head is anchored: never before, so that a crash between the two leaves the
        anchor behind, and the next transaction, of whatever kind, makes up for it.

        Raises:
            InputRefused: there is no signing key.
            AccountantRefused: the ledger is behind its anchor, its head isn't signed by a key of the private store, it
                has entries of kinds that this version doesn't know, a constraint of the database refuses, or others
                hold the ledger too long.
            ReleaseFailed: the database or the anchor fails.
        """
        if self.anchoring is None:
            raise ReleaseFailed("this ledger is open for looking only.", where=self.shown, not_done="")
        key = self.anchoring.keys.current()
        with self.changing() as connection:
            before = None
            if not self.creating:
                before = present_head(connection)
                last = self.anchoring.last_of(before.ledger_id)
                self.anchoring.require_continued(connection, ledger_id=before.ledger_id, last=last)
                self.anchoring.require_signed(connection, before)
                require_known_kinds(connection, self.shown)
            yield connection
            last_known = vouched(connection)
            ledger_id = ledger_id_of(connection) if before is None else before.ledger_id
            head = Head(ledger_id=ledger_id, position=last_known.position, hash=last_known.hash)
            if head != before:
                sign_state(connection, head, key, root=last_known.root)
        self.anchoring.record(head, key, written=head != before)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """One transaction, alone among writers, for changes below the entries: tables and permissions.

        Raises:
            AccountantRefused: a constraint of the database refuses, or others hold the ledger too long.
            ReleaseFailed: the database fails.
        """
        try:
            with self.engine.begin() as connection:
                if self.dialect == "postgresql":
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{SECONDS_TO_WAIT}s'")
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
                    if self.creating:
                        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({CREATORS_LOCK})")
                    # Asked after the creators' lock: another process may have made the tables meanwhile.
                    if connection.execute(text("SELECT to_regclass(:name)"), {"name": signed_state.name}).scalar():
                        connection.exec_driver_sql(WRITERS_LOCK)
                yield connection
        except IntegrityError:
            raise AccountantRefused(
                "a constraint of the ledger's database refuses this entry.",
                where=self.shown,
                remedy="Run `crowdblend ledger verify`.",
            ) from None
        except OperationalError as error:
            if _is_busy(error):
                raise _busy(self.shown) from None
            raise _write_failed(self.shown, error) from None
        except DatabaseError as error:
            raise _write_failed(self.shown, error) from None

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()


def require_known_kinds(connection: Connection, shown: str) -> None:
    """Refuse a ledger with entries of kinds that this version doesn't know, whose rules it could break.

    Args:
        connection: a connection in a transaction whose state is vouched for.
        shown: the ledger's address without password.

    Raises:
        AccountantRefused: there are such entries; ForgedState where the state is damaged.
    """
    if (unknown := SignedState(connection).entries_of_other_kinds(KINDS)) > 0:
        raise AccountantRefused(
            f"the ledger has {counted(unknown, 'entry', 'entries')} of kinds that this version doesn't know.",
            where=shown,
            not_done="Nothing was read or written.",
            remedy="Use the version of crowdblend that wrote them, or a later one.",
            cause="newer-ledger",
        )


def present_head(connection: Connection) -> Head:
    """Where a ledger's chain ends now.

    Raises:
        ForgedState: the last entry has a hash or a place of another form.
        ReleaseFailed: the first entry is damaged.
    """
    place = head_of(connection)
    try:
        return Head(ledger_id=ledger_id_of(connection), position=place.position, hash=place.hash)
    except ValueError as error:
        raise ForgedState(f"the last entry is damaged: {error}") from None


def keep_write_ahead_log(store: Store) -> None:
    """Switch an SQLite file to write-ahead logging, for good; it can't be done inside a transaction.

    Raises:
        ReleaseFailed: the file is not a database, or can't be written.
    """
    try:
        with closing(store.engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA journal_mode = WAL")
    except (DatabaseError, sqlite3.DatabaseError) as error:
        raise ReleaseFailed(f"not a writable SQLite file ({type(error).__name__}).", not_done="") from None


def _is_busy(error: OperationalError) -> bool:
    if isinstance(error.orig, sqlite3.OperationalError):
        return (getattr(error.orig, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error.orig, "sqlstate", None) == "55P03"


def _busy(shown: str) -> AccountantRefused:
    return AccountantRefused(
        f"other writers held the ledger for more than {SECONDS_TO_WAIT} seconds.",
        where=shown,
        remedy="Try again.",
        cause="ledger-busy",
    )


def _write_failed(shown: str, error: DatabaseError) -> ReleaseFailed:
    return ReleaseFailed(
        f"the ledger can't be written ({type(error.orig).__name__}).",
        where=shown,
        not_done="",
        remedy="Look at its state with `crowdblend ledger show` before trying again.",
    )


def open_database(url: str, *, anchoring: Anchoring | None, creating: bool = False) -> Store:
    """Open a database, whether or not a ledger is in it, and of whatever schema revision.

    Args:
        url: its address.
        anchoring: who signs the chain's heads, and where they are copied to; None to look only, and then the
            database refuses writes.
        creating: whether a ledger is about to be created in it.

    Raises:
        InputRefused: the address is wrong, or the driver is missing.
    """
    parsed, shown = locate(url)
    dialect = parsed.get_backend_name()
    path = Path(str(parsed.database)) if dialect == "sqlite" else None
    if path is not None:
        engine = sqlite_engine(path, read_only=anchoring is None)
    else:
        engine = postgresql_engine(parsed, shown, read_only=anchoring is None)
    return Store(shown=shown, dialect=dialect, path=path, engine=engine, anchoring=anchoring, creating=creating)


def open_store(url: str, *, anchoring: Anchoring | None) -> Store:
    """Open a ledger, which must be there, in this version's schema.

    Args:
        url: its address.
        anchoring: who signs the chain's heads, and where they are copied to; None to look only, and then the
            database refuses writes.

    Raises:
        InputRefused: no ledger is there, or one of another schema revision.
        AccountantRefused: it is opened for writing, and others hold it too long.
    """
    store = open_database(url, anchoring=anchoring)
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
        if isinstance(error, OperationalError) and _is_busy(error):
            raise _busy(store.shown) from None
        raise InputRefused(
            f"the ledger can't be opened ({type(error.orig).__name__}).",
            where=store.shown,
            remedy="Check the address, the permissions, and that the database is running.",
            cause="ledger-unreachable",
        ) from None
    return str(revision)


class OpenedLedger:
    """A ledger that is open; a context manager that gives its connections back."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._store.close()
