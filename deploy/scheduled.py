"""The flow that Prefect deploys: one release of a series, at the time that a schedule says.

Its parameters are places and names, validated by their schema when a run is submitted; what is secret (the ledger's
address with its password, keys, cloud credentials) comes from the environment of the machine that runs it.
Annotations are not postponed here: Prefect reads them where this module's names are unknown.
"""

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, runtime
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed
from pydantic import Field

from ..flows.settings import house
from ..mechanisms.refusal import Refusal
from .running import run_release

__all__ = ["release_id_at", "scheduled_release"]

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
LINES = ("dataset", "epsilon", "delta", "published_groups", "published_records", "output", "certificate")


def release_id_at(series: str, scheduled: datetime) -> str:
    """The id of a series' release at a scheduled time, so that a retry of it is the same release."""
    return f"{series}@{scheduled.astimezone(UTC):%Y%m%dT%H%M%SZ}"


@flow(name="crowdblend-release", persist_result=False, log_prints=False, retries=0)
def scheduled_release(
    spec: SpecPath, series: SeriesName, output: OutputFolder, release_id: ReleaseId | None = None
) -> State[Any]:
    """Run one release of a series; its state, artifact and event tell public facts only.

    Args:
        spec: the specification's file, on the machine that runs this.
        series: the series that has paid for the release.
        output: folder or URL below which the release lies under its id.
        release_id: to resume a release that another flow run began.
    """
    name = release_id or release_id_at(series, runtime.flow_run.scheduled_start_time)
    if PREFECT_API_URL.value():
        os.environ.setdefault("PREFECT_API_URL", str(PREFECT_API_URL.value()))
    try:
        result = run_release(
            Path(spec),
            house=house(),
            output=f"{output.rstrip('/')}/{name}",
            scheduler=None,
            release_id=name,
            series=series,
            randomness=secrets.token_bytes,
        )
    except Refusal as refusal:
        kind = {1: "failed", 2: "refused", 3: "refused"}[refusal.exit_code]
        _tell(kind, name, {"series": series, "reason": refusal.message})
        return Failed(name=kind.capitalize(), message=refusal.message)
    facts = {line: str(result[line]) for line in LINES}
    place = result["series"]
    numbered = f"{place['number']} of {place['releases']} of {series}" if place else series
    _tell("published", name, {"series": numbered, **facts})
    create_markdown_artifact(
        key="crowdblend-release",
        description="What was published and what it cost; all of it is public.",
        markdown="\n".join(
            [f"## Release {name}", "", "| | |", "|---|---|", f"| series | {numbered} |"]
            + [f"| {line.replace('_', ' ')} | {fact} |" for line, fact in facts.items()]
        ),
    )
    return Completed(message=f"Release {name} is published.")


def _tell(what: str, release_id: str, facts: dict[str, str]) -> None:
    """Emit an event that an automation can act on."""
    emit_event(
        event=f"crowdblend.release.{what}",
        resource={"prefect.resource.id": f"crowdblend.release.{release_id}", "prefect.resource.name": release_id},
        payload=facts,
    )
