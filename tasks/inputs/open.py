"""Opening an input, be it a path on this machine or an fsspec URL."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, cast

__all__ = ["is_url", "open_input"]


def is_url(location: str) -> bool:
    """Whether a location names a protocol rather than a path on this machine."""
    return "://" in location


def open_input(location: str) -> BinaryIO:
    """Open a file for reading bytes; it can be sought.

    Raises:
        OSError: it cannot be opened.
        ValueError, ImportError: the URL's protocol is unknown or its driver not installed.
    """
    if not is_url(location):
        return Path(location).open("rb")
    import fsspec  # for URLs alone: most inputs are files of this machine

    files, path = fsspec.core.url_to_fs(location)
    return cast(BinaryIO, files.open(path, "rb"))
