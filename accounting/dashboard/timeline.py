"""A data set's account over time."""

from __future__ import annotations

from dataclasses import dataclass

from ..ledger.entry import DatasetAdded
from .estimate import epsilon_of, estimate_of
from .figures import Amount, amount, amount_or_none, day_of
from .ledger_view import AccountChange
from .surroundings import Seen

__all__ = ["Timeline", "TimelinePoint", "timeline_of"]

MOST_POINTS = 48
MOST_COMPOSED = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelinePoint:
    """The account after one change.

    Args:
        change: how many changes came before.
        position: the entry that changed it.
        day: when, None where the entry bears none.
        epsilon_spent: charged and not given back: this counts.
        epsilon_budget: the most that it may become.
        delta_spent: the same of δ.
        epsilon_composed: the composed estimate; None where it isn't computed for this point.
        epsilon_paper: what the published bound would have charged; None where it gives no guarantee.
    """

    change: int
    position: int
    day: str | None
    epsilon_spent: Amount
    epsilon_budget: Amount
    delta_spent: Amount
    epsilon_composed: Amount | None
    epsilon_paper: Amount | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """An account's changes, or some of them spread evenly.

    Args:
        points: in the order of the chain.
        computing: whether estimates are still being computed.
    """

    points: tuple[TimelinePoint, ...]
    computing: bool


def timeline_of(seen: Seen, added: DatasetAdded, *, last: AccountChange) -> Timeline:
    """The changes of a data set's account up to its last."""
    changes = seen.view.changes(added.dataset, last=last, most=MOST_POINTS)
    places = tuple(change.position for change in changes)
    stored = seen.view.entries(places)
    papers = seen.around.follower.paper_spent(added.dataset, up_to=places)
    step = max(1, -(-len(changes) // MOST_COMPOSED))
    points: list[TimelinePoint] = []
    computing = False
    for number, (change, paper) in enumerate(zip(changes, papers, strict=True)):
        composed = None
        if (len(changes) - 1 - number) % step == 0:
            answer = estimate_of(seen, added, change.position, change.account, wait=0.0)
            composed, computing = epsilon_of(answer), computing or answer.pending
        points.append(
            TimelinePoint(
                change=change.sequence,
                position=change.position,
                day=day_of(stored[change.position].entry),
                epsilon_spent=amount(change.account.epsilon_spent),
                epsilon_budget=amount(change.account.epsilon_budget),
                delta_spent=amount(change.account.delta_spent),
                epsilon_composed=composed,
                epsilon_paper=amount_or_none(paper),
            )
        )
    return Timeline(points=tuple(points), computing=computing)
