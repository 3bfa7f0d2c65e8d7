"""Schedules have five fields, are refused otherwise, and mean what Prefect's scheduler does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from crowdblend.deploy.serving.serve_settings import Schedule, require_five_fields
from crowdblend.mechanisms.kernel.errors import InputRefused
from hypothesis import given, settings
from hypothesis import strategies as st

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
OTHER_FORMS = ["* * * * * *", "0 3 1 * * * 2030", "", "@daily", "0 3 * * 1#2", "0 3 ? * *", "0 3 1 é *"]
NEVER = [
    "60 * * * *",
    "0 24 * * *",
    "0 3 0 * *",
    "0 3 1 13 *",
    "0 3 * * 8",
    "*/0 * * * *",
    "0 3 1 foo *",
    "0 3 1 mon *",
]
NEVER += ["1, * * * *", "R * * * *", "0 0 30 2 *"]


@pytest.mark.parametrize("cron", OTHER_FORMS + NEVER)
def test_what_is_no_schedule_of_five_fields_is_refused(cron: str) -> None:
    with pytest.raises(InputRefused) as refused:
        Schedule(cron=require_five_fields(cron)).next_times(count=1, after=NOON)
    assert (refused.value.cause, refused.value.where) == ("not-a-schedule", "--cron")
    assert ("never comes" in refused.value.what) == (cron in NEVER)


def test_the_next_times_are_those_of_the_schedule() -> None:
    monthly = Schedule(cron=require_five_fields(" 0  3 1 JAN-mar  Mon "))
    assert monthly.cron == "0 3 1 jan-mar mon"
    first = Schedule(cron="0 3 1 * *").next_times(count=3, after=NOON)
    assert [f"{when:%Y-%m-%dT%H:%M}" for when in first] == ["2026-12-01T03:00", "2027-01-01T03:00", "2027-02-01T03:00"]
    assert Schedule(cron="0 12 * * *").next_times(count=1, after=NOON) == (NOON + timedelta(days=1),)


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
    found = Schedule(cron=require_five_fields(cron)).next_times(count=3, after=NOON)
    assert len(found) == 3
    assert all(earlier < later for earlier, later in pairwise((NOON, *found)))
    assert all((when.second, when.microsecond) == (0, 0) for when in found)
