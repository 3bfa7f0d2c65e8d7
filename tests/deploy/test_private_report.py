"""The private report: a recorded look, its figures nowhere near a release, and nothing of it in Prefect."""

from __future__ import annotations

import csv
import json
import re
import stat
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PLANTED = "Zzyzx-planted"
RARE = 7
MARK = "NOT FOR PUBLICATION"


def looks(desk) -> list[dict]:
    return desk("ledger", "show", "--json").json["private_looks"]


@pytest.fixture
def released(desk):
    """A release of 2,400 common records and of seven from a planted town, too few to be published."""
    with (desk.folder / "people.csv").open("a", encoding="utf-8") as file:
        file.writelines(f"green;25;{PLANTED};x\n" for _ in range(RARE))
    towns = desk.folder / "towns.csv"
    towns.write_text(towns.read_text(encoding="utf-8") + f"{PLANTED};{PLANTED}-region;*\n", encoding="utf-8")
    desk.add_dataset()
    desk.succeed("run", desk.write_spec(), "--release-id", "the-release", "--json")
    return desk


def test_the_report_tells_the_records_figures_and_the_ledger_knows_of_the_look(released) -> None:
    desk = released
    before = desk.contents("out")
    answer = desk.succeed("report", "private", "spec.toml", "out", "--attacks", "--by", "an analyst", "--json")
    told = answer.json
    with (desk.folder / "people.csv").open(encoding="utf-8") as file:
        rows = Counter((row["colour"], row["age"], row["town"]) for row in csv.DictReader(file, delimiter=";"))
    measures = told["measures"]
    assert measures["before"]["records"] == sum(rows.values()) == 2_400 + RARE
    assert measures["before"]["classes"] == len(rows)
    assert measures["before"]["discernibility"] == sum(count**2 for count in rows.values())
    town = measures["columns"][2]
    planted = town["labels"].index(f"{PLANTED}-region")
    assert (town["before"][planted], town["after"][planted]) == (RARE, 0)
    attacks = told["attacks"]
    assert 0.5 <= attacks["known"]["median"] <= attacks["known"]["highest"] < 0.95
    assert attacks["groups_of_one"] == 0
    assert [one["name"] for one in attacks["inferred"]] == [column["name"] for column in measures["columns"]]
    report = Path(told["report"])
    page = report.read_text(encoding="utf-8")
    assert "An attack that fails proves nothing" in page
    assert report.is_relative_to(desk.home)
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert stat.S_IMODE(report.parent.stat().st_mode) == 0o700
    assert page.count(MARK) >= 3
    assert PLANTED in page
    assert "2\u202f407" in page
    [look] = looks(desk)
    assert (look["by"], look["position"]) == ("an analyst", told["look"])
    assert "the-release" in look["what"]
    assert desk.contents("out") == before
    later = desk("run", desk.write_spec(output="later"), "--json")
    certificate = json.loads(Path(later.json["certificate"]).read_text(encoding="utf-8"))
    assert certificate["private_looks"]["count"] == 1
    desk.succeed("ledger", "verify")


def of_other(text: str) -> str:
    return text.replace('dataset = "people"', 'dataset = "other"')


