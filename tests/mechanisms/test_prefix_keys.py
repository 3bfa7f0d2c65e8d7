"""Prefix keys: a coarser map's groups are those whose masked keys agree, in as few bits and words as paths need."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, count_keys
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn
from crowdblend.mechanisms.map_selection.rollup import PrefixKeys, ordered_groups, prefix_keys
from hypothesis import given, settings
from hypothesis import strategies as st


def tree(parents: list[list[int]]) -> ValueHierarchy:
    """Level j + 1 of value i is named by parents[j] of its name at level j; a last level `*` follows."""
    rows = []
    for value in range(len(parents[0])):
        row, node = [f"v{value}"], value
        for level, above in enumerate(parents):
            node = above[node]
            row.append(f"{level}-{node}")
        rows.append([*row, "*"])
    return ValueHierarchy.from_rows(rows)


def column(name: str, hierarchy: ValueHierarchy, *, low: int = 0, high: int | None = None) -> LatticeColumn:
    top = hierarchy.levels - 1 if high is None else high
    return LatticeColumn(name=name, hierarchy=hierarchy, min_level=low, max_level=top, weight=Decimal(1))


def caterpillar(levels: int) -> ValueHierarchy:
    """At each level one value more joins the others: one digit of one bit a level."""
    return ValueHierarchy.from_rows(
        [
            [f"v{value:03}" if level < value else f"among {level:03}" for level in range(levels)]
            for value in range(levels)
        ]
    )


def numbered(lattice: Lattice, codes: list[np.ndarray]) -> tuple[GroupCounts, dict[int, tuple[int, ...]]]:
    """The groups of some records, and which of them has which count: no two have the same."""
    made = lattice.map_of(lattice.finest)
    keys = count_keys(made.keys(codes), cells=made.cells).keys
    counts = np.random.default_rng(keys.shape[1]).permutation(keys.shape[1]) + 1
    rows = zip(*(column_codes.tolist() for column_codes in made.decode(keys)), strict=True)
    return GroupCounts(keys, counts), dict(zip(counts.tolist(), rows, strict=True))


def labels_at(lattice: Lattice, row: tuple[int, ...], levels: tuple[int, ...]) -> tuple[int, ...]:
    """A group's labels at some levels, by its hierarchies alone."""
    return tuple(
        int(one.hierarchy.coarser(np.array([code]), level=finest, to=level)[0])
        for one, code, finest, level in zip(lattice.columns, row, lattice.finest, levels, strict=True)
    )


