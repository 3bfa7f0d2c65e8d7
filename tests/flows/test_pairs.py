"""Releases that choose their own pairs and labels, from `explain` to `verify`; what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate.verify import read_certificate
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.deploy import release_check
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kinds.paired_deletion import PairedDeletion

HEAD = """
[release]
name = "chosen"
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
"""
COLUMNS = """
[columns.sex]
values = ["f", "m"]
levels = {sex}
[columns.age]
interval = {{ lower = 0, upper = 90, widths = [10, 30] }}
levels = {age}
{bounds}
[columns.town]
values = ["x", "y", "z"]
levels = {town}
"""
FREE = dict.fromkeys(("sex", "age", "town"), '"auto"')
FIXED = {"sex": "[0, 0]", "age": "[1, 2]", "town": "[0, 1]"}


def spec_of(desk, levels: dict[str, str] | None = None, **changes: str) -> Path:
    path = desk.folder / "chosen.toml"
    given = {"form": "microdata", "file_format": "parquet", "deletion": "", "margins": 'pairs = "auto"'}
    bounds = changes.pop("bounds", "")
    path.write_text((HEAD.format(**given | changes)) + COLUMNS.format(bounds=bounds, **levels or FREE))
    return path


@pytest.fixture
def people(desk) -> dict[str, np.ndarray]:
    """6,000 records: the town follows from the age, but for a tenth."""
    coins = np.random.default_rng(4)
    ages = coins.integers(0, 90, 6_000)
    towns = np.where(coins.random(6_000) < 0.1, coins.integers(0, 3, 6_000), ages // 30)
    columns = {"sex": coins.choice(["f", "m"], 6_000), "age": ages, "town": np.array(["x", "y", "z"])[towns]}
    lines = [",".join(map(str, record)) for record in zip(*columns.values(), strict=True)]
    (desk.folder / "people.csv").write_text("\n".join(["sex,age,town", *lines]) + "\n")
    desk.add_dataset(epsilon=20)
    return columns


def tables_of(folder: Path) -> tuple[list[dict], list[dict]]:
    return tuple(pq.read_table(folder / f"{name}.parquet").to_pylist() for name in ("data", "margins"))  # type: ignore[return-value]


def test_pairs_and_labels_are_found_and_what_is_published_is_near_the_records(desk, people) -> None:
    spec = spec_of(desk)
    explained = desk.succeed("explain", spec, "--json").json
    assert explained["pairs"]["number"] == 4
    assert explained["stages"] == []
    alone = [explained["pairs"][name] for name in ("epsilon_alone", "draws_epsilon_alone")]
    alone += [explained["margins"][name] for name in ("epsilon_alone", "rows_epsilon_alone")]
    assert max(alone) < explained["epsilon"] < sum(alone), "composed, parts cost less than their sum"
    assert [column["max_level"] for column in explained["columns"]] == [1, 3, 1]
    assert all(level["possible"] for column in explained["columns"] for level in column["levels"])
    told = desk.succeed("explain", spec).out
    assert "to be found" in told
    assert told.count("none") == 1, "the bound of the paper alone"
    result = desk.succeed("run", spec, "--json").json
    folder = Path(result["output"])
    rows, cells = tables_of(folder)
    chosen = [tuple(pair["columns"]) for pair in result["pairs"]]
    assert ("age", "town") in chosen, "the pair that isn't independent is worth most"
    mechanism = read_spec(spec, output=None).mechanism
    assert isinstance(mechanism, PairedDeletion)
    assert result["mechanism"] == mechanism_record(mechanism)
    assert result["epsilon"] <= 1
    # Each count is within the width of its noise of the true one.
    for row in cells:
        if row["second_column"]:
            continue
        label, column = row["label"], people[row["column"]].astype(str)
        if row["column"] != "age":
            assert abs(row["count"] - int((column == label).sum())) <= mechanism.margin_width
    errors = {row["standard_error"] for row in cells}
    assert len(errors) == 2
    for number, pair in enumerate(result["pairs"], start=1):
        own = [row for row in cells if row["pair"] == number]
        assert len(own) == pair["cells"]
        assert {(row["column"], row["second_column"]) for row in own} == {tuple(pair["columns"])}
    towns = [row for row in cells if row["pair"] == 1 + chosen.index(("age", "town"))]
    known = {(row["label"], row["second_label"]): row["fitted"] for row in towns}
    young = sum(fitted for (age, town), fitted in known.items() if town == "x" and age.isdigit() and int(age) < 30)
    tens = sum(
        fitted for (age, town), fitted in known.items() if town == "x" and age in {"[0, 10)", "[10, 20)", "[20, 30)"}
    )
    exact = int(((people["age"] < 30) & (people["town"] == "x")).sum())
    assert (young or tens) == pytest.approx(exact, rel=0.1)
    assert sum(row["weight"] for row in rows) == pytest.approx(6_000, rel=0.03)
    assert result["columns_at_star"] == []
    # What was found is what follows from the published counts.
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")
    said = read_certificate(Path(result["certificate"]))["guarantee"]["in_words"]
    assert "pairs of columns were chosen" in said
    assert "or computed from noisy counts of the same release alone" in said


def test_levels_that_do_not_follow_from_the_counts_are_found(desk, people) -> None:
    result = desk.succeed("run", spec_of(desk), "--json").json
    path = Path(result["certificate"])
    certificate = read_certificate(path)

    def findings(changed: dict) -> list[str]:
        return list(release_check._label_findings(changed, changed["map"]["columns"], path.parent))

    assert findings(certificate) == []
    changes = {
        "its levels are not those that follow from margins.parquet": ("stages", 0, "levels", "age", 0),
        "its levels can't be computed again from margins.parquet": ("chosen_levels", "rule", "levels/0"),
        "its margins are not those of its mechanism and its map": ("pairs", 0, "columns", ["age", "country"]),
    }
    for said, (*keys, value) in changes.items():
        changed = json.loads(json.dumps(certificate))
        place = changed["published"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        assert findings(changed)[:1] == [said]
    cells = pq.read_table(path.parent / "margins.parquet")
    counts = np.roll(cells.column("count").to_numpy(), 7)
    pq.write_table(
        cells.set_column(cells.schema.names.index("count"), "count", pa.array(counts)), path.parent / "margins.parquet"
    )
    assert "its levels are not those that follow from margins.parquet" in findings(certificate)


def test_a_release_verifies_whose_first_megabyte_of_margins_has_no_pair(desk, people) -> None:
    path = spec_of(desk, file_format="csv")
    long = [f"{number:03d} {'described at length ' * 70}" for number in range(900)]
    path.write_text(path.read_text().replace('["x", "y", "z"]', json.dumps(["x", "y", "z", *long])))
    result = desk.succeed("run", path, "--json").json
    margins = (Path(result["output"]) / "margins.csv").read_text()
    assert margins.rindex(",,,0,") > 1 << 20, "all margins of one column come before the first pair"
    assert desk.succeed("verify", result["output"], "--json").json["findings"] == []


def test_a_preview_finds_levels_on_public_records_by_the_same_rule(desk, people) -> None:
    lines = (desk.folder / "people.csv").read_text().splitlines()
    (desk.folder / "public.csv").write_text("\n".join([lines[0], *lines[1::2]]) + "\n")
    for levels in (FREE, FIXED):
        spec = spec_of(desk, levels)
        seen = desk.succeed("preview", spec, "--public", "public.csv", "--population", "6000", "--json").json
        assert seen["deleted"] < 0.2
        told = [remark for remark in seen["remarks"] if "are those that the release's rule finds" in remark]
        assert bool(told) == (levels == FREE)
        own = next(one for one in seen["by_epsilon"] if one["chosen"])
        widths = [one["largest_deletion"] for one in seen["by_epsilon"]]
        assert widths == sorted(widths, reverse=True), "other prices are those of releases with pairs"
        assert own["largest_deletion"] == seen["largest_deletion"]
        if levels == FREE:
            assert len(seen["stages"]) == 3
            assert seen["stages"][0]["levels"]["town"] == 0
            assert seen["stages"][0]["levels"]["age"] == 1, "groups of single years are too small"


@pytest.mark.slow
@pytest.mark.parametrize(("form", "file_format"), [("counts", "csv"), ("microdata", "parquet")])
def test_pairs_are_chosen_beside_fixed_levels(desk, people, form, file_format) -> None:
    described = {"form": form, "file_format": file_format, "margins": 'pairs = "auto"\n[release.metadata]\ntitle = "T"'}
    result = desk.succeed("run", spec_of(desk, FIXED, **described), "--json").json
    assert [stage["levels"] for stage in result["stages"]] == [
        {"sex": 0, "age": 1, "town": 0},
        {"sex": 0, "age": 2, "town": 1},
    ]
    assert result["levels"] == {"sex": 0, "age": 1, "town": 0}
    assert "chosen_levels" not in read_certificate(Path(result["certificate"]))["published"]
    desk.succeed("verify", result["certificate"])
    dictionary = (Path(result["output"]) / "metadata" / "data-dictionary.md").read_text()
    assert all(f"| {name} |" in dictionary for name in (r"second\_column", "pair", r"standard\_error", "fitted"))
    assert "A figure that the mechanism publishes" not in dictionary


REFUSED = {
    "noise": (FREE, {"deletion": 'shape = "gaussian"\nscale = 4\nwidth = 25'}, "[deletion].shape: this does not go"),
    "number": (FREE, {"margins": 'pairs = "auto"\nnumber = 40'}, "[margins]: 40 pairs of columns are to be counted"),
    "shares": (FREE, {"margins": 'pairs = "auto"\nshare = 0.5'}, "[margins]: the shares of margins, pairs"),
    "mixed": ({**FREE, "sex": "[0]"}, {}, "[columns.sex].level: other columns' levels follow"),
    "bounds": (FREE, {"bounds": "min_level = 3\nmax_level = 1"}, "[columns.age].min_level: no candidate is left"),
    "level": (FREE, {"bounds": "margin_level = 1"}, "[columns.age].margin_level: the finest level"),
    "without": (FREE, {"margins": ""}, "[columns.sex].levels: levels that follow from published figures"),
    "finer": (FIXED, {"bounds": "margin_level = 2"}, "[columns.age].margin_level: margins are counted at level 2"),
    "stages": (
        FIXED,
        {"deletion": "stages = 2"},
        "[deletion].stages: the number of stages follows from the number of levels",
    ),
    "listed": (FIXED, {"margins": "", "bounds": "margin_level = 0"}, "[columns.age].margin_level: this is the level"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_can_not_be_found_is_refused(desk, fault) -> None:
    levels, changes, said = REFUSED[fault]
    desk.refuse("explain", spec_of(desk, levels, **changes), said=said)


def test_a_part_of_epsilon_is_the_share_of_the_loss_where_pairs_are_chosen(desk) -> None:
    shared, parted = (
        read_spec(spec_of(desk, margins=f'pairs = "auto"\n{margins}'), output=None)
        for margins in ("share = 0.25", "epsilon = 0.25")
    )
    assert (parted.mechanism, parted.price, parted.digest) == (shared.mechanism, shared.price, shared.digest)
