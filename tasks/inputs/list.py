"""The files of the input: listed in a lasting order, none twice, and checked by their metadata alone."""

from __future__ import annotations

import glob
import json
import math
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...mechanisms.kernel.errors import InputRefused
from ..readers.values import RecordReading
from .csv_header import CsvLayout, read_csv_layout, separator_byte
from .delta_log import read_delta_table
from .files import (
    DELTA,
    ICEBERG,
    ICEBERG_FILES,
    ICEBERG_FOLDER,
    LocalFolders,
    Partition,
    SourceFile,
    changes_refused,
    foreign_source,
    is_url,
    refuse_stored_tables,
    refuse_tables_above,
    stored_marks,
    stored_time,
    stored_version,
    unpacked_name,
)
from .iceberg_snapshot import read_iceberg_table
from .lake_tables import LakeTable, TableFolder, misread, unescaped
from .parquet_footer import ParquetLayout, read_parquet_layout
from .statistics_files import SUFFIXES, read_statistics_layout

if TYPE_CHECKING:
    from .database_query import DatabaseQuery

__all__ = [
    "RecordFormat",
    "Source",
    "SourceLayout",
    "check_metadata",
    "delivery_bytes",
    "layout_for_other_machines",
    "list_source",
    "manifest_bytes",
    "source_metadata_bytes",
]


class RecordFormat(Enum):
    """How records are stored."""

    CSV = "csv"
    PARQUET = "parquet"
    STATISTICS = "statistics"


LISTING_SECONDS = "CROWDBLEND_LISTING_SECONDS"
"""Variable that says how long the listing of a source may take."""
_USUAL_SECONDS = 300.0

