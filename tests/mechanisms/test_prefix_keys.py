"""Prefix keys: a coarser map's groups are those whose masked keys agree, in as few bits and words as paths need."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, count_keys
from crowdblend.mechanisms.map_selection import rollup
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
@given(lattices())
def test_a_digit_has_the_bits_that_the_most_children_of_one_label_need(case) -> None:
    lattice, counts, row_of = case
    layout = prefix_keys(counts, lattice=lattice).layout
    for place in range(len(lattice.columns)):
        bits = 0
        for level in range(lattice.finest[place], lattice.coarsest[place] + 1):
            children = defaultdict(set)
            for row in row_of.values():
                here, above = list(lattice.coarsest), list(lattice.coarsest)
                here[place], above[place] = level, min(level + 1, lattice.coarsest[place])
                parent = labels_at(lattice, row, tuple(above))[place] if level < lattice.coarsest[place] else None
                children[parent].add(labels_at(lattice, row, tuple(here))[place])
            bits += (max(map(len, children.values())) - 1).bit_length()
        assert layout.masks[place][0].bit_count() == bits


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


def test_the_column_with_most_levels_stands_last_and_columns_of_many_labels_first() -> None:
    flat = ValueHierarchy.from_values([f"v{value}" for value in range(5)])
    shapes = {
        "five": (column("five", flat), 5),
        "nine": (column("nine", caterpillar(9), high=3), 9),
        "deep": (column("deep", caterpillar(6)), 2),
        "late": (column("late", caterpillar(4), low=1), 3),
    }
    lattice = Lattice(columns=tuple(made for made, _ in shapes.values()))
    draws = np.random.default_rng(3)
    codes = [1 + draws.integers(0, labels, 300) for _, labels in shapes.values()]
    counts, _ = numbered(lattice, codes)
    layout = prefix_keys(counts, lattice=lattice).layout
    assert [lattice.names[place] for place in layout.order] == ["nine", "five", "late", "deep"]


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


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_keys_are_those_of_all_groups_however_many_are_recoded_at_once(monkeypatch, at_once) -> None:
    made = [caterpillar(9), caterpillar(6)]
    lattice = Lattice(columns=tuple(column(f"column {place}", one) for place, one in enumerate(made)))
    draws = np.random.default_rng(at_once)
    counts, _ = numbered(lattice, [draws.integers(0, one.size(0), 60) for one in made])
    whole = prefix_keys(counts, lattice=lattice)
    monkeypatch.setattr(rollup, "_AT_ONCE", at_once)
    parts = prefix_keys(counts, lattice=lattice)
    assert (parts.keys.tolist(), parts.counts.tolist()) == (whole.keys.tolist(), whole.counts.tolist())


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        ((0b111,), (0b111,), True),
        ((0b111,), (0b110,), True),  # the lowest bits alone are cleared
        ((0b111,), (0b100,), True),
        ((0b101,), (0b001,), False),  # a bit below a cleared one is left
        ((0b110,), (0b010,), False),
        ((0b110,), (0b100,), True),
        ((0b11, 0b11), (0b11, 0b10), True),
        ((0b11, 0b11), (0b10, 0b11), False),
        ((0b11, 0b11), (0b10, 0b00), True),
        ((0b11, 0b11, 0b11), (0b10, 0b00, 0b01), False),
        ((0b11, 0b00, 0b11), (0b11, 0b00, 0b10), True),
    ],
)
def test_keys_are_sorted_again_only_where_a_bit_is_left_below_a_cleared_one(before, after, stays) -> None:
    assert rollup._keeps_order(before, after) is stays


def test_a_table_has_65536_cells_or_four_for_each_value_at_most() -> None:
    tree = IntervalHierarchy(lower=0, upper=2**40, widths=())
    made = LatticeColumn(name="one", hierarchy=tree, min_level=0, max_level=1, weight=Decimal(1))

    def cells(last: int, *, values: int = 2) -> int:
        present = np.append(np.arange(values - 1), last)
        paths = rollup._paths_of(made, present, levels=range(2))
        assert paths.places(present).tolist() == [*range(values)]
        return paths.place.size

    assert [cells(last) for last in (2, 65_535, 65_536)] == [3, 65_536, 0]
    assert [cells(last, values=16_400) for last in (65_599, 65_600)] == [65_600, 0]
    assert rollup._paths_of(made, np.empty(0, dtype=np.int64), levels=range(2)).place.size == 0


@pytest.mark.parametrize(("upper", "by_table"), [(65_533, True), (65_534, False)])
def test_codes_that_occur_are_found_by_a_table_where_it_may_be(monkeypatch, upper, by_table) -> None:
    """With a bucket, a code for what is below and one for what is above."""
    tables = []
    monkeypatch.setattr(rollup.np, "bincount", lambda codes, counted=np.bincount: tables.append(1) or counted(codes))
    found = rollup._distinct(np.array([7, 3, 7, 0]), IntervalHierarchy(lower=0, upper=upper, widths=()), 0)
    assert (found.tolist(), len(tables)) == ([0, 3, 7], int(by_table))


def test_of_equally_deep_columns_that_with_the_fewest_labels_stands_last_and_the_next_before_it() -> None:
    shallow, deep = ValueHierarchy.from_values([f"v{value}" for value in range(9)]), caterpillar(9)

    def order(**shapes: tuple[int, int]) -> list[str]:
        made = tuple(
            column(name, deep, high=span) if span > 1 else column(name, shallow, high=span)
            for name, (_, span) in shapes.items()
        )
        lattice = Lattice(columns=made)
        draws = np.random.default_rng(3)
        counts, _ = numbered(lattice, [1 + draws.integers(0, labels, 300) for labels, _ in shapes.values()])
        return [lattice.names[place] for place in prefix_keys(counts, lattice=lattice).layout.order]

    assert order(a=(5, 1), b=(9, 1), c=(3, 4), d=(6, 4)) == ["b", "a", "d", "c"]
    assert order(a=(5, 1), b=(9, 4), c=(3, 5)) == ["b", "a", "c"]
    assert order(a=(5, 1), b=(9, 4)) == ["a", "b"]
    assert order(a=(5, 3), b=(7, 1), c=(9, 2), d=(3, 2), e=(2, 5)) == ["c", "b", "d", "a", "e"]


def test_keys_of_one_word_are_sorted_with_their_counts_in_one_number_where_both_fit(monkeypatch) -> None:
    """Which is several times faster than to sort places."""
    ways = []
    monkeypatch.setattr(rollup.np, "argsort", lambda keys, kind, of=np.argsort: ways.append(1) or of(keys, kind=kind))
    monkeypatch.setattr(rollup.np, "lexsort", lambda keys, of=np.lexsort: ways.append(2) or of(keys))
    for bits, words, way in ((62, 1, []), (63, 1, [1]), (5, 2, [2])):
        ways.clear()
        keys = np.full((words, 3), (1 << bits) - 1, dtype=np.uint64)
        ordered, counts = ordered_groups(keys, np.array([3, 1, 2]))
        assert (ordered.tolist(), sorted(counts.tolist()), ways) == (keys.tolist(), [1, 2, 3], way)
    ways.clear()
    assert ordered_groups(np.empty((1, 0), dtype=np.uint64), np.empty(0, dtype=np.int64))[1].size == 0


def test_groups_that_no_longer_matter_are_left_out_of_arrays_of_2048_and_more(monkeypatch) -> None:
    looked = []
    monkeypatch.setattr(PrefixKeys, "reaching", lambda self, threshold, columns: looked.append(threshold) or self)
    lattice = Lattice(columns=(column("one", caterpillar(3)), column("other", caterpillar(3))))
    counts, _ = numbered(lattice, [np.array([1, 2]), np.array([2, 1])])
    base = prefix_keys(counts, lattice=lattice)
    candidates = sorted((lattice.levels_of(number), number) for number in range(lattice.size))
    for groups, seen in ((2_047, 0), (2_048, 1)):
        looked.clear()
        many = replace(base, counts=np.ones(groups, dtype=np.int64))
        piece = rollup._Piece(groups=many, place=0, candidates=candidates, threshold=7)
        assert next(piece.branches()).groups.counts.size == groups
        assert looked == [7] * seen


@pytest.mark.parametrize("words", [1, 2])
def test_the_last_column_of_keys_of_one_word_is_rolled_up_without_sorting(monkeypatch, words) -> None:
    last = []
    monkeypatch.setattr(rollup, "_along_last", lambda piece, whole=rollup._along_last: last.append(1) or whole(piece))
    lattice = Lattice(columns=(column("one", caterpillar(3)), column("other", caterpillar(4))))
    counts, _ = numbered(lattice, [np.array([1, 2, 3]), np.array([2, 1, 4])])
    base = prefix_keys(counts, lattice=lattice)
    if words == 2:
        keys = np.concatenate([np.zeros_like(base.keys), base.keys])
        layout = replace(base.layout, key_words=2, word_of=(1, 1))
        base = replace(base, layout=layout, keys=keys)
    found = rollup.rolled_up(base, lattice=lattice, threshold=1, on_progress=None, threads=1)
    assert found.tolist() == [int(counts.counts.sum())] * lattice.size
    assert len(last) == (3 if words == 1 else 0)  # one for each level of the first column


def test_what_changes_nothing_is_not_computed() -> None:
    lattice = Lattice(columns=(column("one", caterpillar(5)), column("other", caterpillar(6))))
    counts, _ = numbered(lattice, [np.array([1, 2, 5, 3]), np.array([2, 1, 6, 4])])
    base = prefix_keys(counts, lattice=lattice)
    assert base.coarsened(base.levels).keys is base.keys
    assert base.coarsened((1, 0)).keys is not base.keys
    assert base.reaching(1, columns=0) is base
    assert base.reaching(10**6, columns=0).counts.size == 0
    nobody = replace(base, keys=base.keys[:, :0], counts=base.counts[:0])
    assert nobody.coarsened((1, 1)).keys is nobody.keys
    assert nobody.coarsened((1, 1)).levels == (1, 1)
    assert nobody.reaching(1, columns=0) is nobody
