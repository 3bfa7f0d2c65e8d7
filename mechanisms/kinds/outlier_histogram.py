"""Outlier-private histograms: the rarer a group, the more noise its count has."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ..kernel.mechanism import Mechanism
from ..kernel.noise import TwoSidedGeometricNoise, add_two_sided_geometric


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
