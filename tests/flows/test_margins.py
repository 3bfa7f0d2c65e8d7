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
from crowdblend.flows.margin_specs import fitted_cells
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.generalization_map import GeneralizationMap
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion
from crowdblend.mechanisms.pair_model.paired_plan import code_tables
from crowdblend.mechanisms.pair_model.row_estimates import RowStage

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
epsilon = {epsilon}
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
    given = {"form": "microdata", "file_format": "parquet", "deletion": "", "epsilon": "1"}
    given["margins"] = 'pairs = [["age", "sex"]]'
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


def cells_of_pair(file_format: str) -> list[tuple[str | None, ...]]:
    """Return what is counted of both columns and of their pair; there is no null in CSV."""
    none = "" if file_format == "csv" else None
    alone = [(column, one, none, none) for column, labels in (("sex", SEXES), ("age", AGES)) for one in labels]
    return alone + [("sex", one, "age", other) for one in SEXES for other in AGES]


def true_counts(records: list[tuple[str, str]], file_format: str) -> Counter:
    """Return how many records each of these cells has."""
    none, true = "" if file_format == "csv" else None, Counter()
    for sex, age in labelled(records):
        true.update([("sex", sex, none, none), ("age", age, none, none), ("sex", sex, "age", age)])
    return true


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
    wanted = cells_of_pair(file_format)
    names = ("column", "label", "second_column", "second_label")
    assert [tuple(row[name] for name in names) for row in cells] == wanted
    assert [*cells[0]] == [*names, "count", "standard_error", "fitted"]
    assert facts["cells"] == len(wanted) == 4 + 12 + 48
    assert facts["columns"] == [["sex"], ["age"], ["sex", "age"]]
    mechanism = read_spec(spec, output=None).mechanism
    true = true_counts(people, file_format)
    noise = [int(row["count"]) - true[cell] for row, cell in zip(cells, wanted, strict=True)]
    assert max(map(abs, noise)) <= mechanism.margin_width
    assert facts["standard_error"] == pytest.approx(float(mechanism.margin_scale), rel=0.01)
    assert {float(row["standard_error"]) for row in cells} == {facts["standard_error"]}
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


def labels_of(one: GeneralizationMap) -> list[list[str]]:
    return [column.hierarchy.labels(np.arange(column.size), column.level) for column in one.columns]


@pytest.mark.parametrize(("form", "file_format"), [("counts", "parquet"), ("microdata", "csv")])
def test_fitted_counts_agree_and_follow_from_what_is_published(desk, people, form, file_format) -> None:
    spec = spec_of(desk, form=form, file_format=file_format)
    result = desk.succeed("run", spec, "--json").json
    folder, maps = Path(result["output"]), read_spec(spec, output=None).maps
    cells = rows_of(folder, "margins")
    fitted = np.array([float(row["fitted"]) for row in cells])
    alone, pair = fitted[:16], fitted[16:].reshape(4, 12)
    assert (fitted >= 0).all()
    # Thirty rounds of scaling end with the columns; the rows are then off by some records where cells are empty.
    assert pair.sum(axis=1) == pytest.approx(alone[:4], abs=0.05 * alone[:4].sum())
    assert pair.sum(axis=0) == pytest.approx(alone[4:], abs=0.1)
    assert alone[:4].sum() == pytest.approx(alone[4:].sum(), abs=0.1)
    true = true_counts(people, file_format)
    truth = np.array([true[cell] for cell in cells_of_pair(file_format)], dtype=float)
    # Half of the pair's cells are empty, and counts below 0 are off for certain there: the model's are nearer in sum.
    noisy = np.array([int(row["count"]) for row in cells])
    assert np.abs(fitted - truth)[16:].sum() < np.abs(noisy - truth)[16:].sum()

    places = [[{label: place for place, label in enumerate(own)} for own in labels_of(one)] for one in maps]
    stages = []
    for number, (one, known) in enumerate(zip(maps, places, strict=True), start=1):
        rows = [row for row in rows_of(folder, "data") if int(row["stage"]) == number]
        codes = [
            np.array([place[row[name]] for row in rows], dtype=np.int64)
            for place, name in zip(known, one.names, strict=True)
        ]
        mass = np.array([float(row["weight"]) * int(row.get("count", 1)) for row in rows])
        stages.append(RowStage(codes=codes, mass=mass, labels=code_tables(maps[0], one), sizes=one.sizes))
    again = fitted_cells(
        maps[0],
        [(0,), (1,), (0, 1)],
        np.split(noisy, [4, 16]),
        error=result["margins"]["standard_error"],
        rows=lambda: stages,
    )
    assert np.concatenate(again) == pytest.approx(fitted, abs=0.01)


