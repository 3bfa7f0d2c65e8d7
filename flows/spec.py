"""The release specification (TOML): read once, here, into frozen values; its JSON Schema; advice on wrong keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ..accounting.deprecations import DEPRECATED, warn_of_keys
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.kernel.mechanism import Mechanism
from ..mechanisms.wording import FILL_IN, refused_together
from ..tasks.destinations import Output
from ..tasks.request import Request
from .columns import check_declared_values
from .paths import read_toml
from .releases.release_kind import DEFAULT_KIND, KINDS, GivenSpec, release_kind
from .spec_tables import BlocksTable, BlockTable, SpecTables, fault_in_words, tables_model

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOST_COLUMNS = 1_000
"""Columns of a release: with more, its checks take minutes, and no two records are alike."""
DEEPEST = 100
"""Tables in tables: far more than any specification has, and far fewer than calls in calls may be."""
EVERY_KIND = frozenset({"release", "data", "cluster"})
"""Tables that every kind of release knows."""
BEFOREHAND = frozenset(
    {"compute", "computed", "condition", "derive", "derived", "expression", "filter", "filters", "formula", "query"}
    | {"rows", "select", "sql", "where"}
)
"""Keys by which people look for what isn't done here: choosing rows, computing columns."""


def read_spec(
    path: Path,
    *,
    output: Output | None,
    releases: int = 1,
    rehearse: bool = False,
    recorded: Mechanism | None = None,
) -> Request:
    """Read and check a specification and the hierarchies that it names; no record is touched.

    Args:
        output: replaces [release].output; None keeps the specification's.
        releases: how many releases of it δ and the price are for; more than one fixes both k and rate.
        recorded: the mechanism of the release or series that is in the ledger already, whose draw of the map is meant
            where the specification doesn't say; None for a new one.

    Raises:
        InputRefused: anything that is wrong, with file and key or line.
    """
    tables = parse_spec(path)
    name = _kind_of(path, tables)
    kind = release_kind(name)
    own = None if kind.model is None else getattr(tables, name)
    _check_data(path, tables)
    _check_sampling(path, tables, unequal_rates=kind.unequal_rates(own))
    _check_unit(path, tables, name=name, limits=kind.limits)
    _check_weight(path, tables, name=name)
    if tables.margins is not None:
        from .margin_specs import with_share  # of releases with margins alone

        tables = with_share(path, tables)
    base = path.resolve().parent
    unit_rule = None
    if tables.unit is not None or any(column.rules for column in tables.columns.values()):
        from .unit_specs import with_units  # of releases of units alone

        tables, unit_rule = with_units(path, tables, base=base, figures=kind.figures or ())
    if releases > 1 and not kind.series:
        raise InputRefused(
            "a series is of microdata or of deletion releases.",
            where=f"{path}: [{name}]",
            remedy="Charge each release for itself.",
        )
    given = GivenSpec(
        path=path,
        tables=tables,
        kind=name,
        own=own,
        base=base,
        unit_rule=unit_rule,
        output=output,
        releases=releases,
        recorded=recorded,
    )
    request = kind.request(given)
    check_declared_values(path, request.source_columns, request.reading)
    limit = request.limit
    if limit is not None and any(column.name == limit.column for column in request.source_columns):
        raise InputRefused(
            f"the column {limit.column!r} names the {limit.unit}s, and it is read for what is published too.",
            where=f"{path}: [unit].by" if limit.together else f"{path}: [data].{limit.unit}",
            remedy="Name a column that serves nothing else.",
        )
    if rehearse:
        from .releases.answer_release import rehearsal_of  # of rehearsals alone

        return rehearsal_of(request, output=output)
    return request


def parse_spec(path: Path) -> SpecTables:
    """Read a specification's tables; each value is checked by itself.

    Raises:
        InputRefused: it can't be read, is no TOML, or a value is wrong; with file and key.
    """
    model, faults = _parsed(path)
    if model is None:
        raise refused_together(faults, where=str(path))
    return model


def spec_faults(path: Path, *, values_alone: bool = False) -> list[InputRefused]:
    """Return what is wrong with a specification, each fault by itself: all of its values, or the first of the rest.

    Args:
        path: its file.
        values_alone: leave out the rest, which prices the release and reads its hierarchies.
    """
    try:
        model, faults = _parsed(path)
        if model is not None and not values_alone:
            read_spec(path, output=None)
    except InputRefused as fault:
        return [fault]
    return faults


