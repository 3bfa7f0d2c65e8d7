"""Run by `commands.py` as a program: has imported what commands need, and forks a process for each that is asked for.

What it gives is a process of its own, with its own id, exit code, environment and folder, that can be killed; only
the seconds of importing are shared. It serves a Unix socket, one connection for each process: it is told words or a
script with the three standard files, answers with the process's id, and at its end with its exit code.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

LOADED = (
    "crowdblend.accounting.dashboard.server.app",
    "crowdblend.accounting.certificate.verify",
    "crowdblend.accounting.kinds.noisy_histogram_prices",
    "crowdblend.accounting.kinds.deletion_prices",
    "crowdblend.accounting.theory.planning.planner",
    "crowdblend.deploy.run",
    "crowdblend.flows.release",
    "anyio._backends._asyncio",
    "dask.dataframe",
    "distributed",
    "graphviz",
    "opendp.prelude",
    "psycopg",
    "prefect.client.orchestration",
    "prefect.flow_engine",
    "prefect.task_engine",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "scipy.special",
    "scipy.stats",
    "sqlalchemy.dialects.sqlite",
    "uvicorn",
)
HOUSEKEEPING = ("jemalloc_bg_thd", "polars-ooc-clea")  # of allocators, which begin theirs anew after a fork


def load() -> None:
    """Import what commands import, and see that no thread runs: a fork would not have it."""
    from crowdblend.deploy.commands.command_registry import COMMANDS

    for name in (*LOADED, "crowdblend.deploy.cli", *{place.partition(":")[0] for place in COMMANDS.values()}):
        importlib.import_module(name)
    threads = {Path(f"/proc/self/task/{number}/comm").read_text().strip() for number in os.listdir("/proc/self/task")}
    if threading.active_count() != 1 or threads - {Path("/proc/self/comm").read_text().strip(), *HOUSEKEEPING}:
        raise RuntimeError(f"threads run before the first fork: {threads}")
    gc.collect()
    gc.freeze()  # what the forks share stays shared


def become(job: dict[str, Any]) -> int:
    """Be the process that is asked for; its exit code."""
    os.chdir(job["folder"])
    resource.setrlimit(resource.RLIMIT_CORE, tuple(job["core"]))
    os.environ.clear()
    os.environ.update(job["environment"])
    import dask.config
    from crowdblend.deploy.prefect_environment import NO_HEARTBEATS, changed_settings
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()
    changed_settings(flows=NO_HEARTBEATS).__enter__()
    dask.config.refresh(paths=dask.config._get_paths())  # DASK_CONFIG is read when Dask is imported
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    try:
        if job["script"] is None:
            from crowdblend.deploy import cli

            cli.main(job["words"])
        else:
            sys.argv = ["-c", *job["words"]]
            exec(compile(job["script"], "<script>", "exec"), {"__name__": "__main__"})  # noqa: S102
    except SystemExit as leave:
        if isinstance(leave.code, str):
            print(leave.code, file=sys.stderr)
            return 1
        return int(leave.code or 0)
    except BaseException:  # noqa: BLE001 - as the interpreter ends: KeyboardInterrupt too is printed, and leaves with 1
        traceback.print_exc()
        return 1
    return 0


def child(job: dict[str, Any], files: list[int]) -> None:
    """End as the interpreter would, without taking down what was imported."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, 256)
        code = become(job)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - SystemExit too: a fork must never come back as a second server
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    left, parts = int.from_bytes(size, "big"), []
    while left:
        part = connection.recv(left)
        parts.append(part)
        left -= len(part)
    return json.loads(b"".join(parts)), files


def serve(place: str) -> None:
    """Fork for each connection until standard input ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(64)
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector, running = selectors.DefaultSelector(), {}
    for file in (listener, woken, sys.stdin):
        selector.register(file, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if sys.stdin in ready:
            return
        if listener in ready:
            connection, _ = listener.accept()
            job, files = received(connection)
            number = os.fork()
            if number == 0:
                child(job, files)
            for file in files:
                os.close(file)
            running[number] = connection
            connection.sendall(f"{number}\n".encode())
        if woken in ready:
            os.read(woken, 4096)
            while running:
                number, status = os.waitpid(-1, os.WNOHANG)
                if number == 0:
                    break
                with running.pop(number) as connection:
                    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    load()
    serve(sys.argv[1])
    shutil.rmtree(Path(sys.argv[1]).parent)
