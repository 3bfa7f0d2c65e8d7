"""Hierarchies that are built are such as may be declared, and say what they were built from."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.build import (
    day_rows,
    interval_rows,
    outline_rows,
    parent_rows,
    prefix_rows,
    written_day,
)
from crowdblend.mechanisms.hierarchies.check import hierarchy_faults
from crowdblend.mechanisms.hierarchies.declare import HierarchyError, IntervalHierarchy, ValueHierarchy
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


def test_codes_with_their_parents() -> None:
    rows = parent_rows({"A": "", "A1": "A", "A11": "A1", "A12": "A1", "B": "", "B9": "B"})
    assert sorted(rows) == [("A11", "A1", "A", "*"), ("A12", "A1", "A", "*"), ("B9", "B9", "B", "*")]
    assert hierarchy_faults(rows) == []
    for circle in ({"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}, {"x": "", "b": "c", "c": "b"}, {}):
        with pytest.raises(HierarchyError):
            parent_rows(circle)
