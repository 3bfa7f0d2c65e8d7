"""The tables of a release specification (TOML) that no kind of release has for itself."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from ..tasks.readers.values import DecimalSign, Encoding, Quoting
from .cluster import ClusterTable

__all__ = [
    "BoundsTable",
    "ColumnTable",
    "DesignTable",
    "Exact",
    "IntervalTable",
    "PrivacyTable",
    "SelectionTable",
    "SpecTable",
    "SpecTables",
    "tables_model",
]


def _exact(value: object) -> object:
    """Take a TOML integer as an exact decimal; floats arrive as decimals already."""
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


Exact = Annotated[Decimal, BeforeValidator(_exact)]


class SpecTable(BaseModel):
    """A table of a specification: every key is known, and none is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Release(SpecTable):
    name: str
    form: Literal["microdata", "counts"] = "microdata"
    format: Literal["parquet", "csv"] = "parquet"
    output: str | None = None


class _Data(SpecTable):
    dataset: str = Field(min_length=1, max_length=200)
    source: str = Field(min_length=1)
    separator: str = Field(default=",", min_length=1, max_length=1)
    quoting: Quoting = "rfc4180"
    encoding: Encoding = "utf-8"
    null: list[str] = [""]
    trim: bool = False
    decimal: DecimalSign = "."
    whole_floats: bool = False
    rows_per_person: int = Field(default=1, ge=1)


class DesignTable(SpecTable):
    """[sampling].design: how a data set that is a sample itself was drawn."""

    lowest: Exact = Field(gt=0, lt=1)
    highest: Exact = Field(gt=0, lt=1)
    largest: Exact | None = Field(default=None, gt=0, lt=1)
    exceptions: int = Field(default=0, ge=0, le=10**9)
    column: str | None = None


class _Sampling(SpecTable):
    """One rate for all; or a column of rates, of which the declared ones are drawn with; or a design."""

    rate: Exact | None = Field(default=None, gt=0, lt=1)
    column: str | None = None
    rates: list[Exact] | None = Field(default=None, min_length=1, max_length=1_000)
    design: DesignTable | None = None


class _Suppression(SpecTable):
    k: int = Field(ge=1, le=10**9)


class PrivacyTable(SpecTable):
    """[privacy]: what may be spent."""

    delta: Exact = Field(gt=0, lt=1)
    epsilon: Exact | None = Field(default=None, gt=0)


class SelectionTable(SpecTable):
    """[selection]: how the map is chosen, instead of a level for each column."""

    epsilon: Exact = Field(gt=0, le=100)
    on: Literal["whole", "fresh-sample"] = "whole"
    rate: Exact | None = Field(default=None, gt=0, lt=1)
    draw: Literal["permute-and-flip", "exponential"] | None = None
    steps: int | None = Field(default=None, ge=1, le=10_000)
    candidates: list[dict[str, int]] | None = Field(default=None, min_length=1)


class IntervalTable(SpecTable):
    """Intervals of whole numbers."""

    lower: int
    upper: int
    widths: list[int]


class BoundsTable(SpecTable):
    """The bounds of a column of numbers that is an axis of a grid."""

    lower: Exact = Field(ge=-(10**15), le=10**15)
    upper: Exact = Field(ge=-(10**15), le=10**15)
    missing: Exact | None = None


class ColumnTable(SpecTable):
    """[columns.NAME]: one released column."""

    hierarchy: str | None = None
    values: list[str] | None = None
    interval: IntervalTable | None = None
    bounds: BoundsTable | None = None
    fold_case: bool = False
    level: int | None = Field(default=None, ge=0)
    levels: list[int] | None = Field(default=None, min_length=1, max_length=100)
    min_level: int | None = Field(default=None, ge=0)
    max_level: int | None = Field(default=None, ge=0)
    weight: Exact | None = Field(default=None, ge=0, le=10**6)


class SpecTables(SpecTable):
    """A whole specification."""

    release: _Release
    data: _Data
    sampling: _Sampling | None = None
    suppression: _Suppression | None = None
    privacy: PrivacyTable | None = None
    selection: SelectionTable | None = None
    columns: dict[str, ColumnTable] = {}
    cluster: ClusterTable | None = None


def tables_model(own: Mapping[str, type[BaseModel]]) -> type[SpecTables]:
    """The model of a specification that may have the tables of some kinds of release besides.

    Args:
        own: name of each such table → its model.
    """
    fields: dict[str, Any] = {name: (field.annotation, field) for name, field in SpecTables.model_fields.items()}
    last = {name: fields.pop(name) for name in ("columns", "cluster")}
    fields |= {name: (model | None, None) for name, model in own.items()}
    made: Any = create_model(SpecTables.__name__, __base__=SpecTable, __doc__=SpecTables.__doc__, **fields, **last)
    return cast("type[SpecTables]", made)
