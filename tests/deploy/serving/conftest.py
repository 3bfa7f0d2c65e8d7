"""A `serve` in a process of its own, its lines, and what Prefect and the ledger have of its releases."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from support.commands import Forked

KILL_AT = Path(__file__).parents[2] / "support" / "kill_at"
YEARLY = "0 3 1 1 *"
LINE = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ \S.*\n")


@dataclass
class Serving:
    """A running `serve` whose output is a pipe."""

    process: Forked
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.coming: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.coming.put(line)
        self.coming.put(None)

    def await_line(self, pattern: str, *, seconds: float = 300) -> str:
        """The next line with a pattern; every line has its time."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self.coming.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"no {pattern!r} in {''.join(self.lines)}") from None
            assert line is not None, f"it ended without {pattern!r}: {''.join(self.lines)}"
            self.lines.append(line)
            assert LINE.fullmatch(line), line
            if re.search(pattern, line):
                return line

    def end(self, how: int | None = None) -> int:
        """End it, or await its end; its exit code. The lines that came are kept."""
        if how is not None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=300)
        while (line := self.coming.get(timeout=60)) is not None:
            self.lines.append(line)
        return code


@pytest.fixture
def serve(desk, commands) -> Iterator[Callable[..., Serving]]:
    """Start `serve` for a series at the desk; with a step, it and its release are killed there."""
    started: list[Serving] = []

    def start(
        series: str, *words: str, environment: dict[str, str], cron: str = YEARLY, kill_at: str | None = None
    ) -> Serving:
        own = environment | {"CROWDBLEND_LEDGER": desk.ledger, "CROWDBLEND_HOME": str(desk.home)}
        if kill_at is not None:
            own |= {
                "TEST_KILL_AT": kill_at,
                "PYTHONPATH": os.pathsep.join([str(KILL_AT), *environment.get("PYTHONPATH", "").split(os.pathsep)]),
            }
        command = ["serve", "spec.toml", "--series", series, "--cron", cron, "--output", "published", *words]
        log = desk.folder / "serve.err"
        started.append(Serving(commands.start(*command, folder=desk.folder, environment=own, log=log)))
        return started[-1]

    yield start
    for serving in started:
        if serving.process.poll() is None:
            serving.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                serving.process.wait(timeout=120)
        if serving.process.poll() is None:
            serving.process.kill()
        serving.process.wait()
        serving.process.stdout.close()


@dataclass
class Prefect:
    """What tests ask a Prefect server, and the environment of a `serve` that uses it."""

    api_url: str
    environment: dict[str, str]

    def ask(self, path: str, **body: object) -> list[dict]:
        return httpx.post(f"{self.api_url}/{path}", json=body, timeout=60).raise_for_status().json()

    def trigger(self, series: str) -> str:
        """Have a release come due now; its flow run."""
        [deployment] = self.ask("deployments/filter", deployments={"name": {"any_": [series]}})
        return str(self.ask(f"deployments/{deployment['id']}/create_flow_run")["id"])

    def flow_run(self, number: str) -> dict:
        return httpx.get(f"{self.api_url}/flow_runs/{number}", timeout=60).raise_for_status().json()

    def runs_of(self, series: str) -> list[dict]:
        """The deployment's flow runs, in the order in which they were made."""
        of_series = {"deployments": {"name": {"any_": [series]}}}
        return sorted(self.ask("flow_runs/filter", **of_series), key=lambda run: run["created"])

    def live(self) -> list[tuple[str, str]]:
        """Names and states of all flow and task runs that have begun and not ended."""
        begun = {"state": {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}}
        runs = self.ask("flow_runs/filter", flow_runs=begun) + self.ask("task_runs/filter", task_runs=begun)
        return [(run["name"], run["state_name"]) for run in runs]


@pytest.fixture
def prefect(prefect_server) -> Prefect:
    """The server that the tests share; releases come due on it when a test says so."""
    return Prefect(prefect_server.api_url, prefect_server.environment)


@pytest.fixture
def scheduler(own_prefect_server) -> Prefect:
    """A server of the module's own that runs schedules."""
    return Prefect(own_prefect_server.api_url, own_prefect_server.environment)


@pytest.fixture
def embedded() -> dict[str, str]:
    """The environment of a `serve` with a server of its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_API", "PREFECT_HOME"))}
