"""The settings of `serve`: when releases come due, and who gets reports of failures; and the lines that it prints."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.wording import did_you_mean

if TYPE_CHECKING:
    from ...accounting.ledger.lookup import SeriesState

EXHAUSTED = 4
"""Exit code of a schedule whose series has no release left."""
CRON = re.compile(r"[0-9a-z*,/-]+( [0-9a-z*,/-]+){4}")
CRON_FORM = 'minute, hour, day of the month, month, day of the week; "0 3 1 * *" is 03:00 on each month\'s first'
WITHIN_SECONDS = 30
SHELL_OPERATORS = frozenset("();<>|&")


def require_five_fields(cron: str) -> str:
    """Return a cron expression with one space between its five fields; whether it ever comes, `next_times` says.

    Expressions of six or seven fields have seconds or years in places that differ between programs; in one of them
    `*` for the seconds would begin sixty releases in a minute. Nicknames (`@daily`) and the signs `#` and `?` are no
    part of cron's own form.

    Raises:
        InputRefused: it has another form.
    """
    fields = cron.lower().split()
    if CRON.fullmatch(" ".join(fields)) is None:
        count = f"{len(fields)} field" + "s" * (len(fields) != 1)
        raise _not_a_schedule(f"{cron!r} has {count}, and a schedule has five of letters, digits, and any of * , - /.")
    return " ".join(fields)


def _not_a_schedule(what: str) -> InputRefused:
    return InputRefused(what, where="--cron", remedy=f"Write five fields: {CRON_FORM}.", cause="not-a-schedule")


def require_timezone(name: str) -> str:
    """Return the name of a time zone, such as `Europe/Paris`; refuse one that the IANA's list doesn't have."""
    names = available_timezones()
    if name in names:
        return name
    remedy = f"{did_you_mean([name], names)} Name one of the IANA's list, such as Europe/Paris."
    raise InputRefused(f"there is no time zone {name!r}.", where="--timezone", remedy=remedy.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """When releases come due.

    Args:
        cron: five fields, as `require_five_fields` gives them.
        timezone: by whose clock, as `require_timezone` gives it.
    """

    cron: str
    timezone: str = "UTC"

    def next_times(self, *, count: int, after: datetime | None = None) -> tuple[datetime, ...]:
        """Return the next times after one (None is now) in UTC, by the same computation as Prefect's scheduler.

        Raises:
            InputRefused: a field has a value that it can't have, or there is no such time, as on 30 February.
        """
        from prefect.server.schemas.schedules import CronSchedule

        start = (after or datetime.now(UTC)).astimezone(UTC) + timedelta(seconds=1)
        try:
            schedule = CronSchedule(cron=self.cron, timezone=self.timezone)
            times = list(asyncio.run(schedule.get_dates(n=count, start=start)))
        except ValueError:
            times = []
        if not times:
            raise _not_a_schedule(f"{self.cron!r} never comes.")
        return tuple(datetime.fromtimestamp(time.timestamp(), UTC) for time in times)


def say(text: str) -> None:
    """Print one line with the time, at once; line breaks become spaces, a log that can't be written ends nothing."""
    with suppress(OSError):
        print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(text.split())}", flush=True)


def exhausted_sentence(state: SeriesState) -> str:
    """Return the sentence that a series has no release left."""
    registered = state.registered
    return (
        f"Ended: all {registered.price.releases} releases of the series '{registered.series}' are taken and finished."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureFacts:
    """What a hook gets: public facts alone.

    PRIVACY: no message, no path and no text of an exception; of a failure only its class.

    Args:
        release_id: the release; empty where it is no release that failed.
        dataset: the data set's name.
        series: the series' name.
        exit_code: 1 failed, 2 wrong specification or source, 3 refused by the accountant.
        cause: class of the cause, such as "source-missing" or "series-changed".
    """

    release_id: str
    dataset: str
    series: str
    exit_code: int
    cause: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureHook:
    """A command that is started, or a web address that is sent a JSON object.

    PRIVACY: an address may have a token in it, so neither is ever shown.

    Args:
        argv: the command and its arguments, or the one address.
        shown: what it is called.
    """

    argv: tuple[str, ...] = field(repr=False)
    shown: str

    def tell(self, facts: FailureFacts) -> str | None:
        """Report a failure; return None, or why that did not succeed.

        A command gets the facts as JSON on its standard input and as CROWDBLEND_FAILED_… in its environment.
        """
        reported = {name: str(value) for name, value in asdict(facts).items()} | {"exit_code": facts.exit_code}
        body = json.dumps(reported, ensure_ascii=False).encode()
        try:
            if self.shown == "command":
                return self._started(
                    body, {f"CROWDBLEND_FAILED_{name.upper()}": str(reported[name]) for name in reported}
                )
            return self._sent(body)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return f"the {self.shown} of --on-failure failed ({type(error).__name__})"

    def _started(self, body: bytes, environment: dict[str, str]) -> str | None:
        done = subprocess.run(  # noqa: S603 - the steward's own command, and no shell is involved
            self.argv,
            input=body,
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=WITHIN_SECONDS,
            check=False,
        )
        return f"the command of --on-failure ended with {done.returncode}" if done.returncode else None

    def _sent(self, body: bytes) -> str | None:
        request = urllib.request.Request(  # noqa: S310 - http or https, by `hook_of`
            self.argv[0], data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_SECONDS):  # noqa: S310
                return None
        except urllib.error.HTTPError as error:
            return f"the webhook of --on-failure answered {error.code}"


def hook_of(text: str | None) -> FailureHook | None:
    """Return the hook of an option: a web address, or a command, split by a shell's rules of quoting; None for none.

    The command is started without a shell, so an operator of a shell's would be a mere argument.

    Raises:
        InputRefused: a command that can't be split, has such an operator, or whose program isn't there.
    """
    if text is None:
        return None
    if text.startswith(("http://", "https://")):
        return FailureHook(argv=(text,), shown="webhook")
    try:
        argv = tuple(shlex.split(text))
        operator = _shell_operator(text)
    except ValueError:
        argv, operator = (), None
    if operator is not None:
        raise InputRefused(
            f"the command is started without a shell, so {operator!r} would be an argument.",
            where="--on-failure",
            remedy="Put the line into a script, or write: sh -c '…'",
        )
    if not argv or shutil.which(argv[0]) is None:
        raise InputRefused(
            "the command's program isn't there or may not be run.",
            where="--on-failure",
            remedy="Name a program with its arguments, or an address that begins with https://.",
        )
    return FailureHook(argv=argv, shown="command")


def _shell_operator(text: str) -> str | None:
    """Return the first operator that a shell would find in a command; None where there is none."""
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.commenters = ""
    return next((word for word in words if word and SHELL_OPERATORS.issuperset(word)), None)
