"""Least privilege on PostgreSQL: a role that appends, a role that looks, and neither may do more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from sqlalchemy import Connection, text

from ...mechanisms.kernel.errors import InputRefused
from ..kernel.field_forms import require_name
from ..kernel.ledger.database import Store, entry, snapshot
from .opening import VERSION_TABLE, open_store

LEDGER_TABLES = (entry.name,)
STATE_TABLES = (snapshot.name,)  # each write replaces its row
# What would let a role change or remove what is written, weaken a guard, or become somebody who can.
TABLE_POWERS = ("UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
ATTRIBUTES = {
    "rolsuper": "is a superuser",
    "rolcreaterole": "can create roles",
    "rolreplication": "can start replication",
    "rolbypassrls": "passes row security",
}
LARGE_OBJECTS = ("lo_creat(integer)", "lo_create(oid)", "lo_from_bytea(oid, bytea)")
OWN_TABLES = "FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
FILE_ROLES = ("pg_write_all_data", "pg_write_server_files", "pg_execute_server_program")


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """Two roles of a PostgreSQL server besides the owner of the tables, who creates and migrates.

    Args:
        writer: runs releases: it selects, and inserts into the ledger's tables.
        auditor: looks: it selects.
    """

    writer: str
    auditor: str

    def __post_init__(self) -> None:
        require_name(self.writer, "writer's role")
        require_name(self.auditor, "auditor's role")
        if self.writer == self.auditor:
            raise ValueError("the writer and the auditor are different roles")


def grant_roles(url: str, roles: Roles, *, apply: bool) -> tuple[str, ...]:
    """Give two roles what they need in a ledger and take the rest from them, in one transaction.

    INVARIANT: the database itself is asked afterwards what the roles may do; more than was meant, such as by the
    membership in another role, and nothing is changed.

    Args:
        url: the ledger's address, as the role that owns its tables.
        roles: they must exist.
        apply: whether to do it; else the statements are only given.

    Returns:
        The statements.

    Raises:
        InputRefused: not a PostgreSQL ledger; a role that is missing or may do more; or not the owner's address.
        ReleaseFailed: the database fails.
    """
    with closing(open_store(url, read_only=False)) as store:
        if store.dialect != "postgresql":
            raise InputRefused(
                "an SQLite file has no roles: whoever can write to the file can do all that SQLite can.",
                where=store.shown,
                remedy="Keep the file its owner's alone, or keep the ledger in PostgreSQL.",
            )
        with store.changing() as connection:
            _require_owner(connection, store)
            _require_roles(connection, roles)
            statements = statements_for(connection, roles)
            if apply:
                for statement in statements:
                    connection.exec_driver_sql(statement)
                # Asked of the server after the grants: a role may have more by a membership that no statement here
                # shows.
                _require_no_more(connection, roles)
    return statements


def statements_for(connection: Connection, roles: Roles) -> tuple[str, ...]:
    """Return what the owner of the tables says to PostgreSQL."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    schema_name, database_name = connection.execute(text("SELECT current_schema(), current_database()")).one()
    schema, database = quote(schema_name), quote(database_name)
    writer, auditor = quote(roles.writer), quote(roles.auditor)
    tables = ", ".join(f"{schema}.{quote(name)}" for name in LEDGER_TABLES)
    state = ", ".join(f"{schema}.{quote(name)}" for name in STATE_TABLES)
    version = f"{schema}.{quote(VERSION_TABLE)}"
    guards = (
        "SELECT DISTINCT proname FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid "
        "WHERE NOT tgisinternal AND pronamespace = current_schema()::regnamespace ORDER BY proname"
    )
    pinned = [
        f"ALTER FUNCTION {schema}.{quote(name)}() SET search_path = {schema}, pg_temp"
        for name in connection.execute(text(guards)).scalars()
    ]
    return (
        f"REVOKE ALL ON DATABASE {database} FROM PUBLIC, {writer}, {auditor}",
        f"REVOKE ALL ON SCHEMA {schema} FROM PUBLIC, {writer}, {auditor}",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC, {writer}, {auditor}",
        f"GRANT CONNECT ON DATABASE {database} TO {writer}, {auditor}",
        f"GRANT USAGE ON SCHEMA {schema} TO {writer}, {auditor}",
        f"GRANT SELECT ON {tables}, {state}, {version} TO {writer}, {auditor}",
        f"GRANT INSERT ON {tables}, {state} TO {writer}",
        f"GRANT UPDATE ON {state} TO {writer}",
        # A guard looks at the ledger's tables, never at others of their names that the session's path finds first.
        *pinned,
    )


