"""Holding a ledger against its entries: the state made from them alone, the rules applied again, tables compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, or_, select

from ..chain.append import Row, counts_of, is_exclusive, rows_of
from ..chain.hashing import GENESIS, Finding, Link, check_links, own_hash
from ..chain.signed_state import Count, Place
from ..database.schema import (
    DERIVED_TABLES,
    STREAMED,
    account,
    as_stored,
    entry,
    release_stage,
    sample,
    schema_differences,
    series_release,
)
from ..entries.codec import entry_of_bytes
from ..entries.kinds import (
    DatasetAdded,
    Entry,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)
from ..entries.values import AccountAt, account_of_row
from .rule import Payment
from .state_tree import WholeState, check_growth, check_state, keep_state
from .violations import violations

__all__ = [
    "DerivedRows",
    "Earlier",
    "Replay",
    "build_state",
    "verify_ledger",
]


@dataclass(kw_only=True, slots=True)
class Replay:
    """What is known after the entries seen so far; grows with each call of `apply`. Its look-ups are a `LedgerState`.

    Args:
        position: place of the entry that is looked at, or of the next one.
        datasets: name → its registration.
        accounts: data set → its account now.
        registered: series → its registration.
        payments: release id → how it was paid for; equal ones are one object.
        unrefunded: data set, and whether their price holds for them alone → its releases whose cost was not given back.
        samples: sample's id → the release that it serves.
        stages: release id → stages and outcomes passed.
        places: series and number → the releases that took this place, in their order.
        tokens: token's id → whether it was revoked.
        rows: the derived rows that follow from the last entry.
        counts: how the last entry changes the counts of the ledger's state.
        lost: whether an entry before the next one is missing.
        groundless: whether the last entry builds on one that is missing: then nothing follows from it for sure.
    """

    position: int = 0
    datasets: dict[str, DatasetAdded] = field(default_factory=dict)
    accounts: dict[str, AccountAt] = field(default_factory=dict)
    registered: dict[str, SeriesRegistered] = field(default_factory=dict)
    payments: dict[str, Payment] = field(default_factory=dict)
    unrefunded: dict[tuple[str, bool], dict[str, None]] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    stages: dict[str, frozenset[str]] = field(default_factory=dict)
    places: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    tokens: dict[str, bool] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    counts: Mapping[tuple[Count, str], int] = field(default_factory=dict)
    lost: bool = False
    groundless: bool = False
    _alike: dict[Payment, Payment] = field(default_factory=dict)
    _passed: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    def dataset(self, name: str) -> DatasetAdded | None:
        """A data set's registration."""
        return self.datasets.get(name)

    def account(self, name: str) -> AccountAt | None:
        """A data set's account."""
        return self.accounts.get(name)

    def series(self, name: str) -> SeriesRegistered | None:
        """A series' registration."""
        return self.registered.get(name)

    def holder(self, series: str, number: int) -> str | None:
        """The first release that took a place and didn't give it back."""
        holders = self.places.get((series, number), ())
        return next((holder for holder in holders if "refunded" not in self.outcomes(holder)), None)

    def turn(self, series: str, number: int) -> int:
        """How many releases have taken a place."""
        return len(self.places.get((series, number), ()))

    def payment(self, release_id: str) -> Payment | None:
        """How a release was paid for."""
        return self.payments.get(release_id)

    def outcomes(self, release_id: str) -> frozenset[str]:
        """What a release has passed."""
        return self.stages.get(release_id, frozenset())

    def release_of_sample(self, sample_id: str) -> str | None:
        """The release that a sample serves."""
        return self.samples.get(sample_id)

    def standing(self, dataset: str, *, exclusive: bool) -> str | None:
        """The earliest release whose cost was not given back."""
        return next(iter(self.unrefunded.get((dataset, exclusive), ())), None)

    def revoked(self, token_id: str) -> bool | None:
        """Whether a token was revoked."""
        return self.tokens.get(token_id)

    def apply(self, entry: Entry, *, position: int) -> tuple[str, ...]:
        """Take the next entry.

        Returns:
            Each rule that it breaks, in a sentence.
        """
        self.position, self.groundless = position, False
        faults = tuple(self._faults(entry))
        self.skip()
        try:
            self._follow(entry)
        except ValueError as error:
            faults = (*faults, *self._lacking(f"{error}"))
        return faults

    def skip(self) -> None:
        """Pass over an entry that can't be read: nothing follows from it."""
        self.rows, self.counts = (), {}

    def lose(self, rows: tuple[Row, ...]) -> None:
        """Go on after missing entries from the rows that they left, if they did."""
        self.lost = True
        for row in rows:
            if row.table is release_stage:
                self.take(row)
        self.believe(rows)

    def believe(self, rows: tuple[Row, ...]) -> None:
        """Go on from the accounts that are stored for an entry whose content was changed, where they can be read."""
        for row in rows:
            if row.table is account:
                with suppress(TypeError, ValueError):
                    self.take(row)
        self.skip()

    def _faults(self, entry: Entry) -> Iterator[str]:
        for violation in violations(entry, self):
            if violation.lacking:
                yield from self._lacking(violation.fault)
            else:
                yield violation.fault
        if isinstance(entry, ReleaseReading | ReleasePublished | ReleaseAbandoned) and self.lost:
            self.groundless |= entry.release_id not in self.payments

    def _lacking(self, fault: str) -> Iterator[str]:
        """A fault for want of an earlier entry: its own where the chain is whole, else of the one that is missing."""
        if self.lost:
            self.groundless = True
        else:
            yield fault

    def _follow(self, entry: Entry) -> None:
        """Take over what the entry changes, whether or not it may."""
        rows = rows_of(entry, self)
        self.counts = counts_of(entry, rows=rows, state=self)
        self.rows = rows
        for row in rows:
            self.take(row)
        self.know(entry)

    def know(self, entry: Entry) -> None:
        """Take over what an entry says beside its rows."""
        match entry:
            case DatasetAdded():
                self.datasets[entry.dataset] = entry
            case SeriesRegistered():
                self.registered[entry.series] = entry
            case TokenAdded() | TokenRevoked():
                self.tokens[entry.token_id] = isinstance(entry, TokenRevoked)
            case ReleaseCharged():
                self.pay(entry.release_id, Payment.by(entry))
            case ReleaseAbandoned(refunded=True):
                self.give_back(entry.release_id)
            case _:
                pass

    def pay(self, release_id: str, paid: Payment) -> None:
        """Take over how a release was paid for."""
        self.payments[release_id] = self._alike.setdefault(paid, paid)
        for exclusive in {False, is_exclusive(paid.mechanism)}:
            self.unrefunded.setdefault((paid.dataset, exclusive), {})[release_id] = None

    def give_back(self, release_id: str) -> None:
        """Take over that a release's cost was given back."""
        for exclusive in (False, True):
            self.unrefunded.get((self.payments[release_id].dataset, exclusive), {}).pop(release_id, None)

    def take(self, row: Row) -> None:
        """Take over what a derived row says."""
        values = row.values
        if row.table is account:
            self.accounts[str(values["dataset"])] = account_of_row(values)
        elif row.table is release_stage:
            release_id = str(values["release_id"])
            passed = self.outcomes(release_id) | {str(values["outcome"])}
            self.stages[release_id] = self._passed.setdefault(passed, passed)
        elif row.table is sample:
            self.samples[str(values["sample_id"])] = str(values["release_id"])
        elif row.table is series_release:
            place = (str(values["series"]), int(values["number"]))
            self.places[place] = (*self.places.get(place, ()), str(values["release_id"]))


