"""Every example of the repository runs through the command line as it is, and publishes what it says."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

PROJECT = Path(__file__).resolve().parents[2]
EXAMPLES = PROJECT / "examples"
RESEARCHED = EXAMPLES / "wages" / "wages.toml"
SPECS = sorted(path for path in EXAMPLES.glob("*/*.toml") if path != RESEARCHED)

PRICED_LONG = ("survey", "unequal-rates")
"""Examples whose price takes a second each time, which is a dozen times."""
UNTOLD = ("body-sizes", "library-visits", "favourite-words")
"""Examples of kinds that have neither a researcher's sheet nor a preview."""


@pytest.fixture(scope="module")
def with_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples with their records."""
    copy = tmp_path_factory.mktemp("records") / "examples"
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns("out-*", "*.csv"))
    for script in copy.glob("*/records.py"):
        spec = importlib.util.spec_from_file_location(f"records_of_{script.parent.name}", script)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main()
    return copy


@pytest.fixture
def examples(desk, with_records) -> Path:
    """A copy of the examples with their records, and the data sets that they name."""
    copy = desk.folder / "examples"
    shutil.copytree(with_records, copy)
    budget = ("--epsilon", "30", "--delta", "1e-3")
    alone = [("colours",), ("incomes",), ("body-sizes",), ("readers",), ("wages",)]
    replaced = [(name, "--relation", "replacement") for name in ("employees", "phones", "commuters")]
    for words in (*alone, *replaced, ("readers-survey", "--survey-rate", "0.2")):
        desk.succeed("dataset", "add", *words, *budget)
    return copy


def rows(folder: Path) -> list[dict]:
    if (folder / "data.parquet").exists():
        return pq.read_table(folder / "data.parquet").to_pylist()
    with (folder / "data.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_examples_are_all_here() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(SPECS) >= 6
    assert [spec.name for spec in (*SPECS, RESEARCHED) if f"`{spec.name}`" not in listed] == []


@pytest.mark.parametrize(
    "spec",
    [pytest.param(path, marks=pytest.mark.slow if path.stem in PRICED_LONG else ()) for path in SPECS],
    ids=lambda path: path.stem,
)
def test_an_example_is_explained_charged_published_and_verified(desk, examples, spec) -> None:
    here = examples / spec.parent.name / spec.name
    explained = desk.succeed("explain", here, "--json")
    done = desk.succeed("run", here, "--json")
    result = done.json
    assert (result["epsilon"], result["delta"]) == (explained.json["epsilon"], explained.json["delta"])
    assert explained.json["cells"] == result["published_groups"]
    published = result["published_records"] if spec.stem.endswith("-points") else result["published_groups"]
    assert len(rows(Path(result["output"]))) == published > 0
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")
    [release] = desk("ledger", "show", "--json").json["releases"]
    assert release["epsilon"] == result["epsilon"]
    certificate = json.loads(Path(result["certificate"]).read_text())
    sampled = result["mechanism"].get("sampling_rate", "whole") != "whole"
    assert ("no sample was drawn" in certificate["guarantee"]["in_words"]) is not sampled
    replaced = spec.stem in ("mean-income", "words", "drinks", "habits")
    assert certificate["guarantee"]["neighbours"] == ("replacement" if replaced else "add/remove")
    (desk.folder / "sheets").mkdir()
    told = desk("sheet", Path(result["output"]), "--output", desk.folder / "sheets")
    untold = spec.parent.name in UNTOLD
    assert (told.code, "there is no sheet of points" in told.err) == (2 if untold else 0, untold), told.err
    if untold:
        predicted = desk("preview", here, "--public", here.with_name("records.csv"))
        assert (predicted.code, "there is no preview of points" in predicted.err) == (2, True), predicted.err


def test_from_a_release_to_a_figure(desk, examples) -> None:
    here = examples / "wages"
    folder = desk.succeed("run", here / "wages.toml", "--json").json["output"]
    picture = desk.folder / "wages.svg"
    done = subprocess.run(
        [sys.executable, here / "figure.py", folder, picture], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "</svg>" in picture.read_text(encoding="utf-8")
    shown = [line.split()[:1] for line in done.stdout.splitlines()]
    for name in ("none", "school", "college", "(constant)", "age", "schooling[school]", "sex[Male]", "By"):
        assert [name] in shown
