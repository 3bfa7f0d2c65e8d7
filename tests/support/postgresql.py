"""A real PostgreSQL server that the tests start, one for all processes of tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from support.shared import common_folder, kept, started_once

SETTINGS = ("-c", "max_connections=300", "-c", "autovacuum=off")
"""For several processes of tests, which leave hundreds of databases: each would be looked after once a minute."""


def _server_program(name: str) -> str | None:
    beside = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))]
    return shutil.which(name) or (beside[-1] if beside else None)


def _as_ordinary_user(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root: the words before a command that make it somebody else's."""
    if os.getuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]


@pytest.fixture(scope="session")
def postgresql_server(
    needs: Callable[[bool, str, str], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """URL of the maintenance database of the tests' own server, which all processes of tests share."""
    initdb, postgres = _server_program("initdb"), _server_program("postgres")
    needs(initdb is not None and postgres is not None, "PostgreSQL", "CROWDBLEND_TEST_POSTGRES")
    told = common_folder(tmp_path_factory) / "postgresql"

    def start(lifeline: int) -> subprocess.Popen:
        folder = Path(tempfile.mkdtemp(prefix="crowdblend-pg-", dir="/tmp"))  # a socket's path must be short
        data, log = folder / "data", folder / "log"
        user = _as_ordinary_user(folder)
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C"}
        subprocess.run(
            [*user, initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True,
            capture_output=True,
            env=environment,
            cwd=folder,
        )
        words = [*user, postgres, "-D", data, "-k", folder, "-c", "listen_addresses=", "-F", *SETTINGS]
        with log.open("wb") as sink:
            server = subprocess.Popen(
                kept(*words, how=signal.SIGQUIT, folder=folder),
                stdin=lifeline,
                stdout=sink,
                stderr=sink,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        _await_server(_url(folder), server, log)
        told.write_text(str(folder), encoding="utf-8")
        return server

    with started_once(told.with_suffix(".pipe"), start):
        yield _url(Path(told.read_text(encoding="utf-8")))


@dataclass
class OwnServer:
    """A PostgreSQL server of one test's own, which it may kill and start again; it keeps what it has committed.

    Args:
        folder: a short path, for the socket.
        process: the server, where it runs.
    """

    folder: Path
    process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        """Of the maintenance database."""
        return _url(self.folder)

    def start(self) -> None:
        """Begin, or go on after a kill."""
        user = _as_ordinary_user(self.folder)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"}
        data = self.folder / "data"
        if not data.exists():
            words = [*user, _server_program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
            subprocess.run([*words, "--no-sync"], check=True, capture_output=True, env=environment, cwd=self.folder)
        words = [*user, _server_program("postgres"), "-D", data, "-k", self.folder, "-c", "listen_addresses="]
        with (self.folder / "log").open("ab") as sink:
            self.process = subprocess.Popen(
                [str(word) for word in words],
                stdout=sink,
                stderr=sink,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
        _await_server(self.url, self.process, self.folder / "log")

    def kill(self) -> None:
        """End the server and all its backends at once, as a machine that fails does; nothing where it doesn't run."""
        if self.process is None:
            return
        number = self.process.pid
        backends = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split()
        for process in (number, *map(int, backends)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait(timeout=60)
        self.process = None
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)


@pytest.fixture
def own_postgresql(needs: Callable[[bool, str, str], None]) -> Iterator[OwnServer]:
    """A server that the test may kill."""
    needs(_server_program("postgres") is not None, "PostgreSQL", "CROWDBLEND_TEST_POSTGRES")
    server = OwnServer(folder=Path(tempfile.mkdtemp(prefix="crowdblend-pg-", dir="/tmp")))
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)


def _url(folder: Path) -> str:
    return f"postgresql+psycopg://postgres@/postgres?host={folder}"


def _await_server(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    from sqlalchemy.exc import OperationalError

    engine = create_engine(url, poolclass=NullPool)
    for _ in range(300):
        assert server.poll() is None, log.read_text()
        try:
            with engine.connect():
                return
        except OperationalError:
            time.sleep(0.1)
    pytest.fail("the PostgreSQL server did not start in 30 seconds")
