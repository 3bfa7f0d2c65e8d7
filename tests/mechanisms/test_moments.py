"""Sums of products: their sums and price against every small data set, sums that fit no word, the noise's law."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from secrets import token_bytes

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, REPLACEMENT
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kinds.moments import MomentsAnswer, MomentsProtection, columns_text

EPSILON = Decimal("0.7")
CASES = {
    "a number": [(-2, 1)],
    "labels": [2],
    "a number and labels": [(0, 3), 2],
    "two numbers": [(0, 1), (-3, -1)],
    "labels and labels": [2, 1],
    "three columns": [(0, 2), 2, (5, 6)],
}


def asked(columns, relation=ADD_REMOVE, epsilon=EPSILON):
    return MomentsAnswer(epsilon=epsilon, relation=relation, columns=columns_text(columns))


def layout_of(columns):
    """The codes that the product reads, by its own hierarchies."""
    sizes = [
        ValueHierarchy.from_values([str(label) for label in range(one)]).size(0)
        if isinstance(one, int)
        else IntervalHierarchy(lower=one[0], upper=one[1] + 1, widths=()).size(0)
        for one in columns
    ]
    return KeyLayout(sizes=tuple(sizes))


def code_of(column, value):
    """The code of a record's value: None is what is no number or no declared label."""
    if value is None:
        return 0
    if isinstance(column, int):
        return value + 1
    hierarchy = IntervalHierarchy(lower=column[0], upper=column[1] + 1, widths=())
    return int(hierarchy.codes_of_integers(np.array([value]), 0)[0])


def grouped(columns, records):
    layout = layout_of(columns)
    codes = [[code_of(one, value) for one, value in zip(columns, record, strict=True)] for record in records]
    keys = layout.keys(np.array(codes, dtype=np.int64).reshape(-1, len(columns)).T)
    return GroupCounts(keys, np.ones(len(records), dtype=np.int64))


def sums_by_definition(columns, records):
    """Each sum from its definition, in the order in which they are published."""
    told = [record for record in records if None not in record]
    parts = []  # per factor, per cell: what each record has there
    parts.append([[1] * len(told)])
    for place, column in enumerate(columns):
        own = [record[place] for record in told]
        if isinstance(column, int):
            parts.append([[int(value == label) for value in own] for label in range(column)])
        else:
            middle = math.floor((column[0] + column[1]) / 2)
            parts.append([[min(max(value, column[0]), column[1]) - middle for value in own]])
    found = []
    for first, second in itertools.combinations_with_replacement(range(len(parts)), 2):
        if first == second > 0 and isinstance(columns[first - 1], int):
            continue
        found.append(
            [sum(a * b for a, b in zip(one, other, strict=True)) for one in parts[first] for other in parts[second]]
        )
    return found


def values_of(column):
    return [None, *range(column)] if isinstance(column, int) else [None, *range(column[0] - 1, column[1] + 2)]


def all_records(columns):
    return list(itertools.product(*map(values_of, columns)))


def sums(columns, records, relation=ADD_REMOVE):
    protection = MomentsProtection(mechanism=asked(columns, relation), layout=layout_of(columns))
    return protection.sums(grouped(columns, records))


@pytest.mark.parametrize("columns", CASES.values(), ids=CASES)
def test_sums_are_those_of_their_definition(columns):
    rows = all_records(columns)
    for records in ([], rows, rows[::3] + rows[::2], *([row] for row in rows)):
        assert sums(columns, records) == sums_by_definition(columns, records)


def loss(mechanism, one, other):
    """The largest log-ratio of outcomes' probabilities of two data sets: of independent noise, it adds up."""
    return sum(
        Fraction(sum(abs(a - b) for a, b in zip(mine, its, strict=True))) / Fraction(mechanism.noise(block).scale)
        for block, mine, its in zip(mechanism.blocks, one, other, strict=True)
    )


def neighbours(columns, relation):
    """The sums of data sets that differ by a record, all of them: what else is there adds to both."""
    each = [sums_by_definition(columns, [row]) for row in all_records(columns)]
    nothing = sums_by_definition(columns, [])
    return [(nothing, one) for one in each] if relation == ADD_REMOVE else list(itertools.product(each, repeat=2))


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACEMENT])
@pytest.mark.parametrize("columns", CASES.values(), ids=CASES)
def test_no_record_costs_more_than_the_price_and_one_of_them_costs_it(columns, relation):
    """Over every record, values beyond the bounds and missing ones among them."""
    mechanism = asked(columns, relation)
    charged = price(mechanism, delta=Decimal(0)).epsilon
    worst = max(loss(mechanism, one, other) for one, other in neighbours(columns, relation))
    assert worst <= Fraction(charged)
    # All bounds are met at once where a number's bounds lie as far from its middle as the record that has them.
    assert relation == REPLACEMENT or worst > Fraction(charged) * Fraction(999_999, 1_000_000)
    for number, block in enumerate(mechanism.blocks):
        moved = max(
            sum(abs(a - b) for a, b in zip(one[number], other[number], strict=True))
            for one, other in neighbours(columns, ADD_REMOVE)
        )
        assert moved == block.most, "each block's own bound is met"


