"""Days by their bounds: the same labels as Python's calendar gives, day by day, each level a coarsening of the last."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.build import DAY_LEVELS, DateHierarchy, day_rows, labels_beyond
from crowdblend.mechanisms.hierarchies.codebook import MOST_LISTED, stage_labels
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from hypothesis import given, settings
from hypothesis import strategies as st

PARTS = {
    "month": lambda day: f"{day.year:04}-{day:%m}",
    "quarter": lambda day: f"{day.year:04}-Q{1 + (day.month - 1) // 3}",
    "year": lambda day: f"{day.year:04}",
    "decade": lambda day: f"{day.year - day.year % 10:04}s",
}


def every_day(first: str, last: str) -> list[date]:
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return [start + timedelta(days=number) for number in range((end - start).days + 1)]


def labels(hierarchy: DateHierarchy, texts: list[bytes | None], level: int) -> list[str]:
    return hierarchy.labels(hierarchy.codes_of_texts(texts, level), level)


# 1900 and 2100 have no 29 February, 2000 has one; both ends lie within a month, a quarter, a year and a decade.
@pytest.mark.parametrize(("first", "last"), [("1899-11-30", "2101-02-14"), ("0999-12-30", "1001-01-02")])
def test_every_day_of_a_range_lies_where_the_calendar_says(first, last) -> None:
    hierarchy = DateHierarchy.of(first=first, last=last, merged=DAY_LEVELS)
    days = every_day(first, last)
    texts: list[bytes | None] = [day.isoformat().encode() for day in days]
    expected = [[day.isoformat() for day in days], *([part(day) for day in days] for part in PARTS.values())]
    for level, own in enumerate([*expected, ["*"] * len(days)]):
        assert labels(hierarchy, texts, level) == own
        declared = hierarchy.labels(np.arange(hierarchy.size(level)), level)
        assert declared == ["*", *sorted({*own} - {"*"})], "no label is of a day outside"
        assert labels_beyond(hierarchy, [*own, "1066", "2026-W05"], level=level) == {"1066", "2026-W05"}
    around = [days[0] - timedelta(days=1), days[-1] + timedelta(days=1)]
    for level in range(hierarchy.levels):
        assert labels(hierarchy, [day.isoformat().encode() for day in around], level) == ["*", "*"]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    start=st.integers(date.min.toordinal(), date.max.toordinal() - 5_000),
    span=st.integers(0, 5_000),
    merged=st.sets(st.sampled_from(DAY_LEVELS)).map(lambda chosen: [name for name in DAY_LEVELS if name in chosen]),
)
def test_each_level_is_a_coarsening_of_the_one_before(start, span, merged) -> None:
    first, last = (date.fromordinal(number).isoformat() for number in (start, start + span))
    hierarchy = DateHierarchy.of(first=first, last=last, merged=merged)
    texts: list[bytes | None] = [None, b"x", *(day.isoformat().encode() for day in every_day(first, last))]
    codes = [hierarchy.codes_of_texts(texts, level) for level in range(hierarchy.levels)]
    for level, (finer, coarser) in enumerate(pairwise(codes)):
        assert len({*zip(finer.tolist(), coarser.tolist(), strict=True)}) == len({*finer.tolist()})
        assert (hierarchy.coarser(finer, level=level, to=level + 1) == coarser).all()
        assert sum(size * count for size, count in hierarchy.label_sizes(level).items()) == span + 1
    listed = ValueHierarchy.from_rows(day_rows([day.isoformat() for day in every_day(first, last)], merged))
    for level in range(hierarchy.levels):
        assert (listed.codes_of_texts(texts, level) == codes[level]).all(), "as in a file with a row a day"


def test_a_time_of_day_counts_as_its_day_and_what_is_no_day_is_unseen() -> None:
    hierarchy = DateHierarchy.of(first="2000-02-01", last="2000-03-31", merged=["month"])
    same = ["", " 00:00:00", "T00:00:00", " 23:59:59.999999999", "T14:05", " 00:00:00.0"]
    texts: list[bytes | None] = [f"2000-02-29{time}".encode() for time in same]
    assert labels(hierarchy, texts, 0) == ["2000-02-29"] * len(same)
    others = (
        "", "2000-02-30", "2000-02-29 ", " 2000-02-29", "20000229", "2000-2-29", "29.02.2000", "2000-02", "2000-W09-2",
        "2000-02-29 24:00:00", "2000-02-29 14", "2000-02-29 14:05:00Z", "2000-02-29T14:05:00+01:00", "2000-02-29T14:5",
        "2000-02-29\n", "2000-02-29 00:00:00\n", "2000-02-29 00:00:60", "+2000-02-29", "-2000-02-29", "12000-02-29",
        "２０００-02-29", "2000-02-29 14:05:00.", "*", "11016", "1999-12-31 23:59:59",
    )  # fmt: skip
    assert labels(hierarchy, [None, b"\xff2000-02-29", *(text.encode() for text in others)], 0) == ["*"] * 27
    assert hierarchy.codes_of_integers(np.array([0, 20000229, -1, 11016]), 0).tolist() == [0] * 4


@pytest.mark.parametrize(
    ("first", "last", "merged", "what"),
    [
        ("2000-01-02", "2000-01-01", [], "comes before"),
        ("1900-02-29", "2000-01-01", [], "is no day"),
        ("1900-01-01", "20000101", [], "is no day"),
        ("1900-01-01", "2000-W01-1", [], "is no day"),
        ("1400-01-01", "2000-01-01", [], "more than the 200000"),
        ("2000-01-01", "2000-01-01", ["week"], "no level 'week'"),
        ("2000-01-01", "2000-01-01", ["year", "month"], "fine to coarse"),
        ("2000-01-01", "2000-01-01", ["year", "year"], "fine to coarse"),
    ],
)
def test_days_that_are_none_are_refused(first, last, merged, what) -> None:
    with pytest.raises(ValueError, match=what):
        DateHierarchy.of(first=first, last=last, merged=merged)


def test_the_lookup_of_more_days_than_are_listed_has_those_that_are_published() -> None:
    """No hierarchy that is listed value by value is so long where a certificate carries it."""
    hierarchy = DateHierarchy.of(first="1900-01-01", last="2010-12-31", merged=["year"])
    assert hierarchy.size(0) > MOST_LISTED
    column = {"column": "born", "level": 0, "hierarchy": hierarchy.description()}
    shown = ["*", "1950-03-04", "2010-12-31"]
    found = list(stage_labels({"map": {"columns": [column]}}, published={("born", 1): shown}))
    assert [(one.label, one.lower, one.upper) for one in found] == [(label, "", "") for label in shown]
