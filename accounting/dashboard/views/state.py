"""What every page works with: one state of the open ledger, what follows it, and how new a state pages may show."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, func, select

from ....mechanisms.errors import ReleaseFailed
from ...ledger.chain.signed_state import ForgedState, Place, SignedState, head_of, rows_in
from ...ledger.database.schema import (
    DERIVED_TABLES,
    account,
    dataset,
    release,
    release_stage,
    sample,
    series,
    series_release,
)
from ...ledger.database.schema import entry as entry_table
from ...ledger.database.store import Store
from ...ledger.entries.codec import entry_of_bytes
from ...ledger.entries.kinds import Entry, ReleaseCharged, SeriesRegistered
from ...ledger.entries.values import Account, account_of_row
from ...ledger.queries import ledger_id_of
from ...ledger.tokens import TokenState, vouched_tokens
from ..work import ChainState, ChainWatch, JobQueue
from .certificates import Certificates
from .ledger_follower import Follower

__all__ = [
    "AccountChange",
    "DashboardState",
    "LedgerView",
    "NotSound",
    "PageHeader",
    "PageRequest",
    "PublicationDelay",
    "Stored",
]

Kind = TypeVar("Kind", bound=Entry)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One entry as stored.

    Args:
        position: its place.
        previous: hash of the entry before it.
        hash: its own hash.
        body: its bytes as text.
        entry: what it records.
    """

    position: int
    previous: str
    hash: str
    body: str
    entry: Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountChange:
    """A data set's account after one change.

    Args:
        sequence: how many changes came before.
        position: the entry that changed it.
        account: the account.
    """

    sequence: int
    position: int
    account: Account


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """The ledger up to a head, in one reading transaction whose signed state is vouched for.

    INVARIANT: nothing is given out that does not follow from the signed chain; a question raises ForgedState instead.

    PRIVACY: every question is bounded by the head, so that delayed pages show nothing newer.

    Args:
        connection: in a reading transaction, and unable to write.
        head: the last entry that pages may show.
    """

    connection: Connection
    head: Place

    @cached_property
    def _signed(self) -> SignedState:
        return SignedState(self.connection)

    def require_all_rows(self) -> None:
        """Require that every table has as many rows, at places of the chain, as follow from the entries.

        Raises:
            ForgedState: rows were added or removed, or the place of one is damaged.
        """
        last = head_of(self.connection).position
        for table in DERIVED_TABLES:
            within = table.c.position.between(0, last)
            rows = self.connection.execute(select(func.count()).select_from(table).where(within)).scalar_one()
            self._signed.require_rows(table, rows)

    def entries(self, positions: Iterable[int]) -> dict[int, Stored]:
        """Entries by their places up to the head, in their order."""
        wanted = {position for position in positions if 0 <= position <= self.head.position}
        query = select(entry_table).where(entry_table.c.position.in_(wanted)).order_by(entry_table.c.position)
        found = self._rows(entry_table, query)
        if missing := wanted - {row["position"] for row in found}:
            raise ForgedState(f"entry {min(missing)} is missing")
        return {
            row["position"]: Stored(
                position=row["position"],
                previous=row["previous"],
                hash=row["hash"],
                body=row["body"],
                entry=entry_of_bytes(row["body"].encode("ascii")),
            )
            for row in found
        }

    def entries_of(self, kind: type[Kind], positions: Iterable[int]) -> dict[int, Kind]:
        """Entries of one kind by their places, in their order."""
        found: dict[int, Kind] = {}
        for position, stored in self.entries(positions).items():
            if not isinstance(stored.entry, kind):
                raise ForgedState(f"entry {position} is of another kind than a table says")
            found[position] = stored.entry
        return found

    def _rows(self, table: Table, query: Select[Any]) -> list[dict[str, Any]]:
        """Whole rows of a table, each of them required to be one of the signed state."""
        rows = rows_in(self.connection, query)
        self._signed.require(table, rows, what="what this page would show")
        return rows

    def count(self, table: str) -> int:
        """How many rows follow from the entries: of "release", "sample" or "dataset"."""
        known = {"release": release, "sample": sample, "dataset": dataset}[table]
        counted = select(func.count()).select_from(known).where(known.c.position <= self.head.position)
        return self.connection.execute(counted).scalar_one()

    def datasets(self, *, after: int, limit: int) -> tuple[tuple[str, int], ...]:
        """Names of data sets and the places of their registrations, in the order of these, past a place."""
        query = select(dataset).where(dataset.c.position > after, dataset.c.position <= self.head.position)
        rows = self._rows(dataset, query.order_by(dataset.c.position).limit(limit))
        return tuple((row["name"], row["position"]) for row in rows)

    def places_of_datasets(self, names: Iterable[str]) -> dict[str, int]:
        """Where data sets are registered, by name."""
        query = select(dataset).where(dataset.c.name.in_(set(names)), dataset.c.position <= self.head.position)
        return {row["name"]: row["position"] for row in self._rows(dataset, query)}

    def last_change(self, name: str) -> AccountChange:
        """The latest change of a data set's account."""
        query = select(account).where(account.c.dataset == name, account.c.position <= self.head.position)
        rows = self._rows(account, query.order_by(account.c.sequence.desc()).limit(1))
        if not rows:
            raise ForgedState("the account of a data set is missing")
        return _change(rows[0])

    def changes(self, name: str, *, last: AccountChange, most: int) -> tuple[AccountChange, ...]:
        """Changes of a data set's account up to its last: all, or as many spread evenly, with first and last.

        Args:
            name: of the data set.
            last: the latest.
            most: how many.
        """
        step = max(1, -(-last.sequence // max(1, most - 1)))
        wanted = {*range(0, last.sequence + 1, step), last.sequence}
        query = select(account).where(account.c.dataset == name, account.c.sequence.in_(wanted))
        rows = self._rows(account, query.order_by(account.c.sequence))
        if len(rows) != len(wanted):
            raise ForgedState("changes of an account are missing")
        return tuple(_change(row) for row in rows)

    def releases(self, *, name: str | None, before: int | None, limit: int) -> tuple[int, ...]:
        """Places of charges, the latest first; of one data set, or of all."""
        query = select(release).where(release.c.position <= self._last(before))
        if name is not None:
            query = query.where(release.c.dataset == name)
        rows = self._rows(release, query.order_by(release.c.position.desc()).limit(limit))
        return tuple(row["position"] for row in rows)

    def place_of_release(self, release_id: str) -> int | None:
        """Where a release is charged, None where the ledger has none of this id."""
        rows = self._rows(release, select(release).where(release.c.release_id == release_id))
        place = next((int(row["position"]) for row in rows), None)
        return place if place is not None and place <= self.head.position else None

    def place_of_series(self, name: str) -> int:
        """Where the series that paid for a release is registered."""
        rows = self._rows(series, select(series).where(series.c.name == name))
        if not rows:
            raise ForgedState("the series that paid for a release is missing")
        return int(rows[0]["position"])

    def samples(self, *, before: int | None, limit: int) -> tuple[tuple[str, str, str, int], ...]:
        """Samples with their purposes, their releases and their places, the latest first."""
        query = select(sample).where(sample.c.position <= self._last(before))
        rows = self._rows(sample, query.order_by(sample.c.position.desc(), sample.c.purpose).limit(limit))
        return tuple((row["sample_id"], row["purpose"], row["release_id"], row["position"]) for row in rows)

    def outcomes(self, release_ids: Iterable[str]) -> dict[str, Mapping[str, int]]:
        """What became of releases: release id → outcome → place of its entry."""
        query = select(release_stage).where(
            release_stage.c.release_id.in_(set(release_ids)), release_stage.c.position <= self.head.position
        )
        found: dict[str, dict[str, int]] = {}
        for row in self._rows(release_stage, query):
            found.setdefault(row["release_id"], {})[row["outcome"]] = row["position"]
        return dict(found)

    def registration_of_series(self, name: str) -> SeriesRegistered:
        """The series that paid for a release, as it was registered."""
        place = self.place_of_series(name)
        return self.entries_of(SeriesRegistered, [place])[place]

    def _held(self) -> tuple[ColumnElement[bool], ...]:
        """Places of series that a release holds: conditions."""
        given_back = (
            select(release_stage.c.release_id)
            .where(
                release_stage.c.release_id == series_release.c.release_id,
                release_stage.c.outcome == "refunded",
                release_stage.c.position <= self.head.position,
            )
            .exists()
        )
        return series_release.c.position <= self.head.position, ~given_back

    def numbers_taken(self, name: str) -> tuple[int, ...]:
        """The numbers of a series' places that a release holds, by their charges in the chain."""
        asked = select(series_release.c.position).where(series_release.c.series == name, *self._held())
        charges = self.entries_of(ReleaseCharged, self.connection.execute(asked).scalars())
        return tuple(charge.series.number for charge in charges.values() if charge.series is not None)

    def series_of(self, name: str, *, limit: int) -> tuple[tuple[str, int, int], ...]:
        """Series of a data set, the latest first: name, place of its registration, places taken in it."""
        taken = (
            select(func.count())
            .select_from(series_release)
            .where(series_release.c.series == series.c.name, *self._held())
            .scalar_subquery()
        )
        rows = rows_in(
            self.connection,
            select(series, taken.label("taken"))
            .where(series.c.dataset == name, series.c.position <= self.head.position)
            .order_by(series.c.position.desc())
            .limit(limit),
        )
        self._signed.require(series, rows, what="what this page would show")
        if self.head == head_of(self.connection) and any(
            row["taken"] != self._signed.count("held", row["name"]) for row in rows
        ):
            raise ForgedState("the places taken in a series don't follow from the signed chain")
        return tuple((row["name"], row["position"], row["taken"]) for row in rows)

    def _last(self, before: int | None) -> int:
        return self.head.position if before is None else min(self.head.position, before - 1)


def _change(row: Mapping[str, Any]) -> AccountChange:
    return AccountChange(sequence=row["sequence"], position=row["position"], account=account_of_row(row).account)


class PublicationDelay:
    """Lets pages see the head as it was when the present interval began.

    PRIVACY: how long a release reads follows its input. Entries that appear at the ends of intervals alone tell no
    more of that than which interval it ended in.

    Args:
        minutes: the interval's length; 0 to show the ledger as it is.
    """

    def __init__(self, *, minutes: float) -> None:
        self._seconds = 60.0 * minutes
        self._lock = threading.Lock()
        self._place: Place | None = None
        self._until = 0.0

    def head(self, now: Place) -> Place:
        """The last entry that pages may show.

        Args:
            now: the ledger's head.
        """
        if not self._seconds:
            return now
        with self._lock:
            clock = time.time()
            if self._place is None or clock >= self._until or now.position < self._place.position:
                self._place = now
                self._until = (clock // self._seconds + 1) * self._seconds
            return self._place


class NotSound(Exception):
    """The last verification found faults, or could not be done: its findings are shown, and no figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageHeader:
    """What every page says of the ledger.

    Args:
        ledger_id: 64 hexadecimal digits.
        entries: how many entries the page's state of the ledger has.
        head: hash of the last of them.
        chain: what the last verification found.
        not_verified: how many entries came after it, None before the first verification.
    """

    ledger_id: str
    entries: int
    head: str
    chain: ChainState
    not_verified: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DashboardState:
    """The dashboard's long-lived parts.

    Args:
        store: the ledger, open for looking.
        follower: what is known of entries beyond the tables.
        watch: verifies the chain.
        queue: computes estimates and curves.
        calculator: computes what visitors ask for.
        certificates: published certificates by their digest.
        publication_delay: up to which entry pages may look.
    """

    store: Store
    follower: Follower
    watch: ChainWatch
    queue: JobQueue
    calculator: JobQueue
    certificates: Certificates
    publication_delay: PublicationDelay

    def tokens(self) -> tuple[TokenState, ...]:
        """The tokens as the ledger has them now.

        INVARIANT: a token that no writer signed lets nobody in, nor does a ledger from which a revocation was removed.

        Raises:
            ReleaseFailed: the database fails, or the tokens don't follow from the signed chain.
        """
        try:
            with self.store.looking() as connection:
                return vouched_tokens(connection)
        except ForgedState as forged:
            raise ReleaseFailed(
                f"who may look can't be told: {forged.what}", where=self.store.shown, not_done="", remedy=forged.remedy
            ) from None

    @contextmanager
    def page_request(self, *, path: str = "", query: str = "") -> Iterator[PageRequest]:
        """One state of the ledger, for one page.

        INVARIANT: no page is made from a ledger that doesn't verify, nor from anything that its signed head doesn't
        vouch for.

        Raises:
            NotSound: the last verification found it so.
            ForgedState: what the page would show does not follow from the signed chain.
            ReleaseFailed: the database fails, or the first entry is damaged.
        """
        chain = self.watch.state
        if chain.verdict in ("broken", "failed"):
            raise NotSound
        with self.store.looking() as connection:
            self.follower.follow(connection)
            view = LedgerView(connection=connection, head=self.publication_delay.head(head_of(connection)))
            view.require_all_rows()
            yield PageRequest(
                view=view,
                ledger_id=ledger_id_of(connection),
                chain=chain,
                dashboard=self,
                path=path,
                query=f"?{query}" if query else "",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRequest:
    """What one page sees.

    Args:
        view: the ledger.
        ledger_id: its id.
        chain: what the last verification found.
        dashboard: the dashboard's long-lived parts.
        path: the address that was asked for.
        query: its query with the question mark, or empty.
    """

    view: LedgerView
    ledger_id: str
    chain: ChainState
    dashboard: DashboardState
    path: str
    query: str

    def frame(self) -> PageHeader:
        """The page's frame; entries that are newer than the last verification ask for another."""
        head, verified_to = self.view.head, self.chain.verified_to
        newer = None if verified_to is None else max(0, head.position - verified_to)
        if newer:
            self.dashboard.watch.ask()
        return PageHeader(
            ledger_id=self.ledger_id, entries=head.position + 1, head=head.hash, chain=self.chain, not_verified=newer
        )
