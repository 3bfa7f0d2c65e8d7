"""The ledger's tables as the migrations make them: cells of their column's type, and a database held against all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Dialect, Text, text, type_coerce
from sqlalchemy.exc import DatabaseError
from sqlalchemy.types import TypeDecorator

from .opening import SCHEMA_REVISION, VERSION_TABLE


class DamagedCell(TypeError):
    """A cell holds nothing, or something of another type than its column: SQLite gives whatever is in a file."""


class _Words(TypeDecorator[str]):
    """Text, and nothing else, whatever the file holds."""

    impl = Text
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> str:  # noqa: ARG002 - SQLAlchemy's signature
        return value if isinstance(value, str) else _damaged()


class _Whole(TypeDecorator[int]):
    """A whole number, and nothing else, whatever the file holds."""

    impl = BigInteger
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> int:  # noqa: ARG002 - SQLAlchemy's signature
        return value if isinstance(value, int) else _damaged()


def _damaged() -> NoReturn:
    raise DatabaseError(None, None, DamagedCell("nothing, or something of another type than its column"))


def typed(column: Column[Any]) -> ColumnElement[Any]:
    """Return a column whose cells are read as what it declares; one that holds something else is a database's error."""
    cell: TypeDecorator[Any] = _Words() if isinstance(column.type, Text) else _Whole()
    return type_coerce(column, cell).label(column.name)


OBJECTS = Path(__file__).with_name("objects.json")
"""Dialect → what the migrations make in a database → how it is defined; a test holds both together."""

_SQLITE_OBJECTS = """
SELECT CASE type WHEN 'trigger' THEN 'guard' ELSE type END || ' ' || name, tbl_name || ' ' || COALESCE(sql, '')
FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\'
"""

# Everything in the ledger's schema but what an extension brought. Nothing depends on the schema's name or on the
# server's version: only checks and defaults are given in the server's own words.
_POSTGRESQL_OBJECTS = """
WITH own AS (
    SELECT class.* FROM pg_class AS class WHERE relnamespace = current_schema()::regnamespace AND NOT EXISTS (
        SELECT 1 FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = class.oid AND deptype = 'e'))
SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' WHEN 'S' THEN 'sequence'
        ELSE 'relation' END || ' ' || relname,
    concat_ws(' ', relkind, relpersistence, relrowsecurity, relforcerowsecurity,
        (SELECT string_agg(inhparent::regclass::text, ',') FROM pg_inherits WHERE inhrelid = own.oid),
        (SELECT COUNT(*) FROM pg_inherits WHERE inhparent = own.oid))
FROM own WHERE relkind NOT IN ('i', 'I')
UNION ALL
SELECT 'column ' || relname || '.' || attname,
    concat_ws(' ', attnum, format_type(atttypid, atttypmod), attnotnull, (SELECT collname FROM pg_collation
        WHERE oid = attcollation), attidentity, attgenerated, pg_get_expr(adbin, adrelid))
FROM own JOIN pg_attribute ON attrelid = own.oid LEFT JOIN pg_attrdef ON adrelid = own.oid AND adnum = attnum
WHERE relkind NOT IN ('i', 'I') AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT 'constraint ' || relname || '.' || conname,
    concat_ws(' ', contype, convalidated, condeferrable, condeferred, confupdtype, confdeltype, confmatchtype,
        (SELECT string_agg(attname, ',' ORDER BY place) FROM unnest(conkey) WITH ORDINALITY AS key (number, place)
            JOIN pg_attribute ON attrelid = conrelid AND attnum = number),
        (SELECT relname FROM pg_class WHERE oid = confrelid),
        (SELECT string_agg(attname, ',' ORDER BY place) FROM unnest(confkey) WITH ORDINALITY AS key (number, place)
            JOIN pg_attribute ON attrelid = confrelid AND attnum = number),
        CASE contype WHEN 'c' THEN pg_get_constraintdef(pg_constraint.oid) END)
FROM own JOIN pg_constraint ON conrelid = own.oid WHERE contype <> 'n'
UNION ALL
SELECT 'index ' || own.relname,
    concat_ws(' ', of_table.relname, indisunique, indisprimary, indisexclusion, indimmediate, indisvalid, indisready,
        (SELECT amname FROM pg_am WHERE oid = own.relam), indkey, indpred IS NULL, indexprs IS NULL)
FROM own JOIN pg_index ON indexrelid = own.oid JOIN pg_class AS of_table ON of_table.oid = indrelid
UNION ALL
SELECT 'guard ' || tgname,
    concat_ws(' ', relname, tgtype, tgenabled, proname, pronamespace = relnamespace, tgnargs, tgattr, tgqual IS NULL)
FROM own JOIN pg_trigger ON tgrelid = own.oid JOIN pg_proc ON pg_proc.oid = tgfoid
WHERE NOT tgisinternal AND tgenabled <> 'D'
UNION ALL
SELECT 'switched-off check of a constraint of ' || relname || ' (' || tgname || ')', tgenabled::text
FROM own JOIN pg_trigger ON tgrelid = own.oid WHERE tgisinternal AND tgenabled <> 'O'
UNION ALL
SELECT 'function ' || proname || '(' || pg_get_function_identity_arguments(pg_proc.oid) || ')',
    concat_ws(' ', lanname, prokind, prosecdef, prorettype::regtype, regexp_replace(trim(prosrc), '[[:space:]]+', ' ',
        'g'), CASE WHEN proconfig <> ARRAY['search_path=' || quote_ident(current_schema()) || ', pg_temp']
        THEN array_to_string(proconfig, ',') END)
FROM pg_proc JOIN pg_language ON pg_language.oid = prolang
WHERE pronamespace = current_schema()::regnamespace AND NOT EXISTS (
    SELECT 1 FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = pg_proc.oid AND deptype = 'e')
UNION ALL
SELECT 'rule ' || relname || '.' || rulename, ev_type::text || ' ' || is_instead
FROM own JOIN pg_rewrite ON ev_class = own.oid WHERE relkind = 'r'
UNION ALL
SELECT 'policy ' || relname || '.' || polname, polcmd::text FROM own JOIN pg_policy ON polrelid = own.oid
"""


def database_objects(connection: Connection) -> dict[str, str]:
    """Return what a ledger's database holds and how each object is defined, in the same words wherever it is sound."""
    dialect = connection.dialect.name
    query = _SQLITE_OBJECTS if dialect == "sqlite" else _POSTGRESQL_OBJECTS
    rows = connection.exec_driver_sql(query.replace("%", "%%") if dialect == "postgresql" else query).all()
    objects = {str(name): " ".join(str(definition).split()) for name, definition in rows}
    versions = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE} ORDER BY 1")).scalars()  # noqa: S608
    return {**objects, "schema revision": ", ".join(map(str, versions))}


def schema_differences(connection: Connection) -> Iterator[str]:
    """Give in what a ledger's database differs from what this version makes, one sentence each."""
    made = {**json.loads(OBJECTS.read_bytes())[connection.dialect.name], "schema revision": SCHEMA_REVISION}
    there = database_objects(connection)
    for name in sorted(made.keys() | there.keys()):
        if name not in there:
            yield f"the database's {name} is missing"
        elif name not in made:
            yield f"the database has a {name}, which no ledger has"
        elif there[name] != made[name]:
            yield f"the database's {name} is another one than this version makes"
