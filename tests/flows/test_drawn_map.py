"""A release whose map is drawn, through the command line: what is published, charged, certified and refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crowdblend.flows.spec import read_spec
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
def test_a_lost_key_of_the_selections_sample_is_refused(desk, cut_off) -> None:
    desk.add_dataset()
    fresh = chosen('[selection]\nepsilon = 0.2\non = "fresh-sample"\nrate = 0.25\n')
    cut_off(desk.write_spec(edit=fresh), stage="drawn_chain")
    [key] = desk.home.rglob("selection.key")
    key.unlink()
    desk.refuse("run", desk.write_spec(edit=fresh), "--release-id", "one", code=3, said="the selection's sampling key")


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


def test_any_change_of_the_choice_is_another_specification(desk) -> None:
    def digest(**change) -> str:
        return read_spec(desk.write_spec(**change), output=None).digest

    asked = digest(edit=chosen())
    assert len({asked, *(digest(**change) for change in CHANGES.values())}) == 1 + len(CHANGES)
    same = chosen('[selection]\nepsilon = 0.2\non = "whole"\ndraw = "exponential"\n', age="weight = 1.0\nmin_level = 0")
    assert digest(edit=same) == asked
