"""The chain: one entry with its bytes, and what the verification of all of them found."""

from __future__ import annotations

from dataclasses import dataclass

from ....mechanisms.errors import InputRefused
from ...ledger.entries.kinds import ReleaseCharged
from ..views.rows import day_of, described
from ..views.state import PageHeader, PageRequest

__all__ = ["EntryPage", "EntryRow", "KindRow", "VerificationPage", "entry_page", "verification_page"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPage:
    """An entry.

    Args:
        frame: of the ledger.
        position: its place.
        kind: its versioned kind.
        day: that it bears, None where it bears none.
        what: what it says in a sentence.
        previous: hash of the entry before it.
        hash: its own hash.
        body: its bytes, which are ASCII.
        release_id: the release that it charges, None for another entry.
        before: the place before it, None for the first.
        after: the place after it, None for the last.
    """

    frame: PageHeader
    position: int
    kind: str
    day: str | None
    what: str
    previous: str
    hash: str
    body: str
    release_id: str | None
    before: int | None
    after: int | None


def entry_page(page_request: PageRequest, position: int) -> EntryPage:
    """Build the page of the entry at a place.

    Raises:
        InputRefused: there is none.
    """
    stored = page_request.view.entries([position]).get(position)
    if stored is None:
        raise InputRefused("The ledger has no such entry.", where=f"entry {position}", not_done="")
    entry = stored.entry
    return EntryPage(
        frame=page_request.frame(),
        position=position,
        kind=entry.KIND,
        day=day_of(entry),
        what=described(entry),
        previous=stored.previous,
        hash=stored.hash,
        body=stored.body,
        release_id=entry.release_id if isinstance(entry, ReleaseCharged) else None,
        before=position - 1 if position > 0 else None,
        after=position + 1 if position < page_request.view.head.position else None,
    )


ROWS_A_PAGE = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class KindRow:
    """How many entries of a kind there are.

    Args:
        kind: the versioned kind.
        entries: how many.
    """

    kind: str
    entries: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryRow:
    """An entry in a table.

    Args:
        position: its place.
        hash: its own hash.
        what: what it says.
    """

    position: int
    hash: str
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class VerificationPage:
    """The verification.

    Args:
        frame: of the ledger, with the verification's state.
        kinds: the entries by kind.
        entries: entries of the chain, the latest first.
        older: what to ask for to see those before, None on the last page.
    """

    frame: PageHeader
    kinds: tuple[KindRow, ...]
    entries: tuple[EntryRow, ...]
    older: int | None


def verification_page(page_request: PageRequest, *, before: int | None) -> VerificationPage:
    """Build the page of the verification, with the entries before a place."""
    head = page_request.view.head.position
    first = head if before is None else min(head, before - 1)
    wanted = range(first, max(-1, first - ROWS_A_PAGE), -1)
    stored = page_request.view.entries(wanted)
    return VerificationPage(
        frame=page_request.frame(),
        kinds=tuple(
            KindRow(kind=kind, entries=n) for kind, n in sorted(page_request.dashboard.follower.kinds().items())[:100]
        ),
        entries=tuple(
            EntryRow(position=position, hash=stored[position].hash, what=described(stored[position].entry))
            for position in wanted
        ),
        older=wanted[-1] if len(wanted) == ROWS_A_PAGE and wanted[-1] > 0 else None,
    )
