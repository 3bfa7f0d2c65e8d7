"""`crowdblend submit`, `status` and `cancel`: releases that run in a process of their own and outlive the terminal.

The submitter starts this module as a program, which runs one release and reports its progress and its end.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ...accounting.kernel.keys.private_files import private_folder, replace_private
from ...flows.paths import StatePaths, resolve_paths
from ...mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal
from ..terminal.stages import Stages, process_begun
from .options import AS_JSON, FILE, LEDGER, NEW, begins_another

if TYPE_CHECKING:
    from ..schemas.outputs import JobState, JobStatus


STARTED_WITHIN_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class JobArguments:
    """What a job is asked to do, all of it free of secrets.

    Args:
        spec: the specification's file.
        output: the release's folder or URL, instead of the specification's.
        scheduler: address of a Dask scheduler.
        series: the series whose next release this is.
        new: whether it may begin beside an unfinished release of the same specification.
    """

    spec: str
    output: str | None
    scheduler: str | None
    series: str | None
    new: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job's folder in the private store.

    PRIVACY: how far a count has come follows the number of records, so what is reported of it stays in this folder
    (0700) and on the steward's terminal.

    Args:
        release_id: the release that the job runs.
        folder: what its process and its submitter know of each other.
    """

    release_id: str
    folder: Path

    @property
    def log(self) -> Path:
        """What the process prints."""
        return self.folder / "log"

    def arguments(self) -> JobArguments:
        """What it was asked to do."""
        return JobArguments(**json.loads((self.folder / "job.json").read_bytes()))

    def write_progress(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Called by the job's process: so much of a stage is done; the note says what it waits for, if anything."""
        draft = self.folder / ".progress"
        progress = {"stage": stage, "done": done, "total": total, "note": note}
        draft.write_text(json.dumps(progress), encoding="utf-8")
        draft.replace(self.folder / "progress.json")

    def write_end(self, end: dict[str, Any]) -> None:
        """Called by the job's process as the last thing it does."""
        self._write("end.json", end)

    def progress(self) -> dict[str, Any] | None:
        """The running stage; None before the first."""
        return self._read("progress.json")

    def end(self) -> dict[str, Any] | None:
        """How it ended: exit_code, and result or error; None while it runs or where it was killed."""
        return self._read("end.json")

    def hold(self) -> int:
        """Called by the job's process: alive from now until it dies, however it dies."""
        handle = os.open(self.folder / "alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        return handle

    def process(self) -> int | None:
        """The process that runs the job; None where none is alive."""
        try:
            handle = os.open(self.folder / "alive", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.read(handle, 20) or b"0") or None
        finally:
            os.close(handle)
        return None

    def ask_to_stop(self) -> None:
        """Have the job cancel its work and end; nothing happens where it has ended."""
        process = self.process()
        if process is not None:
            os.kill(process, signal.SIGINT)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        replace_private(self.folder / name, json.dumps(content, ensure_ascii=False).encode())

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content: dict[str, Any] = json.loads((self.folder / name).read_bytes())
        except FileNotFoundError:
            return None
        return content


def submit_job(arguments: JobArguments, *, release_id: str, state_paths: StatePaths) -> Job:
    """Start a job's process, in a session of its own, and see that it lives.

    Args:
        arguments: what is asked for.
        release_id: the release; the job's id too.
        state_paths: where the ledger and the private store lie; the process finds them in its environment.

    Raises:
        AccountantRefused: a live process runs the release.
        InputRefused: the id has another form, or the process can't be started.
    """
    job = Job(release_id=release_id, folder=state_paths.home / "jobs" / release_id)
    if job.process() is not None:
        raise AccountantRefused(
            "this release is held by a live process.",
            where=f"release '{release_id}'",
            remedy=f"Follow it with `crowdblend status {release_id}`.",
        )
    try:
        private_folder(state_paths.home)
        private_folder(job.folder.parent)
        private_folder(job.folder)
        for name in ("progress.json", "end.json"):
            (job.folder / name).unlink(missing_ok=True)
        job._write("job.json", {name: getattr(arguments, name) for name in JobArguments.__slots__})
        environment = {
            **os.environ,
            "CROWDBLEND_LEDGER": state_paths.ledger_url,
            "CROWDBLEND_HOME": str(state_paths.home),
        }
        if state_paths.anchor is not None:
            environment["CROWDBLEND_ANCHOR"] = str(state_paths.anchor)
        with job.log.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - the id has its form, and no shell is involved
                [sys.executable, "-m", "crowdblend.deploy.commands.jobs", release_id],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        raise InputRefused(f"the job can't be started ({error.strerror}).", where=str(job.folder)) from None
    deadline = time.monotonic() + STARTED_WITHIN_SECONDS
    while job.process() is None and job.end() is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise InputRefused("the job's process did not start.", where=str(job.log))
        time.sleep(0.02)
    return job


def job_exists(release_id: str, *, state_paths: StatePaths) -> bool:
    """Whether a job of this release was submitted from this private store."""
    return (state_paths.home / "jobs" / release_id / "job.json").exists()


def job_of(release_id: str, *, state_paths: StatePaths) -> Job:
    """The job of a release.

    Raises:
        InputRefused: none was submitted from this private store.
    """
    job = Job(release_id=release_id, folder=state_paths.home / "jobs" / release_id)
    if not job_exists(release_id, state_paths=state_paths):
        raise InputRefused(
            f"no job '{release_id}' was submitted from here.",
            where=str(state_paths.home),
            remedy="Use the private store (CROWDBLEND_HOME) that it was submitted with.",
        )
    return job


REPORTED_EVERY_SECONDS = 0.2
CANCELLED = {"exit_code": 1, "where": "", "message": "The job was cancelled.", "cancelled": True}


class _ReportedStages(Stages):
    """Stages that are reported to a job's submitter, instead of a terminal."""

    def __init__(self, job: Job) -> None:
        super().__init__(begun=process_begun())
        self._job = job
        self._name = ""
        self._note = ""
        self._last = 0.0

    @contextmanager
    def shown(self, name: str) -> Iterator[None]:
        """Tell which stage runs."""
        self._name, self._note = name, ""
        self._job.write_progress(name, 0, 0)
        yield

    def on_progress(self, done: int, total: int) -> None:
        """Tell how much of it is done, now and then."""
        if time.monotonic() - self._last >= REPORTED_EVERY_SECONDS:
            self._last = time.monotonic()
            self._job.write_progress(self._name, done, total, self._note)

    def tell(self, text: str) -> None:
        """Tell what it waits for."""
        self._note = text
        self._job.write_progress(self._name, 0, 0, text)


class _Interruption:
    """The one interruption of a job: it breaks off what runs, and is remembered whatever that makes of it."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.came = True
        raise KeyboardInterrupt


def _main(release_id: str) -> int:
    """Be the process of a job."""
    try:
        job = job_of(release_id, state_paths=resolve_paths())
        held = job.hold()
    except (OSError, Refusal) as fault:
        # `submit` finds that it did not start, and names the log that has this.
        why = fault.message if isinstance(fault, Refusal) else f"The job can't be started ({fault.strerror})."
        sys.stderr.write(f"{why}\n")
        return 2
    end = _end_of(job)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job.write_end(end)
    except OSError as error:
        # `status` finds a job without an end and asks the ledger; its log has this.
        kept = f"How this job ended can't be kept ({error.strerror})."
        sys.stderr.write(f"{end.get('message', 'The release is published.')} {kept}\n")
    os.close(held)
    return int(end["exit_code"])


def _end_of(job: Job) -> dict[str, Any]:
    """Run the release; every end is reported, and none with a traceback or a value of the records."""
    interruption = _Interruption()
    try:
        signal.signal(signal.SIGINT, interruption)
        asked = job.arguments()
        from ..run import run_release

        result = run_release(
            Path(asked.spec),
            state_paths=resolve_paths(),
            output=asked.output,
            scheduler=asked.scheduler,
            release_id=job.release_id,
            series=asked.series,
            new=asked.new,
            randomness=secrets.token_bytes,
            stages=_ReportedStages(job),
        )
    except KeyboardInterrupt:
        return CANCELLED
    except Refusal as refusal:
        # A stage that was broken off may say so as a failure of its own.
        if interruption.came:
            return CANCELLED
        return {"exit_code": refusal.exit_code, "where": refusal.where, "message": refusal.message}
    except BaseException as fault:  # noqa: BLE001 - Prefect's signals too: an end that isn't reported would seem a kill
        if interruption.came:
            return CANCELLED
        # PRIVACY: only the kind of the fault is reported; its text could hold a value of the records.
        from ...flows.unfinished import cost_so_far

        _, cost = cost_so_far(job.release_id, resolve_paths())
        return {"exit_code": 1, "where": "", "message": f"Internal fault ({type(fault).__name__}). {cost}"}
    return {"exit_code": 0, "result": result}


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
@NEW
@click.option("--detach", is_flag=True, help="Say the job's id and leave; look after it with status and cancel.")
@AS_JSON
def submit(
    spec: Path,
    ledger_url: str | None,
    output: str | None,
    scheduler: str | None,
    release_id: str | None,
    series: str | None,
    new: bool,
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
        new=begins_another(new=new, release_id=release_id),
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
    from ...accounting.keys.store_upkeep import is_held
    from ...accounting.ledger.reader import open_reader
    from ...flows.unfinished import commands_for, cost_so_far

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
    message = str(reported["message"])
    if end is None or end.get("cancelled"):  # a failure says itself what it cost
        message = f"{message} {_cost(job.release_id, places)}"
    print(f"crowdblend: {message}", file=sys.stderr)
    if as_json:
        kind = {1: "failed", 2: "input", 3: "accountant"}[code]
        error = {"kind": kind, "exit_code": code, "where": reported["where"], "message": message}
        click.echo(json.dumps({"error": error, "release_id": job.release_id}, ensure_ascii=False))
    return code


def _cost(release_id: str, places: StatePaths) -> str:
    """What a job has cost so far, by the ledger, and how it is finished."""
    from ...flows.unfinished import cost_so_far

    stage, cost = cost_so_far(release_id, places)
    again = f"Submit again with --release-id {release_id} to finish it at no new charge"
    match stage:
        case "charged":
            return f"{cost} {again}, or free it with `crowdblend abandon`."
        case "reading" | "unknown":
            return f"{cost} {again}."
        case _:
            return cost


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
