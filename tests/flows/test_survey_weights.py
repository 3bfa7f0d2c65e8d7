"""Survey weights from `explain` to `verify`: classes instead of values, rows with numbers, totals; what is refused."""

from __future__ import annotations

import csv
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate.verify import read_certificate
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kinds.paired_deletion import PairedDeletion
from support.counted import counted

HEAD = """
[release]
name = "weighed"
form = "{form}"
format = "{file_format}"
output = "out"
[data]
dataset = "people"
source = "people.csv"
{data}
[deletion]
[privacy]
epsilon = 1
delta = 1e-6
{margins}
[columns.sex]
values = ["f", "m"]
levels = {sex}
[columns.age]
interval = {{ lower = 0, upper = 90, widths = [10, 30] }}
levels = {age}
{more}
"""
BOUNDS = [1, 5, 10, 20, 50]
DATA = 'weight = "base weight"\nweight_classes = { bounds = [1, 5, 10, 20, 50] }'
CHOSEN = {"sex": '"auto"', "age": '"auto"', "margins": '[margins]\npairs = "auto"'}
FIXED = {"sex": "[0, 0]", "age": "[1, 2]", "margins": "[margins]"}


def spec_of(desk, **changes: str) -> Path:
    path = desk.folder / "weighed.toml"
    given = {"form": "microdata", "file_format": "parquet", "data": DATA, "more": ""}
    path.write_text(HEAD.format(**given | CHOSEN | changes), encoding="utf-8")
    return path