def _require_owner(connection: Connection, store: Store) -> None:
    if not connection.execute(text(f"SELECT bool_and(pg_has_role(relowner, 'USAGE')) {OWN_TABLES}")).scalar():
        raise InputRefused(
            "only the role that owns the ledger's tables can say who may use them.",
            where=store.shown,
            remedy="Give the address with the owner's name.",
        )


def _require_roles(connection: Connection, roles: Roles) -> None:
    known = set(connection.execute(text("SELECT rolname FROM pg_roles")).scalars())
    for name in (roles.writer, roles.auditor):
        if name not in known:
            raise InputRefused(
                "the server has no role of this name.",
                where=f"role '{name}'",
                remedy=f'Create it, for example: CREATE ROLE "{name}" LOGIN PASSWORD ...',
            )


def _require_no_more(connection: Connection, roles: Roles) -> None:
    for name, inserts in ((roles.writer, True), (roles.auditor, False)):
        for question, values, what in _excesses(inserts=inserts):
            if connection.execute(text(f"SELECT {question}"), {"role": name, **values}).scalar():
                raise InputRefused(
                    f"this role {what}, whatever is granted here.",
                    where=f"role '{name}'",
                    not_done="Nothing was changed.",
                    remedy="Take that from it first, or use a fresh role.",
                )


def _excesses(*, inserts: bool) -> Iterator[tuple[str, dict[str, str], str]]:
    """Give what a role may not do: the question to the database, its values, and what the role does if it says yes."""
    for attribute, what in ATTRIBUTES.items():
        yield f"{attribute} FROM pg_roles WHERE rolname = :role", {}, what
    owner = f"bool_or(pg_has_role(:role, relowner, 'MEMBER')) {OWN_TABLES}"
    yield owner, {}, "is, or can become, the owner of a table"
    member = "bool_or(pg_has_role(:role, oid, 'MEMBER')) FROM pg_roles WHERE rolname = :other"
    for other in FILE_ROLES:
        yield member, {"other": other}, f"is a member of {other}"
    for function in LARGE_OBJECTS:
        taken = f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC"
        what = f"can create large objects (a superuser takes that away by {taken})"
        yield "has_function_privilege(:role, :function, 'EXECUTE')", {"function": function}, what
    some_columns = "has_any_column_privilege(:role, CAST(:name AS regclass), :power)"
    for table in (*LEDGER_TABLES, *STATE_TABLES, VERSION_TABLE):
        meant = {"INSERT"} if inserts and table != VERSION_TABLE else set()
        meant |= {"UPDATE"} if inserts and table in STATE_TABLES else set()
        for power in TABLE_POWERS:
            if power not in meant:
                may = "has_table_privilege(:role, CAST(:name AS regclass), :power)"
                yield may, {"name": table, "power": power}, f"can {power} {table}"
        for power, what in (("UPDATE", f"can UPDATE columns of {table}"), ("INSERT", f"can INSERT INTO {table}")):
            if power not in meant:
                yield some_columns, {"name": table, "power": power}, what
    schema = "has_schema_privilege(:role, current_schema(), 'CREATE')"
    yield schema, {}, "can create tables in the ledger's schema"
    for power in ("CREATE", "TEMPORARY"):
        database = "has_database_privilege(:role, current_database(), :power)"
        yield database, {"power": power}, f"has {power} on the database"
