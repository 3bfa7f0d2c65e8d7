"""Which values records have within published labels, by a tree of pairs of columns that all published figures tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..mechanisms.generalization_map import MappedColumn
from ..mechanisms.pair_model.model import Pair, PairModel
from ..mechanisms.pair_model.row_estimates import RowStage, pair_by_rows
from ..mechanisms.pair_model.shrinkage import on_simplex
from .combined_counts import Amounts, Codes, CombinedCounts
from .conditions import Mask
from .published_tables import PublishedTables, RowGroups, RowTable, labels_to

_MOST_COLUMNS = 40
"""Up to which every pair of columns is looked at for the tree; of more those that were counted."""
_AT_ONCE = 1 << 14
_LEAST_COUNT = 1e-9
_LEAST_SHARE = 1e-6
"""Of each label, by its margin, whatever its pair says: a published group is possible."""


def pair_model(published: PublishedTables, combined: CombinedCounts) -> PairModel:
    """Return the model of margins, pairs and rows: as a release's `fitted` counts, with every pair that rows tell.

    Args:
        published: a release that has margins.
        combined: its margins and pairs.
    """
    records = max(combined.records, 1.0)
    margins = (
        counts_above_zero(combined.margin(place), column, records=records) + _LEAST_COUNT
        for place, column in enumerate(published.columns)
    )
    model = PairModel(records=records, margins=tuple(margins))
    for own in published.pairs:
        model = model.with_counts(own.columns, own.counts, labels=own.labels, deviation=own.deviation)
    columns = range(len(published.columns))
    every: list[Pair] = [(one, other) for one, other in combinations(columns, 2)]
    if len(published.columns) > _MOST_COLUMNS:
        every = sorted(model.tables)
    stages = [[_row_stage(stage, table, published) for stage in table.stages] for table in published.rows]
    tables = {}
    for pair, estimate in model.estimates(every).items():
        told = [
            pair_by_rows(
                (table.columns.index(pair[0]), table.columns.index(pair[1])),
                estimate,
                stages=stage,
                margins=[model.margins[place] for place in table.columns],
            )
            for table, stage in zip(published.rows, stages, strict=True)
            if set(pair) <= set(table.columns)
        ]
        tables[pair] = sum(told[1:], told[0]) / len(told) if told else estimate
    final = PairModel(records=model.records, margins=model.margins, tables=tables)
    # Tables with fewer, larger cells come first, so that the finer ones have the last word.
    for own in sorted(published.pairs, key=lambda one: one.counts.size):
        prior = final.tables[own.columns]
        final = final.with_counts(own.columns, own.counts, labels=own.labels, deviation=own.deviation, prior=prior)
    return final


def counts_above_zero(counts: Amounts, column: MappedColumn, *, records: float) -> Amounts:
    """Return the nearest counts of a column's finest labels that aren't below 0, level by level of its hierarchy.

    The counts of coarser labels are kept as far as they are above 0 themselves: labels that nobody has would otherwise
    take records from far away.
    """
    below = np.zeros(column.size, dtype=np.int64)
    totals = np.array([max(records, 1.0)])
    for level in range(column.hierarchy.levels - 1, column.level - 1, -1):
        own = labels_to(column, level)
        sums: Amounts = np.bincount(own, counts, minlength=column.hierarchy.size(level)).astype(np.float64)
        parent = np.zeros(sums.size, dtype=np.int64)
        parent[own] = below
        fitted = np.zeros(sums.size)
        for code, total in enumerate(totals.tolist()):
            children = np.flatnonzero(parent == code)
            if total > 0 and children.size:
                fitted[children] = on_simplex(sums[children], records=total)
        below, totals = own, fitted
    return totals


def _row_stage(stage: RowGroups, table: RowTable, published: PublishedTables) -> RowStage:
    columns = [published.columns[place] for place in table.columns]
    return RowStage(
        codes=stage.codes,
        mass=stage.mass,
        labels=[labels_to(column, level) for column, level in zip(columns, stage.levels, strict=True)],
        sizes=[column.hierarchy.size(level) for column, level in zip(columns, stage.levels, strict=True)],
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LabelTree:
    """Columns in a forest, each given its parent.

    Args:
        order: columns with their parents, parents first; None of a root.
        shares: of a root the share of each label, of others the shares given each label of the parent.
    """

    order: tuple[tuple[int, int | None], ...]
    shares: Mapping[int, Amounts]

    @classmethod
    def of_model(cls, model: PairModel) -> LabelTree:
        """Return the forest of the pairs that differ most from independence."""
        alone = [margin / margin.sum() for margin in model.margins]
        order: list[tuple[int, int | None]] = []
        shares: dict[int, Amounts] = {}
        for root, path in enumerate(model.paths):
            if root in shares:
                continue
            shares[root] = alone[root]
            order.append((root, None))
            for column, parent in path.items():
                table = np.maximum(model.table(parent, column), 0.0) + 1e-12 * alone[column]
                given = table / table.sum(axis=1, keepdims=True)
                shares[column] = (1.0 - _LEAST_SHARE) * given + _LEAST_SHARE * alone[column]
                order.append((column, parent))
        return cls(order=tuple(order), shares=shares)

    def chances(self, masks: Mapping[int, Mask]) -> Amounts:
        """Return the chance that a record has labels of some sets.

        Args:
            masks: per column, whether each label is in the set of each group; shape (groups, labels). Columns that are
                left out have any label.
        """
        return self._upward(masks)[1]

    def drawn(self, masks: Mapping[int, Mask], uniform: Callable[[int], Amounts]) -> dict[int, Codes]:
        """Draw a label of each column for each group, given the sets.

        Args:
            masks: as of `chances`; of at least one column.
            uniform: n → n numbers between 0 and 1.
        """
        inside, _ = self._upward(masks)
        groups = next(iter(masks.values())).shape[0]
        found: dict[int, Codes] = {}
        for column, parent in self.order:
            own = self.shares[column]
            given = own if parent is None else own[found[parent]]
            reached = np.cumsum(np.broadcast_to(given, (groups, own.shape[-1])) * inside.get(column, 1.0), axis=1)
            at = uniform(groups) * reached[:, -1]
            found[column] = np.minimum((reached <= at[:, None]).sum(axis=1), own.shape[-1] - 1)
        return found

    def _upward(self, masks: Mapping[int, Mask]) -> tuple[dict[int, Amounts], Amounts]:
        """Return how likely what is below each label is, per column and group, and the chance of everything."""
        inside: dict[int, Amounts] = {place: mask.astype(np.float64) for place, mask in masks.items()}
        chance: Amounts = np.ones(next(iter(masks.values())).shape[0])
        for column, parent in reversed(self.order):
            if column not in inside:
                continue
            if parent is None:
                chance = chance * (inside[column] @ self.shares[column])
            else:
                below = inside[column] @ self.shares[column].T
                inside[parent] = inside[parent] * below if parent in inside else below
        return inside, chance


def boxes(stage: RowGroups, table: RowTable, published: PublishedTables) -> Iterator[tuple[slice, dict[int, Mask]]]:
    """Yield some groups at a time with the finest labels that are within their own, per column."""
    within = {}
    for at, (place, level) in enumerate(zip(table.columns, stage.levels, strict=True)):
        column = published.columns[place]
        own = labels_to(column, level)
        within[place] = (own == np.arange(column.hierarchy.size(level))[:, None], stage.codes[at])
    for begin in range(0, stage.counts.size, _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        yield some, {place: masks[codes[some]] for place, (masks, codes) in within.items()}


def chosen_mass(selection: Mapping[int, Mask], table: RowTable, published: PublishedTables, tree: LabelTree) -> float:
    """Return how many records of a set the rows stand for, coarse labels shared out by the tree."""
    mass = 0.0
    for stage in table.stages:
        for some, masks in boxes(stage, table, published):
            chosen = {place: mask & selection[place] if place in selection else mask for place, mask in masks.items()}
            whole = tree.chances(masks)
            share = np.divide(tree.chances(chosen), whole, out=np.zeros(whole.shape), where=whole > 0)
            mass += float(stage.mass[some] @ share)
    return mass