def _parsed(path: Path) -> tuple[SpecTables | None, list[InputRefused]]:
    """Return a specification's tables, or None and what is wrong with them."""
    tables = read_toml(path, what="the specification")
    columns = tables.get("columns")
    if isinstance(columns, dict) and len(columns) > MOST_COLUMNS:
        raise InputRefused(
            f"there are {len(columns)} columns, and a release has at most {MOST_COLUMNS}.",
            where=f"{path}: [columns]",
            remedy="Leave out those that nobody needs: groups of so many columns have one record each.",
        )
    # Looked for first: a key that is marked as still to be written would else be reported as a value of a wrong type.
    faults = list(_unwritten(path, tables))
    model = None
    try:
        model = spec_model(name for name in KINDS if name in tables).model_validate(tables)
    except ValidationError as error:
        faults += table_faults(path, tables, error)
    if model is None or faults:
        return None, [*faults, *_missing_hierarchies(path, tables)]
    if DEPRECATED:
        warn_of_keys(tables)
    return model, []


def spec_model(kinds: Iterable[str] = tuple(KINDS)) -> type[SpecTables]:
    """Return the model of a specification that may have the tables of these kinds; of all, where none are named."""
    models = {name: release_kind(name).model for name in kinds}
    return tables_model({name: model for name, model in models.items() if model is not None})


def _kind_of(path: Path, tables: SpecTables) -> str:
    """Return what a specification asks for.

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
    for key, location in (("[data].source", tables.data.source), ("[release].output", tables.release.output or "")):
        if "\0" in location:
            raise InputRefused("no file's name has a NUL character.", where=f"{path}: {key}")
    if not LABEL.fullmatch(tables.release.name):
        raise InputRefused(
            "a release's name is 1 to 100 letters, digits, dots, dashes and underscores.",
            where=f"{path}: [release].name",
        )


def _check_sampling(path: Path, tables: SpecTables, *, unequal_rates: frozenset[str]) -> None:
    """Check that [sampling] says one thing: one rate for all, a column of rates, or how a sample was drawn."""
    table = tables.sampling
    if table is None:
        return
    where = f"{path}: [sampling]"
    if (table.column is None) is not (table.rates is None):
        missing = "rates" if table.rates is None else "column"
        raise InputRefused(
            "a column of rates and the rates that are declared for it must be given together.",
            where=f"{where}.{missing}",
            remedy='Write column = "NAME" and rates = [LOWEST, …, HIGHEST].',
        )
    ways = [name for name in ("rate", "column", "design") if getattr(table, name) is not None]
    if not ways:
        raise InputRefused("this is required and missing.", where=f"{where}.rate")
    if len(ways) > 1:
        raise InputRefused(f"{' and '.join(ways)} exclude each other.", where=f"{where}.{ways[1]}")
    if table.rate is None and ways[0] not in unequal_rates:
        raise InputRefused(
            'a column of rates has a price for microdata, points and a histogram of kind = "suppressed", a design for '
            "the last only.",
            where=f"{where}.{ways[0]}",
            remedy="Write rate = …: a fresh sample with one rate for all, which a sample that was drawn by others can "
            "have too.",
        )


def _check_unit(path: Path, tables: SpecTables, *, name: str, limits: bool) -> None:
    """Check that a person's or household's records can be limited here."""
    data = tables.data
    if data.person is None and data.household is None:
        return
    where = f"{path}: [data].{'household' if data.person is None else 'person'}"
    if not limits:
        raise InputRefused(
            f"[{name}] adds up reports that have no id: its price is for at most rows_per_person of them.",
            where=where,
            remedy="Remove it, and let each device send no more reports than that.",
        )
    if tables.sampling is not None and tables.sampling.rate is None:
        raise InputRefused(
            "where records were included at unequal rates, or the data are a sample themselves, someone with many "
            "records was likelier to be included; a limit on what counts afterwards doesn't mend that, and no price "
            "is proved.",
            where=where,
            remedy="Remove it where everyone has one record; or draw a fresh sample with [sampling].rate.",
        )


def _check_weight(path: Path, tables: SpecTables, *, name: str) -> None:
    """Check that survey weights are of a release that knows them."""
    for key in ("weight", "weight_classes"):
        if getattr(tables.data, key) is not None and name != "deletion":
            raise InputRefused(
                "survey weights are released with a [deletion] and its [margins] alone: every other kind would count "
                "each record as one.",
                where=f"{path}: [data].{key}",
                remedy="Remove it, or add [deletion] and [margins].",
            )


def _unwritten(path: Path, tables: Mapping[str, Any], *around: str) -> Iterator[InputRefused]:
    """Yield what is marked as yet to be written, each key once; refuse tables deeper than any that could be meant."""
    if len(around) > DEEPEST:
        raise InputRefused("arrays or tables in it are nested too deeply.", where=str(path))
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from _unwritten(path, value, *around, key)
        elif value == FILL_IN or (isinstance(value, list) and FILL_IN in value):
            yield InputRefused(
                f"this is marked {FILL_IN} and not written yet.", where=_place(path, (*around, key), tables={})
            )


def _missing_hierarchies(path: Path, tables: Mapping[str, Any]) -> Iterator[InputRefused]:
    """Yield files of hierarchies that aren't there, to be reported with all else; alone, their reader reports them."""
    columns = tables.get("columns")
    for name, column in columns.items() if isinstance(columns, dict) else ():
        location = column.get("hierarchy") if isinstance(column, dict) else None
        if isinstance(location, str) and "://" not in location and not (path.resolve().parent / location).exists():
            yield InputRefused(
                f"there is no file {location}.", where=_place(path, ("columns", name, "hierarchy"), tables=tables)
            )


