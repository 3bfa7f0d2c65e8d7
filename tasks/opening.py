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
            _check_footer(file)
    options = {"read_dictionary": list(dictionary_columns), "metadata": footer}
    opened = pq.ParquetFile(far or location, pre_buffer=far is not None, **options)
    if footer is None:
        _check_records(opened.metadata)
    return opened


def _check_records(footer: pq.FileMetaData) -> None:
    """Refuse row groups of which no record could have its coin.

    Raises:
        pyarrow.ArrowInvalid: there is one with fewer records than none, or too many.
    """
    if any(not 0 <= footer.row_group(number).num_rows < _MOST_RECORDS for number in range(footer.num_row_groups)):
        raise pa.ArrowInvalid("a row group has fewer records than none, or more than can be counted")


def _check_footer(file: BinaryIO) -> None:
    """Refuse a footer that would end the process, since pyarrow throws what it finds there past Python.

    What is no footer at all is left to pyarrow, which says so, and everything is where there was no compiler.

    Raises:
        pyarrow.ArrowInvalid: the footer is damaged or its columns are encrypted.
    """
    size = file.seek(0, os.SEEK_END)
    if page_decoder is None or size < _TAIL:
        return
    file.seek(-_TAIL, os.SEEK_END)
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[: -len(_MAGIC)], "little")
    if not tail.endswith(_MAGIC) or length > size - _TAIL:
        return
    file.seek(-_TAIL - length, os.SEEK_END)
    if not page_decoder.sound_footer(file.read(length)):
        raise pa.ArrowInvalid("the footer is damaged or encrypted")
