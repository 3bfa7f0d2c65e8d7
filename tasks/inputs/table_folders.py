"""Folders that are a lake table, or lie in one, by what stands in them; sources in such folders are refused.

A lake table is a log of which files, and which records of them, are the table. The files that it has replaced or
deleted from stay in the folder, so reading all files publishes deleted people, and gives a person who was updated
several records at the price of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from ...mechanisms.kernel.errors import InputRefused
from .lake_tables import TableFormat
from .source_formats import table_formats

Found = TypeVar("Found")


class Mark(NamedTuple):
    """A name in a folder that tells that the folder is a lake table, or a partition of one."""

    table_format: TableFormat
    name: str


def _marks_of(
    *, there: Callable[[str], bool], names: Callable[[str], Iterable[str]], partitions: bool
) -> Iterator[Mark]:
    """Yield what a folder has of the marks of all formats."""
    listed: dict[str, list[str]] = {}
    for table_format in table_formats():
        for mark in table_format.marks + (table_format.partition_marks if partitions else ()):
            folder, below, pattern = mark.rpartition("/")
            if not below:
                if there(mark):
                    yield Mark(table_format, mark)
                continue
            if folder not in listed:
                listed[folder] = list(names(folder))
            yield from (Mark(table_format, f"{folder}/{name}") for name in listed[folder] if fnmatchcase(name, pattern))


def named_metadata(path: str) -> str | None:
    """Return the name of a table's metadata file; None where a path names another thing."""
    tail = "/".join(path.split("/")[-2:])
    marks = (mark for table_format in table_formats() for mark in table_format.marks if "/" in mark)
    return path.rpartition("/")[2] if any(fnmatchcase(tail, mark) for mark in marks) else None


class LocalFolders:
    """Folders of this machine, each looked at once for what tells that it is a lake table."""

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
        for mark in self.marks(folder):
            raise _refusal(self._source, folder, mark)
        self._passed.add(folder)

    def marks(self, folder: str) -> list[Mark]:
        """Return what tells that a folder is a table; nothing where it is none.

        Raises:
            InputRefused: that cannot be seen.
        """
        try:
            return list(
                _marks_of(
                    there=lambda name: _found(lambda: bool(os.lstat(os.path.join(folder, name))), False),
                    names=lambda name: _found(lambda: os.listdir(os.path.join(folder, name)), []),
                    partitions=True,
                )
            )
        except OSError as error:
            raise _unseen(self._source, folder, error) from None

    def refuse_table_around(self, path: Path) -> None:
        """Refuse a file or folder that lies in a table, at any depth, by its name or by what its links lead to.

        Raises:
            InputRefused: it does, or that cannot be seen.
        """
        # Both names: a link may hide that the file lies in a table, or the table's folder may itself be reached by a
        # link.
        for place in {os.path.abspath(path), os.path.realpath(path)}:
            for folder in (place, *map(str, Path(place).parents)):
                self.refuse_table(folder)


def refuse_stored_tables(store: Any, *, files: Collection[str], everything: bool, source: str) -> None:  # noqa: ANN401
    """Refuse objects that lie in a table.

    However many they are, at most one listing is asked for, of the folder that holds them all, and three questions for
    that folder and for each above it.

    Args:
        everything: whether these are all objects of a folder, so that no listing is needed.

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
        for table, mark in _marks(name, below=folder):
            if table in read:
                raise _refusal(source, table, mark)
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
    for mark in stored_marks(store, folder, source=source):
        raise _refusal(source, folder, mark)


def stored_marks(store: Any, folder: str, *, source: str) -> list[Mark]:  # noqa: ANN401
    """As `LocalFolders.marks`, of a folder in a store, where marks of partitions would be a question more.

    Raises:
        InputRefused: that cannot be seen.
    """
    try:
        return list(
            _marks_of(
                there=lambda name: _found(lambda: bool(store.info(f"{folder}/{name}")), False),
                names=lambda name: map(_last_part, _found(lambda: store.ls(f"{folder}/{name}", detail=False), [])),
                partitions=False,
            )
        )
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        raise _unseen(source, folder, error) from None


def _common_folder(folders: Collection[str]) -> str:
    """Return the deepest folder that all of them are or lie in; `os.path.commonpath` would spoil https://."""
    first, last = min(parts := [folder.split("/") for folder in folders]), max(parts)
    same = [one for one, other in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))]
    return "/".join(same)


def _marks(name: str, *, below: str) -> Iterator[tuple[str, Mark]]:
    """Yield what an object's name tells of tables below a folder: the table's folder, and by what."""
    parts = name.removeprefix(below).strip("/").split("/")
    for place, part in enumerate(parts):
        table, last = "/".join([below.rstrip("/"), *parts[:place]]), "/".join(parts[place:])
        for table_format in table_formats():
            for mark in table_format.marks + table_format.partition_marks:
                if part == mark or ("/" in mark and place + 2 == len(parts) and fnmatchcase(last, mark)):
                    yield table, Mark(table_format, last if "/" in mark else part)
        if part.startswith((".", "_")):
            return


def _folders_around(name: str) -> Iterator[str]:
    """Yield the folders that an object lies in, the nearest first; the root only where names begin with it."""
    folder = name.rstrip("/")
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        if folder.endswith(":/"):  # https://host: what remains is no folder
            return
        yield folder


def _last_part(path: str) -> str:
    return PurePosixPath(path).name


def _found(look: Callable[[], Found], otherwise: Found) -> Found:
    """Return what a look finds, or something else where nothing is there; what can't be asked is no answer."""
    try:
        return look()
    except (FileNotFoundError, NotADirectoryError):
        return otherwise


def _refusal(source: str, folder: str, mark: Mark) -> InputRefused:
    name = mark.table_format.name
    return InputRefused(
        f"the folder {folder} belongs to a table of {name} (it has {mark.name}). Such a folder keeps files of records "
        "that the table has deleted or replaced, so a person who isn't in the table would be read, or one person more "
        "than once.",
        where=source,
        remedy=("Name the table's own folder, whose live files are read. Or: " if mark.table_format.readable else "")
        + f"Write the table's present records to Parquet, with a program that reads {name} and into a folder outside "
        "the table, and name that. docs/starting-from-a-file.md has a script to copy.",
    )


def _unseen(source: str, folder: str, error: Exception) -> InputRefused:
    why = getattr(error, "strerror", None) or type(error).__name__
    return InputRefused(
        f"whether {folder} is a table of Delta Lake, Iceberg or Hudi cannot be seen ({why}); the "
        "files of such a table aren't its records.",
        where=source,
        remedy="Let this account list the folder, or at least look for _delta_log, .hoodie and metadata in it, or move "
        "the files to where it may.",
    )
