"""Releases of a file of SPSS: by value labels, with a column of persons, and refusals before the charge."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pyreadstat
import pytest

COLOURS = {1.0: "red", 2.0: "green", 3.0: "blue"}


def write_people(folder: Path) -> None:
    people = pd.DataFrame(
        {
            "colour": [1.0, 2.0, 3.0, 9.0] * 300,
            "age": [10.0, 30.0] * 600,
            "town": ["Lyon"] * 1_200,
            "person": [f"p{number // 2}" for number in range(1_200)],
            "number": [float(number // 2) for number in range(1_200)],
        }
    )
    pyreadstat.write_sav(people, folder / "people.sav", variable_value_labels={"colour": COLOURS})


def limited_by(column: str):
    """A release of another data set, whose records a column limits."""

    def edited(text: str) -> str:
        named = text.replace('separator = ";"', f'separator = ";"\nperson = "{column}"')
        return named.replace('dataset = "people"', 'dataset = "limited"')

    return edited


@pytest.mark.slow
def test_value_labels_are_published_and_a_retry_would_read_the_same(desk):
    desk.add_dataset(epsilon="100")
    write_people(desk.folder)
    spec = desk.write_spec(source="people.sav", rate="0.5")
    said = desk.succeed("run", spec, "--dry-run", "--json")
    assert said.json["source"]["format"] == "statistics"
    assert "no value of it is declared" not in said.err
    answer = desk("run", spec, "--json")
    assert answer.code == 0, answer.err
    table = pq.read_table(Path(answer.json["output"]) / "data.parquet")
    assert set(table["colour"].to_pylist()) == {"red", "green", "blue", "*"}
    desk.succeed("verify", answer.json["certificate"])
    desk.succeed("dataset", "add", "limited", "--epsilon", "100", "--delta", "1e-3", "--unit", "person:person")
    limited = desk.write_spec(source="people.sav", rate="0.5", output="limited", edit=limited_by("person"))
    answer = desk("run", limited, "--json")
    assert answer.code == 0, answer.err
    assert pq.read_table(Path(answer.json["output"]) / "data.parquet").num_rows < 600
    desk.succeed("ledger", "verify")


def test_refusals_come_before_the_charge_and_name_the_file(desk):
    desk.add_dataset()
    write_people(desk.folder)
    both = desk.write_spec(source="people.sav", edit=lambda text: text.replace('"red"', '"1"'))
    desk.refuse("run", both, said="both declared")
    desk.succeed("dataset", "add", "limited", "--epsilon", "1", "--delta", "1e-3", "--unit", "person:number")
    desk.refuse("run", desk.write_spec(source="people.sav", edit=limited_by("number")), said=("people.sav", "double"))
    (desk.folder / "people.sav").write_bytes((desk.folder / "people.sav").read_bytes()[:400])
    desk.refuse("run", desk.write_spec(source="people.sav"), said="head cannot be read")
    assert desk.succeed("ledger", "verify")
    assert not (desk.folder / "out").exists()


def also_as(*formats: str, codes: str = ""):
    names = ", ".join(f'"{name}"' for name in formats)

    def edit(text: str) -> str:
        text = text.replace("[release]", f"[release]\nalso = [{names}]", 1)
        return text.replace("[columns.colour]", f"[columns.colour]\n{codes}")

    return edit


def test_a_release_in_spss_and_stata_has_the_rows_of_the_parquet_file_and_is_verified(desk):
    desk.add_dataset(epsilon="100")
    answer = desk("run", desk.write_spec(rate="0.5", edit=also_as("sav", "dta")), "--json")
    assert answer.code == 0, answer.err
    output = Path(answer.json["output"])
    rows = [tuple(row.values()) for row in pq.read_table(output / "data.parquet").to_pylist()]
    for name, read in (("data.sav", pyreadstat.read_sav), ("data.dta", pyreadstat.read_dta)):
        found, said = read(output / name, output_format="dict")
        labels = said.variable_value_labels
        assert (
            list(zip(*([labels[name][code] for code in codes] for name, codes in found.items()), strict=True)) == rows
        )
    desk.succeed("verify", answer.json["certificate"])
    raw_bytes = (output / "data.sav").read_bytes()
    (output / "data.sav").write_bytes(raw_bytes[:-1] + bytes([raw_bytes[-1] ^ 1]))
    assert "data.sav" in desk("verify", answer.json["certificate"]).out


def test_names_that_stata_cannot_have_are_refused_before_the_charge(desk):
    desk.add_dataset()
    people = desk.folder / "people.csv"
    people.write_text(people.read_text().replace("age", "int", 1))
    refused = desk(
        "run", desk.write_spec(edit=lambda text: also_as("sav", "dta")(text).replace("[columns.age]", "[columns.int]"))
    )
    assert refused.code == 2
    assert "reserved word" in refused.err
    assert "[release].also" in refused.err


@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_explain_says_what_the_source_is(desk, ending) -> None:
    desk.add_dataset()
    write_people(desk.folder)
    people, said = pyreadstat.read_sav(desk.folder / "people.sav")
    pyreadstat.write_dta(people, desk.folder / "people.dta", variable_value_labels=said.variable_value_labels)
    told = desk.succeed("explain", desk.write_spec(source=f"people{ending}"))
    assert "Source: 1 file of a statistics package with every column that is named." in told.out


@pytest.mark.slow
def test_what_is_written_for_spss_has_the_declared_codes_and_the_source_s_are_not_taken(desk) -> None:
    """Syntax that was written for the source recodes by 1, 2, 3; by the labels' order blue would be 1."""
    desk.add_dataset(epsilon="100")
    write_people(desk.folder)
    alone = desk.write_spec(source="people.sav", rate="0.5", edit=also_as("sav"))
    assert "[columns.colour] declares no codes" in desk.succeed("explain", alone).out
    wrong = desk.write_spec(source="people.sav", edit=also_as("sav", codes="codes = { red = 2, green = 1 }"))
    assert "are not those of the file's value labels" in desk.succeed("explain", wrong).out
    own = also_as("sav", "dta", codes="codes = { red = 1, green = 2, blue = 3 }")
    spec = desk.write_spec(source="people.sav", rate="0.5", edit=own)
    assert "codes" not in desk.succeed("explain", spec).out
    answer = desk.succeed("run", spec, "--json")
    for read, ending in ((pyreadstat.read_sav, "sav"), (pyreadstat.read_dta, "dta")):
        found, said = read(Path(answer.json["output"]) / f"data.{ending}", output_format="dict")
        assert said.variable_value_labels["colour"] == COLOURS | {4: "*"}
        assert set(found["colour"]) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ("codes = { rde = 1 }", "has no label 'rde' at any level"),
        ("codes = { red = 1, green = 1 }", "two labels have the same code"),
        ("codes = { red = 3000000000 }", "codes"),
    ],
)
def test_codes_of_labels_that_there_are_not_are_refused(desk, codes, said) -> None:
    desk.add_dataset()
    write_people(desk.folder)
    desk.refuse("explain", desk.write_spec(source="people.sav", edit=also_as("sav", codes=codes)), said=said)


