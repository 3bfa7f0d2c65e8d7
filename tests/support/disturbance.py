"""Run in a forked process: a command that is killed, or one of whose operations on files or the ledger fails.

Operations are counted where they happen: Python's audit events, the writes that Python does not audit, and what the
ledger's driver is asked to execute and to commit, all within the desk's folder or its database.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = {"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.utime", "os.chmod", "os.truncate"}
FAULTS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT)
ASKS_ONLY = ("SELECT", "PRAGMA", "SET", "SHOW")


class Disturbance:
    """Counts operations, and disturbs one of them, or all from one on.

    Args:
        desk: the folder whose operations count.
        plan: at, the number of the operation, from 0, or null to count alone; how, "kill", "once" or "always"; late,
            whether an operation that can be is done first; fault, the error's number.
        report: the file that tells how many there were and which was disturbed.
    """

    def __init__(self, desk: Path, plan: dict[str, Any], report: Path) -> None:
        self.desk, self.plan, self.report = f"{desk}/", plan, report
        self.count, self.fired = 0, ""
        self.lock = threading.RLock()

    def told(self) -> None:
        with open(f"/proc/self/fd/{self.told_to}", "w", encoding="utf-8") as file:
            json.dump({"operations": self.count, "fired": self.fired}, file)

    def hit(self, what: str) -> bool:
        """Count an operation; whether it is to be disturbed."""
        with self.lock:
            number, self.count = self.count, self.count + 1
            at = self.plan["at"]
            if at is None or number < at or (number > at and self.plan["how"] != "always"):
                return False
            self.fired = self.fired or what
            return True

    def strike(self) -> OSError:
        if self.plan["how"] == "kill":
            self.told()
            os.kill(os.getpid(), signal.SIGKILL)
        return OSError(self.plan["fault"], os.strerror(self.plan["fault"]))

    def inside(self, target: object) -> str | None:
        if isinstance(target, int):
            try:
                target = os.readlink(f"/proc/self/fd/{target}")
            except OSError:
                return None
        if not isinstance(target, str | bytes | os.PathLike):
            return None
        path = os.path.abspath(os.fsdecode(target))
        return path.removeprefix(self.desk) if path.startswith(self.desk) else None

    def audited(self, event: str, arguments: tuple) -> None:
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & WRITING:
                return
        elif event not in CHANGING:
            return
        place = self.inside(arguments[0])
        if place is not None and self.hit(f"{event} {place}"):
            raise self.strike()

    def call(self, function: Callable, name: str) -> Callable:
        """An operation that Python doesn't audit: it can be disturbed before it is done, or right after."""

        @wraps(function)
        def disturbed(target: Any, *given: Any, **named: Any) -> Any:
            place = self.inside(getattr(target, "where", target))
            if place is None or not self.hit(f"{name} {place}"):
                return function(target, *given, **named)
            if self.plan["late"]:
                function(target, *given, **named)
            raise self.strike()

        return disturbed

    def statement(self, function: Callable, name: str, driver_error: Callable[[], Exception]) -> Callable:
        @wraps(function)
        def disturbed(dialect: Any, target: Any, *given: Any, **named: Any) -> Any:
            words = given[0].split()[:1] if given else []
            if (words and words[0].upper() in ASKS_ONLY) or not self.hit(" ".join([name, *words])):
                return function(dialect, target, *given, **named)
            if self.plan["late"]:
                function(dialect, target, *given, **named)
            self.strike()
            raise driver_error()

        return disturbed

    def watch(self) -> None:
        self.told_to = os.open(self.report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        import psycopg
        import pyarrow.parquet
        from sqlalchemy.engine.default import DefaultDialect

        postgresql = os.environ["CROWDBLEND_LEDGER"].startswith("postgresql")
        kind = psycopg.OperationalError if postgresql else sqlite3.OperationalError

        def fault() -> Exception:
            return kind("disk I/O error")

        for name in ("write", "pwrite", "fsync"):
            setattr(os, name, self.call(getattr(os, name), name))
        writer = pyarrow.parquet.ParquetWriter
        for name in ("__init__", "write_table", "close"):
            setattr(writer, name, self.call(getattr(writer, name), f"ParquetWriter.{name}"))
        DefaultDialect.do_execute = self.statement(DefaultDialect.do_execute, "execute", fault)
        DefaultDialect.do_execute_no_params = self.statement(DefaultDialect.do_execute_no_params, "execute", fault)
        DefaultDialect.do_commit = self.statement(DefaultDialect.do_commit, "commit", fault)
        sys.addaudithook(self.audited)


def without_boundary() -> None:
    """A broken release: what goes wrong after the charge is told by where it went wrong."""
    from contextlib import nullcontext

    from crowdblend.deploy import run

    run.charge_boundary = lambda *_: nullcontext()


BROKEN = {"without_boundary": without_boundary}


def release_of(how: str, release_id: str, series: str | None) -> int:
    """One release by another caller than the command line; its exit code, with what is told on standard error."""
    from crowdblend.deploy.api import Refusal

    try:
        if how == "python":
            from crowdblend.deploy.api import release

            release("spec.toml", release_id=release_id, series=series)
        else:
            from crowdblend.deploy.run import run_release
            from crowdblend.deploy.serving.served_release import _attempts
            from crowdblend.flows.paths import resolve_paths

            _attempts(
                lambda: run_release(
                    Path("spec.toml"),
                    state_paths=resolve_paths(),
                    output=None,
                    scheduler=None,
                    release_id=release_id,
                    series=series,
                    randomness=os.urandom,
                ),
                retry_seconds=2.5,
                tell=lambda **told: None,
            )
    except Refusal as refusal:
        print(refusal.message, file=sys.stderr)
        return refusal.exit_code
    return 0


def main(given: str) -> None:
    """Do the job that a JSON object names: desk, report, plan, how, words, release_id, series, broken."""
    job = json.loads(given)
    if job["broken"]:
        BROKEN[job["broken"]]()
    disturbance = Disturbance(Path(job["desk"]), job["plan"], Path(job["report"]))
    from crowdblend.flows.release import code_sources

    code_sources()
    disturbance.watch()
    code: Any = 70
    try:
        match job["how"]:
            case "command":
                from crowdblend.deploy import cli

                cli.main(job["words"])
            case "job":
                from crowdblend.deploy.commands import jobs

                code = jobs._main(job["release_id"])
            case how:
                code = release_of(how, job["release_id"], job["series"])
    except SystemExit as leave:
        code = leave.code
    finally:
        disturbance.plan["at"] = None
        disturbance.told()
    sys.exit(code)
