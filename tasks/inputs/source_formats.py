"""The registry of the formats that records are read in: one object for each, loaded when it is first asked for.

A format of files is a `FileFormat` (tasks/readers/file_formats.py), recognised by `suffixes`, the endings of names, and
opened by `names`, `layout` and `keys`. A format of tables is a `TableFormat` (lake_tables.py), recognised by
`marks`, what lies in a table's folder, and opened by `read`, which gives the files that are the table. A database is a
`DatabaseFormat` (source.py), recognised by the protocol of an address, and opened by `query`, `layout` and `copy`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ...mechanisms.kernel.errors import InputRefused
from ..destinations import refuse_password
from ..readers.source_files import unpacked_name

if TYPE_CHECKING:
    from ..readers.file_formats import FileFormat
    from .lake_tables import TableFormat
    from .source import DatabaseFormat

SOURCE_FORMATS = {
    "files": (
        "..readers.csv_records:CSV",
        "..readers.parquet_records:PARQUET",
        "..readers.statistics_files:STATISTICS",
    ),
    "tables": (".delta_log:DELTA_LAKE", ".iceberg_snapshot:ICEBERG", ".lake_tables:HUDI"),
}
"""Where each format's object is."""
DATABASES = {"postgresql": ".postgresql:POSTGRESQL", "postgres": ".postgresql:POSTGRESQL"}
"""Protocol of an address → where the database's object is."""
PACKED = frozenset({".gz", ".bz2", ".xz", ".zst", ".zip", ".lz4", ".br", ".7z", ".z"})
BOOKS = frozenset({".xls", ".xlsx", ".xlsm", ".xlsb", ".ods"})
PACKAGES = frozenset({".por", ".rda", ".rds", ".sas7bcat"})
FILES_OF_DATABASES = frozenset({".accdb", ".db", ".duckdb", ".mdb", ".sqlite", ".sqlite3"})
FOREIGN_DATABASES = frozenset(
    {"bigquery", "clickhouse", "duckdb", "jdbc", "mssql", "mysql", "odbc", "oracle", "redshift", "snowflake", "sqlite"}
    | {"trino"}
)
"""Of which no records are read."""
WAY = "docs/starting-from-a-file.md has a script to copy."


@cache
def file_formats() -> tuple[FileFormat, ...]:
    """Return the formats of files of records."""
    return tuple(map(_loaded, SOURCE_FORMATS["files"]))


@cache
def table_formats() -> tuple[TableFormat, ...]:
    """Return the formats of tables of many files, also those that are recognised in order to be refused."""
    return tuple(map(_loaded, SOURCE_FORMATS["tables"]))


def _loaded(place: str) -> Any:  # noqa: ANN401 - a format of any kind
    module, _, name = place.partition(":")
    return getattr(import_module(module, __package__), name)


def database_at(address: str) -> DatabaseFormat | None:
    """Return the database that an address is of; None where it is of none that is read."""
    place = DATABASES.get(address.partition(":")[0].lower())
    return None if place is None else _loaded(place)


def shown_format(name: str) -> str:
    """Return what people call the format of files, or the database, of a name."""
    database = database_at(f"{name}:")
    return next((known.shown for known in file_formats() if known.name == name), database.shown if database else name)


def file_format_of(name: str) -> FileFormat:
    """Return the format of a file by its name.

    Raises:
        InputRefused: there is none, or none that is read.
    """
    foreign = foreign_source(name)
    if foreign is not None:
        raise foreign
    unpacked, compression = unpacked_name(name)
    format_of_suffix = {suffix: known for known in file_formats() for suffix in known.suffixes}
    suffix = PurePosixPath(unpacked).suffix.lower()
    known = format_of_suffix.get(suffix) or _added_format(suffix)
    if known is not None and (compression is None or known.packed):
        return known
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in PACKED:
        raise InputRefused(
            f"a compressed file ({suffix}) is read where it is CSV by gzip or zstd, whose name ends in .csv.gz or "
            ".csv.zst.",
            where=name,
            remedy="Unpack the file, or store it as Parquet, which is compressed inside.",
        )
    raise InputRefused(
        f"the file's name ends in none of {', '.join(format_of_suffix)}.",
        where=name,
        remedy="Rename it, or name the right files by a pattern such as folder/*.csv.",
    )


def _added_format(suffix: str) -> FileFormat | None:
    """Return the format that another distribution adds for names of this ending; None where none does."""
    from ...accounting.extensions import load
    from ..readers.file_formats import FileFormat

    added = load("sources", suffix.removeprefix(".")) if suffix else None
    if added is not None and not (isinstance(added, FileFormat) and suffix in added.suffixes):
        raise InputRefused(f"what a distribution adds for {suffix} is no FileFormat of it.", where="crowdblend.sources")
    return added


def foreign_source(location: str) -> InputRefused | None:
    """Return the refusal of a source that some other program must write out first; None where it may be read.

    A spreadsheet has no types and no fixed header, and a query may give other rows at each attempt: a release must
    be able to read the very same records again after a crash. So both are written to Parquet first.

    Raises:
        InputRefused: it is a URL with a password, and none of a database.
    """
    protocol, mark, _ = location.partition("://")
    database = protocol.partition("+")[0].removeprefix("jdbc:").lower()
    suffix = PurePosixPath(location).suffix.lower()
    read = database in DATABASES
    if (mark and (read or database in FOREIGN_DATABASES)) or location.lower().startswith(("jdbc:", "odbc:")):
        # PRIVACY: a database's URL may hold a password; it isn't repeated.
        return InputRefused(
            "a database isn't read here: a release reads one with [data].table or [data].query."
            if read
            else "this database isn't read: after a crash the same records must be read again.",
            where=f"a source of {database or 'a database'}",
            remedy=f"Write the table to Parquet once, and name that file. {WAY}",
        )
    refuse_password(location, where="[data].source")
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