class DerivedRows:
    """The rows of every derived table, read once in the order of their positions.

    Args:
        connection: a connection in a reading transaction.
        after: the place after which they begin.
    """

    def __init__(self, connection: Connection, *, after: int = -1) -> None:
        self._tables = [_TableRows(connection, table, after=after) for table in DERIVED_TABLES]

    def check(self, position: int, expected: tuple[Row, ...]) -> Iterator[Finding]:
        """Compare what is stored for an entry with what follows from it; positions must rise from call to call."""
        due: dict[Table, list[Row]] = {}
        for row in expected:
            due.setdefault(row.table, []).append(row)
        for table in self._tables:
            if table.position <= position or table.table in due:
                yield from table.check(position, due.get(table.table, []))

    def take(self, position: int) -> tuple[Row, ...]:
        """The rows up to an entry that can't be held against it: it is missing, or another one than was written."""
        return tuple(row for table in self._tables for row in table.take(position))

    def check_rest(self) -> Iterator[Finding]:
        """Find what lies beyond the last entry: one finding, however many rows missing entries have left there."""
        strangers = [stranger for table in self._tables for stranger in table.strangers(float("inf"))]
        if len(strangers) == 1:
            yield from strangers
        elif strangers:
            names = ", ".join(table.table.name for table in self._tables if table.found_strangers)
            first = min(stranger.position for stranger in strangers if stranger.position is not None)
            what = f"the chain ends before it, and {len(strangers)} rows of this place or later ones are left"
            yield Finding(position=first, what=f"{what} in the tables {names}")
        for table in self._tables:
            yield from table.check_homeless()


