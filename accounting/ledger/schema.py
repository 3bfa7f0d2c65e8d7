"""The ledger's tables as this version reads and writes them; the migrations create them with their guards."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, Table, Text, UniqueConstraint

__all__ = [
    "DERIVED_TABLES",
    "GUARDS",
    "METADATA",
    "SCHEMA_REVISION",
    "VERSION_TABLE",
    "account",
    "dataset",
    "entry",
    "release",
    "release_stage",
    "sample",
    "series",
    "series_release",
    "survey_use",
]

SCHEMA_REVISION = "0002"
VERSION_TABLE = "ledger_version"
METADATA = MetaData()

PLACE = BigInteger().with_variant(Integer(), "sqlite")


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
    Column("previous", Text, nullable=False, unique=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
)
dataset = Table(
    "dataset",
    METADATA,
    Column("name", Text, primary_key=True),
    _position(),
)
account = Table(
    "account",
    METADATA,
    Column("dataset", Text, ForeignKey("dataset.name"), primary_key=True),
    Column("sequence", PLACE, primary_key=True, autoincrement=False),
    _position(),
    Column("epsilon_spent", Text, nullable=False),
    Column("delta_spent", Text, nullable=False),
    Column("epsilon_budget", Text, nullable=False),
    Column("delta_budget", Text, nullable=False),
)
release = Table(
    "release",
    METADATA,
    Column("release_id", Text, primary_key=True),
    Column("dataset", Text, ForeignKey("dataset.name"), nullable=False, index=True),
    _position(),
)
sample = Table(
    "sample",
    METADATA,
    Column("sample_id", Text, primary_key=True),
    Column("release_id", Text, ForeignKey("release.release_id"), nullable=False),
    Column("position", PLACE, ForeignKey("entry.position"), nullable=False),
    Column("purpose", Text, nullable=False),
    UniqueConstraint("release_id", "purpose"),
    UniqueConstraint("position", "purpose"),
)
release_stage = Table(
    "release_stage",
    METADATA,
    Column("release_id", Text, ForeignKey("release.release_id"), primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("outcome", Text, nullable=False),
    _position(),
)
survey_use = Table(
    "survey_use",
    METADATA,
    Column("dataset", Text, ForeignKey("dataset.name"), primary_key=True),
    Column("release_id", Text, ForeignKey("release.release_id"), nullable=False, unique=True),
    _position(),
)
series = Table(
    "series",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("dataset", Text, ForeignKey("dataset.name"), nullable=False),
    Column("releases", PLACE, nullable=False),
    _position(),
)
series_release = Table(
    "series_release",
    METADATA,
    Column("series", Text, ForeignKey("series.name"), primary_key=True),
    Column("number", PLACE, primary_key=True, autoincrement=False),
    Column("turn", PLACE, primary_key=True, autoincrement=False),
    Column("release_id", Text, ForeignKey("release.release_id"), nullable=False, unique=True),
    _position(),
)

DERIVED_TABLES = (dataset, account, release, sample, release_stage, survey_use, series, series_release)

ORDERED = frozenset(f"{name}_in_order" for name in ("entry", "account", "sample", "release_stage", "series_release"))

# Triggers that the migrations create, by database; a ledger that lacks one is found by its verification.
GUARDS: dict[str, frozenset[str]] = {
    "sqlite": frozenset(
        f"{table.name}_{guard}"
        for table in METADATA.tables.values()
        for guard in ("no_update", "no_delete", "no_replace")
    )
    | ORDERED,
    "postgresql": frozenset(f"{table.name}_append_only" for table in METADATA.tables.values()) | ORDERED,
}
