"""Prefect for a release from the command line: quiet, offline and forgetting, with a server in this process.

The server has no port and no second interpreter. It is made of Prefect's own parts: its routes for flows and flow runs,
its orchestration rules, its models, and a database of its own schema. What a single run has no use for is not loaded:
other routes, pages, services, the queue of background work, and the stream of events. Requests reach it over ASGI, so
no other user or process can."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from ..accounting.kernel.keys.private_files import try_lock
from ..accounting.keys.store_upkeep import PREFECT
from ..mechanisms.kernel.errors import InputRefused

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI


DATABASE = "prefect.db"
API_URL = "http://prefect-in-process.invalid/api"
"""No address: a request that went past the transport would reach nothing (RFC 2606, `.invalid`)."""
NO_HEARTBEATS = {"heartbeat_frequency": None}
"""Heartbeats are events too; their thread sleeps whole seconds, and the end of a flow waits for it."""


class InProcessServer(httpx.BaseTransport):
    """A server that runs on an event loop in a thread of its own; for a client it is a transport.

    Making one raises whatever kept Prefect's parts from being loaded, or its database from being made.

    Args:
        home: private folder (0700) of its database.
        template: file of an empty database, made there where there is none.
    """

    def __init__(self, home: Path, *, template: Path) -> None:
        from pydantic import SecretStr

        database = SecretStr(f"sqlite+aiosqlite:///{home / 'prefect.db'}")
        with changed_settings(api={"url": None}, server={"database": {"connection_url": database}}):
            self._context = contextvars.copy_context()
        self._loop = asyncio.new_event_loop()
        self._context.run(lay_out_database, home, template)
        self._transport = httpx.ASGITransport(app=self._context.run(_application), raise_app_exceptions=False)
        self._thread = threading.Thread(target=self._context.run, args=(self._loop.run_forever,), daemon=True)
        self._thread.start()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Have one request answered, in the settings of the server's side and not in its sender's."""
        context = self._context.copy()
        answered = context.run(asyncio.run_coroutine_threadsafe, self._answer(request), self._loop)
        try:
            return answered.result()
        except Exception as fault:
            raise httpx.ReadError("Prefect's server in this process failed.", request=request) from fault

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        inner = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        answer = await self._transport.handle_async_request(inner)
        content = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the flows of this thread to this server; they emit no events, which nobody could ever look at."""
        from prefect.context import SyncClientContext
        from prefect.events.clients import NullEventsClient
        from prefect.events.worker import EventsWorker

        EventsWorker.set_client_override(NullEventsClient)
        asked = {"csrf_support_enabled": False, "server_version_check_enabled": False}
        try:
            settings = changed_settings(api={"url": API_URL}, client=asked, flows=NO_HEARTBEATS)
            with settings, SyncClientContext({"transport": self}) as made:
                made._httpx_settings = None  # so that whoever asks for a client without any is given this one
                yield
        finally:
            EventsWorker.set_client_override(None)

    def stop(self) -> None:
        """End the server's thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)


def changed_settings(**changes: Mapping[str, Any]) -> AbstractContextManager[object]:
    """Return Prefect's present settings with some changed; to build all anew would take a fifth of a second."""
    from prefect.context import SettingsContext, get_settings_context

    def changed(group: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any of Prefect's groups of settings
        nested = {
            name: changed(getattr(group, name), value) if isinstance(value, Mapping) else value
            for name, value in values.items()
        }
        return group.model_copy(update=nested)

    present = get_settings_context()
    return SettingsContext(profile=present.profile, settings=changed(present.settings, changes))


def start_in_process(home: Path, *, template: Path) -> InProcessServer | None:
    """Start one; None where this Prefect's parts are not those that it is made of."""
    try:
        return InProcessServer(home, template=template)
    except (ImportError, AttributeError, TypeError, ValueError, OSError):
        return None


def _application() -> FastAPI:
    """Return the routes that the flow of a release asks for."""
    from fastapi import FastAPI
    from prefect.server.api import admin, flow_runs, flows

    application = FastAPI(openapi_url=None)
    for router in (flows.router, flow_runs.router, admin.router):
        application.include_router(router, prefix="/api")
    return application


QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
}
PATIENCE = {"PREFECT_CLIENT_MAX_RETRIES": "3"}
"""A server that is restarted is waited for, one that stays away ends a run within a minute: retries pause 2, 4, 8 s."""


