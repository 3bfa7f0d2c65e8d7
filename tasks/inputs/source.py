"""The input's files with what their headers or footers say, how they are cut, and what is remembered of them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

import pyarrow as pa

from ...mechanisms.kernel.contributions import ContributionLimit
from ...mechanisms.kernel.errors import InputRefused
from ..readers.column_codes import is_text
from ..readers.file_formats import AskedColumns, Chunk, FileFormat, FileLayout
from ..readers.source_files import (
    SourceFile,
    changes_refused,
    unpacked_name,
)
from ..readers.values import RecordReading
from .lake_tables import LakeTable

MISSING = "source-missing"
"""Cause of a refusal: nothing is there, or it can't be reached; perhaps it comes yet."""


@dataclass(frozen=True)
class DatabaseFormat(ABC):
    """A database whose records are copied into the release's private folder, after its charge, and read there."""

    name: ClassVar[str]
    """As `--json` and the registry have it."""
    shown: ClassVar[str]
    """As people call it."""

    @abstractmethod
    def query(self, source: str, *, table: str | None, query: str | None, where: str) -> DatabaseQuery:
        """Check what a specification reads; nothing is connected to.

        PRIVACY: what is published of a record may depend on this record alone, and a query must neither change anything
        nor fail at a value. The address is never repeated before it is known to hold no password.

        Args:
            source: [data].source.
            table: [data].table.
            query: [data].query.
            where: the specification's table, for messages.

        Raises:
            InputRefused: the address has a password or a setting that isn't known, not one of table and query is
                given, or the query is more than one plain SELECT.
        """

    @abstractmethod
    def layout(self, query: DatabaseQuery, *, columns: Sequence[str], limit: ContributionLimit | None) -> SourceLayout:
        """Return the types of the columns, as a source of one file without records; no record is read.

        Args:
            query: what is read.
            columns: names of the released columns.
            limit: names the column of persons; None where there is none.

        Raises:
            InputRefused: the server can't be reached, there is no such table, the query fails, or a column is missing,
                doubled, or of a type that isn't read.
        """

    @abstractmethod
    def copy(self, query: DatabaseQuery, *, columns: Sequence[str], path: Path) -> None:
        """Copy the records' columns into a Parquet file of its owner alone; durable when this returns.

        PRIVACY: no value, and no message of the server, which may have one, is reported.

        Args:
            query: what is read.
            columns: names of the columns that are read; no others are copied.
            path: the file; its folder is made, and must not be there.

        Raises:
            ReleaseFailed: the server can't be reached any more, ends the reading, or the copy can't be written.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseQuery:
    """The records of a database.

    Args:
        address: the server's URL; it holds no password.
        named: what it reads, for messages: "table visits", or "query".
    """

    address: str
    select: str
    named: str
    read_by: DatabaseFormat

    @property
    def where(self) -> str:
        """Address and table, for messages."""
        return f"{self.address}, {self.named}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The input's files, ordered by path; the place in `files` is the file's number in the sampling.

    Args:
        files: at least one, no file twice.
        file_format: the format of all of them.
        table: the version of a lake table that they are; None where files were named.
        query: what a database was asked for, of which the file is the private copy; None elsewhere.
    """

    files: tuple[SourceFile, ...]
    file_format: FileFormat
    table: LakeTable | None = None
    query: DatabaseQuery | None = None

    @property
    def version(self) -> int | None:
        """Number of the table's version, or id of its snapshot; None where files were named."""
        return None if self.table is None else self.table.version


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLayout:
    """A source with what its headers or footers say."""

    source: Source
    layouts: tuple[FileLayout, ...]

    @property
    def records(self) -> int | None:
        """Records in all by the footers; None for CSV, which has to be read for that, and for what isn't copied yet."""
        counts = [layout.records for layout in self.layouts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) and not self._uncopied else None

    @property
    def _uncopied(self) -> bool:
        return self.source.query is not None and not any(file.size for file in self.source.files)

    @property
    def without_records(self) -> bool:
        """Tell whether sizes and footers alone say that there are no records; compressed files don't say it."""
        return not self._uncopied and all(layout.empty for layout in self.layouts)

    @property
    def n_bytes(self) -> int:
        """Return bytes of all files; 0 where some are compressed, so that how many they have is not known."""
        compressed = any(unpacked_name(file.path)[1] for file in self.source.files)
        return 0 if compressed else sum(file.size for file in self.source.files)


def check_metadata(source: Source, *, columns: Sequence[str], reading: RecordReading) -> SourceLayout:
    """Check that every file has the released columns, by CSV headers or Parquet footers alone.

    A column that is a partition's is not looked for in the file, and may not be there too, where folders bear it: which
    of the two is meant can't be told.

    PRIVACY: this runs before the charge, so it must not depend on a record.

    Raises:
        InputRefused: names the file and, where there is one, the column.
    """
    with changes_refused():
        return _checked_metadata(source, columns=columns, reading=reading)


