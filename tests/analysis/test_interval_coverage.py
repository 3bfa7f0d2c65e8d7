"""Intervals hold at their rate over many draws of the noise: shares, means, quantiles, and bounds by rows."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pytest
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.analysis.figures import Figure, Ratio, quantile_of
from crowdblend.analysis.loaded_release import LoadedRelease
from crowdblend.analysis.published_tables import PublishedTables, RowGroups, RowReading, RowTable, pair_cells
from crowdblend.mechanisms.generalization_map import MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import deletion_weights, expected_deletion
from crowdblend.mechanisms.record_weights import deletion_variance

DRAWS = 400
SLACK = 4 * math.sqrt(0.05 * 0.95 / DRAWS)
"""Four standard errors of a share of draws: each test accuses a sound interval once in 16,000 times."""
COLUMNS = (
    MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=12, widths=(3, 6)), level=0),
    MappedColumn(name="town", hierarchy=ValueHierarchy.from_values(["x", "y", "z"]), level=0),
    MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["f", "m"]), level=0),
)
ERROR = 15.0


@lru_cache
def codes() -> list[np.ndarray]:
    """4,000 records, most of them old, in x and f."""
    coins = np.random.default_rng(9)
    ages = np.minimum(coins.geometric(0.15, 4_000) - 1, 11)
    towns = np.where(coins.random(4_000) < 0.3, coins.integers(0, 3, 4_000), ages // 5)
    return [13 - ages, towns + 1, coins.choice([1, 2], 4_000, p=(0.6, 0.4))]


def cells_of(*places: int) -> np.ndarray:
    cells = np.zeros([COLUMNS[place].size for place in places])
    np.add.at(cells, tuple(codes()[place] for place in places), 1.0)
    return cells


def drawn(
    coins: np.random.Generator, *, rows: tuple[RowTable, ...] = (), reading: RowReading | None = None
) -> LoadedRelease:
    pairs = []
    for places in ((0, 1), (1, 2)):
        cells = cells_of(*places)
        noisy = cells + coins.normal(0, ERROR, cells.shape)
        pairs.append(pair_cells([COLUMNS[place] for place in places], places, (0, 0), noisy, ERROR))
    published = PublishedTables(
        columns=COLUMNS,
        rows=rows,
        reading=reading or RowReading(form="microdata", k=1),
        margins=tuple(cells_of(place) + coins.normal(0, ERROR, COLUMNS[place].size) for place in range(3)),
        margin_deviation=ERROR,
        pairs=tuple(pairs),
    )
    return LoadedRelease(published)


def holds(figure: Figure, true: float) -> bool:
    assert figure.lower is not None
    assert figure.upper is not None
    return figure.lower <= true <= figure.upper


def test_shares_and_means_hold_in_95_of_100() -> None:
    ages, towns, _ = codes()
    coins, held = np.random.default_rng(10), []
    for _ in range(DRAWS):
        release = drawn(coins)
        share = release.share({"town": "x"}, of={"age": range(6, 12)})
        mean = release.mean("age", where={"town": "y"})
        alone = release.mean("age")
        held.append(
            [
                holds(share, np.mean(towns[ages >= 8] == 1)),
                holds(mean, np.mean(ages[towns == 2] - 2)),
                holds(alone, np.mean(ages - 2)),
            ]
        )
    rates = np.mean(held, axis=0)
    assert (np.abs(rates - 0.95) <= SLACK).all(), rates


def test_quantiles_hold_at_least_as_often() -> None:
    """Also where a share ends with a label, or just beyond it: then one end of the interval is missed most often."""
    ages, _, _ = codes()
    reached = float(np.mean(ages - 2 <= 9))
    asked = (reached, reached + 1e-4, 0.5)
    true = [float(np.quantile(ages - 2, q, method="inverted_cdf")) for q in asked]
    assert true[:2] == [9.0, 10.0]
    coins, held = np.random.default_rng(11), []
    for _ in range(DRAWS):
        release = drawn(coins)
        held.append([holds(release.quantile("age", q), one) for q, one in zip(asked, true, strict=True)])
    rates = np.mean(held, axis=0)
    assert (rates >= 0.95 - SLACK).all(), rates
    assert (rates[:2] < 1.0).all(), "the intervals aren't wider than they must be"


def test_wide_labels_are_told_by_their_ends() -> None:
    """Of labels of three ages without noise the interval is exactly from the least to the most that the mean may be."""
    ages, _, _ = codes()
    column = MappedColumn(name="age", hierarchy=COLUMNS[0].hierarchy, level=1)
    coarse = COLUMNS[0].hierarchy.coarser(ages, level=0, to=1)
    counts = np.bincount(coarse, minlength=column.size).astype(float)
    published = PublishedTables(
        columns=(column,), rows=(), reading=RowReading(form="microdata"), margins=(counts,), margin_deviation=1e-9
    )
    figure = LoadedRelease(published).mean("age")
    least = np.mean((ages - 2) // 3 * 3)
    assert (figure.lower, figure.estimate, figure.upper) == pytest.approx((least, least + 1, least + 2))


def test_ratios_hold_where_a_test_of_each_ratio_does_not_reject() -> None:
    """By a search over ratios."""
    ratio = Ratio(above=30.0, below=90.0, variance_above=60.0, covariance=20.0, variance_below=150.0)
    width = quantile_of(0.05)
    assert width == pytest.approx(1.959964)
    grid = np.linspace(-1, 2, 300_001)
    spread = ratio.variance_above - 2 * grid * ratio.covariance + grid**2 * ratio.variance_below
    kept = grid[np.abs(ratio.above - grid * ratio.below) <= width * np.sqrt(spread)]
    assert ratio.interval(width) == pytest.approx((kept.min(), kept.max()), abs=2e-5)
    small = Ratio(above=3.0, below=20.0, variance_above=60.0, covariance=20.0, variance_below=150.0)
    assert small.interval(width) == (-math.inf, math.inf)


@lru_cache
def deletion() -> DeletionRelease:
    return plan_deletion(epsilon=Decimal(1), delta=Decimal("1e-6")).mechanism


def stage_of(counts: np.ndarray, *, weight: np.ndarray | float) -> RowGroups:
    there = np.flatnonzero(counts.reshape(-1) > 0)
    found = np.unravel_index(there, counts.shape)
    own = counts.reshape(-1)[there]
    mass = own * (np.broadcast_to(weight, counts.shape).reshape(-1)[there])
    return RowGroups(levels=(1, 0, 0), codes=tuple(found), counts=own, mass=mass)


def groups() -> np.ndarray:
    """Records by ages of three, town and sex."""
    ages, towns, sexes = codes()
    cells = np.zeros([COLUMNS[0].hierarchy.size(1), COLUMNS[1].size, COLUMNS[2].size])
    np.add.at(cells, (COLUMNS[0].hierarchy.coarser(ages, level=0, to=1), towns, sexes), 1.0)
    return cells


@pytest.mark.parametrize("kind", ["deletion", "sample"])
def test_bounds_by_rows_hold_at_least_as_often(kind) -> None:
    """Of counts by three columns, and by two that weren't counted together."""
    sizes, coins = groups(), np.random.default_rng(12)
    law = np.array(deletion_weights(deletion().noise), dtype=float)
    held = []
    for _ in range(DRAWS // 2):
        if kind == "deletion":
            lost = np.searchsorted(np.cumsum(law / law.sum()), coins.random(sizes.shape), side="right")
            left = np.maximum(sizes - lost, 0)
            noise = deletion().noise
            reading = RowReading(
                form="microdata",
                k=1,
                expected=float(expected_deletion(noise)),
                variance=float(deletion_variance(noise)),
            )
            stage = stage_of(left, weight=4_000 / left.sum())
        else:
            left = coins.binomial(sizes.astype(int), 0.3).astype(float)
            left[left < 8] = 0
            reading = RowReading(form="microdata", rate=0.3, k=8)
            stage = stage_of(left, weight=1 / 0.3)
        release = drawn(coins, rows=(RowTable(columns=(0, 1, 2), stages=(stage,)),), reading=reading)
        for where, at in (
            ({"age": range(9, 12), "sex": "f"}, (5, slice(None), 1)),
            ({"age": range(9, 12), "sex": "f", "town": "z"}, (5, 3, 1)),
            ({"age": range(3), "sex": "m", "town": "x"}, (2, 1, 2)),
        ):
            figure = release.count(where)
            assert figure.source == "rows"
            held.append(holds(figure, sizes[at].sum()))
            assert figure.upper - figure.lower < 4_000
        share = release.share({"town": "x"}, of={"age": range(3), "sex": "m"})
        held.append(holds(share, sizes[2, 1, 2] / sizes[2, :, 2].sum()))
    assert np.mean(held) >= 0.95 - SLACK


def test_every_kind_of_combination_was_asked() -> None:
    """The records of this file are of all towns and sexes, and few of some."""
    found = {cell: groups()[cell] for cell in itertools.product(range(2, 6), range(1, 4), range(1, 3))}
    assert min(found.values()) < 60 < max(found.values())