def test_the_noise_of_each_block_has_its_share():
    mechanism = asked([(0, 100), 3])
    assert [(block.cells, block.most) for block in mechanism.blocks] == [(1, 1), (1, 50), (3, 1), (1, 2_500), (3, 50)]
    for block in mechanism.blocks:
        assert mechanism.noise(block).scale == pytest.approx(block.most * 5 / 0.7)
        twice = asked([(0, 100), 3], REPLACEMENT)
        assert twice.noise(block).scale == pytest.approx(2 * block.most * 5 / 0.7)


def test_the_noise_of_each_sum_is_as_wide_as_is_priced():
    """By the mean of 30,000 distances from 0, each of which varies by as much as it is: 7 standard errors, 3e-12."""
    labels = 30_000
    mechanism = asked([labels, (0, 8)], epsilon=Decimal(3))
    protection = MomentsProtection(mechanism=mechanism, layout=layout_of([labels, (0, 8)]))
    empty = GroupCounts(np.empty((1, 0), dtype=np.int64), np.empty(0, dtype=np.int64))
    numbers = protection.protect(empty, randomness=token_bytes)
    assert protection.fits(numbers)
    begin, seen = 0, []
    for block in mechanism.blocks:
        drawn = np.abs(numbers[begin : begin + block.cells])
        begin += block.cells
        if block.cells == labels:
            decay = math.exp(-3 / (len(mechanism.blocks) * block.most))
            expected = 2 * decay / (1 - decay**2)
            assert abs(drawn.mean() / expected - 1) < 7 * drawn.std() / expected / math.sqrt(labels)
            seen.append(block.most)
    assert seen == [1, 4]


def test_sums_beyond_62_bits_count_as_the_nearest_within():
    """A refusal would tell how many records there are; exact below it, where 64-bit numbers would overflow midway."""
    columns = [(-1_000_000, 1_000_000), (-1_000_000, 1_000_000)]
    layout = layout_of(columns)
    low, high = code_of(columns[0], -1_000_000), code_of(columns[0], 1_000_000)
    protection = MomentsProtection(mechanism=asked(columns), layout=layout)
    keys = layout.keys(np.array([[low, high], [high, high]], dtype=np.int64))
    most = 1 << 62
    exact = protection.sums(GroupCounts(keys, np.array([9_000_000, 9_500_000])))
    million = 1_000_000
    assert exact == [
        [18_500_000],
        [500_000 * million],
        [18_500_000 * million],
        [most],
        [500_000 * million**2],
        [most],
    ]
    one_more = protection.sums(GroupCounts(keys, np.array([9_000_000, 9_500_001])))
    moved = [abs(a - b) for [a], [b] in zip(exact, one_more, strict=True)]
    assert all(own <= block.most for own, block in zip(moved, asked(columns).blocks, strict=True))


REFUSED = {
    "no columns": "",
    "no label": "0 labels",
    "bounds upside down": "5 to 4",
    "an empty range": "5 to 5",
    "another writing of a number": "05 to 9",
    "another zero": "-0 to 9",
    "no bound": "5 to",
    "a space more": "5 to  9",
    "a column more": "5 to 9; ",
    "too many columns": "; ".join(["2 labels"] * 51),
    "products that are too large": "0 to 4000000",
    "products of two that are too large": "0 to 2000000; 0 to 2000004",
    "too many sums": "2000 labels; 2000 labels",
    "a number that nobody reads": f"0 to {'9' * 5000}",
}


@pytest.mark.parametrize("columns", REFUSED.values(), ids=REFUSED)
def test_other_columns_are_refused(columns):
    with pytest.raises(ValueError, match=r"column|bounds|labels"):
        MomentsAnswer(epsilon=EPSILON, relation=ADD_REMOVE, columns=columns)


def test_columns_with_other_codes_are_refused():
    with pytest.raises(ValueError, match="other codes"):
        MomentsProtection(mechanism=asked([(0, 3), 2]), layout=layout_of([(0, 4), 2]))