def test_a_specification_begins_with_value_labels_and_says_how_numbers_are_read(desk) -> None:
    desk.add_dataset()
    write_people(desk.folder)
    desk.succeed("spec", "new", "--from", "people.sav", "--output", "new.toml", "--columns", "colour,age")
    text = (desk.folder / "new.toml").read_text()
    assert 'values = ["red", "green", "blue"]\ncodes = { red = 1, green = 2, blue = 3 }\nlevel = 0' in text
    assert "only whole numbers are read" not in text
    assert 'interval = { lower = "FILL IN", upper = "FILL IN", widths = [] }' in text
    ready = text.replace('interval = { lower = "FILL IN", upper = "FILL IN", widths = [] }', AGES)
    ready = ready.replace('level = "FILL IN"', "level = 1")
    (desk.folder / "ready.toml").write_text(ready.replace("[release]", '[release]\nalso = ["sav"]', 1))
    told = desk.succeed("explain", "ready.toml")
    assert "codes" not in told.out
    assert "Warning" not in told.out
    answer = desk.succeed("run", "ready.toml", "--json")
    table = pq.read_table(desk.folder / answer.json["output"] / "data.parquet")
    assert "[10, 20)" in table["age"].to_pylist(), "floats that are whole are read as whole numbers"


AGES = "interval = { lower = 0, upper = 100, widths = [10] }"
