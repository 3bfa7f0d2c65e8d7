"""The two kinds of transaction on a ledger: one that looks, and one that appends under the writers' lock.

Both begin with the state at the head, as its snapshot says and its signature confirms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import repeat
from typing import Any, Self

from sqlalchemy import Connection, Row, insert, select, update

from ....mechanisms.kernel.errors import InputRefused
from ..keys.signing import PublicKey, SigningKey, Statement
from .database import UNIQUE_OF_CHARGE, Store, entry, snapshot
from .entries import (
    GENESIS,
    LINK_DOMAIN,
    Entry,
    Head,
    ReleaseCharged,
    bytes_of_entry,
    entry_of_bytes,
    link_hash,
)
from .ledger_state import LedgerState, Place, Release
from .rules import RuleBroken, violations
from .snapshot import (
    Anchor,
    ForgedState,
    bytes_of_state,
    held_statement,
    require_continued,
    sign_state,
    signed_state,
)

ENTRY_COLUMNS = ("position", "previous", "hash", "body", *UNIQUE_OF_CHARGE)
NO_CHARGE = (None,) * len(UNIQUE_OF_CHARGE)
MOST_PLACES = 500  # of entries in one question
ROWS_AT_ONCE = 256  # so few that Python's garbage collector isn't called for them


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A ledger in one transaction, with the state that follows from all its entries."""

    connection: Connection
    state: LedgerState

    def charge_of(self, release: Release) -> ReleaseCharged:
        """Return the entry of a release's charge; `ForgedState` where it is missing, or another one."""
        charge = self.entries({release.position: release.link})[release.position]
        if not isinstance(charge, ReleaseCharged):
            raise ForgedState(f"the charge of release '{release.release_id}' is not what the snapshot says")
        return charge

    def entries(self, links: dict[int, str]) -> dict[int, Entry]:
        """Return entries by their places, for places with the hashes of their links as the state has them.

        Raises:
            ForgedState: one is missing or changed.
        """
        entries: dict[int, Entry] = {}
        columns = [entry.c[name] for name in ("position", "previous", "body")]
        places = sorted(links)
        for begin in range(0, len(places), MOST_PLACES):
            some = entry.c.position.in_(places[begin : begin + MOST_PLACES])
            for position, previous, body in self.connection.execute(select(*columns).where(some)):
                content = body.encode("ascii", "replace") if isinstance(body, str) else b""
                with suppress(AttributeError, OverflowError, TypeError, ValueError):  # by what is in damaged cells
                    if link_hash(previous=previous, position=position, body=content) == links[position]:
                        entries[position] = entry_of_bytes(content)
        if missing := links.keys() - entries.keys():
            raise ForgedState(f"entry {min(missing)} is missing or changed")
        return entries


@dataclass(frozen=True, kw_only=True, slots=True)
class Write(Look):
    """A ledger in one transaction that may append; `begun` is the head at its begin."""

    begun: Place

    def append(self, recorded: Entry) -> Place:
        """Append an entry that breaks no rule.

        Raises:
            RuleBroken: it would break one.
            ForgedState: an entry before it, or what a charge took for itself alone, was changed past this software.
        """
        for violation in violations(recorded, self.state):
            raise RuleBroken(violation)
        return self._append(recorded)

    def _append(self, recorded: Entry) -> Place:
        # Entries are held against the signed head once, before the first is appended.
        if self.state.head == self.begun:
            require_sound_entries(self.connection, self.state)
        # The state is changed first: an entry that can't follow raises here, before anything is inserted.
        position, previous = self.state.head.position + 1, self.state.head.hash
        body = bytes_of_entry(recorded)
        _require_readable(body, recorded)
        own = link_hash(previous=previous, position=position, body=body)
        self.state.apply(recorded, own)
        cells = (position, previous, own, body.decode("ascii"), *columns_of(recorded))
        self.connection.execute(insert(entry).values(dict(zip(ENTRY_COLUMNS, cells, strict=True))))
        return self.state.head


def _require_readable(body: bytes, recorded: Entry) -> None:
    """Refuse an entry that isn't read back as it is, such as one with True for 1: it would end the chain for ever."""
    with suppress(ValueError):
        if entry_of_bytes(body) == recorded:
            return
    raise InputRefused("a value of this entry has another type than is read back: a number, a text or a day is meant.")


def columns_of(recorded: Entry) -> tuple[str | None, ...]:
    """Return what a charge takes for itself alone: its id and its samples; nothing for other entries."""
    if not isinstance(recorded, ReleaseCharged):
        return NO_CHARGE
    samples = dict(recorded.samples)
    return recorded.release_id, samples["release"], samples.get("selection")


def head_in(state: LedgerState) -> Head:
    """Return where the chain ends of which a state is."""
    return Head(ledger_id=state.ledger_id, position=state.head.position, hash=state.head.hash)


def last_place(connection: Connection) -> Place:
    """Return the last entry's place as stored, position -1 before the first; `ForgedState` where it is damaged."""
    columns = (entry.c.position, entry.c.hash)
    last = connection.execute(select(*columns).order_by(entry.c.position.desc()).limit(1)).one_or_none()
    if last is None:
        return Place(position=-1, hash=GENESIS)
    if not isinstance(last[0], int) or not isinstance(last[1], str):
        raise ForgedState("the last entry is damaged")
    return Place(position=last[0], hash=last[1])


def stored_state(connection: Connection) -> tuple[LedgerState, PublicKey]:
    """Return the state at the head, and the key that signed it; whose key that is, isn't said here.

    Raises:
        ForgedState: no signature holds over the last entry and the snapshot.
        NewerLedger: the ledger has entries of kinds that this version doesn't know.
    """
    statement, content = _stored(connection, "statement", "state")
    return signed_state(statement, content, last=last_place(connection))