def test_records_of_another_data_set_alone_are_refused_before_the_look(released) -> None:
    """Else the look would be recorded for the named data set, and the other one's certificates would deny it."""
    desk = released
    desk.write_people(2_000, file="other.csv")
    desk.succeed("dataset", "add", "other", "--epsilon", "10", "--delta", "1e-3", "--unit", "record")
    desk.succeed("run", desk.write_spec(source="other.csv", output="of-other", edit=of_other), "--json")
    cross = desk.write_spec(source="other.csv")
    said = ("released as the data set 'other', and never as 'people'", "no look recorded")
    desk.refuse("report", "private", cross, "out", said=said)
    (desk.folder / "copies").mkdir()
    (desk.folder / "other.csv").rename(desk.folder / "copies" / "other.csv")
    desk.refuse("report", "private", desk.write_spec(source="copies/other.csv"), "out", said=said)
    assert looks(desk) == []
    assert not list(desk.home.glob("reports/*"))
    desk.succeed("report", "private", desk.write_spec(), "out")
    assert [look["dataset"] for look in looks(desk)] == ["people"]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_look_is_recorded_for_every_data_set_that_the_source_was_released_as(released, damaged) -> None:
    desk = released
    for name in ("other", "third"):
        desk.succeed("dataset", "add", name, "--epsilon", "10", "--delta", "1e-3", "--unit", "record")
    desk.succeed("run", desk.write_spec(output="of-other", edit=of_other), "--json")
    if damaged:
        for note in desk.home.glob("sources/*/*"):
            note.write_bytes(b"")
    answer = desk.succeed("report", "private", desk.write_spec(), "out")
    assert "recorded for 'other' too" in answer.out
    assert [look["dataset"] for look in looks(desk)] == ["other", "people"]
    assert f"entry {looks(desk)[1]['position']} of the ledger" in answer.out
    for number, edit in enumerate((str, of_other)):
        later = desk("run", desk.write_spec(output=f"later-{number}", edit=edit), "--json").json
        certificate = json.loads(Path(later["certificate"]).read_text(encoding="utf-8"))
        assert certificate["private_looks"]["count"] == 1


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param([("microdata", "csv")], id="one"),
        pytest.param(
            [("microdata", "csv"), ("counts", "parquet"), ("counts", "csv")], id="each", marks=pytest.mark.slow
        ),
    ],
)
def test_no_release_holds_a_private_figure(released, shapes) -> None:
    """Planted marks: the rare town, the numbers of records; they are in the report, and in no byte of a release."""
    desk = released
    desk.succeed("report", "private", "spec.toml", "out")
    for form, file_format in shapes:
        name = f"{form}-{file_format}"
        spec = desk.write_spec(output=name, name=name, form=form, file_format=file_format)
        desk.succeed("run", spec)
        told = desk.succeed("report", "private", spec, name, "--json")
        assert told.json["measures"]["after"]["records"] > 0
    page = next((desk.home / "reports").glob("*.html")).read_text(encoding="utf-8")
    marks = {PLANTED, "2\u202f407"}
    assert all(mark in page for mark in marks)
    released_bytes = [
        path.read_bytes() for name in ("out", *("-".join(shape) for shape in shapes))
        for path in (desk.folder / name).iterdir()
    ]  # fmt: skip
    assert len(released_bytes) == 2 + 2 * len(shapes)
    for content in released_bytes:
        # A certificate carries the declared hierarchies whole, so the rare town's name says nothing there.
        secret = {"2\u202f407", "NOT FOR", "discernibility"} | (set() if content[:1] == b"{" else {PLANTED})
        assert not any(mark.encode() in content for mark in secret)
        assert not re.search(rb"(?<![0-9A-Za-z+/])2407(?![0-9A-Za-z+/])", content)  # digests may have the digits
    assert not list(desk.folder.glob("**/out/*.html"))


@pytest.mark.slow
def test_what_is_refused_before_the_look_leaves_no_look(released) -> None:
    desk = released
    attempts = [
        ("report", "private", "spec.toml", "nowhere"),
        ("report", "private", "spec.toml", "out", "--target", "height"),
        ("report", "private", "spec.toml", "out", "--output", "report.txt"),
        ("report", "private", "spec.toml", "out", "--output", "nowhere/report.html"),
    ]
    (desk.folder / "link").symlink_to(desk.folder / "out")
    (desk.folder / "other").mkdir()
    (desk.folder / "other" / "certificate.json").write_text("{}", encoding="utf-8")
    before = desk.contents("out") | desk.contents("other")
    for folder in ("link", "other", "out", "out/sub"):  # never where a release is picked up
        attempts.append(("report", "private", "spec.toml", "out", "--output", f"{folder}/report.html"))
    for words in attempts:
        assert desk(*words).code == 2, words
    assert desk.contents("out") | desk.contents("other") == before
    towns = desk.folder / "towns.csv"
    kept = towns.read_text(encoding="utf-8")
    towns.write_text(kept.replace("Lyon;South", "Lyon;Southern"), encoding="utf-8")
    changed = desk("report", "private", "spec.toml", "out")
    assert changed.code == 2
    assert "other columns or hierarchies" in changed.err
    towns.write_text(kept, encoding="utf-8")
    (desk.folder / "out" / "data.parquet").write_bytes(b"x")
    assert "does not verify" in desk("report", "private", "spec.toml", "out").err
    assert looks(desk) == []


@pytest.mark.slow
def test_a_look_that_reads_other_records_stays_recorded(released) -> None:
    desk = released
    desk.write_people(60)
    answer = desk("report", "private", "spec.toml", "out")
    assert answer.code == 2
    assert "the look stays recorded" in answer.err
    assert len(looks(desk)) == 1
    assert not list(desk.home.glob("reports/*"))
    histogram = desk.write_spec(
        edit=lambda text: text.replace('form = "microdata"\n', "").replace(
            "[suppression]", '[histogram]\nkind = "suppressed"'
        )
    )
    assert "about a microdata or a deletion release" in desk("report", "private", histogram, "out").err


