"""Real Prefect servers on loopback: one that all tests share, and one that a module may stop and start."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import pytest
from crowdblend.deploy.prefect_environment import NO_HEARTBEATS, QUIET, changed_settings, template_in
from support.shared import common_folder, filled_once, kept, started_once

LEAN = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    "PREFECT__SERVER_WEBSERVER_ONLY": "1",
}
"""A server without pages and services, as `prefect server start --no-services` starts it.

It takes the events of task runs and keeps none of them: to record them is two thirds of its work for a release.
"""
TESTS = str(Path(__file__).parents[1])
MAKE_TEMPLATE = """
import sys
from pathlib import Path
from crowdblend.deploy.prefect_environment import lay_out_database
lay_out_database(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@dataclass
class PrefectServer:
    """A real Prefect server on loopback whose records outlive its process."""

    folder: Path
    port: int
    template: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen | None = None

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | QUIET | {"PREFECT_HOME": str(self.folder), "PREFECT_API_URL": self.api_url}

    def start(self, lifeline: int | None = None) -> None:
        """Start it and wait until it answers; with a lifeline, it ends when that end of a pipe does."""
        words = [
            sys.executable,
            "-m",
            "uvicorn",
            "--factory",
            "support.prefect_app:create_app",
            "--log-level",
            "warning",
        ]
        words += ["--host", "127.0.0.1", "--port", str(self.port)]
        environment = self.environment | self.settings
        environment.pop("PREFECT_API_URL")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (TESTS, environment.get("PYTHONPATH"))))
        if not (self.folder / "prefect.db").exists():
            shutil.copyfile(self.template, self.folder / "prefect.db")
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                words if lifeline is None else kept(*words),
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL if lifeline is None else lifeline,
                start_new_session=lifeline is not None,
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
def prefect_template(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """An empty database of Prefect's, which takes seconds to migrate: made once for all processes of tests.

    Where pytest has a cache, it is kept there for later runs with the same version of Prefect.
    """
    cache = getattr(pytestconfig, "cache", None)
    kept_at = None if cache is None else cache.mkdir("prefect-template") / f"{version('prefect')}.db"

    def make(folder: Path) -> None:
        template = template_in(folder)
        if kept_at is not None and kept_at.exists():
            template.parent.mkdir()
            shutil.copyfile(kept_at, template)
            return
        home = tmp_path_factory.mktemp("prefect-template")
        words = [sys.executable, "-W", "ignore", "-c", MAKE_TEMPLATE, str(home), str(template)]
        subprocess.run(words, env=os.environ | QUIET | {"PREFECT_HOME": str(home)}, check=True)
        if kept_at is not None:
            shutil.copyfile(template, draft := kept_at.with_suffix(f".{os.getpid()}"))
            draft.replace(kept_at)

    return template_in(filled_once(tmp_path_factory, "prefect-template", make))


@pytest.fixture
def give_template(prefect_template: Path) -> Callable[[Path], None]:
    """Have a private store begin with the empty database that its first run would make."""

    def give(private_home: Path) -> None:
        place = template_in(private_home)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_home.chmod(0o700)
        shutil.copyfile(prefect_template, place)

    return give


@pytest.fixture(scope="session")
def prefect_server(prefect_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """The server of all tests that are about releases and not about the server; this process uses it from now on.

    All processes of tests share it: it ends, at once, with the last of them.
    """
    folder = common_folder(tmp_path_factory) / "prefect-server"
    told = folder / "port"

    def start(lifeline: int) -> subprocess.Popen:
        folder.mkdir(exist_ok=True)
        made = PrefectServer(folder=folder, port=_free_port(), template=prefect_template, settings=LEAN)
        made.start(lifeline)
        told.write_text(str(made.port), encoding="ascii")
        assert made.process is not None
        return made.process

    with started_once(folder.with_suffix(".pipe"), start):
        made = PrefectServer(folder=folder, port=int(told.read_text()), template=prefect_template, settings=LEAN)
        os.environ["PREFECT_API_URL"] = made.api_url
        os.environ["PREFECT_HOME"] = str(tmp_path_factory.mktemp("prefect-client"))
        with changed_settings(flows=NO_HEARTBEATS):
            yield made


@pytest.fixture(scope="module")
def own_prefect_server(prefect_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """A server that a module may kill and start again, and whose schedules it watches."""
    settings = {"PREFECT_SERVER_API_SERVICES_SCHEDULER_LOOP_SECONDS": "2", "PREFECT_UI_ENABLED": "0"}
    folder = tmp_path_factory.mktemp("prefect")
    made = PrefectServer(folder=folder, port=_free_port(), template=prefect_template, settings=settings)
    made.start()
    yield made
    made.stop()
