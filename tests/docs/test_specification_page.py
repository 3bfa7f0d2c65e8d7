"""The page of all keys says what the models say: each key once, its default and limits, an example that is taken."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from crowdblend.flows.spec import PAGE, SpecKey, keys_of, spec_model
from pydantic import ValidationError, create_model
from pydantic_core import PydanticUndefined

PROJECT = Path(__file__).resolve().parents[2]
HEADING = re.compile(r"^#+ (?:`\[(.+)\]`|Top level)$")
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+?) \| `(.+?)` \| (.+) \|$")
Row = tuple[str, str, str, str]


def rows_of(text: str) -> dict[tuple[str, str], Row]:
    """The page's rows by table and key: default, range, example, meaning."""
    found: dict[tuple[str, str], Row] = {}
    table = None
    for line in text.splitlines():
        if line.startswith("#"):
            heading = HEADING.match(line)
            table = None if heading is None else heading[1] or ""
        elif table is not None and line.startswith("| `"):
            row = ROW.match(line)
            assert row, f"this row can't be read: {line}"
            place = (table, row[1])
            assert place not in found, f"{place} stands there twice"
            found[place] = (row[2], row[3], row[4], row[5])
    return found


MEMBERS = "unit.columns.NAME"
"""Columns of a unit's members are declared as released ones are, and explained there."""
KEYS = {(key.table, key.name): key for key in keys_of(spec_model()) if not key.table.startswith(MEMBERS)}
ROWS = rows_of((PROJECT / PAGE).read_text(encoding="utf-8"))


def default_of(key: SpecKey) -> str:
    """A key's default as the page writes it."""
    if key.field.is_required():
        return "required"
    value = key.field.get_default(call_default_factory=True)
    return "none" if value is None or value is PydanticUndefined else f"`{toml(value)}`"


def toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list():
            return f"[{', '.join(toml(one) for one in value)}]"
        case _:
            return str(value)


def choices(annotation: object) -> set[str]:
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    return set().union(*(choices(part) for part in get_args(annotation)))


def test_the_page_has_the_keys_of_the_models_and_no_other() -> None:
    assert set(KEYS) - set(ROWS) == set(), f"keys that {PAGE} lacks"
    assert set(ROWS) - set(KEYS) == set(), f"keys on {PAGE} that no model has"


@pytest.mark.parametrize("place", KEYS, ids=lambda place: ".".join(filter(None, place)))
def test_a_row_says_what_the_model_says(place: tuple[str, str]) -> None:
    default, range_, example, meaning = ROWS[place]
    key = KEYS[place]
    assert default == default_of(key)
    assert meaning
    if allowed := choices(key.field.annotation):
        assert set(re.findall(r'"([^"]+)"', range_)) == allowed
    assert taken(key, example)


def taken(key: SpecKey, example: str) -> bool:
    """Whether the model takes the example as this key's value."""
    [(name, value)] = tomllib.loads(example, parse_float=Decimal).items()
    assert name == key.name
    alone = create_model("Alone", __config__=key.model.model_config, **{key.name: (key.field.annotation, key.field)})
    try:
        alone.model_validate({name: value})
    except ValidationError as error:
        raise AssertionError(f"{example}: {error}") from None
    return True