def table_faults(
    path: Path, tables: Mapping[str, Any], error: ValidationError, *, model: type[BaseModel] | None = None
) -> Iterator[InputRefused]:
    """Yield what is wrong, in the order of the specification and once for each place; wrong keys come first.

    Args:
        path: of the file that has the tables.
        tables: as they are written.
        error: what the model found.
        model: that the keys are of; None for a specification's.
    """
    # A misspelt key is reported as unknown and, under its right name, as missing: the first of these says what to do.
    findings: list[Any] = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    places = {fault.where for fault in _unwritten(path, tables)}
    for finding in findings:
        where = _place(path, finding["loc"], tables=tables)
        if where in places:
            continue
        places.add(where)
        remedy = ""
        if finding["type"] == "extra_forbidden":
            remedy = key_advice(
                finding["loc"], model=model or spec_model(), is_table=isinstance(finding["input"], dict)
            )
            if finding["loc"][-1] in BEFOREHAND:
                remedy = (
                    "Rows are chosen and columns computed beforehand, record by record: docs/starting-from-a-file.md."
                )
        yield InputRefused(f"{fault_in_words(finding)}.", where=where, remedy=remedy)


def _inner(value: Any, part: str | int) -> Any:  # noqa: ANN401 - whatever TOML can say
    """Return what a table or a list has at a place: an empty table for nothing, None of another value."""
    match value, part:
        case list(), int():
            return value[part]
        case dict(), str():
            return value.get(part, {})
        case _:
            return None


def _place(path: Path, location: Sequence[str | int], *, tables: Mapping[str, Any]) -> str:
    """Return the file and the key: `survey.toml: [columns.age].level, number 2`.

    Args:
        location: names of tables and keys, and places in lists. After these, a name of a type that was tried there is
            left out.
        tables: the specification; empty where the location is known to have no such name.
    """
    names: list[str] = []
    in_list = ""
    value: Any = tables
    for part in location:
        if isinstance(part, int):
            in_list += f", number {part + 1}"
        elif isinstance(value, dict) and in_list:
            in_list += f", {part}"
        elif isinstance(value, dict):
            names.append(part)
        value = _inner(value, part)
    *around, key = names
    return (f"{path}: [{'.'.join(around)}].{key}" if around else f"{path}: [{key}]") + in_list


LIMITS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
"""Pydantic's names of limits, which it leaves as they are where a validator of ours comes first, and JSON Schema's."""


class _TomlSchema(GenerateJsonSchema):
    """What TOML can say: numbers are numbers and not texts, and what is missing is left out and not null."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """Return an exact decimal is written as a number."""
        limits = {name: _plain(value) for name, value in schema.items() if name in LIMITS}
        return {"type": "number"} | limits

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Return a key without a value isn't written."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return a default that a key may be written with."""
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return inner if default is None else inner | {"default": _plain(default)}


