"""A real PostgreSQL server that the tests start, one for each process of tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool


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
def postgresql_server(needs: Callable[[bool, str, str], None]) -> Iterator[str]:
    """URL of an empty server's maintenance database; the server is the tests' own and ends with them."""
    initdb, postgres = _server_program("initdb"), _server_program("postgres")
    needs(initdb is not None and postgres is not None, "PostgreSQL", "CROWDBLEND_TEST_POSTGRES")
    folder = Path(tempfile.mkdtemp(prefix="crowdblend-pg-", dir="/tmp"))
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
    with log.open("wb") as sink:
        server = subprocess.Popen(
            [*user, postgres, "-D", str(data), "-k", str(folder), "-c", "listen_addresses=", "-F"],
            stdout=sink,
            stderr=sink,
            env=environment,
            cwd=folder,
        )
    url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
    try:
        _await_server(url, server, log)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder)


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
