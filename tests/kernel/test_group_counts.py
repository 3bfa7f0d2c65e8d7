"""Counting and merging are one and the same however the records are split; suppression leaves no trace."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from crowdblend.mechanisms.kernel import group_counts
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, add_counts, count_keys, joined_counts, merge_counts
from crowdblend.mechanisms.kinds.microdata import suppress
from hypothesis import given, settings
from hypothesis import strategies as st

records_of = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2**62)), max_size=60)
one_word = st.lists(st.tuples(st.integers(0, 9)), max_size=60)


def keys_of(records: list[tuple[int, ...]], words: int) -> np.ndarray:
    return np.array(records, dtype=np.int64).reshape(-1, words).T


def as_counter(groups: GroupCounts) -> Counter:
    return Counter(dict(zip(map(tuple, groups.keys.T.tolist()), groups.counts.tolist(), strict=True)))


def same(one: GroupCounts, two: GroupCounts) -> bool:
    return np.array_equal(one.keys, two.keys) and np.array_equal(one.counts, two.counts)


@settings(derandomize=True)
@given(data=st.data())
def test_counts_are_those_of_a_counter_and_splits_do_not_matter(data):
    words = data.draw(st.sampled_from([1, 2]))
    records = data.draw(one_word if words == 1 else records_of)
    cells = data.draw(st.sampled_from([10, 2**70]))
    whole = count_keys(keys_of(records, words), cells=cells)
    assert as_counter(whole) == Counter(records)
    ordered = list(map(tuple, whole.keys.T.tolist()))
    assert ordered == sorted(set(ordered))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=5)))
    shuffled = data.draw(st.permutations(records))
    bounds = [0, *cuts, len(records)]
    parts = [count_keys(keys_of(shuffled[a:b], words), cells=cells) for a, b in pairwise(bounds)]
    assert same(merge_counts(parts), whole)
    left = parts[0]
    for part in parts[1:]:
        left = merge_counts([part, left])
    assert same(left, whole)


def test_dense_and_sorted_counting_agree(monkeypatch):
    keys = np.random.default_rng(5).integers(0, 1000, (1, 5000))
    dense = count_keys(keys, cells=1000)
    monkeypatch.setattr(group_counts, "_DENSE_CELLS", 0)
    monkeypatch.setattr(group_counts, "_DENSE_CELLS_PER_KEY", 0)
    assert same(dense, count_keys(keys, cells=1000))


@settings(derandomize=True)
@given(
    parts=st.lists(st.dictionaries(st.integers(0, 2**62), st.integers(1, 2**40), max_size=9), min_size=2, max_size=5)
)
def test_one_word_is_added_up_wherever_its_keys_lie(parts):
    """Keys too far apart for a place each."""
    total = sum((Counter(part) for part in parts), Counter())
    given_parts = [
        GroupCounts(np.array([sorted(part)], dtype=np.int64), np.array([part[key] for key in sorted(part)], np.int64))
        for part in parts
    ]
    merged = merge_counts(given_parts)
    assert merged.keys[0].tolist() == sorted(total)
    assert merged.counts.tolist() == [total[key] for key in sorted(total)]


@pytest.mark.parametrize("key_words", [1, 2])
def test_ranges_of_keys_are_added_up_as_the_whole(monkeypatch, key_words):
    """Parts of different sizes, keys in many parts, and more with one first word than a range has room for."""
    rng = np.random.default_rng(7)
    sets = [rng.choice([9, 2**40, 2**62], (key_words, n)) + rng.integers(0, 300, (key_words, n)) for n in (900, 40, 0)]
    parts = [count_keys(keys, cells=2**70) for keys in sets]
    for name, small in (("_MERGED_AT_ONCE", 16), ("_SAMPLED_EVERY", 4), ("_OWN_PAGES_GROUPS", 3)):
        monkeypatch.setattr(group_counts, name, small)
    total: list[GroupCounts] = []
    for part in parts:
        total = add_counts(total, [part])
    assert len(total) > 20
    assert all(one.keys[0, -1] < other.keys[0, 0] for one, other in pairwise(total))
    expected = count_keys(np.concatenate(sets, axis=1), cells=2**70)
    assert same(merge_counts(parts), expected)
    assert same(joined_counts(total), expected)


@pytest.mark.parametrize("step", [1, 1 << 20])
def test_parts_in_narrow_types_are_added_up_without_wrapping(step):
    """Sums above what the types of the parts hold; keys near and far, which are added up in two ways."""
    keys = np.arange(300).reshape(1, -1) * step
    narrow = GroupCounts(keys.astype(np.uint32), np.full(300, 255, dtype=np.uint8))
    [total] = add_counts(add_counts([], [narrow] * 3), [narrow])
    assert total.keys.dtype == total.counts.dtype == np.int64
    assert total.keys.tolist() == keys.tolist()
    assert total.counts.tolist() == [4 * 255] * 300


@settings(derandomize=True)
@given(records=records_of, k=st.integers(1, 5), seed=st.integers(0, 99))
def test_suppression_is_a_function_of_what_it_publishes(records, k, seed):
    groups = count_keys(keys_of(records, 2), cells=2**70)
    order = np.random.default_rng(seed).permutation(groups.counts.size)
    kept = suppress(groups.keys[:, order], groups.counts[order], k)
    assert as_counter(kept) == Counter({key: n for key, n in Counter(records).items() if n >= k})
    large = groups.counts >= k
    alone = suppress(groups.keys[:, large], groups.counts[large], k)
    assert same(kept, alone)


def test_k_below_one_and_nothing_to_merge_are_refused():
    empty = count_keys(np.empty((1, 0), dtype=np.int64), cells=5)
    assert empty.counts.size == 0
    with pytest.raises(ValueError, match="at least 1"):
        suppress(*empty, 0)
    with pytest.raises(ValueError, match="no partial counts"):
        merge_counts([])
    assert merge_counts([empty, empty]).keys.shape == (1, 0)
    assert suppress(*empty, 3).keys.shape == (1, 0)


def test_counting_with_a_place_for_each_possible_group_takes_bounded_memory():
    assert [group_counts._dense_cells(keys) for keys in (1, 1 << 13, 1 << 17, 1 << 40)] == [
        1 << 16,
        1 << 16,
        1 << 20,
        1 << 23,
    ]
