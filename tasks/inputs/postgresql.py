"""Records of PostgreSQL: the columns' types before the charge, and after it a private copy, read in batches by ADBC.

Both look in a transaction that is read-only and sees one state of the database, whatever is written meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...accounting.kernel.keys.private_files import sync_folder
from ...mechanisms.kernel.contributions import ContributionLimit
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.wording import did_you_mean
from ..readers.parquet_footer import ParquetLayout
from ..readers.parquet_records import PARQUET
from ..readers.source_files import SourceFile
from .database_query import EXTRA, connection_of, database_query, select_of_columns
from .source import MISSING, DatabaseFormat, DatabaseQuery, Source, SourceLayout

_IDS = {"int2", "int4", "int8", "text", "varchar", "bpchar"}
_TYPES = _IDS | {"bool", "date", "float4", "float8", "numeric"}
_BEGIN = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_FAULTS = {
    "42501": "this user may not read it",
    "42703": "it names a column that there isn't",
    "42P01": "there is no such table",
    "3F000": "there is no such schema",
}
_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700


class PostgreSQL(DatabaseFormat):
    """PostgreSQL, read by ADBC in one read-only transaction."""

    name = "postgresql"
    shown = "PostgreSQL"

    def query(self, source: str, *, table: str | None, query: str | None, where: str) -> DatabaseQuery:
        """Take one table, or one SELECT that treats each record by itself."""
        select, named = database_query(source, table=table, query=query, where=where)
        return DatabaseQuery(address=source, select=select, named=named, read_by=self)

    def layout(self, query: DatabaseQuery, *, columns: Sequence[str], limit: ContributionLimit | None) -> SourceLayout:
        """Have the server prepare the query, and begin it without asking for a record."""
        names = (*columns, *(() if limit is None else (limit.column,)))
        with _cursor(query) as cursor:
            types = _column_types(query, _prepared(cursor, query.select, query), names)
            _begun(cursor, select_of_columns(query.select, names), query)
        if limit is not None and types[-1].metadata[b"POSTGRESQL:type"].decode() not in _IDS:
            raise InputRefused(
                f"the column {limit.column!r} has a type by which no {limit.unit} can be told.",
                where=query.where,
                remedy="Store the ids as integers or texts.",
            )
        layout = ParquetLayout(rows=(), read_bytes=(), types=tuple(_stored_type(field.type) for field in types))
        file = SourceFile(path=query.where, size=0, version="", inode=None, device=None)
        source = Source(files=(file,), file_format=PARQUET, query=query)
        return SourceLayout(source=source, layouts=(layout,))

    def copy(self, query: DatabaseQuery, *, columns: Sequence[str], path: Path) -> None:
        """Copy batch by batch; what a copy that was cut off has left is not taken."""
        names = tuple(dict.fromkeys(columns))
        folder, draft = path.parent, path.with_suffix(".draft")
        try:
            folder.mkdir(mode=_PRIVATE_FOLDER)
            with _cursor(query) as cursor:
                fields = _column_types(query, _prepared(cursor, select_of_columns(query.select, names), query), names)
                schema = pa.schema([pa.field(field.name, _stored_type(field.type)) for field in fields])
                # Renamed when it is whole, so that a copy that was cut off is never taken for the records.
                handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
                with os.fdopen(handle, "wb") as file:
                    with pq.ParquetWriter(file, schema) as writer:
                        for batch in _batches(cursor, select_of_columns(query.select, names)):
                            writer.write_batch(_stored(batch, schema))
                    file.flush()
                    os.fsync(file.fileno())
            draft.rename(path)
            for place in (folder, folder.parent):
                sync_folder(place)
        except InputRefused as refusal:  # what would be the caller's mistake before the charge is a failure now
            raise _failed(refusal.what, query) from None
        except OSError as error:
            if error.strerror is not None:
                raise _failed(f"the private copy can't be written ({error.strerror}).", query) from None
            raise _failed("the server ended the reading, or a value can't be read.", query) from None
        except Exception as error:  # noqa: BLE001 - a driver's message may have a value of a record
            raise _failed(f"the server ended the reading ({type(error).__name__}).", query) from None


POSTGRESQL = PostgreSQL()


@contextmanager
def _cursor(query: DatabaseQuery) -> Iterator[Any]:
    """A cursor in a read-only transaction, which is given up when it is left.

    Raises:
        InputRefused: the driver isn't installed, or the server can't be reached.
    """
    try:
        from adbc_driver_postgresql import dbapi  # of databases alone
    except ImportError:
        raise InputRefused(
            "the packages that read databases are not installed.", where=query.where, remedy=EXTRA
        ) from None
    try:
        connection = dbapi.connect(connection_of(query.address), autocommit=False)
    except Exception as error:  # noqa: BLE001 - a driver's message may have more of the settings than is known here
        # The message is searched and never repeated: it may hold settings, or a value of a record.
        login = "authentication" in str(error) or "password" in str(error)
        raise InputRefused(
            "the server refuses the login." if login else "the database can't be reached.",
            where=query.where,
            remedy="Check user and password (PGPASSFILE, ~/.pgpass or PGPASSWORD)."
            if login
            else "Check that the server runs, and the address, the database's name and the user in it.",
            cause=MISSING,
        ) from None
    try:
        with connection.cursor() as cursor:
            cursor.execute(_BEGIN)
            yield cursor
    finally:
        with suppress(Exception):  # a connection that is lost already
            connection.close()


def _prepared(cursor: Any, select: str, query: DatabaseQuery) -> pa.Schema:  # noqa: ANN401
    """Return the columns of a query, which the server prepares and doesn't run."""
    try:
        return cursor.adbc_execute_schema(select)
    except Exception as error:  # noqa: BLE001 - as in `_cursor`
        raise _refused(error, query) from None


