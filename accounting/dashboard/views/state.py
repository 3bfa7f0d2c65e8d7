"""What every page works with: one state of the ledger that follows its chain, and how new a state pages may show."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request
from fastapi import Path as PathParameter
from sqlalchemy import ColumnElement, Connection, select

from ....mechanisms.kernel.errors import AccountantRefused, ReleaseFailed
from ...kernel.field_forms import Fields
from ...kernel.ledger.database import STREAMED, Store, snapshot
from ...kernel.ledger.database import entry as entry_table
from ...kernel.ledger.entries import (
    GENESIS,
    Entry,
    ReleaseCharged,
    ReleaseReading,
    ReleaseRefused,
    entry_of_bytes,
    link_hash,
)
from ...kernel.ledger.ledger_state import LedgerState, Place, Release, Token
from ...kernel.ledger.snapshot import ForgedState
from ...kernel.ledger.transactions import last_place, stored_state
from ..work import ChainState, ChainWatch, JobQueue
from .certificates import Certificates

Kind = TypeVar("Kind", bound=Entry)
SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One entry as stored."""

    position: int  # its place
    previous: str  # hash of the entry before it
    hash: str  # its own hash
    body: str  # its bytes as text
    entry: Entry  # what it records


class PublicationDelay:
    """Lets pages see the ledger as it was when the present interval began.

    PRIVACY: how long a release reads follows its input. Entries that appear at the ends of intervals alone tell no
    more of that than which interval it ended in. An interval of 0 minutes shows the ledger as it is.
    """

    def __init__(self, *, minutes: float) -> None:
        self._seconds = 60.0 * minutes
        self._until = 0.0

    @property
    def over(self) -> bool:
        """Whether the present interval has ended."""
        return not self._seconds or time.time() >= self._until

    @property
    def rest(self) -> float | None:
        """Seconds until the present interval ends; None where pages show the ledger as it is."""
        return max(0.0, self._until - time.time()) if self._seconds else None

    def begin(self) -> None:
        """Begin the next interval: what pages show from now on they show until its end."""
        if self._seconds:
            self._until = (time.time() // self._seconds + 1) * self._seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """A ledger up to an entry, as it follows from its chain.

    A page keeps the one that it began with: the state is never changed. What stands beside it becomes longer meanwhile,
    so it is asked for what the state knows alone.

    Args:
        state: what follows from the entries.
        links: hash of each entry's link, by its place.
        refusals: place and cause of each refusal.
        own: release that pays for itself → its mechanism, and its ε by the published bound if that gives one.
        readings: release → where it began to read.
    """

    state: LedgerState = field(default_factory=LedgerState)
    links: list[str] = field(default_factory=list)
    refusals: list[tuple[int, str]] = field(default_factory=list)
    own: dict[str, tuple[Fields, Decimal | None]] = field(default_factory=dict)
    readings: dict[str, int] = field(default_factory=dict)


def _contents(connection: Connection, wanted: ColumnElement[bool]) -> Iterator[tuple[int, bytes]]:
    """Places of entries, and their bytes; none where they aren't ASCII."""
    columns = [entry_table.c[name] for name in ("position", "body")]
    query = select(*columns).where(wanted).order_by(entry_table.c.position)
    with connection.execute(query, execution_options=STREAMED) as rows:
        for position, body in rows:
            yield position, body.encode() if isinstance(body, str) and body.isascii() else b""


class Follower:
    """Follows the chain from its beginning, when its delay lets it; a call costs what the entries since the last do."""

    def __init__(self, delay: PublicationDelay) -> None:
        self._delay = delay
        self._lock = threading.Lock()
        self._followed, self._folded = Followed(), LedgerState()
        self._signed: tuple[object, Place, LedgerState] | None = None

    def follow(self, connection: Connection) -> Followed:
        """Return what pages may show, at the begin of a reading transaction; it begins anew where the chain is another.

        Raises:
            AccountantRefused: what is stored does not follow from the signed chain, or a later version wrote it.
        """
        # The transaction's first question is asked under the lock, so that none sees less than was followed before.
        with self._lock:
            signed, known = self._signed_state(connection), self._followed
            if (head := known.state.head).position >= 0:
                found = select(entry_table.c.hash).where(entry_table.c.position == head.position)
                # The chain is another one than before, as after an older copy was put back: nothing that was followed
                # holds any more.
                if connection.execute(found).scalar() != head.hash:
                    self._followed, self._folded = Followed(), LedgerState()
                elif not self._delay.over:
                    return known
            if self._followed.state.head != signed.head:
                self._fold_on(connection, signed)
            self._delay.begin()
            return self._followed

    def _fold_on(self, connection: Connection, signed: LedgerState) -> None:
        """Follow to the head; nothing is taken over from a chain that doesn't hold, and the next call begins anew.

        What is folded on is never a page's: that is the signed state, once both are the same.

        Raises:
            ForgedState: an entry is missing or damaged, or another state follows from the entries than was signed.
        """
        known, more, state = self._followed, Followed(), self._folded
        self._followed, self._folded = Followed(), LedgerState()
        mechanisms: dict[Fields, Fields] = {}
        for position, content in _contents(connection, entry_table.c.position > state.head.position):
            before = state.head
            if position != before.position + 1:
                raise ForgedState(f"entry {before.position + 1} is missing")
            try:
                entry = entry_of_bytes(content)
                more.links.append(link_hash(previous=before.hash, position=position, body=content))
                state.apply(entry, more.links[-1])
            except (ArithmeticError, AttributeError, ValueError):
                raise ForgedState(f"entry {position} can't be read") from None
            if isinstance(entry, ReleaseRefused):
                more.refusals.append((position, entry.cause))
            elif isinstance(entry, ReleaseReading):
                more.readings[entry.release_id] = position
            elif isinstance(entry, ReleaseCharged) and entry.series is None:
                mechanism = mechanisms.setdefault(entry.mechanism, entry.mechanism)
                more.own[entry.release_id] = (mechanism, entry.epsilon_paper)
        # Two ways to one state: by the entries one after the other, and as it was signed. A page trusts neither alone.
        if state != signed:
            raise ForgedState("the signed state of the ledger is not what follows from its entries")
        known.links.extend(more.links)
        known.refusals.extend(more.refusals)
        known.own.update(more.own)
        known.readings.update(more.readings)
        self._followed, self._folded = replace(known, state=signed), state

    def signed(self, connection: Connection) -> LedgerState:
        """Return the state at the head as it is signed now; it is parsed once.

        Raises:
            AccountantRefused: no signature holds over the head and the state, or a later version wrote it.
        """
        with self._lock:
            return self._signed_state(connection)

    def _signed_state(self, connection: Connection) -> LedgerState:
        stored = select(snapshot.c.statement).where(snapshot.c.slot == 0)
        statement, last = connection.execute(stored).scalar(), last_place(connection)
        if self._signed is None or self._signed[:2] != (statement, last):
            # Parsed again where statement or last entry changed. A parsed state of a large ledger takes seconds.
            self._signed = (statement, last, stored_state(connection)[0])
        return self._signed[2]

    @property
    def rest(self) -> float | None:
        """Seconds until pages may show what is newer; None where they always may."""
        return self._delay.rest

    def held_back(self, chain: ChainState) -> ChainState:
        """Return what pages may say of a verification: not that it went further than they may show."""
        with self._lock:
            known = self._followed
        head, delayed = known.state.head, self._delay.rest is not None
        if not delayed or chain.verified_to is None or chain.verified_to <= head.position:
            return chain
        # PRIVACY: verifications see the whole chain, so their ends would tell when entries were written.
        nothing = head.position < 0
        return replace(chain, verified_to=None if nothing else head.position, head_hash=None if nothing else head.hash)


class IntervalWatch:
    """Takes over the ledger when an interval begins, whether or not anybody asks for a page then.

    PRIVACY: at the first request after an interval's begin, whoever asks would choose the time that pages are of.
    """

    def __init__(self, store: Store, follower: Follower) -> None:
        self._store, self._follower = store, follower
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="intervals", daemon=True)

    def start(self) -> None:
        """Begin, where pages are held back."""
        if self._follower.rest is not None:
            self._thread.start()

    def close(self) -> None:
        """End."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _work(self) -> None:
        # Looked at each second, since the clock may be set meanwhile.
        while not self._closing.wait(min(self._follower.rest or 0.0, SECONDS_BETWEEN_LOOKS)):
            if not self._follower.rest:
                try:
                    with self._store.reading() as connection:
                        self._follower.follow(connection)
                except Exception:  # noqa: BLE001 - whatever is wrong, pages say it when somebody asks for one
                    self._closing.wait(SECONDS_BETWEEN_LOOKS)


class NotSound(Exception):
    """The last verification found faults, or could not be done: its findings are shown, and no figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageHeader:
    """What every page says of the ledger."""

    ledger_id: str  # 64 hexadecimal digits
    entries: int  # how many entries the page's state of the ledger has
    head: str  # hash of the last of them
    chain: ChainState  # what the last verification found
    not_verified: int | None  # how many entries came after it, None before the first verification


