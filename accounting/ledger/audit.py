"""The verification of a whole ledger: chain, rules, prices, derived tables and guards."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, Row, select, text

from .canonical import entry_of_bytes
from .chain import Finding, Link, check_links
from .replay import Replay
from .schema import DERIVED_TABLES, GUARDS, entry

__all__ = ["verify_ledger"]

TRIGGERS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'"
    " AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)",
}


def verify_ledger(connection: Connection, *, dialect: str) -> tuple[Finding, ...]:
    """Check everything that can be checked from inside a ledger.

    Args:
        connection: a connection in a reading transaction.
        dialect: "sqlite" or "postgresql".

    Returns:
        What does not hold, in the order of the chain; empty for a sound ledger.
    """
    findings: list[Finding] = []
    replay = Replay()
    links = _links(connection, replay, findings)
    findings.extend(check_links(links))
    findings.extend(_check_derived(connection, replay))
    present = frozenset(connection.execute(text(TRIGGERS[dialect])).scalars())
    findings.extend(
        Finding(position=None, what=f"the database's guard {guard} is missing")
        for guard in sorted(GUARDS[dialect] - present)
    )
    return tuple(sorted(findings, key=lambda finding: (finding.position is None, finding.position or 0)))


def _links(connection: Connection, replay: Replay, findings: list[Finding]) -> Iterator[Link]:
    """Give each stored entry as a link, and replay it on the way."""
    rows = connection.execution_options(yield_per=1000).execute(select(entry).order_by(entry.c.position))
    empty = True
    for row in rows:
        empty = False
        body = row.body.encode("utf-8")
        for what in _faults(row, body, replay):
            findings.append(Finding(position=row.position, what=what))
        yield Link(position=row.position, previous=row.previous, hash=row.hash, body=body)
    if empty:
        findings.append(Finding(position=None, what="the ledger has no entry"))


def _faults(row: Row[tuple[object, ...]], body: bytes, replay: Replay) -> tuple[str, ...]:
    try:
        recorded = entry_of_bytes(body)
    except ValueError as error:
        return (f"the entry can't be read: {error}",)
    faults = replay.apply(recorded, position=row.position)
    return faults if row.kind == recorded.KIND else (*faults, "the entry's kind differs from its content")


def _check_derived(connection: Connection, replay: Replay) -> Iterator[Finding]:
    """Compare the derived tables with what follows from the entries."""
    for table in DERIVED_TABLES:
        names = [column.name for column in table.columns if column.name != "position"]
        expected = {
            (position, *(row.values[name] for name in names)) for position, row in replay.rows if row.table is table
        }
        columns = [table.c.position, *(table.c[name] for name in names)]
        stored = {tuple(row) for row in connection.execute(select(*columns))}
        for position in _positions(expected - stored):
            yield Finding(position=position, what=f"its row in the table {table.name} is missing or changed")
        for position in _positions(stored - expected):
            yield Finding(position=position, what=f"a row in the table {table.name} does not follow from it")


def _positions(rows: set[tuple[str | int, ...]]) -> list[int]:
    return sorted(position for position, *_ in rows if isinstance(position, int))
