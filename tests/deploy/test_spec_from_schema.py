"""`spec new --from schema.json`: declared domains and bounds become columns; what can't be taken is told."""

from __future__ import annotations

import json
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

FRICTIONLESS = {
    "path": "people.csv",
    "dialect": {"delimiter": ";"},
    "encoding": "iso-8859-15",
    "schema": {
        "missingValues": ["", "NA"],
        "primaryKey": "id",
        "fields": [
            {"name": "id", "type": "string", "constraints": {"unique": True, "pattern": "[0-9]+"}},
            {"name": "colour", "type": "string", "constraints": {"enum": ["blue", "green", "red"]}},
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
            {"name": "height", "type": "number", "constraints": {"minimum": 0.5, "exclusiveMaximum": 2.5}},
            {"name": "town", "type": "string", "categories": [{"value": "L", "label": "Lyon"}, {"value": "P"}]},
            {"name": "member", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
            {"name": "income", "type": "integer", "constraints": {"minimum": 0}},
            {"name": "born", "type": "date", "constraints": {"minimum": "1900-01-01"}},
            {"name": "twice", "type": "string", "constraints": {"enum": ["a", "a"]}},
        ],
    },
}
CSVW_EO = {
    "@context": ["http://www.w3.org/ns/csvw", "csvw-eo-context.jsonld"],
    "@type": "csvw:Table",
    "url": "penguins.csv",
    "privacyUnit": "penguin_id",
    "maxContributions": 3,
    "maxLength": 344,
    "csvw:tableSchema": {
        "csvw:columns": [
            {"@type": "Column", "csvw:name": "species", "datatype": "string", "keyValues": ["Adelie", "Gentoo"]},
            {"name": "island", "datatype": "string", "csvw-eo:publicKeys": ["Dream"], "exhaustiveKeys": False},
            {"name": "mass", "datatype": "positiveInteger", "minimum": 2700.0, "maximum": 6300.0},
            {
                "name": "bill",
                "datatype": {"base": "double", "minimum": "30", "maximum": 60},
                "nullableProportion": 0.294,
            },
            {
                "name": "number",
                "datatype": "integer",
                "partitions": [{"predicate": {"partitionValue": n}} for n in (0, 1)],
            },
            {
                "name": "age",
                "datatype": "integer",
                "minimum": 0,
                "maximum": 40,
                "partitions": [{"predicate": {"lowerBound": n, "upperBound": n + 20}} for n in (0, 20)],
            },
            {"name": "sex", "datatype": {"base": "boolean", "format": "M|F"}},
            {"name": "half", "datatype": "integer", "minimum": 0.5, "maximum": 3},
            {"name": "penguin_id", "datatype": "integer", "privacyId": True, "minimum": 1, "maximum": 341},
            {"name": "row", "virtual": True},
        ]
    },
}


def begun(desk, schema: Any, *words: str) -> tuple[str, dict[str, Any]]:
    """The text of what is begun from a schema, and its tables with every column's comment signs removed."""
    (desk.folder / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
    desk.succeed("spec", "new", "--from", "schema.json", "--output", "new.toml", *words)
    text = (desk.folder / "new.toml").read_text(encoding="utf-8")
    return text, tomllib.loads(re.sub("(?m)^# ", "", text), parse_float=Decimal)


def test_a_table_schema_begins_a_specification(desk) -> None:
    text, tables = begun(desk, FRICTIONLESS)
    assert tables["data"] == {
        "dataset": "schema",
        "source": "people.csv",
        "separator": ";",
        "encoding": "iso-8859-15",
        "null": ["", "NA"],
    }
    columns = tables["columns"]
    assert columns["colour"] == {"values": ["blue", "green", "red"], "level": 0}
    assert columns["age"] == {"interval": {"lower": 0, "upper": 100, "widths": []}, "level": 0}
    assert columns["height"]["interval"] == {"lower": Decimal("0.5"), "upper": Decimal("2.5"), "widths": []}
    assert columns["town"]["values"] == ["L", "P"]
    assert columns["member"]["values"] == ["no", "yes"]
    for name in ("id", "income", "born", "twice"):
        assert "FILL IN" in str(columns[name]["level"])
    assert "primary key names records" in text
    assert 'Not taken of the schema: "pattern", "unique".' in text
    assert "has one bound, and an interval needs both" in text
    assert "are those of `dates`" in text
    assert "one is empty, twice there or not printable" in text
    assert "columns" not in tomllib.loads(text), "nothing is released by itself"


def test_csvw_eo_begins_one_and_its_counts_of_records_are_not_taken(desk) -> None:
    text, tables = begun(desk, CSVW_EO)
    assert tables["data"]["person"] == "penguin_id"
    assert tables["data"]["rows_per_person"] == 3
    columns = tables["columns"]
    assert columns["species"]["values"] == ["Adelie", "Gentoo"]
    assert columns["island"]["values"] == ["Dream"]
    assert columns["mass"]["interval"] == {"lower": 2700, "upper": 6301, "widths": []}
    assert columns["bill"]["interval"] == {"lower": Decimal("30.0"), "upper": Decimal("60.0"), "widths": []}
    assert columns["number"]["values"] == ["0", "1"]
    assert columns["age"]["interval"] == {"lower": 0, "upper": 41, "widths": [20]}
    assert columns["sex"]["values"] == ["F", "M"]
    assert "FILL IN" in columns["half"]["interval"]["lower"]
    assert "row" not in columns
    assert "344" not in text
    assert "0.294" not in text
    for said in (
        "Numbers of records are not taken: maxLength.",
        "there are other values too: they are published as *",
        '"nullableProportion"',
        '"row" is a virtual column',
        "bounds are not whole numbers",
        "greatest number itself is published as >= upper",
    ):
        assert said in text


def test_what_is_asked_for_is_complete_and_is_explained(desk) -> None:
    (desk.folder / "people.csv").write_text("id;colour;age;height;town;member;income;born;twice\n", encoding="utf-8")
    begun(desk, FRICTIONLESS, "--columns", "colour,age,height,town,member")
    explained = desk.succeed("explain", "new.toml", "--json").json
    assert [column["column"] for column in explained["columns"]] == ["colour", "age", "height", "town", "member"]


def test_a_release_s_own_csvw_begins_the_next_specification(desk) -> None:
    desk.add_dataset()
    desk.succeed(
        "run", desk.write_spec(file_format="csv", edit=lambda text: text.replace("[data]", "metadata = {}\n[data]", 1))
    )
    desk.succeed("spec", "new", "--from", "out/metadata/csvw.json", "--output", "next.toml")
    tables = tomllib.loads(re.sub("(?m)^# ", "", (desk.folder / "next.toml").read_text()))
    assert tables["data"]["source"] == "out/data.csv"
    assert list(tables["columns"]) == ["colour", "age", "town"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[]", "neither a Table Schema nor CSVW"),
        ("{}", "names no columns"),
        ('{"fields": [{"type": "string"}]}', "column 1 has no name"),
        ('{"fields": [{"name": "a"}, {"name": "a"}]}', "two columns have one name"),
        ('{"fields": [3]}', "neither a Table Schema nor CSVW"),
        ('{"resources": [{"schema": {}}, {"schema": {}}]}', "describes several tables"),
        ('{"fields": [{"name": "a", "type": "number", "constraints": {"minimum": NaN}}]}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"fields": [{"name": "\\ud800"}]}', "not JSON"),
    ],
)
def test_what_is_no_schema_is_refused_and_nothing_is_written(desk, content, said) -> None:
    (desk.folder / "schema.json").write_text(content)
    before = set(desk.folder.iterdir())
    answer = desk("spec", "new", "--from", "schema.json")
    assert (answer.code, said in answer.err) == (2, True), answer.err
    assert "Traceback" not in answer.err
    assert set(desk.folder.iterdir()) == before
    assert desk("spec", "new", "--from", "missing.json").code == 2


@pytest.mark.parametrize(
    "field",
    [
        {"name": 'a"\n[x]\nb = "', "type": "string", "constraints": {"enum": ['"]\n[data]\nquery = "x"', "b"]}},
        {"name": "a", "type": "string", "\n[data]\nx": 1},
        {"name": "a", "type": "integer", "constraints": {"minimum": 1e300, "maximum": 1e301}},
        {"name": "a", "type": "integer", "constraints": {"minimum": 9, "maximum": 1}},
        {"name": "a", "type": "integer", "constraints": {"minimum": "x", "maximum": [1]}},
        {"name": "a", "type": "number", "constraints": {"minimum": "0.00000000000000000001", "maximum": 1}},
        {"name": "a", "type": ["string"], "constraints": {"enum": [None, {"a": 1}]}},
        {"name": "a", "type": {"base": 3}, "partitions": [3, {"predicate": []}]},
        {"name": "a", "type": "boolean", "trueValues": ["y", "Y"], "falseValues": ["n"]},
    ],
)
def test_no_text_of_a_schema_becomes_anything_else_in_the_specification(desk, field) -> None:
    _, tables = begun(desk, {"fields": [field]})
    assert list(tables["columns"]) == [field["name"]]
    assert set(tables["data"]) == {"dataset", "source"}
    assert tables["data"]["source"] == "FILL IN"
    assert set(tables) == {"release", "data", "sampling", "suppression", "privacy", "columns"}


def test_the_records_are_not_opened(desk) -> None:
    """A schema whose records don't exist, and one beside records that nobody may read."""
    Path(desk.folder / "people.csv").unlink()
    text, _ = begun(desk, FRICTIONLESS)
    assert "no record was read" in text
