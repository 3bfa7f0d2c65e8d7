"""Counts by margins and counted pairs together: the best unbiased combination of all that was counted with noise.

Every published table of counts is a linear measurement of the records with independent noise of a known variance.
A table's sum, its row effects, its column effects and what is left of it are uncorrelated, so that generalized least
squares has a closed form, column by column: exactly, where no pair of columns is counted twice by different labels.
Errors are those of the noise alone and hold whatever the records are.

Source of the decomposition: Xiao, He, Zhang, Kifer, ResidualPlanner, arXiv:2305.08175.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.float64]
Codes = NDArray[np.int64]

_MOST_DENSE = 2_000
"""Labels of a column up to which the effects of pairs at coarser labels are combined with its margin."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PairCells:
    """The noisy counts of a pair of columns.

    Args:
        columns: their places.
        levels: by whose labels they were counted.
        labels: for each of the two columns the pair's label of each of the column's finest labels.
        counts: shape (labels of the first, labels of the second).
        deviation: standard error of each count.
    """

    columns: tuple[int, int]
    levels: tuple[int, int]
    labels: tuple[Codes, Codes]
    counts: Amounts
    deviation: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LinearCount:
    """A weighted sum of counts, as coefficients of what was estimated.

    Args:
        mains: per column's place the coefficients of its finest labels' counts.
        records: coefficient of the number of all records.
        interactions: per counted pair's number the coefficients of what rows and columns don't explain of it.
    """

    mains: Mapping[int, Amounts] = field(default_factory=dict)
    records: float = 0.0
    interactions: Mapping[int, Amounts] = field(default_factory=dict)

    def plus(self, other: LinearCount, times: float = 1.0) -> LinearCount:
        """Return the sum with a multiple of another."""
        return LinearCount(
            mains=_added(self.mains, other.mains, times),
            records=self.records + times * other.records,
            interactions=_added(self.interactions, other.interactions, times),
        )


def _added(one: Mapping[int, Amounts], other: Mapping[int, Amounts], times: float) -> dict[int, Amounts]:
    result = dict(one)
    for key, value in other.items():
        result[key] = result[key] + times * value if key in result else times * value
    return result


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Column:
    """A column's counts, but for the number of all records.

    Args:
        effects: estimates less `direction` times their sum; shape (labels,).
        direction: by how much each count moves with the number of records; adds up to 1.
        covariance: of `effects`, shape (labels, labels); or a single variance of effects around their mean.
    """

    effects: Amounts
    direction: Amounts
    covariance: Amounts | float

    def covariance_of(self, one: Amounts, other: Amounts) -> float:
        if isinstance(self.covariance, float):
            return self.covariance * float(one @ other - one.sum() * other.sum() / one.size)
        return float(one @ self.covariance @ other)

    @property
    def matrix(self) -> Amounts:
        if not isinstance(self.covariance, float):
            return self.covariance
        size = self.effects.size
        return self.covariance * (np.eye(size) - 1.0 / size)


