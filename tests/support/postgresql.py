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
