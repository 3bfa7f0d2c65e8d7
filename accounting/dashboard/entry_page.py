"""One entry of the chain, with its bytes, so that anybody can compute its hash again."""

from __future__ import annotations

from dataclasses import dataclass

from ...mechanisms.refusal import InputRefused
from .figures import charge_of, day_of, described
from .surroundings import Frame, Seen

__all__ = ["EntryPage", "entry_page"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPage:
    """An entry.

    Args:
        frame: of the ledger.
        position: its place.
        kind: its versioned kind, None where it can't be read.
        day: that it bears, None where it bears none.
        what: what it says in a sentence.
        previous: hash of the entry before it.
        hash: its own hash.
        body: its bytes as stored, which are ASCII where the entry is sound.
        fault: what is wrong with it alone, None where nothing is.
        release_id: the release that it charges, None for another entry.
        before: the place before it, None for the first.
        after: the place after it, None for the last.
    """

    frame: Frame
    position: int
    kind: str | None
    day: str | None
    what: str
    previous: str
    hash: str
    body: str
    fault: str | None
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
    entry, charge = stored.entry, charge_of(stored.entry)
    return EntryPage(
        frame=seen.frame(stored),
        position=position,
        kind=None if entry is None else entry.KIND,
        day=day_of(entry),
        what="This entry can't be read." if entry is None else described(entry),
        previous=stored.previous,
        hash=stored.hash,
        body=stored.body[:20_000],
        fault=stored.fault,
        release_id=None if charge is None else charge.release_id,
        before=position - 1 if position > 0 else None,
        after=position + 1 if position < seen.view.head.position else None,
    )
