"""A researcher's request for an answer: a small file, read as if its writer meant harm, and made a specification."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, ValidationError

from ..accounting.given_files import read_given
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.wording import refused_together
from .paths import toml_tables
from .releases.answer_release import KIND, AnswerRequest, AskedTable
from .releases.release_kind import GivenSpec
from .spec import PAGE, spec_model, table_faults
from .spec_tables import RULES, BoundsTable, DatesTable, IntervalTable, SpecTable, SpecTables

FORMAT = "crowdblend-request/1"
LARGEST_REQUEST = 1 << 18  # bytes
OWN_PAGE = "docs/asking.md"
MOST_COLUMNS = 50
_DECLARED = ("hierarchy", "values", "interval", "dates", "fold_case")
"""What of a column of the steward's specification says its labels."""
_NOT_OF_ANSWERS = frozenset({"members", "weight", "weight_classes"})
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TAKEN = 12
"""Digits of a digest by which files and releases are told apart."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a text has printable characters alone, and no line break")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]


class RequestTable(SpecTable):
    """[request]: who asks, why, and of which data."""

    format: Literal["crowdblend-request/1"]
    name: str = Field(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")
    asked_by: Name
    purpose: Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_printable)]
    dataset: Name
    release: str | None = Field(default=None, pattern="^[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}$")


class AskedOfData(AskedTable):
    """[answer]: what is asked, as a specification has it."""

    column: Name | None = None
    by: list[Name] = Field(default=[], max_length=MOST_COLUMNS)


class AskedColumn(SpecTable):
    """[columns.NAME]: a column's labels or bounds; or, by their digest, the labels that a release has."""

    values: list[Name] | None = Field(default=None, min_length=1, max_length=10_000)
    interval: IntervalTable | None = None
    dates: DatesTable | None = None
    bounds: BoundsTable | None = None
    hierarchy_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    fold_case: bool = False
    level: int | None = Field(default=None, ge=0, le=100)


class RequestTables(SpecTable):
    """A whole request."""

    request: RequestTable
    answer: AskedOfData
    columns: dict[Name, AskedColumn] = Field(default={}, max_length=MOST_COLUMNS)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestFile:
    """A request that was read.

    Args:
        path: its file.
        sha256: of its bytes, hexadecimal.
        tables: what it says, each value checked by itself.
        written: the same as it is written.
    """

    path: Path
    sha256: str
    tables: RequestTables
    written: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return the name of releases that answer it: its own, and the beginning of its digest."""
        return f"{self.tables.request.name}-{self.sha256[:_TAKEN]}"


def read_request_file(path: Path) -> RequestFile:
    """Read a request; nothing in it is believed, and no file that it could name is opened.

    Raises:
        InputRefused: it can't be read, is too large, is no TOML, or has a key or a value that it can't have.
    """
    try:
        content = read_given(path, most=LARGEST_REQUEST)
    except OSError as error:
        raise InputRefused(f"the request can't be read ({error.strerror}).", where=str(path)) from None
    return parsed_request(content, path)


def parsed_request(content: bytes, path: Path) -> RequestFile:
    """Return what the bytes of a request say; as `read_request_file`."""
    written = toml_tables(content, path, what="the request")
    try:
        tables = RequestTables.model_validate(written)
    except ValidationError as error:
        faults = [
            InputRefused(fault.what, where=fault.where, remedy=fault.remedy.replace(PAGE, OWN_PAGE))
            for fault in table_faults(path, written, error, model=RequestTables)
        ]
        raise refused_together(faults, where=str(path)) from None
    sha256 = hashlib.sha256(content).hexdigest()
    return RequestFile(path=path, sha256=sha256, tables=tables, written=written)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What a steward's specification says of the records that a request asks of.

    Args:
        path: of the specification.
        data: its [data], as it is written.
        columns: its columns, as they are written.
        unit: its [unit], as it is written; None where records are published.
    """

    path: Path
    data: Mapping[str, Any]
    columns: Mapping[str, Any]
    unit: Mapping[str, Any] | None = None


def answering_tables(
    asked: RequestFile, source: Source, *, relation: str, epsilon: Decimal | None
) -> tuple[dict[str, Any], AnswerRequest]:
    """Return the tables of the specification that answers a request, and the release that they ask for.

    Args:
        asked: the request.
        source: where the records lie and how they are read.
        relation: of the data set's budget.
        epsilon: the steward's, instead of the one that the request suggests.

    Raises:
        InputRefused: the request is about another data set, or asks for what can't be answered; with file and key.
    """
    path, own = asked.path, asked.tables
    if own.request.dataset != source.data.get("dataset"):
        raise InputRefused(
            f"the request asks of the data set {own.request.dataset!r}, and {source.path} is of "
            f"{source.data.get('dataset')!r}.",
            where=f"{path}: [request].dataset",
            remedy="Name the specification of that data set with --spec, or have the request written again.",
        )
    tables: dict[str, Any] = {
        "release": {"name": asked.label, "format": "csv", "output": asked.label},
        "data": {key: value for key, value in source.data.items() if key not in _NOT_OF_ANSWERS},
        "answer": {
            **asked.written["answer"],
            "relation": relation,
            "request": asked.sha256,
            **({} if epsilon is None else {"epsilon": epsilon}),
        },
        "columns": {name: _declared(asked, name, source) for name in own.columns},
    }
    if source.unit is not None:
        tables["unit"] = _unit_of(source.unit, tables["columns"])
    request = requested(tables, path=path, base=source.path.resolve().parent)
    labels = {column.name: column.hierarchy for column in request.recoding.columns}
    for name, column in own.columns.items():
        if column.hierarchy_sha256 is not None and labels[name].digest() != column.hierarchy_sha256:
            raise InputRefused(
                f"the labels that the request means are not those that {source.path} declares.",
                where=f"{path}: [columns.{name}].hierarchy_sha256",
                remedy="Name the specification of the release that the request is about with --spec.",
            )
    return tables, request