def test_columns_without_pairs_and_a_total_have_fitted_counts_of_their_own(desk, people) -> None:
    for margins, columns in (("", 2), ("columns = false", 0)):
        spec = spec_of(desk, margins=margins)
        spec.write_text(spec.read_text().replace('"out"', f'"out-{columns}"\nalso = ["dta", "sav"]'))
        result = desk.succeed("run", spec, "--json").json
        cells = rows_of(Path(result["output"]), "margins")
        assert {(row["second_column"], row["second_label"]) for row in cells} == {(None, None)}
        if columns:
            sums = [sum(row["fitted"] for row in cells if row["column"] == name) for name in ("sex", "age")]
            assert sums == pytest.approx([sums[0]] * 2, abs=0.1)
            assert min(row["fitted"] for row in cells) >= 0
        else:
            [cell] = cells
            assert (cell["column"], cell["label"], cell["fitted"]) == (None, None, cell["count"])
        desk.succeed("verify", result["certificate"])
        desk.succeed("sheet", result["output"], "--output", desk.folder / f"sheet-{columns}")


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


@pytest.mark.parametrize(("epsilon", "part", "share"), [("1", "0.2", "0.2"), ("0.8", "0.28", "0.35")])
def test_a_part_of_epsilon_is_the_share_that_follows(desk, epsilon: str, part: str, share: str) -> None:
    pairs = '\npairs = [["age", "sex"]]'
    shared, parted = (
        read_spec(spec_of(desk, margins=margins + pairs, epsilon=epsilon), output=None)
        for margins in (f"share = {share}", f"epsilon = {part}")
    )
    assert (parted.mechanism, parted.price) == (shared.mechanism, shared.price)
    assert (parted.digest, parted.series_digest) == (shared.digest, shared.series_digest)
    if share == "0.2":
        usual = read_spec(spec_of(desk, margins=pairs, epsilon=epsilon), output=None)
        assert parted.digest == usual.digest, "that is the share of a specification that says nothing"


def test_a_part_of_epsilon_that_is_no_finite_share_is_priced(desk) -> None:
    request = read_spec(spec_of(desk, margins="epsilon = 0.1", epsilon="0.7"), output=None)
    assert request.price.epsilon <= Decimal("0.7")
    assert request.mechanism.margins == 2


def test_a_part_of_epsilon_is_run_and_verified(desk, people) -> None:
    result = desk.succeed("run", spec_of(desk, margins="epsilon = 0.2", file_format="csv"), "--json").json
    assert 0.15 < result["margins"]["epsilon_alone"] < 0.2
    desk.succeed("verify", result["certificate"])


PART_REFUSED = {
    "both": ("share = 0.2\nepsilon = 0.2", "epsilon and share both say what the margins take.", "Remove one of them."),
    "whole": (
        "epsilon = 1",
        "the margins' part of ε must be below the ε = 1 of the whole release.",
        "Lower it, or raise",
    ),
    "more": ("epsilon = 1.5", "the margins' part of ε must be below the ε = 1 of the whole release.", "Lower it, or"),
    "none": ("epsilon = 0", "this must be more than 0", ""),
    "text": ('epsilon = "0.2"', "this must be a number", ""),
}


@pytest.mark.parametrize("fault", PART_REFUSED)
def test_a_part_that_is_none_is_refused(desk, fault: str) -> None:
    margins, what, remedy = PART_REFUSED[fault]
    desk.refuse("explain", spec_of(desk, margins=margins), said=(f"[margins].epsilon: {what}", remedy))


@pytest.mark.parametrize("left", ["delta = 1e-6", None])
def test_a_part_of_no_epsilon_is_refused(desk, left: str | None) -> None:
    text = spec_of(desk, margins="epsilon = 0.2").read_text(encoding="utf-8")
    whole = "[privacy]\nepsilon = 1\ndelta = 1e-6\n"
    path = desk.folder / "weighed.toml"
    path.write_text(text.replace(whole, "" if left is None else f"[privacy]\n{left}\n"), encoding="utf-8")
    said = "[margins].epsilon: this is a part of [privacy].epsilon, which is missing."
    desk.refuse("explain", path, said=(said, "Write [privacy].epsilon too."))
