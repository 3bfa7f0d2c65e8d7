"""Noisy margins: every declared cell with a draw of its own; and weights that are raked to them."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from secrets import token_bytes

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, count_keys
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kinds import margins
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion
from crowdblend.mechanisms.kinds.deletion_noise import GeometricDeletion
from crowdblend.mechanisms.kinds.margins import (
    TOTAL,
    column_sets,
    exact_margins,
    margin_sizes,
    noisy_margins,
    split_margins,
)
from crowdblend.mechanisms.record_weights import coarser_margins, rake_weights

FINE = GeneralizationMap(
    columns=(
        MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["f", "m"]), level=0),
        MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=80, widths=(10, 40)), level=1),
        MappedColumn(name="town", hierarchy=ValueHierarchy.from_values(["x", "y", "z"]), level=0),
    )
)
COARSE = GeneralizationMap(columns=(FINE.columns[0], replace(FINE.columns[1], level=2), FINE.columns[2]))
MARGINS = ((0,), (1,), (2,), (0, 1), (1, 2))
RELEASE = CalibratedDeletion(
    stages=1,
    k=1,
    noise=GeometricDeletion(epsilon=Decimal(1), width=3),
    margins=len(MARGINS),
    margin_scale=Decimal(3),
    margin_width=12,
)


def records(count: int, seed: int = 5) -> np.ndarray:
    """Keys of records; the last label of every column has none."""
    coins = np.random.default_rng(seed)
    codes = [coins.integers(0, column.size - 1, count) for column in FINE.columns]
    return FINE.keys(codes)


def noisy(keys: np.ndarray, randomness=token_bytes) -> list[np.ndarray]:
    counts = count_keys(keys, cells=FINE.cells)
    numbers = noisy_margins(counts, layout=FINE, margins=MARGINS, release=RELEASE, randomness=randomness)
    return split_margins(numbers, layout=FINE, margins=MARGINS)


def exact(keys: np.ndarray, margin: tuple[int, ...]) -> list[int]:
    """The counts of a margin, by a dictionary."""
    codes = FINE.decode(keys)
    found = Counter(zip(*(codes[place].tolist() for place in margin), strict=True))
    return [found[cell] for cell in np.ndindex(*(FINE.columns[place].size for place in margin))]


def test_every_declared_cell_is_its_count_and_a_draw_of_its_own():
    keys = records(2_000)
    found = noisy(keys)
    assert [cells.size for cells in found] == margin_sizes(FINE, MARGINS) == [3, 11, 4, 33, 44]
    noise = np.concatenate(
        [cells - np.array(exact(keys, margin)) for cells, margin in zip(found, MARGINS, strict=True)]
    )
    assert np.abs(noise).max() <= 12
    # 95 draws of deviation 3: their mean is within 6 of its deviations but for 2e-9.
    assert abs(noise.mean()) < 6 * 3 / noise.size**0.5
    assert len(set(noise.tolist())) > 5
    assert (np.concatenate(found) < 0).any(), "counts of 0 are published too, and with noise"


def test_a_record_moves_one_cell_of_each_margin_by_one():
    keys = records(500)
    before = noisy(keys[:, :-1], randomness=lambda size: b"\x5a" * size)
    after = noisy(keys, randomness=lambda size: b"\x5a" * size)
    for one, other in zip(before, after, strict=True):
        assert sorted(set((other - one).tolist())) == [0, 1]
        assert (other - one).sum() == 1


def test_margins_that_are_not_paid_for_are_not_counted():
    for asked in (MARGINS[:4], [*MARGINS, MARGINS[0]]):
        with pytest.raises(ValueError, match=f"5 margins are paid for, not {len(asked)}"):
            noisy_margins(
                count_keys(records(9), cells=FINE.cells),
                layout=FINE,
                margins=asked,
                release=RELEASE,
                randomness=token_bytes,
            )


def test_coarser_margins_are_the_sums_of_what_becomes_one_label():
    keys = records(700)
    codes = FINE.decode(keys)
    above = [
        after.hierarchy.coarser(own, level=before.level, to=after.level)
        for before, after, own in zip(FINE.columns, COARSE.columns, codes, strict=True)
    ]
    plain = [np.array(exact(keys, margin)) for margin in MARGINS]
    merged = coarser_margins(plain, finer=FINE, coarser=COARSE, margins=MARGINS)
    for margin, cells in zip(MARGINS, merged, strict=True):
        found = Counter(zip(*(above[place].tolist() for place in margin), strict=True))
        shape = tuple(COARSE.columns[place].size for place in margin)
        assert cells.tolist() == [found[cell] for cell in np.ndindex(*shape)]


def raked(weights, counts, groups, targets, margins=((0,), (1,), (2,))):
    """Raking of groups, given by their codes, to margins by the fine map."""
    return rake_weights(
        np.array(weights, dtype=float),
        np.array(counts, dtype=np.int64),
        [np.array(own, dtype=np.int64) for own in zip(*groups, strict=True)],
        layout=FINE,
        margins=margins,
        noisy=[np.array(cells, dtype=np.int64) for cells in targets],
    )


def cells_of(size: int, **filled: int) -> list[int]:
    return [filled.get(f"c{cell}", 0) for cell in range(size)]


GROUPS = [(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 1)]
TARGETS = [cells_of(3, c1=70, c2=30), cells_of(11, c1=40, c2=60), cells_of(4, c1=100)]


def test_raked_weights_have_the_margins_and_keep_the_odds_between_groups():
    """The limit of iterative proportional fitting: the margins hold, and the odds ratio of the seed is kept."""
    weights, counts = [1.0, 2.0, 1.0, 1.0], [10, 10, 5, 20]
    found = raked(weights, counts, GROUPS, TARGETS)
    assert found.total == 100
    assert found.largest_difference <= 1e-6
    a, b, c, d = found.weights * counts
    assert (a + b, c + d, a + c, b + d) == pytest.approx((70, 30, 40, 60), abs=1e-3)
    seed = np.array(weights) * counts
    assert a * d / (b * c) == pytest.approx(seed[0] * seed[3] / (seed[1] * seed[2]), rel=1e-9)
    again = raked(weights, counts, GROUPS, TARGETS)
    assert again.weights.tobytes() == found.weights.tobytes()


def test_negative_absent_and_inconsistent_cells_are_raked_to_something_finite_and_positive():
    targets = [cells_of(3, c0=-8, c1=90, c2=-5), cells_of(11, c1=-40, c2=30, c9=500), cells_of(4, c1=80, c3=-3)]
    found = raked([1.0, 1.0, 1.0, 1.0], [10, 10, 5, 20], GROUPS, targets)
    assert (found.weights > 0).all()
    assert np.isfinite(found.weights).all()
    total = (77 / 3 + 490 / 11 + 77 / 4) / (1 / 3 + 1 / 11 + 1 / 4)
    assert found.total == pytest.approx(total)
    assert (found.weights * [10, 10, 5, 20]).sum() == pytest.approx(total)
    # A cell stands for its published records at least, before all are scaled to one total.
    assert (found.weights * [10, 10, 5, 20])[2:].sum() == pytest.approx(total * 25 / (90 + 25), rel=1e-3)


def test_totals_below_the_published_records_are_lifted_and_no_records_are_left_alone():
    low = [cells_of(3, c1=-50), cells_of(11), cells_of(4)]
    found = raked([1.0, 1.0, 1.0, 1.0], [10, 10, 5, 20], GROUPS, low)
    assert found.total == 45
    assert (found.weights * [10, 10, 5, 20]).sum() == pytest.approx(45)
    empty = rake_weights(
        np.zeros(0),
        np.zeros(0, dtype=np.int64),
        [np.zeros(0, dtype=np.int64)] * 3,
        layout=FINE,
        margins=((0,), (1,), (2,)),
        noisy=[np.array(cells) for cells in TARGETS],
    )
    assert (empty.weights.size, empty.total) == (0, 0)


def test_cells_of_one_record_and_of_little_weight_are_raked_too():
    found = raked([1.0, 0.25], [1, 1], [(1, 1, 1), (2, 1, 1)], [cells_of(3, c1=3, c2=5)], margins=((0,),))
    assert (found.weights.tolist(), found.total) == (pytest.approx([3, 5]), pytest.approx(8))


def test_what_no_published_record_can_stand_for_is_aimed_at_by_the_others():
    found = raked([1.0], [5], [(1, 1, 1)], [cells_of(3, c1=10, c2=30)], margins=((0,),))
    assert (*found.weights, found.total) == pytest.approx((8, 40))
    assert found.largest_difference < 1e-12


def test_pairs_bring_the_odds_that_the_rows_lack():
    together = [0] * 33
    for (sex, age), count in {(1, 1): 60, (1, 2): 10, (2, 1): 5, (2, 2): 25}.items():
        together[sex * 11 + age] = count
    targets = [cells_of(3, c1=70, c2=30), cells_of(11, c1=65, c2=35), together]
    found = raked([1.0] * 4, [5] * 4, GROUPS, targets, margins=((0,), (1,), (0, 1)))
    assert (found.weights * 5).tolist() == pytest.approx([60, 10, 5, 25], rel=1e-5)


# --- counted jointly ------------------------------------------------------------------------------------------------


def naive_margin(
    codes: Sequence[np.ndarray], counts: np.ndarray, margin: tuple[int, ...], sizes: Sequence[int]
) -> dict[int, int]:
    """The cells that have records, by a dictionary."""
    found: Counter[int] = Counter()
    for *cell, times in zip(*(codes[place].tolist() for place in margin), counts.tolist(), strict=True):
        number = 0
        for place, code in zip(margin, cell, strict=True):
            number = number * sizes[place] + code
        found[number] += times
    return dict(found)


@pytest.mark.parametrize("seed", range(8))
def test_margins_that_are_counted_jointly_are_those_that_are_counted_alone(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Of keys of several words, with columns of one code and of thousands, by the finest codes and by coarser ones."""
    coins = np.random.default_rng(seed)
    monkeypatch.setattr(margins, "_GROUPS_AT_ONCE", 1 << 7)
    monkeypatch.setattr(margins, "_JOINT_CELLS", int(coins.choice([1, 60, 3_000])))
    monkeypatch.setattr(margins, "_GROUPS_PER_JOINT_CELL", 0.1)
    monkeypatch.setattr(margins, "_SETS_AT_ONCE", int(coins.choice([1, 5])))
    sizes = tuple(int(coins.choice([1, 2, 3, 7, 40, 3_000], p=[0.1, 0.3, 0.2, 0.2, 0.15, 0.05])) for _ in range(22))
    sizes = (*sizes, 3_000, 1 << 40, 1)
    layout = KeyLayout(sizes=sizes)
    assert layout.key_words > 1
    codes = [coins.integers(0, size, 300) for size in sizes]
    counts = coins.integers(1, 1 << 40, 300)
    pairs = [pair for pair in combinations(range(23), 2) if coins.random() < 0.3]
    wanted = [
        TOTAL,
        *((place,) for place in (*range(0, 23, 2), 24)),
        *pairs,
        *((pair[1], pair[0]) for pair in pairs[:3]),
    ]
    for tables in (None, [coins.integers(0, -(-size // 2), size) if 2 < size < 1 << 20 else None for size in sizes]):
        merged, coarse = codes, sizes
        if tables is not None:
            merged = [own if table is None else table[own] for own, table in zip(codes, tables, strict=True)]
            coarse = tuple(size if table is None else -(-size // 2) for size, table in zip(sizes, tables, strict=True))
        found = exact_margins(
            GroupCounts(layout.keys(codes), counts),
            layout=layout,
            margins=wanted,
            tables=tables,
            sizes=None if tables is None else coarse,
        )
        assert found[0].tolist() == [counts.sum()]
        for margin, cells in zip(wanted[1:], found[1:], strict=True):
            assert cells.dtype == np.int64
            assert cells.size == math.prod(coarse[place] for place in margin)
            there = np.flatnonzero(cells)
            assert dict(zip(there.tolist(), cells[there].tolist(), strict=True)) == naive_margin(
                merged, counts, margin, coarse
            ), margin


def test_sets_of_columns_hold_every_margin_and_are_small_and_few():
    pairs = list(combinations(range(24), 2))
    sets = column_sets([*pairs, (3,)], [8] * 24, most_cells=1 << 15)
    assert {pair for one in sets for pair in combinations(one, 2)} >= set(pairs)
    assert len(sets) <= 40, "ten pairs lie in a set of five columns, so that 28 sets are the least"
    assert column_sets([(0,), (1,), (2,)], [9, 1000, 9], most_cells=100) == [(1,), (0, 2)]
    assert column_sets([(0, 1)], [900, 1000], most_cells=100) == [(0, 1)]


def test_many_margins_of_many_columns_need_little_memory():
    """Codes of all groups and columns at once would take 64 MB, and joint counts of all sets as much."""
    layout = KeyLayout(sizes=(8,) * 80)
    codes = np.random.default_rng(3).integers(0, 8, (80, 1_000))
    keys = np.tile(layout.keys(list(codes)), 100)
    groups = GroupCounts(keys, np.ones(keys.shape[1], dtype=np.int64))
    pairs = list(combinations(range(80), 2))
    tracemalloc.start()
    try:
        found = exact_margins(groups, layout=layout, margins=pairs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(cells.sum() == 100_000 for cells in found)
    assert peak < 32 << 20
