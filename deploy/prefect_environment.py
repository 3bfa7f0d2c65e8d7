"""Prefect's settings for a release run from the command line: quiet, offline, and forgetting."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from .prefect_server import SCHEDULING, start_server
from .prefect_template import template_in

__all__ = ["QUIET", "settle_lasting_prefect", "settle_prefect", "settled_api"]

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


def settle_prefect(private_home: Path) -> Callable[[], None]:
    """Set what Prefect reads from the environment and see to a server; call it before Prefect is imported.

    A server named by PREFECT_API_URL is used as it is. Without one, a server of this process's own starts, and ends
    with it; unless PREFECT_HOME says where to keep its records, they lie in the private store and go with it.

    Args:
        private_home: the private store's folder (0700).

    Returns:
        Waits until the server answers, so that other work can be done until then.

    Raises:
        InputRefused: no server can be started; nothing was charged.
    """
    for name, value in (QUIET | PATIENCE).items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" in os.environ:
        return _no_wait
    private_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if "PREFECT_HOME" not in os.environ:
        folder = tempfile.mkdtemp(prefix="prefect-", dir=private_home)
        os.environ["PREFECT_HOME"] = folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = start_server(Path(os.environ["PREFECT_HOME"]), template=template_in(private_home))
    atexit.register(server.stop)
    os.environ["PREFECT_API_URL"] = server.api_url
    return server.wait


def settle_lasting_prefect(private_home: Path) -> Callable[[], None]:
    """As `settle_prefect`, but a server of this process's own keeps its records and runs Prefect's schedules.

    Args:
        private_home: the private store's folder (0700); the records lie in it unless PREFECT_HOME says otherwise.

    Raises:
        InputRefused: no server can be started.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" in os.environ:
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
    from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

    if get_current_settings().api.url == os.environ["PREFECT_API_URL"]:
        return nullcontext()  # to build all settings anew takes a fifth of a second
    return temporary_settings({PREFECT_API_URL: os.environ["PREFECT_API_URL"]})


def _no_wait() -> None:
    """A server that somebody else runs is there or not."""
