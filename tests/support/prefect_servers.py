"""Real Prefect servers on loopback: one that the tests of a process share, and one that a module may stop and start."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from crowdblend.deploy.prefect_environment import QUIET
from crowdblend.deploy.prefect_in_process import NO_HEARTBEATS, changed_settings

LEAN = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
"""A server without pages and without the services of schedules, which cost processor time while nothing runs."""


@dataclass
class PrefectServer:
    """A real Prefect server on loopback whose records outlive its process."""

    folder: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen | None = None

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | QUIET | {"PREFECT_HOME": str(self.folder), "PREFECT_API_URL": self.api_url}

    def start(self) -> None:
        words = ["--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", str(self.port)]
        environment = self.environment | self.settings
        environment.pop("PREFECT_API_URL")
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", *words, "--log-level", "warning"],
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 900
        while not self.healthy():
            assert self.process.poll() is None, (self.folder / "server.log").read_text()
            assert time.monotonic() < deadline, "Prefect's server did not start"
            time.sleep(0.1)

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=60)
            self.process = None

    def healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/api/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """The server of all tests that are about releases and not about the server; this process uses it from now on."""
    made = PrefectServer(folder=tmp_path_factory.mktemp("prefect"), port=_free_port(), settings=LEAN)
    made.start()
    os.environ["PREFECT_API_URL"] = made.api_url
    os.environ["PREFECT_HOME"] = str(tmp_path_factory.mktemp("prefect-client"))
    with changed_settings(flows=NO_HEARTBEATS):
        yield made
    made.stop()


@pytest.fixture(scope="module")
def own_prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """A server that a module may kill and start again, and whose schedules it watches."""
    settings = {"PREFECT_SERVER_API_SERVICES_SCHEDULER_LOOP_SECONDS": "2"}
    made = PrefectServer(folder=tmp_path_factory.mktemp("prefect"), port=_free_port(), settings=settings)
    made.start()
    yield made
    made.stop()
