"""`crowdblend submit`, `status` and `cancel`: releases as jobs that outlive the terminal."""

from __future__ import annotations

import json
import re
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...flows.paths import StatePaths, resolve_paths
from ...mechanisms.errors import InputRefused
from ..cli import AS_JSON, FILE, LEDGER
from ..jobs import Job, JobArguments, job_exists, job_of, submit_job

if TYPE_CHECKING:
    from ..schemas.outputs import JobState, JobStatus

__all__ = ["cancel", "status", "submit"]

RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}")
LOOKED_EVERY_SECONDS = 0.1
CANCELLED_WITHIN_SECONDS = 120.0


@click.command()
@click.argument("spec", type=FILE)
@LEDGER
@click.option("--output", help="Folder or fsspec URL of the release, instead of [release].output.")
@click.option("--scheduler", help="Address of a Dask scheduler, instead of the specification's [cluster].")
@click.option("--release-id", help="Run or resume the release of this id; without one it is a new release.")
@click.option("--series", help="Run the next release of this series.")
@click.option("--detach", is_flag=True, help="Say the job's id and leave; look after it with status and cancel.")
@AS_JSON
def submit(
    spec: Path,
    ledger_url: str | None,
    output: str | None,
    scheduler: str | None,
    release_id: str | None,
    series: str | None,
    detach: bool,
    as_json: bool,
) -> int:
    """Run one release as a job of its own: progress, result and exit code as `run`, but it outlives the terminal.

    Ctrl-C cancels it, and says what it cost.
    """
    places = resolve_paths(ledger_url=ledger_url)
    arguments = JobArguments(
        spec=str(spec.absolute()),
        output=output if output is None or "://" in output else str(Path(output).absolute()),
        scheduler=scheduler,
        series=series,
    )
    job = submit_job(arguments, release_id=_new_id(spec) if release_id is None else _id(release_id), state_paths=places)
    if detach:
        reported = {"release_id": job.release_id, "state": "running"}
        follow = f"Follow it: crowdblend status {job.release_id}\nCancel it: crowdblend cancel {job.release_id}"
        click.echo(json.dumps(reported) if as_json else f"Job {job.release_id} runs.\n{follow}")
        return 0
    click.echo(f"crowdblend: job {job.release_id}", err=True)
    try:
        end = _followed(job)
    except KeyboardInterrupt:
        return _cancelled(job, places, as_json=as_json)
    return _print_end(job, end, places, as_json=as_json)


@click.command()
@click.argument("release_id")
@LEDGER
@AS_JSON
def status(release_id: str, ledger_url: str | None, as_json: bool) -> int:
    """Say how far a release is, or how it ended: a submitted job, or any release of the ledger."""
    places = resolve_paths(ledger_url=ledger_url)
    if not job_exists(_id(release_id), state_paths=places):
        return _print_ledger_status(release_id, places, ledger=ledger_url, as_json=as_json)
    job = job_of(release_id, state_paths=places)
    alive, end, progress = job.process() is not None, job.end(), job.progress()
    state: JobState = "running" if alive and end is None else "killed" if end is None else _state_of(end)
    reported: JobStatus = {
        "release_id": release_id,
        "state": state,
        "stage": None if progress is None else progress["stage"],
        "exit_code": None if end is None else end["exit_code"],
        "message": None if end is None else end.get("message"),
        "cost": None if alive and end is None else _cost(release_id, places),
    }
    if as_json:
        click.echo(json.dumps(reported, ensure_ascii=False))
        return 0
    stage = f" ({reported['stage']})" if state == "running" and reported["stage"] else ""
    lines = [f"Job {release_id}: {state}{stage}.", reported["message"], reported["cost"]]
    click.echo("\n".join(str(line) for line in lines if line))
    return 0


@click.command()
@click.argument("release_id")
@LEDGER
@AS_JSON
def cancel(release_id: str, ledger_url: str | None, as_json: bool) -> int:
    """Stop a submitted job and say what it cost."""
    places = resolve_paths(ledger_url=ledger_url)
    job = job_of(_id(release_id), state_paths=places)
    end = job.end()
    if end is not None or job.process() is None:
        raise InputRefused("the job has ended.", where=f"job '{release_id}'", remedy="See `crowdblend status`.")
    return 0 if _cancelled(job, places, as_json=as_json) == 1 else 1


