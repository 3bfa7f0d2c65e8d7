"""Prefect's settings for a release run from the command line: quiet, offline, and forgetting."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["settle_prefect"]

QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_CLI_PROMPT": "false",
}


def settle_prefect(private_home: Path) -> None:
    """Set what Prefect reads from the environment; call it before Prefect is imported.

    A server named by PREFECT_API_URL is used as it is. Without one, Prefect starts a server of its own for this
    run; unless PREFECT_HOME says where to keep its records, they lie in the private store and go with the run.

    Args:
        private_home: the private store's folder (0700).
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" in os.environ or "PREFECT_HOME" in os.environ:
        return
    private_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="prefect-", dir=private_home)
    os.environ["PREFECT_HOME"] = folder
    # Registered before Prefect's own exit handlers, so it runs after the server has stopped.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
