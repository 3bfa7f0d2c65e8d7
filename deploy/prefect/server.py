"""A Prefect server of a run's own: on loopback, quiet, and gone when the run ends; its database from a template.

The database is copied from an empty one, made once for each version of Prefect. Run as a module this is the server: it
tells its port on standard output and lives until its standard input closes, which the operating system does when the
run that started it dies.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...mechanisms.errors import InputRefused

if TYPE_CHECKING:
    import uvicorn

__all__ = ["SCHEDULING", "EmbeddedServer", "lay_out_database", "start_server", "template_in"]

DATABASE = "prefect.db"


def template_in(private_home: Path) -> Path:
    """Where the private store keeps the empty database of the Prefect that is installed."""
    from importlib.metadata import version

    return private_home / "cache" / f"prefect-{version('prefect')}.db"


def lay_out_database(home: Path, template: Path) -> None:
    """Give the server of a home its empty database: a copy of the template, which is made first where there is none.

    PRIVACY: the template is taken before a server has run on it, so it holds Prefect's tables and nothing of any
    release; each run writes to a copy of its own. The server still looks whether the copy has all migrations. Whatever
    goes wrong leaves no database, and then the server makes one.

    Args:
        home: Prefect's home; with a database in it already, it is left as it is.
        template: the file of the template, in a private folder.
    """
    target = home / DATABASE
    if target.exists() or not _database_is(target):
        return
    try:
        if not _sound(template):
            _migrate()
            _keep(target, template)
        else:
            shutil.copyfile(template, target)
        target.chmod(0o600)
    except (OSError, sqlite3.Error):
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"):
            (home / name).unlink(missing_ok=True)


def _database_is(target: Path) -> bool:
    """Whether Prefect's settings name this file, and not a database that somebody else chose."""
    from prefect.settings import get_current_settings

    url = get_current_settings().server.database.connection_url
    return url is not None and url.get_secret_value() == f"sqlite+aiosqlite:///{target}"


def _migrate() -> None:
    from prefect.server.database import provide_database_interface

    async def migrate() -> None:
        interface = provide_database_interface()
        await interface.create_db()
        await (await interface.engine()).dispose()

    asyncio.run(migrate())


def _sound(template: Path) -> bool:
    """Whether the template is a whole database that no flow has run on."""
    if not template.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{template.as_uri()}?mode=ro", uri=True)) as database:
            [whole] = database.execute("PRAGMA quick_check").fetchone()
            [runs] = database.execute("SELECT count(*) FROM flow_run").fetchone()
            return bool(whole == "ok" and runs == 0)
    except sqlite3.Error:
        return False


def _keep(source: Path, template: Path) -> None:
    """Copy the migrated database to the template's place, whole or not at all."""
    template.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix="prefect-", dir=template.parent)
    os.close(handle)
    made = Path(name)
    try:
        with closing(sqlite3.connect(source)) as migrated, closing(sqlite3.connect(made)) as copy:
            migrated.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # a database of one file, that reading leaves as it is
        made.replace(template)
    finally:
        made.unlink(missing_ok=True)


SECONDS_TO_START = 180
ROLE = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
"""A server for one run: no pages, and no services that a schedule would need."""
SCHEDULING = {"PREFECT_UI_ENABLED": "0"}
"""A server that also runs schedules."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedServer:
    """A server that was started and may not answer yet.

    Args:
        process: the server's process.
        api_url: where its API will answer.
    """

    process: subprocess.Popen[bytes]
    api_url: str

    def wait(self) -> None:
        """Wait until it answers.

        Raises:
            InputRefused: it does not; nothing was charged yet.
        """
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.api_url}/health", timeout=5) as answer:  # noqa: S310 - loopback
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise _not_started()

    def stop(self) -> None:
        """End the server and wait until it is gone."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_server(home: Path, *, role: Mapping[str, str] = ROLE, template: Path | None = None) -> EmbeddedServer:
    """Start a server whose records lie in a folder; it starts up while the caller does other things.

    Args:
        home: Prefect's home.
        role: settings of what it is for, `ROLE` or `SCHEDULING`.
        template: file of an empty database, for a home without one; None where the server migrates its own.

    Raises:
        InputRefused: it can't be started; nothing was charged.
    """
    process = subprocess.Popen(  # noqa: S603 - this interpreter and this module, and a path of the private store
        [sys.executable, "-m", "crowdblend.deploy.prefect.server", *([] if template is None else [str(template)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **role, "PREFECT_HOME": str(home)},
        start_new_session=True,  # Ctrl-C is for the run alone, which then still tells its server how it ended
    )
    line = process.stdout.readline() if process.stdout is not None else b""
    if not line.strip().isdigit():
        process.kill()
        process.wait()
        raise _not_started()
    return EmbeddedServer(process=process, api_url=f"http://127.0.0.1:{int(line)}/api")


def _not_started() -> InputRefused:
    return InputRefused(
        "Prefect's own server did not start.",
        remedy="Run it in the open with `prefect server start`, and set PREFECT_API_URL to it.",
    )


def _serve(template: Path | None) -> None:
    """Be the server, in PREFECT_HOME."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    leaving = threading.Event()

    def end_with_the_parent() -> None:
        sys.stdin.buffer.read()
        leaving.set()
        for server in running:
            server.should_exit = True
        time.sleep(5)
        os._exit(0)

    running: list[uvicorn.Server] = []
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    if template is not None:
        lay_out_database(Path(os.environ["PREFECT_HOME"]), template)
    import uvicorn

    running.append(
        uvicorn.Server(
            uvicorn.Config("prefect.server.api.server:create_app", factory=True, lifespan="on", log_level="error")
        )
    )
    if not leaving.is_set():
        running[0].run(sockets=[listener])


if __name__ == "__main__":
    _serve(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