@pytest.fixture
def people(desk) -> dict[str, np.ndarray]:
    """5,000 records; the old weigh less, some have no weight and some more than the last bound."""
    coins = np.random.default_rng(6)
    ages = coins.integers(0, 90, 5_000)
    weights = np.round(np.exp(coins.normal(2.6 - ages / 90, 0.5)), 2)
    weights[:20], weights[20:60] = np.nan, 75.0
    columns = {"sex": coins.choice(["f", "m"], 5_000), "age": ages, "base weight": weights}
    texts = [["" if one != one else str(one) for one in own.tolist()] for own in columns.values()]  # noqa: PLR0124 - NaN
    lines = [",".join(columns), *(",".join(record) for record in zip(*texts, strict=True))]
    (desk.folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    desk.add_dataset(epsilon=20)
    return columns


def true_weights(people: dict[str, np.ndarray], mean: float) -> np.ndarray:
    """What each record weighs: its own weight, clipped, or the published mean."""
    return np.where(np.isnan(people["base weight"]), mean, np.clip(people["base weight"], 1, 50))


@pytest.mark.parametrize(
    "way", [pytest.param(CHOSEN, id="chosen"), pytest.param(FIXED, id="fixed", marks=pytest.mark.slow)]
)
def test_rows_have_a_number_and_totals_are_near_those_of_the_weights(desk, people, way) -> None:
    spec = spec_of(desk, **way)
    explained = desk.succeed("explain", spec, "--json").json
    assert explained["survey_weights"] == {"column": "base weight", "bounds": BOUNDS}
    assert "base weight" in desk.succeed("explain", spec).out
    result = desk.succeed("run", spec, "--json").json
    folder, facts = Path(result["output"]), result["survey_weights"]
    rows = pq.read_table(folder / "data.parquet").to_pylist()
    middles = {"< 5": math.sqrt(5), "[5, 10)": math.sqrt(50), "[10, 20)": math.sqrt(200), ">= 20": math.sqrt(1_000)}
    for row in rows:
        if row["base weight"] in middles:
            assert row["survey_weight"] == pytest.approx(middles[row["base weight"]])
        assert math.sqrt(5) <= row["survey_weight"] <= math.sqrt(1_000)
    weights = true_weights(people, facts["mean"])
    totals = {(row["column"], row["label"]): row for row in pq.read_table(folder / "totals.parquet").to_pylist()}
    assert list(totals)[:2] == [("", ""), ("base weight", "*")]
    assert totals["", ""]["total"] == facts["total"]
    assert facts["interval_low"] < weights.sum() < facts["interval_high"]
    assert facts["total"] == pytest.approx(weights.sum(), rel=0.1)
    # Both are near the same sum, up to noise and to groups that are missing; no error of rows is stated.
    assert sum(row["weight"] * row["survey_weight"] for row in rows) == pytest.approx(facts["total"], rel=0.15)
    # Each interval fails once in 20 releases where all weights lie at one end of their classes, which they don't.
    for label in ("f", "m"):
        own = totals["sex", label]
        assert own["interval_low"] < weights[people["sex"] == label].sum() < own["interval_high"]
        assert own["total"] == pytest.approx(weights[people["sex"] == label].sum(), rel=0.15)
    assert {column for column, _ in totals} == {"", "base weight", "sex", "age"}
    assert ("fitted" in totals["", ""]) is (way is CHOSEN)
    certificate = read_certificate(Path(result["certificate"]))
    said = certificate["published"]["survey_weights"]["in_words"]
    assert "A weight below 1 counted as 1 and one above 50 as 50; how many there were isn't told" in said
    assert set(certificate["files"]) == {"data.parquet", "margins.parquet", "totals.parquet"}
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")


def test_the_sheet_says_how_the_population_is_counted_and_what_no_error_covers(
    desk, people, needs, monkeypatch, tmp_path
) -> None:
    result = desk.succeed("run", spec_of(desk, **FIXED, form="counts", file_format="csv"), "--json").json
    folder = Path(result["output"])
    answer = desk.succeed("sheet", folder, "--output", tmp_path, "--json").json
    page, text = Path(answer["html"]).read_text(), Path(answer["markdown"]).read_text()
    said = text.split("## The population")[1].split("## How to check it")[0]
    for words in (
        "no strata, no clusters, no replicate weights",
        "weight × survey_weight × count",
        "one above 50 as 50",
    ):
        assert words in said
        assert words in page
    code = dict(re.findall(r"^### (\w+)\n\n```\w+\n(.*?)```", said, re.DOTALL | re.MULTILINE))
    assert list(code) == ["pandas", "R"]
    monkeypatch.chdir(folder)
    space: dict = {}
    exec(code["pandas"], space)  # noqa: S102 - what a researcher would run
    rows = list(csv.DictReader((folder / "data.csv").read_text().splitlines()))
    factors = ("weight", "survey_weight", "count")
    assert space["people"].sum() == pytest.approx(sum(math.prod(float(row[name]) for name in factors) for row in rows))
    totals = space["totals"]
    assert totals[totals["column"] == "sex"]["label"].tolist() == ["*", "f", "m"]
    assert "weights = ~I(survey_weight * weight * count)" in code["R"]
    [by_kit] = re.findall(r"^### Python\n\n```python\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    assert "base weight" not in by_kit, "nobody asks for records by classes of weights"
    exec(by_kit, space)  # noqa: S102
    assert space["release"].count().source == "margins"
    needs(shutil.which("Rscript") is not None, "R", "CROWDBLEND_TEST_R")
    (tmp_path / "code.R").write_text(code["R"])  # R's package survey need not be there
    subprocess.run(["Rscript", "-e", "invisible(parse('code.R'))"], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.slow
def test_every_block_has_the_classes_and_the_numbers(desk, people, tmp_path) -> None:
    spec = spec_of(desk, more="[blocks]\nnumber = 2")
    result = desk.succeed("run", spec, "--json").json
    assert len(result["blocks"]) == 2
    for block in result["blocks"]:
        assert block["columns"][-1] == "base weight"
        rows = pq.read_table(Path(result["output"]) / f"data-{block['name']}.parquet").to_pylist()
        sums = sum(row["weight"] * row["survey_weight"] for row in rows)
        assert sums == pytest.approx(result["survey_weights"]["total"], rel=0.15)
    desk.succeed("verify", result["certificate"])
    answer = desk.succeed("sheet", result["output"], "--output", tmp_path, "--json").json
    code = Path(answer["markdown"]).read_text().split("## The population")[1]
    first = result["blocks"][0]
    assert f'"data-{first["name"]}.parquet"' in code
    assert re.findall(r'rows\[\["(.*?)"\]\]', code) == first["columns"][:1]


@pytest.mark.slow
def test_counts_in_csv_are_described_and_read_back(desk, people) -> None:
    more = '[release.metadata]\ntitle = "T"'
    spec = spec_of(desk, **FIXED, form="counts", file_format="csv", more=more)
    result = desk.succeed("run", spec, "--json").json
    folder = Path(result["output"])
    head = (folder / "data.csv").read_text().splitlines()[0]
    assert head == "sex,age,base weight,stage,weight,survey_weight,count"
    assert (folder / "totals.csv").read_text().splitlines()[1].startswith(",,")
    dictionary = (folder / "metadata" / "data-dictionary.md").read_text()
    assert "by the middle of its class of survey weights" in dictionary
    assert "A figure that the mechanism publishes" not in dictionary
    assert (folder / "metadata" / "ddi-codebook.xml").read_text().count('wgt="wgt"') == 2
    desk.succeed("verify", result["certificate"])
    desk.succeed("report", "private", spec, "out")


@pytest.mark.parametrize("way", [CHOSEN, FIXED], ids=["chosen", "fixed"])
def test_the_price_is_that_of_one_more_column_and_its_pairs(desk, way) -> None:
    """The mechanism knows nothing of weights: a listed column of as many labels has the same one."""
    levels = way["sex"].replace("0, 0", "0, 1") if way is FIXED else '"auto"'
    column = f'[columns.own]\nvalues = ["a", "b", "c", "d"]\nlevels = {levels}'
    pairs = 'pairs = "auto"\nnumber = 3' if way is CHOSEN else 'pairs = [["sex", "own"], ["age", "own"]]'
    listed = read_spec(
        spec_of(desk, **way | {"data": "", "more": column, "margins": f"[margins]\n{pairs}"}), output=None
    )
    weighed = read_spec(spec_of(desk, **way), output=None)
    assert weighed.mechanism == listed.mechanism
    assert weighed.price == listed.price
    if way is CHOSEN:
        assert isinstance(weighed.mechanism, PairedDeletion)
        assert weighed.mechanism.pairs == 1 + 2, "one pair is chosen, and two columns are counted with the classes"


def test_pairs_with_the_classes_come_first_whatever_the_records_are(desk) -> None:
    plan = read_spec(spec_of(desk), output=None).paired
    assert plan is not None
    wanted = [one for one in plan.candidates if 2 in (one.first, one.second) and one.detail == 0]
    order = np.argsort(plan.penalties())
    assert {plan.candidates[place] for place in order[: len(wanted)]} == set(wanted)
    last_wanted, first_other = (plan.penalties()[order[place]] for place in (len(wanted) - 1, len(wanted)))
    # Qualities differ by at most the number of records, of which no file has a thousandth of so many.
    assert first_other - last_wanted > 10**12 * 4_096 // 2


def test_records_that_differ_in_weights_of_one_class_alone_are_counted_alike(desk, people) -> None:
    columns = {"sex": ValueHierarchy.from_values(["f", "m"])}
    classes = read_spec(spec_of(desk, **FIXED), output=None).maps[0].columns[2].hierarchy
    lower, upper = classes.ends()
    coins = np.random.default_rng(9)
    codes = coins.integers(0, 4, 500)
    for file, at in (("one.csv", lower), ("other.csv", np.nextafter(upper, 0))):
        weights = at[codes]
        if file == "other.csv":
            weights = np.where(codes == 3, coins.uniform(20, 1e6, 500), np.where(codes == 0, -4.5, weights))
        lines = ["sex,base weight", *(f"{'fm'[n % 2]},{weight!r}" for n, weight in enumerate(weights.tolist()))]
        (desk.folder / file).write_text("\n".join(lines) + "\n")
    both = [counted(file, desk.folder, {**columns, "base weight": classes}) for file in ("one.csv", "other.csv")]
    assert both[0] == both[1]
    assert sum(both[0].values()) == 500


def test_what_decides_the_classes_decides_the_release(desk) -> None:
    one = read_spec(spec_of(desk), output=None)
    other = read_spec(spec_of(desk, data=DATA.replace("50", "51")), output=None)
    assert one.digest != other.digest
    assert one.digest == replace(one).digest


REFUSED = {
    "alone": ({"data": 'weight = "base weight"'}, "[data].weight_classes: a column of survey weights and the classes"),
    "classes": ({"data": "weight_classes = { bounds = [1, 2, 3] }"}, "[data].weight: a column of survey weights and"),
    "released": (
        {"more": '[columns."base weight"]\nvalues = ["1"]\nlevels = "auto"'},
        "[data].weight: the column 'base weight' has the survey weights, and it is among the released columns",
    ),
    "margins": (FIXED | {"margins": ""}, "[data].weight: totals of survey weights follow from the margins"),
    "total": (FIXED | {"margins": "[margins]\ncolumns = false"}, "[data].weight: totals of survey weights follow"),
    "falling": ({"data": DATA.replace("20", "4")}, "[data.weight_classes]: bounds of weights must ascend"),
    "zero": ({"data": DATA.replace("[1", "[0")}, "[data.weight_classes]: bounds of weights must be above 0"),
    "named": (
        {"data": DATA.replace("base weight", "weight")},
        "[data.weight_classes]: a released column can't be called",
    ),
    "merged": (
        FIXED | {"data": DATA.replace("] }", "], levels = [2, 2] }")},
        "[data.weight_classes].levels: totals follow from counts by the classes",
    ),
    "level": (
        FIXED | {"data": DATA.replace("] }", "], levels = [0, 3] }")},
        "[data.weight_classes].levels: level 3 does",
    ),
    "number": ({"more": '[columns.survey_weight]\nvalues = ["1"]\nlevels = "auto"'}, "can't be called survey_weight"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_weights_that_are_declared_wrongly_are_refused(desk, fault) -> None:
    changes, said = REFUSED[fault]
    desk.refuse("explain", spec_of(desk, **changes), said=said)


def test_another_kind_of_release_does_not_know_weights(desk) -> None:
    text = spec_of(desk, **FIXED).read_text().replace("[deletion]", "[sampling]\nrate = 0.1\n[suppression]\nk = 20")
    (desk.folder / "sampled.toml").write_text(
        text.replace("levels = [0, 0]", "level = 0").replace("levels = [1, 2]", "level = 1")
    )
    desk.refuse("explain", desk.folder / "sampled.toml", said="[data].weight: survey weights are released with")
