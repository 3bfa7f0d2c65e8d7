"""Deletion releases whose map, or chain of maps, is drawn: published as drawn, charged, certified, never redrawn."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate.verify import map_findings
from crowdblend.flows.spec import read_spec

NAMES = ("colour", "age", "town")
CHAINS = """candidates = [
  { colour = [0, 0], age = [1, 3], town = [1, 1] },
  { colour = [0, 1], age = [1, 2], town = [1, 2] },
  { colour = [1, 1], age = [2, 3], town = [0, 0] },
]
"""
SPEC = """
[release]
name = "chosen"
form = "counts"
output = "{output}"
[data]
dataset = "people"
source = "people.csv"
separator = ";"
[deletion]
{deletion}
[privacy]
epsilon = {epsilon}
delta = 1e-6
[selection]
epsilon = 0.2
{selection}
[columns.colour]
values = ["blue", "green", "red"]
{colour}
[columns.age]
interval = {{ lower = 0, upper = 100, widths = [10, 50] }}
{age}
[columns.town]
hierarchy = "towns.csv"
{town}
"""


def spec_of(desk, *, file: str = "chosen.toml", **changes: str) -> Path:
    given = {"output": "out", "deletion": "", "epsilon": "1", "selection": "", "colour": "", "age": "", "town": ""}
    path = desk.folder / file
    path.write_text(SPEC.format(**given | changes), encoding="utf-8")
    return path


def ran(desk, spec: Path, *words: str) -> dict:
    return desk.succeed("run", spec, "--json", *words).json


def told(path: str | Path) -> dict:
    return json.loads(Path(path).read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_drawn_map_is_the_published_one(desk) -> None:
    desk.add_dataset()
    spec = spec_of(desk, deletion='shape = "optimal"', town="min_level = 1")
    result = ran(desk, spec)
    assert result["mechanism"]["kind"] == "selected-deletion-release/2"
    assert result["mechanism"]["selection_epsilon"] == "0.2"
    assert result["mechanism"]["epsilon"] == "0.8"
    assert 0.9999 < result["epsilon"] <= 1
    assert result["sample_id"] is None
    assert result["timings"]["select"] > 0
    certificate = told(result["certificate"])
    chosen = certificate["map"]["selection"]
    assert {one["column"]: one["level"] for one in certificate["map"]["columns"]} == result["levels"]
    assert (chosen["maps"], chosen["draw"], chosen["epsilon"], chosen["rate"]) == (
        2 * 4 * 2,
        "exponential",
        "0.2",
        None,
    )
    assert chosen["quality"] == "weighted-excess/1"
    assert chosen["threshold"] == read_spec(spec, output=None).mechanism.selection_threshold
    assert "before the records were counted" in chosen["in_words"]
    assert "drawn privately" in certificate["guarantee"]["in_words"]
    assert "fixed before" not in json.dumps(certificate)
    [stage] = result["stages"]
    assert stage["levels"] == result["levels"]
    table = pq.read_table(Path(result["output"]) / "data.parquet")
    assert table.column_names == [*NAMES, "weight", "count"]
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")
    again = ran(desk, spec, "--release-id", result["release_id"])
    assert again["looked_up"]
    assert again["levels"] == result["levels"]


def test_the_drawn_chain_is_the_published_one_and_verify_holds_it_against_the_candidates(desk) -> None:
    desk.add_dataset()
    spec = spec_of(desk, selection=CHAINS)
    explained = desk.succeed("explain", spec, "--json").json
    assert (explained["maps"], explained["stages"]) == (3, [])
    assert explained["selection"]["candidates"][1] == {"colour": [0, 1], "age": [1, 2], "town": [1, 2]}
    assert explained["selection"]["epsilon_of_choice"] == 0.2
    assert explained["epsilon"] <= explained["selection"]["epsilon_of_release"] + 0.2 + 1e-9
    assert "ε of one choice" in desk.succeed("explain", spec).out
    dry = desk.succeed("run", spec, "--dry-run", "--json").json
    assert (dry["levels"], dry["charge"]["epsilon"]) == (None, explained["epsilon"])
    result = ran(desk, spec)
    drawn = [[stage["levels"][name] for name in NAMES] for stage in result["stages"]]
    certificate = told(result["certificate"])
    chosen = certificate["map"]["selection"]
    assert chosen["quality"] == "weighted-residual-excess/1"
    assert len(chosen["lattice"]["candidates"]) == chosen["maps"] == 3
    assert drawn in chosen["lattice"]["candidates"]
    assert "chain of maps" in chosen["in_words"]
    [stored] = desk.home.rglob("map.draw.json")
    assert told(stored)["levels"] == [level for stage in drawn for level in stage]
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")

    assert map_findings(certificate) == ()
    for change in (
        lambda one: one["published"]["stages"][1]["levels"].update(age=9),
        lambda one: one["published"]["stages"].pop(),
        lambda one: one["map"]["selection"].update(quality="weighted-excess/1"),
        lambda one: one["map"]["selection"].update(threshold=1),
        lambda one: one["map"]["selection"].update(epsilon="0.1"),
        lambda one: one["map"].pop("selection"),
    ):
        other = json.loads(json.dumps(certificate))
        change(other)
        assert map_findings(other) != ()
