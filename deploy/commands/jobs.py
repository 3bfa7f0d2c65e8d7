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
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ...accounting.kernel.keys.private_files import (
    open_handle,
    private_folder,
    read_private_record,
    replace_private,
    try_lock,
)
from ...flows.paths import StatePaths, reader_of, resolve_paths
from ...mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal
from ..terminal.stages import Stages, process_begun
from .options import AS_JSON, FILE, LEDGER, NEW, begins_another, print_refusal

if TYPE_CHECKING:
    from ..schemas.outputs import JobState, JobStatus


STARTED_WITHIN_SECONDS = 60.0
RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job's folder in the private store: what its process and its submitter know of each other.

    PRIVACY: how far a count has come follows the number of records, so what is reported of it stays in this folder
    (0700) and on the steward's terminal.
    """

    release_id: str
    folder: Path

    @classmethod
    def of(cls, release_id: str, places: StatePaths) -> Job:
        """Return the job of a release, whether or not one was submitted from this private store."""
        if not RELEASE_ID.fullmatch(release_id):
            raise InputRefused("a release id is 1 to 128 letters, digits and any of . _ : + @ -.", where=release_id)
        return cls(release_id=release_id, folder=places.home / "jobs" / release_id)

    def start(self, asked: Mapping[str, Any], places: StatePaths) -> None:
        """Start the job's process, in a session of its own, and see that it lives.

        Args:
            asked: arguments of `run_release`, all of them free of secrets; the process finds them in the folder.
            places: where the ledger and the private store lie; the process finds them in its environment.

        Raises:
            AccountantRefused: a live process runs the release.
            InputRefused: the process can't be started.
        """
        if self.process() is not None:
            raise AccountantRefused(
                "this release is held by a live process.",
                where=f"release '{self.release_id}'",
                remedy=f"Follow it with `crowdblend status {self.release_id}`.",
            )
        try:
            private_folder(self.folder)
            for name in ("progress.json", "end.json"):
                (self.folder / name).unlink(missing_ok=True)
            self.write("job.json", asked)
            with (self.folder / "log").open("wb") as log:
                process = subprocess.Popen(  # noqa: S603 - the id has its form, and no shell is involved
                    [sys.executable, "-m", "crowdblend.deploy.commands.jobs", self.release_id],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=os.environ | places.environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise InputRefused(f"the job can't be started ({error.strerror}).", where=str(self.folder)) from None
        deadline = time.monotonic() + STARTED_WITHIN_SECONDS
        while self.process() is None and self.end() is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise InputRefused("the job's process did not start.", where=str(self.folder / "log"))
            time.sleep(0.02)

    def exists(self) -> bool:
        """Return whether the job was submitted from this private store."""
        return os.path.exists(self.folder / "job.json")  # `Path.exists` raises where it can't look

    def require(self) -> None:
        """Refuse a job that was not submitted from this private store."""
        if not self.exists():
            raise InputRefused(
                f"no job '{self.release_id}' was submitted from here.",
                where=str(self.folder.parents[1]),
                remedy="Use the private store (CROWDBLEND_HOME) that it was submitted with.",
            )

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Put a file of the folder in its place, whole and durable."""
        replace_private(self.folder / name, json.dumps(content, ensure_ascii=False).encode())

    def write_progress(self, stage: str, done: int, total: int, said: Sequence[Said]) -> None:
        """Report how much of a stage is done, and all that was said so far; called by the job's process."""
        draft = self.folder / ".progress"
        progress = {"stage": stage, "done": done, "total": total, "said": said}
        with suppress(OSError):  # a full disk ends no release by its progress
            draft.write_text(json.dumps(progress), encoding="utf-8")
            draft.replace(self.folder / "progress.json")

    def progress(self) -> dict[str, Any] | None:
        """Return what `write_progress` reported last; None before the first stage."""
        return read_private_record(self.folder / "progress.json")

    def end(self) -> dict[str, Any] | None:
        """Return exit_code, and result or error; None while it runs or where it was killed."""
        return read_private_record(self.folder / "end.json")

    def hold(self) -> int:
        """Lock the folder until the job's process dies, however it dies; called by that process."""
        handle = os.open(self.folder / "alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        return handle

    def process(self) -> int | None:
        """Return the id of the process that runs the job; None where none is alive."""
        try:
            with open_handle(self.folder / "alive", os.O_RDONLY | os.O_CLOEXEC) as handle:
                return None if try_lock(handle) else int(os.read(handle, 20) or b"0") or None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputRefused(f"the private store can't be used ({error.strerror}).", where=str(self.folder)) from None


Said = tuple[str, str]
"""What a job has said: "stage" and its name, or "told" or "warned" and a text."""
REPORTED_EVERY_SECONDS = 0.2
CANCELLED = {"exit_code": 1, "where": "", "message": "The job was cancelled.", "cancelled": True}


class _ReportedStages(Stages):
    """Stages that are reported to a job's submitter, instead of a terminal."""

    def __init__(self, job: Job) -> None:
        super().__init__(begun=process_begun())
        self._job = job
        self._name = ""
        self._said: list[Said] = []
        self._last = 0.0

    @contextmanager
    def shown(self, name: str) -> Iterator[None]:
        """Tell which stage runs."""
        self._name = name
        self._say("stage", name)
        yield

    def on_progress(self, done: int, total: int) -> None:
        """Tell how much of it is done, now and then."""
        if time.monotonic() - self._last >= REPORTED_EVERY_SECONDS:
            self._last = time.monotonic()
            self._job.write_progress(self._name, done, total, self._said)

    def tell(self, text: str) -> None:
        """Tell what it waits for."""
        self._say("told", text)

    def warn(self, text: str) -> None:
        """Warn before the first stage."""
        self._say("warned", text)

    def _say(self, kind: str, text: str) -> None:
        # All of it is kept: whoever follows looks now and then, and a stage or a warning may be followed at once.
        self._said.append((kind, text))
        self._job.write_progress(self._name, 0, 0, self._said)


def _main(release_id: str) -> int:
    """Be the process of a job."""
    try:
        job = Job.of(release_id, resolve_paths())
        job.require()
        held = job.hold()
    except (OSError, Refusal) as fault:
        # `submit` finds that it did not start, and names the log that has this.
        why = fault.message if isinstance(fault, Refusal) else f"The job can't be started ({fault.strerror})."
        sys.stderr.write(f"{why}\n")
        return 2
    end = _end_of(job)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job.write("end.json", end)
    except OSError as error:
        # `status` finds a job without an end and asks the ledger; its log has this.
        kept = f"How this job ended can't be kept ({error.strerror})."
        sys.stderr.write(f"{end.get('message', 'The release is published.')} {kept}\n")
    os.close(held)
    return int(end["exit_code"])


def _end_of(job: Job) -> dict[str, Any]:
    """Run the release; every end is reported, and none with a traceback or a value of the records."""
    interrupted = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        interrupted.set()
        raise KeyboardInterrupt

    try:
        signal.signal(signal.SIGINT, interrupt)
        asked = json.loads((job.folder / "job.json").read_bytes())
        from ..run import run_release

        result = run_release(
            Path(asked.pop("spec")),
            state_paths=resolve_paths(),
            release_id=job.release_id,
            randomness=secrets.token_bytes,
            stages=_ReportedStages(job),
            **asked,
        )
    except BaseException as fault:  # noqa: BLE001 - Prefect's signals too: an end that isn't reported would seem a kill
        # A stage that was broken off may say so as a failure of its own.
        if interrupted.is_set() or isinstance(fault, KeyboardInterrupt):
            return CANCELLED
        if isinstance(fault, Refusal):
            return {"exit_code": fault.exit_code, "where": fault.where, "message": fault.message}
        # PRIVACY: only the kind of the fault is reported; its text could hold a value of the records.
        from ...flows.unfinished import cost_so_far

        _, cost = cost_so_far(job.release_id, resolve_paths())
        return {"exit_code": 1, "where": "", "message": f"Internal fault ({type(fault).__name__}). {cost}"}
    return {"exit_code": 0, "result": result}


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
    asked = {
        "spec": str(spec.absolute()),
        "output": output if output is None or "://" in output else str(Path(output).absolute()),
        "scheduler": scheduler,
        "series": series,
        "new": begins_another(new=new, release_id=release_id),
    }
    job = Job.of(release_id or _new_id(spec), places)
    job.start(asked, places)
    if detach:
        reported = {"release_id": job.release_id, "state": "running"}
        follow = f"Follow it: crowdblend status {job.release_id}\nCancel it: crowdblend cancel {job.release_id}"
        click.echo(json.dumps(reported) if as_json else f"Job {job.release_id} runs.\n{follow}")
        return 0
    click.echo(f"crowdblend: job {job.release_id}", err=True)
    try:
        end = _followed(job)
    except KeyboardInterrupt:
        if not _stop(job):
            return _print_still_running(job, as_json=as_json)
        return _print_end(job, job.end(), places, as_json=as_json)
    return _print_end(job, end, places, as_json=as_json)


@click.command()
@click.argument("release_id")
@LEDGER
@AS_JSON
def status(release_id: str, ledger_url: str | None, as_json: bool) -> int:
    """Say how far a release is, or how it ended: a submitted job, or any release of the ledger."""
    places = resolve_paths(ledger_url=ledger_url)
    job = Job.of(release_id, places)
    if not job.exists():
        return _print_ledger_status(release_id, places, ledger=ledger_url, as_json=as_json)
    alive, end = job.process() is not None, job.end()
    reported = _reported(job, end, places, runs=alive and end is None)
    stage = None if reported["state"] in ("running", "published") else _stage_of(release_id, places)
    if stage in ("published", "abandoned") or (reported["state"] == "refused" and stage not in (None, "unknown")):
        # The release is as far as the ledger says: what was refused was to run it once more, and one whose job was
        # broken off may have been finished, or given up, without a job.
        return _print_ledger_status(release_id, places, ledger=ledger_url, as_json=as_json)
    if as_json:
        click.echo(json.dumps(reported, ensure_ascii=False))
        return 0
    during = f" ({reported['stage']})" if reported["state"] == "running" and reported["stage"] else ""
    lines = [f"Job {release_id}: {reported['state']}{during}.", reported["message"], reported["cost"]]
    click.echo("\n".join(str(line) for line in lines if line))
    return 0


@click.command()
@click.argument("release_id")
@LEDGER
@AS_JSON
def cancel(release_id: str, ledger_url: str | None, as_json: bool) -> int:
    """Stop a submitted job and say what it cost."""
    places = resolve_paths(ledger_url=ledger_url)
    job = Job.of(release_id, places)
    job.require()
    if job.end() is not None or job.process() is None:
        raise InputRefused("the job has ended.", where=f"job '{release_id}'", remedy="See `crowdblend status`.")
    if not _stop(job):
        return _print_still_running(job, as_json=as_json)
    end = job.end()
    if end is not None and end["exit_code"] == 0:  # it was published before it could be stopped
        _print_end(job, end, places, as_json=as_json)
        return 1
    # What fails is the job, and not the command that was to stop it.
    _print_end(job, end, places, as_json=False)
    if as_json:
        click.echo(json.dumps(_reported(job, end, places, runs=False), ensure_ascii=False))
    return 0


def _new_id(spec: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", spec.stem).strip("._-")[:80] or "release"
    return f"{name}-{secrets.token_hex(6)}"


def _followed(job: Job) -> dict[str, Any] | None:
    """Show the job's progress until it ends, and return its end; None where it was killed."""
    stages, heard = Stages(), 0
    with ExitStack() as shown:
        while True:
            ended = job.end() is not None or job.process() is None
            progress = job.progress()  # after the question whether it ended: the last stage is shown, however short
            if progress is not None:
                for kind, text in progress["said"][heard:]:
                    if kind == "stage":
                        shown.close()
                        shown.enter_context(stages.shown(text))
                    else:
                        (stages.warn if kind == "warned" else stages.tell)(text)
                heard = len(progress["said"])
                if progress["total"]:
                    stages.on_progress(progress["done"], progress["total"])
            if ended:
                return job.end()
            time.sleep(LOOKED_EVERY_SECONDS)


def _stop(job: Job) -> bool:
    """Ask the job to stop, and wait; return whether it has ended."""
    click.echo("crowdblend: cancelling; what is charged stays charged", err=True)
    if (process := job.process()) is not None:
        os.kill(process, signal.SIGINT)
    deadline = time.monotonic() + CANCELLED_WITHIN_SECONDS
    while job.process() is not None and time.monotonic() < deadline:
        time.sleep(LOOKED_EVERY_SECONDS)
    return job.process() is None


def _print_still_running(job: Job, *, as_json: bool) -> int:
    still = f"the job still runs; look with `crowdblend status {job.release_id}`."
    where = f"job '{job.release_id}'"
    return print_refusal(still, where=where, exit_code=1, as_json=as_json, release_id=job.release_id)


def _print_ledger_status(release_id: str, places: StatePaths, *, ledger: str | None, as_json: bool) -> int:
    """Print the status of a release that no job from here ran: by the ledger, and by who holds it on this machine."""
    from ...accounting.keys.store_upkeep import is_held
    from ...flows.unfinished import commands_for, cost_so_far

    with reader_of(places) as reader:
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
    if as_json:
        none = dict.fromkeys(("stage", "exit_code", "message"))
        click.echo(json.dumps({"release_id": release_id, "state": state, **none, "cost": cost}, ensure_ascii=False))
    else:
        click.echo("\n".join([f"Release {release_id}: {state}.", cost, *ways]))
    return 0


def _stage_of(release_id: str, places: StatePaths) -> str | None:
    """Return how far a release is by the ledger; None where it has none, "unknown" where it can't be read."""
    from ...flows.unfinished import cost_so_far

    return cost_so_far(release_id, places)[0]


def _state_of(end: dict[str, Any]) -> JobState:
    if end.get("cancelled"):
        return "cancelled"
    states: dict[int, JobState] = {0: "published", 1: "failed", 2: "refused", 3: "refused"}
    return states[end["exit_code"]]


def _reported(job: Job, end: dict[str, Any] | None, places: StatePaths, *, runs: bool) -> JobStatus:
    """Return how far a job is, as `status --json` and `cancel --json` print it."""
    progress = job.progress()
    return {
        "release_id": job.release_id,
        "state": "running" if runs else "killed" if end is None else _state_of(end),
        "stage": None if progress is None else progress["stage"],
        "exit_code": None if end is None else end["exit_code"],
        "message": None if end is None else end.get("message"),
        "cost": None if runs else _cost(job.release_id, places),
    }


def _print_end(job: Job, end: dict[str, Any] | None, places: StatePaths, *, as_json: bool) -> int:
    if end is not None and end["exit_code"] == 0:
        from .release_commands import print_result

        print_result(end["result"], as_json=as_json)
        return 0
    reported = end or {"exit_code": 1, "where": "", "message": "The job's process was killed."}
    code = int(reported["exit_code"])
    message = str(reported["message"])
    if end is None or end.get("cancelled"):  # a failure says itself what it cost
        message = f"{message} {_cost(job.release_id, places)}"
    where = reported["where"]
    return print_refusal(message, where=where, exit_code=code, as_json=as_json, release_id=job.release_id)


def _cost(release_id: str, places: StatePaths) -> str:
    """Return what a job has cost so far, by the ledger, and how it is finished."""
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
