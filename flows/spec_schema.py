"""The specification's JSON Schema, for editors that complete and check TOML while it is written."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from .spec import spec_model

__all__ = ["spec_schema"]

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
