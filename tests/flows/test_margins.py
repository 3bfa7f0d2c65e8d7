"""Noisy margins beside a deletion release: every declared cell, under the same charge, never redrawn; weights fit."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate.verify import read_certificate
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.deploy import release_check
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion

SPEC = """
[release]
name = "weighed"
form = "{form}"
format = "{file_format}"
output = "out"
[data]
dataset = "people"
source = "people.csv"
[deletion]
{deletion}
[privacy]
epsilon = 1
delta = 1e-6
[margins]
{margins}
[columns.sex]
values = ["f", "m", "x"]
levels = [0, 0]
[columns.age]
interval = {{ lower = 0, upper = 90, widths = [10, 30] }}
levels = [1, 2]
"""
AGES = ["*", "< 0", *(f"[{age}, {age + 10})" for age in range(0, 90, 10)), ">= 90"]
SEXES = ["*", "f", "m", "x"]


def spec_of(desk, **changes: str) -> Path:
    path = desk.folder / "weighed.toml"
    given = {"form": "microdata", "file_format": "parquet", "deletion": "", "margins": 'pairs = [["age", "sex"]]'}
    path.write_text(SPEC.format(**given | changes), encoding="utf-8")
    return path


@pytest.fixture
def people(desk) -> list[tuple[str, str]]:
    """4,000 records; nobody is x or below 20, some have no sex."""
    coins = np.random.default_rng(3)
    sexes = coins.choice(["f", "m", ""], 4_000, p=(0.6, 0.38, 0.02)).tolist()
    records = list(zip(sexes, coins.integers(20, 95, 4_000).astype(str).tolist(), strict=True))
    lines = [",".join(record) for record in [("sex", "age"), *records]]
    (desk.folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    desk.add_dataset()
    return records


def labelled(records: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The labels of the first stage."""
    return [(sex or "*", AGES[min(int(age) // 10, 9) + 2]) for sex, age in records]


def rows_of(folder: Path, stem: str) -> list[dict]:
    if (folder / f"{stem}.csv").exists():
        with (folder / f"{stem}.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))
    return pq.read_table(folder / f"{stem}.parquet").to_pylist()


def coarse(age: str) -> str:
    """The label of the last stage."""
    if age[0] != "[" or age in ("[0, 30)", "[30, 60)", "[60, 90)"):
        return age
    low = int(age[1:].split(",", maxsplit=1)[0]) // 30 * 30
    return f"[{low}, {low + 30})"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "file_format"), [("microdata", "parquet"), pytest.param("counts", "csv", marks=pytest.mark.slow)]
)
def test_every_declared_cell_is_published_with_noise_and_weights_fit_it(desk, people, form, file_format) -> None:
    spec = spec_of(desk, form=form, file_format=file_format)
    result = desk.succeed("run", spec, "--json").json
    folder, facts = Path(result["output"]), result["margins"]
    cells = rows_of(folder, "margins")
    wanted = [("sex", one, "", "") for one in SEXES] + [("age", one, "", "") for one in AGES]
    wanted += [("sex", one, "age", other) for one in SEXES for other in AGES]
    names = ("column", "label", "second_column", "second_label")
    assert [tuple(row[name] for name in names) for row in cells] == wanted
    assert facts["cells"] == len(wanted) == 4 + 12 + 48
    assert facts["columns"] == [["sex"], ["age"], ["sex", "age"]]
    mechanism = read_spec(spec, output=None).mechanism
    true: Counter = Counter()
    for sex, age in labelled(people):
        true.update([("sex", sex, "", ""), ("age", age, "", ""), ("sex", sex, "age", age)])
    noise = [int(row["count"]) - true[cell] for row, cell in zip(cells, wanted, strict=True)]
    assert max(map(abs, noise)) <= mechanism.margin_width
    assert facts["standard_error"] == pytest.approx(float(mechanism.margin_scale), rel=0.01)
    # 64 draws: their mean is within 6 of its standard deviations but for 2e-9.
    assert abs(np.mean(noise)) < 6 * facts["standard_error"] / len(noise) ** 0.5
    assert len(set(noise)) > 10, "each cell has a draw of its own"

    sums: dict[str, dict[str, float]] = {"sex": defaultdict(float), "age": defaultdict(float)}
    published: Counter = Counter()
    for row in rows_of(folder, "data"):
        records = int(row.get("count", 1))
        for column, label in (("sex", row["sex"]), ("age", coarse(row["age"]))):
            sums[column][label] += float(row["weight"]) * records
            published[column, label] += records
    assert sum(sums["sex"].values()) == pytest.approx(facts["records"])
    assert abs(facts["records"] - 4_000) < 6 * facts["standard_error"] * 2, "the margin of 4 cells weighs most"
    noisy: dict[str, dict[str, int]] = {"sex": defaultdict(int), "age": defaultdict(int)}
    for row in cells[: 4 + 12]:
        noisy[row["column"]][coarse(row["label"])] += int(row["count"])
    for column, found in sums.items():
        aims = {label: max(noisy[column][label], published[column, label]) for label in found}
        share = facts["records"] / sum(aims.values())
        for label, weight in found.items():
            slack = 1.5 * facts["largest_difference"] * facts["records"] + 1  # it is of the last round's beginning
            assert abs(weight - aims[label] * share) <= slack, (column, label)
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")


def test_the_parts_are_charged_together_and_each_is_told(desk, people) -> None:
    result = desk.succeed("run", spec_of(desk), "--json").json
    certificate = read_certificate(Path(result["certificate"]))
    assert set(certificate["files"]) == {"data.parquet", "margins.parquet"}
    assert certificate["mechanism"]["kind"] == "calibrated-deletion-release/1"
    assert "3 margins of the same records are published" in certificate["guarantee"]["in_words"]
    facts = certificate["published"]["margins"]
    assert facts == result["margins"]
    mechanism = read_spec(spec_of(desk), output=None).mechanism
    assert isinstance(mechanism, CalibratedDeletion)
    charged = price(mechanism, delta=Decimal("1e-6")).epsilon
    assert float(charged) == result["epsilon"] <= 1
    assert 0.15 < facts["epsilon_alone"] < 0.2
    assert 0.9 < facts["rows_epsilon_alone"] < float(charged) < facts["epsilon_alone"] + facts["rows_epsilon_alone"]
    told = desk.succeed("explain", spec_of(desk)).out
    assert "margins alone" in told
    assert desk.succeed("explain", spec_of(desk), "--json").json["margins"]["epsilon_alone"] == facts["epsilon_alone"]
    path = Path(result["certificate"])
    changed = json.loads(json.dumps(certificate))
    columns = changed["map"]["columns"]
    assert list(release_check._label_findings(changed, columns, path.parent)) == []
    for wrong in ([["sex"], ["age"]], [["sex"], ["age"], ["sex", "town"]]):
        changed["published"]["margins"]["columns"] = wrong
        [finding] = release_check._label_findings(changed, columns, path.parent)
        assert finding == "its margins are not those of its mechanism and its map"
    (path.parent / "margins.parquet").write_bytes(b"other")
    assert "margins.parquet is not the file that was certified" in desk("verify", path).out


def test_margins_of_levels_that_are_still_to_be_drawn_are_refused(desk) -> None:
    text = spec_of(desk).read_text().replace("[columns.sex]", "[selection]\nepsilon = 0.1\n[columns.sex]")
    (desk.folder / "weighed.toml").write_text(text.replace("levels = [0, 0]\n", "").replace("levels = [1, 2]\n", ""))
    answer = desk("explain", desk.folder / "weighed.toml")
    assert (answer.code, "[margins]: margins are counted by levels that are known" in answer.err) == (2, True), (
        answer.err
    )


def test_given_noise_is_composed_with_that_of_the_margins(desk) -> None:
    given = 'shape = "gaussian"\nscale = 7\nwidth = 40'
    request = read_spec(spec_of(desk, deletion=given), output=None)
    assert request.mechanism.noise.width == 40
    assert request.price == price(request.mechanism, delta=Decimal("1e-6"))
    alone = read_spec(spec_of(desk, deletion=given, margins="share = 0.4"), output=None)
    assert alone.mechanism.margins == 2
    assert alone.digest != request.digest
