"""Files that somebody else may have made: a regular file of a bounded size is read, and nothing is waited for."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

__all__ = ["open_given", "read_given"]


def open_given(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading; its size is the caller's to limit.

    Raises:
        OSError: it can't be opened, or is a pipe, a device or a folder, which could keep a reader for ever.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer opens at once
    except ValueError:  # a path with a null character
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(handle, "rb")


def read_given(path: Path, *, most: int) -> bytes:
    """Read a regular file, or a link to one, whole.

    Args:
        path: the file.
        most: bytes that it may have.

    Raises:
        OSError: it can't be read, isn't a regular file, or is larger.
    """
    with open_given(path) as file:
        content = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
    if content is None or len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return content
