"""Sampled microdata with noisy margins of all records beside them: each record has a secret coin of its own."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import Mechanism, Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import KeyLayout
from .biased_coins import WORD, biased_coins
from .deletion_noise import GaussianDeletion
from .deletion_protection import published_stages
from .margins import Margin, noisy_margins
from .microdata import StronglySafeRelease, suppress

Counts = NDArray[np.int64]

_RECORDS_AT_ONCE = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibratedSample(Mechanism):
    """A strongly safe release by a fixed map, with noisy margins of all records beside it.

    Every record is counted. The rows are made of those whose own coin falls so; the margins count all of them, each
    cell with Z − m, Z drawn afresh by the integer weights of a truncated discrete Gaussian on 0 … 2m. Given the
    records, coins and noise are independent (docs/proofs/calibrated-sample.md).

    Args:
        k: suppression threshold; groups with fewer than k sampled records are dropped; at least 1.
        sampling_rate: probability of a record's coin, 0 < rate < 1, as declared (exact decimal).
        margins: how many margins are published, at least 1.
        margin_scale: σ of their noise.
        margin_width: m of their noise.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "calibrated_sample"

    k: int
    sampling_rate: Decimal
    margins: int
    margin_scale: Decimal
    margin_width: int

    def __post_init__(self) -> None:
        StronglySafeRelease(k=self.k, sampling_rate=self.sampling_rate)
        if self.margins < 1:
            raise ValueError(f"there must be at least one margin, not {self.margins}")
        GaussianDeletion(scale=self.margin_scale, width=self.margin_width)

    @property
    def rows(self) -> StronglySafeRelease:
        """The release of the rows by itself."""
        return StronglySafeRelease(k=self.k, sampling_rate=self.sampling_rate)

    @property
    def margin_noise(self) -> GaussianDeletion:
        """The law of Z for each cell of a margin."""
        return GaussianDeletion(scale=self.margin_scale, width=self.margin_width)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CalibratedSampleProtection:
    """What a release publishes of exact counts of all records, in the numbers that `published` reads.

    Args:
        mechanism: the release.
        layout: of the groups.
        margins: the columns of each margin, by their numbers from 0; a margin of no column is the total.

    Raises:
        ValueError: they don't go together.
    """

    mechanism: CalibratedSample
    layout: KeyLayout
    margins: tuple[Margin, ...]
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.margins) != self.mechanism.margins:
            raise ValueError(f"{self.mechanism.margins} margins are paid for, not {len(self.margins)}")

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> Counts:
        """Return how many groups are published, their keys word by word and their records, and the margins' cells.

        PRIVACY: margins are counted on all records and never on the sample, whose price doesn't cover them; the coins
        of the sample decide nothing else.
        """
        sampled = sampled_counts(exact.counts, rate=self.mechanism.sampling_rate, randomness=randomness)
        rows = suppress(exact.keys, sampled, self.mechanism.k)
        noisy = noisy_margins(
            exact, layout=self.layout, margins=self.margins, release=self.mechanism, randomness=randomness
        )
        return np.concatenate(([rows.counts.size], rows.keys.reshape(-1), rows.counts, noisy)).astype(np.int64)

    def fits(self, numbers: Numbers) -> bool:
        """Return whether the numbers can be what this release publishes."""
        try:
            self.published(numbers)
        except (ValueError, OverflowError):
            return False
        return True

    def published(self, numbers: Numbers) -> tuple[GroupCounts, list[Counts]]:
        """Return the published groups with their sampled records, and the noisy cells of each margin.

        Raises:
            ValueError: the numbers are nothing that this release can publish.
            OverflowError: one has more than 64 bits.
        """
        stages, noisy = published_stages(
            numbers, k=self.mechanism.k, layouts=(self.layout,), levels=(), margins=self.margins
        )
        return stages[0], noisy


def sampled_counts(counts: Counts, *, rate: Decimal, randomness: Randomness) -> Counts:
    """Return how many records of each group are sampled, by an independent coin for each record; shape (groups,).

    The coins' rate is at most the declared one: it is rounded down to a whole number of 2⁻⁶⁴.

    Args:
        counts: all records of each group, shape (groups,).
        rate: as declared, 0 < rate < 1.
        randomness: the source of secret random bytes.
    """
    # PRIVACY: rounded down, so that no record is sampled more often than is paid for.
    threshold = int(Fraction(rate) * WORD // 1)
    ends = np.cumsum(counts)
    sampled = np.zeros(counts.shape, dtype=np.int64)
    records = int(ends[-1]) if ends.size else 0
    # Some records at a time, numbered group after group: memory grows with the groups and not with the records.
    for begin in range(0, records, _RECORDS_AT_ONCE):
        coins = biased_coins(min(_RECORDS_AT_ONCE, records - begin), threshold=threshold, randomness=randomness)
        groups = np.searchsorted(ends, begin + np.flatnonzero(coins), side="right")
        if groups.size:
            first = int(groups[0])
            there = np.bincount(groups - first)
            sampled[first : first + there.size] += there
    return sampled
