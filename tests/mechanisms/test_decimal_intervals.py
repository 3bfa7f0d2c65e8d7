"""Intervals of decimal numbers: those of exact fractions, whatever numbers are stored as."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from math import inf, nan, nextafter

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.build import described_hierarchy, labels_beyond
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals
from hypothesis import given, settings
from hypothesis import strategies as st


def made(lower: str, upper: str, *widths: str) -> DecimalIntervals:
    return DecimalIntervals.of(lower=Decimal(lower), upper=Decimal(upper), widths=[Decimal(width) for width in widths])


@st.composite
def intervals(draw) -> DecimalIntervals:
    places = draw(st.integers(1, 15))
    most = 10**15
    lower = draw(st.integers(-most, most - 1) | st.integers(-100, 100))
    upper = min(most, lower + draw(st.integers(1, 500) | st.integers(1, most)))
    widths, width = [], 1
    for factor in draw(st.lists(st.integers(2, 50), max_size=3)):
        width *= factor
        widths.append(width)
    shown = [Decimal(units).scaleb(-places) for units in (lower, upper, *widths)]
    return DecimalIntervals.of(lower=shown[0], upper=shown[1], widths=shown[2:])


def expected(hierarchy: DecimalIntervals, number: Fraction, level: int) -> str:
    """The label of an exact number, by fractions."""
    if level == hierarchy.levels - 1:
        return "*"
    unit = Fraction(1, 10**hierarchy.places)
    lower, upper = hierarchy.units.lower * unit, hierarchy.units.upper * unit
    width = unit if level == 0 else hierarchy.units.widths[level - 1] * unit
    if number < lower:
        return f"< {hierarchy.shown(hierarchy.units.lower)}"
    if number >= upper:
        return f">= {hierarchy.shown(hierarchy.units.upper)}"
    start = lower + (number - lower) // width * width
    return f"[{hierarchy.shown(int(start / unit))}, {hierarchy.shown(int(min(start + width, upper) / unit))})"


@pytest.mark.slow
@settings(derandomize=True, max_examples=300)
@given(data=st.data())
def test_numbers_of_as_many_places_lie_where_exact_fractions_lie(data):
    """A decimal, its text and its nearest double all have the label of the exact number, at bounds and beside them."""
    hierarchy = data.draw(intervals())
    lower, upper = hierarchy.units.lower, hierarchy.units.upper
    units = data.draw(
        st.lists(st.integers(lower - 2, min(upper + 2, 10**15)) | st.sampled_from([lower, upper - 1, upper]))
    )
    for level in range(hierarchy.levels):
        labels = [expected(hierarchy, Fraction(one, 10**hierarchy.places), level) for one in units]
        texts = [hierarchy.shown(one).encode() for one in units]
        assert hierarchy.labels(hierarchy.codes_of_texts(texts, level), level) == labels
        doubles = np.array([float(text) for text in texts], dtype=np.float64)
        codes = hierarchy.codes_of_numbers(doubles, level)
        assert hierarchy.labels(codes, level) == labels
        assert not labels_beyond(hierarchy, labels, level=level)
        for to in range(level, hierarchy.levels):
            coarser = hierarchy.coarser(codes, level=level, to=to)
            assert (coarser == hierarchy.codes_of_numbers(doubles, to)).all()


def test_neighbouring_doubles_of_a_bound_are_told_apart():
    hierarchy = made("0.0", "1.0", "0.1")
    for tenth in range(1, 11):
        bound = tenth / 10
        below, at = hierarchy.codes_of_numbers(np.array([nextafter(bound, -inf), bound]), 0).tolist()
        assert at == below + 1


def test_whatever_is_no_number_is_in_the_bucket_and_everything_has_a_label():
    hierarchy = made("0", "2.5", "0.5")
    assert hierarchy.levels == 3
    texts = [b"1.57", b"1", b"1e-1", b"+.5", b"-0.0", b"2.5", b"-1", b"1e400", b"", b"1,5", b"nan", b"0x1", None]
    labels = ["[1.5, 2.0)", "[1.0, 1.5)", "[0.0, 0.5)", "[0.5, 1.0)", "[0.0, 0.5)", ">= 2.5", "< 0.0", ">= 2.5"]
    assert hierarchy.labels(hierarchy.codes_of_texts(texts, 1), 1) == labels + ["*"] * 5
    numbers = np.array([nan, inf, -inf, 1.5])
    assert hierarchy.labels(hierarchy.codes_of_numbers(numbers, 0), 0) == ["*", ">= 2.5", "< 0.0", "[1.5, 1.6)"]
    integers = np.array([-(2**63), 2, 2**63 - 1])
    assert hierarchy.labels(hierarchy.codes_of_integers(integers, 1), 1) == ["< 0.0", "[2.0, 2.5)", ">= 2.5"]


def test_labels_cover_as_many_units_as_lie_between_their_bounds():
    """The last label of a width that doesn't divide the domain is narrower; whatever lies outside may be any number."""
    hierarchy = made("-0.3", "2.5", "0.5", "1.5")
    units = [number / 10 for number in range(-3, 25)]
    for level in range(hierarchy.levels):
        of_units = hierarchy.codes_of_numbers(np.array(units), level).tolist()
        tally = Counter(of_units)
        codes = np.arange(hierarchy.size(level))
        expected = [tally.get(code, len(units)) if code or level == 3 else len(units) for code in codes.tolist()]
        assert hierarchy.values_covered(codes, level).tolist() == expected
        assert hierarchy.label_sizes(level) == dict(Counter(tally.values()))


