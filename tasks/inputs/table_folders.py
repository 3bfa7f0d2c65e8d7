"""Folders that are a lake table, or lie in one, by what stands in them; sources in such folders are refused.

A lake table is a log of which files, and which records of them, are the table. The files that it has replaced or
deleted from stay in the folder, so reading all files publishes deleted people, and gives a person who was updated
several records at the price of one."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ...mechanisms.kernel.errors import InputRefused

if TYPE_CHECKING:
    pass


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
