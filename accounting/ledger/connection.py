"""How a ledger's database is addressed and connected to, for writing or for looking only."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from ...mechanisms.refusal import InputRefused

__all__ = ["SECONDS_TO_WAIT", "locate", "postgresql_engine", "sqlite_engine"]

SECONDS_TO_WAIT = 60


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
