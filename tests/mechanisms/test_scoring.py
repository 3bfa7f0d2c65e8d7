"""Scores by roll-up are those of every map on its own, whatever the hierarchies, the candidates and the threads."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, count_keys
from crowdblend.mechanisms.map_selection import rollup
from crowdblend.mechanisms.map_selection.choice import LARGEST_ENUMERATED, Lattice, LatticeColumn, MapWeights
from crowdblend.mechanisms.map_selection.rollup import prefix_keys, scorer, scores
from hypothesis import given, settings
from hypothesis import strategies as st


def random_tree(rng: np.random.Generator) -> Hierarchy:
    if rng.random() < 0.3:
        width = int(rng.integers(2, 5))
        upper = int(rng.choice([7, 12, 2**40]))
        return IntervalHierarchy(lower=-3, upper=upper, widths=(width, width * int(rng.integers(2, 4))))
    rows = [[f"v{value}"] for value in range(int(rng.integers(1, 9)))]
    for level in range(int(rng.integers(0, 3))):
        parent = {row[-1]: f"{level}-{rng.integers(0, 3)}" if rng.random() < 0.9 else "*" for row in rows}
        parent["*"] = "*"
        rows = [[*row, parent[row[-1]]] for row in rows]
    if rng.random() < 0.7:
        rows = [[*row, "*"] for row in rows]
    return ValueHierarchy.from_rows(rows)


def random_lattice(rng: np.random.Generator, columns: int) -> Lattice:
    trees = [random_tree(rng) for _ in range(columns)]
    lows = [int(rng.integers(0, tree.levels)) for tree in trees]
    made = tuple(
        LatticeColumn(
            name=f"column {number}",
            hierarchy=tree,
            min_level=low,
            max_level=int(rng.integers(low, tree.levels)),
            weight=Decimal(int(rng.integers(0, 4))),
        )
        for number, (tree, low) in enumerate(zip(trees, lows, strict=True))
    )
    lattice = Lattice(columns=made)
    if rng.random() < 0.5:
        return lattice
    chosen = rng.choice(lattice.size, size=int(rng.integers(1, lattice.size + 1)), replace=False)
    return Lattice(columns=made, candidates=tuple(sorted(lattice.levels_of(int(number)) for number in chosen)))


def random_records(rng: np.random.Generator, lattice: Lattice) -> list[np.ndarray]:
    """Codes per column at the finest map; the largest code and the bucket are among them."""
    records = int(rng.integers(0, 300))
    found = []
    for column, level in zip(lattice.columns, lattice.finest, strict=True):
        size = column.hierarchy.size(level)
        codes = rng.integers(0, min(size, 12), records)
        found.append(np.where(rng.random(records) < 0.2, size - 1, codes))
    return found


def counted(lattice: Lattice, codes: list[np.ndarray]) -> GroupCounts:
    map_ = lattice.map_of(lattice.finest)
    return count_keys(map_.keys(codes), cells=map_.cells)


def by_hand(lattice: Lattice, codes: list[np.ndarray], threshold: int) -> list[int]:
    """Every map on its own, from the records, with dictionaries."""
    weights = MapWeights(lattice=lattice)
    found = []
    for number in range(lattice.size):
        levels = lattice.levels_of(number)
        labels = [
            column.hierarchy.coarser(values, level=finest, to=level).tolist()
            for column, values, finest, level in zip(lattice.columns, codes, lattice.finest, levels, strict=True)
        ]
        sizes = Counter(zip(*labels, strict=True)).values()
        found.append(weights.of(levels) * sum(max(0, size - threshold + 1) for size in sizes))
    return found


@pytest.fixture(scope="module", autouse=True)
def small_arrays_go_every_way():
    """The short cuts that pay for large arrays alone are taken for small ones too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollup, "_WORTH_LEAVING_OUT", 0)
        yield


@settings(derandomize=True, max_examples=120)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 12))
def test_scores_are_those_of_every_map_on_its_own(seed, columns, threshold):
    rng = np.random.default_rng(seed)
    lattice = random_lattice(rng, columns)
    if lattice.size > 500:
        return
    codes = random_records(rng, lattice)
    counts = counted(lattice, codes)
    expected = by_hand(lattice, codes, threshold)
    assert scores(counts, lattice=lattice, threshold=threshold).tolist() == expected
    few = [lattice.levels_of(number) for number in rng.integers(0, lattice.size, 3).tolist()]
    quality_of = scorer(counts, lattice=lattice, threshold=threshold)
    assert quality_of(few).tolist() == [expected[lattice.index_of(levels)] for levels in few]


