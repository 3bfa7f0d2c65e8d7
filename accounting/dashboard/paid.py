"""What a data set has paid for, at any place of the chain: summed up once, and looked up without counting again."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

from ..ledger.release_entries import Fields

__all__ = ["Paid", "Payment"]


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
class Paid:
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