def _new_id(spec: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", spec.stem).strip("._-")[:80] or "release"
    return f"{name}-{secrets.token_hex(6)}"


def _id(release_id: str) -> str:
    if not RELEASE_ID.fullmatch(release_id):
        raise InputRefused("a release id is 1 to 128 letters, digits and any of . _ : + @ -.", where=release_id)
    return release_id


def _followed(job: Job) -> dict[str, Any] | None:
    """Show the job's progress until it ends; None where it was killed."""
    from ..terminal.stages import Stages

    stages = Stages()
    while True:
        end = job.end()
        if end is not None:
            return end
        if job.process() is None:
            return job.end()
        progress = job.progress()
        if progress is None:
            time.sleep(LOOKED_EVERY_SECONDS)
            continue
        with stages.shown(progress["stage"]):
            _stage_followed(job, stages, progress["stage"])


def _stage_followed(job: Job, stages: Any, stage: str) -> None:  # noqa: ANN401
    reported = ""
    while job.end() is None and job.process() is not None:
        progress = job.progress()
        if progress is not None and progress["stage"] != stage:
            return
        if progress is not None and progress["note"] not in ("", reported):
            reported = progress["note"]
            stages.tell(reported)
        if progress is not None and progress["total"]:
            stages.on_progress(progress["done"], progress["total"])
        time.sleep(LOOKED_EVERY_SECONDS)


def _cancelled(job: Job, places: StatePaths, *, as_json: bool) -> int:
    """Ask the job to stop, wait until it has, and say what became of it; 1 unless it had been done already."""
    click.echo("crowdblend: cancelling; what is charged stays charged", err=True)
    job.ask_to_stop()
    deadline = time.monotonic() + CANCELLED_WITHIN_SECONDS
    while job.process() is not None and time.monotonic() < deadline:
        time.sleep(LOOKED_EVERY_SECONDS)
    if job.process() is not None:
        click.echo(f"crowdblend: the job still runs; look with `crowdblend status {job.release_id}`.", err=True)
        return 2
    return _print_end(job, job.end(), places, as_json=as_json)


def _print_ledger_status(release_id: str, places: StatePaths, *, ledger: str | None, as_json: bool) -> int:
    """The status of a release that no job from here ran: by the ledger, and by who holds it on this machine."""
    from ...accounting.ledger.private_store.inspection import is_held
    from ...accounting.ledger.reader import open_reader
    from ..release_facts import commands_for, cost_so_far

    with open_reader(places.ledger_url) as reader:
        held = is_held(places.home, ledger_id=reader.ledger_id, release_id=release_id)
    stage, cost = cost_so_far(release_id, places)
    if stage is None:
        raise InputRefused(
            "no job of this id was submitted from here, and the ledger has no release of it.",
            where=f"release '{release_id}'",
            remedy="See `crowdblend release list`, or name another ledger or private store.",
        )
    state: JobState = stage if stage in ("published", "abandoned") else "running" if held else "interrupted"
    finish = f"crowdblend run SPEC.toml --release-id {release_id}"
    ways = commands_for(release_id, stage, finish=finish, ledger=ledger) if state == "interrupted" else ()
    reported: JobStatus = {
        "release_id": release_id,
        "state": state,
        "stage": None,
        "exit_code": None,
        "message": None,
        "cost": cost,
    }
    if as_json:
        click.echo(json.dumps(reported, ensure_ascii=False))
    else:
        click.echo("\n".join([f"Release {release_id}: {state}.", cost, *ways]))
    return 0


def _state_of(end: dict[str, Any]) -> JobState:
    if end.get("cancelled"):
        return "cancelled"
    states: dict[int, JobState] = {0: "published", 1: "failed", 2: "refused", 3: "refused"}
    return states[end["exit_code"]]


def _print_end(job: Job, end: dict[str, Any] | None, places: StatePaths, *, as_json: bool) -> int:
    if end is not None and end["exit_code"] == 0:
        from .release import print_result

        print_result(end["result"], as_json=as_json)
        return 0
    reported = end or {"exit_code": 1, "where": "", "message": "The job's process was killed."}
    code = int(reported["exit_code"])
    message = f"{reported['message']} {_cost(job.release_id, places)}" if code == 1 else str(reported["message"])
    print(f"crowdblend: {message}", file=sys.stderr)
    if as_json:
        kind = {1: "failed", 2: "input", 3: "accountant"}[code]
        error = {"kind": kind, "exit_code": code, "where": reported["where"], "message": message}
        click.echo(json.dumps({"error": error, "release_id": job.release_id}, ensure_ascii=False))
    return code


def _cost(release_id: str, places: StatePaths) -> str:
    """What a job has cost so far, by the ledger, and how it is finished."""
    from ..release_facts import cost_so_far

    stage, cost = cost_so_far(release_id, places)
    again = f"Submit again with --release-id {release_id} to finish it at no new charge"
    match stage:
        case "charged":
            return f"{cost} {again}, or free it with `crowdblend abandon`."
        case "reading":
            return f"{cost} {again}."
        case _:
            return cost
