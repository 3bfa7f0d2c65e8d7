"""What a Delta Lake or Iceberg table says of one version of itself.

A lake table is a log of which files are the table, so its files are taken from there and never from its folder.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import ClassVar
from urllib.parse import unquote

import pyarrow as pa

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.wording import did_you_mean
from ..readers.source_files import Partition, is_url, open_input

REWRITE = "Write the table's present records to Parquet, into a folder outside the table, and name that."
_ESCAPES = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveFile:
    """One file of a table's version.

    Args:
        path: below the table's folder, as the file is called there.
        partition: values of the columns that the table is partitioned by.
    """

    path: str
    size: int
    partition: Partition = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeTable:
    """A version of a table.

    Args:
        folder: its real path, or its URL.
        table_format: "Delta Lake" or "Iceberg".
        version: number of the version, or id of the snapshot.
        columns: names of all columns, in their order.
        partition_types: of the columns whose values the log has, and the files have not: their types, None for one
            whose values have no text that a hierarchy could map.
        field_ids: by which the files must have their columns; empty where names decide.
        files: that are the table at this version.
    """

    folder: str
    table_format: str
    version: int
    columns: tuple[str, ...]
    partition_types: Mapping[str, pa.DataType | None]
    field_ids: Mapping[str, int]
    files: tuple[LiveFile, ...] = field(repr=False)

    def require(self, columns: Collection[str]) -> None:
        """Refuse columns that the table has not, or whose values cannot be mapped.

        Raises:
            InputRefused: there is one.
        """
        for column in columns:
            if column not in self.columns:
                raise InputRefused(
                    f"there is no column {column!r} in version {self.version} of the table.",
                    where=self.folder,
                    remedy=f"{did_you_mean([column], self.columns)} Check [columns].".strip(),
                )
            if column in self.partition_types and self.partition_types[column] is None:
                raise misread(
                    f"the table is partitioned by the column {column!r}, whose type has no text that is understood",
                    where=self.folder,
                )


class TableFormat(ABC):
    """A format of tables that are many files, of which a log in the table's folder says which are the table now."""

    name: ClassVar[str]
    """As people call it, and as what is remembered of a source has it."""
    marks: ClassVar[tuple[str, ...]]
    """What only a table's folder has: names, or patterns of files in a folder below it."""
    partition_marks: ClassVar[tuple[str, ...]] = ()
    """Names that a folder of some of a table's files has."""
    readable: ClassVar[bool] = True
    """Whether tables are read; others are recognised and refused."""

    @abstractmethod
    def read(self, folder: TableFolder, *, metadata: str | None, version: int | None) -> LakeTable:
        """Return what a version of a table is.

        INVARIANT: whatever isn't understood is refused, since a reader that passes over it publishes records that the
        table has deleted.

        Args:
            folder: the table's.
            metadata: name of the file of `marks` that the source names; None where it names the folder.
            version: number of the version, or id of the snapshot; None is the present one.

        Raises:
            InputRefused: there is no such version, or something isn't understood.
        """


class HudiFormat(TableFormat):
    """Tables of Hudi, which aren't read."""

    name = "Hudi"
    marks = (".hoodie",)
    partition_marks = (".hoodie_partition_metadata",)
    readable = False

    def read(self, folder: TableFolder, *, metadata: str | None, version: int | None) -> LakeTable:
        """Refuse."""
        del metadata, version
        raise misread("tables of Hudi aren't read", where=folder.root)


HUDI = HudiFormat()


@dataclass(frozen=True, kw_only=True, slots=True)
class TableFolder:
    """A table's folder, on this machine or in a store; what is read of it are its log's files alone.

    Args:
        root: the real path, or the URL without a slash at its end.
    """

    root: str

    def location(self, path: str) -> str:
        """Return where a file below the folder lies."""
        return f"{self.root}/{path}"

    def names(self, folder: str) -> list[str]:
        """Return names in a folder below, in no order; none where there is no such folder.

        Raises:
            InputRefused: it cannot be listed.
        """
        place = self.location(folder)
        try:
            if not is_url(self.root):
                return os.listdir(place)
            import fsspec

            store, path = fsspec.core.url_to_fs(place)
            return [PurePosixPath(name).name for name in store.ls(path, detail=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
            raise misread(f"it cannot be listed ({type(error).__name__})", where=place) from None

    def read(self, path: str) -> bytes:
        """Return a file below the folder.

        Raises:
            InputRefused: it cannot be read.
        """
        place = self.location(path)
        try:
            with open_input(place) as file:
                return file.read()
        except Exception as error:  # noqa: BLE001 - as above
            raise misread(f"it cannot be read ({type(error).__name__})", where=place) from None

    def below(self, path: str, *, where: str) -> str:
        """Return a path that a log has, refused where it leads out of the table's folder.

        Args:
            path: as the file is called, with nothing escaped any more.

        Raises:
            InputRefused: it is absolute, has a scheme, goes up, or is no path.
        """
        parts = path.split("/")
        if "\0" in path or "::" in path or any(part in ("", ".", "..") for part in parts):
            raise misread("it names a file that isn't below the table's folder", where=where)
        if not is_url(self.root):
            real = os.path.realpath(self.location(path))
            if not real.startswith(self.root.rstrip("/") + "/"):
                raise misread("it names a file that a link leads out of the table's folder", where=where)
        return path


def misread(what: str, *, where: str, remedy: str = REWRITE) -> InputRefused:
    """Return the refusal of a table that cannot be read as its records are.

    Args:
        what: that is not understood, without a full stop.
    """
    return InputRefused(f"{what}, so it can't be determined which records the table has.", where=where, remedy=remedy)


def unescaped(text: str, *, where: str) -> str:
    """Return a text whose bytes may be written as %XX.

    Raises:
        InputRefused: what follows a % is no byte, or the bytes are not UTF-8.
    """
    try:
        if _ESCAPES.fullmatch(text):
            return unquote(text, errors="strict")
    except UnicodeDecodeError:
        pass
    raise InputRefused(
        "in a name a % is not followed by the two digits of a byte of UTF-8.", where=where, remedy="Rename it."
    )
