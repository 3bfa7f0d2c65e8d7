"""A series through the command line: paid once, its parameters fixed, its releases counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crowdblend.deploy.api import add_series
from crowdblend.mechanisms.kernel.errors import InputRefused


def shown(desk) -> dict:
    return desk("ledger", "show", "--json").json


def refusals(desk) -> list[str]:
    lines = [json.loads(line)["entry"] for line in desk("ledger", "export").out.splitlines()]
    return [entry["cause"] for entry in lines if entry["kind"] == "release-refused/1"]


@pytest.fixture
def series(desk) -> dict:
    """A registered series of two releases, and its specification in spec.toml."""
    desk.add_dataset()
    answer = desk.succeed("series", "add", "monthly", desk.write_spec(), "--releases", "2", "--json")
    return answer.json


@pytest.mark.slow
def test_two_deliveries_are_paid_once_and_a_third_is_refused_unread(desk, series) -> None:
    for number, month in enumerate(("january", "february"), start=1):
        desk.write_people(2_400, file=f"{month}.csv", shift=number)
        spec = desk.write_spec(name=f"people-{month}", source=f"{month}.csv", output=month, file_format="csv")
        result = desk.succeed("run", spec, "--series", "monthly", "--release-id", f"monthly-{month}", "--json").json
        certificate = json.loads(Path(result["certificate"]).read_text(encoding="utf-8"))
        assert certificate["series"] == result["series"]
        assert certificate["guarantee"]["rule"] == "series-game/1"
    desk.refuse("run", spec, "--release-id", "monthly-february", code=3, said="belongs to the series 'monthly'")
    (desk.folder / "february.csv").unlink()  # it would be exit 2 if the source were looked for
    third = desk("run", spec, "--series", "monthly", "--output", "march", "--json")
    assert (third.code, "all its 2 releases are taken" in third.err) == (3, True)
    assert refusals(desk) == ["other-series", "series-finished"]
    ledger = shown(desk)
    [dataset], [known] = ledger["datasets"], ledger["series"]
    assert 0 < dataset["epsilon_estimate"] <= dataset["epsilon_spent"] == series["epsilon"]
    assert "estimate" in ledger["epsilon_estimate_note"]
    assert (known["releases"], known["taken"], known["remaining"]) == (2, 2, 0)
    assert [release["series_number"] for release in ledger["releases"]] == [1, 2]
    assert desk("series", "list", "--json").json == {"series": ledger["series"]}
    assert "monthly" in desk("series", "list").out
    assert "composed estimate" in desk("ledger", "show").out


def replaced(old: str, new: str):
    return lambda text: text.replace(old, new)


OF_EITHER = {
    "delta": replaced("1e-6", "2e-6"),
    "form": replaced("microdata", "counts"),
    "separator": replaced('separator = ";"', 'separator = ","'),
    "null": replaced("[sampling]", 'null = ["", "NA"]\n[sampling]'),
    "dataset": replaced('dataset = "people"', 'dataset = "others"'),
}
OF_FIXED_COLUMNS = {
    "k": replaced("k = 20", "k = 25"),
    "rate": replaced("rate = 0.1", "rate = 0.09"),
    "level": replaced("level = 0", "level = 1"),
    "values": replaced('"red"]', '"red", "white"]'),
    "column": lambda text: text.split("[columns.town]", maxsplit=1)[0],
    "hierarchy": replaced('hierarchy = "towns.csv"', 'hierarchy = "more.csv"'),
}
OF_FREE_COLUMNS = {
    "k": replaced("k = 20", "k = 19"),
    "rate": replaced("rate = 0.1", "rate = 0.11"),
    "dearer alone": lambda text: text.replace("k = 20", "k = 200").replace("rate = 0.1", "rate = 0.2"),
    "rows_per_person": replaced("[sampling]", "rows_per_person = 2\n[sampling]"),
    "selection": lambda text: text.replace("[columns.colour]", "[selection]\nepsilon = 0.1\n[columns.colour]").replace(
        "level =", "min_level ="
    ),
}


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ((), OF_EITHER | OF_FIXED_COLUMNS),
        pytest.param(("--free-columns",), OF_EITHER | OF_FREE_COLUMNS, marks=pytest.mark.slow),
    ],
    ids=["fixed", "free"],
)
def test_what_a_series_fixes_is_refused_and_recorded_before_anything_is_read(desk, words, changes) -> None:
    desk.add_dataset()
    desk.succeed("series", "add", "monthly", desk.write_spec(), "--releases", "2", *words)
    (desk.folder / "more.csv").write_text((desk.folder / "towns.csv").read_text() + "Nice;South;*\n")
    (desk.folder / "people.csv").unlink()  # it would be exit 2 if the source were looked for
    for number, (what, change) in enumerate(changes.items(), start=1):
        desk.refuse("run", desk.write_spec(edit=change), "--series", "monthly", code=3)
        assert refusals(desk) == ["series-changed"] * number, what
    assert not (desk.folder / "out").exists()
    assert desk("series", "list", "--json").json["series"][0]["taken"] == 0
    desk.succeed("ledger", "verify")


def test_a_series_is_refused_before_it_costs_anything(desk) -> None:
    desk.add_dataset(epsilon="0.35")
    spec = desk.write_spec()
    assert desk("series", "add", "yearly", spec, "--releases", "12").code == 3
    assert refusals(desk) == ["over-budget"]
    assert desk("series", "add", "none", spec, "--releases", "0").code == 2
    assert desk("run", spec, "--series", "yearly").code == 2
    one_missing = desk.write_spec(
        edit=lambda text: text.replace("[suppression]\nk = 20\n", "").replace("delta =", "epsilon = 0.3\ndelta =")
    )
    desk.refuse("series", "add", "open", one_missing, "--releases", "2", said="[suppression].k")
    too_dear = desk.write_spec(edit=lambda text: text.replace("delta =", "epsilon = 0.2\ndelta ="))
    desk.refuse("series", "add", "dear", too_dear, "--releases", "2", said="for 2 releases")
    desk.succeed("series", "add", "two", desk.write_spec(), "--releases", "2")
    assert desk("series", "add", "two", spec, "--releases", "2").code == 2
    assert shown(desk)["datasets"][0]["epsilon_spent"] < 0.4


def test_a_survey_has_no_second_series_whose_price_would_be_lost(desk) -> None:
    desk.succeed("dataset", "add", "people", "--survey-rate", "0.2", "--epsilon", "9", "--delta", "0.1")
    spec = desk.write_spec()
    words = ("series", "add", "second", spec, "--releases")
    desk.refuse(*words, "2", code=3, said="it can have no series")
    desk.succeed("series", "add", "first", spec, "--releases", "1")
    told, entries = desk("ledger", "show", "--json").json["datasets"], desk.entries()
    lost = (
        "series 'second': data set 'people' is itself a sample and can be released once, and series 'first' has paid",
        "Nothing was read, written or charged. Run the release that is paid for: crowdblend run SPEC --series first",
    )
    desk.refuse(*words, "1", said=lost)
    desk.refuse(*words, "1", "--free-columns", said=lost)
    part = ("--part", "1 x epsilon=0.05", "--dataset", "people", "--delta", "1e-6")
    desk.refuse("series", "add", "second", *part, said=lost)
    with pytest.raises(InputRefused, match="one of both prices would be lost"):
        add_series("second", spec, releases=1)
    desk.refuse("series", "add", "first", spec, "--releases", "1", said="a series of this name")
    assert (desk("ledger", "show", "--json").json["datasets"], desk.entries()) == (told, entries)
    desk.refuse(*words, "2", code=3, said="it can have no series")
    desk.succeed("run", spec, "--series", "first", "--release-id", "one")
    desk.refuse(*words, "1", code=3, said="can be released once, and has been: its sampling was part of that price")
    assert desk("ledger", "show", "--json").json["datasets"] == told, "the survey is paid for once"


@pytest.mark.slow
def test_a_release_given_up_unread_gives_its_place_back(desk, series, cut_off) -> None:
    """The release fails between its charge and its reading."""
    cut_off(desk.write_spec(), "--series", "monthly", stage="begin_reading")
    assert desk("series", "list", "--json").json["series"][0]["remaining"] == 1
    answer = desk("abandon", "one", "--reason", "a test")
    assert answer.code == 0
    assert "free again" in answer.out
    [known] = desk("series", "list", "--json").json["series"]
    assert known["remaining"] == 2
    assert shown(desk)["datasets"][0]["epsilon_spent"] == series["epsilon"]
    desk.succeed("ledger", "verify")


COARSE = '[columns.town]\nhierarchy = "towns.csv"\nlevel = 1\n'


@pytest.mark.slow
def test_each_release_of_a_series_may_have_columns_of_its_own(desk) -> None:
    """The second has one column alone, at another level, a higher k and a lower rate; and is run once."""
    desk.add_dataset()
    registered = desk.succeed(
        "series", "add", "monthly", desk.write_spec(), "--releases", "2", "--free-columns", "--json"
    ).json
    assert registered["free_columns"] is True
    first = desk.succeed("run", desk.write_spec(output="first"), "--series", "monthly", "--json").json

    def freer(text: str) -> str:
        head = text.split("[columns.", maxsplit=1)[0].replace("k = 20", "k = 31").replace("rate = 0.1", "rate = 0.06")
        return head + COARSE

    spec = desk.write_spec(edit=freer, output="second", file_format="csv")
    told = desk.succeed("run", spec, "--series", "monthly", "--release-id", "monthly-2", "--dry-run").out
    assert "the series 'monthly' has paid" in told
    second = desk.succeed("run", spec, "--series", "monthly", "--release-id", "monthly-2", "--json").json
    assert (first["epsilon"], second["epsilon"]) == (registered["epsilon"], registered["epsilon"])
    assert second["levels"] == {"town": 1}
    assert (second["mechanism"]["k"], second["mechanism"]["sampling_rate"]) == (31, "0.06")
    header, *rows = Path(second["output"], "data.csv").read_text().splitlines()
    assert header == "town"
    assert set(rows) == {"North", "South"}
    # 2400 records at 0.06 leave 144, give or take 12; at the registered rate it were 240.
    assert 80 < len(rows) == second["published_records"] < 208
    for result in (first, second):
        desk.succeed("verify", result["certificate"])
        certificate = json.loads(Path(result["certificate"]).read_text(encoding="utf-8"))
        assert certificate["series"]["registered"] == first["mechanism"]
        assert certificate["mechanism"] == result["mechanism"]
    (desk.folder / "people.csv").unlink()
    again = desk.succeed("run", spec, "--series", "monthly", "--release-id", "monthly-2", "--json").json
    assert again["sample_id"] == second["sample_id"]
    assert shown(desk)["datasets"][0]["epsilon_spent"] == registered["epsilon"]
    assert desk("run", spec, "--series", "monthly", "--output", "third").code == 3
    assert refusals(desk) == ["series-finished"]
    desk.succeed("ledger", "verify")


COUNT = """
[release]
name = "how-many"
format = "csv"
output = "{output}"
[data]
dataset = "people"
source = "people.csv"
separator = ";"
[answer]
kind = "count"
epsilon = {epsilon}
by = ["town"]
[columns.town]
hierarchy = "towns.csv"
level = 1
"""
PARTS = ("--part", "1 x k=20,rate=0.1", "--part", "1 x k=50,rate=0.05", "--part", "2 x epsilon=0.05")


@pytest.mark.slow
def test_a_series_of_different_mechanisms_is_paid_once_and_each_part_has_its_places(desk) -> None:
    desk.add_dataset()
    of = ("--dataset", "people", "--delta", "1e-6", "--json")
    registered = desk.succeed("series", "add", "year", *PARTS, *of).json
    assert [(part["part"], part["mechanism"]) for part in registered["parts"]] == [
        (1, "1 x k=20,rate=0.1"),
        (2, "1 x k=50,rate=0.05"),
        (3, "2 x epsilon=0.05"),
    ]
    rare = desk.write_spec(edit=lambda text: text.replace("k = 20", "k = 50").replace("rate = 0.1", "rate = 0.05"))
    count, dearer = desk.folder / "count.toml", desk.folder / "dearer.toml"
    count.write_text(COUNT.format(output="count", epsilon="0.05"))
    dearer.write_text(COUNT.format(output="dearer", epsilon="0.06"))
    first = desk.succeed("run", rare, "--series", "year", "--release-id", "rare", "--output", "rare", "--json").json
    second = desk.succeed("run", count, "--series", "year", "--json").json
    third = desk.succeed("run", rare, "--series", "year:1", "--output", "other", "--json").json
    places = [result["series"] for result in (first, second, third)]
    assert places == [
        {"name": "year", "number": 2, "releases": 4, "part": 2},
        {"name": "year", "number": 3, "releases": 4, "part": 3},
        {"name": "year", "number": 1, "releases": 4, "part": 1},
    ]
    for result in (first, second, third):
        assert result["epsilon"] == registered["epsilon"]
        desk.succeed("verify", result["certificate"])
        certificate = json.loads(Path(result["certificate"]).read_text(encoding="utf-8"))
        assert certificate["series"] == result["series"] | {"registered": registered["mechanism"]}
        assert certificate["guarantee"]["rule"] == "mixed-pld/1"
    again = desk.succeed("run", rare, "--series", "year", "--release-id", "rare", "--output", "rare", "--json").json
    assert again["sample_id"] == first["sample_id"]

    (desk.folder / "people.csv").unlink()  # it would be exit 2 if the source were looked for
    for spec, series, why in (
        (rare, "year", "all its 1 releases of part 2"),
        (dearer, "year", "above the registered 0.05"),
        (desk.write_spec(file="safe.toml"), "year", "all its 1 releases of part 1"),
        (count, "year:1", "another kind of mechanism"),
    ):
        desk.refuse("run", spec, "--series", series, "--output", "none", code=3, said=why)
    for series, why in (("year:4", "has 3 parts"), ("year:x", "a number from 1"), ("year:0", "a number from 1")):
        desk.refuse("run", count, "--series", series, "--output", "none", said=why)
    known = shown(desk)
    assert known["datasets"][0]["epsilon_spent"] == registered["epsilon"]
    assert [part["remaining"] for part in known["series"][0]["parts"]] == [0, 0, 1]
    assert "1 x k=50,rate=0.05" in desk("ledger", "show").out
    desk.succeed("ledger", "verify")


def test_a_series_of_parts_is_refused_before_it_costs_anything(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    of = ("--dataset", "people", "--delta", "1e-6")
    for words in (
        (*PARTS, "--dataset", "people"),
        (*PARTS, "--delta", "1e-6"),
        (spec, *PARTS, *of),
        (*PARTS, *of, "--releases", "4"),
        (*PARTS, "--dataset", "nobody", "--delta", "1e-6"),
        (*PARTS, "--dataset", "people", "--delta", "2"),
        ("--part", "12 x k=20,rate=0.1", *of),
        ("--part", "12 x k=20", "--part", "1 x epsilon=1", *of),
        (spec,),
        (),
    ):
        desk.refuse("series", "add", "year", *words)
    assert desk("series", "add", "year", "--part", "9 x epsilon=2", "--part", "1 x k=20,rate=0.1", *of).code == 3
    assert shown(desk)["datasets"][0]["epsilon_spent"] == 0
    assert desk("series", "list", "--json").json == {"series": []}
