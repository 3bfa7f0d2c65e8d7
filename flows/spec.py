"""The release specification (TOML): read once, here, into a request of frozen values; and its JSON Schema."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ..mechanisms.errors import InputRefused
from ..tasks.request import Request
from ..tasks.stages.publish import Output
from .columns import check_declared_values
from .releases.kind import GivenSpec
from .releases.registry import DEFAULT_KIND, KINDS, release_kind
from .spec_keys import key_advice
from .spec_tables import SpecTables, tables_model

__all__ = ["parse_spec", "read_spec", "spec_model", "spec_schema"]

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
EVERY_KIND = frozenset({"release", "data", "cluster"})
"""Tables that every kind of release knows."""
BEFOREHAND = frozenset(
    {"compute", "computed", "condition", "derive", "derived", "expression", "filter", "filters", "formula", "query"}
    | {"rows", "select", "sql", "where"}
)
"""Keys by which people look for what isn't done here: choosing rows, computing columns."""


def read_spec(path: Path, *, output: Output | None, releases: int = 1) -> Request:
    """Read and check a specification and the hierarchies that it names; no record is touched.

    Args:
        path: the TOML file; relative paths in it start from its folder.
        output: replaces [release].output; None keeps the specification's.
        releases: how many releases of it δ and the price are for; more than one fixes both k and rate.

    Raises:
        InputRefused: anything that is wrong, with file and key or line.
    """
    tables = parse_spec(path)
    name = _kind_of(path, tables)
    kind = release_kind(name)
    own = None if kind.model is None else getattr(tables, name)
    _check_data(path, tables)
    _check_sampling(path, tables, unequal_rates=kind.unequal_rates(own))
    if releases > 1 and not kind.series:
        raise InputRefused(
            "a series is of microdata or of deletion releases.",
            where=f"{path}: [{name}]",
            remedy="Charge each release for itself.",
        )
    given = GivenSpec(path=path, tables=tables, own=own, base=path.resolve().parent, output=output, releases=releases)
    request = kind.request(given)
    check_declared_values(path, request.source_columns, request.reading)
    return request


