"""What stands where a row would stand that can't be read, so that nothing drops out of a table unseen."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["VERIFY", "UnreadableRow", "unreadable_entry"]

VERIFY = "Run crowdblend ledger verify."


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadableRow:
    """In the place of a row.

    Args:
        position: of the entry that the row would tell of.
        unreadable: what can't be read, what is missing for it, and what to do.
    """

    position: int
    unreadable: str


def unreadable_entry(position: int, *, told: str) -> UnreadableRow:
    """In the place of a row that an entry should give.

    Args:
        position: of the entry, which is missing, can't be read, or is of another kind.
        told: what it should tell of, with its article.
    """
    what = f"Entry {position} can't be read: {told} is missing here. {VERIFY}"
    return UnreadableRow(position=position, unreadable=what)
