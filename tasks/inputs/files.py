"""Opening inputs, on this machine or by URL; and those that aren't read, each with the way round.

They are spreadsheets, files of databases, and folders in or above tables of Delta Lake, Iceberg and Hudi. A
lake table is a log of which files, and which records of them, are the table. The files that it has replaced or deleted
from stay in the folder, so reading all files publishes deleted people, and gives a person who was updated several
records at the price of one. `lake_tables` reads the log."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ...accounting.kernel.keys.private_files import open_given
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COMPRESSIONS",
    "DELTA",
    "ICEBERG",
    "ICEBERG_FILES",
    "ICEBERG_FOLDER",
    "LocalFolders",
    "Location",
    "Partition",
    "SourceFile",
    "changes_refused",
    "foreign_source",
    "is_url",
    "open_input",
    "open_local",
    "open_records",
    "path_of",
    "refuse_stored_tables",
    "refuse_tables_above",
    "refuse_twofold",
    "require_as_listed",
    "stored_marks",
    "stored_time",
    "stored_version",
    "unpacked_name",
]

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


DELTA, HUDI, ICEBERG = "Delta Lake", "Hudi", "Iceberg"
PARTITION = ".hoodie_partition_metadata"
FORMAT_OF_NAME = {"_delta_log": DELTA, ".hoodie": HUDI, PARTITION: HUDI}
"""Names that only a table's folder, or a partition of it, has."""
ICEBERG_FOLDER = "metadata"
ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")
"""What an Iceberg table has in the folder `metadata`; v1.gz.metadata.json ends so too."""


class LocalFolders:
    """Folders of this machine, each looked at once for what tells that it is a lake table.

    Args:
        source: the source as the specification has it, for refusals.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._passed: set[str] = set()

    def refuse_table(self, folder: str) -> None:
        """Refuse a folder that is a table, or a partition of one.

        Raises:
            InputRefused: it is, or that cannot be seen.
        """
        if folder in self._passed:
            return
        for table_format, mark in self.marks(folder):
            raise _refusal(self._source, folder, table_format, mark)
        self._passed.add(folder)

    def marks(self, folder: str) -> list[tuple[str, str]]:
        """What tells that a folder is a table: the format, and by what; empty where it is none.

        Raises:
            InputRefused: that cannot be seen.
        """
        try:
            found = [(kind, name) for name, kind in FORMAT_OF_NAME.items() if _exists(os.path.join(folder, name))]
            names = _names(os.path.join(folder, ICEBERG_FOLDER))
            iceberg = next((name for name in names if name.endswith(ICEBERG_FILES)), None)
        except OSError as error:
            raise _unseen(self._source, folder, error) from None
        return found if iceberg is None else [*found, (ICEBERG, f"{ICEBERG_FOLDER}/{iceberg}")]

    def refuse_table_around(self, path: Path) -> None:
        """Refuse a file or folder that lies in a table, at any depth, by its name or by what its links lead to.

        Raises:
            InputRefused: it does, or that cannot be seen.
        """
        for place in {os.path.abspath(path), os.path.realpath(path)}:
            for folder in (place, *map(str, Path(place).parents)):
                self.refuse_table(folder)


def refuse_stored_tables(store: Any, *, files: Collection[str], everything: bool, source: str) -> None:  # noqa: ANN401
    """Refuse objects that lie in a table.

    However many they are, at most one listing is asked for, of the folder that holds them all, and three questions for
    that folder and for each above it.

    Args:
        store: an fsspec file system.
        files: names of the objects, without their protocol.
        everything: whether these are all objects of a folder, so that no listing is needed.
        source: the source as the specification has it, for refusals.

    Raises:
        InputRefused: there is a table, or that cannot be seen.
    """
    if not files:
        return
    parents = {next(_folders_around(name), "") for name in files}
    folder = _common_folder(parents)
    try:
        listed = files if everything or parents == {folder} else store.find(folder)
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        raise _unseen(source, folder, error) from None
    read = {around for name in files for around in _folders_around(name)}
    for name in sorted(listed):
        for table, table_format, mark in _marks(name, below=folder):
            if table in read:
                raise _refusal(source, table, table_format, mark)
    for place in (folder, *_folders_around(folder)):
        _refuse_stored_table(store, place, source)


def refuse_tables_above(store: Any, folder: str, *, source: str) -> None:  # noqa: ANN401
    """Refuse a folder of a store that lies in a table.

    Raises:
        InputRefused: it does, or that cannot be seen.
    """
    for place in _folders_around(folder):
        _refuse_stored_table(store, place, source)


def _refuse_stored_table(store: Any, folder: str, source: str) -> None:  # noqa: ANN401
    for table_format, mark in stored_marks(store, folder, source=source):
        raise _refusal(source, folder, table_format, mark)


def stored_marks(store: Any, folder: str, *, source: str) -> list[tuple[str, str]]:  # noqa: ANN401
    """As `LocalFolders.marks`, of a folder in a store.

    Raises:
        InputRefused: that cannot be seen.
    """
    try:
        marks = [
            (table_format, name)
            for name, table_format in FORMAT_OF_NAME.items()
            if name != PARTITION and _is_stored(store, f"{folder}/{name}")
        ]
        marks += [
            (ICEBERG, f"{ICEBERG_FOLDER}/{PurePosixPath(path).name}")
            for path in _stored_names(store, f"{folder}/{ICEBERG_FOLDER}")
            if path.endswith(ICEBERG_FILES)
        ]
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        raise _unseen(source, folder, error) from None
    return marks


def _common_folder(folders: Collection[str]) -> str:
    """The deepest folder that all of them are or lie in; `os.path.commonpath` would spoil https://."""
    first, last = min(parts := [folder.split("/") for folder in folders]), max(parts)
    same = [one for one, other in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))]
    return "/".join(same)


