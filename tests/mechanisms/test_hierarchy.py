"""Declared hierarchies are total and monotone, whatever is declared and whatever is looked up."""

from __future__ import annotations

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import HierarchyError, IntegerIndex, ValueHierarchy, canonical_integer
from hypothesis import given, settings
from hypothesis import strategies as st


def labels(hierarchy, texts, level):
    return hierarchy.labels(hierarchy.codes_of_texts(texts, level), level)


@pytest.mark.parametrize(
    ("rows", "row", "words"),
    [
        ([], None, "no value"),
        ([()], 0, "empty"),
        ([("a", "*"), ("b",)], 1, "1 levels where the first has 2"),
        ([("a", "x", "*"), ("b", "", "*")], 1, "level 1 is empty"),
        ([("a", "*"), ("b", "*"), ("a", "*")], 2, "twice, first in row 1"),
        ([("a", "x", "1"), ("b", "x", "2")], 1, "equal labels must stay equal"),
        ([("a", "*", "x")], 0, "equal labels must stay equal"),
        ([("*", "x")], 0, "equal labels must stay equal"),
        ([("a\nb", "*")], 0, "line break"),
        ([("a", "x\r")], 0, "line break"),
        ([("a\0", "*")], 0, "NUL"),
        ([("\ud800", "*")], 0, "Unicode"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_row(rows, row, words):
    with pytest.raises(HierarchyError, match=words) as refusal:
        ValueHierarchy.from_rows(rows)
    assert refusal.value.row == row


@st.composite
def declared_rows(draw):
    """Rows that may or may not be monotone."""
    levels = draw(st.integers(1, 4))
    label = st.sampled_from(["a", "b", "c", "*", "1", "12", "-3"])
    return draw(st.lists(st.tuples(*[label] * levels), min_size=1, max_size=6))


@settings(derandomize=True, max_examples=200)
@given(rows=declared_rows())
def test_rows_are_taken_exactly_if_unique_and_monotone(rows):
    levels = len(rows[0])
    everything = [*rows, ("*",) * levels]
    monotone = all(
        one[level + 1] == two[level + 1]
        for one in everything
        for two in everything
        for level in range(levels - 1)
        if one[level] == two[level]
    )
    if not monotone or len({row[0] for row in rows}) < len(rows):
        with pytest.raises(HierarchyError):
            ValueHierarchy.from_rows(rows)
        return
    hierarchy = ValueHierarchy.from_rows(rows)
    texts = [row[0].encode() for row in rows]
    for level in range(levels):
        assert labels(hierarchy, texts, level) == [row[level] for row in rows]
        codes = hierarchy.codes_of_texts([*texts, b"unseen"], level)
        assert set(codes.tolist()) == set(range(hierarchy.size(level)))
        names = hierarchy.labels(np.arange(hierarchy.size(level)), level)
        assert names == ["*", *sorted(names[1:], key=str.encode)]
    assert ValueHierarchy.from_rows(rows[::-1]).digest() == hierarchy.digest()


@settings(derandomize=True)
@given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_integers_are_looked_up_as_their_texts(numbers):
    declared = ["-9223372036854775808", "9223372036854775807", "0", "-3", "12", "012", "+4", "-0", "1e3"]
    wide = ValueHierarchy.from_values(declared)
    narrow = ValueHierarchy.from_values(["3", "4", "8", "x"])
    asked = [*numbers, 0, 3, 4, 5, 8, 9, 2, -3, 12, 1000, -(2**63), 2**63 - 1]
    for hierarchy in (wide, narrow, ValueHierarchy.from_values(["x"])):
        by_text = hierarchy.codes_of_texts([str(number).encode() for number in asked], 0)
        assert hierarchy.codes_of_integers(np.array(asked, dtype=np.int64), 0).tolist() == by_text.tolist()


@settings(derandomize=True)
@given(
    pairs=st.dictionaries(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), st.integers(1, 99), max_size=9),
    asked=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-12, 12), max_size=30),
)
def test_the_integer_index_is_a_dictionary(pairs, asked):
    index = IntegerIndex.of(list(pairs.items()))
    expected = [pairs.get(number, 0) for number in [*asked, *pairs]]
    assert index.lookup(np.array([*asked, *pairs], dtype=np.int64)).tolist() == expected


def test_canonical_integers_are_those_that_print_as_themselves():
    for text in (b"", b"-", b"+1", b"01", b"-0", b"1.0", b" 1", b"1\n", b"1_0", "١".encode(), b"0x1"):
        assert canonical_integer(text) is None
    for number in (0, 1, -1, 10**18, -(10**18), 2**63):
        assert canonical_integer(str(number).encode()) == number
    assert canonical_integer(b"9" * 10_000) > 2**63
    assert canonical_integer(b"-" + b"9" * 10_000) < -(2**63)


def test_values_without_regard_to_case_are_published_as_declared():
    streets = ValueHierarchy.from_values(["Straße", "Weg"]).folded()
    assert labels(streets, [b"STRASSE", b"WEG", b"weg", b"\xff", None], 0) == ["Straße", "Weg", "Weg", "*", "*"]
    with pytest.raises(HierarchyError, match="differ in case alone"):
        ValueHierarchy.from_values(["a", "A"]).folded()


def test_numbers_of_up_to_forty_characters_are_read_exactly():
    for text in ("1" * 40, "-" + "1" * 39, "9" * 40):
        assert canonical_integer(text.encode()) == int(text)
    assert canonical_integer(b"1" * 41) == canonical_integer(b"9" * 5_000) == 10**40
    assert canonical_integer(b"-" + b"1" * 40) == canonical_integer(b"-" + b"9" * 5_000) == -(10**40)