def stored_statement(connection: Connection) -> Statement:
    """Return what is signed of the state at the head, without reading the state; else as `stored_state`."""
    return held_statement(*_stored(connection, "statement"), last=last_place(connection))


def _stored(connection: Connection, *names: str) -> Sequence[object]:
    columns = [snapshot.c[name] for name in ("slot", *names)]
    rows = connection.execute(select(*columns).limit(2)).all()
    return rows[0][1:] if len(rows) == 1 and rows[0].slot == 0 else (None,) * len(names)


def keep_snapshot(connection: Connection, state: LedgerState, key: SigningKey) -> None:
    """Store the state at the head, signed together with it, in the place of the one before."""
    content = bytes_of_state(state)
    cells = {"slot": 0, "state": content.decode("ascii"), "statement": sign_state(state, content, key)}
    if connection.execute(update(snapshot).values(cells)).rowcount != 1:
        connection.execute(insert(snapshot).values(cells))


def require_sound_entries(connection: Connection, state: LedgerState) -> None:
    """Refuse a chain of which any entry is not the one that the signed head binds, and unique columns that differ.

    The time grows with the ledger, a few millionths of a second for each entry (`python -m benchmarks.ledger.scale`).

    Raises:
        ForgedState: an entry was changed, removed, inserted or moved, or what a charge took for itself was.
    """
    taken = {
        release.position: (release.release_id, release.sample, release.selection_sample)
        for release in state.releases.values()
    }
    expected, before, digest, domain = 0, GENESIS, bytes.fromhex(GENESIS), sha256(LINK_DOMAIN)
    for part in stored_rows(connection, ENTRY_COLUMNS):
        positions, previous, own, bodies, *cells = zip(*part, strict=True)
        hashes = [before]
        for position, body in enumerate(bodies, expected):
            content = body.encode("utf-8", "replace") if type(body) is str else b""
            # As `link_hash` does, written out: this is much of a charge's time in a large ledger.
            link = domain.copy()
            link.update(digest + position.to_bytes(8, "big") + content)
            digest = link.digest()
            hashes.append(digest.hex())
        places = range(expected, expected + len(part))
        # Whole columns are compared, which is faster than cell by cell. SQLite may keep a fraction that equals a place.
        right = [tuple(places), tuple(hashes[:-1]), tuple(hashes[1:])]
        if [positions, previous, own] != right or set(map(type, positions)) != {int}:
            found = zip(map(type, positions), positions, previous, own, strict=True)
            place = _first_difference(places, found, zip(repeat(int), *right, strict=False))
            raise ForgedState(f"entry {place} is not the one that the signed head binds")
        charged = [taken.get(place, NO_CHARGE) for place in places]
        if (found_cells := list(zip(*cells, strict=True))) != charged:
            place = _first_difference(places, found_cells, charged)
            raise ForgedState(f"what entry {place} takes for itself alone differs from what its columns say")
        expected, before = places.stop, hashes[-1]
    if (expected - 1, before) != (state.head.position, state.head.hash):
        raise ForgedState(f"the chain ends at entry {expected - 1}, and the signed head is {state.head.position}")


def _first_difference(places: range, found: Iterable[object], right: Iterable[object]) -> int:
    return next(place for place, one, other in zip(places, found, right, strict=False) if one != other)


def stored_rows(connection: Connection, columns: tuple[str, ...]) -> Iterator[Sequence[Row[Any]]]:
    """Give all entries' cells in the order of their places, whatever is in them, some hundreds of rows at a time."""
    chain = select(*(entry.c[name] for name in columns)).order_by(entry.c.position)
    with connection.execute(chain, execution_options={"stream_results": True}) as rows:
        yield from rows.partitions(ROWS_AT_ONCE)


@contextmanager
def looking(store: Store) -> Iterator[Look]:
    """Open one transaction to look things up in; `ForgedState` where no signature holds over its head and state."""
    with store.reading() as connection:
        yield Look(connection=connection, state=stored_state(connection)[0])


@contextmanager
def writing(store: Store, anchor: Anchor) -> Iterator[Write]:
    """Open one transaction, alone among writers from its first statement to its commit, durable after it.

    INVARIANT: head, budget and single use are looked at and changed inside one such transaction. It begins with the
    ledger held against its anchor and its snapshot against its signature; before it appends, every entry is held
    against the head.

    Raises:
        InputRefused: there is no signing key.
        AccountantRefused: the ledger is behind its anchor, its head isn't signed by a key of the private store, it has
            entries of kinds that this version doesn't know, something in it was changed past this software, a
            constraint of the database refuses, or others hold the ledger too long.
        ReleaseFailed: the database or the anchor fails.
    """
    key = anchor.keys.current()
    with store.changing() as connection:
        state = LedgerState()
        if not store.creating:
            state, signer = stored_state(connection)
            # Read under the writers' lock: nobody else can commit, so the anchor's last head must be in the chain.
            last = anchor.last_of(state.ledger_id)
            require_continued(connection, head_in(state), signer, anchor, last)
        before = state.head
        yield Write(connection=connection, state=state, begun=before)
        if state.head != before:
            keep_snapshot(connection, state, key)
    # Never before the commit. A crash between the two leaves the anchor behind, which the next transaction makes up
    # for; a head that is anchored and wasn't committed would look like a ledger that was set back.
    anchor.record(head_in(state), key, written=state.head != before)


class OpenedLedger:
    """A ledger that is open; a context manager that gives its connections back."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._store.close()
