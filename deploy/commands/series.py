"""`crowdblend series` and `serve`: several releases paid for together, and their schedule on one machine."""

from __future__ import annotations

import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from ...accounting.kernel.keys.private_files import lock_file
from ...flows.paths import StatePaths, reader_of, resolve_paths
from ...mechanisms.kernel.errors import AccountantRefused, InputRefused
from ..serving.serve_settings import (
    EXHAUSTED,
    FailureHook,
    Schedule,
    exhausted_sentence,
    hook_of,
    require_five_fields,
    require_timezone,
    say,
)
from .options import AS_JSON, FILE, LEDGER, CommandGroup


@click.group(cls=CommandGroup)
def series() -> None:
    """Series: several releases with fixed parameters, paid for together when they are registered."""


@series.command("add")
@click.argument("name")
@click.argument("spec", type=FILE, required=False)
@click.option("--releases", type=click.IntRange(min=1), help="How many releases of SPEC the series has.")
@click.option(
    "--free-columns",
    is_flag=True,
    help="Each release has its own columns, hierarchies and levels, and may have a higher k or a lower rate. The price "
    "is the same.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    help='Instead of SPEC, a part of a series of different mechanisms: "12 x k=20,rate=0.1", or "24 x epsilon=0.05" of '
    "answers without a delta. Give two or more.",
)
@click.option("--dataset", help="Whose budget pays for the parts.")
@click.option("--delta", help="Delta of all parts together.")
@LEDGER
@AS_JSON
def add(
    name: str,
    spec: Path | None,
    releases: int | None,
    free_columns: bool,
    parts: tuple[str, ...],
    dataset: str | None,
    delta: str | None,
    ledger_url: str | None,
    as_json: bool,
) -> None:
    """Register a series and charge it whole; [privacy].delta is for all its releases together.

    Its releases run with `crowdblend run SPEC --series NAME`. Their specifications may differ in name, source,
    format and output, and in nothing else; with --free-columns also in columns, hierarchies and levels, by a higher k
    and by a lower rate, all of which may follow from what was published before.

    With --part several mechanisms make one series, in any order, at the price of all together. A release takes the
    part that is of its k and rate, or of its epsilon; `--series NAME:2` names the second one.
    """
    from ...mechanisms.kernel.amounts import amount_shown, counted
    from ..python.ledger import add_series
    from ..terminal.tables import series_rows

    state = add_series(
        name,
        spec,
        releases=releases,
        free_columns=free_columns,
        parts=parts,
        dataset=dataset,
        delta=delta,
        ledger_url=ledger_url,
    )
    price = state.registered.price
    [row] = series_rows([state])
    if as_json:
        click.echo(json.dumps(row, ensure_ascii=False))
        return
    payment = f"is charged to '{row['dataset']}'"
    if (taken := state.registered.of_filter) is not None:
        payment = (
            f"is charged to the filter budget of '{row['dataset']}' with a divergence of "
            f"{amount_shown(taken.divergence)} at order {taken.order:f} and tails of {amount_shown(taken.tail)}. What "
            "it guarantees by itself"
        )
    click.echo(
        f"Series '{name}' of {counted(price.releases, 'release')} {payment}: "
        f"ε = {amount_shown(price.epsilon)}, δ = {amount_shown(price.delta)} for all of them.\n"
        f"Run each with: crowdblend run {spec or 'SPEC'} --series {name}"
    )


@series.command("list")
@LEDGER
@AS_JSON
def list_series(ledger_url: str | None, as_json: bool) -> None:
    """List the series with what remains of them."""
    from ..terminal.tables import print_series, series_rows

    with reader_of(resolve_paths(ledger_url=ledger_url)) as reader:
        rows = series_rows(reader.all_series())
    if as_json:
        click.echo(json.dumps({"series": rows}, ensure_ascii=False))
    else:
        print_series(rows)


DURATION = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """A time such as 30m or 6h, in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of a number with its unit."""
        if isinstance(value, float):
            return value
        found = DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration; write a number with s, m, h or d, such as 30m or 6h.", param, ctx)
        return float(int(found["number"]) * SECONDS[found["unit"]])


