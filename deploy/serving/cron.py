"""Cron expressions of five fields, the times that they mean by a clock, and the lines that `serve` prints."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from ...mechanisms.kernel.errors import InputRefused, did_you_mean

if TYPE_CHECKING:
    from ...accounting.ledger.lookup import SeriesState


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
"""Each field's name, its least and its greatest number, and the names that stand for numbers from the least on."""
_PART = re.compile(r"(?P<first>\*|[0-9]{1,2}|[a-z]{3})(?:-(?P<last>[0-9]{1,2}|[a-z]{3}))?(?:/(?P<step>[0-9]{1,2}))?")
_FORM = 'minute, hour, day of the month, month, day of the week; "0 3 1 * *" is 03:00 on each month\'s first'


def require_five_fields(cron: str) -> str:
    """See that an expression has five fields of numbers, names, `*`, lists, ranges and steps.

    Expressions of six or seven fields have seconds or years in places that differ between programs; in one of them
    `*` for the seconds would begin sixty releases in a minute. Nicknames (`@daily`) and the signs `L`, `W`, `#` and
    `?` are no part of cron's own form.

    Args:
        cron: the expression.

    Returns:
        The expression with one space between its fields.

    Raises:
        InputRefused: it has another form, or a number is out of its range.
    """
    fields = cron.lower().split()
    if len(fields) != len(_FIELDS):
        raise _refused(f"{cron!r} has {len(fields)} field{'' if len(fields) == 1 else 's'}, and a schedule has five.")
    for text, (name, least, greatest, names) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            _require_part(part, name=name, least=least, greatest=greatest, names=names)
    return " ".join(fields)


def _require_part(part: str, *, name: str, least: int, greatest: int, names: tuple[str, ...]) -> None:
    found = _PART.fullmatch(part)
    if found is None or (found["first"] == "*" and found["last"]):
        raise _refused(f"{part!r} is no {name}.")
    ends = [_number(end, name=name, least=least, names=names) for end in found.group("first", "last") if end]
    for number in ends:
        if number is not None and not least <= number <= greatest:
            raise _refused(f"the {name} {number} is not within {least} and {greatest}.")
    if len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] > ends[1]:
        raise _refused(f"the range {part!r} of the {name} ends before it begins.")
    if found["step"] and not 1 <= int(found["step"]) <= greatest:
        raise _refused(f"the step {found['step']} of the {name} is not within 1 and {greatest}.")
    if found["step"] and found["first"] != "*" and not found["last"]:
        raise _refused(f"the step in {part!r} needs a range before it, such as */{found['step']}.")


def _number(text: str, *, name: str, least: int, names: tuple[str, ...]) -> int | None:
    """A number or the number of a name; None for `*`."""
    if text == "*":
        return None
    if text.isdigit():
        return int(text)
    if text not in names:
        raise _refused(f"{text!r} is no {name}.")
    return names.index(text) + least


def require_timezone(name: str) -> str:
    """See that there is a time zone of a name, as `Europe/Paris`.

    Args:
        name: as the IANA's list of time zones has it.

    Raises:
        InputRefused: there is none.
    """
    names = available_timezones()
    if name in names:
        return name
    remedy = f"{did_you_mean([name], names)} Name one of the IANA's list, such as Europe/Paris."
    raise InputRefused(f"there is no time zone {name!r}.", where="--timezone", remedy=remedy.strip())


def next_times(cron: str, *, count: int, after: datetime | None = None, timezone: str = "UTC") -> tuple[datetime, ...]:
    """The next times of a schedule, by the same computation as Prefect's scheduler.

    Args:
        cron: five fields, as `require_five_fields` gives them.
        count: how many.
        after: the time that they come after; None for now.
        timezone: by whose clock the schedule is meant, as `require_timezone` gives it.

    Returns:
        Times in UTC, in their order.

    Raises:
        InputRefused: there is no such time, as on 30 February.
    """
    from prefect.server.schemas.schedules import CronSchedule

    start = (after or datetime.now(UTC)).astimezone(UTC) + timedelta(seconds=1)
    try:
        found = list(asyncio.run(CronSchedule(cron=cron, timezone=timezone).get_dates(n=count, start=start)))
    except ValueError:
        found = []
    if not found:
        raise _refused(f"{cron!r} never comes.")
    return tuple(datetime.fromtimestamp(time.timestamp(), UTC) for time in found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """When releases come due.

    Args:
        cron: five fields, as `require_five_fields` gives them.
        timezone: by whose clock, as `require_timezone` gives it.
    """

    cron: str
    timezone: str

    def next_times(self, *, count: int, after: datetime | None = None) -> tuple[datetime, ...]:
        """The next times in UTC; as the function of this name."""
        return next_times(self.cron, count=count, after=after, timezone=self.timezone)


def _refused(what: str) -> InputRefused:
    return InputRefused(what, where="--cron", remedy=f"Write five fields: {_FORM}.")


EXHAUSTED = 4
"""Exit code of a schedule whose series has no release left."""


def say(text: str) -> None:
    """Print one line with the time, at once; a reader of the pipe that has gone ends nothing.

    Args:
        text: one sentence or a few; line breaks of a list become spaces.
    """
    try:
        print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(text.split())}", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exhausted_sentence(state: SeriesState) -> str:
    """That a series has no release left.

    Args:
        state: the series.
    """
    registered = state.registered
    return (
        f"Ended: all {registered.price.releases} releases of the series '{registered.series}' are taken and finished."
    )