@dataclass(frozen=True, kw_only=True, slots=True)
class DashboardState:
    """The dashboard's long-lived parts.

    Args:
        store: the ledger, open for looking.
        follower: follows its chain.
        watch: verifies the chain.
        queue: computes estimates and curves.
        calculator: computes what visitors ask for.
        certificates: published certificates by their digest.
    """

    store: Store
    follower: Follower
    watch: ChainWatch
    queue: JobQueue
    calculator: JobQueue
    certificates: Certificates

    @property
    def chain(self) -> ChainState:
        """Return what pages may say of the last verification."""
        return self.follower.held_back(self.watch.state)

    def tokens(self) -> tuple[Token, ...]:
        """Return the tokens as the ledger has them now.

        INVARIANT: a token that no writer signed lets nobody in, nor does a ledger from which a revocation was removed.

        Raises:
            ReleaseFailed: the database fails, or the tokens don't follow from the signed chain.
        """
        try:
            with self.store.reading() as connection:
                return tuple(self.follower.signed(connection).tokens.values())
        except AccountantRefused as forged:
            raise ReleaseFailed(
                f"it can't be determined who may look: {forged.what}",
                where=self.store.shown,
                not_done="",
                remedy=forged.remedy,
            ) from None

    @contextmanager
    def page_request(self, *, path: str = "", query: str = "") -> Iterator[PageRequest]:
        """Give one state of the ledger, for one page.

        INVARIANT: no page is made from a ledger that doesn't verify, nor from anything that its signed head doesn't
        vouch for.

        Raises:
            NotSound: the last verification found it so.
            AccountantRefused: what the page would show does not follow from the signed chain.
            ReleaseFailed: the database fails.
        """
        chain = self.watch.state
        if chain.verdict in ("broken", "failed"):
            raise NotSound
        asked = f"?{query}" if query else ""
        with self.store.reading() as connection:
            followed = self.follower.follow(connection)
            chain = self.follower.held_back(chain)
            yield PageRequest(
                connection=connection, followed=followed, chain=chain, dashboard=self, path=path, query=asked
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRequest:
    """What one page sees: the ledger up to the last entry that pages may show.

    INVARIANT: nothing is given out that does not follow from the signed chain; a question raises ForgedState instead.

    PRIVACY: every question is bounded by the state's head, so that delayed pages show nothing newer.

    Args:
        connection: in a reading transaction, and unable to write.
        followed: the ledger.
        chain: what the last verification found.
        dashboard: the dashboard's long-lived parts.
        path: the address that was asked for.
        query: its query with the question mark, or empty.
    """

    connection: Connection
    followed: Followed
    chain: ChainState
    dashboard: DashboardState
    path: str
    query: str

    @property
    def state(self) -> LedgerState:
        """What follows from the entries."""
        return self.followed.state

    def frame(self) -> PageHeader:
        """Return the page's frame; entries that are newer than the last verification ask for another."""
        state, head, verified_to = self.state, self.state.head, self.chain.verified_to
        newer = None if verified_to is None else max(0, head.position - verified_to)
        if newer:
            self.dashboard.watch.ask()
        return PageHeader(
            ledger_id=state.ledger_id, entries=head.position + 1, head=head.hash, chain=self.chain, not_verified=newer
        )

    def entries(self, positions: Iterable[int]) -> dict[int, Stored]:
        """Return entries by their places up to the head, in their order; each is held against its known hash."""
        wanted = {position for position in positions if 0 <= position <= self.state.head.position}
        found: dict[int, Stored] = {}
        for position, content in _contents(self.connection, entry_table.c.position.in_(wanted)):
            own, previous = self.followed.links[position], self.followed.links[position - 1] if position else GENESIS
            if link_hash(previous=previous, position=position, body=content) != own:
                raise ForgedState(f"entry {position} was changed")
            entry = entry_of_bytes(content)
            found[position] = Stored(
                position=position, previous=previous, hash=own, body=content.decode("ascii"), entry=entry
            )
        if missing := wanted - found.keys():
            raise ForgedState(f"entry {min(missing)} is missing")
        return found

    def entries_of(self, kind: type[Kind], positions: Iterable[int]) -> dict[int, Kind]:
        """Return entries of one kind by their places, in their order."""
        found = {position: stored.entry for position, stored in self.entries(positions).items()}
        if others := [position for position, entry in found.items() if not isinstance(entry, kind)]:
            raise ForgedState(f"entry {others[0]} is of another kind than the state says")
        return found  # type: ignore[return-value]

    def refusals(self) -> list[tuple[int, str]]:
        """Return places and causes of refusals, the latest first."""
        return [one for one in reversed(self.followed.refusals[:]) if one[0] <= self.state.head.position]

    def releases(self, *, before: int | None, limit: int, dataset: str | None = None) -> list[Release]:
        """Return releases, the latest first: those charged before a place, of one data set or of all."""
        known = self.state.releases
        ids = known if dataset is None else self.state.datasets[dataset].releases
        latest = (known[release_id] for release_id in reversed(ids))
        return list(islice((one for one in latest if before is None or one.position < before), limit))


def _page_request(request: Request) -> Iterator[PageRequest]:
    dashboard: DashboardState = request.app.state.dashboard
    with dashboard.page_request(path=request.url.path, query=request.url.query) as page_request:
        yield page_request


LAST = 2**53
OneState = Annotated[PageRequest, Depends(_page_request)]
Position = Annotated[int, PathParameter(ge=0, le=LAST, description="Place of an entry in the chain, from 0.")]
Before = Annotated[int | None, Query(ge=0, le=LAST, description="Only what stands before this place in the chain.")]