def wide_lattice(columns: int) -> Lattice:
    """Columns whose codes need more than one word together."""
    tree = IntervalHierarchy(lower=0, upper=2**20, widths=(2**10,))
    return Lattice(
        columns=tuple(
            LatticeColumn(name=f"wide {number}", hierarchy=tree, min_level=0, max_level=2, weight=Decimal(1))
            for number in range(columns)
        )
    )


@pytest.mark.slow
def test_keys_of_several_words_are_rolled_up_too():
    lattice = wide_lattice(5)
    rng = np.random.default_rng(5)
    few = [rng.integers(0, 2**20, 20_000) for _ in range(5)]
    codes = [np.where(rng.random(20_000) < 0.6, values[:1], values) + 2 for values in few]
    counts = counted(lattice, codes)
    assert counts.keys.shape[0] > 1
    assert scores(counts, lattice=lattice, threshold=30).tolist() == by_hand(lattice, codes, 30)


@pytest.mark.parametrize("levels", [64, 65])
def test_a_column_of_many_uneven_levels_is_scored_too(levels):
    """Its paths have a bit a level: those of 65 fit a word no longer than those of 64 do."""
    rows = [
        [f"v{value:02}" if level < value else f"among {level}" for level in range(levels)] for value in range(levels)
    ]
    uneven = ValueHierarchy.from_rows([[*row, "*"] for row in rows])
    even = IntervalHierarchy(lower=0, upper=8, widths=(2, 4))
    made = {"uneven": uneven, "even": even}
    lattice = Lattice(
        columns=tuple(
            LatticeColumn(name=name, hierarchy=one, min_level=0, max_level=one.levels - 1, weight=Decimal(1))
            for name, one in made.items()
        )
    )
    draws = np.random.default_rng(levels)
    codes = [np.resize(np.arange(uneven.size(0)), 400), draws.integers(0, even.size(0), 400)]
    counts = counted(lattice, codes)
    assert (prefix_keys(counts, lattice=lattice) is None) == (levels > 64)
    told: list[tuple[int, int]] = []
    found = scores(counts, lattice=lattice, threshold=7, on_progress=lambda done, of: told.append((done, of)))
    assert found.tolist() == by_hand(lattice, codes, 7)
    few = [(3, 1), (60, 0), (levels, 3)]
    assert scorer(counts, lattice=lattice, threshold=7)(few).tolist() == [found[lattice.index_of(one)] for one in few]
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (lattice.size, lattice.size)
    assert scores(counts, lattice=lattice, threshold=7).tolist() == found.tolist()
    with pytest.raises(ValueError, match="thread"):
        scores(counts, lattice=lattice, threshold=1, threads=0)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing_and_progress_ends_at_all_maps(threads, monkeypatch):
    monkeypatch.setattr(rollup, "_WORTH_THREADS", 0)
    lattice = wide_lattice(3)
    rng = np.random.default_rng(3)
    codes = [rng.integers(0, 40, 5000) * 1000 + 2 for _ in range(3)]
    counts = counted(lattice, codes)
    told: list[tuple[int, int]] = []
    found = scores(
        counts, lattice=lattice, threshold=4, threads=threads, on_progress=lambda done, of: told.append((done, of))
    )
    assert found.tolist() == by_hand(lattice, codes, 4)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (lattice.size, lattice.size)


def test_no_records_score_nothing():
    lattice = wide_lattice(2)
    codes = [np.empty(0, dtype=np.int64)] * 2
    assert not scores(counted(lattice, codes), lattice=lattice, threshold=1).any()


def test_what_cannot_be_scored_is_refused():
    lattice = wide_lattice(2)
    counts = counted(lattice, [np.arange(5)] * 2)
    with pytest.raises(ValueError, match="threshold"):
        scores(counts, lattice=lattice, threshold=0)
    with pytest.raises(ValueError, match="thread"):
        scores(counts, lattice=lattice, threshold=1, threads=0)
    large = wide_lattice(12)
    assert large.size > LARGEST_ENUMERATED
    with pytest.raises(ValueError, match="too many"):
        scores(counted(large, [np.arange(5)] * 12), lattice=large, threshold=1)
    with pytest.raises(ValueError, match="not of the lattice"):
        scores(counts, lattice=wide_lattice(5), threshold=1)
    huge = GroupCounts(counts.keys, counts.counts * 2**42)
    with pytest.raises(ValueError, match="exact up to"):
        scores(huge, lattice=lattice, threshold=1)
