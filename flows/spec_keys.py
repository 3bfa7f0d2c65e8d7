"""The keys of a specification by table, as its models declare them, and the advice for a key that there isn't."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = ["ANY_NAME", "PAGE", "SpecKey", "key_advice", "keys_of"]

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
        name: as it is written in TOML.
        field: what the model says of it.
        model: the table's model.
        subtables: models of the tables that are its value; none for a plain value.
    """

    table: str
    name: str
    field: FieldInfo
    model: type[BaseModel]
    subtables: tuple[type[BaseModel], ...]


def keys_of(model: type[BaseModel], *, table: str = "") -> Iterator[SpecKey]:
    """All keys of a table and of the tables below it, in the order of their declaration.

    Args:
        model: the table's model.
        table: its path.
    """
    for field_name, field in model.model_fields.items():
        name = field.alias or field_name
        below = tuple(_models(field.annotation))
        yield SpecKey(table=table, name=name, field=field, model=model, subtables=below)
        path = _joined(table, name)
        for part in below:
            yield from keys_of(part, table=_joined(path, ANY_NAME) if _is_mapping(field.annotation) else path)


def key_advice(place: Sequence[object], *, model: type[BaseModel], is_table: bool = False) -> str:
    """What to do about a key that there isn't: where one of this name belongs, or the most similar one.

    Args:
        place: the names of the tables around it and its own, from the outermost.
        model: of the whole specification.
        is_table: whether its value is a table.

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
    """Where keys belong, in words; of those of a column, the tables of the same column alone."""
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
    """The path of the tables around a key as the models have it, and the column that it is of, where it is of one."""
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
    """The models in a type, whatever they are wrapped in."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _is_mapping(annotation: object) -> bool:
    """Whether a type is a mapping from chosen names, perhaps among others."""
    return get_origin(annotation) is dict or any(
        _is_mapping(part) for part in get_args(annotation) if part is not type(None)
    )
