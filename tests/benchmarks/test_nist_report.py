"""NIST's report: what is drawn from a release agrees with the records, and is written as the survey writes it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.wide.nist_report import model_people, released, survey_records, write_survey_data
from benchmarks.wide.wide_tables import nist_columns

PEOPLE = 3_000
NUMBERS = {"AGEP": (0, 99), "POVPIP": (0, 501), "PWGTP": (1, 400), "WGTP": (0, 400), "NOC": (0, 9), "NPF": (2, 9)}


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of generated people with the excerpt's columns: sex and sight go together, nothing else does."""
    folder, coins = tmp_path_factory.mktemp("survey"), np.random.default_rng(5)
    columns = {
        name: coins.integers(NUMBERS[name][0], NUMBERS[name][1] + 1, PEOPLE).astype(str)
        if name in NUMBERS
        else coins.choice(own.values, PEOPLE)
        for name, own in nist_columns().items()
    }
    columns["DEYE"] = np.where(coins.random(PEOPLE) < 0.9, columns["SEX"], columns["DEYE"])
    columns |= {"INDP": np.full(PEOPLE, "170"), "PINCP": np.full(PEOPLE, "N"), "DENSITY": np.full(PEOPLE, "2000.5")}
    with (folder / "ma2019.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return folder


@pytest.mark.slow
def test_people_drawn_from_a_release_are_like_its_records(survey: Path, tmp_path: Path) -> None:
    names, codes = model_people(released(survey, tmp_path), number=PEOPLE, coins=np.random.default_rng(1))
    assert names == list(nist_columns())
    assert codes.shape == (len(names), PEOPLE)
    for name, own in zip(names, codes, strict=True):
        assert 0 <= own.min() <= own.max() < len(nist_columns()[name].values)
    sex, sight = codes[names.index("SEX")], codes[names.index("DEYE")]
    assert np.mean(sex == sight) > 0.85
    assert np.mean(sex) == pytest.approx(0.5, abs=0.05)


def test_numbers_are_drawn_within_their_bins_and_codes_stay() -> None:
    columns, coins = nist_columns(), np.random.default_rng(2)
    codes = np.array([coins.integers(0, len(own.values), 500) for own in columns.values()])
    rows = survey_records(list(columns), codes, coins=coins)
    for place, own in enumerate(columns.values()):
        assert [own.values.index(own.value_of(row[place])) for row in rows] == codes[place].tolist()
    assert len({row[list(columns).index("AGEP")] for row in rows}) > 90


def test_the_package_finds_what_it_would_download(survey: Path, tmp_path: Path) -> None:
    write_survey_data(survey, tmp_path / "data")
    schema = json.loads((tmp_path / "data" / "massachusetts" / "ma2019.json").read_text())["schema"]
    dictionary = json.loads((tmp_path / "data" / "data_dictionary.json").read_text())
    assert set(schema) == set(dictionary) == {*nist_columns(), "INDP", "PINCP", "DENSITY"}
    assert schema["SEX"] == {"dtype": "int64", "values": [1, 2]}
    assert schema["EDU"]["null_value"] == "N"
    assert dictionary["AGEP"]["values"] == {"min": 0, "max": 99}