def spec_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a specification: every key's type, limits and default.

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


ANY_NAME = "NAME"
"""Stands in a table's path for a name that the specification chooses, such as a column's."""
PAGE = "docs/specification.md"
COLUMN = f"columns.{ANY_NAME}"
MOST_TABLES = 4
SIMILAR = 0.6
SHORTEST_PREFIX = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecKey:
    """One key.

    Args:
        table: path of its table, as `columns.NAME.interval`; empty for the tables themselves.
        subtables: models of the tables that are its value; none for a plain value.
    """

    table: str
    name: str
    field: FieldInfo
    model: type[BaseModel]
    subtables: tuple[type[BaseModel], ...]


def keys_of(model: type[BaseModel], *, table: str = "") -> Iterator[SpecKey]:
    """Yield all keys of a table and of the tables below it, in the order of their declaration."""
    for field_name, field in model.model_fields.items():
        name = field.alias or field_name
        below = tuple(_models(field.annotation))
        yield SpecKey(table=table, name=name, field=field, model=model, subtables=below)
        path = _joined(table, name)
        for part in below:
            yield from keys_of(part, table=_joined(path, ANY_NAME) if _is_mapping(field.annotation) else path)
    if issubclass(model, BlocksTable):  # whose other keys are names
        yield from keys_of(BlockTable, table=_joined(table, ANY_NAME))


def key_advice(place: Sequence[object], *, model: type[BaseModel], is_table: bool = False) -> str:
    """Return what to do about a key that there isn't: where one of this name belongs, or the most similar one.

    Args:
        place: the names of the tables around it and its own, from the outermost.

    Returns:
        Sentences; the last names the page of all keys.
    """
    every = list(keys_of(model))
    *around, key = [str(part) for part in place if not isinstance(part, int)]
    own, column = _table_path(around, {one.table for one in every})
    known = [one for one in every if one.subtables or not is_table]
    page = f"All keys are in {PAGE}."
    if own and any(one.table == own and one.name == f"{key}s" for one in known):
        return f"Did you mean {key}s? {page}"
    homes = _homes([one for one in known if one.name == key and one.table != own], own=own, column=column)
    if homes:
        return f"It belongs {homes}. {page}"
    if similar := _most_similar(key, [one.name for one in known if one.table == own]):
        return f"Did you mean {similar if own else f'[{similar}]'}? {page}"
    if similar := _most_similar(key, [one.name for one in known]):
        homes = _homes([one for one in known if one.name == similar], own=own, column=column)
        return f"Did you mean {similar}, {homes}? {page}"
    return page


def _homes(keys: Sequence[SpecKey], *, own: str, column: str) -> str:
    """Return where keys belong, in words; of those of a column, the tables of the same column alone."""
    same = [one for one in keys if own.startswith(COLUMN) and one.table.startswith(COLUMN)]
    tables = [one.table.replace(COLUMN, f"columns.{column}", 1) for one in same] or [one.table for one in keys]
    named = [f"in [{table}]" if table else "at the top level" for table in tables[:MOST_TABLES]]
    return " or ".join(named)


def _most_similar(key: str, names: Sequence[str]) -> str | None:
    plain = {name.lower(): name for name in sorted(names)}
    close = get_close_matches(key.lower().replace("-", "_"), plain, n=1, cutoff=SIMILAR)
    longer = [name for name in plain if len(key) >= SHORTEST_PREFIX and name.startswith(key.lower())]
    return next((plain[name] for name in [*close, *longer]), None)


def _table_path(around: Sequence[str], tables: set[str]) -> tuple[str, str]:
    """Return the path of the tables around a key as the models have it, and the column that it is of, if any."""
    path, column = "", ""
    for part in around:
        chosen = _joined(path, ANY_NAME)
        if chosen in tables:
            path, column = chosen, column or part
        else:
            path = _joined(path, part)
    return path, column


def _joined(table: str, name: str) -> str:
    return f"{table}.{name}" if table else name


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the models in a type, whatever they are wrapped in."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _is_mapping(annotation: object) -> bool:
    """Return whether a type is a mapping from chosen names, perhaps among others."""
    return get_origin(annotation) is dict or any(
        _is_mapping(part) for part in get_args(annotation) if part is not type(None)
    )
