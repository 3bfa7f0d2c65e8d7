"""The files of the input: listed in a lasting order, none twice, and checked by their metadata alone."""

from __future__ import annotations

import glob
import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from ...mechanisms.errors import InputRefused
from ..readers.values import RecordReading
from .csv_header import CsvLayout, read_csv_layout, separator_byte
from .files import LocalFolders, foreign_source, is_url, refuse_stored_tables
from .parquet_footer import ParquetLayout, read_parquet_layout

__all__ = [
    "RecordFormat",
    "Source",
    "SourceFile",
    "SourceLayout",
    "check_metadata",
    "list_source",
    "manifest_bytes",
    "source_metadata_bytes",
]


class RecordFormat(Enum):
    """How records are stored."""

    CSV = "csv"
    PARQUET = "parquet"


MISSING = "source-missing"
"""Cause of a refusal: nothing is there, or it can't be reached; perhaps it comes yet."""
_FORMAT_OF_SUFFIX = {
    ".csv": RecordFormat.CSV,
    ".tsv": RecordFormat.CSV,
    ".txt": RecordFormat.CSV,
    ".parquet": RecordFormat.PARQUET,
    ".pq": RecordFormat.PARQUET,
}
_COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".zip", ".lz4", ".br", ".7z", ".z"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One file of the input.

    Args:
        path: the real path, or the URL.
        size: bytes.
        version: last change in nanoseconds, or what the store has for it (ETag); may be empty.
    """

    path: str
    size: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The input's files, ordered by path; the place in `files` is the file's number in the sampling.

    Args:
        files: at least one, no file twice.
        record_format: the format of all of them.
    """

    files: tuple[SourceFile, ...]
    record_format: RecordFormat


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLayout:
    """A source with what its headers or footers say.

    Args:
        source: the files.
        layouts: one for each file, in the same order.
    """

    source: Source
    layouts: tuple[CsvLayout, ...] | tuple[ParquetLayout, ...]

    @property
    def records(self) -> int | None:
        """Records in all by the footers; None for CSV, which has to be read for that."""
        counts = [sum(part.rows) if isinstance(part, ParquetLayout) else None for part in self.layouts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def n_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.source.files)


def list_source(source: str, *, base: Path) -> Source:
    """List the input: a file, a folder, a glob pattern, or any of these as an fsspec URL.

    Below a folder, names that begin with `.` or `_` are passed over; every other file must be of the one
    format (.csv, .tsv, .txt; .parquet, .pq). No file is opened.

    PRIVACY: the files of a lake table are not its records (`lake_tables`), so what lies in one, and a folder that holds
    one, is refused.

    Args:
        source: as the specification has it.
        base: folder from which a relative path starts.

    Raises:
        InputRefused: nothing found, a file listed twice (also by a link), an unknown, compressed or mixed
            format, a table of Delta Lake, Iceberg or Hudi, or a location that cannot be reached.
    """
    foreign = foreign_source(source)
    if foreign is not None:
        raise foreign
    if "\0" in source:
        raise InputRefused("no file's name has a NUL character.", where="[data].source")
    if is_url(source) and not source.startswith(("file://", "local://")):
        files = _remote_files(source)
    else:
        files = _local_files(base / source.removeprefix("file://").removeprefix("local://"), source)
    if not files:
        raise InputRefused(
            "no CSV or Parquet file was found.",
            where=source,
            remedy="Check [data].source; it starts from the specification's folder.",
            cause=MISSING,
        )
    formats = {_format_of(file.path) for file in files}
    if len(formats) > 1:
        raise InputRefused(
            "there are CSV and Parquet files; one release reads one format.",
            where=source,
            remedy="Name the files of one format, for example by a pattern such as folder/*.parquet.",
        )
    ordered = sorted(files, key=lambda file: file.path)
    return Source(files=tuple(ordered), record_format=formats.pop())


def check_metadata(source: Source, *, columns: Sequence[str], reading: RecordReading) -> SourceLayout:
    """Check that every file has the released columns, by CSV headers or Parquet footers alone.

    PRIVACY: this runs before the charge, so it must not depend on a record.

    Args:
        source: the files.
        columns: names of the released columns.
        reading: how the records are read.

    Raises:
        InputRefused: names the file and, where there is one, the column.
    """
    paths = [file.path for file in source.files]
    match source.record_format:
        case RecordFormat.CSV:
            separator_byte(reading.separator)
            headers = tuple(read_csv_layout(path, columns=columns, reading=reading) for path in paths)
            return SourceLayout(source=source, layouts=headers)
        case RecordFormat.PARQUET:
            footers = tuple(read_parquet_layout(path, columns=columns) for path in paths)
            return SourceLayout(source=source, layouts=footers)


def manifest_bytes(source: Source) -> bytes:
    """Canonical bytes of (path, size, version) of every file: equal only for an unchanged input.

    PRIVACY: to be stored as a keyed hash, in the private store only; a bare hash would tell whether a data
    set of known contents is the input.
    """
    rows = [[file.path, file.size, file.version] for file in source.files]
    return json.dumps({"kind": "manifest/1", "files": rows}, separators=(",", ":")).encode("ascii")


