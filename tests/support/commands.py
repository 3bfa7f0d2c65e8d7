"""Commands in processes of their own, which are forked from one that has imported what they need."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest
from support.shared import common_folder, started_once

PROGRAM = Path(__file__).with_name("fork_server.py")
AS_MODULE = """
import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""A script that does as `python -m` with its arguments."""


@dataclass
class Forked:
    """A process, with what `subprocess.Popen` has of one."""

    pid: int
    told: socket.socket
    stdout: IO[str]
    stderr: IO[str]
    returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        try:
            return self.wait(timeout=0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended."""
        if self.returncode is None:
            self.told.settimeout(timeout)
            try:
                answer = self.told.recv(64)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0) from None
            self.returncode = int(answer)
            self.told.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it says, until it has ended."""
        begun, said = time.monotonic(), {}

        def read(name: str, file: IO[str]) -> None:
            if not file.closed:
                with file:
                    said[name] = file.read()

        readers = [
            threading.Thread(target=read, args=given, daemon=True)
            for given in (("out", self.stdout), ("err", self.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(None if timeout is None else max(0.0, begun + timeout - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0)
        self.wait(timeout)
        return said.get("out", ""), said.get("err", "")

    def finish(self, timeout: float = 300) -> tuple[int, str, str]:
        """Its exit code and all that it says, when it has ended."""
        said = self.communicate(timeout)
        return self.wait(timeout), *said

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


@dataclass
class Commands:
    """Starts processes that run the command line, or a script, without importing everything anew."""

    place: Path
    started: list[Forked] = field(default_factory=list)

    def start(
        self,
        *words: object,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        script: str | None = None,
        log: Path | None = None,
    ) -> Forked:
        """A process in a folder: the command line with these words, or a script with these arguments.

        It reads nothing; its standard error goes to us, or to the end of a log.
        """
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.place))
        (out, writes_out), (err, writes_err) = os.pipe(), os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        logged = writes_err if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        job = {
            "words": [str(word) for word in words],
            "script": script,
            "folder": str(folder),
            "environment": dict(os.environ if environment is None else environment),
            "core": resource.getrlimit(resource.RLIMIT_CORE),
        }
        told = json.dumps(job).encode()
        socket.send_fds(connection, [len(told).to_bytes(8, "big")], [nothing, writes_out, logged])
        connection.sendall(told)
        for file in {nothing, writes_out, writes_err, logged}:
            os.close(file)
        number = b""
        while not number.endswith(b"\n"):
            number += connection.recv(1)
        process = Forked(
            pid=int(number),
            told=connection,
            stdout=os.fdopen(out, encoding="utf-8"),
            stderr=os.fdopen(err, encoding="utf-8"),
        )
        self.started.append(process)
        return process

    def run(
        self,
        *words: object,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        script: str | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """The same, waited for."""
        process = self.start(*words, folder=folder, environment=environment, script=script)
        return subprocess.CompletedProcess([str(word) for word in words], *process.finish(timeout))


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the process listens that forks the others; all processes of tests share it."""
    told = common_folder(tmp_path_factory) / "fork-server"

    def start(lifeline: int) -> subprocess.Popen:
        folder = Path(tempfile.mkdtemp(prefix="crowdblend-fork-", dir="/tmp"))  # a socket's path must be short
        surroundings = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
        own = {"PREFECT_HOME": str(folder), "OPENBLAS_NUM_THREADS": "1"}  # who forks must have no threads
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(PROGRAM), str(folder / "socket")],
                stdin=lifeline,
                stdout=subprocess.PIPE,
                stderr=log,
                env=surroundings | own,
                start_new_session=True,
            )
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"ready\n", (folder / "log").read_text()
        told.write_text(str(folder), encoding="utf-8")
        return process

    with started_once(told.with_suffix(".pipe"), start):
        yield Path(told.read_text(encoding="utf-8")) / "socket"


@pytest.fixture
def commands(fork_server: Path) -> Iterator[Commands]:
    """Starts processes; those that still run at the end of the test are killed."""
    made = Commands(fork_server)
    yield made
    for process in made.started:
        process.kill()
        process.communicate(timeout=60)