class _TableRows:
    """The rows of one table from one position on."""

    def __init__(self, connection: Connection, table: Table, *, after: int) -> None:
        self.table = table
        self.position = float("inf")  # of the row that comes next
        self._names = [column.name for column in table.columns if column.name != "position"]
        columns = [as_stored(table.c[name]) for name in ("position", *self._names)]
        # A cursor of its own for each table, so that all can be read in step.
        query = select(*columns).order_by(table.c.position)
        if after >= 0:  # else those before the first entry are strangers too
            query = query.where(or_(table.c.position > after, table.c.position.is_(None)))
        result = connection.execute(query, execution_options=STREAMED)
        self._rows: Iterator[tuple[Any, ...]] = (tuple(row) for part in result.partitions() for row in part)
        self._homeless = 0
        self.found_strangers = False
        self._next: tuple[Any, ...] | None = None
        self._advance()

    def check(self, position: int, expected: list[Row]) -> Iterator[Finding]:
        """Compare the rows at a position, and find those before it, which belong to no entry."""
        yield from self.strangers(position)
        stored = []
        while self._next is not None and self.position == position:
            stored.append(self._next[1:])
            self._advance()
        due = [tuple(row.values[name] for name in self._names) for row in expected]
        if stored == due:
            return
        if any(row not in stored for row in due):
            yield Finding(position=position, what=f"its row in the table {self.table.name} is missing or changed")
        else:
            yield self._stranger(position)

    def take(self, position: int) -> Iterator[Row]:
        """The rows at a position and before it."""
        while self._next is not None and self.position <= position:
            yield Row(table=self.table, values=dict(zip(self._names, self._next[1:], strict=True)))
            self._advance()

    def check_homeless(self) -> Iterator[Finding]:
        """Find the rows that no entry can have."""
        if self._homeless:
            yield Finding(
                position=None, what=f"{self._homeless} rows in the table {self.table.name} name no place in the chain"
            )

    def strangers(self, before: float) -> Iterator[Finding]:
        """Find the rows before a position that belong to no entry, and go past them."""
        while self._next is not None and self.position < before:
            self.found_strangers = True
            yield self._stranger(int(self.position))
            self._advance()

    def _stranger(self, position: int) -> Finding:
        return Finding(position=position, what=f"a row in the table {self.table.name} does not follow from it")

    def _advance(self) -> None:
        """Go to the next row whose position is a whole number; SQLite would store others, if its checks were off."""
        for row in self._rows:
            if type(row[0]) is int:
                self._next, self.position = row, row[0]
                return
            self._homeless += 1
        self._next, self.position = None, float("inf")


def build_state(connection: Connection) -> None:
    """Store the state that follows from a ledger's entries, instead of any other.

    Whether the entries hold isn't looked at here: the ledger is to be verified before the state is signed.

    Args:
        connection: a connection in a writing transaction.
    """
    replay, place = Replay(), Place(position=-1, hash=GENESIS)
    with closing(WholeState()) as whole:
        columns = [as_stored(column).label(column.name) for column in entry.columns]
        rows = connection.execute(select(*columns).order_by(entry.c.position), execution_options=STREAMED)
        for row in rows:
            try:
                replay.apply(entry_of_bytes(str(row.body).encode("ascii")), position=row.position)
            except ValueError:
                replay.skip()
            whole.take(row._asdict(), rows=replay.rows, counts=replay.counts)
            place = Place(position=row.position, hash=row.hash)
        keep_state(connection, whole, place)


@dataclass(frozen=True, kw_only=True, slots=True)
class Earlier:
    """A ledger up to an entry, as it was verified.

    Args:
        place: of that entry.
        root: of the state that followed from the entries up to it.
        replay: what the rules need to know of them.
        counts: the counts of the state then.
    """

    place: Place
    root: str
    replay: Replay
    counts: Mapping[tuple[Count, str], int]


NAMED = 20  # entries that build on a missing one are listed up to so many


def verify_ledger(connection: Connection, *, since: Earlier | None = None) -> tuple[Finding, ...]:
    """Check everything that can be checked from inside a ledger.

    Entries and derived rows are read once, in step: what is kept in memory is what the rules need to know of earlier
    entries, which grows with releases and not with rows.

    Args:
        connection: a connection in a reading transaction.
        since: the ledger up to an entry, which isn't looked at again; None to begin with the first.

    Returns:
        What does not hold, in the order of the chain; empty for a sound ledger.
    """
    findings: list[Finding] = []
    derived = DerivedRows(connection, after=-1 if since is None else since.place.position)
    gaps: dict[int, _Gap] = {}
    with closing(WholeState()) as whole:
        links = _links(connection, derived, whole, findings, gaps, since)
        if since is None:
            broken = check_links(links)
        else:
            broken = check_links(links, position=since.place.position + 1, previous=since.place.hash)
        findings.extend([gaps[one.position].reported(one) if one.position in gaps else one for one in list(broken)])
        findings.extend(derived.check_rest())
        if not findings:  # else the state can only be another one
            if since is None:
                findings.extend(check_state(connection, whole))
            else:
                findings.extend(check_growth(connection, whole, root=since.root, counts=since.counts))
    findings.extend(Finding(position=None, what=what) for what in schema_differences(connection))
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

    def reported(self, finding: Finding) -> Finding:
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
    connection: Connection,
    derived: DerivedRows,
    whole: WholeState,
    findings: list[Finding],
    gaps: dict[int, _Gap],
    since: Earlier | None,
) -> Iterator[Link]:
    """Give each stored entry as a link; on the way replay it, and compare the rows that follow from it."""
    replay, last = (Replay(), -1) if since is None else (since.replay, since.place.position)
    columns = (as_stored(entry.c[name]) for name in ("position", "previous", "hash", "kind", "body"))
    query = select(*columns).order_by(entry.c.position)
    if since is not None:
        query = query.where(entry.c.position > last)
    rows = connection.execute(query, execution_options=STREAMED)
    empty, expected, gap = since is None, last + 1, None
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
            whole.take(link, rows=replay.rows, counts=replay.counts)
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
