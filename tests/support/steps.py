"""The steps of a process: whatever it is about to do to a folder or to a ledger, seen where it happens.

Steps are not listed here. They are Python's audit events, the few writes that Python does not audit, and SQLAlchemy's
events.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pyarrow.parquet
import sqlalchemy

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ROOMS_OF_EVENTS = ("os", "shutil", "fcntl")
LOOKS_ONLY = {
    "os.listdir",
    "os.scandir",
    "os.walk",
    "os.fwalk",
    "os.getxattr",
    "os.listxattr",
    "os.chdir",
    "fcntl.ioctl",
}
ASKS_ONLY = {"SELECT", "PRAGMA", "SET", "SHOW", "BEGIN", "LOCK"}


class Steps:
    """Counts the steps of this process, tells each before it is done, and acts before the one that is asked for.

    Args:
        desk: the folder.
        at: the number of the step before which to act, from 0; None for never.
        act: called with that step's kind, once.
        tell: called with each step's kind, what it is done to, how many files have changed since the step before, and
            whether the output is in view.
    """

    def __init__(
        self, desk: Path, *, at: int | None, act: Callable[[str], None], tell: Callable[[list], None] = lambda _: None
    ) -> None:
        self.desk = str(desk)
        self.at = at
        self.act = act
        self.tell = tell
        self.done = 0
        self.lock = threading.RLock()
        self.looking = threading.local()
        self.entries = self.folder_entries()

    def step(self, kind: str, detail: str) -> None:
        """About to do something: tell what it is, and how much has changed in the folder since the last step."""
        with self.lock:
            self.looking.now = True
            entries = self.folder_entries()
            changed = {inode for place, inode, size in entries ^ self.entries}
            self.tell([kind, detail, len(changed), os.path.lexists(f"{self.desk}/out")])
            self.entries = entries
            self.done += 1
            try:
                if self.done - 1 == self.at:
                    self.act(kind)
            finally:
                self.looking.now = False

    def folder_entries(self) -> set[tuple[str, int, int]]:
        """What stands in which folder under which name; the ledger's own files are left to its database."""
        found = set()
        folders = [self.desk]
        for folder in folders:  # which grows on the way
            place = os.stat(folder).st_ino
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("ledger.db"):
                        continue
                    state = entry.stat(follow_symlinks=False)
                    inner = entry.is_dir(follow_symlinks=False)
                    found.add((f"{place}/{entry.name}", state.st_ino, 0 if inner else state.st_size))
                    if inner:
                        folders.append(entry.path)
        return found

    def at_desk(self, argument: object) -> str | None:
        """Where in the desk's folder an audited argument points: a path, or the number of an open file."""
        if isinstance(argument, bytes | str | os.PathLike):
            path = os.path.abspath(os.fsdecode(argument))
        elif isinstance(argument, int) and argument >= 0:
            try:
                path = os.readlink(f"/proc/self/fd/{argument}")
            except OSError:
                return None
        else:
            return None
        inside = f"{path}/".startswith(f"{self.desk}/") and not os.path.basename(path).startswith("ledger.db")
        return os.path.relpath(path, self.desk) if inside else None

    def audited(self, event: str, arguments: tuple) -> None:
        if event == "open":
            if not arguments[2] & WRITING:
                return
            arguments = arguments[:1]
        elif event.partition(".")[0] not in ROOMS_OF_EVENTS or event in LOOKS_ONLY:
            return
        if getattr(self.looking, "now", False):
            return
        places = [place for place in map(self.at_desk, arguments) if place is not None]
        if places:
            self.step(event, " ".join(places))

    def watch(self) -> None:
        """From now on every step is counted."""
        sys.addaudithook(self.audited)
        for name in ("write", "pwrite", "fsync", "fdatasync"):
            setattr(os, name, self.unaudited(getattr(os, name), name))
        writer = pyarrow.parquet.ParquetWriter
        for name in ("__init__", "write_table", "close"):
            setattr(writer, name, self.unaudited(getattr(writer, name), f"ParquetWriter.{name}"))
        engine = sqlalchemy.Engine
        sqlalchemy.event.listen(engine, "before_cursor_execute", self.statement)
        sqlalchemy.event.listen(engine, "commit", self.commit)

    def unaudited(self, function: Callable, name: str) -> Callable:
        @wraps(function)
        def seen(target: Any, *arguments: Any, **named: Any) -> Any:
            table = isinstance(target, pyarrow.parquet.ParquetWriter)
            where = self.at_desk(getattr(target, "where", *arguments[:1]) if table else target)
            if where is not None and not getattr(self.looking, "now", False):
                self.step(name, where)
            return function(target, *arguments, **named)

        return seen

    def statement(self, connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        words = statement.split()
        if words[0].upper() not in ASKS_ONLY:
            connection.info["wrote"] = True
            self.step(words[0].upper(), words[2])

    def commit(self, connection: Any) -> None:
        if connection.info.pop("wrote", False):
            self.step("commit", "ledger")
