"""One entry of the chain, with its bytes, so that anybody can compute its hash again."""

from __future__ import annotations

from dataclasses import dataclass

from ...mechanisms.refusal import InputRefused
from ..ledger.release_entries import ReleaseCharged
from .figures import day_of, described
from .surroundings import Frame, Seen

__all__ = ["EntryPage", "entry_page"]


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

    frame: Frame
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


def entry_page(seen: Seen, position: int) -> EntryPage:
    """Build the page of the entry at a place.

    Raises:
        InputRefused: there is none.
    """
    stored = seen.view.entries([position]).get(position)
    if stored is None:
        raise InputRefused("The ledger has no such entry.", where=f"entry {position}", not_done="")
    entry = stored.entry
    return EntryPage(
        frame=seen.frame(),
        position=position,
        kind=entry.KIND,
        day=day_of(entry),
        what=described(entry),
        previous=stored.previous,
        hash=stored.hash,
        body=stored.body,
        release_id=entry.release_id if isinstance(entry, ReleaseCharged) else None,
        before=position - 1 if position > 0 else None,
        after=position + 1 if position < seen.view.head.position else None,
    )