def _begun(cursor: Any, select: str, query: DatabaseQuery) -> None:  # noqa: ANN401
    """See that a query may be run, which is more than prepared; no record is asked for."""
    try:
        cursor.execute(f"{select} LIMIT 0")
    except Exception as error:  # noqa: BLE001 - as in `_cursor`
        raise _refused(error, query) from None


def _refused(error: Exception, query: DatabaseQuery) -> InputRefused:
    """By the kind of a server's refusal; its message is not repeated."""
    state = str(getattr(error, "sqlstate", None) or "")
    said = _FAULTS.get(state, f"the server refuses it{f' (SQLSTATE {state})' if state.isalnum() else ''}")
    return InputRefused(
        f"{said}.",
        where=query.where,
        remedy="Check [data].table or [data].query; a table is named as it is stored, with its schema where that "
        "isn't in the search path.",
    )


def _batches(cursor: Any, select: str) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
    cursor.execute(select)
    yield from cursor.fetch_record_batch()


def _column_types(query: DatabaseQuery, schema: pa.Schema, names: Sequence[str]) -> list[pa.Field]:
    """Return the fields of some columns, each there once and of a type that is read."""
    found = []
    for name in names:
        places = schema.get_all_field_indices(name)
        if not places:
            remedy = f"{did_you_mean([name], schema.names)} Check [columns] and [data].".strip()
            raise InputRefused(f"there is no column {name!r}.", where=query.where, remedy=remedy)
        if len(places) > 1:
            raise InputRefused(f"the column {name!r} is there {len(places)} times.", where=query.where)
        field = schema.field(places[0])
        type_ = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode("utf-8", "replace")
        if type_ not in _TYPES and not (type_ and pa.types.is_string(field.type)):
            raise InputRefused(
                f"the column {name!r} has the type {type_ or field.type}, which isn't read.",
                where=query.where,
                remedy=f"Read it as text, by a query with {name}::text AS {name}: its values are as PostgreSQL writes "
                "them.",
            )
        found.append(field)
    return found


def _stored_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column in the copy: PostgreSQL's exact decimals are texts, as they are in CSV."""
    return type_.storage_type if isinstance(type_, pa.ExtensionType) else type_


def _stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [array.storage if isinstance(array, pa.ExtensionArray) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _failed(what: str, query: DatabaseQuery) -> ReleaseFailed:
    return ReleaseFailed(
        what,
        where=query.where,
        remedy="Run again with the same release id: it isn't charged twice, and the records are copied anew.",
    )
