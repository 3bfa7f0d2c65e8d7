"""Schedules have five fields, are refused in words of our own, and mean what Prefect's scheduler does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from crowdblend.deploy.serving.cron import next_times, require_five_fields
from crowdblend.mechanisms.kernel.errors import InputRefused
from hypothesis import given, settings
from hypothesis import strategies as st

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        ("* * * * * *", "has 6 fields, and a schedule has five"),
        ("0 3 1 * * * 2030", "has 7 fields"),
        ("", "has 0 fields"),
        ("@daily", "has 1 field, and"),
        ("60 * * * *", "the minute 60 is not within 0 and 59"),
        ("0 24 * * *", "the hour 24 is not within 0 and 23"),
        ("0 3 0 * *", "the day of the month 0 is not within 1 and 31"),
        ("0 3 1 13 *", "the month 13 is not within 1 and 12"),
        ("0 3 * * 8", "the day of the week 8 is not within 0 and 7"),
        ("0 3 L * *", "'l' is no day of the month"),
        ("0 3 * * 1#2", "'1#2' is no day of the week"),
        ("0 3 ? * *", "is no day of the month"),
        ("30-10 * * * *", "ends before it begins"),
        ("*/0 * * * *", "the step 0 of the minute"),
        ("5/10 * * * *", "needs a range before it"),
        ("0 3 1 foo *", "'foo' is no month"),
        ("0 3 1 mon *", "'mon' is no month"),
        ("1, * * * *", "'' is no minute"),
        ("R * * * *", "'r' is no minute"),
    ],
)
def test_what_is_no_schedule_of_five_fields_is_refused_in_our_own_words(cron: str, told: str) -> None:
    with pytest.raises(InputRefused) as refused:
        require_five_fields(cron)
    assert told in refused.value.message
    assert refused.value.where == "--cron"
    assert "minute, hour, day of the month, month, day of the week" in refused.value.message
    assert "pydantic" not in refused.value.message


def test_the_next_times_are_those_of_the_schedule() -> None:
    shown = [f"{when:%Y-%m-%dT%H:%M}" for when in next_times("0 3 1 * *", count=3, after=NOON)]
    assert shown == ["2026-12-01T03:00", "2027-01-01T03:00", "2027-02-01T03:00"]
    assert next_times("0 12 * * *", count=1, after=NOON) == (NOON + timedelta(days=1),)
    assert require_five_fields(" 0  3 1 JAN-mar  Mon ") == "0 3 1 jan-mar mon"
    with pytest.raises(InputRefused, match="never comes"):
        next_times("0 0 30 2 *", count=1, after=NOON)


def fields(least: int, greatest: int) -> st.SearchStrategy[str]:
    """Fields as people write them: `*`, numbers, ranges, steps, lists."""
    number = st.integers(least, greatest)
    span = st.tuples(number, number).map(sorted).map(lambda ends: f"{ends[0]}-{ends[1]}")
    stepped = st.tuples(st.one_of(st.just("*"), span), st.integers(1, greatest)).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    return st.one_of(
        st.just("*"), stepped, st.lists(st.one_of(number.map(str), span), min_size=1, max_size=3).map(",".join)
    )


@given(st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 7)).map(" ".join))
@settings(max_examples=150)
def test_what_is_taken_is_a_schedule_of_prefects_that_begins_on_whole_minutes(cron: str) -> None:
    found = next_times(require_five_fields(cron), count=3, after=NOON)
    assert len(found) == 3
    assert all(earlier < later for earlier, later in pairwise((NOON, *found)))
    assert all((when.second, when.microsecond) == (0, 0) for when in found)
