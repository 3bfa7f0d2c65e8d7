"""A command that is interrupted at one of its steps, in one of the ways in which machines and networks do it."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.commands import Commands
from support.steps import Steps

FAULTS = ("kill", "full disk", "failing call", "lost connection")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE)
ON_THE_PATH = Path(__file__).with_name("interrupted_release")

AS_COMMAND = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from support.interruptions import be_interrupted
be_interrupted()
"""


def of_database(kind: str) -> bool:
    """Return whether a step is a statement or a commit, and no call of a file."""
    return kind.isupper() or kind == "commit"


def run_interrupted(
    processes: Commands,
    words: tuple[str, ...],
    *,
    folder: Path,
    environment: Mapping[str, str],
    fault: str = "",
    at: int | None = None,
    error: int = errno.EIO,
) -> tuple[int, str, str, list[str]]:
    """Run a command, interrupted before one of its steps.

    Args:
        processes: starts it.
        words: the command line; or one of `OTHER_CALLERS` with its arguments.
        folder: the folder whose steps count, and in which it runs.
        environment: its environment.
        fault: one of `FAULTS`.
        at: the step's number; None to run it whole.
        error: the error number of a failing call.

    Returns:
        Its exit code, what it said on standard output and standard error, and the kinds of its steps.
    """
    notes = folder.with_name(f"{folder.name}-steps.jsonl")
    notes.write_bytes(b"")
    told = {
        "folder": str(folder),
        "notes": str(notes),
        "fault": fault,
        "at": at,
        "error": error,
    }
    process = processes.start(
        *words, folder=folder, environment=environment | {"TEST_INTERRUPTION": json.dumps(told)}, script=AS_COMMAND
    )
    code, out, err = process.finish(timeout=600)
    return code, out, err, [json.loads(line)[0] for line in notes.read_text().splitlines()]


def be_interrupted() -> None:
    """Run the command of this process's arguments, and interrupt it as its environment says."""
    job = json.loads(os.environ.pop("TEST_INTERRUPTION"))
    LAID_BEFORE.get(sys.argv[1], lambda *_: None)(*sys.argv[2:])
    if sys.argv[1] == "served":  # the steps are those of its release, which has a process of its own
        os.environ["TEST_INTERRUPTION"] = json.dumps(
            job | {"with_parent": job["at"] is not None and job["at"] % 2 == 0}
        )
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ON_THE_PATH), os.environ.get("PYTHONPATH", "")])
    else:
        watch_steps(job)
    if sys.argv[1] in OTHER_CALLERS:
        OTHER_CALLERS[sys.argv[1]](*sys.argv[2:])
    else:
        from crowdblend.deploy import cli

        cli.main(sys.argv[1:])


def watch_steps(job: dict[str, Any]) -> None:
    """Note the steps of this process from now on, and interrupt it as the job says."""
    notes = os.open(job["notes"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    write = os.write  # before it is watched

    def tell(step: list) -> None:
        with suppress(OSError):  # on a disk that is full; what fails then is the command's own
            write(notes, json.dumps(step).encode() + b"\n")

    steps = Steps(Path(job["folder"]), at=job["at"], act=lambda _: None, tell=tell)
    steps.act = acts(job, steps)
    steps.watch()


def acts(job: dict[str, Any], steps: Steps) -> Callable[[str], None]:
    """Return what is done before the step."""

    def kill(_: str) -> None:
        if job.get("with_parent"):
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def fill_disk(_: str) -> None:
        """From here on no file grows, the database's neither; pipes still take what is said."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    def fail_call(kind: str) -> None:
        if of_database(kind):  # a statement is no call of a file: the next one that is fails
            steps.at = steps.done
            return
        raise OSError(job["error"], os.strerror(job["error"]))

    def lose_connection(_: str) -> None:
        import psycopg

        address = os.environ["CROWDBLEND_LEDGER"].replace("postgresql+psycopg", "postgresql")
        others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(others)

    chosen = {"kill": kill, "full disk": fill_disk, "failing call": fail_call, "lost connection": lose_connection}
    return chosen.get(job["fault"], lambda _: None)


def be_scheduled(spec: str, series: str, release_id: str) -> None:
    """Run the flow that schedules run, and leave as it ended."""
    from crowdblend.deploy.prefect.scheduled import scheduled_release

    state = scheduled_release(spec, series, ".", release_id=release_id, return_state=True)
    print(state.message, file=sys.stderr)
    sys.exit(0 if state.is_completed() else 1)


def be_called(spec: str, release_id: str) -> None:
    """Release by the Python interface, and leave as a command would."""
    from crowdblend.deploy.api import Refusal, release

    try:
        release(spec, release_id=release_id)
    except Refusal as refusal:
        print(refusal.message, file=sys.stderr)
        sys.exit(refusal.exit_code)


def lay_job(spec: str, release_id: str) -> None:
    """Leave a job's folder as `submit` leaves it: that is another process, whose steps aren't the job's."""
    folder = Path(os.environ["CROWDBLEND_HOME"], "jobs", release_id)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.parent.chmod(0o700)
    asked = {"spec": spec, "output": None, "scheduler": None, "series": None, "new": False}
    (folder / "job.json").write_text(json.dumps(asked))
    (folder / "end.json").unlink(missing_ok=True)


def be_submitted(spec: str, release_id: str) -> None:
    """Run a job, and leave with the code and the words that it kept."""
    from crowdblend.deploy.commands import jobs

    folder = Path(os.environ["CROWDBLEND_HOME"], "jobs", release_id)
    code = jobs._main(release_id)
    if (folder / "end.json").exists():
        print(json.loads((folder / "end.json").read_text()).get("message", ""), file=sys.stderr)
    sys.exit(code)


def be_served(spec: str, series: str, release_id: str) -> None:
    """Serve a series of one release, which comes due at once, and leave with 0 where that is published.

    Every other kill ends `serve` and its release together, the others its release alone. Where the release failed
    and isn't charged, `serve` would wait for the next one; it is stopped then.
    """
    from crowdblend.deploy import cli
    from crowdblend.deploy.serving import loop
    from crowdblend.deploy.serving.serve_settings import EXHAUSTED

    deployed, waits = loop.deployed, iter([loop.ScheduleLoop._await_due])

    def with_one_due(**deployment: Any) -> loop.PrefectRuns:
        runs = deployed(**deployment)
        runs.create(release_id)
        return runs

    def await_once(self: loop.ScheduleLoop) -> object:
        for wait in waits:
            return wait(self)
        os.kill(os.getpid(), signal.SIGTERM)
        return signal.pause()

    loop.deployed, loop.ScheduleLoop._await_due = with_one_due, await_once
    words = ["serve", spec, "--series", series, "--cron", "0 3 1 1 *", "--output", "published", "--retry-for", "5s"]
    try:
        cli.main(words)
    except SystemExit as left:
        sys.exit({EXHAUSTED: 0, 0: 1}.get(left.code, left.code))


LAID_BEFORE = {"job": lay_job}
OTHER_CALLERS = {"scheduled": be_scheduled, "python": be_called, "job": be_submitted, "served": be_served}
