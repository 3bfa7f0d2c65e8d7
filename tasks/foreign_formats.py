"""Sources that aren't read: spreadsheets, databases and statistics packages, with the way round for each."""

from __future__ import annotations

from pathlib import PurePosixPath

from ..mechanisms.refusal import InputRefused

__all__ = ["foreign_source"]

BOOKS = frozenset({".xls", ".xlsx", ".xlsm", ".xlsb", ".ods"})
PACKAGES = frozenset({".dta", ".por", ".rda", ".rds", ".sas7bdat", ".sav", ".xpt", ".zsav"})
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
        return InputRefused(
            "a database isn't read: after a crash the same records must be read again, and a query may give others.",
            where=f"a source of {database or 'a database'}",
            remedy=f"Write the table to Parquet once, and name that file. {WAY}",
        )
    for suffixes, what in (
        (BOOKS, "a spreadsheet isn't read: its cells have no lasting types."),
        (PACKAGES, "files of statistics packages aren't read."),
        (FILES_OF_DATABASES, "a database's file isn't read."),
    ):
        if suffix in suffixes:
            return InputRefused(
                what, where=location, remedy=f"Write the table to Parquet first, its codes as text. {WAY}"
            )
    return None
