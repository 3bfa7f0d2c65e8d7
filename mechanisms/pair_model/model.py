"""The model of published figures: fitted margins, counted pairs, and every other pair along a tree of counted ones.

It is a deterministic function of public declarations and published counts, version by version, so that whoever has a
release finds the same figures. Source of the idea: McKenna, Mullins, Sheldon, Miklau, AIM, arXiv:2201.12677.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .shrinkage import Amounts, fitted, on_simplex, product, quotient, row_sums, shrunken, total

Pair = tuple[int, int]
Cells = NDArray[np.int64]
Codes = NDArray[np.integer]

_LEAST_COUNT = 1e-9


def records_in(margins: Sequence[Cells]) -> float:
    """Return about how many records there are, at least 1: margins' totals weighted by the inverse of their cells."""
    weights = [1.0 / cells.size for cells in margins]
    sums = [int(cells.sum()) * weight for cells, weight in zip(margins, weights, strict=True)]
    return max(1.0, total(np.array(sums)) / total(np.array(weights)))


@dataclass(frozen=True, kw_only=True, eq=False)
class PairModel:
    """Every pair of columns, as far as published figures tell.

    Args:
        records: about how many there are.
        margins: of each column the fitted count of each label, which add up to the records; each of shape (labels,).
        tables: of each pair that was counted its fitted counts, shape (labels of the first, labels of the second).
    """

    records: float
    margins: tuple[Amounts, ...]
    tables: Mapping[Pair, Amounts] = field(default_factory=dict)

    @classmethod
    def of_margins(cls, noisy: Sequence[Cells]) -> PairModel:
        """Return the model of noisy margins alone, by which columns are independent."""
        records = records_in(noisy)
        # Slightly above 0, so that every label has conditional shares and no later step divides by 0.
        margins = (on_simplex(cells.astype(np.float64), records=records) + _LEAST_COUNT for cells in noisy)
        return cls(records=records, margins=tuple(margins))

    def estimate(self, pair: Pair) -> Amounts:
        """Return a pair's estimated counts; as `estimates`."""
        return self.estimates([pair])[pair]

    def estimates(self, pairs: Iterable[Pair]) -> dict[Pair, Amounts]:
        """Return the estimated counts of some pairs: fitted ones where they were counted.

        Others follow along the path between the columns in the forest of counted pairs that differ most from
        independence, each step by the conditional shares of its pair; without a path the columns are independent.
        """
        found: dict[Pair, Amounts] = {}
        for start, own in _by_first(pairs).items():
            reached = self._reached(start, {second for _, second in own if (start, second) not in self.tables})
            for pair in own:
                if pair in self.tables:
                    found[pair] = self.tables[pair]
                elif pair[1] in reached:
                    found[pair] = reached[pair[1]]
                else:
                    found[pair] = self._independent(pair)
        return found

    def moved(self, before: PairModel) -> set[Pair]:
        """Return the pairs whose estimate may be another than that of a model before, which has the same margins.

        An estimate follows from the pair's own table, or from those along its path, or from the margins where there is
        neither; it stays as long as these are the same arrays.
        """
        if before.margins is not self.margins:
            raise ValueError("these models have other margins")
        found: set[Pair] = set()
        for start, (path, former) in enumerate(zip(self.paths, before.paths, strict=True)):
            same = {start}
            for column, here in path.items():
                edge = min(here, column), max(here, column)
                if here in same and former.get(column) == here and self.tables[edge] is before.tables[edge]:
                    same.add(column)
            found.update((start, column) for column in {*path, *former} - same if column > start)
        found.difference_update(self.tables)
        counted = {*self.tables, *before.tables}
        found.update(pair for pair in counted if self.tables.get(pair) is not before.tables.get(pair))
        return found

    @cached_property
    def paths(self) -> list[dict[int, int]]:
        """Return for each column the paths from there: of each column on them the one before, after that one's own."""
        found = []
        for start in range(len(self.margins)):
            before: dict[int, int] = {}
            last = [start]
            while last:
                here = last.pop()
                for column in self.neighbours[here]:
                    if column != start and column not in before:
                        before[column] = here
                        last.append(column)
            found.append(before)
        return found

    def _reached(self, start: int, targets: Iterable[int]) -> dict[int, Amounts]:
        """Return the estimated counts of a column with those of some columns that the forest connects it with."""
        before = self.paths[start]
        needed: set[int] = set()
        for target in targets:
            column = target
            while column in before and column not in needed:
                needed.add(column)
                column = before[column]
        reached: dict[int, Amounts] = {}
        for column, here in before.items():
            if column in needed:
                table = self.table(here, column)
                shares = quotient(table, row_sums(table)[:, None])
                reached[column] = (
                    self.margins[start][:, None] * shares if here == start else product(reached[here], shares)
                )
        return reached

    def with_counts(
        self, pair: Pair, noisy: Amounts, *, labels: tuple[Codes, Codes], deviation: float, prior: Amounts | None = None
    ) -> PairModel:
        """Return the model with a pair's counts besides.

        Args:
            pair: the columns.
            noisy: its counts by some labels, shape (labels of the first, labels of the second).
            labels: for each of the two columns, the label of each of the finest labels.
            deviation: σ of each count's noise.
            prior: what is known of the pair otherwise; the model's own estimate where it is None.
        """
        before = self.estimate(pair) if prior is None else prior
        merged = merged_table(before, labels, shape=noisy.shape)
        shrunk = shrunken(noisy, merged, deviation=deviation)
        # The pair may have been counted by coarser labels than the model's. Within each coarse cell the shares of what
        # was known before are kept.
        scaled = before * quotient(shrunk, merged)[labels[0]][:, labels[1]]
        table = fitted(scaled, self.margins[pair[0]], self.margins[pair[1]])
        return PairModel(records=self.records, margins=self.margins, tables={**self.tables, pair: table})

    def table(self, first: int, second: int) -> Amounts:
        """Return a counted pair's table with the first column's labels as rows, in whichever order they are given."""
        return self.tables[first, second] if first < second else self.tables[second, first].T

    def _independent(self, pair: Pair) -> Amounts:
        table: Amounts = self.margins[pair[0]][:, None] * self.margins[pair[1]][None, :] / self.records
        return table

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """Return each column's neighbours in the forest: pairs by falling distance, where they close no circle."""
        distances = [
            # Ties are broken by the pair itself, so that every machine finds the same forest.
            (-total(np.abs(table - self._independent(pair))), pair)
            for pair, table in sorted(self.tables.items())
        ]
        root = list(range(len(self.margins)))
        neighbours: list[list[int]] = [[] for _ in root]
        for _, (first, second) in sorted(distances):
            if root[first] != root[second]:
                gone = root[first]
                root = [root[second] if one == gone else one for one in root]
                neighbours[first].append(second)
                neighbours[second].append(first)
        return neighbours


def _by_first(pairs: Iterable[Pair]) -> dict[int, list[Pair]]:
    found: dict[int, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair[0], []).append(pair)
    return found


def merged_table(table: Amounts, labels: tuple[Codes, Codes], *, shape: tuple[int, ...]) -> Amounts:
    """Return a table by coarser labels, given each finer label's one; shape as given."""
    rows = np.zeros((shape[0], table.shape[1]))
    np.add.at(rows, labels[0], table)
    merged = np.zeros((shape[1], shape[0]))
    np.add.at(merged, labels[1], rows.T)
    return np.ascontiguousarray(merged.T)
