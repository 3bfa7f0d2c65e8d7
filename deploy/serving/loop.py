"""`serve` at work: finishes what is open in its series, runs each release when it comes due, and tells of failures."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.states import Completed, Crashed
from prefect.types.entrypoint import EntrypointType

from ...accounting.kernel.ledger.ledger_state import Stage
from ...accounting.keys.store_upkeep import open_private_store
from ...accounting.ledger.opening import LEDGER_AWAY
from ...flows.paths import StatePaths, reader_of
from ...flows.prepare import destroy_what_is_left
from ...flows.unfinished import cost_so_far
from ...mechanisms.kernel.errors import AccountantRefused, Refusal, ReleaseFailed
from ..prefect.scheduled import release_id_at, scheduled_release
from .serve_settings import EXHAUSTED, FailureFacts, FailureHook, Schedule, exhausted_sentence, say

if TYPE_CHECKING:
    from prefect.client.schemas.responses import DeploymentResponse


_LOOKED_EVERY_SECONDS = 5.0
_STOPPED_WITHIN_SECONDS = 60.0


class _Terminated(KeyboardInterrupt):
    """The service manager asked for the end (SIGTERM)."""


@dataclass(kw_only=True, slots=True)
class ScheduleLoop:
    """The releases of one series, one at a time.

    Args:
        state_paths: where the ledger and the private store lie.
        spec: the specification's file.
        series: the series' name.
        dataset: the data set's name.
        schedule: when releases come due.
        runs: the series' flow runs in Prefect.
        own_server: whether Prefect's server is this process's own, so that it doesn't come back.
        retry_seconds: for how long a release is tried again whose file is missing or whose work failed.
        hook: gets a report of each failure; None for nobody.
    """

    state_paths: StatePaths
    spec: Path
    series: str
    dataset: str
    schedule: Schedule
    runs: PrefectRuns
    own_server: bool
    retry_seconds: float
    hook: FailureHook | None
    _running: str | None = field(default=None, init=False)
    _lost: bool = field(default=False, init=False)
    _ledger_away: bool = field(default=False, init=False)

    def run(self) -> int:
        """Stay until the series has no release left, or until somebody ends it; the exit code.

        Raises:
            ReleaseFailed: Prefect's server was this process's own and is gone.
        """
        signal.signal(signal.SIGTERM, _terminate)
        finished = False
        try:
            while True:
                try:
                    if not finished:
                        self._finish_what_is_open()
                        finished = True
                    # The ledger says how many releases are left, not Prefect's list of runs, which anybody with access
                    # to Prefect can change.
                    if (code := self._ended()) is not None:
                        return code
                    self._say_next()
                    self._run(self._await_due(), retry_seconds=self._window())
                except httpx.HTTPError as error:
                    self._lost_prefect(error)
                except Refusal as refusal:
                    if refusal.cause not in LEDGER_AWAY:
                        raise
                    self._await_ledger(refusal)
        except KeyboardInterrupt as stop:
            return self._stopped("SIGTERM" if isinstance(stop, _Terminated) else "Ctrl-C")
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the way out is short, and reported already
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _lost_prefect(self, error: httpx.HTTPError) -> None:
        if self.own_server:
            raise ReleaseFailed(
                "Prefect's own server is gone.", not_done="", remedy="Serve the series again."
            ) from None
        if not self._lost:
            say(f"Prefect's server can't be reached ({type(error).__name__}); trying on.")
        self._lost = True
        time.sleep(_LOOKED_EVERY_SECONDS)

    def _await_ledger(self, refusal: Refusal) -> None:
        if not self._ledger_away:
            say(f"The ledger can't be used: {refusal.what} Trying on.")
        self._ledger_away = True
        time.sleep(_LOOKED_EVERY_SECONDS)

    def _finish_what_is_open(self) -> None:
        """Releases that were charged or begun and not finished, by the ledger and by Prefect."""
        with reader_of(self.state_paths) as reader:
            names = {state.release_id: state.stage for state in reader.open_releases(series=self.series)}
        left: dict[str, str] = dict(names)
        # Both are asked. The ledger knows releases that were charged, Prefect knows runs that died before the charge.
        for run in self.runs.begun():
            name = self.runs.release_id(run)
            if self._held(name):
                say(f"Release {name} is run by another process; it is left to it.")
                left.pop(name, None)
                continue
            stage, _ = cost_so_far(name, self.state_paths)
            self.runs.close_killed(run, stage=stage)
            if stage is None:
                left[name] = "not charged"
        for name, reached in left.items():
            if self._held(name):
                continue
            say(f"Unfinished: release {name} was cut off ({reached}); it is finished now.")
            self._run(self.runs.create(name), retry_seconds=self.retry_seconds)

    def _held(self, release_id: str) -> bool:
        """Return whether a live process has the release."""
        with reader_of(self.state_paths) as reader:
            ledger_id = reader.ledger_id
        deadline = time.monotonic() + 10
        while True:
            try:
                with open_private_store(self.state_paths.home).hold(ledger_id=ledger_id, release_id=release_id):
                    return False
            except AccountantRefused:
                if time.monotonic() > deadline:
                    return True
                time.sleep(0.2)  # the process of a `serve` that was just killed is about to be gone

    def _ended(self) -> int | None:
        """Return the exit code where the series has no release left; None where it goes on."""
        with reader_of(self.state_paths) as reader:
            state = reader.series(self.series)
            unfinished = reader.open_releases(series=self.series)
        if state.remaining:
            return None
        if unfinished:
            names = ", ".join(release.release_id for release in unfinished)
            say(f"Ended: the series '{self.series}' has no release left, and not finished: {names}. Serve it again.")
            return 1
        self.runs.remove()
        say(exhausted_sentence(state))
        return EXHAUSTED

    def _say_next(self) -> None:
        if self._ledger_away:
            say("The ledger can be used again.")
            self._ledger_away = False
        paused = self.runs.paused()
        if self._lost:
            say("Prefect's server answers again.")
            self._lost = False
        if paused:
            say("The schedule is paused in Prefect; no release comes due until it is resumed there.")
            return
        [when] = self.schedule.next_times(count=1)
        say(f"Next run at {when:%Y-%m-%dT%H:%M:%SZ}: release {release_id_at(self.series, when)}.")

    def _await_due(self) -> FlowRun:
        while (due := self.runs.due(at=datetime.now(UTC))) is None:
            time.sleep(_LOOKED_EVERY_SECONDS)
        return due

    def _window(self) -> float:
        """For how long a release that begins now is tried again: no longer than until the next comes due."""
        now = datetime.now(UTC)
        [following] = self.schedule.next_times(count=1, after=now)
        return min(self.retry_seconds, (following - now).total_seconds())

    def _run(self, run: FlowRun, *, retry_seconds: float) -> None:
        """Run one release in a process of its own and say what becomes of it."""
        name = self.runs.release_id(run)
        self._running = name
        say(f"Running release {name}.")
        ended = False
        with _process_of(run, retry_seconds) as process:
            for line in process.stdout or ():
                # A process that dies reports no end: whatever Prefect has of it, the ledger then says how far it came.
                ended = self._say_event(name, json.loads(line)) or ended
            code = process.wait()
        if not ended:
            stage, cost = cost_so_far(name, self.state_paths)
            self.runs.close_killed(run, stage=stage)
            how = f"signal {-code}" if code < 0 else f"exit {code}"
            self._failed(name, {"exit_code": 1, "cause": "killed", "message": f"its process died ({how}). {cost}"})
            with suppress(Refusal), reader_of(self.state_paths) as reader:
                destroy_what_is_left(reader, self.state_paths)  # it may have been the last run
        self._running = None

    def _say_event(self, name: str, reported: dict[str, Any]) -> bool:
        """Say an event of a release's process; whether it is its end."""
        match reported["event"]:
            case "note":
                say(f"Release {name}: {reported['message']}.")
            case "waiting":
                say(f"Waiting: release {name}: {reported['message']} Tried again until {reported['until']}.")
            case "published":
                say(f"Published release {name} ({reported['place']}): {reported['output']}")
                return True
            case "interrupted":
                self._failed(name, {"exit_code": 1, "cause": "interrupted", "message": "its process was interrupted."})
                return True
            case _:
                self._failed(name, reported)
                return True
        return False

    def _failed(self, name: str, reported: dict[str, Any]) -> None:
        """Say that a release was refused or failed, what it costs, and tell the hook."""
        refused = reported["exit_code"] != 1
        stage, cost = cost_so_far(name, self.state_paths)
        say(f"{'Refused' if refused else 'Failed'}: release {name}: {reported['message']}")
        own = "" if cost in reported["message"] else f"{cost} "
        if stage in ("charged", "reading", "unknown"):
            say(
                f"{own}Finish it at no new charge by serving the series again, or give it up: "
                f"crowdblend abandon {name} --reason TEXT"
            )
        if self.hook is None:
            return
        facts = FailureFacts(
            release_id=name,
            dataset=self.dataset,
            series=self.series,
            exit_code=reported["exit_code"],
            cause=reported["cause"],
        )
        if (fault := self.hook.tell(facts)) is not None:
            say(f"The failure hook could not be called: {fault}.")

    def _stopped(self, how: str) -> int:
        """Say what an end that somebody asked for leaves behind: 0, or 1 where a release was cut off."""
        if self._running is None:
            say(f"Stopped by {how}. Nothing was running; serve again, and the schedule goes on.")
            return 0
        stage, cost = cost_so_far(self._running, self.state_paths)
        say(f"Stopped by {how}. Release {self._running} was cut off. {cost}")
        if stage != "published":
            say("Serve the series again to finish it at no new charge.")
            say(f"Or give it up: crowdblend abandon {shlex.quote(self._running)} --reason TEXT")
        return 1


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _Terminated


