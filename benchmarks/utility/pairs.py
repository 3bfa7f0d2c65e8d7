"""Releases that choose their own pairs and labels, by the product's own functions; draws of pairs are never seeded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import combinations

import numpy as np
from crowdblend.accounting.theory.planning.paired_planning import PairShares, plan_paired, proposed_pairs
from crowdblend.flows.releases.paired_parts import STAGES, PairedResult, pair_details, paired_plan
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.kinds.paired_deletion import PairedDeletion
from crowdblend.mechanisms.map_selection.choice import LatticeColumn
from crowdblend.mechanisms.pair_model.paired_plan import pair_candidates
from crowdblend.mechanisms.record_weights import deletion_variance
from numpy.typing import NDArray

from .deletion import DELTA
from .tables import COARSE_LEVEL, USUAL_LEVEL, Table
from .ways import Released, counted

__all__ = ["chosen_labels", "chosen_pairs"]

Codes = NDArray[np.int64]
Amounts = NDArray[np.float64]
FIXED = (USUAL_LEVEL, COARSE_LEVEL)


def chosen_pairs(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """Rows by usual, then coarse labels; pairs chosen privately."""
    return _released(table, records, epsilon, coins, stages=tuple(table.map_of(level) for level in FIXED))


def chosen_labels(
    table: Table,
    records: Codes,
    epsilon: Decimal,
    coins: np.random.Generator,
    *,
    shares: PairShares | None = None,
    number: int | None = None,
) -> Released:
    """Pairs chosen privately, and the rows' labels by what is published before them; shares and number as proposed."""
    columns = tuple(
        LatticeColumn(name=name, hierarchy=one, min_level=0, max_level=one.levels - 1, weight=Decimal(1))
        for name, one in zip(table.names, table.hierarchies, strict=True)
    )
    return _released(table, records, epsilon, coins, stages=columns, shares=shares, number=number)


@lru_cache
def _planned(epsilon: Decimal, stages: int, columns: int, pairs: int, shares: PairShares | None) -> PairedDeletion:
    plan = plan_paired(epsilon=epsilon, delta=DELTA, stages=stages, columns=columns, pairs=pairs, shares=shares)
    if not isinstance(plan.mechanism, PairedDeletion):
        raise TypeError("this is no plan of a paired release")
    return plan.mechanism


def _released(
    table: Table,
    records: Codes,
    epsilon: Decimal,
    coins: np.random.Generator,
    *,
    stages: tuple[GeneralizationMap, ...] | tuple[LatticeColumn, ...],
    shares: PairShares | None = None,
    number: int | None = None,
) -> Released:
    values = table.map_of(0)
    details = pair_details(values, stages)
    pairs = min(number or proposed_pairs(len(table.names)), len(pair_candidates(details, most_cells=10**6)))
    maps = STAGES if isinstance(stages[0], LatticeColumn) else len(stages)
    mechanism = _planned(epsilon, maps, len(table.names), pairs, shares)
    plan = paired_plan(mechanism, values, stages)
    exact = counted(table, records, 0)
    result = PairedResult(plan, plan.protection().protect(exact, randomness=coins.bytes))
    spread: list[list[Amounts]] = [[] for _ in table.names]
    labels: list[list[Codes]] = [[] for _ in table.names]
    margins = [own[1:] for own in result.final.margins]  # 0 is *, which nobody has
    (whole,), (raked,) = result.rows, result.raked  # one table of all columns
    for stage, one in zip(whole.stages, whole.maps, strict=True):
        for place, (column, codes) in enumerate(zip(one.columns, one.decode(stage.keys), strict=True)):
            spread[place].append(_spread(table, place, column, margins[place])[codes])
            usual = np.full(codes.size, -1, dtype=np.int64)
            if column.level <= USUAL_LEVEL:
                usual = column.hierarchy.coarser(codes, level=column.level, to=USUAL_LEVEL)
            labels[place].append(usual)
    rows = np.concatenate([one.counts for one in whole.stages]).astype(float)
    return Released(
        shares=[np.concatenate(own) for own in spread],
        labels=[np.concatenate(own) for own in labels],
        rows=rows,
        weights=raked.weights,
        real=int(rows.sum()),
        margins=([own[1:].astype(float) for own in result.margins], _error(result)),
        pair_tables=[result.final.tables[pair][1:, 1:] for pair in combinations(range(len(table.names)), 2)],
        counted_pairs=_counted_pairs(result),
    )


def _spread(table: Table, place: int, column: MappedColumn, margin: Amounts) -> Amounts:
    """Return the share of each value in each label that a column has, by its margin; shape (codes, values)."""
    values = np.arange(1, table.sizes[place] + 1, dtype=np.int64)
    own = column.hierarchy.coarser(values, level=0, to=column.level)
    found = np.full((column.size, values.size), 1e-9)
    found[own, values - 1] = np.maximum(margin, 1e-6)
    return found / found.sum(axis=1, keepdims=True)


def _error(result: PairedResult) -> float:
    """Return the standard error of the counts by one column."""
    return math.sqrt(deletion_variance(result.plan.mechanism.margin_noise))


def _counted_pairs(result: PairedResult) -> list[tuple[int, int, Sequence[Codes], Amounts, float]]:
    """Return each counted pair: its columns, the label of each value of both, the noisy counts, and their error."""
    found = []
    for pair in result.pairs:
        one = result.plan.candidates[pair.number]
        columns = [result.plan.details[one.detail].columns[place] for place in (one.first, one.second)]
        labels = [
            column.hierarchy.coarser(np.arange(1, finest, dtype=np.int64), level=0, to=column.level)
            for column, finest in zip(
                columns, (result.plan.counted.sizes[one.first], result.plan.counted.sizes[one.second]), strict=True
            )
        ]
        counts = pair.cells.astype(float).reshape([column.size for column in columns])
        found.append((one.first, one.second, labels, counts, result.plan.deviation))
    return found
