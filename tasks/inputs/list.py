"""The files of the input: listed in a lasting order, none twice, and checked by their metadata alone."""

from __future__ import annotations

import glob
import math
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from ...accounting.given_files import open_given
from ...mechanisms.kernel.errors import InputRefused
from ..destinations import MANIFEST
from ..readers.parquet_records import PARQUET
from ..readers.source_files import (
    Partition,
    SourceFile,
    is_url,
    refuse_chain,
    stored_time,
    stored_version,
    unpacked_name,
)
from .lake_tables import LakeTable, TableFolder, misread, unescaped
from .source import MISSING, Source
from .source_formats import file_format_of, foreign_source
from .table_folders import LocalFolders, Mark, named_metadata, refuse_stored_tables, refuse_tables_above, stored_marks

LISTING_SECONDS = "CROWDBLEND_LISTING_SECONDS"
"""Variable that says how long the listing of a source may take."""
_USUAL_SECONDS = 300.0

_RELEASE = b'"release_id"'
"""What every certificate of a release has."""
_MOST = 1 << 26  # bytes, as the largest certificate has
_QUESTIONS_AT_ONCE = 16
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def list_source(source: str, *, base: Path, version: int | None = None) -> Source:
    """List the input: a file, a folder, a glob pattern, or any of these as an fsspec URL; or a lake table's live files.

    Below a folder, names that begin with `.` or `_` are passed over; every other file must be of the one
    format (.csv, .tsv, .txt, also with .gz or .zst; .parquet, .pq; .sav, .zsav, .dta, .sas7bdat, .xpt). No file of
    records is opened.

    PRIVACY: the files in a lake table's folder are not its records, so its log decides which are, and what lies in
    one, and a folder that holds one, is refused.

    Args:
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
            "only a table of Delta Lake or Iceberg has versions, and the source is none.",
            where="[data].version",
            remedy="Remove it, or name the table's folder.",
        )
    return replace(found, files=tuple(sorted(found.files, key=lambda file: file.path)))


def list_records(source: str, *, base: Path, version: int | None = None) -> Source:
    """List the input as `list_source` does, and refuse it where a file lies in a published release's folder.

    PRIVACY: a table that is read beside the records it was made of counts their people twice, at the price of once.

    Raises:
        InputRefused: as `list_source`; or a file lies in such a folder, at any depth, or that cannot be seen.
    """
    found = list_source(source, base=base, version=version)
    paths = [file.path for file in found.files]
    for folder in sorted({str(folder) for path in paths if not is_url(path) for folder in Path(path).parents}):
        _refuse_release(folder, _opened, source)
    stored = {folder for path in paths if is_url(path) for folder in _folders_of_url(path)}
    if stored:
        import fsspec  # for URLs alone: most sources are files of this machine

        store, _ = fsspec.core.url_to_fs(paths[0])
        # Each question to a store waits for the network, so they are asked at once.
        with ThreadPoolExecutor(_QUESTIONS_AT_ONCE) as threads:
            for _ in threads.map(lambda folder: _refuse_release(folder, partial(_opened_in, store), source), stored):
                pass
    return found


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

    # A daemon, so that a file system that never answers doesn't keep the process alive.
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


def _local_source(path: Path, source: str, version: int | None) -> Source:
    tables = LocalFolders(source)
    named = named_metadata(str(path))
    folder = path.parent.parent if named else path
    marks = tables.marks(str(folder)) if folder.is_dir() else []
    if not marks:
        return _listed(_local_files(path, source, tables), source)
    for place in {os.path.abspath(folder), os.path.realpath(folder)}:
        for parent in Path(place).parents:
            tables.refuse_table(str(parent))
    if not all(mark.table_format.readable for mark in marks):
        tables.refuse_table(str(folder))
    root = os.path.realpath(folder)
    table = _read_table(TableFolder(root=root), marks, named=named, version=version)
    found: dict[tuple[int, int], Path] = {}
    files = [
        _local_file(Path(root, live.path), found=found, size=live.size, partition=live.partition)
        for live in table.files
    ]
    return Source(files=tuple(files), file_format=PARQUET, table=table)


def _read_table(folder: TableFolder, marks: Sequence[Mark], *, named: str | None, version: int | None) -> LakeTable:
    formats = {mark.table_format for mark in marks}
    if len(formats) > 1:
        names = sorted(table_format.name for table_format in formats)
        raise misread(f"the folder is a table of {' and of '.join(names)} at once", where=folder.root)
    return formats.pop().read(folder, metadata=named, version=version)


def _listed(files: Sequence[SourceFile], source: str) -> Source:
    """Return files that were named, of one format."""
    formats = {file_format_of(file.path) for file in files} or {PARQUET}
    if len(formats) > 1:
        raise InputRefused(
            f"there are {' and '.join(sorted(known.name for known in formats))} files; one release reads one format.",
            where=source,
            remedy="Name the files of one format, for example by a pattern such as folder/*.parquet.",
        )
    first_name: dict[str, str] = {}
    for file in files:
        # `people.csv` beside `people.csv.gz` is most likely the same records twice, at the price of once.
        other = first_name.setdefault(unpacked_name(file.path)[0].rpartition(".")[0], file.path)
        if other != file.path:
            raise InputRefused(
                f"this and {other} have one name but for the ending, as a file has that was unpacked or saved in "
                "another format too; a record must not be read twice.",
                where=file.path,
                remedy="Remove one of them, name the files of one ending, or rename one if they hold other records.",
            )
    return Source(files=tuple(files), file_format=formats.pop())


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
    """Return what comes before the first folder or name with a wildcard."""
    return list(takewhile(lambda part: not glob.has_magic(part), parts))


def _local_file(
    name: Path, *, found: dict[tuple[int, int], Path], partition: Partition, size: int | None = None
) -> SourceFile:
    """Return one file of this machine."""
    try:
        state = name.stat()
    except OSError as error:
        if size is not None:
            raise _lost_file(str(name)) from None
        raise InputRefused(f"the file cannot be found ({error.strerror}).", where=str(name), cause=MISSING) from None
    if not stat.S_ISREG(state.st_mode):
        raise InputRefused("this is not a regular file.", where=str(name))
    if size is None:
        file_format_of(str(name))
    elif state.st_size != size:
        raise misread("this file of the table doesn't have the size that the log states", where=str(name))
    # By inode: a link gives one file a second name, and its records a second coin.
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
    """Yield the files below a folder, through linked folders too, each folder once."""
    tables.refuse_table_around(folder)
    entered: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        tables.refuse_table_around(Path(place))
        state = os.stat(place)
        # A linked folder may lead into a circle, or to the same files twice.
        if (state.st_dev, state.st_ino) in entered:
            raise InputRefused("a folder is reached twice, through a link.", where=f"{source}: {place}")
        entered.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith((".", "_")))


def _remote_source(url: str, version: int | None) -> Source:
    import fsspec  # for URLs alone: most sources are files of this machine

    refuse_chain(url)
    named, folder = named_metadata(url), False
    found: dict[str, Any] = {}
    try:
        store, path = fsspec.core.url_to_fs(url)
        # What a driver has cached of a listing may be older than the files.
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
        if marks and all(mark.table_format.readable for mark in marks):
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
        file_format_of(name)
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
    marks: Sequence[Mark],
    *,
    named: str | None,
    version: int | None,
) -> Source:
    """Return the live files of a table in a store, compared with one listing of its folder."""
    url = str(store.unstrip_protocol(root)).rstrip("/")
    table = _read_table(TableFolder(root=url), marks, named=named, version=version)
    try:
        listed = store.find(root, detail=True)
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        raise misread(f"it cannot be listed ({type(error).__name__})", where=url) from None
    files = []
    found: set[str] = set()
    for live in table.files:
        name = f"{root}/{live.path}"
        if name in found:
            raise _listed_twice(f"{url}/{live.path}", f"{url}/{live.path}")
        found.add(name)
        if name not in listed:
            raise _lost_file(f"{url}/{live.path}")
        file = _remote_file(store, name, listed[name])
        if file.size != live.size:
            raise misread("this file of the table doesn't have the size that the log states", where=file.path)
        files.append(replace(file, partition=live.partition))
    return Source(files=tuple(files), file_format=PARQUET, table=table)


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


def _listed_twice(name: str, other: str) -> InputRefused:
    return InputRefused(
        f"this is the same file as {other}; a record must not be read twice.",
        where=name,
        remedy="Remove the link, or name each file once.",
    )


def _hive_partitions(paths: Iterable[Sequence[str]], *, source: str) -> list[Partition]:
    """Return the values that folders called `column=value` bear, for each file.

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