@contextmanager
def _process_of(run: FlowRun, retry_seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Give the process of a flow run; where the block is left before its end, it is asked to stop, and then made to.

    Its standard input stays open as long as this process lives, and so does it. Ctrl-C at the terminal is for this
    process alone.
    """
    # A process of its own: what a release holds of records in its memory ends with it, and a crash of it leaves the
    # schedule alive.
    process = subprocess.Popen(  # noqa: S603 - this interpreter and this package, and no shell is involved
        [sys.executable, "-m", "crowdblend.deploy.serving.served_release", str(run.id), str(retry_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
        encoding="utf-8",
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=_STOPPED_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


BEGUN = {"state": {"type": {"any_": [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING, StateType.PAUSED]}}}
RUNNING_TASKS = TaskRunFilter.model_validate({"state": {"type": {"any_": [StateType.PENDING, StateType.RUNNING]}}})


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefectRuns:
    """The flow runs of one series' deployment, which has the series' name."""

    deployment_id: UUID
    series: str

    def release_id(self, run: FlowRun) -> str:
        """Return the release that a flow run is for."""
        named = run.parameters.get("release_id")
        when = run.expected_start_time
        if named or when is None:
            return str(named)
        return release_id_at(self.series, when)

    def due(self, *, at: datetime) -> FlowRun | None:
        """Return the first flow run that is due; None where none is."""
        due = {"next_scheduled_start_time": {"before_": at}, "state": {"type": {"any_": [StateType.SCHEDULED]}}}
        return next(iter(self._found(due)), None)

    def set_parameters(self, parameters: dict[str, str | bool]) -> None:
        """Give all flow runs that haven't begun these parameters; a release that one of them names stays its own.

        Prefect leaves the parameters of late runs as they were, though the deployment has others by now.
        """
        waiting = {"state": {"type": {"any_": [StateType.SCHEDULED]}}}
        for run in self._found(waiting):
            named = {name: run.parameters[name] for name in ("release_id",) if name in run.parameters}
            if run.parameters != parameters | named:
                with get_client(sync_client=True) as client:
                    client.update_flow_run(run.id, parameters=parameters | named)

    def begun(self) -> list[FlowRun]:
        """Return flow runs that have begun and not ended, by their scheduled times."""
        return self._found(BEGUN)

    def paused(self) -> bool:
        """Return whether Prefect's schedule is paused, so that nothing will come due."""
        with get_client(sync_client=True) as client:
            deployment = client.read_deployment(self.deployment_id)
        return bool(deployment.paused) or not any(schedule.active for schedule in deployment.schedules)

    def create(self, release_id: str) -> FlowRun:
        """Return a new flow run that finishes a release."""
        with get_client(sync_client=True) as client:
            return client.create_flow_run_from_deployment(self.deployment_id, parameters={"release_id": release_id})

    def close_killed(self, run: FlowRun, *, stage: Stage | Literal["unknown"] | None) -> None:
        """End a flow run whose process is dead, by how far the ledger has its release; its subflows and tasks too."""
        name = self.release_id(run)
        ended: State[None] = Crashed(message=f"The process was killed; another flow run can finish release {name}.")
        if stage == "published":
            published = f"Release {name} is published; its process was killed before it reported to Prefect."
            ended = Completed(message=published)
        elif stage == "abandoned":
            ended = Crashed(message=f"The process was killed; release {name} was abandoned.")
        inner = FlowRunFilter.model_validate({"name": {"any_": [name]}, **BEGUN})
        with get_client(sync_client=True) as client:
            for flow_run in (*client.read_flow_runs(flow_run_filter=inner), run):
                of_run = FlowRunFilter.model_validate({"id": {"any_": [flow_run.id]}})
                for task_run in client.read_task_runs(flow_run_filter=of_run, task_run_filter=RUNNING_TASKS):
                    client.set_task_run_state(task_run.id, Crashed(message="The process was killed."), force=True)
                client.set_flow_run_state(flow_run.id, ended, force=True)

    def remove(self) -> None:
        """Take the deployment with its schedule out of Prefect; what has run stays recorded."""
        with get_client(sync_client=True) as client:
            client.delete_deployment(self.deployment_id)

    def _found(self, wanted: dict[str, Any]) -> list[FlowRun]:
        with get_client(sync_client=True) as client:
            return client.read_flow_runs(
                flow_run_filter=FlowRunFilter.model_validate(wanted),
                deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [self.deployment_id]}}),
                sort=FlowRunSort.EXPECTED_START_TIME_ASC,
            )