def requested(tables: Mapping[str, Any], *, path: Path, base: Path) -> AnswerRequest:
    """Return the release that some tables ask for, every parameter checked; faults are those of a request.

    Args:
        path: of the request.
        base: folder that relative paths start from.

    Raises:
        InputRefused: with the request's file and key.
    """
    try:
        model: SpecTables = spec_model([KIND.name]).model_validate(tables)
    except ValidationError as error:
        raise refused_together([*table_faults(path, tables, error)], where=str(path)) from None
    rule = None
    if model.unit is not None:
        from .unit_specs import with_units  # of answers about units alone

        model, rule = with_units(path, model, base=base)
    given = GivenSpec(
        path=path,
        tables=model,
        kind=KIND.name,
        own=model.answer,  # type: ignore[attr-defined] # the model of the kind's table
        base=base,
        unit_rule=rule,
        output=None,
        releases=1,
        recorded=None,
    )
    return cast("AnswerRequest", KIND.request(given))


def _unit_of(unit: Mapping[str, Any], columns: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return [unit] with those of its members' columns that the rules of some released columns name."""
    rules = [column[rule] for column in columns.values() for rule in RULES if rule in column]
    read = {rule.get(key) for rule in rules for key in ("column", "lowest", "highest", "wave")}
    every = unit.get("columns", {})
    members = {name: own for name, own in every.items() if name in read} or dict(list(every.items())[:1])
    return {key: value for key, value in unit.items() if key not in _NOT_OF_ANSWERS} | {"columns": members}


def _declared(asked: RequestFile, name: str, source: Source) -> dict[str, Any]:
    """Return a column's table in the specification; its labels are the steward's where the request has their digest."""
    written, where = dict(asked.written["columns"][name]), f"{asked.path}: [columns.{name}]"
    if written.pop("hierarchy_sha256", None) is None:
        if source.unit is not None:
            raise InputRefused(
                f"{source.path} is of units, whose columns are derived from their members'; the request has labels of "
                "its own for this one.",
                where=where,
                remedy="Have it written again with --about a release of that specification, and without --label.",
            )
        return written
    if others := sorted(set(written) - {"level"}):
        raise InputRefused("hierarchy_sha256 goes with a level alone.", where=f"{where}.{others[0]}")
    theirs = source.columns.get(name)
    if theirs is None:
        raise InputRefused(
            f"the request takes this column's labels from a release, and {source.path} doesn't declare it.",
            where=where,
            remedy="Name the specification of that release with --spec.",
        )
    return {key: value for key, value in theirs.items() if key in (*_DECLARED, *RULES)} | written


def answering_text(asked: RequestFile, tables: Mapping[str, Any]) -> str:
    """Return the specification that answers a request, as TOML."""
    head = (
        f"# The request {asked.tables.request.name}, as `crowdblend answer` made a specification of it.\n"
        "# If it is cut off, it is finished by `crowdblend run` with this file and the release's id.\n"
    )
    return head + toml_text(tables)


def answering_name(text: str) -> str:
    """Return the name of the file of such a specification: another one for each text."""
    return f"answer-{hashlib.sha256(text.encode()).hexdigest()[:_TAKEN]}.toml"


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return tables as TOML: one level of them by name, [columns] one below that."""
    return "".join(f"{line}\n" for line in _toml_lines(tables))


def _toml_lines(tables: Mapping[str, Any]) -> Iterator[str]:
    for name, table in tables.items():
        inner = table.items() if name == "columns" else [(None, table)]
        for key, own in inner:
            yield f"\n[{name}]" if key is None else f"\n[{name}.{_key(key)}]"
            yield from (f"{_key(one)} = {_toml_value(value)}" for one, value in own.items())


def _toml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case list():
            return f"[{', '.join(map(_toml_value, value))}]"
        case dict():
            return f"{{ {', '.join(f'{_key(key)} = {_toml_value(own)}' for key, own in value.items())} }}"
        case _:
            return str(value)  # a whole number, or an exact decimal


def _key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    """Return a basic string of TOML: JSON's, but that DEL must be escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
