"""A release whose map is drawn, through the command line: what is published, charged, certified and refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.kernel.errors import ReleaseFailed

SELECTION = "\n[selection]\nepsilon = 0.2\n"


def chosen(selection: str = SELECTION, **columns: str):
    """Make a specification's fixed levels a choice; a column's levels and weight may be bounded instead."""

    def edit(text: str) -> str:
        tables = text.split("[columns.")
        kept = [tables[0] + selection.lstrip("\n") + "\n"]
        for table in tables[1:]:
            name = table.partition("]")[0]
            lines = [line for line in table.splitlines() if not line.startswith("level")]
            kept.append("\n".join([*lines, columns.get(name, "")]) + "\n")
        return "[columns.".join(kept)

    return edit


def told(path: str | Path) -> dict:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def run(desk, *words: str | Path, edit=None, **changes: str) -> dict:
    answer = desk.succeed("run", desk.write_spec(edit=edit or chosen(), **changes), *words, "--json")
    return answer.json


def test_the_drawn_map_is_the_published_one(desk) -> None:
    desk.add_dataset()
    result = run(desk)
    assert result["mechanism"] == {
        "kind": "epsilon-safe-release/2",
        "k": 20,
        "sampling_rate": "0.1",
        "selection_epsilon": "0.2",
        "selection_rate": "whole",
        "selection_draws": 1,
    }
    assert result["timings"]["select"] > 0
    certificate = told(result["certificate"])
    chosen_from = certificate["map"]["selection"]
    drawn = {column["column"]: column["level"] for column in certificate["map"]["columns"]}
    assert drawn == result["levels"]
    assert (chosen_from["maps"], chosen_from["draw"], chosen_from["epsilon"]) == (2 * 4 * 3, "exponential", "0.2")
    assert chosen_from["threshold"] == 200
    assert "Theorem 3.11" in certificate["guarantee"]["theorem"]
    assert "drawn privately" in certificate["guarantee"]["in_words"]
    assert "fixed before" not in json.dumps(certificate)
    table = pq.read_table(Path(result["output"]) / "data.parquet")
    assert table.num_rows == result["published_records"]
    for column in ("colour", "town"):
        for label in set(table[column].to_pylist()) - {"*"}:
            assert drawn[column] == {"North": 1, "South": 1}.get(label, 0)
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")
    [entry] = desk("ledger", "show", "--json").json["releases"]
    assert entry["selection_sample_id"] is None


@pytest.mark.slow
def test_a_published_id_answers_with_its_map_and_draws_no_other(desk, monkeypatch) -> None:
    from crowdblend.tasks.stages import count as select

    desk.add_dataset()
    first = run(desk, "--release-id", "census-1")
    (desk.folder / "people.csv").unlink()
    monkeypatch.setattr(select, "draw_map", None)
    again = run(desk, "--release-id", "census-1")
    assert again["levels"] == first["levels"]
    assert again["published_records"] == first["published_records"]


@pytest.mark.slow
def test_a_choice_on_a_fresh_sample_takes_two_samples_and_costs_less(desk) -> None:
    desk.add_dataset()
    fresh = chosen('[selection]\nepsilon = 0.2\non = "fresh-sample"\nrate = 0.25\ndraw = "exponential"\n')
    result = run(desk, edit=fresh, output="fresh")
    whole = run(desk, output="whole")
    assert result["mechanism"]["selection_rate"] == "0.25"
    assert result["epsilon"] < whole["epsilon"]
    [entry, other] = desk("ledger", "show", "--json").json["releases"]
    certificate = told(result["certificate"])["map"]["selection"]
    assert entry["sample_id"] == result["sample_id"] != entry["selection_sample_id"] == certificate["sample_id"]
    assert len({entry["sample_id"], entry["selection_sample_id"], other["sample_id"]}) == 3
    assert (certificate["rate"], certificate["threshold"], certificate["draw"]) == ("0.25", 50, "exponential")
    assert "a fresh sample of the records" in certificate["in_words"]
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")
    assert {path.name for path in desk.home.rglob("*.key")} & {"sampling.key", "selection.key"} == set()


@pytest.mark.slow
def test_a_walk_ends_on_its_last_draw(desk) -> None:
    desk.add_dataset()
    result = run(desk, edit=chosen("[selection]\nepsilon = 0.3\nsteps = 4\n"))
    certificate = told(result["certificate"])["map"]["selection"]
    assert (certificate["draw"], certificate["steps"]) == ("walk", 4)
    [folder] = desk.home.rglob("map.draw.json")
    steps = [json.loads((folder.parent / f"map-step-{step}.draw.json").read_text())["levels"] for step in range(4)]
    assert steps[-1] == list(result["levels"].values()) == json.loads(folder.read_text())["levels"]
    assert all(sum(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1 for one, other in pairwise(steps))
    desk.succeed("verify", result["certificate"])


@pytest.mark.slow
def test_listed_candidates_are_all_that_can_be_drawn(desk) -> None:
    desk.add_dataset()
    listed = (
        "[selection]\nepsilon = 0.1\n"
        "candidates = [{ colour = 1, age = 2, town = 1 }, { town = 2, age = 1, colour = 0 }]\n"
    )
    result = run(desk, edit=chosen(listed))
    assert tuple(result["levels"].values()) in {(1, 2, 1), (0, 1, 2)}
    certificate = told(result["certificate"])["map"]["selection"]
    assert certificate["maps"] == 2
    assert certificate["lattice"]["candidates"] == [[0, 1, 2], [1, 2, 1]]


@pytest.mark.slow
def test_what_is_clearly_best_is_drawn(desk) -> None:
    """Where the town alone matters, any map with other levels of town or colour has odds below e^-1000 at ε₁ = 5."""
    desk.add_dataset(epsilon="20")
    best = chosen("[selection]\nepsilon = 5\n", colour="weight = 0", age="weight = 0", town="weight = 1\nmax_level = 1")
    result = run(desk, edit=best)
    # Each colour would halve the groups of a town and more; a person's age follows from the town here.
    assert (result["levels"]["town"], result["levels"]["colour"]) == (0, 1)


@pytest.mark.slow
def test_no_records_have_a_map_too(desk) -> None:
    (desk.folder / "people.csv").write_text("colour;age;town\n")
    desk.add_dataset()
    assert run(desk)["published_records"] == 0


@pytest.mark.slow
def test_each_release_of_a_series_draws_for_itself(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec(edit=chosen())
    registered = desk.succeed("series", "add", "monthly", spec, "--releases", "2", "--json")
    assert registered.json["rule"] == "bounded-range-game/1"
    for month in ("january", "february"):
        result = run(desk, "--series", "monthly", output=month)
        assert result["epsilon"] == registered.json["epsilon"]
        certificate = told(result["certificate"])
        assert "this is one release of a series" in certificate["guarantee"]["in_words"].lower()
        assert "drawn privately" in certificate["guarantee"]["in_words"]
        desk.succeed("verify", result["certificate"])
    assert len(list(desk.home.rglob("map.draw.json"))) == 2
    other = desk(
        "run",
        desk.write_spec(edit=chosen('[selection]\nepsilon = 0.2\ndraw = "permute-and-flip"\n')),
        "--series",
        "monthly",
    )
    assert other.code == 3
    [dataset] = desk("ledger", "show", "--json").json["datasets"]
    assert dataset["epsilon_spent"] == registered.json["epsilon"]
    assert dataset["epsilon_estimate"] <= dataset["epsilon_spent"]
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_a_drawn_map_is_never_drawn_again(desk, monkeypatch, cut_off) -> None:
    from crowdblend.tasks.stages import count as select

    desk.add_dataset()
    cut_off(desk.write_spec(edit=chosen()), stage="count_stage")
    [stored] = desk.home.rglob("map.draw.json")
    assert stored.stat().st_mode & 0o777 == 0o600
    levels = json.loads(stored.read_text())["levels"]
    monkeypatch.setattr(select, "draw_map", None)
    result = run(desk, "--release-id", "one")
    assert list(result["levels"].values()) == levels


@pytest.mark.slow
def test_a_walk_goes_on_from_its_stored_draws(desk, monkeypatch) -> None:
    from crowdblend.tasks.stages import count as select

    desk.add_dataset()
    steps = chosen("[selection]\nepsilon = 0.3\nsteps = 3\n")
    store, calls = select.store_draw, []

    def failing(draw, levels, **given) -> None:
        if draw.name == "map-step-2":
            raise ReleaseFailed("the lights went out.")
        store(draw, levels, **given)
        calls.append(levels)

    with monkeypatch.context() as dark:
        dark.setattr(select, "store_draw", failing)
        assert desk("run", desk.write_spec(edit=steps), "--release-id", "one").code == 1
    assert len(calls) == 2
    run(desk, "--release-id", "one", edit=steps)
    stored = sorted(desk.home.rglob("map-step-*.draw.json"))
    assert [tuple(json.loads(path.read_text())["levels"]) for path in stored[:2]] == calls


@pytest.mark.slow
def test_a_draw_that_is_damaged_is_never_made_again(desk, cut_off) -> None:
    desk.add_dataset()
    cut_off(desk.write_spec(edit=chosen()), stage="count_stage")
    [stored] = desk.home.rglob("map.draw.json")
    kept = json.loads(stored.read_text())
    for damage in (
        "",
        "[]",
        "{}",
        json.dumps(kept | {"levels": [0, 9, 0]}),
        json.dumps(kept | {"sample_id": "0" * 64}),
    ):
        stored.write_text(damage)
        answer = desk("run", desk.write_spec(edit=chosen()), "--release-id", "one")
        assert answer.code == 1, damage
        assert "never drawn again" in answer.err, damage
    desk.succeed("abandon", "one", "--reason", "a test")
    assert not list(desk.home.rglob("*.draw.json"))


@pytest.mark.slow
def test_a_lost_key_of_the_selections_sample_is_refused(desk, cut_off) -> None:
    desk.add_dataset()
    fresh = chosen('[selection]\nepsilon = 0.2\non = "fresh-sample"\nrate = 0.25\n')
    cut_off(desk.write_spec(edit=fresh), stage="drawn_chain")
    [key] = desk.home.rglob("selection.key")
    key.unlink()
    answer = desk("run", desk.write_spec(edit=fresh), "--release-id", "one")
    assert answer.code == 3
    assert "the selection's sampling key" in answer.err


CHANGES = {
    "epsilon": {"edit": chosen("[selection]\nepsilon = 0.3\n")},
    "draw": {"edit": chosen('[selection]\nepsilon = 0.2\ndraw = "permute-and-flip"\n')},
    "sample": {"edit": chosen('[selection]\nepsilon = 0.2\non = "fresh-sample"\nrate = 0.5\n')},
    "walk": {"edit": chosen("[selection]\nepsilon = 0.2\nsteps = 3\n")},
    "bounds": {"edit": chosen(age="max_level = 2")},
    "weight": {"edit": chosen(age="weight = 2")},
    "candidates": {
        "edit": chosen("[selection]\nepsilon = 0.2\ncandidates = [{ colour = 1, age = 2, town = 1 }]\n"),
    },
    "fixed levels": {"edit": lambda text: text},
    "k": {"edit": chosen(), "k": "25"},
}


@pytest.mark.slow
def test_a_retry_after_any_change_of_the_choice_is_refused(desk, cut_off) -> None:
    desk.add_dataset()
    cut_off(desk.write_spec(edit=chosen()), stage="drawn_chain")
    for what, change in CHANGES.items():
        answer = desk("run", desk.write_spec(**change), "--release-id", "one")
        assert answer.code == 3, (what, answer.err)
        assert "another specification" in answer.err, what
    same = chosen('[selection]\nepsilon = 0.2\non = "whole"\ndraw = "exponential"\n', age="weight = 1.0\nmin_level = 0")
    assert run(desk, "--release-id", "one", edit=same)["published_records"] >= 0
