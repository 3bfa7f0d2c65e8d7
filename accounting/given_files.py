"""Look at and open files that somebody else may have made: regular ones of a bounded size, without waiting."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..mechanisms.kernel.errors import InputRefused


@contextmanager
def looking_at(path: Path, what: str = "this", *, not_done: str | None = None) -> Iterator[None]:
    """Refuse a path that can't be looked at while the block runs, with the operating system's reason.

    `Path.exists` and `Path.is_dir` raise in a folder that is closed to this account, and for a name that is too long.
    """
    try:
        yield
    except OSError as error:
        unseen = f"{what} can't be looked at ({error.strerror})."
        raise InputRefused(unseen, where=str(path), not_done=not_done, remedy="Check the path.") from None


def without_links(path: Path) -> Path:
    """Return a path with its links followed, as far as they can be; whoever opens it says what is wrong with it.

    `Path.resolve` raises for links that lead in a circle.
    """
    return Path(os.path.realpath(path))


def open_given(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading; its size is the caller's to limit.

    A pipe, a device or a folder, which could keep a reader for ever, raises `OSError`.
    """
    try:  # a pipe without a writer opens at once
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except ValueError:  # a path with a null character
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_given(path: Path, *, most: int) -> bytes:
    """Read a regular file, or a link to one, whole; one of more bytes than `most` raises `OSError`, as `open_given`."""
    with open_given(path) as file:
        # The size is asked first and checked again by one more byte, since a file may grow while it is read.
        content = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
    if content is None or len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return content
