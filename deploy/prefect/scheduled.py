"""The flow that Prefect deploys: one release of a series, at the time that a schedule says.

Its parameters are places and names, validated by their schema when a run is submitted; what is secret (the ledger's
address with its password, keys, cloud credentials) comes from the environment of the machine that runs it.
Annotations are not postponed here: Prefect reads them where this module's names are unknown.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from prefect import flow, runtime
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed
from pydantic import Field

from ...accounting.keys.store_upkeep import open_private_store
from ...flows.paths import StatePaths, reader_of, resolve_paths
from ...flows.prepare import Scheduled
from ...flows.unfinished import cost_so_far
from ...mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal
from ..run import run_release
from ..terminal.stages import Stages

SpecPath = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"\.toml$", description="The specification.")]
SeriesName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="The series that has paid for it.")
]
OutputFolder = Annotated[
    str,
    Field(min_length=1, max_length=4096, description="Folder or URL below which each release lies under its id."),
]
ReleaseId = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}$", description="Instead of series and scheduled time.")
]
TimeZone = Annotated[str, Field(pattern=r"^[A-Za-z0-9_+/-]{1,64}$", description="The schedule's time zone.")]
AllowUnchanged = Annotated[bool, Field(description="Release a delivery again though no file was written since.")]
LINES = ("dataset", "epsilon", "delta", "published_groups", "published_records", "output", "certificate")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledPlace:
    """One release of a series at its time: its id, and the folder or URL below which it lies under it."""

    spec: Path
    series: str
    output: str
    release_id: str

    @classmethod
    def of_run(cls, *, spec: str, series: str, output: str, release_id: str | None) -> "ScheduledPlace":
        """Return the place by the parameters of the running flow run; without an id, by its scheduled time."""
        name = release_id or release_id_at(series, runtime.flow_run.scheduled_start_time)
        return cls(spec=Path(spec), series=series, output=output, release_id=name)

    def output_of(self, places: StatePaths) -> str:
        """Return its folder or URL: where it was charged for, if it was, even by another schedule or by hand."""
        usual = f"{self.output.rstrip('/')}/{self.release_id}"
        with reader_of(places) as reader:
            if reader.release(self.release_id) is None:
                return usual
            folder = open_private_store(places.home).release_folder(
                ledger_id=reader.ledger_id, release_id=self.release_id
            )
        return str(folder.remembered().get("output", usual))


ID_TIME = "%Y%m%dT%H%M%SZ"


def release_id_at(series: str, scheduled: datetime) -> str:
    """Return the id of a series' release at a scheduled time, so that a retry of it is the same release."""
    return f"{series}@{scheduled.astimezone(UTC):{ID_TIME}}"


def _day_of(release_id: str, timezone: str) -> date:
    """Return the day of the scheduled time that an id names, by a clock; of one that names none, the flow run's."""
    try:
        scheduled = datetime.strptime(release_id.rpartition("@")[2], ID_TIME).replace(tzinfo=UTC)
    except ValueError:
        scheduled = runtime.flow_run.scheduled_start_time
    return scheduled.astimezone(ZoneInfo(timezone)).date()


@flow(name="crowdblend-release", persist_result=False, log_prints=False, retries=0)
def scheduled_release(
    spec: SpecPath,
    series: SeriesName,
    output: OutputFolder,
    release_id: ReleaseId | None = None,
    timezone: TimeZone = "UTC",
    allow_unchanged: AllowUnchanged = False,
) -> State[Any]:
    """Run one release of a series; its state, artifact and event tell public facts only.

    Args:
        spec: the specification's file, on the machine that runs this.
        series: the series that has paid for the release.
        output: folder or URL below which the release lies under its id.
        release_id: to resume a release that another flow run began.
        timezone: by whose clock a source whose name has parts of a day is the scheduled time's.
        allow_unchanged: whether a delivery may be released again though no file was written since.
    """
    place = ScheduledPlace.of_run(spec=spec, series=series, output=output, release_id=release_id)
    return released(place, timezone=timezone, allow_unchanged=allow_unchanged)


def released(
    place: ScheduledPlace,
    *,
    timezone: str,
    allow_unchanged: bool,
    stages: Stages | None = None,
    attempts: Callable[[Callable[[], Mapping[str, Any]]], Mapping[str, Any]] = lambda attempt: attempt(),
    tell: Callable[..., None] = lambda **_: None,
) -> State[Any]:
    """Run a scheduled release within the flow run that is running, and return that run's state.

    Args:
        place: the release.
        timezone: by whose clock its scheduled time has a day.
        allow_unchanged: whether its delivery may be the last one's.
        stages: who is shown the progress; None for the terminal.
        attempts: calls what it is given, perhaps more than once, and gives its result or the last refusal.
        tell: called with how it ended, as public facts.
    """
    if PREFECT_API_URL.value():
        os.environ.setdefault("PREFECT_API_URL", str(PREFECT_API_URL.value()))
    name, series, places = place.release_id, place.series, resolve_paths()

    def attempt() -> Mapping[str, Any]:
        try:
            return run_release(
                place.spec,
                state_paths=places,
                output=place.output_of(places),
                scheduler=None,
                release_id=name,
                series=series,
                new=True,
                scheduled=Scheduled(day=_day_of(name, timezone), allow_unchanged=allow_unchanged),
                randomness=secrets.token_bytes,
                stages=stages,
            )
        except (InputRefused, AccountantRefused) as refused:
            # What this attempt did not do isn't what the release has cost: an earlier attempt may have charged it.
            stage, cost = cost_so_far(name, places)
            if stage is not None:
                refused.not_done = cost
            raise

    try:
        result = attempts(attempt)
    except Refusal as refusal:
        kind = {1: "failed", 2: "refused", 3: "refused"}[refusal.exit_code]
        _emit(kind, name, {"series": series, "reason": refusal.message})
        tell(event=kind, exit_code=refusal.exit_code, cause=refusal.cause, message=refusal.message)
        return Failed(name=kind.capitalize(), message=refusal.message)
    facts = {line: str(result[line]) for line in LINES}
    number = result["series"]
    numbered = f"{number['number']} of {number['releases']} of {series}" if number else series
    _emit("published", name, {"series": numbered, **facts})
    create_markdown_artifact(
        key="crowdblend-release",
        description="What was published and what it cost; all of it is public.",
        markdown="\n".join(
            [f"## Release {name}", "", "| | |", "|---|---|", f"| series | {numbered} |"]
            + [f"| {line.replace('_', ' ')} | {fact} |" for line, fact in facts.items()]
        ),
    )
    tell(event="published", place=numbered, output=facts["output"])
    return Completed(message=f"Release {name} is published.")


def _emit(what: str, release_id: str, facts: dict[str, str]) -> None:
    """Emit an event that an automation can act on."""
    emit_event(
        event=f"crowdblend.release.{what}",
        resource={"prefect.resource.id": f"crowdblend.release.{release_id}", "prefect.resource.name": release_id},
        payload=facts,
    )
