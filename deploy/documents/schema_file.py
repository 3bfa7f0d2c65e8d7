"""A specification begun from somebody's schema file: a frictionless Table Schema, or CSVW with or without CSVW-EO."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, get_args

from ...accounting.given_files import read_given
from ...mechanisms.hierarchies.decimals import DecimalIntervals
from ...mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from ...mechanisms.kernel.errors import InputRefused
from ...tasks.readers.file_formats import ColumnKind, NamedColumn, SourceNames
from ...tasks.readers.source_files import is_url
from ...tasks.readers.values import Encoding

ENDINGS = (".json", ".jsonld", ".json-ld")
LARGEST = 1 << 24
WHOLE = {
    *("integer", "int", "long", "short", "byte", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
    *("nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger", "year", "gYear"),
}
LEAST = dict.fromkeys(("nonNegativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"), 0) | {
    "positiveInteger": 1
}
KINDS: dict[str, ColumnKind] = {
    **dict.fromkeys(WHOLE, "integer"),
    **dict.fromkeys(("number", "decimal", "double", "float"), "number"),
    **dict.fromkeys(("date", "datetime", "dateTime", "dateTimeStamp", "yearmonth", "gYearMonth"), "date"),
    **dict.fromkeys(
        ("object", "array", "list", "geopoint", "geojson", "binary", "base64Binary", "hexBinary"), "unmapped"
    ),
    "boolean": "boolean",
    "string": "text",
}
DESCRIPTIVE = {
    *(
        "name",
        "title",
        "titles",
        "description",
        "type",
        "datatype",
        "base",
        "constraints",
        "required",
        "example",
        "lang",
    ),
    *("rdfType", "propertyUrl", "aboutUrl", "valueUrl", "suppressOutput", "ordered", "textDirection", "id", "minimum"),
    *("maximum", "minInclusive", "maxInclusive", "exclusiveMinimum", "exclusiveMaximum", "minExclusive"),
    *("maxExclusive", "enum", "categories", "keyValues", "publicKeys", "publicKeyValues", "keys", "privacyId", "null"),
    *("missingValues", "virtual", "trueValues", "falseValues"),
}
"""Keys of a column that are taken, or say nothing about its values."""
LISTS = ("enum", "categories", "keyValues", "publicKeys", "publicKeyValues", "keys")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredDomain:
    """What a schema declares of a column.

    Args:
        line: of TOML, that declares the values or the interval; None where nothing was declared that can be taken.
        remarks: what was not taken, one sentence each, without a line break.
    """

    line: str | None
    remarks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaFile:
    """What a schema file says that a specification has a place for.

    Args:
        names: of the columns, and the separator.
        source: the file that it describes, as it names it; None where it names none.
        data: other lines of [data], in TOML.
        domains: by column.
        remarks: what was not taken of the whole.
    """

    names: SourceNames
    source: str | None
    data: tuple[str, ...]
    domains: Mapping[str, DeclaredDomain]
    remarks: tuple[str, ...]


@dataclass(kw_only=True, slots=True)
class _Column:
    name: str
    kind: ColumnKind
    base: str
    stated: Mapping[str, Any]
    remarks: list[str] = field(default_factory=list)


def is_schema_file(location: str) -> bool:
    """Return whether a source's name is that of a schema and not of records."""
    return PurePosixPath(location.lower()).suffix in ENDINGS and not is_url(location)