@st.composite
def lattices(draw) -> tuple[Lattice, GroupCounts, dict[int, tuple[int, ...]]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = []
    for number in range(draw(st.integers(1, 3))):
        parents, below = [], int(rng.integers(1, 9))
        for _ in range(int(rng.integers(0, 3)) + 1):
            parents.append(rng.integers(0, 4, below).tolist())
            below = 4
        made = tree(parents)
        low = int(rng.integers(0, made.levels))
        columns.append(column(f"column {number}", made, low=low, high=int(rng.integers(low, made.levels))))
    lattice = Lattice(columns=tuple(columns))
    codes = [rng.integers(0, one.hierarchy.size(low), 40) for one, low in zip(columns, lattice.finest, strict=True)]
    return lattice, *numbered(lattice, codes)


@settings(derandomize=True, max_examples=40)
@given(lattices())
def test_masked_keys_agree_where_labels_do_and_nowhere_else(case) -> None:
    lattice, counts, row_of = case
    base = prefix_keys(counts, lattice=lattice)
    assert sorted(base.counts.tolist()) == sorted(row_of)
    for number in range(lattice.size):
        levels = lattice.levels_of(number)
        sizes: dict[tuple[int, ...], int] = defaultdict(int)
        for size, row in row_of.items():
            sizes[labels_at(lattice, row, levels)] += size
        rolled = base.coarsened(levels)
        assert sorted(rolled.counts.tolist()) == sorted(sizes.values())
        words = list(zip(*rolled.keys.tolist(), strict=True))
        assert words == sorted(set(words)), "keys ascend, none twice"
        masked = base.keys & np.array(base.layout.live(levels), dtype=np.uint64).reshape(-1, 1)
        of_labels = {labels_at(lattice, row_of[size], levels) for size in base.counts.tolist()}
        pairs = {
            (labels_at(lattice, row_of[size], levels), key)
            for size, key in zip(base.counts.tolist(), zip(*masked.tolist(), strict=True), strict=True)
        }
        assert len(pairs) == len(of_labels) == len({key for _, key in pairs})


@settings(derandomize=True, max_examples=40)
@given(lattices(), st.integers(1, 200))
def test_left_out_is_what_cannot_reach_the_threshold_whatever_the_columns_that_follow_do(case, threshold) -> None:
    lattice, counts, row_of = case
    base = prefix_keys(counts, lattice=lattice)
    for levels in (lattice.finest, lattice.coarsest):
        here = base.coarsened(levels)
        for columns in range(len(lattice.columns) + 1):
            fixed = list(lattice.coarsest)
            for place in base.layout.order[:columns]:
                fixed[place] = levels[place]
            compared = base.layout.order[: columns + 1]

            def shown(row, fixed=tuple(fixed), compared=compared):
                labels = labels_at(lattice, row, fixed)
                return tuple(labels[place] for place in compared)

            sums: dict[tuple[int, ...], int] = defaultdict(int)
            of_group: dict[tuple[int, ...], int] = defaultdict(int)
            for size, row in row_of.items():
                sums[shown(row)] += size
                of_group[labels_at(lattice, row, levels)] += size
            stay = {labels_at(lattice, row, levels) for row in row_of.values() if sums[shown(row)] >= threshold}
            left = here.reaching(threshold, columns=columns)
            assert sorted(left.counts.tolist()) == sorted(of_group[labels] for labels in stay)
            assert left.levels == levels


@pytest.mark.parametrize(("levels", "words"), [((32, 32), 1), ((33, 32), 2), ((64,), 1), ((62, 1, 1), 1), ((63, 2), 2)])
def test_columns_share_a_word_where_their_paths_fit_64_bits(levels, words) -> None:
    """A caterpillar of L + 1 levels has a path of L bits."""
    made = [caterpillar(number + 1) for number in levels]
    lattice = Lattice(columns=tuple(column(f"column {place}", one) for place, one in enumerate(made)))
    codes = [np.resize(np.arange(1, one.size(0)), 70) for one in made]
    counts, row_of = numbered(lattice, codes)
    base = prefix_keys(counts, lattice=lattice)
    assert base.layout.key_words == words
    assert len(set(zip(*base.keys.tolist(), strict=True))) == len(row_of)
    for to in (1, 20, 62):
        wanted = tuple(min(to, top) for top in lattice.coarsest)
        labels = {labels_at(lattice, row, wanted) for row in row_of.values()}
        assert base.coarsened(wanted).counts.size == len(labels)


def test_qualities_are_of_up_to_two_to_the_42_records() -> None:
    lattice = Lattice(columns=(column("one", caterpillar(2)),))
    counts, _ = numbered(lattice, [np.array([1, 2])])
    most = GroupCounts(counts.keys, np.array([1, 2**42 - 1]))
    assert prefix_keys(most, lattice=lattice).counts.sum() == 2**42
    with pytest.raises(ValueError, match="exact up to"):
        prefix_keys(GroupCounts(counts.keys, np.array([2, 2**42 - 1])), lattice=lattice)


@pytest.mark.parametrize("key_bits", [1, 20, 61, 62, 63, 64])
@pytest.mark.parametrize("words", [1, 2])
def test_groups_are_put_in_order_with_their_counts_however_many_bits_they_have(key_bits, words) -> None:
    """A count of two bits goes with a key of 62 into one number, and with one of 63 not."""
    draws = np.random.default_rng(key_bits)
    keys = draws.integers(0, 2**key_bits - 1, (words, 200), dtype=np.uint64, endpoint=True)
    keys[0, :2] = 2**key_bits - 1, 0
    counts = draws.integers(1, 4, 200)
    ordered, with_them = ordered_groups(keys.copy(), counts.copy())
    expected = sorted((*key, count) for *key, count in zip(*keys.tolist(), counts.tolist(), strict=True))
    found = list(zip(*ordered.tolist(), with_them.tolist(), strict=True))
    assert sorted(found) == expected
    assert [key[:-1] for key in found] == [key[:-1] for key in expected]
    assert (ordered.dtype, with_them.dtype) == (np.uint64, np.int64)


def test_nothing_becomes_finer() -> None:
    lattice = Lattice(columns=(column("one", caterpillar(3)), column("other", caterpillar(3))))
    counts, _ = numbered(lattice, [np.array([1, 2]), np.array([2, 1])])
    middle = prefix_keys(counts, lattice=lattice).coarsened((1, 1))
    assert isinstance(middle.coarsened((1, 2)), PrefixKeys)
    for finer in ((0, 1), (2, 0)):
        with pytest.raises(ValueError, match="not coarser"):
            middle.coarsened(finer)
