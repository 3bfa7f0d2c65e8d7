"""What pages need of the entries beyond the ledger's tables, and what each data set has paid for: held in memory."""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, select

from ...ledger.chain.signed_state import ForgedState, head_of
from ...ledger.database.schema import as_stored
from ...ledger.database.schema import entry as entry_table
from ...ledger.entries.kinds import (
    BudgetRaised,
    DataAccess,
    Fields,
    FreeSeriesRegistered,
    ReleaseAbandoned,
    ReleaseRefused,
    SeriesRegistered,
    SeriesRegisteredToFilter,
)
from ...ledger.entries.values import amount_of_text

__all__ = ["Follower", "Payment", "Refusal", "SpendIndex"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Payment:
    """Releases of a mechanism that were paid for, or given back.

    Args:
        position: of the entry.
        mechanism: the mechanism's record.
        releases: how many; below 0 where they were given back.
        epsilon_paper: what the published bound would have charged for them, None where it gives no guarantee.
    """

    position: int
    mechanism: Fields
    releases: int
    epsilon_paper: Decimal | None


@dataclass(kw_only=True, slots=True)
class _Count:
    """How many releases of one mechanism are paid for, after each payment."""

    positions: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class SpendIndex:
    """The payments of one data set, in the order of the chain."""

    _counts: dict[Fields, _Count] = field(default_factory=dict)
    _positions: list[int] = field(default_factory=list)
    _papers: list[Decimal | None] = field(default_factory=list)

    def take(self, payment: Payment) -> None:
        """Add a payment; it stands after all that were added before."""
        known = self._counts.setdefault(payment.mechanism, _Count())
        known.positions.append(payment.position)
        known.counts.append((known.counts[-1] if known.counts else 0) + payment.releases)
        before, more = self._papers[-1] if self._papers else Decimal(0), payment.epsilon_paper
        self._positions.append(payment.position)
        self._papers.append(None if before is None or more is None else before + more)

    def counted(self, *, up_to: int) -> Counter[Fields]:
        """Mechanism → releases of it that are paid for and not given back, up to an entry."""
        found: Counter[Fields] = Counter()
        for mechanism, known in self._counts.items():
            entries = bisect_right(known.positions, up_to)
            if entries and known.counts[entries - 1] > 0:
                found[mechanism] = known.counts[entries - 1]
        return found

    def by_the_paper(self, *, up_to: int) -> Decimal | None:
        """ε by the published bound up to an entry; None from the first payment on for which it gives no guarantee."""
        entries = bisect_right(self._positions, up_to)
        return self._papers[entries - 1] if entries else Decimal(0)


CHARGE = "release-charged/"
SERIES = frozenset(kind.KIND for kind in (SeriesRegistered, FreeSeriesRegistered, SeriesRegisteredToFilter))
PLAIN_KINDS = SERIES | {kind.KIND for kind in (BudgetRaised, DataAccess, ReleaseRefused, ReleaseAbandoned)}
BATCH = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Where a refusal stands.

    Args:
        position: of its entry.
        cause: the rule that refused.
    """

    position: int
    cause: str


@dataclass(kw_only=True, slots=True)
class _Followed:
    """Everything followed so far."""

    position: int = -1
    hash: str = ""
    kinds: Counter[str] = field(default_factory=Counter)
    looks: dict[str, list[tuple[int, date]]] = field(default_factory=dict)
    raises: dict[str, list[int]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    paid_by: dict[str, SpendIndex] = field(default_factory=dict)
    paid: dict[str, tuple[str, Payment]] = field(default_factory=dict)


class Follower:
    """Follows the chain from its beginning; the cost of a call is that of the entries since the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followed = _Followed()

    def follow(self, connection: Connection) -> None:
        """Take over what was appended; begins anew where the chain is not the one followed before.

        Raises:
            ForgedState: an entry is missing or damaged; it is the next to be taken over.
        """
        with self._lock:
            if not self._continues(connection):
                self._followed = _Followed()
            if head_of(connection).position == self._followed.position:
                return
            rows = connection.execution_options(yield_per=BATCH).execute(
                select(entry_table.c.position, *(as_stored(entry_table.c[name]) for name in ("hash", "kind", "body")))
                .where(entry_table.c.position > self._followed.position)
                .order_by(entry_table.c.position)
            )
            for position, own, kind, body in rows:
                if position != self._followed.position + 1:
                    raise ForgedState(f"entry {self._followed.position + 1} is missing")
                self._take(position, kind, body)
                self._followed.position, self._followed.hash = position, own

    def start_again(self) -> None:
        """Forget everything, so that the next call reads the whole chain."""
        with self._lock:
            self._followed = _Followed()

    def refusals(self, *, up_to: int) -> Iterator[Refusal]:
        """Refusals, the latest first."""
        with self._lock:
            known = tuple(self._followed.refusals)
        return (refusal for refusal in reversed(known) if refusal.position <= up_to)

    def looks(self, dataset: str, *, up_to: int) -> tuple[tuple[int, date], ...]:
        """Places and days of the entries that tell of a look at a data set's records outside any release."""
        with self._lock:
            return tuple((place, day) for place, day in self._followed.looks.get(dataset, ()) if place <= up_to)

    def raises(self, dataset: str, *, up_to: int) -> tuple[int, ...]:
        """Where a data set's budget was raised, in the order of the chain."""
        with self._lock:
            return tuple(position for position in self._followed.raises.get(dataset, ()) if position <= up_to)

    def payments(self, dataset: str, *, up_to: int) -> Counter[Fields]:
        """Mechanism → releases of it that a data set has paid for and not got back, up to an entry."""
        with self._lock:
            paid = self._followed.paid_by.get(dataset)
            return Counter() if paid is None else paid.counted(up_to=up_to)

    def paper_spent(self, dataset: str, *, up_to: tuple[int, ...]) -> tuple[Decimal | None, ...]:
        """What a data set would have spent by the published bound, up to each of some places.

        None from the first payment on for which that bound gives no guarantee.
        """
        with self._lock:
            paid = self._followed.paid_by.get(dataset, SpendIndex())
            return tuple(paid.by_the_paper(up_to=place) for place in up_to)

    def kinds(self) -> dict[str, int]:
        """Kind of entry → how many there are."""
        with self._lock:
            return dict(self._followed.kinds)

    def _continues(self, connection: Connection) -> bool:
        seen = self._followed
        if seen.position < 0:
            return True
        found = connection.execute(select(entry_table.c.hash).where(entry_table.c.position == seen.position)).scalar()
        return found == seen.hash

    def _take(self, position: int, kind: Any, body: Any) -> None:  # noqa: ANN401 - whatever the file holds
        try:
            if kind in PLAIN_KINDS or kind.startswith(CHARGE):
                self._take_plain(position, kind, json.loads(body))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise ForgedState(f"entry {position} can't be read") from None
        self._followed.kinds[kind] += 1

    def _take_plain(self, position: int, kind: str, document: dict[str, object]) -> None:
        seen = self._followed
        if kind == ReleaseRefused.KIND:
            seen.refusals.append(Refusal(position=position, cause=str(document["cause"])))
        elif kind == BudgetRaised.KIND:
            seen.raises.setdefault(str(document["dataset"]), []).append(position)
        elif kind == DataAccess.KIND:
            look = (position, date.fromisoformat(str(document["day"])))
            seen.looks.setdefault(str(document["dataset"]), []).append(look)
        elif kind == ReleaseAbandoned.KIND:
            paid = seen.paid.get(str(document["release_id"]))
            if document["refunded"] is True and paid is not None:
                dataset, before = paid
                self._pay(dataset, _given_back(before, position))
        else:
            dataset, paper = str(document["dataset"]), document["epsilon_paper"]
            payment = Payment(
                position=position,
                mechanism=_fields(document["mechanism"]),
                releases=1,
                epsilon_paper=None if paper is None else amount_of_text(str(paper)),
            )
            if kind in SERIES:
                price = document["price"]
                payment = replace(payment, releases=int(price["releases"]) if isinstance(price, dict) else 0)
            elif document["series"] is not None:
                return  # the series has paid
            else:
                seen.paid[str(document["release_id"])] = (dataset, payment)
            self._pay(dataset, payment)

    def _pay(self, dataset: str, payment: Payment) -> None:
        self._followed.paid_by.setdefault(dataset, SpendIndex()).take(payment)


def _given_back(paid: Payment, position: int) -> Payment:
    paper = None if paid.epsilon_paper is None else -paid.epsilon_paper
    return replace(paid, position=position, releases=-1, epsilon_paper=paper)


def _fields(mechanism: object) -> Fields:
    if not isinstance(mechanism, dict):
        raise TypeError("a mechanism is an object")
    return tuple(sorted(mechanism.items()))
