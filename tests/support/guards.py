"""What somebody does to a ledger's database who goes past its guards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text


@contextmanager
def past_guards(connection: Connection) -> Iterator[None]:
    """Switch the guards off in a transaction; on SQLite they are removed, and there again afterwards."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        yield
        return
    guards = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
    for name, _ in guards:
        connection.exec_driver_sql(f"DROP TRIGGER {name}")
    yield
    for _, definition in guards:
        connection.exec_driver_sql(definition)
