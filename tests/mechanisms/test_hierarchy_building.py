"""Hierarchies that are built are such as may be declared, and say what they were built from."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.build import (
    day_rows,
    described_hierarchy,
    interval_rows,
    labels_beyond,
    outline_rows,
    parent_rows,
    prefix_rows,
    written_day,
)
from crowdblend.mechanisms.hierarchies.declare import (
    HierarchyError,
    IntervalHierarchy,
    ValueHierarchy,
    hierarchy_faults,
)
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(derandomize=True, max_examples=60)
@given(st.integers(-50, 50), st.integers(1, 60), st.integers(1, 9), st.integers(2, 4))
def test_equal_cuts_give_the_labels_of_declared_intervals(lower, span, width, times) -> None:
    upper = lower + span
    cuts = [range(lower + step, upper, step) for step in (width, width * times)]
    built = ValueHierarchy.from_rows(interval_rows(lower, upper, cuts))
    closed = IntervalHierarchy(lower=lower, upper=upper, widths=(width, width * times))
    numbers = np.arange(lower, upper)
    for level in range(4):
        ours = built.labels(built.codes_of_integers(numbers, level), level)
        assert ours == closed.labels(closed.codes_of_integers(numbers, level), level)


def test_cuts_that_tear_a_finer_interval_are_refused_with_their_level() -> None:
    assert hierarchy_faults(interval_rows(0, 120, [[18, 25, 65], [25]])) == []
    with pytest.raises(HierarchyError, match="doesn't cut at 30") as torn:
        interval_rows(0, 120, [[18, 25, 65], [30]])
    assert torn.value.row == 1
    for cuts in ([[5, 5]], [[0]], [[120]], [[9, 3]]):
        with pytest.raises(HierarchyError, match="ascend"):
            interval_rows(0, 120, cuts)
    with pytest.raises(HierarchyError, match="rows"):
        interval_rows(0, 10**7, [])


def test_days_lie_in_their_months_quarters_years_and_decades() -> None:
    start = date(1999, 12, 30)
    days = [(start + timedelta(days=number)).isoformat() for number in range(800)]
    rows = day_rows(days, ["month", "quarter", "year", "decade"])
    assert hierarchy_faults(rows) == []
    by_day = {row[0]: row[1:] for row in rows}
    assert by_day["1999-12-31"] == ("1999-12", "1999-Q4", "1999", "1990s", "*")
    assert by_day["2001-04-01"] == ("2001-04", "2001-Q2", "2001", "2000s", "*")
    for day, (month, quarter, *_) in by_day.items():
        assert day.startswith(month)
        assert int(quarter[-1]) == (date.fromisoformat(day).month - 1) // 3 + 1
    for levels in (["week"], ["year", "month"], ["month", "month"]):
        with pytest.raises(HierarchyError):
            day_rows(days, levels)


def test_days_are_written_as_records_write_them_in_english() -> None:
    for form in ("%Y-%m-%d", "%d.%m.%y", "%d %B %Y", "%b %d, %Y"):
        for day in (date(2026, 3, 31), date(1999, 12, 1)):
            assert written_day(day.isoformat(), form) == day.strftime(form)
    assert written_day("2026-03-01", "%-d/%-m at 100%%") == "1/3 at 100%"
    with pytest.raises(HierarchyError, match="'%j' is no part of a day"):
        written_day("2026-03-01", "%Y-%j")


@settings(derandomize=True, max_examples=200)
@given(st.sets(st.text("0123456789.", min_size=1, max_size=6), min_size=1, max_size=12), st.sampled_from(["_", ""]))
def test_prefixes_of_codes_of_any_lengths_are_a_hierarchy(values, mark) -> None:
    rows = prefix_rows(sorted(values), [4, 2, 1], mark=mark)
    assert all(row[3].startswith(row[0][:1]) for row in rows)
    if mark or len({len(value) for value in values}) == 1:
        assert hierarchy_faults(rows) == []


def test_prefixes_say_how_much_was_left_out() -> None:
    assert prefix_rows(["75011"], [3, 2], mark="_") == [("75011", "750__", "75___", "*")]
    assert prefix_rows(["62.01", "6"], [4, 2], mark="") == [("62.01", "62.0", "62", "*"), ("6", "6", "6", "*")]
    for lengths in ([], [2, 3], [2, 2], [1, 0], [3, 2, 0], [0], [-1]):
        with pytest.raises(HierarchyError):
            prefix_rows(["75011"], lengths, mark="_")


def test_an_outline_of_uneven_depth() -> None:
    lines = ["# regions", "South", "  Rhône", "    Lyon", "    Bron", "", "  Nice", "North", "  Nord", "    Lille"]
    assert outline_rows(lines) == [
        ("Lyon", "Rhône", "South", "*"),
        ("Bron", "Rhône", "South", "*"),
        ("Nice", "Nice", "South", "*"),
        ("Lille", "Nord", "North", "*"),
    ]
    assert outline_rows(["a", "b"]) == [("a", "*"), ("b", "*")]
    assert outline_rows(["*", " a", " b"]) == [("a", "*"), ("b", "*")]


@pytest.mark.parametrize(
    ("lines", "row"),
    [(["  a"], 0), (["a", "    b", "  c"], 2), (["a", "  b", "\tc"], 2), (["a", "  b", "    c", " d"], 3), ([], None)],
)
def test_an_outline_that_is_indented_wrongly_is_refused_with_its_line(lines, row) -> None:
    with pytest.raises(HierarchyError) as refused:
        outline_rows(lines)
    assert refused.value.row == row


def test_a_described_hierarchy_has_up_to_a_thousand_levels() -> None:
    for levels in (1, 1_000):
        assert described_hierarchy({"kind": "values/1", "rows": [], "levels": levels}).levels == levels
    for levels in (0, -1, 1_001, True, "2"):
        with pytest.raises(ValueError, match="a hierarchy has 1 … 1000 levels"):
            described_hierarchy({"kind": "values/1", "rows": [], "levels": levels})
    rows = [["a", "*"], ["B", "*"]]
    for fold_case in (False, None, 1, "yes", True):
        found = described_hierarchy({"kind": "values/1", "rows": rows, "levels": 2, "fold_case": fold_case})
        assert (found.fold_case, found.rows()) == (fold_case is True, sorted(rows))
    sound = {"kind": "interval/1", "lower": 0, "upper": 9, "widths": [3]}
    assert described_hierarchy(sound).description() == sound
    for change in ({"lower": 0.0}, {"upper": True}, {"widths": [3.0]}, {"widths": ["3"]}):
        with pytest.raises(TypeError, match="whole numbers"):
            described_hierarchy(sound | change)
    with pytest.raises(ValueError, match="kind of hierarchy is unknown"):
        described_hierarchy({"kind": "interval/2"})


@pytest.mark.parametrize(
    ("label", "published"),
    [
        ("7", [0]), ("-5", [0]), ("07", []), ("-6", []), ("20", []), ("7.0", []), ("< -5", [0, 1]), (">= 20", [0, 1]),
        ("< -4", []), (">= 19", []), ("< 20", []), (">= -5", []), ("[-5, 0)", [1]), ("[15, 20)", [1]),
        ("[0, 10)", []), ("[-6, 0)", []), ("[20, 25)", []), ("x", []), ("*", [0, 1, 2]), ("", []),
        ("9" * 20, []), ("9" * 21, []), ("[0, 5)x", []),
    ],
)  # fmt: skip
def test_a_label_is_one_of_a_level_of_intervals_or_not(label: str, published: list[int]) -> None:
    hierarchy = IntervalHierarchy(lower=-5, upper=20, widths=(5,))
    found = [level for level in range(3) if not labels_beyond(hierarchy, [label], level=level)]
    assert found == published
    values = ValueHierarchy.from_rows([("7", "x"), ("8", "[-5, 0)")])
    told = [level for level in range(2) if not labels_beyond(values, [label], level=level)]
    assert told == [level for level, own in enumerate([("7", "8"), ("x", "[-5, 0)")]) if label in (*own, "*")]


def test_codes_with_their_parents() -> None:
    rows = parent_rows({"A": "", "A1": "A", "A11": "A1", "A12": "A1", "B": "", "B9": "B"})
    assert sorted(rows) == [("A11", "A1", "A", "*"), ("A12", "A1", "A", "*"), ("B9", "B9", "B", "*")]
    assert hierarchy_faults(rows) == []
    for circle in ({"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}, {"x": "", "b": "c", "c": "b"}, {}):
        with pytest.raises(HierarchyError):
            parent_rows(circle)
