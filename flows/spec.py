"""The release specification (TOML): parsed once, here, into a request of frozen values."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..accounting.theory.planning import largest_sampling_rate, least_k
from ..accounting.theory.price import paper_price, price
from ..mechanisms.hierarchy import Hierarchy, ValueHierarchy
from ..mechanisms.intervals import IntervalHierarchy
from ..mechanisms.recoding import GeneralizationMap, MappedColumn
from ..mechanisms.refusal import InputRefused
from ..mechanisms.strongly_safe import StronglySafeRelease
from ..tasks.hierarchy_file import read_hierarchy
from ..tasks.request import MicrodataRequest

__all__ = ["read_spec"]

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


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
    null: list[str] = [""]
    rows_per_person: int = Field(default=1, ge=1)


class _Sampling(_Table):
    rate: Exact = Field(gt=0, lt=1)


class _Suppression(_Table):
    k: int = Field(ge=1, le=10**9)


class _Privacy(_Table):
    delta: Exact = Field(gt=0, lt=1)
    epsilon: Exact | None = Field(default=None, gt=0)


class _Interval(_Table):
    lower: int
    upper: int
    widths: list[int]


class _Column(_Table):
    hierarchy: str | None = None
    values: list[str] | None = None
    interval: _Interval | None = None
    level: int | None = Field(default=None, ge=0)


class _Spec(_Table):
    release: _Release
    data: _Data
    sampling: _Sampling | None = None
    suppression: _Suppression | None = None
    privacy: _Privacy
    columns: dict[str, _Column] = Field(min_length=1)


def read_spec(path: Path, *, output: Path | None, releases: int = 1) -> MicrodataRequest:
    """Read and check a specification and the hierarchies that it names; no record is touched.

    Args:
        path: the TOML file; relative paths in it start from its folder.
        output: replaces [release].output, already relative to the working folder; None keeps the specification's.
        releases: how many releases of it δ and the price are for; more than one fixes both k and rate.

    Raises:
        InputRefused: anything that is wrong, with file and key or line.
    """
    spec = _parse(path)
    base = path.resolve().parent
    if spec.data.separator in '"\r\n\0' or not spec.data.separator.isascii():
        raise InputRefused(
            "the separator must be one ASCII character other than a quote or a line end.",
            where=f"{path}: [data].separator",
        )
    if not LABEL.fullmatch(spec.release.name):
        raise InputRefused(
            "a release's name is 1 to 100 letters, digits, dots, dashes and underscores.",
            where=f"{path}: [release].name",
        )
    rows_per_person = spec.data.rows_per_person
    if (releases > 1 or rows_per_person > 1) and (spec.sampling is None or spec.suppression is None):
        who = "a series fixes" if releases > 1 else "a release with several records of a person names"
        raise InputRefused(
            f"{who} both k and rate, and one of them is missing.",
            where=f"{path}: {'[sampling].rate' if spec.sampling is None else '[suppression].k'}",
            remedy="`crowdblend plan --releases` finds the one that is missing." if releases > 1 else "Give both.",
        )
    mechanism = _mechanism(path, spec)
    charged = price(mechanism, delta=spec.privacy.delta, releases=releases, rows_per_person=rows_per_person)
    together = "" if releases == 1 else f" for {releases} releases"
    if spec.privacy.epsilon is not None and charged.epsilon > spec.privacy.epsilon:
        raise InputRefused(
            f"k = {mechanism.k} and rate = {mechanism.sampling_rate} cost ε = {charged.epsilon}{together} at "
            f"δ = {charged.delta}, more than the ε = {spec.privacy.epsilon} asked for.",
            where=f"{path}: [privacy].epsilon",
            remedy="Raise k, lower the rate, or leave one of them out: it follows from ε and δ.",
        )
    return MicrodataRequest(
        label=spec.release.name,
        form=spec.release.form,
        file_format=spec.release.format,
        output=_output(path, spec, base, output),
        dataset=spec.data.dataset,
        source=spec.data.source,
        base=base,
        separator=spec.data.separator,
        null_values=tuple(sorted(set(spec.data.null))),
        mechanism=mechanism,
        price=charged,
        paper_price=paper_price(
            mechanism, delta=spec.privacy.delta, releases=releases, rows_per_person=rows_per_person
        ),
        map=_map(path, spec, base),
    )


def _parse(path: Path) -> _Spec:
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
    if "selection" in tables:
        raise InputRefused(
            "choosing the map by the exponential mechanism is not in this version.",
            where=f"{path}: [selection]",
            remedy="Give every column a fixed level.",
        )
    try:
        return _Spec.model_validate(tables)
    except ValidationError as error:
        _refuse_first(path, error)


def _refuse_first(path: Path, error: ValidationError) -> NoReturn:
    """Turn the first of pydantic's findings into a refusal that names file and key."""
    finding: Any = error.errors(include_url=False, include_context=False)[0]
    *tables, key = [str(part) for part in finding["loc"]]
    where = f"{path}: [{'.'.join(tables)}].{key}" if tables else f"{path}: [{key}]"
    more = error.error_count() - 1
    what = {"missing": "this is required and missing", "extra_forbidden": "there is no such key"}.get(
        finding["type"], str(finding["msg"])
    )
    raise InputRefused(f"{what}.", where=where, remedy=f"{more} more such faults follow." if more else "")


