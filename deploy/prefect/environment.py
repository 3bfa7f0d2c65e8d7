"""Prefect's settings for a release run from the command line: quiet, offline, and forgetting."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ...flows.prefect_home import own_folder, settle_prefect_home
from .server import SCHEDULING, start_server, template_in

if TYPE_CHECKING:
    from .in_process import InProcessServer

__all__ = ["QUIET", "configure_prefect", "settle_lasting_prefect", "settled_api"]

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

    Args:
        private_home: the private store's folder (0700).

    Returns:
        Waits until the server answers, so that other work can be done until then.

    Raises:
        InputRefused: no server can be started, or there is no folder for Prefect; nothing was charged.
    """
    for name, value in (QUIET | PATIENCE).items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" in os.environ or _own:
        settle_prefect_home(private_home)
        return _no_wait
    kept = any(os.environ.get(name) not in (None, own_folder()) for name in KEPT)
    settle_prefect_home(private_home, whatever_is_there=True)
    folder = Path(os.environ["PREFECT_HOME"])
    if kept:
        return _start_complete(folder, private_home)

    def start() -> None:
        from .in_process import start_in_process

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


def settle_lasting_prefect(private_home: Path) -> Callable[[], None]:
    """As `configure_prefect`, but a server of this process's own keeps its records and runs Prefect's schedules.

    Args:
        private_home: the private store's folder (0700); the records lie in it unless PREFECT_HOME says otherwise.

    Raises:
        InputRefused: no server can be started.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" in os.environ:
        settle_prefect_home(private_home)
        return _no_wait
    lasting = private_home / "prefect"
    lasting.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ.setdefault("PREFECT_HOME", str(lasting))
    server = start_server(Path(os.environ["PREFECT_HOME"]), role=SCHEDULING)
    atexit.register(server.stop)
    os.environ["PREFECT_API_URL"] = server.api_url
    return server.wait


def settled_api() -> AbstractContextManager[object]:
    """Hold Prefect to the server that was settled on, also where it was imported before that."""
    if "PREFECT_API_URL" not in os.environ:
        return _own[0].held()
    from prefect.settings import get_current_settings

    from .in_process import changed_settings

    url = os.environ["PREFECT_API_URL"]
    return nullcontext() if get_current_settings().api.url == url else changed_settings(api={"url": url})


def _no_wait() -> None:
    """A server that somebody else runs is there or not."""