KEPT = (
    "PREFECT_HOME",
    "PREFECT_API_DATABASE_CONNECTION_URL",
    "PREFECT_SERVER_DATABASE_CONNECTION_URL",
    "PREFECT_SERVER_DATABASE_DRIVER",
)
"""Variables by which somebody says where Prefect's records are kept: they want all of them."""
_own: list[InProcessServer] = []
"""This process's server, where it has started one; a second release in one process uses it too."""
os.register_at_fork(after_in_child=_own.clear)  # its thread stays with the parent


def configure_prefect(private_home: Path) -> Callable[[], None]:
    """Set what Prefect reads from the environment and see to a server; call it before Prefect is imported.

    A server named by PREFECT_API_URL is used as it is. Without one the run gets a server of its own: inside this
    process, with records in the private store that go when it ends; or, where PREFECT_HOME or a database says that
    they are kept, a complete one in a process that ends with this one.

    Returns:
        Waits until the server answers, so that other work can be done until then.

    Raises:
        InputRefused: no server can be started, or there is no folder for Prefect; nothing was charged.
    """
    for name, value in (QUIET | PATIENCE).items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" in os.environ:
        configure_prefect_home(private_home)
        return _require_answer
    if _own:
        configure_prefect_home(private_home)
        return _no_wait
    # Read before PREFECT_HOME is set below, which would look like somebody's wish to keep the records.
    kept = any(os.environ.get(name) not in (None, own_folder()) for name in KEPT)
    configure_prefect_home(private_home, whatever_is_there=True)
    folder = Path(os.environ["PREFECT_HOME"])
    if kept:
        return _start_complete(folder, private_home)

    def start() -> None:

        server = start_in_process(folder, template=template_in(private_home))
        if server is None:  # another Prefect than the one that its parts were chosen from
            _start_complete(folder, private_home)()
            return
        atexit.register(server.stop)
        _own.append(server)

    return start


def _start_complete(home: Path, private_home: Path) -> Callable[[], None]:
    """Start all of Prefect's server in a process; give what waits for it."""
    server = start_server(home, template=template_in(private_home))
    atexit.register(server.stop)
    os.environ["PREFECT_API_URL"] = server.api_url
    return server.wait


def configure_lasting_prefect(private_home: Path) -> Callable[[], None]:
    """As `configure_prefect`, but a server of this process's own keeps its records and runs Prefect's schedules.

    The records lie in the private store unless PREFECT_HOME says otherwise.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" in os.environ:
        configure_prefect_home(private_home)
        return _require_answer
    lasting = private_home / "prefect"
    lasting.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ.setdefault("PREFECT_HOME", str(lasting))
    server = start_server(Path(os.environ["PREFECT_HOME"]), role=SCHEDULING)
    atexit.register(server.stop)
    os.environ["PREFECT_API_URL"] = server.api_url
    return server.wait


def configured_api() -> AbstractContextManager[object]:
    """Hold Prefect to the server that was configured, also where it was imported before that."""
    if "PREFECT_API_URL" not in os.environ:
        return _own[0].held()
    return _held_to(os.environ["PREFECT_API_URL"])


@contextmanager
def _held_to(url: str) -> Iterator[None]:
    """Hold Prefect to a server at an address; a flow's end doesn't wait for the thread of its heartbeats.

    That thread sleeps a second at a time, and sends nothing once the flow has ended. Prefect waits for it at the end of
    a synchronous flow, and doesn't for an asynchronous one.
    """
    from prefect import flow_engine
    from prefect.settings import get_current_settings

    known = getattr(flow_engine, "_send_heartbeats", None)
    settings = nullcontext() if get_current_settings().api.url == url else changed_settings(api={"url": url})
    with settings:
        if known is None or "join_on_exit" not in signature(known).parameters:  # another version of Prefect waits
            yield
            return
        flow_engine._send_heartbeats = partial(known, join_on_exit=False)
        try:
            yield
        finally:
            flow_engine._send_heartbeats = known


def _no_wait() -> None:
    """Return at once: this process's server answers."""


ANSWERED_WITHIN_SECONDS = 30.0


