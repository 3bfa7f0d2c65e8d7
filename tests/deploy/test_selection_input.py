"""A wrong [selection] is refused before anything is read, with file and key; and `explain` reads nothing at all."""

from __future__ import annotations

import os

import pytest

LISTED = "candidates = [{ colour = 1, age = 2, town = 1 }]"
LARGE = "interval = {{ lower = 0, upper = 1_000_000_000, widths = [{}] }}".format(
    ", ".join(str(2**power) for power in range(1, 60))
)


def chosen(selection: str = "epsilon = 0.1", **columns: str):
    """A specification's levels become a choice; a column may say more of itself."""

    def edit(text: str) -> str:
        head, *tables = text.split("[columns.")
        written = [f"{head}[selection]\n{selection}\n"]
        for table in tables:
            name, _, body = table.partition("]\n")
            lines = [line for line in body.splitlines() if not line.startswith("level")]
            written.append("\n".join([f"{name}]", *lines, columns.get(name, "")]) + "\n")
        return "[columns.".join(written)

    return edit


def with_epsilon(epsilon: str, selection: str):
    return lambda text: chosen(selection)(text).replace("delta =", f"epsilon = {epsilon}\ndelta =")


REFUSED = {
    "bounds that leave no candidate": (chosen(age="min_level = 2\nmax_level = 1"), "[columns.age].min_level"),
    "a level above the hierarchy's": (chosen(age="min_level = 4"), "[columns.age].min_level"),
    "an upper level above the hierarchy's": (chosen(town="max_level = 3"), "[columns.town].max_level"),
    "a negative level": (chosen(town="min_level = -1"), "[columns.town].min_level"),
    "a negative weight": (chosen(age="weight = -1"), "[columns.age].weight"),
    "a weight that is no number": (chosen(age='weight = "much"'), "[columns.age].weight"),
    "an endless weight": (chosen(age="weight = inf"), "[columns.age].weight"),
    "a weight of too many digits": (chosen(age="weight = 0.1234567890123"), "[columns.age].weight"),
    "no weight at all": (chosen(age="weight = 0", town="weight = 0", colour="weight = 0"), "[columns.colour].weight"),
    "a weight of an unknown column": (
        lambda text: chosen()(text) + "\n[columns.height]\nweight = 2\n",
        "[columns.height]",
    ),
    "a level beside the choice": (chosen(age="level = 1"), "[columns.age].level"),
    "bounds without a choice": (lambda text: text + "min_level = 1\n", "[columns.town].min_level"),
    "a weight without a choice": (lambda text: text + "weight = 1\n", "[columns.town].weight"),
    "no epsilon": (chosen(""), "[selection].epsilon"),
    "an epsilon of 0": (chosen("epsilon = 0"), "[selection].epsilon"),
    "all of the epsilon": (with_epsilon("0.4", "epsilon = 0.4"), "[selection].epsilon"),
    "more than the epsilon": (with_epsilon("0.3", "epsilon = 0.4"), "[selection].epsilon"),
    "an unknown place": (chosen('epsilon = 0.1\non = "sample"'), "[selection].on"),
    "a fresh sample without a rate": (chosen('epsilon = 0.1\non = "fresh-sample"'), "[selection].rate"),
    "a rate without a fresh sample": (chosen("epsilon = 0.1\nrate = 0.5"), "[selection].rate"),
    "a rate of 1": (chosen('epsilon = 0.1\non = "fresh-sample"\nrate = 1'), "[selection].rate"),
    "an unknown draw": (chosen('epsilon = 0.1\ndraw = "argmax"'), "[selection].draw"),
    "an unknown key": (chosen("epsilon = 0.1\nscore = 1"), "[selection].score"),
    "too many maps without a walk": (
        lambda text: chosen()(text) + "".join(f"\n[columns.x{n}]\n{LARGE}\n" for n in range(3)),
        "[selection].steps",
    ),
    "a walk of no steps": (chosen("epsilon = 0.1\nsteps = 0"), "[selection].steps"),
    "a walk by permute-and-flip": (
        chosen('epsilon = 0.1\nsteps = 3\ndraw = "permute-and-flip"'),
        "[selection].draw",
    ),
    "a walk through a list": (chosen(f"epsilon = 0.1\nsteps = 3\n{LISTED}"), "[selection].steps"),
    "steps too small to pay for": (chosen("epsilon = 1e-12\nsteps = 3"), "[selection].steps"),
    "an empty list": (chosen("epsilon = 0.1\ncandidates = []"), "[selection].candidates"),
    "a candidate without a column": (
        chosen("epsilon = 0.1\ncandidates = [{ colour = 1, age = 2 }]"),
        "[selection].candidates, number 1",
    ),
    "a candidate with an unknown column": (
        chosen("epsilon = 0.1\ncandidates = [{ colour = 1, age = 2, town = 1, height = 0 }]"),
        "[selection].candidates, number 1",
    ),
    "a candidate outside the bounds": (
        chosen(f"epsilon = 0.1\n{LISTED}", age="max_level = 1"),
        "[selection].candidates, number 1",
    ),
    "a candidate twice": (
        chosen(f"epsilon = 0.1\n{LISTED.replace('}]', '}, { town = 1, age = 2, colour = 1 }]')}"),
        "[selection].candidates, number 2",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_choice_is_2_and_nothing_is_read(desk, what) -> None:
    """There is no ledger, and the source is a pipe that nobody writes to: opening it would hang."""
    edit, where = REFUSED[what]
    (desk.folder / "people.csv").unlink()
    os.mkfifo(desk.folder / "people.csv")
    for command in ("run", "explain"):
        answer = desk(command, desk.write_spec(edit=edit), "--json")
        assert answer.code == 2, (command, answer.err)
        assert answer.json["error"]["where"].startswith(f"{desk.folder / 'spec.toml'}: {where}"), answer.json
        assert answer.err.count("\n") == 1
    assert not (desk.folder / "ledger.db").exists()
    assert not (desk.folder / "out").exists()


@pytest.mark.parametrize("missing", ["k", pytest.param("rate", marks=pytest.mark.slow)])
def test_what_is_missing_follows_from_the_epsilon_that_the_choice_leaves(desk, missing) -> None:
    table = {"k": "[suppression]\nk = 20\n", "rate": "[sampling]\nrate = 0.1\n"}[missing]
    for selection in ("epsilon = 0.2", 'epsilon = 0.2\non = "fresh-sample"\nrate = 0.1'):
        edit = with_epsilon("0.5", selection)
        answer = desk.succeed(
            "explain", desk.write_spec(edit=lambda text, edit=edit: edit(text.replace(table, ""))), "--json"
        )
        assert answer.json["epsilon"] <= 0.5
        assert answer.json["epsilon"] > 0.45


def explained(desk, *words: str, **changes) -> dict:
    answer = desk.succeed("explain", desk.write_spec(**changes), *words, "--json")
    return answer.json


def test_the_release_alone_is_priced_for_all_records_of_a_person(desk) -> None:
    one, three = (
        explained(
            desk, edit=lambda text, rows=rows: chosen()(text).replace("[data]", f"[data]\nrows_per_person = {rows}")
        )
        for rows in (1, 3)
    )
    assert three["selection"]["epsilon_of_release"] > 2 * one["selection"]["epsilon_of_release"]
    assert three["selection"]["epsilon_of_release"] < three["epsilon"]


def test_it_explains_a_choice_from_public_things_alone(desk) -> None:
    (desk.folder / "people.csv").unlink()
    told = explained(desk, edit=chosen(age="min_level = 1\nweight = 2"))
    assert told["maps"] == 2 * 3 * 3
    selection = told["selection"]
    assert (selection["draw"], selection["on"], selection["threshold"]) == ("exponential", "whole", 200)
    assert selection["epsilon_of_release"] < told["epsilon"] <= selection["epsilon_of_release"] + 0.1
    colour, age, town = told["columns"]
    assert (age["weight"], age["min_level"], age["max_level"]) == (2.0, 1, 3)
    assert [row["possible"] for row in age["levels"]] == [False, True, True, True]
    assert [row["labels"] for row in age["levels"]] == [100, 10, 2, 1]
    assert age["levels"][1]["examples"] == ["< 0", "[50, 60)", ">= 100"]
    assert [row["values_per_label"] for row in town["levels"]] == [[1, 1], [2, 2], [4, 4]]
    assert town["levels"][2]["examples"] == ["*"]
    assert [row["information_kept"] for row in colour["levels"]] == [1.0, 0.0]
    assert not (desk.folder / "ledger.db").exists()
    assert not desk.home.exists()


def test_what_it_says_is_what_is_charged(desk) -> None:
    """The same numbers in `explain`, in `plan` and in the ledger."""
    fresh = 'epsilon = 0.1\non = "fresh-sample"\nrate = 0.05'
    for selection, words in (("epsilon = 0.1", ()), (fresh, ("--selection-rate", "0.05"))):
        told = explained(desk, "--releases", "12", edit=chosen(selection))
        asked = ("--k", "20", "--sampling-rate", "0.1", "--delta", "1e-6", "--releases", "12")
        plan = desk("plan", *asked, "--selection-epsilon", "0.1", *words, "--json").json
        assert (told["epsilon"], told["epsilon_paper"]) == (plan["epsilon"], plan["epsilon_paper"])
        assert plan["epsilon_composed"] == plan["epsilon"] < plan["epsilon_paper"]
    desk.add_dataset()
    registered = desk("series", "add", "monthly", desk.write_spec(edit=chosen(fresh)), "--releases", "12", "--json")
    assert registered.json["epsilon"] == told["epsilon"]


def test_it_explains_a_list_and_a_walk(desk) -> None:
    listed = explained(desk, edit=chosen(f"epsilon = 0.1\n{LISTED}"))
    assert listed["maps"] == 1
    assert listed["selection"]["candidates"] == [{"colour": 1, "age": 2, "town": 1}]
    walk = explained(
        desk,
        edit=lambda text: (
            chosen("epsilon = 0.1\nsteps = 9")(text)
            + f"\n[columns.x]\n{LARGE}\n[columns.y]\n{LARGE}\n[columns.z]\n{LARGE}\n"
        ),
    )
    assert (walk["maps"], walk["selection"]["draw"], walk["selection"]["steps"]) == (24 * 61**3, "walk", 9)
