"""Truthful microdata: sample, recode with a map that is fixed beforehand or chosen privately, count, drop small groups.

The strongly-safe release: sample, recode with a map fixed beforehand, count, drop groups below k.

The ε-safe release: choose the map privately, then sample, recode with it, count, and drop groups below k.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .mechanism import Mechanism

__all__ = ["EpsilonSafeRelease", "Microdata", "StronglySafeRelease"]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class EpsilonSafeRelease(Mechanism):
    """One release by LQS, arXiv:1101.2604v2, Theorem 3.11, whose choice the release's sample doesn't depend on.

    The map is the draw of an ε₁-private mechanism, made on the whole data with coins of its own, or on a fresh
    sample that serves nothing else; the release with that map is strongly safe, on a sample of its own.

    Args:
        k: suppression threshold; groups with fewer than k sampled records are dropped; at least 1.
        sampling_rate: probability of an independent coin per record, 0 < rate < 1, as declared (exact decimal).
        selection_epsilon: ε₁ of the choice where it is made, before any amplification; more than 0.
        selection_rate: rate of the fresh sample that the choice is made on, 0 < rate < 1; None for the whole data.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "epsilon_safe"

    k: int
    sampling_rate: Decimal
    selection_epsilon: Decimal
    selection_rate: Decimal | None

    def __post_init__(self) -> None:
        StronglySafeRelease(k=self.k, sampling_rate=self.sampling_rate)
        if not (self.selection_epsilon.is_finite() and self.selection_epsilon > 0):
            raise ValueError(f"the selection's epsilon must be positive, not {self.selection_epsilon}")
        if self.selection_rate is not None and not 0 < self.selection_rate < 1:
            raise ValueError(f"the selection's rate must lie strictly between 0 and 1, not {self.selection_rate}")

    @property
    def release(self) -> StronglySafeRelease:
        """The release that follows the choice, by itself."""
        return StronglySafeRelease(k=self.k, sampling_rate=self.sampling_rate)


Microdata = StronglySafeRelease | EpsilonSafeRelease