def _require_answer() -> None:
    """Refuse a server of PREFECT_API_URL that is silent, for which Prefect would wait minutes.

    One that is away, or answers with an error, is reported by Prefect.

    Raises:
        InputRefused: nothing answers in time; nothing was charged.
    """
    url = os.environ["PREFECT_API_URL"]
    try:
        # Without TLS no authorities are loaded, which takes a tenth of the time of a small release.
        httpx.get(f"{url}/health", timeout=ANSWERED_WITHIN_SECONDS, verify=not url.startswith("http:"))
    except httpx.TimeoutException:
        raise InputRefused(
            f"Prefect's server doesn't answer within {ANSWERED_WITHIN_SECONDS:g} seconds.",
            where="PREFECT_API_URL",
            remedy="Start it anew, or unset the variable: each run then has a server of its own.",
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return


HOME = "PREFECT_HOME"
_own_folders: list[str] = []


def own_folder() -> str | None:
    """Return the folder that `configure_prefect_home` has made in this process; None where somebody else's is used."""
    return _own_folders[-1] if _own_folders else None


def configure_prefect_home(private_home: Path, *, whatever_is_there: bool = False) -> None:
    """See to a folder for Prefect, before anything imports it; call it again as often as you like.

    A folder that PREFECT_HOME names is used, and so is the user's own one (~/.prefect) where it is there already: it
    may say how a server is reached; but not `whatever_is_there`, for a server of this process's own. Else Prefect has a
    folder in the private store, which goes with this process. So a user without a home folder, or with one that can't
    be written, is no fault, and nothing is made in a home folder. A folder that can't be made is refused.
    """
    if HOME in os.environ:
        _make(Path(os.environ[HOME]), where=HOME)
    elif whatever_is_there or not _users_own():
        _make(private_home, where=str(private_home))
        folder = _locked_folder(private_home)
        os.environ[HOME] = folder
        _own_folders.append(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _locked_folder(private_home: Path) -> str:
    """Make a folder that is locked while this process lives, which is how a dead one's is told from it."""
    while True:
        folder = tempfile.mkdtemp(prefix=PREFECT, dir=private_home)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if try_lock(handle) and os.path.samestat(os.fstat(handle), os.stat(folder)):
                return folder  # the lock is kept: the handle is never closed
            os.close(handle)
        except FileNotFoundError:
            continue  # another process took it for a dead one's before it was locked
        except OSError:
            return folder  # a file system without such locks, on which nothing is cleared away either


def _users_own() -> bool:
    """Return whether the user has a folder of Prefect's that can be read."""
    try:
        return os.access(Path("~/.prefect").expanduser(), os.R_OK | os.X_OK)
    except RuntimeError:  # a user that nobody knows
        return False


def _make(folder: Path, *, where: str) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputRefused(
            f"the folder {folder} can't be made for Prefect's own files ({error.strerror}).",
            where=where,
            remedy="Name another one in PREFECT_HOME.",
        ) from None


def template_in(private_home: Path) -> Path:
    """Return where the private store keeps the empty database of the Prefect that is installed."""
    from importlib.metadata import version

    return private_home / "cache" / f"prefect-{version('prefect')}.db"


def lay_out_database(home: Path, template: Path) -> None:
    """Give the server of a home its empty database: a copy of the template, which is made first where there is none.

    PRIVACY: the template is taken before a server has run on it, so it holds Prefect's tables and nothing of any
    release; each run writes to a copy of its own. The server still looks whether the copy has all migrations. Whatever
    goes wrong leaves no database, and then the server makes one.
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
    """Return whether Prefect's settings name this file, and not a database that somebody else chose."""
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
    """Return whether the template is a whole database that no flow has run on."""
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
    """A server that was started, and its API's address, where it may not answer yet."""

    process: subprocess.Popen[bytes]
    api_url: str

    def wait(self) -> None:
        """Wait until it answers; refuse where it does not, and nothing was charged yet."""
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
    """Start a server whose records lie in a folder, or refuse; it starts up while the caller does other things.

    Args:
        home: Prefect's home.
        role: settings of what it is for, `ROLE` or `SCHEDULING`.
        template: file of an empty database, for a home without one; None where the server migrates its own.
    """
    process = subprocess.Popen(  # noqa: S603 - this interpreter and this module, and a path of the private store
        [sys.executable, "-m", "crowdblend.deploy.prefect_environment", *([] if template is None else [str(template)])],
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
        cause="prefect-not-started",
    )


def _serve(template: Path | None) -> None:
    """Be the server of `start_server`, in PREFECT_HOME: on loopback, quiet, and gone when the run ends.

    It prints its port and lives until its standard input closes, which the operating system does when the run that
    started it dies.
    """
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
    os._exit(0)  # all is recorded; to take down what was imported would take a second, for which the run waits


if __name__ == "__main__":
    _serve(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