def source_metadata_bytes(layout: SourceLayout) -> bytes:
    """Canonical bytes of what a copy of the input would share with it: names, sizes and what headers or footers say.

    PRIVACY: as `manifest_bytes`.
    """
    rows = [
        [PurePosixPath(file.path).name, file.size, _told(layout.layouts[place])]
        for place, file in enumerate(layout.source.files)
    ]
    return json.dumps({"kind": "source-metadata/1", "files": rows}, separators=(",", ":")).encode("ascii")


def _told(layout: CsvLayout | ParquetLayout) -> list[int]:
    """What a header or footer says whatever columns are released."""
    return list(layout.rows) if isinstance(layout, ParquetLayout) else [layout.first_record, layout.fields]


def _local_files(path: Path, source: str) -> list[SourceFile]:
    tables = LocalFolders(source)
    if path.is_dir():
        found = list(_below(path, source, tables))
    elif path.exists() or not glob.has_magic(str(path)):
        found = [path]
    else:
        found = []
        for match in map(Path, glob.glob(str(path), recursive=True)):
            if match.is_dir():
                found.extend(_below(match, source, tables))
            elif not match.name.startswith((".", "_")):
                found.append(match)
    first_name: dict[tuple[int, int], Path] = {}
    files: list[SourceFile] = []
    for name in found:
        tables.refuse_table_around(name)
        try:
            state = name.stat()
        except OSError as error:
            raise InputRefused(
                f"the file cannot be found ({type(error).__name__}).", where=str(name), cause=MISSING
            ) from None
        if not stat.S_ISREG(state.st_mode):
            raise InputRefused("this is not a regular file.", where=str(name))
        _format_of(str(name))
        other = first_name.setdefault((state.st_dev, state.st_ino), name)
        if other is not name:
            raise _listed_twice(str(name), str(other))
        real = os.path.realpath(name)
        files.append(SourceFile(path=real, size=state.st_size, version=str(state.st_mtime_ns)))
    return files


def _below(folder: Path, source: str, tables: LocalFolders) -> Iterator[Path]:
    """The files below a folder, through linked folders too, each folder once."""
    tables.refuse_table_around(folder)
    entered: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        tables.refuse_table_around(Path(place))
        state = os.stat(place)
        if (state.st_dev, state.st_ino) in entered:
            raise InputRefused("a folder is reached twice, through a link.", where=f"{source}: {place}")
        entered.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith((".", "_")))


def _remote_files(url: str) -> list[SourceFile]:
    import fsspec  # for URLs alone: most sources are files of this machine

    protocol = url.partition("://")[0]
    if "::" in url:
        raise InputRefused("chained URLs are not supported.", where=url, remedy="Unpack the archive first.")
    try:
        store, path = fsspec.core.url_to_fs(url)
        store.invalidate_cache()
        folder = False
        if glob.has_magic(path) and not store.exists(path):
            found = store.glob(path, detail=True)
        elif folder := store.isdir(path):
            found = store.find(path, detail=True)
        else:
            found = {path: store.info(path)}
    except (OSError, ValueError, ImportError) as error:
        raise InputRefused(
            f"the source cannot be reached through {protocol!r} ({type(error).__name__}).",
            where=url,
            remedy="Check the address, the access rights and that the fsspec driver is installed.",
            cause=MISSING if isinstance(error, OSError) else "",
        ) from None
    refuse_stored_tables(store, files=found, everything=folder, source=url)
    files: list[SourceFile] = []
    for name, entry in found.items():
        below = PurePosixPath(name.removeprefix(path.rstrip("/"))).parts if name != path else ()
        if entry["type"] != "file" or any(part.startswith((".", "_")) for part in below):
            continue
        _format_of(name)
        version = next((entry[key] for key in ("ETag", "etag", "mtime", "LastModified") if entry.get(key)), "")
        location = str(store.unstrip_protocol(name))
        files.append(SourceFile(path=location, size=int(entry["size"] or 0), version=str(version)))
    return files


def _format_of(name: str) -> RecordFormat:
    foreign = foreign_source(name)
    if foreign is not None:
        raise foreign
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _COMPRESSED:
        raise InputRefused(
            f"compressed files ({suffix}) cannot be split among workers.",
            where=name,
            remedy="Unpack the file, or store it as Parquet, which is compressed inside.",
        )
    known = _FORMAT_OF_SUFFIX.get(suffix)
    if known is None:
        raise InputRefused(
            "the file's name ends in none of .csv, .tsv, .txt, .parquet, .pq.",
            where=name,
            remedy="Rename it, or name the right files by a pattern such as folder/*.csv.",
        )
    return known


def _listed_twice(name: str, other: str) -> InputRefused:
    return InputRefused(
        f"this is the same file as {other}; a record must not be read twice.",
        where=name,
        remedy="Remove the link, or name each file once.",
    )