def _mechanism(path: Path, spec: _Spec) -> StronglySafeRelease:
    """The mechanism with its k and rate; one of them may follow from ε and δ."""
    epsilon, delta = spec.privacy.epsilon, spec.privacy.delta
    if spec.sampling is not None and spec.suppression is not None:
        return StronglySafeRelease(k=spec.suppression.k, sampling_rate=spec.sampling.rate)
    if epsilon is None or (spec.sampling is None and spec.suppression is None):
        missing = "[suppression].k" if spec.suppression is None else "[sampling].rate"
        raise InputRefused(
            "this is required and missing.",
            where=f"{path}: {missing}",
            remedy="Give both k and rate, or [privacy].epsilon and one of them.",
        )
    if spec.sampling is not None:
        k = least_k(sampling_rate=spec.sampling.rate, epsilon=epsilon, delta=delta)
        return StronglySafeRelease(k=k, sampling_rate=spec.sampling.rate)
    if spec.suppression is None:
        raise InputRefused("this is required and missing.", where=f"{path}: [suppression].k")
    rate = largest_sampling_rate(k=spec.suppression.k, epsilon=epsilon, delta=delta)
    return StronglySafeRelease(k=spec.suppression.k, sampling_rate=rate)


def _output(path: Path, spec: _Spec, base: Path, output: Path | None) -> Path:
    if output is not None:
        return output.absolute()
    if spec.release.output is None:
        raise InputRefused(
            "no output is named.", where=f"{path}: [release].output", remedy="Name one here or with --output."
        )
    location = spec.release.output.removeprefix("file://")
    if "://" in location:
        raise InputRefused("this version publishes to local folders only.", where=f"{path}: [release].output")
    return (base / location).absolute()


def _map(path: Path, spec: _Spec, base: Path) -> GeneralizationMap:
    mapped = []
    for name, column in spec.columns.items():
        where = f"{path}: [columns.{name}]"
        if name == "count":
            raise InputRefused("a released column can't be called count.", where=where, remedy="Rename it.")
        hierarchy = _hierarchy(where, column, base)
        if column.level is None:
            raise InputRefused("this is required and missing.", where=f"{where}.level")
        if column.level >= hierarchy.levels:
            raise InputRefused(
                f"level {column.level} does not exist; the levels are 0 to {hierarchy.levels - 1}.",
                where=f"{where}.level",
            )
        mapped.append(MappedColumn(name=name, hierarchy=hierarchy, level=column.level))
    return GeneralizationMap(columns=tuple(mapped))


def _hierarchy(where: str, column: _Column, base: Path) -> Hierarchy:
    """The column's declared hierarchy: exactly one of a file, values or intervals."""
    try:
        match (column.hierarchy, column.values, column.interval):
            case (str() as location, None, None):
                return read_hierarchy(location if "://" in location else str(base / location))
            case (None, list() as values, None):
                return ValueHierarchy.from_values(values)
            case (None, None, _Interval() as interval):
                return IntervalHierarchy(lower=interval.lower, upper=interval.upper, widths=tuple(interval.widths))
            case _:
                raise InputRefused("name exactly one of hierarchy, values and interval.", where=where)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=where) from None
