"""The chain's verification: what was found, when, and how to do it oneself."""

from __future__ import annotations

from dataclasses import dataclass

from .figures import described
from .surroundings import Frame, Seen

__all__ = ["EntryRow", "KindRow", "VerificationPage", "verification_page"]

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

    frame: Frame
    kinds: tuple[KindRow, ...]
    entries: tuple[EntryRow, ...]
    older: int | None


def verification_page(seen: Seen, *, before: int | None) -> VerificationPage:
    """Build the page of the verification, with the entries before a place."""
    head = seen.view.head.position
    first = head if before is None else min(head, before - 1)
    wanted = range(first, max(-1, first - ROWS_A_PAGE), -1)
    stored = seen.view.entries(wanted)
    return VerificationPage(
        frame=seen.frame(),
        kinds=tuple(KindRow(kind=kind, entries=n) for kind, n in sorted(seen.around.follower.kinds().items())[:100]),
        entries=tuple(
            EntryRow(position=position, hash=stored[position].hash, what=described(stored[position].entry))
            for position in wanted
        ),
        older=wanted[-1] if len(wanted) == ROWS_A_PAGE and wanted[-1] > 0 else None,
    )
