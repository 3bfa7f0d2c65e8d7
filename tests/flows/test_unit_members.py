"""Units and their members in two tables under one charge: what is published, certified, refused and told."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crowdblend.analysis import load
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, largest_deletion
from support.households import COLUMNS, HEAD, region_of, write_households, write_people
from support.signed_again import sign_again

SPEC = (
    HEAD
    + """[unit.members]
most = 3
columns = {{ age = [1, 2], region = [0, 0] }}
{kind}
[privacy]
epsilon = 2
delta = 1e-6"""
    + COLUMNS
)
PLAIN = {"kind": "[deletion]", "levels": "levels = [0, 1]"}
CALIBRATED = {"kind": "[deletion]\n[margins]", "levels": "level = 0"}
PAIRED = {"kind": '[deletion]\n[margins]\npairs = "auto"', "levels": 'levels = "auto"'}
KINDS = {"plain": PLAIN, "calibrated": CALIBRATED, "paired": PAIRED}


def write_spec(desk, given: dict[str, str] = PLAIN, **changed) -> Path:
    return write_households(desk, SPEC, given, **changed)


@pytest.fixture
def ages(desk) -> list[list[int]]:
    desk.succeed("dataset", "add", "people", "--epsilon", "20", "--delta", "1e-3", "--unit", "household:home")
    return write_people(desk, crowd=200)


def charges(desk) -> list[dict]:
    return desk("ledger", "show", "--json").json["releases"]


@pytest.mark.parametrize("given", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_both_tables_are_published_under_one_charge_and_verify(desk, ages, given, file_format) -> None:
    spec = write_spec(desk, given, file_format=file_format)
    result = desk.succeed("run", spec, "--json").json
    output = Path(result["output"])
    assert {f"data.{file_format}", f"members.{file_format}"} <= {path.name for path in output.iterdir()}
    assert len(charges(desk)) == 1
    assert result["epsilon"] <= 2
    assert result["mechanism"]["most_members"] == 3
    desk.succeed("verify", output)
    certificate = json.loads((output / "certificate.json").read_text())
    members = certificate["published"]["members"]
    assert members["most"] == 3
    assert certificate["unit_records"]["table"]["columns"] == {"age": [1, 2], "region": [0, 0]}
    # At most three of each household are there, of a crowd of two hundred too; all but those that noise deletes.
    there = sum(min(len(own), 3) for own in ages)
    most_deleted = largest_deletion(
        GaussianDeletion(scale=Decimal(result["mechanism"]["member_scale"]), width=result["mechanism"]["member_width"])
    )
    groups = 6 * 3 + 3
    assert there - groups * most_deleted <= members["records"] <= there
    assert sum(map(len, ages)) - there > 190
    assert "h17" not in json.dumps(certificate)


def test_the_rows_of_members_are_those_of_the_records(desk, ages) -> None:
    """No group has more rows than members that may be there, and the finest label of no one is another."""
    output = Path(desk.succeed("run", write_spec(desk), "--json").json["output"])
    rows = pq.read_table(output / "members.parquet").to_pylist()
    assert set(rows[0]) == {"age", "region", "stage", "weight"}
    true: dict[tuple[str, str], int] = {}
    for home, own in enumerate(ages):
        for age in sorted(own, key=lambda one: one // 20)[:3] if len(own) < 4 else own:
            label = f"[{age // 20 * 20}, {age // 20 * 20 + 20})", region_of(home)
            true[label] = true.get(label, 0) + 1
    for label in {(row["age"], row["region"]) for row in rows if row["stage"] == 1}:
        published = sum((row["age"], row["region"]) == label for row in rows if row["stage"] == 1)
        assert published <= true[label]


@pytest.mark.parametrize("tampered", ["table", "members", "most", "levels", "map", "file", "rule"])
def test_a_certificate_whose_table_of_members_is_changed_does_not_verify(desk, ages, tampered) -> None:
    output = Path(desk.succeed("run", write_spec(desk, file_format="csv"), "--json").json["output"])
    path = output / "certificate.json"
    certificate = json.loads(path.read_text())
    members = certificate["published"]["members"]
    match tampered:
        case "table":
            del certificate["unit_records"]["table"]
        case "members":
            del certificate["published"]["members"]
        case "most":
            members["most"] = certificate["unit_records"]["table"]["most"] = 4
        case "levels":
            members["stages"][0]["levels"]["age"] = certificate["unit_records"]["table"]["columns"]["age"][0] = 0
            members["map"]["columns"][0]["level"] = 0
        case "map":
            members["map"]["sha256"] = "0" * 64
        case "file":
            (output / "members.csv").unlink()
            del certificate["files"]["members.csv"]
        case "rule":
            certificate["unit_records"]["table"]["more"] = 1
    sign_again(path, certificate)
    answer = desk("verify", output)
    assert answer.code == 1
    assert "member" in answer.out, answer.out


def test_what_does_not_go_together_is_refused_with_its_place(desk, ages) -> None:
    def refused(old: str, new: str, *said: str, given: dict[str, str] = PLAIN) -> None:
        answer = desk.refuse("run", write_spec(desk, given, edit=lambda text: text.replace(old, new, 1)))
        for text in said:
            assert text in answer.err, answer.err

    refused("most = 3", "most = 0", "[unit.members].most")
    refused("age = [1, 2]", "age = [2, 1]", "[unit.members].columns.age", "ascending order")
    refused("age = [1, 2]", "age = [1]", "[unit.members].columns.region", "2 stages")
    refused("age = [1, 2]", "age = [1, 9]", "[unit.members].columns.age", "level 9")
    refused("age = [1, 2]", "income = [1, 2]", "[unit.members].columns", "no column 'income'")
    refused("age = [1, 2], region = [0, 0]", "", "[unit.members].columns")
    refused("[deletion]", "[sampling]\nrate = 0.2\n[suppression]\nk = 60", "[unit.members]", "deletion releases alone")
    refused("[deletion]", '[deletion]\nshape = "gaussian"\nscale = 20\nwidth = 99', "[deletion].shape", "together")
    refused("[deletion]", "[deletion]\n[selection]\nepsilon = 0.1", "[unit.members]", "[selection] exclude")
    refused('pairs = "auto"', 'pairs = "auto"\n[blocks]\nnumber = 2', "[unit.members]", "[blocks]", given=PAIRED)
    refused("most = 3", "most = 3\nshare = 1.0", "[unit.members].share")
    refused("epsilon = 2", "epsilon = 1e-4", "[privacy]", "Raise epsilon")
    refused(
        'highest = "age" }', 'highest = "age" }\ncodes = { N = 1 }', "[columns.region].codes", "table of members has"
    )
    assert charges(desk) == []


def test_the_share_of_the_members_moves_noise_from_one_table_to_the_other(desk, ages) -> None:
    def explained(share: str) -> dict:
        spec = write_spec(desk, edit=lambda text: text.replace("most = 3", f"most = 3\nshare = {share}"))
        return desk.succeed("explain", spec, "--json").json

    few, many = explained("0.2"), explained("0.8")
    assert few["expected_deletion"] < many["expected_deletion"]
    assert few["members"]["expected_deletion"] > many["members"]["expected_deletion"]
    for one in (few, many):
        members = one["members"]
        assert max(members["epsilon_alone"], members["units_epsilon_alone"]) < one["epsilon"] <= 2
        assert one["epsilon"] < members["epsilon_alone"] + members["units_epsilon_alone"]
    text = desk.succeed("explain", write_spec(desk)).out
    assert "at most 3" in text.replace("\n", " ")


def test_a_series_of_both_tables_is_paid_once(desk, ages) -> None:
    spec = write_spec(desk, edit=lambda text: text.replace("epsilon = 2", "epsilon = 4"))
    desk.succeed("series", "add", "yearly", spec, "--releases", "2")
    for output in ("first", "second"):
        result = desk.succeed("run", spec, "--series", "yearly", "--output", output, "--json").json
        desk.succeed("verify", result["output"])
    other = write_spec(
        desk, edit=lambda text: text.replace("epsilon = 2", "epsilon = 4").replace("age = [1, 2]", "age = [1, 1]")
    )
    desk.refuse("run", other, "--series", "yearly", "--output", "third", code=3)


def test_a_filter_budget_pays_for_both_tables(desk) -> None:
    budget = ("--epsilon", "10", "--delta", "1e-3", "--accounting", "filter", "--unit", "household:home")
    desk.succeed("dataset", "add", "people", *budget)
    write_people(desk, number=500, crowd=200)
    both = desk.succeed("run", write_spec(desk), "--json").json
    desk.succeed("verify", both["output"])
    assert both["filter_charge"]["share"] > 0


def test_analysis_sheet_and_metadata_tell_of_both_tables(desk, ages) -> None:
    def edit(text: str) -> str:
        return text.replace("[data]", '[release.metadata]\ntitle = "Households"\n[data]', 1)

    output = Path(desk.succeed("run", write_spec(desk, edit=edit), "--json").json["output"])
    loaded = load(output)
    there = sum(min(len(own), 3) for own in ages)
    assert [column.name for column in loaded.columns] == ["size", "region"]
    assert [column.name for column in loaded.members.columns] == ["age", "region"]
    # Both bounds hold in at least 19 of 20 releases: nothing is asserted of the numbers but their order of magnitude.
    assert 0.5 * there < loaded.members.count().estimate < 1.5 * there
    assert loaded.count().estimate < 0.7 * loaded.members.count().estimate
    sheet = desk.succeed("sheet", output, "--output", "sheets").out
    text = next(path for path in (desk.folder / "sheets").iterdir() if path.suffix == ".md").read_text()
    assert "## The members" in text, sheet
    labels = next(path for path in (desk.folder / "sheets").iterdir() if path.suffix == ".csv").read_text()
    assert "members,age,1," in labels
    dictionary = (output / "metadata" / "data-dictionary.md").read_text()
    assert "Of each unit" not in dictionary[dictionary.index("## members.parquet") : dictionary.index("## Codebook")]


def test_preview_report_and_rehearsal_are_of_the_units(desk, ages) -> None:
    (desk.folder / "public.csv").write_text(
        "home,age,region\n" + "".join(f"p{one},{one % 90},{'NS'[one % 2]}\n" for one in range(2_000))
    )
    spec = write_spec(desk)
    previewed = desk.succeed("preview", spec, "--public", "public.csv", "--html", "preview.html", "--json").json
    assert previewed["people"] == 2_000
    first, last = previewed["members"]
    # Each household is one person here, so that as many members as units may be published.
    assert first["left"] == 2_000
    assert first["published"] + last["published"] < 2_000
    assert "The table of members, stage by stage" in (desk.folder / "preview.html").read_text()
    rehearsed = desk.succeed("run", spec, "--rehearse", "--json").json
    assert "members" not in json.loads(Path(rehearsed["certificate"]).read_text())["published"]
    desk.succeed("run", spec)
    report = desk.succeed("report", "private", spec, "out", "--json").json
    assert report["measures"]["before"]["records"] == 3_001
