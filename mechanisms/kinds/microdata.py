"""Truthful microdata: sample, recode with a map fixed beforehand or chosen privately, count, drop groups below k."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts, sorted_counts
from ..kernel.mechanism import Mechanism, Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import KeyLayout


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialSafeRelease(EpsilonSafeRelease):
    """The same where the map is drawn by exponential mechanisms alone, which have a bounded range.

    Args:
        selection_draws: how many of them share ε₁ evenly, one after the other: the steps of a walk on the whole data,
            or 1.

    Raises:
        ValueError: a field outside its range, or several draws from one fresh sample.
    """

    selection_draws: int

    def __post_init__(self) -> None:
        EpsilonSafeRelease.__post_init__(self)  # super() knows no dataclass with slots
        if self.selection_draws < 1:
            raise ValueError(f"there must be at least one draw, not {self.selection_draws}")
        if self.selection_draws > 1 and self.selection_rate is not None:
            raise ValueError("several draws from one fresh sample have no bounded range together")


Microdata = StronglySafeRelease | EpsilonSafeRelease


def suppress(keys: NDArray[np.int64], counts: NDArray[np.int64], k: int) -> GroupCounts:
    """Keep the groups of at least k records, in the order of publication.

    PRIVACY: what is below k leaves no trace: neither its number nor its place in the order.

    The order is a function of the published groups alone: column by column in the order of the map, within
    a column `*` first, then the labels by their UTF-8 bytes, or intervals by their numbers. Codes and keys
    are numbered that way, so it is the ascending order of the keys.

    Args:
        keys: distinct groups, shape (words, n), in any order.
        counts: records of each group, shape (n,).
        k: suppression threshold, at least 1.

    Raises:
        ValueError: k below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    large = np.flatnonzero(counts >= k)
    return GroupCounts(*sorted_counts(keys[:, large], counts[large]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Suppression:
    """What microdata publish of counts: the groups of at least k sampled records; nothing is drawn.

    Args:
        mechanism: the release.
        layout: of the released columns.
    """

    mechanism: Microdata
    layout: KeyLayout
    drawn: ClassVar[bool] = False

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> GroupCounts:
        """Return the groups of at least k sampled records."""
        del randomness
        return suppress(exact.keys, exact.counts, self.mechanism.k)

    def fits(self, numbers: Numbers) -> bool:
        """Return False: no numbers are drawn."""
        del numbers
        return False
