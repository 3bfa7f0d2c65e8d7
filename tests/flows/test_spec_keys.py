"""A key that there isn't is refused with the place where it belongs or the most similar one; the JSON Schema."""

from __future__ import annotations

import json
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.flows.spec import key_advice, keys_of, spec_model
from jsonschema import Draft202012Validator

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").rglob("*.toml"))


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        (("data", "separater"), "Did you mean separator?"),
        (("data", "rows-per-person"), "Did you mean rows_per_person?"),
        (("data", "sep"), "Did you mean separator?"),
        (("Data",), "Did you mean [data]?"),
        (("privacy", "Delta"), "Did you mean delta?"),
        (("cluster", "clas"), "Did you mean class?"),
        (("data", "form"), "It belongs in [release]."),
        (("selection", "k"), "It belongs in [suppression] or in [histogram] or in [points]."),
        (("rate",), "It belongs in [sampling] or in [selection]."),
        (("data", "sampling"), "It belongs at the top level."),
        (("columns", "age", "lower"), "It belongs in [columns.age.interval] or in [columns.age.bounds]."),
        (("columns", "a.b", "interval", "level"), "It belongs in [columns.a.b]."),
        (("columns", "age", "interval", "lowr"), "Did you mean lower?"),
        (("columns", "age", "levle"), "Did you mean level?"),
        (("data", "delt"), "Did you mean delta, in [privacy] or in [deletion]?"),
        (("data", "nul"), "Did you mean null?"),
        (("columns", "age", "interval", "width"), "Did you mean widths?"),
        (("selection", "candidates", 0, "xyz"), "All keys are in"),
    ],
)
def test_the_advice_names_the_table_or_the_nearest_key(place: tuple, advice: str) -> None:
    said = key_advice(place, model=spec_model())
    assert said.startswith(advice)
    assert said.endswith("All keys are in docs/specification.md.")


def test_a_table_is_compared_with_tables_alone() -> None:
    assert key_advice(("column",), model=spec_model(), is_table=True).startswith("Did you mean [columns]?")
    assert key_advice(("column",), model=spec_model()).startswith("It belongs in [sampling]")


@pytest.mark.parametrize(
    ("old", "new", "where", "advice"),
    [
        ('separator = ";"', 'seperator = ";"', "[data].seperator", "Did you mean separator?"),
        ("[suppression]", "[supression]", "[supression]", "Did you mean [suppression]?"),
        ("[sampling]", "[sampling]\nk = 20", "[sampling].k", "It belongs in [suppression]"),
        ("widths =", "width =", "[columns.age.interval].width", "Did you mean widths?"),
    ],
)
def test_the_command_line_says_so(desk, old: str, new: str, where: str, advice: str) -> None:
    desk.refuse("explain", desk.write_spec(edit=lambda text: text.replace(old, new)), said=(where, advice))


def test_every_key_has_a_place_of_its_own() -> None:
    places = [(key.table, key.name) for key in keys_of(spec_model())]
    assert len(places) == len(set(places))
    assert {("", "data"), ("columns.NAME.interval", "widths"), ("reports.bloom", "bits"), ("cluster", "class")} <= set(
        places
    )


def test_the_schema_takes_the_examples_and_refuses_what_the_models_refuse(desk) -> None:
    answer = desk("schema", "specification")
    assert answer.code == 0
    schema = json.loads(answer.out)
    Draft202012Validator.check_schema(schema)
    judge = Draft202012Validator(schema)
    specs = [tomllib.loads(path.read_text()) for path in EXAMPLES if "[release]" in path.read_text()]
    assert len(specs) > 5
    for spec in specs:
        judge.validate(spec)
    spec = tomllib.loads(desk.write_spec().read_text())
    judge.validate(spec)
    for table, key, value in (
        ("data", "seperator", ";"),
        ("sampling", "rate", 1.5),
        ("sampling", "rate", "0.1"),
        ("suppression", "k", 0),
        ("release", "form", "rows"),
    ):
        wrong = spec | {table: spec[table] | {key: value}}
        assert not judge.is_valid(wrong), (table, key)
        desk.succeed("explain", desk.write_spec(edit=lambda text: text))


def test_the_schema_has_no_null_and_says_defaults_as_they_are_written(desk) -> None:
    text = desk("schema", "specification").out
    assert "null" not in text.replace('"null": {', "")
    points = json.loads(text)["$defs"]["PointsTable"]["properties"]
    assert Decimal(str(points["confidence"]["default"])) == Decimal("0.95")