def _checked_metadata(source: Source, *, columns: Sequence[str], reading: RecordReading) -> SourceLayout:
    table = source.table
    if table is not None:
        table.require(columns)
    partition_columns = [name for name, _ in source.files[0].partition if name in columns]
    stored = [name for name in columns if name not in partition_columns]
    asked = AskedColumns(
        names=stored,
        reading=reading,
        partition_columns=partition_columns if table is None else (),
        field_ids={} if table is None else table.field_ids,
    )
    layouts = (source.file_format.layout(file, asked) for file in source.files)
    types = {} if table is None else table.partition_types
    return SourceLayout(
        source=source, layouts=tuple(_with_partition(layout, columns, stored, types) for layout in layouts)
    )


def _with_partition(
    layout: FileLayout, columns: Sequence[str], stored: Sequence[str], types: Mapping[str, pa.DataType | None]
) -> FileLayout:
    """Return a layout with the types of all released columns, where it has types; folders bear texts."""
    if layout.types is None:
        return layout
    own = dict(zip(stored, layout.types, strict=True))
    return replace(layout, types=tuple(own.get(name) or types.get(name) or pa.string() for name in columns))


def layout_for_other_machines(layout: SourceLayout) -> SourceLayout:
    """Return a layout whose files are known by what all machines see of them: no numbers of file systems."""
    files = tuple(replace(file, device=None) for file in layout.source.files)
    return replace(layout, source=replace(layout.source, files=files))


def manifest_bytes(source: Source) -> bytes:
    """Return canonical bytes of (path, size, version) of every file: equal only for an unchanged input.

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
    """Return canonical bytes of what was delivered when: equal only where no file was written since.

    PRIVACY: names, times and a table's version alone, no size and no digest: what is decided by them shows in public
    and must not follow from a record (docs/decisions/0025-deliveries.md). It is kept as `manifest_bytes` is.

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
        [PurePosixPath(file.path).name, file.size, list(layout.layouts[place].outline)]
        for place, file in enumerate(layout.source.files)
    ]
    return json.dumps({"kind": "source-metadata/1", "files": rows}, separators=(",", ":")).encode("ascii")


def _query_bytes(query: DatabaseQuery) -> bytes:
    return json.dumps({"kind": "database/1", "asked": [query.address, query.select]}).encode("ascii")


def plan_chunks(layout: SourceLayout) -> tuple[Chunk, ...]:
    """Cut the input into chunks, as its format does.

    INVARIANT: the cut depends on the files alone, never on the machine, the workers, or a setting, since a
    chunk's identity decides its coins.
    """
    files = zip(layout.source.files, layout.layouts, strict=True)
    return tuple(
        chunk
        for number, (file, part) in enumerate(files)
        for chunk in part.chunks(file, number, layout.source.file_format)
    )


def id_class(type_: pa.DataType) -> str | None:
    """Return what ids of a type are, "text" or "integer"; None where it can't name a person.

    A floating-point number can't: NaN is unlike itself, and large whole numbers are equal that were not.
    """
    if pa.types.is_dictionary(type_):
        return id_class(type_.value_type)
    if is_text(type_):
        return "text"
    return "integer" if pa.types.is_integer(type_) else None


def with_person_column(
    source: Source, *, columns: Sequence[str], reading: RecordReading, limit: ContributionLimit
) -> SourceLayout:
    """Return the files of a source with the released columns and, as the last, the one that names persons.

    Raises:
        InputRefused: a file lacks the column, or has it in a type that names nobody or in another one than the first;
            or folders or partitions have it.
    """
    key = "[unit].by" if limit.together else f"[data].{limit.unit}"
    if any(limit.column == name for name, _ in source.files[0].partition):
        raise InputRefused(
            f"the column {limit.column!r} is in no file: folders or the table's partitions have it.",
            where=key,
            remedy="Store the ids in the files.",
        )
    try:
        layout = check_metadata(source, columns=(*columns, limit.column), reading=reading)
    except InputRefused as refusal:
        raise InputRefused(
            refusal.what, where=refusal.where, remedy=f"Check {key}: it names the column of the {limit.unit}s' ids."
        ) from None
    first: tuple[str, str] | None = None
    for file, part in zip(source.files, layout.layouts, strict=True):
        if part.types is None:
            continue
        type_ = part.types[-1]
        found = id_class(type_)
        if found is None:
            raise InputRefused(
                f"the column {limit.column!r} has the type {type_}, by which no {limit.unit} can be told: "
                "a missing number is unlike itself, and large numbers run together.",
                where=file.path,
                remedy="Store the ids as texts or integers (pandas: astype('Int64')).",
            )
        if first is None:
            first = found, file.path
        elif found != first[0]:
            raise InputRefused(
                f"the column {limit.column!r} holds ids as {_named(found)} here, and as {_named(first[0])} in "
                f"{first[1]}: one {limit.unit} could have two ids.",
                where=file.path,
                remedy="Store the ids in one type in all files.",
            )
    return layout


def _named(found: str) -> str:
    return "texts" if found == "text" else "integers"