@pytest.mark.slow
def test_records_that_cannot_be_read_leave_a_look_and_tell_the_kind_of_the_fault_alone(desk) -> None:
    table = pa.table({"colour": ["red"] * 3_000, "age": list(range(20, 80)) * 50, "town": ["Lyon"] * 3_000})
    pq.write_table(table, desk.folder / "people.parquet", compression="zstd")
    desk.add_dataset()
    spec = desk.write_spec(source="people.parquet")
    desk.succeed("run", spec)
    content = bytearray((desk.folder / "people.parquet").read_bytes())
    content[4:300] = b"\xff" * 296
    (desk.folder / "people.parquet").write_bytes(content)
    answer = desk("report", "private", spec, "out", "--json")
    assert answer.code == 1
    message = answer.json["error"]["message"]
    assert "No report was written; the look stays recorded. Run the command again" in message
    assert "Internal fault" not in message
    assert len(looks(desk)) == 1
    assert not list(desk.home.glob("reports/*"))


@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 3])
def test_a_deletion_release_is_measured_stage_by_stage(desk, stages) -> None:
    """Every figure by hand from the records and the published table."""
    levels = {"colour": (0, 0, 1), "age": (0, 1, 3), "town": (0, 1, 1)}

    def deleting(text: str) -> str:
        text = text.replace("[sampling]\nrate = 0.1", "[deletion]").replace("delta =", "epsilon = 1\ndelta =")
        head, *tables = text.replace("k = 20", "k = 2").split("[columns.")
        lines = []
        for table in tables:
            name = table.partition("]")[0]
            own = levels[name][1] if stages == 1 else list(levels[name])
            kept = [line for line in table.splitlines() if not line.startswith("level")]
            lines.append("\n".join([*kept, f"level = {own}" if stages == 1 else f"levels = {own}"]))
        return "\n[columns.".join([head, *lines]) + "\n"

    desk.add_dataset()
    desk.succeed("run", desk.write_spec(edit=deleting))
    answer = desk.succeed("report", "private", "spec.toml", "out", "--attacks", "--json").json
    told, attacks = answer["measures"], answer["attacks"]
    with (desk.folder / "people.csv").open(encoding="utf-8") as file:
        people = [(row["colour"], int(row["age"]), row["town"]) for row in csv.DictReader(file, delimiter=";")]
    region = {"Lyon": "South", "Marseille": "South", "Lille": "North", "Paris": "North"}
    maps = [
        lambda colour, age, town: (colour, age, town),
        lambda colour, age, town: (colour, age // 10, region[town]),
        lambda colour, age, town: (region[town],),
    ]
    rows = pq.read_table(desk.folder / "out" / "data.parquet").to_pylist()
    left = len(people)
    assert len(told["stages"]) == stages
    for number, stage in enumerate(told["stages"], start=1):
        own = [row for row in rows if row.get("stage", 1) == number]
        label = maps[1 if stages == 1 else number - 1]
        assert stage["groups"] == len({label(*person) for person in people})
        assert (stage["found"], stage["published"]) == (left, len(own))
        assert stage["published_groups"] == len({(row["colour"], row["age"], row["town"]) for row in own})
        left -= len(own)
    assert told["suppressed"] == left == len(people) - told["after"]["records"]
    assert told["sampling_rate"] is None
    # The answers are sums of weights: three colours in 4 groups each, exact but for the deletion's error and rounding.
    # Of several stages the two groups of the last one alone have an error, and once in some hundred releases none.
    assert 0 <= told["queries"]["high"] < 0.2
    assert stages > 1 or told["queries"]["high"] > 0
    assert all(one["sampling_alone"] is None for one in told["queries"]["by_size"])
    page = next((desk.home / "reports").glob("*.html")).read_text(encoding="utf-8")
    assert "Stage by stage" in page
    assert 0.5 < attacks["known"]["median"] <= attacks["known"]["highest"] < 0.99
    assert len(attacks["inferred"]) == 3
    assert all(0 < one["without"] <= one["guessed"] <= 1 for one in attacks["inferred"])
    assert attacks["groups_of_one"] == 0
    assert "sampling alone" not in page
