"""How far the published marginals and pairs of columns lie from those before, and how far columns belong together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .counted import CountedRecords, aligned_counts

__all__ = ["PairDistance", "association", "marginal_distance", "pair_distances", "total_variation"]


def total_variation(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """½ Σ |p − q| of two tables of counts, each scaled to 1; from 0, the same, to 1, nothing in common.

    It is the largest difference of the shares that the two tables give to any set of rows. 0 where both are empty,
    1 where one of them is.

    Args:
        one: counts, at least 0; shape (n,).
        other: counts of the same rows; shape (n,).
    """
    totals = float(one.sum()), float(other.sum())
    if not all(totals):
        return float(any(totals))
    return float(np.abs(one / totals[0] - other / totals[1]).sum() / 2)


def marginal_distance(before: CountedRecords, after: CountedRecords, place: int) -> float:
    """Total variation between the distributions of one column.

    Args:
        before: a table.
        after: another with the same columns at the same levels.
        place: number of the column, from 0.
    """
    _, one, other = aligned_counts(before.projected([place]), after.projected([place]))
    return total_variation(one, other)


def association(records: CountedRecords) -> float:
    """Cramér's V of a table of two columns: from 0, independent, to 1, one decides the other.

    √(χ² / (n · (min(rows, columns) − 1))), Cramér, Mathematical Methods of Statistics, 1946, Section 21.9; 0 where a
    column has a single label.

    Args:
        records: a table of exactly two columns.

    Raises:
        ValueError: another number of columns.
    """
    if len(records.map.columns) != 2:
        raise ValueError("an association is of two columns")
    codes, counts = records.codes(), records.class_sizes
    total = float(counts.sum())
    sizes, sums = [], []
    for column in codes:
        _, place = np.unique(column, return_inverse=True)
        of_label = np.bincount(place, weights=counts)
        sizes.append(of_label.size)
        sums.append(of_label[place])
    if not total or min(sizes) < 2:
        return 0.0
    # χ² = n·(Σ n_ij²/(n_i n_j) − 1): cells without records need not be visited.
    chi_squared = total * max(0.0, float((counts / sums[0] * (counts / sums[1])).sum()) - 1.0)
    return float(min(1.0, np.sqrt(chi_squared / (total * (min(sizes) - 1)))))


@dataclass(frozen=True, kw_only=True, slots=True)
class PairDistance:
    """Two columns together, before and after.

    Args:
        columns: their names.
        distance: total variation between the joint distributions, 0 … 1.
        association_before: Cramér's V before, 0 … 1.
        association_after: Cramér's V after, 0 … 1.
    """

    columns: tuple[str, str]
    distance: float
    association_before: float
    association_after: float


def pair_distances(before: CountedRecords, after: CountedRecords) -> tuple[PairDistance, ...]:
    """Each pair of columns, in the order of the columns.

    Args:
        before: a table.
        after: another with the same columns at the same levels.
    """
    names = before.map.names
    found = []
    for pair in combinations(range(len(names)), 2):
        one, other = before.projected(pair), after.projected(pair)
        _, counts_before, counts_after = aligned_counts(one, other)
        found.append(
            PairDistance(
                columns=(names[pair[0]], names[pair[1]]),
                distance=total_variation(counts_before, counts_after),
                association_before=association(one),
                association_after=association(other),
            )
        )
    return tuple(found)
