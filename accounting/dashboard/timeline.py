"""A data set's account over time, with what can't be read of it in its place."""

from __future__ import annotations

from dataclasses import dataclass

from ..ledger.entry import DatasetAdded
from .estimate import epsilon_of, estimate_of
from .figures import Amount, amount, amount_or_none, day_of
from .ledger_view import AccountChange, Stored
from .surroundings import Fault, Seen
from .unreadable import VERIFY

__all__ = ["Timeline", "TimelinePoint", "UnreadableChange", "timeline_of"]

MOST_POINTS = 48
MOST_COMPOSED = 12
MOST_UNREAD = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelinePoint:
    """The account after one change.

    Args:
        change: how many changes came before.
        position: the entry that changed it.
        day: when, None where the entry can't be read.
        epsilon_spent: charged and not given back: this counts.
        epsilon_budget: the most that it may become.
        delta_spent: the same of δ.
        epsilon_composed: the composed estimate; None where it isn't computed for this point, or can't be.
        epsilon_paper: what the published bound would have charged; None where it gives no guarantee, or where
            that can't be known.
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
class UnreadableChange:
    """In the place of a change whose entry or whose account can't be read.

    Args:
        change: how many changes came before.
        position: the entry that changed the account, None where that can't be read.
        unreadable: what can't be read, what is missing for it, and what to do.
    """

    change: int
    position: int | None
    unreadable: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """An account's changes, or some of them spread evenly, and all whose entries can't be read.

    Args:
        points: in the order of the chain; where only the entry can't be read, that stands before the account after it.
        stored: the entries that changed it.
        estimated: whether every entry that an estimate now hangs on can be read.
        computing: whether estimates are still being computed.
    """

    points: tuple[TimelinePoint | UnreadableChange, ...]
    stored: tuple[Stored, ...]
    estimated: bool
    computing: bool

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The accounts that can't be read; what is wrong with entries is told by these."""
        faulty = {one.position for one in self.stored if one.entry is None}
        return tuple(
            Fault(position=point.position, what=point.unreadable)
            for point in self.points
            if isinstance(point, UnreadableChange) and point.position not in faulty
        )


def timeline_of(seen: Seen, added: DatasetAdded, *, last: AccountChange) -> Timeline:
    """The changes of a data set's account up to its last, which can be read."""
    follower = seen.around.follower
    unread = {one.position for one in follower.unread(up_to=seen.view.head.position)}
    changes = seen.view.changes(added.dataset, last=last, most=MOST_POINTS, also=sorted(unread)[:MOST_UNREAD])
    places = tuple(change.position for change in changes if change.position is not None)
    stored = seen.view.entries(places)
    papers = dict(zip(places, follower.paper_spent(added.dataset, up_to=places), strict=True))
    step = max(1, -(-len(changes) // MOST_COMPOSED))
    points: list[TimelinePoint | UnreadableChange] = []
    estimated, computing = len(unread) <= MOST_UNREAD, False
    for number, change in enumerate(changes):
        entry = None if change.position is None else stored[change.position].entry
        if change.position is not None and (entry is None or change.position in unread):
            # INVARIANT: an estimate that leaves out a payment is none.
            estimated = False
            points.append(_unread_entry(change.sequence, change.position))
        if change.position is None or change.account is None:
            points.append(_unread_account(change))
            continue
        composed = None
        if estimated and (len(changes) - 1 - number) % step == 0:
            answer = estimate_of(seen, added, change.position, change.account, wait=0.0)
            composed, computing = epsilon_of(answer), computing or answer.pending
        points.append(
            TimelinePoint(
                change=change.sequence,
                position=change.position,
                day=day_of(entry),
                epsilon_spent=amount(change.account.epsilon_spent),
                epsilon_budget=amount(change.account.epsilon_budget),
                delta_spent=amount(change.account.delta_spent),
                epsilon_composed=composed,
                epsilon_paper=amount_or_none(papers[change.position]) if estimated else None,
            )
        )
    return Timeline(points=tuple(points), stored=tuple(stored.values()), estimated=estimated, computing=computing)


def _unread_entry(change: int, position: int) -> UnreadableChange:
    what = f"Entry {position} can't be read: from it on the estimate and the paper's bound are missing here. {VERIFY}"
    return UnreadableChange(change=change, position=position, unreadable=what)


def _unread_account(change: AccountChange) -> UnreadableChange:
    which = (
        f"Change {change.sequence} of this account (the first is 0)"
        if change.position is None
        else f"The account after entry {change.position}"
    )
    what = f"{which} can't be read: what was spent then is missing here. {VERIFY}"
    return UnreadableChange(change=change.sequence, position=change.position, unreadable=what)
