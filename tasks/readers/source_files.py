"""A file of the input, told from another one and from itself after a change; its opening, on this machine or by URL."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ...accounting.given_files import open_given
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ..destinations import refuse_password

if TYPE_CHECKING:
    import pyarrow as pa


Partition = tuple[tuple[str, str | None], ...]
"""The columns that have one value in a whole file, each with this value's text, or None for null."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One file of the input, and what tells it from another one and from itself after a change.

    Args:
        path: the real path, or the URL.
        size: bytes.
        version: last change in nanoseconds, or what the store has for it (ETag); may be empty.
        inode: number of the file on its file system; None in a store.
        device: number of the file system; None in a store, and where other machines read, which number theirs
            otherwise.
        partition: values of the columns that folders or a table's log have for the whole file.
        changed: time of the last change; empty where a store doesn't tell it.
    """

    path: str
    size: int
    version: str
    inode: int | None
    device: int | None
    partition: Partition = field(default=(), repr=False)
    changed: str = field(default="", compare=False, repr=False)


Location = str | SourceFile
"""What is opened: a file's path or URL, whatever is there; or a file that was listed, and no other one."""


def path_of(location: Location) -> str:
    """Return the path or URL of what is opened."""
    return location if isinstance(location, str) else location.path


def reject_duplicate_partition_column(
    names: Collection[str], *, partition_columns: Collection[str], where: str
) -> None:
    """Refuse a file that has a column which folders bear too.

    Raises:
        InputRefused: there is one.
    """
    for column in partition_columns:
        if column in names:
            raise InputRefused(
                f"the column {column!r} is in the file and in the names of its folders, and they may differ.",
                where=where,
                remedy="Rename one of them.",
            )


def is_url(location: str) -> bool:
    """Tell whether a location names a protocol rather than a path on this machine."""
    return "://" in location


def refuse_chain(url: str) -> None:
    """Refuse URLs chained by `::`; does nothing for one URL.

    PRIVACY: a driver behind the first one would open what the second names, and some of them compute what they read.
    """
    if "::" in url:
        raise InputRefused("chained URLs are not supported.", where=url, remedy="Unpack the archive first.")


def open_input(location: Location) -> BinaryIO:
    """Open a file for reading bytes; it can be sought.

    INVARIANT: a file that was listed is compared with what is open, by its very descriptor: whoever renames another
    file into its place can't come between. Of an object the store is asked at each opening.

    Raises:
        OSError: it cannot be opened.
        ValueError, ImportError: the URL's protocol is unknown or its driver not installed.
        ReleaseFailed: it is not the file that was listed.
        InputRefused: it is a chain of URLs.
    """
    path = path_of(location)
    if is_url(path):
        refuse_chain(path)
        refuse_password(path, where="a file's URL")
        import fsspec  # for URLs alone: most inputs are files of this machine

        store, name = fsspec.core.url_to_fs(path)
        if isinstance(location, str):
            return cast(BinaryIO, store.open(name, "rb"))
        store.invalidate_cache()  # what the driver keeps of a listing would hide a change
        opened = store.open(name, "rb")
        _compare_entry(location, getattr(opened, "details", None) or store.info(name), opened)
        return cast(BinaryIO, opened)
    if isinstance(location, str):
        return open_given(Path(path))
    try:
        file = open(path, "rb", opener=_opened_without_waiting)  # noqa: SIM115 - it is the caller's
    except FileNotFoundError:
        raise _changed(location, "it is gone") from None
    _compare_descriptor(location, file.fileno(), file)
    return file


def open_local(location: Location) -> pa.OSFile:
    """Open a file of this machine for pyarrow, as `open_input` does.

    Raises:
        OSError: it cannot be opened.
        ReleaseFailed: it is not the file that was listed.
    """
    import pyarrow as pa

    if isinstance(location, str):
        return pa.OSFile(location, "rb")
    try:
        file = pa.OSFile(location.path, "rb")
    except FileNotFoundError:
        raise _changed(location, "it is gone") from None
    _compare_descriptor(location, file.fileno(), file)
    return file


def require_as_listed(files: Collection[SourceFile]) -> None:
    """Refuse files of which one is gone, was changed, or has another one in its place.

    They are opened and not read: file systems of a network may answer by what they remember until a file is opened.

    Raises:
        ReleaseFailed: one is.
    """
    for file in files:
        if not is_url(file.path):
            _require_as_listed(file)
    # Each question to a store waits for the network, so they are asked at once.
    stored = [file for file in files if is_url(file.path)]
    if stored:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_QUESTIONS_AT_ONCE) as threads:
            for _ in threads.map(_require_as_listed, stored):
                pass


_QUESTIONS_AT_ONCE = 16


def _require_as_listed(file: SourceFile) -> None:
    try:
        open_input(file).close()
    except (OSError, ValueError, ImportError) as error:
        raise _changed(file, f"it cannot be opened any more ({type(error).__name__})") from None


