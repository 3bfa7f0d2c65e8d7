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


def with_person(column: str):
    return lambda text: text.replace('separator = ";"', f'separator = ";"\nperson = "{column}"')


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
    limited = desk.write_spec(source="people.sav", rate="0.5", output="limited", edit=with_person("person"))
    answer = desk("run", limited, "--json")
    assert answer.code == 0, answer.err
    assert pq.read_table(Path(answer.json["output"]) / "data.parquet").num_rows < 600
    desk.succeed("ledger", "verify")


def test_refusals_come_before_the_charge_and_name_the_file(desk):
    desk.add_dataset()
    write_people(desk.folder)
    both = desk.write_spec(source="people.sav", edit=lambda text: text.replace('"red"', '"1"'))
    refused = desk("run", both)
    assert refused.code == 2
    assert "both declared" in refused.err
    numbers = desk("run", desk.write_spec(source="people.sav", edit=with_person("number")))
    assert numbers.code == 2
    assert "people.sav" in numbers.err
    assert "double" in numbers.err
    (desk.folder / "people.sav").write_bytes((desk.folder / "people.sav").read_bytes()[:400])
    cut = desk("run", desk.write_spec(source="people.sav"))
    assert cut.code == 2
    assert "head cannot be read" in cut.err
    assert desk.succeed("ledger", "verify")
    assert not (desk.folder / "out").exists()


ALSO = 'format = "parquet"\nalso = ["sav", "dta"]'


def also(text: str) -> str:
    return text.replace('format = "parquet"', ALSO)


def test_a_release_in_spss_and_stata_has_the_rows_of_the_parquet_file_and_is_verified(desk):
    desk.add_dataset(epsilon="100")
    answer = desk("run", desk.write_spec(rate="0.5", edit=also), "--json")
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
    refused = desk("run", desk.write_spec(edit=lambda text: also(text).replace("[columns.age]", "[columns.int]")))
    assert refused.code == 2
    assert "reserved word" in refused.err
    assert "[release].also" in refused.err