MISSING = "source-missing"
"""Cause of a refusal: nothing is there, or it can't be reached; perhaps it comes yet."""
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_FORMAT_OF_SUFFIX = {
    ".csv": RecordFormat.CSV,
    ".tsv": RecordFormat.CSV,
    ".txt": RecordFormat.CSV,
    ".parquet": RecordFormat.PARQUET,
    ".pq": RecordFormat.PARQUET,
    **dict.fromkeys(SUFFIXES, RecordFormat.STATISTICS),
}
_NOT_UNPACKED = {".gz", ".bz2", ".xz", ".zst", ".zip", ".lz4", ".br", ".7z", ".z"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The input's files, ordered by path; the place in `files` is the file's number in the sampling.

    Args:
        files: at least one, no file twice.
        record_format: the format of all of them.
        table: the version of a lake table that they are; None where files were named.
        query: what a database was asked for, of which the file is the private copy; None elsewhere.
    """

    files: tuple[SourceFile, ...]
    record_format: RecordFormat
    table: LakeTable | None = None
    query: DatabaseQuery | None = None

    @property
    def version(self) -> int | None:
        """Number of the table's version, or id of its snapshot; None where files were named."""
        return None if self.table is None else self.table.version


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
        """Records in all by the footers; None for CSV, which has to be read for that, and for what isn't copied yet."""
        if self.source.query is not None and not any(file.size for file in self.source.files):
            return None
        counts = [sum(part.rows) if isinstance(part, ParquetLayout) else None for part in self.layouts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def without_records(self) -> bool:
        """Whether sizes and footers alone tell that there are no records; compressed files don't tell."""
        if self.records is not None:
            return self.records == 0
        return self.source.query is None and all(
            isinstance(part, CsvLayout) and unpacked_name(file.path)[1] is None and part.first_record >= file.size
            for file, part in zip(self.source.files, self.layouts, strict=True)
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of all files; 0 where some are compressed, so that how many they have is not known."""
        compressed = any(unpacked_name(file.path)[1] for file in self.source.files)
        return 0 if compressed else sum(file.size for file in self.source.files)


def list_source(source: str, *, base: Path, version: int | None = None) -> Source:
    """List the input: a file, a folder, a glob pattern, or any of these as an fsspec URL; or a lake table's live files.

    Below a folder, names that begin with `.` or `_` are passed over; every other file must be of the one
    format (.csv, .tsv, .txt, also with .gz or .zst; .parquet, .pq; .sav, .zsav, .dta, .sas7bdat, .xpt). No file of
    records is opened.

    PRIVACY: the files in a lake table's folder are not its records, so its log decides which are, and what lies in
    one, and a folder that holds one, is refused.

    Args:
        source: as the specification has it.
        base: folder from which a relative path starts.
        version: of a table of Delta Lake, or id of a snapshot of Iceberg; None is the present one.

    Raises:
        InputRefused: nothing found, a file listed twice (also by a link), an unknown, compressed or mixed
            format, a table that isn't read, a version of what has none, or a location that cannot be reached.
    """
    foreign = foreign_source(source)
    if foreign is not None:
        raise foreign
    if "\0" in source:
        raise InputRefused("no file's name has a NUL character.", where="[data].source")
    if is_url(source) and not source.startswith(("file://", "local://")):
        found = _within_time(partial(_remote_source, source, version), source)
    else:
        path = base / source.removeprefix("file://").removeprefix("local://")
        found = _within_time(partial(_local_source, path, source, version), source)
    if not found.files:
        raise InputRefused(
            "no file of records was found."
            if found.table is None
            else f"version {found.version} of the table has no file.",
            where=source,
            remedy="Check [data].source; it starts from the specification's folder.",
            cause=MISSING,
        )
    if version is not None and found.table is None:
        raise InputRefused(
            "a version is of a table of Delta Lake or Iceberg, and the source is none.",
            where="[data].version",
            remedy="Remove it, or name the table's folder.",
        )
    return replace(found, files=tuple(sorted(found.files, key=lambda file: file.path)))


def _within_time(look: Callable[[], Source], source: str) -> Source:
    """Return what a look at names and metadata finds, unless it takes too long.

    The thread that looks is left to end with the process: nothing can break off a file system or a store that is
    silent.

    Raises:
        InputRefused: as the look does; or it takes too long.
    """
    seconds, done = _listing_seconds(), Future[Source]()

    def finish() -> None:
        try:
            done.set_result(look())
        except OSError as error:
            done.set_exception(_unlisted(source, error))
        except BaseException as fault:  # noqa: BLE001 - raised again in the caller's thread
            done.set_exception(fault)

    thread = threading.Thread(target=finish, daemon=True)
    thread.start()
    thread.join(seconds)
    if not done.done():
        raise InputRefused(
            f"to list its files takes longer than {seconds:g} seconds.",
            where=source,
            remedy="Name a smaller folder or a narrower pattern; where there really are so many files, allow more time "
            f"by {LISTING_SECONDS}.",
        )
    return done.result()


def _unlisted(source: str, error: OSError) -> InputRefused:
    return InputRefused(
        f"its files cannot be listed ({error.strerror or type(error).__name__}).",
        where=source,
        remedy="Check the name, and that this account may look there.",
        cause=MISSING,
    )


def _listing_seconds() -> float:
    given = os.environ.get(LISTING_SECONDS)
    try:
        seconds = _USUAL_SECONDS if given is None else float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise InputRefused(
            "this is no number of seconds above 0.", where=LISTING_SECONDS, remedy="Write, for example, 600."
        )
    return seconds


def check_metadata(source: Source, *, columns: Sequence[str], reading: RecordReading) -> SourceLayout:
    """Check that every file has the released columns, by CSV headers or Parquet footers alone.

    A column that is a partition's is not looked for in the file, and may not be there too, where folders bear it: which
    of the two is meant can't be told.

    PRIVACY: this runs before the charge, so it must not depend on a record.

    Args:
        source: the files.
        columns: names of the released columns.
        reading: how the records are read.

    Raises:
        InputRefused: names the file and, where there is one, the column.
    """
    with changes_refused():
        return _checked_metadata(source, columns=columns, reading=reading)


def _checked_metadata(source: Source, *, columns: Sequence[str], reading: RecordReading) -> SourceLayout:
    table = source.table
    if table is not None:
        table.require(columns)
    borne = [name for name, _ in source.files[0].partition if name in columns]
    stored = [name for name in columns if name not in borne]
    match source.record_format:
        case RecordFormat.CSV:
            separator_byte(reading.separator)
            headers = tuple(
                read_csv_layout(file, columns=stored, reading=reading, borne=borne) for file in source.files
            )
            return SourceLayout(source=source, layouts=headers)
        case RecordFormat.PARQUET:
            ids: Mapping[str, int] = {} if table is None else table.field_ids
            footers = [
                read_parquet_layout(file, columns=stored, borne=borne if table is None else (), field_ids=ids)
                for file in source.files
            ]
            types = {} if table is None else table.partition_types
            footers = [_with_partition(footer, columns, stored, types) for footer in footers]
            return SourceLayout(source=source, layouts=tuple(footers))
        case RecordFormat.STATISTICS:
            heads = [read_statistics_layout(file, columns=stored, borne=borne) for file in source.files]
            return SourceLayout(
                source=source, layouts=tuple(_with_partition(head, columns, stored, {}) for head in heads)
            )


def _with_partition(
    footer: ParquetLayout, columns: Sequence[str], stored: Sequence[str], types: Mapping[str, pa.DataType | None]
) -> ParquetLayout:
    """A footer with the types of all released columns; folders bear texts."""
    own = dict(zip(stored, footer.types, strict=True))
    return replace(footer, types=tuple(own.get(name) or types.get(name) or pa.string() for name in columns))


def layout_for_other_machines(layout: SourceLayout) -> SourceLayout:
    """Return a layout whose files are known by what all machines see of them: no numbers of file systems."""
    files = tuple(replace(file, device=None) for file in layout.source.files)
    return replace(layout, source=replace(layout.source, files=files))


def manifest_bytes(source: Source) -> bytes:
    """Canonical bytes of (path, size, version) of every file: equal only for an unchanged input.

    PRIVACY: to be stored as a keyed hash, in the private store only; a bare hash would tell whether a data
    set of known contents is the input. Of a database it is what was asked for; the private copy has a hash of its own.
    """
    if source.query is not None:
        return _query_bytes(source.query)
    rows = [[file.path, file.size, file.version, *map(list, file.partition)] for file in source.files]
    manifest: dict[str, object] = {"kind": "manifest/1", "files": rows}
    if source.table is not None:
        manifest["table"] = [source.table.table_format, source.table.version]
    return json.dumps(manifest, separators=(",", ":")).encode("ascii")


def delivery_bytes(source: Source) -> bytes | None:
    """Canonical bytes of what was delivered when: equal only where no file was written since.

    PRIVACY: names, times and a table's version alone, no size and no digest: what is decided by them shows in public
    and must not follow from a record (docs/decisions/0025-deliveries.md). It is kept as `manifest_bytes` is.

    Args:
        source: the files.

    Returns:
        None where the times aren't known: of a database, or of a store that doesn't tell them.
    """
    if source.query is not None or not all(file.changed for file in source.files):
        return None
    rows = [[file.path, file.changed] for file in source.files]
    table = None if source.table is None else [source.table.table_format, source.table.version]
    return json.dumps({"kind": "delivery/1", "files": rows, "table": table}, separators=(",", ":")).encode("ascii")


def source_metadata_bytes(layout: SourceLayout) -> bytes:
    """Canonical bytes of what a copy of the input would share with it: names, sizes and what headers or footers say.

    PRIVACY: as `manifest_bytes`.
    """
    if layout.source.query is not None:
        return _query_bytes(layout.source.query)
    rows = [
        [PurePosixPath(file.path).name, file.size, _header_numbers(layout.layouts[place])]
        for place, file in enumerate(layout.source.files)
    ]
    return json.dumps({"kind": "source-metadata/1", "files": rows}, separators=(",", ":")).encode("ascii")


def _query_bytes(query: DatabaseQuery) -> bytes:
    return json.dumps({"kind": "database/1", "asked": [query.address, query.select]}).encode("ascii")


def _header_numbers(layout: CsvLayout | ParquetLayout) -> list[int]:
    """What a header or footer says whatever columns are released."""
    return list(layout.rows) if isinstance(layout, ParquetLayout) else [layout.first_record, layout.fields]


def _local_source(path: Path, source: str, version: int | None) -> Source:
    tables = LocalFolders(source)
    named = _metadata_file(str(path))
    folder = path.parent.parent if named else path
    marks = tables.marks(str(folder)) if folder.is_dir() else []
    if not marks:
        return _listed(_local_files(path, source, tables), source)
    for place in {os.path.abspath(folder), os.path.realpath(folder)}:
        for parent in Path(place).parents:
            tables.refuse_table(str(parent))
    if {table_format for table_format, _ in marks} - {DELTA, ICEBERG}:
        tables.refuse_table(str(folder))
    root = os.path.realpath(folder)
    table = _read_table(TableFolder(root=root), marks, named=named, version=version)
    found: dict[tuple[int, int], Path] = {}
    files = [
        _local_file(Path(root, live.path), found=found, size=live.size, partition=live.partition)
        for live in table.files
    ]
    return Source(files=tuple(files), record_format=RecordFormat.PARQUET, table=table)


def _metadata_file(path: str) -> str | None:
    """The name of an Iceberg table's metadata file; None where the path names another thing."""
    folder, _, name = path.rpartition("/")
    return name if name.endswith(ICEBERG_FILES) and PurePosixPath(folder).name == ICEBERG_FOLDER else None


def _read_table(
    folder: TableFolder, marks: Sequence[tuple[str, str]], *, named: str | None, version: int | None
) -> LakeTable:
    formats = {table_format for table_format, _ in marks}
    if len(formats) > 1:
        raise misread(f"the folder is a table of {' and of '.join(sorted(formats))} at once", where=folder.root)
    if formats == {DELTA}:
        return read_delta_table(folder, version=version)
    return read_iceberg_table(folder, metadata=named, version=version)


def _listed(files: Sequence[SourceFile], source: str) -> Source:
    """Files that were named, of one format."""
    formats = {_format_of(file.path) for file in files} or {RecordFormat.PARQUET}
    if len(formats) > 1:
        raise InputRefused(
            f"there are {' and '.join(sorted(one.value for one in formats))} files; one release reads one format.",
            where=source,
            remedy="Name the files of one format, for example by a pattern such as folder/*.parquet.",
        )
    first_name: dict[str, str] = {}
    for file in files:
        other = first_name.setdefault(unpacked_name(file.path)[0].rpartition(".")[0], file.path)
        if other != file.path:
            raise InputRefused(
                f"this and {other} have one name but for the ending, as a file has that was unpacked or saved in "
                "another format too; a record must not be read twice.",
                where=file.path,
                remedy="Remove one of them, name the files of one ending, or rename one if they hold other records.",
            )
    return Source(files=tuple(files), record_format=formats.pop())


def _local_files(path: Path, source: str, tables: LocalFolders) -> list[SourceFile]:
    anchor = path
    if path.is_dir():
        found = list(_below(path, source, tables))
    elif path.exists() or not glob.has_magic(str(path)):
        anchor, found = path.parent, [path]
    else:
        anchor, found = Path(*_fixed(path.parts)), []
        for match in map(Path, glob.glob(str(path), recursive=True)):
            if match.is_dir():
                found.extend(_below(match, source, tables))
            elif not match.name.startswith((".", "_")):
                found.append(match)
    first_name: dict[tuple[int, int], Path] = {}
    folders = [name.relative_to(anchor).parts[:-1] for name in found]
    for name in found:
        tables.refuse_table_around(name)
    partitions = _hive_partitions(folders, source=source)
    return [
        _local_file(name, found=first_name, partition=partition)
        for name, partition in zip(found, partitions, strict=True)
    ]


def _fixed(parts: Iterable[str]) -> list[str]:
    """What comes before the first folder or name with a wildcard."""
    return list(takewhile(lambda part: not glob.has_magic(part), parts))


def _local_file(
    name: Path, *, found: dict[tuple[int, int], Path], partition: Partition, size: int | None = None
) -> SourceFile:
    """One file of this machine.

    Args:
        name: its path.
        found: those before it; it is added.
        partition: values of its partition.
        size: by a table's log; None where there is none.
    """
    try:
        state = name.stat()
    except OSError as error:
        if size is not None:
            raise _lost_file(str(name)) from None
        raise InputRefused(
            f"the file cannot be found ({type(error).__name__}).", where=str(name), cause=MISSING
        ) from None
    if not stat.S_ISREG(state.st_mode):
        raise InputRefused("this is not a regular file.", where=str(name))
    if size is None:
        _format_of(str(name))
    elif state.st_size != size:
        raise misread("this file of the table has not the size that the log says", where=str(name))
    other = found.setdefault((state.st_dev, state.st_ino), name)
    if other is not name:
        raise _listed_twice(str(name), str(other))
    real = os.path.realpath(name)
    return SourceFile(
        path=real,
        size=state.st_size,
        version=str(state.st_mtime_ns),
        changed=str(state.st_mtime_ns),
        inode=state.st_ino,
        device=state.st_dev,
        partition=partition,
    )


def _lost_file(name: str) -> InputRefused:
    return InputRefused(
        "this file of the table's version is gone, as after a VACUUM or the expiry of snapshots.",
        where=name,
        remedy="Restore it and run again; or, where nothing was charged yet, name a later version.",
        cause=MISSING,
    )


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


def _remote_source(url: str, version: int | None) -> Source:
    import fsspec  # for URLs alone: most sources are files of this machine

    if "::" in url:
        raise InputRefused("chained URLs are not supported.", where=url, remedy="Unpack the archive first.")
    named, folder = _metadata_file(url), False
    found: dict[str, Any] = {}
    try:
        store, path = fsspec.core.url_to_fs(url)
        store.invalidate_cache()
        if glob.has_magic(path) and not store.exists(path):
            found = store.glob(path, detail=True)
        elif folder := store.isdir(path):
            found = store.find(path, detail=True)
        elif named is None:
            found = {path: store.info(path)}
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        raise _unreached(url, error) from None
    if folder or named is not None:
        root = path.rpartition("/")[0].rpartition("/")[0] if named is not None else path.rstrip("/")
        marks = stored_marks(store, root, source=url)
        if marks and {table_format for table_format, _ in marks} <= {DELTA, ICEBERG}:
            refuse_tables_above(store, root, source=url)
            return _remote_table(store, root, marks, named=named, version=version)
    refuse_stored_tables(store, files=found, everything=folder, source=url)
    parts = path.rstrip("/").split("/")
    anchor = "/".join(parts if folder else _fixed(parts))
    files, folders = [], []
    for name, entry in found.items():
        below = PurePosixPath(name.removeprefix(path.rstrip("/"))).parts if name != path else ()
        if entry["type"] != "file" or any(part.startswith((".", "_")) for part in below):
            continue
        _format_of(name)
        files.append(_remote_file(store, name, entry))
        folders.append(() if name == path else name.removeprefix(anchor).split("/")[:-1])
    partitions = _hive_partitions(folders, source=url)
    return _listed([replace(file, partition=one) for file, one in zip(files, partitions, strict=True)], url)


def _unreached(url: str, error: Exception) -> InputRefused:
    return InputRefused(
        f"the source cannot be reached through {url.partition('://')[0]!r} ({type(error).__name__}).",
        where=url,
        remedy="Check the address, the access rights and that the fsspec driver is installed.",
        cause=MISSING if isinstance(error, OSError) else "",
    )


def _remote_table(
    store: Any,  # noqa: ANN401
    root: str,
    marks: Sequence[tuple[str, str]],
    *,
    named: str | None,
    version: int | None,
) -> Source:
    """The live files of a table in a store, compared with one listing of its folder."""
    url = str(store.unstrip_protocol(root)).rstrip("/")
    table = _read_table(TableFolder(root=url), marks, named=named, version=version)
    try:
        listed = store.find(root, detail=True)
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        raise misread(f"it cannot be listed ({type(error).__name__})", where=url) from None
    files = []
    for live in table.files:
        name = f"{root}/{live.path}"
        if name not in listed:
            raise _lost_file(f"{url}/{live.path}")
        file = _remote_file(store, name, listed[name])
        if file.size != live.size:
            raise misread("this file of the table has not the size that the log says", where=file.path)
        files.append(replace(file, partition=live.partition))
    return Source(files=tuple(files), record_format=RecordFormat.PARQUET, table=table)


def _remote_file(store: Any, name: str, entry: Mapping[str, Any]) -> SourceFile:  # noqa: ANN401
    if entry["size"] is None or not stored_version(entry):  # a listing of an HTTP server's names alone
        try:
            entry = store.info(name)
        except Exception as error:  # noqa: BLE001 - as above
            raise _unreached(str(store.unstrip_protocol(name)), error) from None
    return SourceFile(
        path=str(store.unstrip_protocol(name)),
        size=int(entry["size"] or 0),
        version=stored_version(entry),
        changed=stored_time(entry),
        inode=None,
        device=None,
    )


def _format_of(name: str) -> RecordFormat:
    foreign = foreign_source(name)
    if foreign is not None:
        raise foreign
    unpacked, compression = unpacked_name(name)
    known = _FORMAT_OF_SUFFIX.get(PurePosixPath(unpacked).suffix.lower())
    if compression is not None and known is RecordFormat.CSV:
        return known
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _NOT_UNPACKED:
        raise InputRefused(
            f"a compressed file ({suffix}) is read where it is CSV by gzip or zstd, whose name ends in .csv.gz or "
            ".csv.zst.",
            where=name,
            remedy="Unpack the file, or store it as Parquet, which is compressed inside.",
        )
    if known is None:
        raise InputRefused(
            f"the file's name ends in none of {', '.join(_FORMAT_OF_SUFFIX)}.",
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


def _hive_partitions(paths: Iterable[Sequence[str]], *, source: str) -> list[Partition]:
    """The values that folders called `column=value` bear, for each file.

    Args:
        paths: of each file, the names of the folders between the source and the file.
        source: for messages.

    Raises:
        InputRefused: not all files have the same columns in the same order, one is there twice, or an escape is wrong.
    """
    found: list[Partition] = []
    for folders in paths:
        pairs = []
        for folder in folders:
            name, mark, text = folder.partition("=")
            if mark and name:
                value = unescaped(text, where=source)
                pairs.append((unescaped(name, where=source), None if value == _HIVE_NULL else value))
        found.append(tuple(pairs))
    layouts = {tuple(name for name, _ in partition) for partition in found}
    if len(layouts) > 1 or any(len(set(names)) != len(names) for names in layouts):
        listed = " and ".join(sorted("/".join(f"{name}=…" for name in names) or "no such folder" for names in layouts))
        raise InputRefused(
            f"folders called column=value differ from file to file, or name a column twice: {listed}.",
            where=source,
            remedy="Name files of one layout, for example by a pattern such as folder/region=*/*.parquet.",
        )
    return found