@contextmanager
def changes_refused() -> Iterator[None]:
    """Refuse a file that was changed after it was listed, while nothing is charged.

    Raises:
        InputRefused: one was.
    """
    try:
        yield
    except ReleaseFailed as failure:
        raise InputRefused(
            failure.what, where=failure.where, remedy="Run again when nothing writes to it any more."
        ) from None


def stored_version(entry: Mapping[str, Any]) -> str:
    """Return what a store says of an object's version; empty where it says nothing."""
    return _first_text(entry, _VERSION_KEYS)


def stored_time(entry: Mapping[str, Any]) -> str:
    """Return when a store says that an object was written; empty where it doesn't say."""
    return _first_text(entry, _TIME_KEYS)


def _first_text(entry: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the first of some entries that there is, as a text."""
    value = next((entry[key] for key in keys if entry.get(key)), "")
    if isinstance(value, datetime) and value.tzinfo is not None:  # listings may have the same time as a number
        value = value.timestamp()
    return str(value)


_TIME_KEYS = ("mtime", "LastModified", "Last-Modified", "last_modified")
_VERSION_KEYS = ("ETag", "etag", *_TIME_KEYS, "created")


def _opened_without_waiting(path: str, flags: int) -> int:
    """Open what may be a pipe by now, which would wait for somebody to write."""
    return os.open(path, flags | os.O_NONBLOCK)


def _compare_descriptor(listed: SourceFile, descriptor: int, opened: Any) -> None:  # noqa: ANN401
    state = os.fstat(descriptor)
    differences = (
        ("another file is in its place", state.st_ino != listed.inode),
        ("a file of another file system is in its place", listed.device not in (None, state.st_dev)),
        # By the open descriptor and not by the path, between whose two looks the file could be replaced.
        ("its size is another one", state.st_size != listed.size),
        ("it was changed", str(state.st_mtime_ns) != listed.version),
    )
    _require_none(listed, differences, opened)


def _compare_entry(listed: SourceFile, entry: Mapping[str, Any], opened: Any) -> None:  # noqa: ANN401
    differences = (
        ("its size is another one", int(entry["size"] or 0) != listed.size),
        ("the store has another version of it", stored_version(entry) != listed.version),
    )
    _require_none(listed, differences, opened)


def _require_none(listed: SourceFile, differences: Collection[tuple[str, bool]], opened: Any) -> None:  # noqa: ANN401
    difference = next((what for what, differs in differences if differs), None)
    if difference is not None:
        opened.close()
        raise _changed(listed, difference)


def _changed(file: SourceFile, difference: str) -> ReleaseFailed:
    return ReleaseFailed(
        f"this file was changed since it was listed: {difference}.",
        where=file.path,
        remedy="Put the very file back, with its time of last change, and run again with the same release id: it takes "
        "the same sample and is not charged twice. Or give the release up: `crowdblend abandon`.",
    )


COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
"""Endings of the names of compressed CSV files that are read, and how they are compressed."""


def unpacked_name(location: str) -> tuple[str, str | None]:
    """Return a file's name without the ending of its compression, and what that is; None where it isn't compressed."""
    suffix = PurePosixPath(location).suffix
    compression = COMPRESSIONS.get(suffix.lower())
    return (location, None) if compression is None else (location[: -len(suffix)], compression)


def open_records(location: Location) -> BinaryIO:
    """Open a CSV file for reading its bytes, unpacked where it is compressed; that one is read from its beginning on.

    A compressed file that is cut off or damaged is an error where that is reached, never an end.

    Raises:
        OSError, ValueError, ImportError, ReleaseFailed: as `open_input`.
    """
    compression = unpacked_name(path_of(location))[1]
    packed = open_input(location)
    return packed if compression is None else cast(BinaryIO, io.BufferedReader(_Unpacked(packed, compression)))


class _Unpacked(io.RawIOBase):
    """The content of a compressed file; it can be sought forwards only.

    Args:
        packed: the file, which is closed with this.
        compression: as pyarrow calls it.
    """

    def __init__(self, packed: BinaryIO, compression: str) -> None:
        import pyarrow as pa

        super().__init__()
        self._packed = packed
        self._content = pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), compression)
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is, forwards."""
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any buffer that can be written to
        """Fill a buffer as far as the file goes; how many bytes came."""
        block = self._content.read(len(buffer))
        buffer[: len(block)] = block
        self._position += len(block)
        return len(block)

    def tell(self) -> int:
        """Return how many bytes came before."""
        return self._position

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        """Pass over what lies before a place.

        Raises:
            io.UnsupportedOperation: it lies behind, or the end is meant.
        """
        if whence != os.SEEK_SET or position < self._position:
            raise io.UnsupportedOperation
        while self._position < position and (block := self._content.read(min(position - self._position, 1 << 20))):
            self._position += len(block)
        return self._position

    def close(self) -> None:
        """Close the file too."""
        if not self.closed:
            self._packed.close()
        super().close()
