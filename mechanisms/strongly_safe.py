"""The strongly-safe release: sample, recode with a map fixed beforehand, count, drop groups below k."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .mechanism import Mechanism

__all__ = ["StronglySafeRelease"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StronglySafeRelease(Mechanism):
    """One release by LQS, arXiv:1101.2604v2, Algorithm "sampling + strongly-safe k-anonymization".

    It describes the event so fully that it can be priced without its code.

    Args:
        k: suppression threshold; groups with fewer than k sampled records are dropped; at least 1.
        sampling_rate: probability of an independent coin per record, 0 < rate < 1, as declared (exact decimal).

    Raises:
        ValueError: a field outside its range.
    """

    kind = "strongly_safe"

    k: int
    sampling_rate: Decimal

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k must be at least 1, not {self.k}")
        if not 0 < self.sampling_rate < 1:
            raise ValueError(f"the sampling rate must lie strictly between 0 and 1, not {self.sampling_rate}")
