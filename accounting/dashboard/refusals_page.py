"""Refusals: what the accountant said no to, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..ledger.release_entries import ReleaseRefused
from .ledger_view import LedgerView
from .surroundings import Frame, Seen

__all__ = ["CauseRow", "RefusalRow", "RefusalsPage", "refusal_rows", "refusals_page"]

ROWS_A_PAGE = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalRow:
    """A refusal in a table.

    Args:
        position: of its entry.
        day: when.
        dataset: whose budget was asked.
        dataset_position: where that data set is registered, None where it isn't.
        release_id: the id asked for, None where there was none.
        cause: the rule that refused.
        reason: as the person who asked was told.
    """

    position: int
    day: str
    dataset: str
    dataset_position: int | None
    release_id: str | None
    cause: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CauseRow:
    """How often a rule refused.

    Args:
        cause: the rule.
        times: how often.
    """

    cause: str
    times: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalsPage:
    """The refusals.

    Args:
        frame: of the ledger.
        cause: the rule that the page is about, None for all of them.
        causes: how often each rule refused.
        refusals: the latest first.
        refusals_in_all: how many there are of the cause asked for.
        older: what to ask for to see those before, None on the last page.
    """

    frame: Frame
    cause: str | None
    causes: tuple[CauseRow, ...]
    refusals: tuple[RefusalRow, ...]
    refusals_in_all: int
    older: int | None


def refusals_page(seen: Seen, *, before: int | None, cause: str | None) -> RefusalsPage:
    """Build the page of refusals before a place in the chain, by one rule or by all."""
    known = tuple(seen.around.follower.refusals(up_to=seen.view.head.position))
    wanted = [refusal.position for refusal in known if cause in (None, refusal.cause)]
    below = [position for position in wanted if before is None or position < before]
    counted = Counter(refusal.cause for refusal in known)
    return RefusalsPage(
        frame=seen.frame(),
        cause=cause,
        causes=tuple(CauseRow(cause=name, times=times) for name, times in sorted(counted.items())[:ROWS_A_PAGE]),
        refusals=refusal_rows(seen.view, below[:ROWS_A_PAGE]),
        refusals_in_all=len(wanted),
        older=below[ROWS_A_PAGE - 1] if len(below) > ROWS_A_PAGE else None,
    )


def refusal_rows(view: LedgerView, positions: Iterable[int]) -> tuple[RefusalRow, ...]:
    """The refusals at these places, the latest first."""
    found = view.entries_of(ReleaseRefused, positions)
    places = view.places_of_datasets(refused.dataset for refused in found.values())
    return tuple(
        RefusalRow(
            position=position,
            day=refused.day.isoformat(),
            dataset=refused.dataset,
            dataset_position=places.get(refused.dataset),
            release_id=refused.release_id,
            cause=refused.cause,
            reason=refused.reason,
        )
        for position, refused in sorted(found.items(), reverse=True)
    )