class CombinedCounts:
    """Hold what margins, counted pairs and a total tell together.

    Args:
        margins: each column's noisy counts of its finest labels; none where only a total was counted.
        deviation: standard error of each of them.
        pairs: that were counted.
        total: a noisy number of all records that was counted by itself, and its standard error.
    """

    def __init__(
        self,
        margins: Sequence[Amounts],
        *,
        deviation: float,
        pairs: Sequence[PairCells] = (),
        total: tuple[float, float] | None = None,
    ) -> None:
        self.pairs = tuple(pairs)
        own = [_column(place, counts, deviation=deviation, pairs=self.pairs) for place, counts in enumerate(margins)]
        self._columns = [column for column, _, _ in own]
        sums = [(records, variance) for _, records, variance in own]
        sums += [(float(pair.counts.sum()), pair.counts.size * pair.deviation**2) for pair in self.pairs]
        sums += [] if total is None else [(total[0], total[1] ** 2)]
        precisions = np.array([1.0 / variance for _, variance in sums])
        self.records_variance = 1.0 / float(precisions.sum())
        self.records = self.records_variance * float(precisions @ np.array([records for records, _ in sums]))
        self._left = [pair.counts - _outer_part(pair.counts) for pair in self.pairs]

    def margin(self, place: int) -> Amounts:
        """Return the estimated counts of a column's finest labels; shape (labels,)."""
        column = self._columns[place]
        return column.effects + column.direction * self.records

    def margin_covariance(self, place: int) -> Amounts:
        """Return the covariance of these estimates; shape (labels, labels)."""
        column = self._columns[place]
        return column.matrix + np.outer(column.direction, column.direction) * self.records_variance

    def of_pair(self, number: int, coefficients: Amounts) -> LinearCount:
        """Return a weighted sum of the cells of a counted pair.

        Args:
            number: of the pair.
            coefficients: shape of the pair's counts.
        """
        pair = self.pairs[number]
        first, second = pair.columns
        rows, columns = coefficients.shape
        mains = {
            first: (coefficients.sum(axis=1) / columns)[pair.labels[0]],
            second: (coefficients.sum(axis=0) / rows)[pair.labels[1]],
        }
        records = -float(coefficients.sum()) / coefficients.size
        return LinearCount(mains=mains, records=records, interactions={number: coefficients})

    def value(self, asked: LinearCount) -> float:
        """Return the estimate of a weighted sum of counts."""
        result = asked.records * self.records
        result += sum(float(own @ self.margin(place)) for place, own in asked.mains.items())
        return result + sum(float((own * self._left[number]).sum()) for number, own in asked.interactions.items())

    def covariance(self, one: LinearCount, other: LinearCount) -> float:
        """Return the covariance of two estimates."""
        result = self._records_part(one) * self._records_part(other) * self.records_variance
        for place in one.mains.keys() & other.mains.keys():
            result += self._columns[place].covariance_of(one.mains[place], other.mains[place])
        for number in one.interactions.keys() & other.interactions.keys():
            mine, its = one.interactions[number], other.interactions[number]
            left = mine - _outer_part(mine)
            result += self.pairs[number].deviation ** 2 * float((left * its).sum())
        return result

    def narrowest(self, asked: Sequence[LinearCount]) -> LinearCount:
        """Return the weighted mean of several unbiased estimates of one number that has the least variance."""
        best = asked[0]
        for other in asked[1:]:
            own, its, shared = self.covariance(best, best), self.covariance(other, other), self.covariance(best, other)
            spread = own + its - 2.0 * shared
            if spread > 1e-12 * own:
                weight = (own - shared) / spread
                best = LinearCount().plus(best, 1.0 - weight).plus(other, weight)
        return best

    def pair_cells(self, number: int) -> tuple[Amounts, Amounts]:
        """Return the estimates of all cells of a counted pair, and their variances."""
        pair = self.pairs[number]
        rows, columns = pair.counts.shape
        estimate, variance = self._left[number].copy(), np.full(pair.counts.shape, pair.deviation**2)
        variance *= (1.0 - 1.0 / rows) * (1.0 - 1.0 / columns)
        moves = np.full(pair.counts.shape, -1.0 / pair.counts.size)
        for axis, (place, labels) in enumerate(zip(pair.columns, pair.labels, strict=True)):
            size, across = pair.counts.shape[axis], pair.counts.shape[1 - axis]
            merged = np.zeros((size, labels.size))
            merged[labels, np.arange(labels.size)] = 1.0
            column = self._columns[place]
            spread = np.einsum("ij,jk,ik->i", merged, column.matrix, merged, optimize=True) / across**2
            shape = (size, 1) if axis == 0 else (1, size)
            estimate += (merged @ self.margin(place)).reshape(shape) / across
            variance += spread.reshape(shape)
            moves = moves + (merged @ column.direction).reshape(shape) / across
        return estimate - self.records / pair.counts.size, variance + moves**2 * self.records_variance

    def _records_part(self, asked: LinearCount) -> float:
        moved = (float(own @ self._columns[place].direction) for place, own in asked.mains.items())
        return asked.records + sum(moved)


def _outer_part(table: Amounts) -> Amounts:
    """Return what row sums and column sums explain of a table."""
    part: Amounts = table.mean(axis=1, keepdims=True) + table.mean(axis=0, keepdims=True) - table.mean()
    return part


def _column(
    place: int, counts: Amounts, *, deviation: float, pairs: Sequence[PairCells]
) -> tuple[_Column, float, float]:
    """Return a column's effects by its margin and the pairs that have it, its number of records, and its variance."""
    size = counts.size
    effects = [
        (pair.labels[axis], pair.counts.sum(axis=1 - axis), pair.counts.shape[1 - axis] * pair.deviation**2)
        for pair in pairs
        for axis in (0, 1)
        if pair.columns[axis] == place
    ]
    if not effects or size > _MOST_DENSE:
        even = np.full(size, 1.0 / size)
        column = _Column(effects=counts - counts.mean(), direction=even, covariance=float(deviation**2))
        return column, float(counts.sum()), size * deviation**2
    precision, seen = np.eye(size) / deviation**2, counts / deviation**2
    for labels, sums, variance in effects:
        merged = np.zeros((sums.size, size))
        merged[labels, np.arange(size)] = 1.0
        centred = merged - merged.mean(axis=0)
        precision += centred.T @ centred / variance
        seen = seen + centred.T @ (sums - sums.mean()) / variance
    covariance = np.linalg.inv(precision)
    estimate = covariance @ seen
    moved = covariance.sum(axis=1)
    variance = float(moved.sum())
    direction, records = moved / variance, float(estimate.sum())
    column = _Column(
        effects=estimate - direction * records,
        direction=direction,
        covariance=covariance - np.outer(moved, moved) / variance,
    )
    return column, records, variance