def parse_spec(path: Path) -> SpecTables:
    """Read a specification's tables; each value is checked by itself.

    Raises:
        InputRefused: it can't be read, is no TOML, or a value is wrong; with file and key.
    """
    try:
        tables = tomllib.loads(path.read_bytes().decode("utf-8-sig"), parse_float=Decimal)
    except OSError as error:
        raise InputRefused(
            f"the specification can't be read ({error.strerror}).", where=str(path), remedy="Check the path."
        ) from None
    except UnicodeDecodeError:
        raise InputRefused("the specification is not UTF-8 text.", where=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise InputRefused(f"this is not TOML: {error}.", where=str(path)) from None
    try:
        return spec_model(name for name in KINDS if name in tables).model_validate(tables)
    except ValidationError as error:
        _refuse_first(path, error)


def spec_model(kinds: Iterable[str] = tuple(KINDS)) -> type[SpecTables]:
    """The model of a specification that may have the tables of these kinds; of all, where none are named.

    Args:
        kinds: names of kinds, which are loaded.
    """
    models = {name: release_kind(name).model for name in kinds}
    return tables_model({name: model for name, model in models.items() if model is not None})


def _kind_of(path: Path, tables: SpecTables) -> str:
    """What a specification asks for.

    INVARIANT: a table that the kind doesn't know is never passed over, since somebody has written it for a protection.

    Raises:
        InputRefused: tables of several kinds, a table that the kind doesn't know, or a form of something else than
            microdata.
    """
    given = [name for name in type(tables).model_fields if name in tables.model_fields_set]
    kinds = [name for name in given if name in KINDS]
    name = kinds[0] if kinds else DEFAULT_KIND
    for table in given:
        if table not in EVERY_KIND | release_kind(name).allows | set(kinds[:1]):
            other = f"[{name}]" if kinds else "a release of microdata"
            raise InputRefused(
                f"this table and {other} exclude each other.", where=f"{path}: [{table}]", remedy="Remove one of them."
            )
    if kinds and not release_kind(name).forms and "form" in tables.release.model_fields_set:
        raise InputRefused(
            f"a form is of microdata or of [deletion], and [{name}] has its own.",
            where=f"{path}: [release].form",
            remedy="Remove it.",
        )
    return name


def _check_data(path: Path, tables: SpecTables) -> None:
    if tables.data.separator in '"\r\n\0' or not tables.data.separator.isascii():
        raise InputRefused(
            "the separator must be one ASCII character other than a quote or a line end.",
            where=f"{path}: [data].separator",
        )
    if not LABEL.fullmatch(tables.release.name):
        raise InputRefused(
            "a release's name is 1 to 100 letters, digits, dots, dashes and underscores.",
            where=f"{path}: [release].name",
        )


def _check_sampling(path: Path, tables: SpecTables, *, unequal_rates: bool) -> None:
    """Whether [sampling] says one thing: one rate for all, a column of rates, or how a sample was drawn."""
    table = tables.sampling
    if table is None:
        return
    where = f"{path}: [sampling]"
    if (table.column is None) is not (table.rates is None):
        missing = "rates" if table.rates is None else "column"
        raise InputRefused(
            "a column of rates goes with the rates that are drawn with, and these with it.",
            where=f"{where}.{missing}",
            remedy='Write column = "NAME" and rates = [LOWEST, …, HIGHEST].',
        )
    ways = [name for name in ("rate", "column", "design") if getattr(table, name) is not None]
    if not ways:
        raise InputRefused("this is required and missing.", where=f"{where}.rate")
    if len(ways) > 1:
        raise InputRefused(f"{' and '.join(ways)} exclude each other.", where=f"{where}.{ways[1]}")
    if table.rate is None and not unequal_rates:
        raise InputRefused(
            'unequal rates have a price for a histogram of kind = "suppressed" only.',
            where=f"{where}.{ways[0]}",
            remedy="Write rate = …: a fresh sample with one rate for all, which a sample that was drawn by others can "
            "have too.",
        )


def _refuse_first(path: Path, error: ValidationError) -> NoReturn:
    """Turn one of pydantic's findings into a refusal that names file and key: a wrong key before a missing one."""
    findings: list[Any] = list(error.errors(include_url=False, include_context=False))
    finding = next((one for one in findings if one["type"] == "extra_forbidden"), findings[0])
    *tables, key = [str(part) for part in finding["loc"]]
    where = f"{path}: [{'.'.join(tables)}].{key}" if tables else f"{path}: [{key}]"
    more = len(findings) - 1
    what = {"missing": "this is required and missing", "extra_forbidden": "there is no such key"}.get(
        finding["type"], str(finding["msg"])
    )
    remedy = "" if not more else "1 more fault was found." if more == 1 else f"{more} more faults were found."
    if finding["type"] == "extra_forbidden":
        advice = key_advice(finding["loc"], model=spec_model(), is_table=isinstance(finding["input"], dict))
        remedy = f"{advice} {remedy}"
        if key in BEFOREHAND:
            remedy = "Rows are chosen and columns computed beforehand, record by record: docs/starting-from-a-file.md."
    raise InputRefused(f"{what}.", where=where, remedy=remedy.strip())


LIMITS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
"""Pydantic's names of limits, which it leaves as they are where a validator of ours comes first, and JSON Schema's."""


class _TomlSchema(GenerateJsonSchema):
    """What TOML can say: numbers are numbers and not texts, and what is missing is left out and not null."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """An exact decimal is written as a number."""
        limits = {name: _plain(value) for name, value in schema.items() if name in LIMITS}
        return {"type": "number"} | limits

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """A key without a value isn't written."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """A default that a key may be written with."""
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return inner if default is None else inner | {"default": _plain(default)}


def spec_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a specification: every key's type, limits and default.

    What concerns several keys at once isn't in it: `crowdblend explain` checks that.
    """
    body = spec_model().model_json_schema(schema_generator=_TomlSchema)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **_with_limits(body),
        "title": "crowdblend release specification",
    }


def _with_limits(schema: dict[str, Any]) -> dict[str, Any]:
    renamed: dict[str, Any] = {}
    for name, value in schema.items():
        is_limit = name in LIMITS and isinstance(value, int | float)
        renamed[LIMITS[name] if is_limit else name] = _with_limits(value) if isinstance(value, dict) else value
    return renamed


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