def _folders_of_url(url: str) -> Iterator[str]:
    protocol, _, name = url.partition("://")
    while (name := name.rpartition("/")[0]).strip("/"):
        yield f"{protocol}://{name}"


def _refuse_release(folder: str, opened: Callable[[str], BinaryIO], source: str) -> None:
    if _is_release(folder, opened, source):
        raise InputRefused(
            f"the folder {folder} is a published release, and what it holds isn't read as records: beside the records "
            "that it was made of, people would count twice at the price of once.",
            where=source,
            remedy="Name files or a pattern outside of it. If its table is meant, copy that to a folder elsewhere, and "
            "name the copy.",
        )


def _is_release(folder: str, opened: Callable[[str], BinaryIO], source: str) -> bool:
    """Tell whether a folder has a release's certificate; another program's file of this name is none."""
    try:
        with opened(folder) as file:
            return _RELEASE in file.read(_MOST)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        why = getattr(error, "strerror", None) or type(error).__name__
        raise InputRefused(
            f"whether {folder} is a published release cannot be seen: its {MANIFEST} can't be read ({why}).",
            where=source,
            remedy="Let this account read it, or move the records to a folder elsewhere.",
        ) from None


def _opened(folder: str) -> BinaryIO:
    return open_given(Path(folder, MANIFEST))


def _opened_in(store: Any, folder: str) -> BinaryIO:  # noqa: ANN401 - fsspec's own
    name = f"{folder}/{MANIFEST}"
    store.info(name)  # as marks of lake tables are asked for: what an HTTP server keeps to itself isn't there
    opened: BinaryIO = store.open(name, "rb")
    return opened
