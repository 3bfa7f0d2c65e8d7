"""What all processes of tests share: the first that asks for it makes it, while the others wait."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

KEEPER = """
import select, shutil, subprocess, sys
number, folder, *words = sys.argv[1:]
process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
while process.poll() is None and not select.select([sys.stdin], [], [], 2)[0]:
    pass
process.send_signal(int(number))
process.wait()
shutil.rmtree(folder, ignore_errors=True)
"""
"""A program that ends a command once its own standard input has ended: once nobody holds the pipe any longer."""


def kept(*words: object, how: int = signal.SIGKILL, folder: Path | None = None) -> list[str]:
    """The command that keeps another until then, and ends it by a signal; a folder of it goes with it."""
    told = [str(int(how)), "" if folder is None else str(folder)]
    return [sys.executable, "-S", "-c", KEEPER, *told, *map(str, words)]


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run of tests, in which each process of it has its own."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    with place.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def filled_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that a function fills, for all processes of tests, none of which may change it."""
    folder = common_folder(factory) / name
    with locked(folder.with_suffix(".lock")):
        if not folder.exists():
            try:
                folder.mkdir()
                make(folder)
            except BaseException:  # KeyboardInterrupt too: others must not take what is half filled; it is raised again
                folder.rename(folder.with_suffix(f".failed-{os.getpid()}"))
                raise
    return folder


@contextlib.contextmanager
def started_once(place: Path, start: Callable[[int], subprocess.Popen]) -> Iterator[None]:
    """A process that lives as long as any process of tests holds the pipe of that place open.

    `start` is given the reading end, which is to be the standard input of what it starts.
    """
    with locked(place.with_suffix(".lock")):
        holding = _held(place)
        if holding is None:
            place.unlink(missing_ok=True)
            os.mkfifo(place)
            reading = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
            holding = os.open(place, os.O_WRONLY)
            os.set_blocking(reading, True)
            try:
                start(reading).returncode = 0  # it outlives this process, which never waits for it
            finally:
                os.close(reading)
    try:
        yield
    finally:
        os.close(holding)


def _held(place: Path) -> int | None:
    """The writing end of a pipe that somebody reads; None if nobody does."""
    try:
        return os.open(place, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as problem:
        if problem.errno in (errno.ENOENT, errno.ENXIO):
            return None
        raise
