"""What is read of a database: an address that holds no password, and one SELECT that treats each record by itself."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ...mechanisms.kernel.errors import InputRefused

if TYPE_CHECKING:
    pass

EXTRA = 'Install them: pip install "crowdblend[database]".'
_HOST = r"(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_ADDRESS = re.compile(
    rf"postgres(?:ql)?://(?:[^:@/?#\s]+@)?{_HOST}(?:,{_HOST})*(?:/[^:@/?#\s]*)?(?:\?(?P<settings>[^@#\s]*))?"
)
_SETTINGS = {
    "channel_binding",
    "connect_timeout",
    "host",
    "port",
    "require_auth",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "user",
}
"""What an address may set; no password, and nothing that changes how statements are run."""
_WAIT = "connect_timeout"
_WAIT_SECONDS = 10
_CLAUSES = {"expressions", "from_", "where"}
_TABLE_PARTS = {"this", "db", "catalog", "alias", "only"}
_TEXT_TYPES = {"TEXT"}


def database_query(source: str, *, table: str | None, query: str | None, where: str) -> tuple[str, str]:
    """Check what a specification reads of a database; nothing is connected to.

    PRIVACY: the address is never repeated before it is known to hold no password.

    Returns:
        One SELECT, as it is run; and what it reads, for messages: "table visits", or "query".

    Raises:
        InputRefused: the address has a password or a setting that isn't known, not one of table and query is given, or
            the query is not one plain SELECT.
    """
    address = _ADDRESS.fullmatch(source)
    if address is None:
        raise InputRefused(
            "this isn't an address of the form postgresql://USER@HOST:PORT/DATABASE, or it holds a password; it is not "
            "shown.",
            where=f"{where}.source",
            remedy="Leave the password out: it is taken from PGPASSFILE, ~/.pgpass or PGPASSWORD.",
        )
    settings = parse_qsl(address["settings"] or "", keep_blank_values=True, separator="&")
    other = sorted({name for name, _ in settings} - _SETTINGS)
    if other:
        raise InputRefused(
            "the address has a setting that it may not have.",
            where=f"{where}.source",
            remedy=f"It may have {', '.join(sorted(_SETTINGS))}. A password is taken from PGPASSFILE, ~/.pgpass or "
            "PGPASSWORD.",
        )
    if (table is None) is (query is None):
        raise InputRefused(
            "of a database a table or a query is read, and exactly one must be named.",
            where=f"{where}.{'table' if table is None else 'query'}",
            remedy='Write table = "NAME", or query = "SELECT … FROM … WHERE …".',
        )
    if table is not None:
        parts = table.split(".")
        if len(parts) > 2 or not all(parts) or "\0" in table:
            raise InputRefused(
                "this is no table's name.", where=f"{where}.table", remedy='Write "NAME" or "SCHEMA.NAME".'
            )
        select = f"SELECT * FROM {'.'.join(map(_quoted, parts))}"  # noqa: S608 - quoted
        return select, f"table {table}"
    try:
        select = _plain_select(str(query), where=f"{where}.query")
    except RecursionError:
        raise _not_plain("it is nested too deeply", f"{where}.query") from None
    return select, "query"


def connection_of(address: str) -> str:
    """Return an address as libpq is given it, which finds the password itself (PGPASSFILE, ~/.pgpass, PGPASSWORD)."""
    mark = "&" if "?" in address else "?"
    waiting = "" if f"{_WAIT}=" in address else f"{_WAIT}={_WAIT_SECONDS}&"
    return f"{address}{mark}{waiting}client_encoding=UTF8"


def select_of_columns(select: str, names: Sequence[str]) -> str:
    """Return the SELECT of some columns of another one."""
    listed = ", ".join(map(_quoted, dict.fromkeys(names)))
    return f"SELECT {listed} FROM ({select}) AS records"  # noqa: S608 - names are quoted, the rest checked


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain_select(query: str, *, where: str) -> str:
    """Return the query as it is run: written anew from what was parsed and checked, without its comments.

    PRIVACY: what is published of a record may depend on this record alone, and a query must neither change anything
    nor fail at a value. So it takes columns of one table and conditions on them, and nothing that looks at several
    records, calls functions of the server or converts to another type than text.

    Raises:
        InputRefused: it does more, or can't be parsed.
    """
    try:
        import sqlglot  # of specifications with a query alone
        from sqlglot import exp
    except ImportError:
        raise InputRefused("the packages that read databases are not installed.", where=where, remedy=EXTRA) from None
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it would repeat the query
    try:
        trees = sqlglot.parse(query, dialect="postgres")
    except sqlglot.errors.SqlglotError:
        raise _not_plain("it can't be parsed as PostgreSQL's SQL", where) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise _not_plain("it is no SELECT, or more than one statement", where)
    select = trees[0]
    clauses = {name for name, value in select.args.items() if value}
    if clauses - _CLAUSES:
        named = ", ".join(sorted(name.strip("_").upper() for name in clauses - _CLAUSES))
        raise _not_plain(f"it has more than columns, one table and conditions ({named})", where)
    table = select.args["from_"].this if "from_" in clauses else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise _not_plain("it doesn't read one table", where)
    # A list of what is allowed, not of what is forbidden: what a later SQL adds is refused until it is understood.
    if {name for name, value in table.args.items() if value} - _TABLE_PARTS:
        raise _not_plain("it has more of its table than the name", where)
    allowed = _allowed_nodes()
    for part in (*select.expressions, *([select.args["where"].this] if "where" in clauses else [])):
        for node in part.walk():
            if type(node) not in allowed or not _total(node):
                raise _not_plain(f"it may not have {type(node).__name__.upper()} here", where)
    # Written anew from the checked tree, so that what runs is what was checked, whatever the parser overlooked.
    return str(select.sql(dialect="postgres", comments=False))


def _allowed_nodes() -> set[type]:
    from sqlglot import exp

    values = {exp.Alias, exp.Boolean, exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Paren, exp.Star}
    conditions = {exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.NullSafeEQ, exp.NullSafeNEQ}
    comparisons = {exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE}
    functions = {exp.Case, exp.If, exp.Coalesce, exp.Lower, exp.Upper, exp.Cast, exp.DataType, exp.Neg}
    return values | conditions | comparisons | functions


def _total(node: Any) -> bool:  # noqa: ANN401 - a node of sqlglot's
    """Tell whether a part of a query looks at one record alone, and has a result whatever this is.

    A column named with its table may be a function of PostgreSQL's: `visits.count` counts the records.
    """
    from sqlglot import exp

    match node:
        case exp.Cast():
            return isinstance(node.this, exp.Literal) or node.to.sql("postgres") in _TEXT_TYPES
        case exp.Neg():
            return isinstance(node.this, exp.Literal)
        case exp.Like():
            pattern = node.expression
            # A pattern that ends in a backslash is an error in PostgreSQL, which would tell of the record it met.
            return isinstance(pattern, exp.Literal) and "\\" not in str(pattern.this)
        case exp.Column():
            return not node.args.get("table")
        case exp.In():
            return not node.args.get("query") and not node.args.get("unnest")
        case _:
            return True


def _not_plain(what: str, where: str) -> InputRefused:
    return InputRefused(
        f"the query is not one plain SELECT: {what}.",
        where=where,
        remedy="Write SELECT columns FROM table WHERE conditions, each of one record: comparisons, AND, OR, NOT, IN, "
        "BETWEEN, LIKE, IS, CASE, COALESCE, LOWER, UPPER and casts to text. Anything else belongs in a view or a file.",
    )
