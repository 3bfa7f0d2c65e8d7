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
