"""The ledger's tables as this version reads and writes them; the migrations create them with their guards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    type_coerce,
)
from sqlalchemy.exc import DatabaseError
from sqlalchemy.types import NULLTYPE, TypeDecorator, TypeEngine

__all__ = [
    "APPEND_ONLY",
    "DERIVED_TABLES",
    "EARLIER_REVISIONS",
    "GUARDS",
    "METADATA",
    "SCHEMA_REVISION",
    "STREAMED",
    "VERSION_TABLE",
    "account",
    "as_stored",
    "dataset",
    "entry",
    "release",
    "release_stage",
    "sample",
    "series",
    "series_release",
    "signed_state",
    "state_node",
    "survey_use",
]

SCHEMA_REVISION = "0003"
EARLIER_REVISIONS: tuple[str, ...] = ()  # those that a migration brings to the present one
VERSION_TABLE = "ledger_version"
METADATA = MetaData()
# For one statement at a time: the same options on the connection would stay with it.
STREAMED: Mapping[str, int] = {"yield_per": 2_000}


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

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else BigInteger())

    def process_result_value(self, value: object, dialect: Dialect) -> int:  # noqa: ARG002 - SQLAlchemy's signature
        return value if isinstance(value, int) else _damaged()


def _damaged() -> NoReturn:
    raise DatabaseError(None, None, DamagedCell("nothing, or something of another type than its column"))


def as_stored(column: Column[Any]) -> ColumnElement[Any]:
    """A column as the file holds it, of whatever type that is: for who looks for damage."""
    return type_coerce(column, NULLTYPE)


WORDS, PLACE = _Words(), _Whole()


def _position(*, primary_key: bool = False) -> Column[int]:
    """The place of the entry that a derived row follows from."""
    return Column(
        "position",
        PLACE,
        ForeignKey("entry.position"),
        nullable=False,
        unique=None if primary_key else True,
        primary_key=primary_key,
    )


entry = Table(
    "entry",
    METADATA,
    Column("position", PLACE, primary_key=True, autoincrement=False),
    Column("previous", WORDS, nullable=False, unique=True),
    Column("hash", WORDS, nullable=False, unique=True),
    Column("kind", WORDS, nullable=False),
    Column("body", WORDS, nullable=False),
)
dataset = Table(
    "dataset",
    METADATA,
    Column("name", WORDS, primary_key=True),
    _position(),
)
account = Table(
    "account",
    METADATA,
    Column("dataset", WORDS, ForeignKey("dataset.name"), primary_key=True),
    Column("sequence", PLACE, primary_key=True, autoincrement=False),
    _position(),
    Column("epsilon_spent", WORDS, nullable=False),
    Column("delta_spent", WORDS, nullable=False),
    Column("epsilon_budget", WORDS, nullable=False),
    Column("delta_budget", WORDS, nullable=False),
)
release = Table(
    "release",
    METADATA,
    Column("release_id", WORDS, primary_key=True),
    Column("dataset", WORDS, ForeignKey("dataset.name"), nullable=False, index=True),
    _position(),
)
sample = Table(
    "sample",
    METADATA,
    Column("sample_id", WORDS, primary_key=True),
    Column("release_id", WORDS, ForeignKey("release.release_id"), nullable=False),
    Column("position", PLACE, ForeignKey("entry.position"), nullable=False),
    Column("purpose", WORDS, nullable=False),
    UniqueConstraint("release_id", "purpose"),
    UniqueConstraint("position", "purpose"),
)
release_stage = Table(
    "release_stage",
    METADATA,
    Column("release_id", WORDS, ForeignKey("release.release_id"), primary_key=True),
    Column("stage", WORDS, primary_key=True),
    Column("outcome", WORDS, nullable=False),
    _position(),
)
survey_use = Table(
    "survey_use",
    METADATA,
    Column("dataset", WORDS, ForeignKey("dataset.name"), primary_key=True),
    Column("release_id", WORDS, ForeignKey("release.release_id"), nullable=False, unique=True),
    _position(),
)
series = Table(
    "series",
    METADATA,
    Column("name", WORDS, primary_key=True),
    Column("dataset", WORDS, ForeignKey("dataset.name"), nullable=False),
    Column("releases", PLACE, nullable=False),
    _position(),
)
series_release = Table(
    "series_release",
    METADATA,
    Column("series", WORDS, ForeignKey("series.name"), primary_key=True),
    Column("number", PLACE, primary_key=True, autoincrement=False),
    Column("turn", PLACE, primary_key=True, autoincrement=False),
    Column("release_id", WORDS, ForeignKey("release.release_id"), nullable=False, unique=True),
    _position(),
)

# What vouches for the rows above: one node of the state's tree, and the signature over its root. Both are replaced by
# each write, and nothing follows from them but refusals.
state_node = Table(
    "state_node",
    METADATA,
    Column("path", WORDS, primary_key=True),
    Column("children", WORDS, nullable=False),
)
signed_state = Table(
    "signed_state",
    METADATA,
    Column("slot", PLACE, primary_key=True, autoincrement=False),
    Column("root", WORDS, nullable=False),
    Column("statement", WORDS, nullable=False),
)

DERIVED_TABLES = (dataset, account, release, sample, release_stage, survey_use, series, series_release)
APPEND_ONLY = (entry, *DERIVED_TABLES)

ORDERED = frozenset(f"{name}_in_order" for name in ("entry", "account", "sample", "release_stage", "series_release"))

# Triggers that the migrations create, by database; a ledger that lacks one is found by its verification.
GUARDS: dict[str, frozenset[str]] = {
    "sqlite": frozenset(
        f"{table.name}_{guard}" for table in APPEND_ONLY for guard in ("no_update", "no_delete", "no_replace")
    )
    | ORDERED,
    "postgresql": frozenset(f"{table.name}_append_only" for table in APPEND_ONLY) | ORDERED,
}
