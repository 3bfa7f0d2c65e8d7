"""Opening an input, be it a path on this machine or an fsspec URL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

import fsspec
import pyarrow.parquet as pq

__all__ = ["is_url", "open_input", "open_parquet"]


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
    files, path = fsspec.core.url_to_fs(location)
    return cast(BinaryIO, files.open(path, "rb"))


def open_parquet(
    location: str, *, dictionary_columns: Sequence[str] = (), footer: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """Open a Parquet file and read its footer.

    Args:
        location: file or URL.
        dictionary_columns: those whose texts are to be read as dictionaries.
        footer: the footer, where it has been read already.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be opened, or its footer cannot be read.
    """
    file = open_input(location) if is_url(location) else location
    return pq.ParquetFile(file, read_dictionary=list(dictionary_columns), metadata=footer, pre_buffer=is_url(location))
