"""The tables of a release specification (TOML) and their parsing; pydantic ends here."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..mechanisms.neighbours import ADD_REMOVE, Relation
from ..mechanisms.refusal import InputRefused
from ..tasks.record_reading import DecimalSign, Encoding, Quoting
from .cluster_spec import ClusterTable
from .spec_keys import key_advice

__all__ = [
    "AnswerTable",
    "BoundsTable",
    "ColumnTable",
    "DesignTable",
    "HistogramTable",
    "IntervalTable",
    "PointsTable",
    "PrivacyTable",
    "ReportsTable",
    "SelectionTable",
    "SpecTables",
    "parse_spec",
]

BEFOREHAND = frozenset(
    {"compute", "computed", "condition", "derive", "derived", "expression", "filter", "filters", "formula", "query"}
    | {"rows", "select", "sql", "where"}
)
"""Keys by which people look for what isn't done here: choosing rows, computing columns."""

LARGEST_BOUND = 10**9  # so that sums of 4.6 thousand million records fit 64 bits


def _exact(value: object) -> object:
    """Take a TOML integer as an exact decimal; floats arrive as decimals already."""
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


Exact = Annotated[Decimal, BeforeValidator(_exact)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Release(_Table):
    name: str
    form: Literal["microdata", "counts"] = "microdata"
    format: Literal["parquet", "csv"] = "parquet"
    output: str | None = None


class _Data(_Table):
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


class DesignTable(_Table):
    """[sampling].design: how a data set that is a sample itself was drawn."""

    lowest: Exact = Field(gt=0, lt=1)
    highest: Exact = Field(gt=0, lt=1)
    largest: Exact | None = Field(default=None, gt=0, lt=1)
    exceptions: int = Field(default=0, ge=0, le=10**9)
    column: str | None = None


class _Sampling(_Table):
    """One rate for all; or a column of rates, of which the declared ones are drawn with; or a design."""

    rate: Exact | None = Field(default=None, gt=0, lt=1)
    column: str | None = None
    rates: list[Exact] | None = Field(default=None, min_length=1, max_length=1_000)
    design: DesignTable | None = None


class _Suppression(_Table):
    k: int = Field(ge=1, le=10**9)


class PrivacyTable(_Table):
    """[privacy]: what may be spent."""

    delta: Exact = Field(gt=0, lt=1)
    epsilon: Exact | None = Field(default=None, gt=0)


class SelectionTable(_Table):
    """[selection]: how the map is chosen, instead of a level for each column."""

    epsilon: Exact = Field(gt=0, le=100)
    on: Literal["whole", "fresh-sample"] = "whole"
    rate: Exact | None = Field(default=None, gt=0, lt=1)
    draw: Literal["permute-and-flip", "exponential"] | None = None
    steps: int | None = Field(default=None, ge=1, le=10_000)
    candidates: list[dict[str, int]] | None = Field(default=None, min_length=1)


class IntervalTable(_Table):
    """Intervals of whole numbers."""

    lower: int
    upper: int
    widths: list[int]


class BoundsTable(_Table):
    """The bounds of a column of numbers that is an axis of a grid."""

    lower: Exact = Field(ge=-(10**15), le=10**15)
    upper: Exact = Field(ge=-(10**15), le=10**15)
    missing: Exact | None = None


class ColumnTable(_Table):
    """[columns.NAME]: one released column."""

    hierarchy: str | None = None
    values: list[str] | None = None
    interval: IntervalTable | None = None
    bounds: BoundsTable | None = None
    fold_case: bool = False
    level: int | None = Field(default=None, ge=0)
    min_level: int | None = Field(default=None, ge=0)
    max_level: int | None = Field(default=None, ge=0)
    weight: Exact | None = Field(default=None, ge=0, le=10**6)


class HistogramTable(_Table):
    """[histogram]: the counts of every declared cell, instead of the records."""

    kind: str
    noise: str = "two-sided-geometric"
    k: int | None = Field(default=None, ge=1, le=10**9)
    epsilon: Exact | None = Field(default=None, gt=0, le=100)
    horizon: int | None = Field(default=None, ge=2, le=10**6)
    margin: int | None = Field(default=None, ge=1, le=10**6)


class PointsTable(_Table):
    """[points]: synthetic points in the cells of a grid, instead of the records."""

    kind: str
    noise: str = "two-sided-geometric"
    k: int = Field(ge=1, le=10**9)
    epsilon: Exact | None = Field(default=None, gt=0, le=100)
    cells_per_side: int = Field(ge=1, le=10**6)
    confidence: Exact = Field(default=Decimal("0.95"), gt=0, lt=1)


class AnswerTable(_Table):
    """[answer]: one noisy number, or one for each declared group, instead of the records."""

    kind: Literal["count", "sum", "mean"]
    epsilon: Exact = Field(gt=0, le=100)
    noise: str = "two-sided-geometric"
    relation: Relation = ADD_REMOVE
    column: str | None = None
    by: list[str] = []
    lower: int | None = Field(default=None, ge=-LARGEST_BOUND, le=LARGEST_BOUND)
    upper: int | None = Field(default=None, ge=-LARGEST_BOUND, le=LARGEST_BOUND)
    least_records: int | None = Field(default=None, ge=1, le=10**12)
    missing: int | None = None
    confidence: Exact = Field(default=Decimal("0.95"), gt=0, lt=1)


class _BloomTable(_Table):
    bits: int
    hashes: int
    seed: str


class ReportsTable(_Table):
    """[reports]: estimates from reports that devices have randomized, instead of the records."""

    kind: str
    epsilon: Exact | None = Field(default=None, gt=0, le=40)
    hashes: int | None = None
    bits: int | None = None
    seed: str | None = None
    flip_probability: Exact | None = None
    values: list[str] | None = None
    questions: list[str] | None = None
    bloom: _BloomTable | None = None
    least_people: int | None = Field(default=None, ge=1, le=10**12)
    confidence: Exact = Field(default=Decimal("0.95"), gt=0, lt=1)


class SpecTables(_Table):
    """A whole specification."""

    release: _Release
    data: _Data
    sampling: _Sampling | None = None
    suppression: _Suppression | None = None
    privacy: PrivacyTable | None = None
    selection: SelectionTable | None = None
    histogram: HistogramTable | None = None
    points: PointsTable | None = None
    answer: AnswerTable | None = None
    reports: ReportsTable | None = None
    columns: dict[str, ColumnTable] = {}
    cluster: ClusterTable | None = None


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
        return SpecTables.model_validate(tables)
    except ValidationError as error:
        _refuse_first(path, error)


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
        remedy = f"{key_advice(finding['loc'], model=SpecTables, is_table=isinstance(finding['input'], dict))} {remedy}"
        if key in BEFOREHAND:
            remedy = "Rows are chosen and columns computed beforehand, record by record: docs/starting-from-a-file.md."
    raise InputRefused(f"{what}.", where=where, remedy=remedy.strip())
