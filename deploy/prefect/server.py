"""The program of a Prefect server of a run's own: on loopback, quiet, and gone when the run ends.

It tells its port on standard output and lives until its standard input closes, which the operating system does when the
run that started it dies.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .environment import lay_out_database

if TYPE_CHECKING:
    import uvicorn

__all__: list[str] = []


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