def read_schema_file(path: Path) -> SchemaFile:
    """Read a schema: a Table Schema, a data resource or package of one table, or CSVW of one table.

    Declared values and bounds are taken as they stand; whether they are public is for the steward to say. What has no
    place in a specification is told, and nothing is made up. Numbers of records and shares, which CSVW-EO may have, are
    not taken.

    Raises:
        InputRefused: it can't be read, is none of these, or describes several tables.
    """
    table, described = _one_table(_json(path), path)
    schema = _mapping(table.get("tableSchema", table.get("schema", table)), path)
    listed = schema.get("columns", schema.get("fields"))
    if not isinstance(listed, list) or not listed:
        _refuse(path, "this is neither a Table Schema nor CSVW: it names no columns.")
    columns = [_column(_mapping(one, path), number, path) for number, one in enumerate(listed, start=1)]
    kept = [column for column in columns if column.stated.get("virtual") is not True]
    if len({column.name for column in kept}) != len(kept):
        _refuse(path, "two columns have one name.")
    remarks = [
        f"{_text(column.name)} is a virtual column, which records don't have."
        for column in columns
        if column not in kept
    ]
    person = [column.name for column in kept if column.stated.get("privacyId") is True]
    data, separator = _data(table, schema, kept, person=person, remarks=remarks)
    domains = {column.name: DeclaredDomain(line=_domain(column), remarks=tuple(column.remarks)) for column in kept}
    names = tuple(NamedColumn(name=column.name, kind=column.kind) for column in kept)
    return SchemaFile(
        names=SourceNames(separator=separator, columns=names),
        source=described,
        data=tuple(data),
        domains=domains,
        remarks=tuple(remarks),
    )


def _json(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(
            read_given(path, most=LARGEST).decode("utf-8-sig"), parse_float=Decimal, parse_constant=_no_number
        )
        json.dumps(content, ensure_ascii=False, default=str).encode("utf-8")  # an escape may be half of a character
    except OSError as error:
        raise InputRefused(f"the schema can't be read ({error.strerror}).", where=str(path)) from None
    except (ValueError, RecursionError):
        _refuse(path, "this is not JSON in UTF-8.")
    return _mapping(content, path)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _one_table(content: Mapping[str, Any], path: Path) -> tuple[Mapping[str, Any], str | None]:
    """Return the only table that is described, and the file that holds it."""
    tables = content.get("resources", content.get("tables", [content]))
    if not isinstance(tables, list) or len(tables) != 1:
        _refuse(path, "this describes several tables, and a release is of one.", "Keep the one in a file of its own.")
    table = _mapping(tables[0], path)
    named = table.get("url", table.get("path"))
    if isinstance(named, list) and len(named) == 1:
        named = named[0]
    return {**content, **table}, named if isinstance(named, str) and named.isprintable() and named else None


def _mapping(value: object, path: Path) -> Mapping[str, Any]:
    """Return a table of JSON, its keys without the prefix of a vocabulary."""
    if not isinstance(value, dict):
        _refuse(path, "this is neither a Table Schema nor CSVW.")
    return {name.rpartition(":")[2] if not name.startswith("http") else name: part for name, part in value.items()}


def _refuse(path: Path, what: str, remedy: str = "") -> NoReturn:
    raise InputRefused(what, where=str(path), remedy=remedy)


def _column(stated: Mapping[str, Any], number: int, path: Path) -> _Column:
    titles = stated.get("titles")
    name = _first_text(titles) or _first_text(stated.get("name"))
    if name is None:
        _refuse(path, f"column {number} has no name.")
    own = stated.get("datatype", stated.get("type"))
    datatype = own if isinstance(own, dict) else {}
    constraints = stated.get("constraints")
    base = datatype.get("base", own if isinstance(own, str) and own not in ("Column", "csvw:Column") else "string")
    base = base if isinstance(base, str) else "string"
    everything = {**datatype, **(constraints if isinstance(constraints, dict) else {}), **stated}
    return _Column(name=name, kind=KINDS.get(base, "text"), base=base, stated=everything)


def _first_text(value: object) -> str | None:
    if isinstance(value, dict):
        value = next(iter(value.values()), None)
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) and value else None


