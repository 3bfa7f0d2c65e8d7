"""Opening an input, be it a path on this machine or an fsspec URL."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

try:
    from . import page_decoder
except ImportError:  # installed where no compiler was at hand
    page_decoder = None  # type: ignore[assignment]

__all__ = ["is_url", "open_input", "open_parquet"]

_MAGIC = b"PAR1"
_MOST_RECORDS = 1 << 32  # of which each has a coin
_TAIL = 4 + len(_MAGIC)  # the footer's length and the magic bytes


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
        OSError, pyarrow.ArrowException: it cannot be opened, or its footer cannot be read or is damaged.
    """
    far = open_input(location) if is_url(location) else None
    if footer is None:
        with nullcontext(far) if far else open_input(location) as file:
            footer = _footer(file)
    options = {"read_dictionary": list(dictionary_columns), "metadata": footer}
    return pq.ParquetFile(far or location, pre_buffer=far is not None, **options)


def _check_records(footer: pq.FileMetaData) -> None:
    """Refuse row groups of which no record could have its coin.

    Raises:
        pyarrow.ArrowInvalid: there is one with fewer records than none, or too many.
    """
    if any(not 0 <= footer.row_group(number).num_rows < _MOST_RECORDS for number in range(footer.num_row_groups)):
        raise pa.ArrowInvalid("a row group has fewer records than none, or more than can be counted")


def _footer(file: BinaryIO) -> pq.FileMetaData:
    """Read a footer, and refuse one that would end the process: pyarrow throws what it finds there past Python.

    INVARIANT: pyarrow reads the very bytes that were checked, whatever becomes of the file meanwhile. What is no footer
    at all is left to it, since it says so, and everything is where there was no compiler.

    Raises:
        OSError, pyarrow.ArrowException: the footer cannot be read, is damaged, or its columns are encrypted.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[: -len(_MAGIC)], "little")
    if page_decoder is None or not tail.endswith(_MAGIC) or not 0 < length <= size - _TAIL:
        footer = pq.read_metadata(file)
    else:
        file.seek(size - _TAIL - length)
        octets = file.read(length)
        if not page_decoder.sound_footer(octets):
            raise pa.ArrowInvalid("the footer is damaged or encrypted")
        footer = pq.read_metadata(pa.BufferReader(octets + tail))
    _check_records(footer)
    return footer
