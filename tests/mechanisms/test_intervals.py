"""Declared intervals: the same as a table written out value by value, but for domains of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from hypothesis import given, settings
from hypothesis import strategies as st


def expected_label(value: int, lower: int, upper: int, width: int) -> str:
    if value < lower:
        return f"< {lower}"
    if value >= upper:
        return f">= {upper}"
    if width == 0:
        return str(value)
    start = lower
    while start + width <= value:
        start += width
    return f"[{start}, {min(start + width, upper)})"


@st.composite
def intervals(draw):
    lower = draw(st.integers(-50, 50))
    upper = lower + draw(st.integers(1, 60))
    widths, width = [], 1
    for factor in draw(st.lists(st.integers(2, 5), max_size=3)):
        width *= factor
        widths.append(width)
    return IntervalHierarchy(lower=lower, upper=upper, widths=tuple(widths))


@settings(derandomize=True, max_examples=200)
@given(hierarchy=intervals())
def test_labels_are_those_of_a_written_table(hierarchy):
    values = [*range(hierarchy.lower - 4, hierarchy.upper + 5), -(2**63), 2**63 - 1]
    array = np.array(values, dtype=np.int64)
    for level in range(hierarchy.levels):
        codes = hierarchy.codes_of_integers(array, level)
        assert codes.tolist() == hierarchy.codes_of_texts([str(v).encode() for v in values], level).tolist()
        if level == hierarchy.levels - 1:
            assert hierarchy.labels(codes, level) == ["*"] * len(values)
            continue
        width = (0, *hierarchy.widths)[level]
        assert hierarchy.labels(codes, level) == [
            expected_label(v, hierarchy.lower, hierarchy.upper, width) for v in values
        ]
        assert set(codes.tolist()) | {0} == set(range(hierarchy.size(level)))


@settings(derandomize=True, max_examples=200)
@given(hierarchy=intervals())
def test_levels_are_monotone_and_codes_ascend_with_the_numbers(hierarchy):
    values = np.arange(hierarchy.lower - 3, hierarchy.upper + 3, dtype=np.int64)
    previous = values
    for level in range(hierarchy.levels):
        codes = hierarchy.codes_of_integers(values, level)
        assert np.all(np.diff(codes) >= 0)
        same = np.diff(previous) == 0
        if level:
            assert np.all(np.diff(codes)[same] == 0)
        previous = codes


def test_the_example_of_the_documentation():
    income = IntervalHierarchy(lower=0, upper=200000, widths=(5000, 20000))
    texts = [b"0", b"4999", b"5000", b"199999", b"200000", b"-1", b"12.5", b"", None, b"007", b"9" * 9999]
    assert income.levels == 4
    assert income.labels(income.codes_of_texts(texts, 1), 1) == [
        "[0, 5000)", "[0, 5000)", "[5000, 10000)", "[195000, 200000)", ">= 200000", "< 0", "*", "*", "*", "*",
        ">= 200000",
    ]  # fmt: skip
    assert income.labels(income.codes_of_texts(texts, 0), 0)[:6] == [
        "0",
        "4999",
        "5000",
        "199999",
        ">= 200000",
        "< 0",
    ]
    assert set(income.labels(income.codes_of_texts(texts, 3), 3)) == {"*"}


def test_a_huge_domain_costs_nothing():
    wide = IntervalHierarchy(lower=-(2**59), upper=2**59, widths=(2**40,))
    assert wide.size(0) == 2**60 + 3
    codes = wide.codes_of_integers(np.array([-(2**59), 0, 2**59 - 1, 2**63 - 1, -(2**63)]), 0)
    assert wide.labels(codes, 0) == [str(-(2**59)), "0", str(2**59 - 1), f">= {2**59}", f"< {-(2**59)}"]


def test_codes_and_levels_out_of_range_are_errors():
    tens = IntervalHierarchy(lower=0, upper=100, widths=(10,))
    for code in (-1, tens.size(1)):
        with pytest.raises(IndexError):
            tens.labels(np.array([code]), 1)
    for level in (-1, 3):
        with pytest.raises(IndexError):
            tens.size(level)


def test_the_digest_names_bounds_and_widths():
    digests = {
        IntervalHierarchy(lower=a, upper=b, widths=w).digest()
        for a in (0, 1) for b in (50, 60) for w in ((), (5,), (5, 10))
    }  # fmt: skip
    assert len(digests) == 12


@settings(derandomize=True, max_examples=100)
@given(hierarchy=intervals())
def test_a_coarser_code_is_that_of_the_value_itself(hierarchy):
    values = [b"", b"unknown", *(str(v).encode() for v in range(hierarchy.lower - 3, hierarchy.upper + 3))]
    for level in range(hierarchy.levels):
        codes = hierarchy.codes_of_texts(values, level)
        for to in range(level, hierarchy.levels):
            found = hierarchy.coarser(codes, level=level, to=to)
            assert found.tolist() == hierarchy.codes_of_texts(values, to).tolist()


def test_bounds_lie_within_two_to_the_60_and_widths_within_twice_that():
    widest = IntervalHierarchy(lower=-(2**60), upper=2**60, widths=(1, 2**60, 2**61))
    assert [widest.size(level) for level in range(widest.levels)] == [2**61 + 3, 2**61 + 3, 5, 4, 1]
    for change, said in (
        ({"lower": -(2**60) - 1}, "lower < upper, both within"),
        ({"upper": 2**60 + 1}, "lower < upper, both within"),
        ({"widths": (2**61 + 1,)}, "at most 2"),
        ({"widths": (2**62,)}, "at most 2"),
        ({"widths": (0, 5)}, r"at least 1, not \[0, 5\]"),
        ({"widths": (2, 2)}, r"each dividing the next, not \[2, 2\]"),
        ({"widths": (2, 4, 2)}, "each dividing the next"),
        ({"widths": (2, 5)}, "each dividing the next"),
    ):
        with pytest.raises(ValueError, match=said):
            replace(widest, **change)
