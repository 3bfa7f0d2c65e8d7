"""The verification of a whole ledger: chain, rules, prices, derived tables, their signed state, and guards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import Connection, select, text

from .canonical import entry_of_bytes
from .chain import Finding, Link, check_links, own_hash
from .derive import Row
from .derived_audit import STREAMED, DerivedRows
from .replay import Replay
from .schema import GUARDS, as_stored, entry
from .state_building import WholeState, check_state

__all__ = ["verify_ledger"]

NAMED = 20  # entries that build on a missing one are listed up to so many

TRIGGERS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'"
    " AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)",
}


def verify_ledger(connection: Connection, *, dialect: str) -> tuple[Finding, ...]:
    """Check everything that can be checked from inside a ledger.

    Entries and derived rows are read once, in step: what is kept in memory is what the rules need to know of earlier
    entries, which grows with releases and not with rows.

    Args:
        connection: a connection in a reading transaction.
        dialect: "sqlite" or "postgresql".

    Returns:
        What does not hold, in the order of the chain; empty for a sound ledger.
    """
    findings: list[Finding] = []
    derived, whole = DerivedRows(connection), WholeState()
    gaps: dict[int, _Gap] = {}
    broken = check_links(_links(connection, derived, whole, findings, gaps))
    findings.extend([gaps[one.position].told(one) if one.position in gaps else one for one in list(broken)])
    findings.extend(derived.check_rest())
    if not findings:  # else the state can only be another one
        findings.extend(check_state(connection, whole))
    present = frozenset(connection.execute(text(TRIGGERS[dialect])).scalars())
    findings.extend(
        Finding(position=None, what=f"the database's guard {guard} is missing")
        for guard in sorted(GUARDS[dialect] - present)
    )
    return tuple(sorted(findings, key=lambda finding: (finding.position is None, finding.position or 0)))


@dataclass(kw_only=True, slots=True)
class _Gap:
    """Entries that are missing before one that is there, with what can't be checked for want of them.

    Args:
        rows: that the missing entries left.
        groundless: positions of the entries that build on them.
    """

    rows: tuple[Row, ...]
    groundless: list[int] = field(default_factory=list)

    def told(self, finding: Finding) -> Finding:
        """The finding of the gap, with its consequences."""
        parts = []
        if self.rows:
            parts.append(f"its rows in {', '.join(sorted({row.table.name for row in self.rows}))}")
        if self.groundless:
            some, more = self.groundless[:NAMED], len(self.groundless) - NAMED
            listed = ", ".join(map(str, some)) + (f" and {more} more" if more > 0 else "")
            parts.append(f"what builds on it (entries {listed})")
        said = f"; for want of it, {' and '.join(parts)} can't be checked" if parts else ""
        return Finding(position=finding.position, what=finding.what + said)


def _links(
    connection: Connection, derived: DerivedRows, whole: WholeState, findings: list[Finding], gaps: dict[int, _Gap]
) -> Iterator[Link]:
    """Give each stored entry as a link; on the way replay it, and compare the rows that follow from it."""
    replay = Replay()
    columns = (as_stored(entry.c[name]) for name in ("position", "previous", "hash", "kind", "body"))
    rows = connection.execute(select(*columns).order_by(entry.c.position), execution_options=STREAMED)
    empty, expected, gap = True, 0, None
    for position, previous, own, kind, stored in rows:
        empty = False
        if position > expected:
            gap = gaps[position] = _Gap(rows=derived.take(position - 1))
            replay.lose(gap.rows)
        expected = position + 1
        body = _text(stored).encode("utf-8")
        read = Link(position=position, previous=_text(previous), hash=_text(own), body=body)
        faults = _faults(position, kind, body, replay)
        if gap is not None and replay.groundless:
            gap.groundless.append(position)
            findings.extend(Finding(position=position, what=what) for what in faults)
            replay.believe(derived.take(position))
        elif own_hash(read) == read.hash:
            findings.extend(Finding(position=position, what=what) for what in faults)
            findings.extend(derived.check(position, replay.rows))
        else:  # that its content was changed is the one cause of whatever its rules and rows would show
            replay.believe(derived.take(position))
        if not findings and not gaps:
            link = {"position": position, "previous": previous, "hash": own, "kind": kind, "body": stored}
            whole.take(link, replay)
        yield read
    if empty:
        findings.append(Finding(position=None, what="the ledger has no entry"))


def _text(stored: object) -> str:
    return stored if isinstance(stored, str) else ""


def _faults(position: int, kind: str, body: bytes, replay: Replay) -> tuple[str, ...]:
    try:
        recorded = entry_of_bytes(body)
    except ValueError as error:
        replay.skip()
        return (f"the entry can't be read: {error}",)
    faults = replay.apply(recorded, position=position)
    return faults if kind == recorded.KIND else (*faults, "the entry's kind differs from its content")
