"""Histograms over a declared partition: small counts dropped, small counts noisy, or noise that grows with rarity."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, assert_never

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import Mechanism, Randomness
from ..kernel.noise import TwoSidedGeometricNoise, add_two_sided_geometric
from ..kernel.protection import Numbers, counts_of_groups
from ..kernel.recoding import KeyLayout


@dataclass(frozen=True, kw_only=True, slots=True)
class SuppressedHistogram(Mechanism):
    """Counts of at least k as they are, smaller ones as 0. Source: CBP, Example 1; Notes-CBP, Theorem 3.

    Without sampling it is (k, 0)-crowd-blending and *not* differentially private; with a fresh sample it is a
    `StronglySafeRelease`, which has an exact price.

    Args:
        k: threshold, at least 1.
        sampling_rate: rate of the release's own fresh sample; None where all records are counted.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "suppressed_histogram"

    k: int
    sampling_rate: Decimal | None

    def __post_init__(self) -> None:
        _require_threshold(self.k)
        _require_rate(self.sampling_rate)


@dataclass(frozen=True, kw_only=True, slots=True)
class NoisyHistogram(Mechanism):
    """Counts of at least k as they are, smaller ones (0 too) with discrete Laplace noise. Source: CBP, Example 2.

    Without sampling it is (k, ε)-crowd-blending and *not* differentially private.

    Args:
        k: threshold, at least 1.
        epsilon: ε of the noise, above 0; a count's noise has Pr[x] ∝ e^{−ε|x|}.
        sampling_rate: rate of the release's own fresh sample; None where all records are counted.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "noisy_histogram"

    k: int
    epsilon: Decimal
    sampling_rate: Decimal | None

    def __post_init__(self) -> None:
        _require_threshold(self.k)
        _require_rate(self.sampling_rate)
        TwoSidedGeometricNoise(epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutlierPrivateHistogram(Mechanism):
    """Every count with discrete Laplace noise of scale 1/ε(count): the rarer the group, the more noise.

    ε(c) = tε/(K − c) for counts c below K − t, and ε from there on. Source: Notes-CBP, Definition 7 and Theorem 8
    (after Lui and Pass, Outlier Privacy, TCC 2015).

    Args:
        epsilon: ε above 0, for groups of at least K − t.
        horizon: K, above t.
        margin: t, at least 1.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "outlier_histogram"

    epsilon: Decimal
    horizon: int
    margin: int

    def __post_init__(self) -> None:
        TwoSidedGeometricNoise(epsilon=self.epsilon)
        if not 1 <= self.margin < self.horizon:
            raise ValueError(f"the margin t must lie in 1 … K - 1, not {self.margin} with K = {self.horizon}")

    def noise(self, count: int) -> TwoSidedGeometricNoise:
        """Return the noise of a group of `count` records: α = e^{−ε(count)}."""
        if count >= self.horizon - self.margin:
            return TwoSidedGeometricNoise(epsilon=self.epsilon)
        # As ε·t with sensitivity K − c, so that nothing is rounded before the scale.
        return TwoSidedGeometricNoise(epsilon=self.epsilon * self.margin, sensitivity=self.horizon - count)


def suppressed_counts(counts: NDArray[np.int64], mechanism: SuppressedHistogram) -> NDArray[np.int64]:
    """Return the counts of all cells, shape (cells,), with those below k as 0, as empty cells have it."""
    return np.where(counts >= mechanism.k, counts, 0)


def noisy_counts(counts: NDArray[np.int64], mechanism: NoisyHistogram) -> NDArray[np.int64]:
    """Return the counts of all cells, shape (cells,), those below k with noise; some are negative, or k and more.

    PRIVACY: empty cells must be among the counts, and which cells are noisy must not be shown. OpenDP draws the
    noise by itself: store the result before anything depends on it.
    """
    published = counts.copy()
    # Empty cells have noise like other small ones: a cell without would tell that nobody is in it.
    small = np.flatnonzero(counts < mechanism.k)
    noise = TwoSidedGeometricNoise(epsilon=mechanism.epsilon)
    published[small] = add_two_sided_geometric(counts[small].tolist(), noise)
    return published


def outlier_private_counts(counts: NDArray[np.int64], mechanism: OutlierPrivateHistogram) -> NDArray[np.int64]:
    """Return every count with the noise of its own size.

    PRIVACY: as in `noisy_counts`; no cell's scale may be shown.

    Args:
        counts: one for each cell of the declared partition, empty cells too; shape (cells,).
        mechanism: the release.
    """
    published = counts.copy()
    level = np.minimum(counts, mechanism.horizon - mechanism.margin)
    for count in np.unique(level).tolist():
        cells = np.flatnonzero(level == count)
        published[cells] = add_two_sided_geometric(counts[cells].tolist(), mechanism.noise(count))
    return published


@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramProtection:
    """The published count of every cell of a declared partition.

    Args:
        mechanism: the release.
        layout: of the partition's columns, whose groups are the cells.
    """

    mechanism: SuppressedHistogram | NoisyHistogram | OutlierPrivateHistogram
    layout: KeyLayout
    drawn: ClassVar[bool] = True

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> list[int]:
        """Return the published count of every cell, by their keys; OpenDP draws the noise by itself."""
        del randomness
        cells, mechanism = counts_of_groups(exact, self.layout), self.mechanism
        match mechanism:
            case SuppressedHistogram():
                published = suppressed_counts(cells, mechanism)
            case NoisyHistogram():
                published = noisy_counts(cells, mechanism)
            case OutlierPrivateHistogram():
                published = outlier_private_counts(cells, mechanism)
            case _:
                assert_never(mechanism)
        return [int(count) for count in published.tolist()]

    def fits(self, numbers: Numbers) -> bool:
        """Return whether there is a number for every cell."""
        return len(numbers) == self.layout.cells


def _require_threshold(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")


def _require_rate(rate: Decimal | None) -> None:
    if rate is not None and not 0 < rate < 1:
        raise ValueError(f"the sampling rate must lie strictly between 0 and 1, not {rate}")