def _marks(name: str, *, below: str) -> Iterator[tuple[str, str, str]]:
    """What an object's name tells of tables below a folder: the table's folder, its format, and by what."""
    parts = name.removeprefix(below).strip("/").split("/")
    for place, part in enumerate(parts):
        table = "/".join([below.rstrip("/"), *parts[:place]])
        if part in FORMAT_OF_NAME:
            yield table, FORMAT_OF_NAME[part], part
        elif part == ICEBERG_FOLDER and parts[place + 2 :] == [] and parts[-1].endswith(ICEBERG_FILES):
            yield table, ICEBERG, f"{part}/{parts[-1]}"
        if part.startswith((".", "_")):
            return


def _folders_around(name: str) -> Iterator[str]:
    """The folders that an object lies in, the nearest first; the root only where names begin with it."""
    folder = name.rstrip("/")
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        if folder.endswith(":/"):  # https://host: what remains is no folder
            return
        yield folder


def _is_stored(store: Any, path: str) -> bool:  # noqa: ANN401
    """Whether there is an object or a folder; unlike fsspec's `exists`, what can't be asked is no answer."""
    try:
        store.info(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _stored_names(store: Any, path: str) -> list[str]:  # noqa: ANN401
    try:
        return list(store.ls(path, detail=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _exists(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return


def _refusal(source: str, folder: str, table_format: str, mark: str) -> InputRefused:
    return InputRefused(
        f"the folder {folder} belongs to a table of {table_format} (it has {mark}). Such a folder keeps files of "
        "records that the table has deleted or replaced, so a person who isn't in the table would be read, or one "
        "person more than once.",
        where=source,
        remedy=("" if table_format == HUDI else "Name the table's own folder, whose live files are read. Or: ")
        + f"Write the table's present records to Parquet, with a program that reads {table_format} and into a "
        "folder outside the table, and name that. docs/starting-from-a-file.md has a script to copy.",
    )


def _unseen(source: str, folder: str, error: Exception) -> InputRefused:
    return InputRefused(
        f"whether {folder} is a table of Delta Lake, Iceberg or Hudi cannot be seen ({type(error).__name__}); the "
        "files of such a table aren't its records.",
        where=source,
        remedy="Let this account list the folder, or at least look for _delta_log, .hoodie and metadata in it, or move "
        "the files to where it may.",
    )


BOOKS = frozenset({".xls", ".xlsx", ".xlsm", ".xlsb", ".ods"})
PACKAGES = frozenset({".por", ".rda", ".rds", ".sas7bcat"})
FILES_OF_DATABASES = frozenset({".accdb", ".db", ".duckdb", ".mdb", ".sqlite", ".sqlite3"})
DATABASES = frozenset(
    {"bigquery", "clickhouse", "duckdb", "jdbc", "mssql", "mysql", "odbc", "oracle", "postgres", "postgresql"}
    | {"redshift", "snowflake", "sqlite", "trino"}
)
WAY = "docs/starting-from-a-file.md has a script to copy."


def foreign_source(location: str) -> InputRefused | None:
    """The refusal of a source that some other program must write out first; None where it may be one that is read.

    A spreadsheet has no types and no fixed header, and a query may give other rows at each attempt: a release must
    be able to read the very same records again after a crash. So both are written to Parquet first.

    Args:
        location: a file's name, a path or a URL; nothing is opened.
    """
    protocol, mark, _ = location.partition("://")
    database = protocol.partition("+")[0].removeprefix("jdbc:").lower()
    suffix = PurePosixPath(location).suffix.lower()
    if (mark and database in DATABASES) or location.lower().startswith(("jdbc:", "odbc:")):
        # PRIVACY: a database's URL may hold a password; it isn't repeated.
        read = database in {"postgres", "postgresql"}
        return InputRefused(
            "a database isn't read here: a release reads one with [data].table or [data].query."
            if read
            else "this database isn't read: after a crash the same records must be read again.",
            where=f"a source of {database or 'a database'}",
            remedy=f"Write the table to Parquet once, and name that file. {WAY}",
        )
    for suffixes, what in (
        (BOOKS, "a spreadsheet isn't read: its cells have no lasting types."),
        (PACKAGES, "such a file of a statistics package isn't read."),
        (FILES_OF_DATABASES, "a database's file isn't read."),
    ):
        if suffix in suffixes:
            return InputRefused(
                what, where=location, remedy=f"Write the table to Parquet first, its codes as text. {WAY}"
            )
    return None


def refuse_twofold(names: Collection[str], *, borne: Collection[str], where: str) -> None:
    """Refuse a file that has a column which folders bear too.

    Args:
        names: of the file's columns.
        borne: names of the released columns that folders bear.
        where: the file.

    Raises:
        InputRefused: there is one.
    """
    for column in borne:
        if column in names:
            raise InputRefused(
                f"the column {column!r} is in the file and in the names of its folders, and they may differ.",
                where=where,
                remedy="Rename one of them.",
            )


def is_url(location: str) -> bool:
    """Whether a location names a protocol rather than a path on this machine."""
    return "://" in location


def open_input(location: Location) -> BinaryIO:
    """Open a file for reading bytes; it can be sought.

    INVARIANT: a file that was listed is compared with what is open, by its very descriptor: whoever renames another
    file into its place can't come between. Of an object the store is asked at each opening.

    Raises:
        OSError: it cannot be opened.
        ValueError, ImportError: the URL's protocol is unknown or its driver not installed.
        ReleaseFailed: it is not the file that was listed.
    """
    path = path_of(location)
    if is_url(path):
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
    """The first of some entries that there is, as a text."""
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
        f"this is not the file any more that was listed: {difference}.",
        where=file.path,
        remedy="Put the very file back, with its time of last change, and run again with the same release id: it takes "
        "the same sample and is not charged twice. Or give the release up: `crowdblend abandon`.",
    )


COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
"""Endings of the names of compressed CSV files that are read, and how they are compressed."""


def unpacked_name(location: str) -> tuple[str, str | None]:
    """A file's name without the ending of its compression, and what that is; None where it isn't compressed."""
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
        """How many bytes came before."""
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
