"""What the ledger said of a data set when a release was charged; its certificate says it too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

__all__ = ["Circumstances"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What the ledger said of a release's data set when the release was charged.

    INVARIANT: it follows from entries up to the charge, so that a resumed release has the same certificate.

    Args:
        rows_per_person: the most records of one person in a delivery.
        look_days: the day of each private look that was recorded before the charge, in their order.
    """

    rows_per_person: int
    look_days: tuple[date, ...]
