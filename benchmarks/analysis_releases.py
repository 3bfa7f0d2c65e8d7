"""Releases as `crowdblend.analysis` reads them, by the product's own functions, in memory and without a ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache

import numpy as np
from crowdblend.accounting.theory.planning.calibrated_sample_planning import plan_calibrated_sample
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.accounting.theory.planning.paired_planning import plan_paired, proposed_pairs
from crowdblend.analysis.published_tables import (
    PublishedTables,
    RowGroups,
    RowReading,
    RowTable,
    pair_cells,
)
from crowdblend.flows.margin_specs import raked_weights
from crowdblend.flows.releases.paired_parts import PairedResult, pair_details, paired_plan
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import Hierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, count_keys
from crowdblend.mechanisms.kernel.recoding import coarsened
from crowdblend.mechanisms.kinds.calibrated_sample import CalibratedSample
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion, delete_records
from crowdblend.mechanisms.kinds.deletion_noise import DeletionNoise, draw_deletions, expected_deletion
from crowdblend.mechanisms.kinds.margins import noisy_margins, split_margins
from crowdblend.mechanisms.kinds.microdata import suppress
from crowdblend.mechanisms.kinds.paired_deletion import PairedDeletion
from crowdblend.mechanisms.map_selection.choice import LatticeColumn
from crowdblend.mechanisms.pair_model.paired_plan import pair_candidates
from crowdblend.mechanisms.record_weights import deletion_variance, record_weights
from numpy.typing import NDArray

__all__ = ["chosen_pairs", "map_at", "named_pairs", "sample_with_margins"]

DELTA = Decimal("1e-6")
STAGES = 3


@lru_cache
def _mechanism(epsilon: Decimal, columns: int, pairs: int) -> PairedDeletion:
    plan = plan_paired(epsilon=epsilon, delta=DELTA, stages=STAGES, columns=columns, pairs=pairs)
    if not isinstance(plan.mechanism, PairedDeletion):
        raise TypeError("this is no plan of a paired release")
    return plan.mechanism


def chosen_pairs(
    hierarchies: Mapping[str, Hierarchy],
    codes: Sequence[NDArray[np.int64]],
    *,
    epsilon: Decimal,
    coins: np.random.Generator,
) -> PublishedTables:
    """Return what a release of records publishes, its pairs and labels chosen by itself.

    Args:
        hierarchies: of the columns.
        codes: of each column's values at level 0, shape (records,).
        epsilon: of the release.
        coins: of the noise; the draws of pairs are the operating system's.
    """
    free = tuple(
        LatticeColumn(name=name, hierarchy=one, min_level=0, max_level=one.levels - 1, weight=Decimal(1))
        for name, one in hierarchies.items()
    )
    values = GeneralizationMap(
        columns=tuple(MappedColumn(name=one.name, hierarchy=one.hierarchy, level=0) for one in free)
    )
    details = pair_details(values, free)
    pairs = min(proposed_pairs(len(free)), len(pair_candidates(details, most_cells=10**6)))
    plan = paired_plan(_mechanism(epsilon, len(free), pairs), values, free)
    exact = count_keys(values.keys(codes), cells=values.cells)
    result = PairedResult(plan, plan.protection().protect(exact, randomness=coins.bytes))
    return published_of(result)


def named_pairs(
    maps: Sequence[GeneralizationMap],
    codes: Sequence[NDArray[np.int64]],
    pairs: Sequence[tuple[int, int]],
    *,
    epsilon: Decimal,
    coins: np.random.Generator,
) -> PublishedTables:
    """Return what a deletion release publishes whose steward names pairs and two stages of levels.

    Args:
        maps: the columns at the levels of the two stages, the finer first.
        codes: of each column's values at level 0, shape (records,).
        pairs: that are counted.
        epsilon: of the release.
        coins: of the noise.
    """
    every = [*((place,) for place in range(len(codes))), *pairs]
    mechanism = _deletion(epsilon, len(every))
    counted = count_keys(maps[0].keys(_codes_at(codes, maps[0])), cells=maps[0].cells)
    keys, parents = coarsened(counted.keys, finer=maps[0], coarser=maps[1], tables=maps[0].tables_to(maps[1]))
    sizes = [counted.counts.size, keys.shape[1]]
    drawn_z = [draw_deletions(mechanism.noise, size, randomness=coins.bytes) for size in sizes]
    left = delete_records(counted.counts, release=mechanism, parents=[parents], deletions=drawn_z)
    stages = [
        GroupCounts(own[:, counts > 0], counts[counts > 0])
        for own, counts in zip((counted.keys, keys), left, strict=True)
    ]
    noisy = noisy_margins(counted, layout=maps[0], margins=every, release=mechanism, randomness=coins.bytes)
    cells = split_margins(noisy, layout=maps[0], margins=every)
    weights = [
        record_weights(one.counts, release=mechanism, stage=number) for number, one in enumerate(stages, start=1)
    ]
    raked = raked_weights(np.concatenate(weights), stages, maps=maps, margins=every, noisy=cells)
    reading = RowReading(
        form="microdata",
        k=mechanism.k,
        expected=float(expected_deletion(mechanism.noise)),
        variance=float(deletion_variance(mechanism.noise)),
    )
    return _with_margins(maps, stages, raked.weights, every, cells, mechanism.margin_noise, reading)


def sample_with_margins(
    own: GeneralizationMap, codes: Sequence[NDArray[np.int64]], *, epsilon: Decimal, coins: np.random.Generator
) -> PublishedTables:
    """Return what a sampled release publishes with margins of each column.

    Args:
        own: the columns at their levels.
        codes: of each column's values at level 0, shape (records,).
        epsilon: of the release.
        coins: of the sample and the noise.
    """
    every = [(place,) for place in range(len(own.columns))]
    mechanism = _sample(epsilon, len(every))
    rate = float(mechanism.sampling_rate)
    counted = count_keys(own.keys(_codes_at(codes, own)), cells=own.cells)
    kept = suppress(counted.keys, coins.binomial(counted.counts, rate), mechanism.k)
    noisy = noisy_margins(counted, layout=own, margins=every, release=mechanism, randomness=coins.bytes)
    cells = split_margins(noisy, layout=own, margins=every)
    raked = raked_weights(np.full(kept.counts.size, 1.0 / rate), [kept], maps=(own,), margins=every, noisy=cells)
    reading = RowReading(form="microdata", rate=rate, k=mechanism.k)
    return _with_margins([own], [kept], raked.weights, every, cells, mechanism.margin_noise, reading)


@lru_cache
def _deletion(epsilon: Decimal, margins: int) -> CalibratedDeletion:
    mechanism = plan_deletion(
        epsilon=epsilon, delta=DELTA, stages=2, margins=margins, margin_share=Decimal("0.5")
    ).mechanism
    if not isinstance(mechanism, CalibratedDeletion):
        raise TypeError("this is no plan of a release with margins")
    return mechanism


@lru_cache
def _sample(epsilon: Decimal, margins: int) -> CalibratedSample:
    mechanism, _ = plan_calibrated_sample(
        epsilon=epsilon,
        delta=DELTA,
        sampling_rate=Decimal("0.3"),
        k=None,
        margins=margins,
        share=Decimal("0.5"),
    )
    return mechanism


def map_at(hierarchies: Mapping[str, Hierarchy], levels: Sequence[int]) -> GeneralizationMap:
    """Return columns at some levels."""
    columns = zip(hierarchies.items(), levels, strict=True)
    return GeneralizationMap(
        columns=tuple(MappedColumn(name=name, hierarchy=one, level=level) for (name, one), level in columns)
    )


def _codes_at(codes: Sequence[NDArray[np.int64]], own: GeneralizationMap) -> list[NDArray[np.int64]]:
    return [
        column.hierarchy.coarser(finest, level=0, to=column.level)
        for column, finest in zip(own.columns, codes, strict=True)
    ]


def _with_margins(
    maps: Sequence[GeneralizationMap],
    stages: Sequence[GroupCounts],
    weights: NDArray[np.float64],
    every: Sequence[tuple[int, ...]],
    cells: Sequence[NDArray[np.int64]],
    noise: DeletionNoise,
    reading: RowReading,
) -> PublishedTables:
    columns, error = maps[0].columns, float(deletion_variance(noise)) ** 0.5
    pairs = []
    for margin, counts in zip(every, cells, strict=True):
        if len(margin) == 2:
            first, second = (columns[place] for place in margin)
            own = counts.astype(np.float64).reshape(first.size, second.size)
            levels = (first.level, second.level)
            pairs.append(pair_cells((first, second), (margin[0], margin[1]), levels, own, error))
    return PublishedTables(
        columns=columns,
        rows=(RowTable(columns=tuple(range(len(columns))), stages=_groups(stages, maps, weights)),),
        reading=reading,
        margins=tuple(
            counts.astype(np.float64) for margin, counts in zip(every, cells, strict=True) if len(margin) == 1
        ),
        margin_deviation=error,
        pairs=tuple(pairs),
    )


def _groups(
    stages: Sequence[GroupCounts], maps: Sequence[GeneralizationMap], weights: NDArray[np.float64]
) -> tuple[RowGroups, ...]:
    found, begin = [], 0
    for stage, one in zip(stages, maps, strict=True):
        own = weights[begin : begin + stage.counts.size]
        begin += stage.counts.size
        found.append(
            RowGroups(
                levels=tuple(column.level for column in one.columns),
                codes=tuple(np.asarray(codes, dtype=np.int64) for codes in one.decode(stage.keys)),
                counts=stage.counts.astype(np.float64),
                mass=stage.counts * own,
            )
        )
    return tuple(found)


def published_of(result: PairedResult) -> PublishedTables:
    """Return a release's tables as they would be read from its folder."""
    plan = result.plan
    columns, noise = plan.counted.columns, plan.mechanism.noise
    tables = [
        RowTable(columns=table.block.columns, stages=_groups(table.stages, table.maps, raked.weights))
        for table, raked in zip(result.rows, result.raked, strict=True)
    ]
    pairs = []
    for pair in result.pairs:
        one = plan.candidates[pair.number]
        own, levels = (columns[one.first], columns[one.second]), plan.levels_of(one)
        shape = [column.hierarchy.size(level) for column, level in zip(own, levels, strict=True)]
        cells = pair.cells.astype(np.float64).reshape(shape)
        pairs.append(pair_cells(own, (one.first, one.second), levels, cells, plan.deviation))
    return PublishedTables(
        columns=columns,
        rows=tuple(tables),
        reading=RowReading(
            form="microdata",
            k=plan.mechanism.k,
            expected=float(expected_deletion(noise)),
            variance=float(deletion_variance(noise)),
        ),
        margins=tuple(cells.astype(np.float64) for cells in result.margins),
        margin_deviation=float(deletion_variance(plan.mechanism.margin_noise)) ** 0.5,
        pairs=tuple(pairs),
    )