def _data(
    table: Mapping[str, Any],
    schema: Mapping[str, Any],
    columns: Sequence[_Column],
    *,
    person: Sequence[str],
    remarks: list[str],
) -> tuple[list[str], str | None]:
    """Lines of [data], and the separator."""
    lines: list[str] = []
    stated = table.get("dialect")
    dialect = stated if isinstance(stated, dict) else {}
    separator = dialect.get("delimiter")
    if not isinstance(separator, str) or len(separator) != 1 or not separator.isascii():
        separator = None
    encoding = str(dialect.get("encoding", table.get("encoding", "utf-8"))).lower()
    if encoding in get_args(Encoding) and encoding != "utf-8":
        lines.append(f"encoding = {_text(encoding)}")
    elif encoding not in ("utf-8", "utf8"):
        remarks.append(f"The encoding {_text(encoding)} is none that is read.")
    common = schema.get("missingValues", schema.get("null", table.get("null")))
    nulls = [column.stated.get("missingValues", column.stated.get("null", common)) for column in columns]
    if any(one != nulls[0] for one in nulls):
        remarks.append("Columns have different marks of missing values; here they are the same for all: [data].null.")
    elif nulls[0] is not None:
        marks = [nulls[0]] if isinstance(nulls[0], str) else nulls[0]
        if isinstance(marks, list) and all(isinstance(one, str) for one in marks):
            lines.append(f"null = [{', '.join(_text(one) for one in marks)}]")
        else:
            remarks.append("Its marks of missing values are not plain texts.")
    unit = table.get("privacyUnit", person[0] if len(person) == 1 else None)
    if isinstance(unit, str) and unit:
        lines.append(f"person = {_text(unit)}            ## the privacy unit that the schema names")
        most = table.get("maxContributions")
        if type(most) is int and most >= 1:
            lines.append(f"rows_per_person = {most}")
    if schema.get("primaryKey"):
        remarks.append("Its primary key names records: such columns are never released.")
    if taken_no := sorted({"length", "publicLength", "maxLength", "maxGroupsPerUnit"} & table.keys()):
        remarks.append(f"Numbers of records are not taken: {', '.join(taken_no)}.")
    return lines, separator


def _domain(column: _Column) -> str | None:
    """Return a line of TOML that declares a column's values, or says what isn't taken."""
    stated = column.stated
    left = sorted(
        name for name in stated.keys() - DESCRIPTIVE - {"partitions"} if stated[name] not in (None, False, "default")
    )
    if left:
        column.remarks.append(f"Not taken of the schema: {', '.join(_text(name) for name in left)}.")
    values = next((stated[name] for name in LISTS if isinstance(stated.get(name), list)), None)
    if values is None and column.kind == "boolean":
        values = _booleans(column)
    if values is None:
        values = _partition_values(stated.get("partitions"))
    if values is not None:
        return _values(column, values)
    if column.kind in ("integer", "number"):
        return _interval(column)
    if column.kind == "date" and _bounds(column) != (None, None):
        column.remarks.append("Its bounds, where they are public, are those of `dates`.")
    return None


def _booleans(column: _Column) -> list[Any] | None:
    shown = column.stated.get("format")
    if isinstance(shown, str) and shown.count("|") == 1:  # CSVW's "Y|N"
        return shown.split("|")[::-1]
    marks = [column.stated.get(name) for name in ("falseValues", "trueValues")]
    if all(isinstance(one, list) and len(one) == 1 for one in marks):
        return [marks[0][0], marks[1][0]]  # type: ignore[index]
    if any(isinstance(one, list) for one in marks):
        column.remarks.append("Several texts mean true or false, which a declared domain keeps apart.")
    return ["false", "true"]


def _partition_values(partitions: object) -> list[Any] | None:
    """Return the values of CSVW-EO's public partitions; None where these are ranges."""
    if not isinstance(partitions, list) or not partitions:
        return None
    found = []
    for one in partitions:
        predicate = one.get("predicate") if isinstance(one, dict) else None
        if not isinstance(predicate, dict) or "partitionValue" not in predicate:
            return None
        found.append(predicate["partitionValue"])
    return found


def _values(column: _Column, values: Sequence[Any]) -> str | None:
    texts = [_as_text(one.get("value") if isinstance(one, dict) else one) for one in values]
    plain = [text for text in texts if text is not None]
    if len(plain) < len(texts):
        column.remarks.append("Some of its values are not texts, numbers or truths.")
        return None
    try:
        ValueHierarchy.from_values(plain)
    except ValueError:
        column.remarks.append("Its values can't be a declared domain: one is empty, twice there or not printable.")
        return None
    if column.stated.get("exhaustiveKeys") is False:
        column.remarks.append("The schema says that there are other values too: they are published as *.")
    return f"values = [{', '.join(_text(text) for text in plain)}]"


