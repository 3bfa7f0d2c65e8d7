"""Blocks are chosen by published figures: columns that depend on one another stand together."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from crowdblend.mechanisms.pair_model.blocks import BlockChoice, dependences, restricted
from crowdblend.mechanisms.pair_model.model import PairModel

SIZE = 3


def model_of(groups: list[list[int]], *, records: int = 3_000, counted: float = 1.0) -> PairModel:
    """Exact counts of columns that follow one another within their group, as far as pairs are counted."""
    coins = np.random.default_rng(5)
    codes = np.zeros((sum(map(len, groups)), records), dtype=np.int64)
    for columns in groups:
        hidden = coins.integers(0, SIZE, records)
        for column in columns:
            codes[column] = np.where(coins.random(records) < 0.4, coins.integers(0, SIZE, records), hidden)
    model = PairModel.of_margins([np.bincount(own, minlength=SIZE) for own in codes])
    labels = np.arange(SIZE), np.arange(SIZE)
    for first, second in combinations(range(len(codes)), 2):
        if coins.random() <= counted:
            table = np.zeros((SIZE, SIZE))
            np.add.at(table, (codes[first], codes[second]), 1.0)
            model = model.with_counts((first, second), table, labels=labels, deviation=0.0)
    return model


def members(choice: BlockChoice, model: PairModel) -> list[set[int]]:
    return [set(block.columns) for block in choice.blocks(model)]


@pytest.mark.parametrize("order", list(permutations(range(6)))[::97])
def test_columns_that_depend_on_one_another_stand_together_whatever_their_order(order) -> None:
    groups = [list(order[:3]), list(order[3:])]
    assert members(BlockChoice(number=2), model_of(groups)) == [set(one) for one in sorted(map(sorted, groups))]


def test_a_pinned_column_stands_in_every_block_and_each_other_one_in_one_or_two() -> None:
    model = model_of([[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]], counted=0.7)
    found = members(BlockChoice(number=3, pinned=(2, 8)), model)
    assert set.intersection(*found) == {2, 8}
    assert set.union(*found) == {*range(10)}
    assert 3 * 2 + 8 <= sum(map(len, found)) <= 3 * 2 + 8 + 3
    assert max(map(len, found)) - min(map(len, found)) <= 2


def test_a_column_that_tells_much_of_two_blocks_stands_in_both() -> None:
    """Columns 0 to 2 follow one hidden value, 4 to 6 another, and 3 both: half of its labels are of each."""
    coins = np.random.default_rng(6)
    hidden = coins.integers(0, 2, (2, 20_000))
    noisy = [
        np.where(coins.random(20_000) < 0.3, coins.integers(0, 2, 20_000), hidden[place // 4]) for place in range(7)
    ]
    noisy[3] = hidden[0] * 2 + hidden[1]
    sizes = [int(own.max()) + 1 for own in noisy]
    model = PairModel.of_margins([np.bincount(own) for own in noisy])
    for first, second in combinations(range(7), 2):
        table = np.zeros((sizes[first], sizes[second]))
        np.add.at(table, (noisy[first], noisy[second]), 1.0)
        labels = np.arange(sizes[first]), np.arange(sizes[second])
        model = model.with_counts((first, second), table, labels=labels, deviation=0.0)
    found = members(BlockChoice(number=2), model)
    assert [3 in block for block in found] == [True, True]
    assert set.intersection(*found) == {3}


def test_the_choice_is_the_best_of_all_on_few_columns() -> None:
    """No other halves of six columns have a larger sum of dependences within them."""
    model = model_of([[0, 1], [2, 3], [4, 5]], counted=0.5)
    strengths = dependences(model)

    def within(columns: tuple[int, ...]) -> float:
        rest = tuple({*range(6)} - {*columns})
        return sum(strengths[pair] for half in (columns, rest) for pair in combinations(sorted(half), 2))

    found = members(BlockChoice(number=2), model)
    best = max(within(half) for half in combinations(range(6), 3))
    assert within(tuple(found[0])) == pytest.approx(best)


def test_a_model_of_some_columns_says_of_them_what_the_whole_one_does() -> None:
    model = model_of([[0, 1, 2], [3, 4, 5]], counted=0.5)
    columns = (1, 3, 4)
    part = restricted(model, columns)
    for (first, second), (of_first, of_second) in zip(combinations(range(3), 2), combinations(columns, 2), strict=True):
        np.testing.assert_array_equal(part.estimate((first, second)), model.estimate((of_first, of_second)))
    assert part.records == model.records