@click.command()
@click.argument("spec", type=FILE)
@click.option("--series", required=True, help="The series whose releases these are.")
@click.option("--cron", required=True, help='When, as five fields of cron: "0 3 1 * *" is each month\'s first at 3:00.')
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    help="By whose clock: a time zone such as Europe/Paris. Releases are named by their times in UTC all the same.",
)
@click.option("--output", required=True, help="Folder or URL below which each release lies under its id.")
@click.option(
    "--retry-for",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How long a release is tried again whose file is not there yet or whose work failed; never longer than until "
    "the next one comes due.",
)
@click.option(
    "--allow-unchanged",
    is_flag=True,
    help="Release a delivery again that was released before, though no file was written since.",
)
@click.option(
    "--on-failure",
    envvar="CROWDBLEND_ON_FAILURE",
    help="A command, started without a shell, or an address (https://…) that is sent JSON, for each release that is "
    "refused or fails.",
)
@LEDGER
def serve(
    spec: Path,
    series: str,
    cron: str,
    timezone: str,
    output: str,
    retry_for: float,
    allow_unchanged: bool,
    on_failure: str | None,
    ledger_url: str | None,
) -> int:
    """Stay and run a release of a series whenever its time has come, one at a time.

    Says each event in a line with its time. A release comes due and is refused where nothing was delivered since the
    last one; its place stays free. Whatever an earlier `serve` left unfinished is finished first. Uses the
    Prefect server of PREFECT_API_URL, or one of its own whose records are kept in the private store. Ends with exit
    code 4 when the series has no release left.
    """
    schedule = Schedule(cron=require_five_fields(cron), timezone=require_timezone(timezone))
    hook = hook_of(on_failure)
    places = resolve_paths(ledger_url=ledger_url)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", series):
        raise InputRefused("a series has no such name.", where=f"--series {series}")
    held = AccountantRefused(
        "a live process serves this series already.",
        where=f"series '{series}'",
        remedy="Leave it to that process, or stop it and serve again.",
    )
    # What runs for the series elsewhere, with this private store, would seem left by a kill.
    with lock_file(places.home / "serve" / f"{series}.lock", held):
        return _serve(
            spec,
            series,
            schedule,
            output,
            retry_for=retry_for,
            allow_unchanged=allow_unchanged,
            hook=hook,
            places=places,
        )


def _serve(
    spec: Path,
    series: str,
    schedule: Schedule,
    output: str,
    *,
    retry_for: float,
    allow_unchanged: bool,
    hook: FailureHook | None,
    places: StatePaths,
) -> int:
    from ...flows.charged_request import request_of_series
    from ...flows.prepare import destroy_what_is_left, release_violation

    with reader_of(places) as reader:
        destroy_what_is_left(reader, places)
        state = reader.series(series)
        request = request_of_series(spec, output=spec.parent, series=state)
        violation = release_violation(reader, request, state=None, series=series)
        unfinished = reader.open_releases(series=series)
    if violation is not None and violation.cause != "series-finished":
        raise violation
    if violation is not None and not unfinished:
        say(exhausted_sentence(state))
        return EXHAUSTED
    own_server = "PREFECT_API_URL" not in os.environ
    os.environ |= places.environment
    from ..prefect_environment import configure_lasting_prefect, configured_api

    wait = configure_lasting_prefect(places.home)
    taken, releases = state.taken, state.registered.price.releases
    say(f"crowdblend {version('crowdblend')} serves the series '{series}': {taken} of {releases} releases are taken.")
    coming = [when.astimezone(ZoneInfo(schedule.timezone)) for when in schedule.next_times(count=3)]
    times = ", ".join(f"{when:%Y-%m-%d %H:%M}" for when in coming)
    say(f'The schedule "{schedule.cron}" ({schedule.timezone}) comes next at {times}.')
    wait()
    import httpx

    from ..serving.loop import ScheduleLoop, deployed

    target = output if "://" in output else str(Path(output).absolute())
    parameters: dict[str, str | bool] = {
        "spec": str(spec.absolute()),
        "series": series,
        "output": target,
        "timezone": schedule.timezone,
        "allow_unchanged": allow_unchanged,
    }
    with configured_api():
        try:
            runs = deployed(series=series, schedule=schedule, parameters=parameters)
        except httpx.HTTPError as error:
            raise InputRefused(
                f"Prefect's server can't be reached ({type(error).__name__}).",
                where="PREFECT_API_URL",
                remedy="Start the server, or unset the variable: `serve` then has a server of its own.",
            ) from None
        loop = ScheduleLoop(
            state_paths=places,
            spec=spec,
            series=series,
            dataset=request.dataset,
            schedule=schedule,
            runs=runs,
            own_server=own_server,
            retry_seconds=retry_for,
            hook=hook,
        )
        return loop.run()