def _as_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | Decimal) else None


def _bounds(column: _Column) -> tuple[object, object]:
    low = next((column.stated[name] for name in ("minimum", "minInclusive") if name in column.stated), None)
    high = next((column.stated[name] for name in ("maximum", "maxInclusive") if name in column.stated), None)
    return low, high


def _interval(column: _Column) -> str | None:
    low, high = (_number(one) for one in _bounds(column))
    above = _number(_first_of(column.stated, "exclusiveMinimum", "minExclusive"))
    below = _number(_first_of(column.stated, "exclusiveMaximum", "maxExclusive"))
    whole = column.kind == "integer"
    if low is None:
        low = (
            Decimal(LEAST[column.base]) if column.base in LEAST else above if above is None or not whole else above + 1
        )
        if above is not None and not whole:
            column.remarks.append("Its least number is excluded by the schema, and belongs to the interval here.")
    upper = below if below is not None else high if high is None or not whole else high + 1
    if low is None or upper is None:
        if (low, upper) != (None, None):
            column.remarks.append("The schema has one bound, and an interval needs both.")
        return None
    if not whole and below is None:
        column.remarks.append(
            "The schema's greatest number itself is published as >= upper, since intervals end before it."
        )
    try:
        if whole:
            lower, end = int(low), int(upper)
            if lower != low or end != upper:
                column.remarks.append("Its bounds are not whole numbers, and its type is.")
                return None
            widths = _widths(column, lower, end)
            IntervalHierarchy(lower=lower, upper=end, widths=tuple(widths))
            listed = ", ".join(str(one) for one in widths)
            return f"interval = {{ lower = {lower}, upper = {end}, widths = [{listed}] }}"
        DecimalIntervals.of(lower=_decimal(low), upper=_decimal(upper), widths=())
    except (ValueError, ArithmeticError):
        column.remarks.append("Its bounds can't be those of an interval.")
        return None
    return f"interval = {{ lower = {_decimal(low):f}, upper = {_decimal(upper):f}, widths = [] }}"


def _widths(column: _Column, lower: int, upper: int) -> list[int]:
    """Return the width of CSVW-EO's public ranges where they are equal and begin at the lower bound; none elsewhere."""
    partitions = column.stated.get("partitions")
    if not isinstance(partitions, list) or not partitions:
        return []
    edges = [edge for one in partitions for edge in _edges(one)]
    steps = {after - before for before, after in pairwise(sorted({*edges}))}
    if len(edges) == 2 * len(partitions) and len(steps) == 1 and min(edges) == lower and max(edges) >= upper - 1:
        [width] = steps
        if width == int(width) and width > 0:
            return [int(width)]
    column.remarks.append(
        "Its public ranges are not equal intervals from the lower bound on: a hierarchy can have them."
    )
    return []


def _edges(partition: object) -> Iterator[Decimal]:
    predicate = partition.get("predicate", partition) if isinstance(partition, dict) else {}
    for names in (("lowerBound", "minimum"), ("upperBound", "maximum")):
        edge = _number(_first_of(predicate, *names)) if isinstance(predicate, dict) else None
        if edge is not None:
            yield edge


def _first_of(stated: Mapping[str, Any], *names: str) -> object:
    return next((stated[name] for name in names if name in stated), None)


def _number(value: object) -> Decimal | None:
    """Return a number as JSON or a text has it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        number = Decimal(value)
    except ArithmeticError:
        return None
    return number if number.is_finite() and abs(number) < Decimal(10) ** 18 else None


def _decimal(number: Decimal) -> Decimal:
    """Return a number that is written with a decimal, so that the interval is one of decimal numbers."""
    exponent = number.as_tuple().exponent
    return number.quantize(Decimal("0.1")) if isinstance(exponent, int) and exponent >= 0 else number


def _text(value: str) -> str:
    """Return a basic string of TOML, in one line."""
    return json.dumps(value, ensure_ascii=not value.isprintable()).replace("\x7f", "\\u007f")
