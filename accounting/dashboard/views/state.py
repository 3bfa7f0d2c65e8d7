"""What every page works with: the open ledger, what follows it, and how new a state pages may show."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....mechanisms.errors import ReleaseFailed
from ...ledger.chain.append import Place, head_of
from ...ledger.chain.signed_state import ForgedState
from ...ledger.database.store import Store
from ...ledger.queries import ledger_id_of
from ...ledger.tokens import TokenState, vouched_tokens
from ..jobs.certificates import Certificates
from ..jobs.chain_watch import ChainState, ChainWatch
from ..jobs.work import JobQueue
from .ledger_follower import Follower
from .ledger_view import LedgerView

__all__ = ["DashboardState", "NotSound", "PageHeader", "PageRequest", "PublicationDelay"]


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
        desk: computes estimates and curves.
        calculator: computes what visitors ask for.
        certificates: published certificates by their digest.
        publication_delay: up to which entry pages may look.
    """

    store: Store
    follower: Follower
    watch: ChainWatch
    desk: JobQueue
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
    def seen(self, *, path: str = "", query: str = "") -> Iterator[PageRequest]:
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
                around=self,
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
        around: the dashboard's long-lived parts.
        path: the address that was asked for.
        query: its query with the question mark, or empty.
    """

    view: LedgerView
    ledger_id: str
    chain: ChainState
    around: DashboardState
    path: str
    query: str

    def frame(self) -> PageHeader:
        """The page's frame; entries that are newer than the last verification ask for another."""
        head, verified_to = self.view.head, self.chain.verified_to
        newer = None if verified_to is None else max(0, head.position - verified_to)
        if newer:
            self.around.watch.ask()
        return PageHeader(
            ledger_id=self.ledger_id, entries=head.position + 1, head=head.hash, chain=self.chain, not_verified=newer
        )
