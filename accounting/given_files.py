"""Open files that somebody else may have made: regular ones of a bounded size, without waiting for anything."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path


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