@pytest.mark.parametrize(
    "label",
    ["[1.5, 2.5)", "[1.50, 2.0)", "[1.25, 1.75)", "< 0.5", ">= 2.0", "1.5", "[3.0, 3.5)", "[1e0, 1.5)", "[., .)"],
)
def test_labels_that_are_not_published_are_told(label):
    hierarchy = made("0", "2.5", "0.5")
    assert labels_beyond(hierarchy, [label, "*", "[1.5, 2.0)", "< 0.0", ">= 2.5"], level=1) == {label}


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (("1.5", "1.5"), "lower < upper"),
        (("0.0", "inf"), "finite"),
        (("0.0", "1e15"), "15 digits"),
        (("0.0", "10000000000000.01"), "15 digits"),
        (("-10000000000000.01", "0.0"), "15 digits"),
        (("0.01", "1.00", "10000000000000.01"), "15 digits"),
        (("0.0000000000000001", "1.0"), "15 digits"),
        (("0.0", "1e-16"), "15 digits"),
        (("0.0", "1e-999999999"), "15 digits"),
        (("0.0", "1e999999999"), "15 digits"),
        (("0.0", "2.5", "0.0"), "dividing the next"),
        (("0.0", "2.5", "0.5", "0.7"), "dividing the next"),
        (("0.0", "2.5", "0.5", "-1"), "dividing the next"),
    ],
)
def test_other_intervals_are_refused(numbers, said):
    with pytest.raises(ValueError, match=said):
        made(*numbers)


def test_intervals_have_up_to_fifteen_digits_and_places():
    for numbers in (("0.0", "100000000000000.0"), ("-10000000000000.00", "0.00"), ("0.000000000000001", "1.0")):
        hierarchy = made(*numbers)
        bounds = hierarchy.description()
        assert (Decimal(bounds["lower"]), Decimal(bounds["upper"])) == tuple(map(Decimal, numbers))
    assert made("0e20", "2.5").description()["lower"] == "0.0"


@pytest.mark.parametrize(
    "change", [{"lower": 0.5}, {"lower": "0"}, {"upper": "1e3"}, {"widths": "0.5"}, {"widths": [0.5]}, {"widths": None}]
)
def test_descriptions_that_are_none_are_refused(change):
    with pytest.raises((TypeError, ValueError)):
        described_hierarchy(made("0.0", "2.5", "0.5").description() | change)