def deployed(*, series: str, schedule: Schedule, parameters: dict[str, str | bool]) -> PrefectRuns:
    """Return the deployment of a series: as it is, where Prefect has it so, paused or not; else written anew.

    Runs that came due before have the parameters that are given now.
    """
    with get_client(sync_client=True) as client:
        try:
            known = client.read_deployment_by_name(f"{scheduled_release.name}/{series}")
        except ObjectNotFound:
            known = None
    if known is not None and _is_so(known, schedule=schedule, parameters=parameters):
        runs = PrefectRuns(deployment_id=known.id, series=series)
        runs.set_parameters(parameters)
        return runs
    deployment = cast(
        RunnerDeployment,
        scheduled_release.to_deployment(
            name=series,
            schedule=Cron(schedule.cron, timezone=schedule.timezone),
            parameters=parameters,
            entrypoint_type=EntrypointType.MODULE_PATH,
        ),
    )
    runs = PrefectRuns(deployment_id=cast(UUID, deployment.apply()), series=series)
    runs.set_parameters(parameters)
    return runs


def _is_so(known: DeploymentResponse, *, schedule: Schedule, parameters: dict[str, str | bool]) -> bool:
    times = [tuple(getattr(one.schedule, name, None) for name in ("cron", "timezone")) for one in known.schedules]
    return times == [(schedule.cron, schedule.timezone)] and known.parameters == parameters
