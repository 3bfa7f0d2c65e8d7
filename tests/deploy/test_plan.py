"""`plan` reproduces the paper's tables and never charges anything."""

from __future__ import annotations

from pathlib import Path

import pytest


def asked(desk, **options: str) -> dict:
    words = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    answer = desk.succeed("plan", *words, "--json")
    return answer.json


def test_the_headline(desk) -> None:
    plan = asked(desk, k="20", sampling_rate="0.1", delta="1e-6", releases="12")
    assert round(plan["epsilon"], 2) == 0.36
    assert round(plan["epsilon_paper"], 2) == 4.29


@pytest.mark.slow
def test_any_one_parameter_follows_from_the_others(desk) -> None:
    full = {"k": "20", "sampling_rate": "0.1", "epsilon": "0.5", "delta": "1e-6", "releases": "12"}
    for name in ("k", "sampling_rate", "epsilon", "delta"):
        plan = asked(desk, **{key: value for key, value in full.items() if key != name})
        assert plan["filled"] == name
        assert plan[name] is not None
    most = asked(desk, **(full | {"releases": "max"}))["releases"]
    assert asked(desk, **(full | {"releases": str(most)}))["epsilon"] <= 0.5
    assert asked(desk, **(full | {"releases": str(most + 1)}))["epsilon"] > 0.5


@pytest.mark.slow
def test_it_is_readable_and_draws(desk) -> None:
    answer = desk.succeed("plan", "--k", "20", "--sampling-rate", "0.1", "--delta", "1e-6", "--plot", "plan.svg")
    assert "0.182989" in answer.out
    assert "0.291942" in answer.out
    assert Path("plan.svg").read_text().startswith("<?xml")
    assert len(answer.out.splitlines()) < 20


def test_it_needs_no_ledger_and_makes_none(desk) -> None:
    asked(desk, k="20", sampling_rate="0.1", delta="1e-6")
    assert not (desk.folder / "ledger.db").exists()
    assert not desk.home.exists()


def test_what_would_survive_for_public_group_sizes(desk) -> None:
    words = ("plan", "--k", "2", "--sampling-rate", "0.5", "--delta", "0.3", "--group-sizes")
    (desk.folder / "sizes.csv").write_text("1\n2,3\n")
    # By hand: the single is lost; of two, each survives if the other is sampled too: 6 records, half of them, of 7.
    assert desk(*words, "sizes.csv", "--json").json["survival_share"] == pytest.approx(3 / 7)
    assert "42.9%" in desk(*words, "sizes.csv").out
    (desk.folder / "sizes.csv").write_text("1\nmany\n")
    refused = desk(*words, "sizes.csv")
    assert refused.code == 2
    assert "line 2" in refused.err


def test_public_group_sizes_choose_k_and_rate_where_neither_is_given(desk) -> None:
    """On groups of 2,000 a high rate publishes most, and the least k that it allows is found with it."""
    (desk.folder / "sizes.csv").write_text("2000,10\n")
    price = ("plan", "--epsilon", "1", "--delta", "1e-6")
    found = desk(*price, "--group-sizes", "sizes.csv", "--json").json
    assert (found["k"], found["sampling_rate"]) == (desk(*price, "--rate", "0.95", "--json").json["k"], 0.95)
    assert found["epsilon"] <= 1
    assert found["survival_share"] == pytest.approx(1)
    refused = desk("plan", "--epsilon", "1", "--group-sizes", "sizes.csv")
    assert (refused.code, "these are missing" in refused.err) == (2, True)


def test_a_specification_is_priced_as_it_is_explained(desk) -> None:
    spec = desk.write_spec()
    for words in ((), ("--releases", "3")):
        planned, explained = desk("plan", spec, *words, "--json"), desk("explain", spec, *words, "--json")
        assert (planned.code, explained.code) == (0, 0)
        assert planned.json == explained.json
    refused = desk("plan", spec, "--k", "20")
    assert (refused.code, "no option but --releases" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("stages", "releases", "noise", "expected", "largest"),
    [(1, 1, "optimal", 13.07, 27), (3, 1, "gaussian", 39, 78), (3, 12, "gaussian", 139, 278)],
)
def test_the_noise_of_deletion_releases_is_planned(desk, stages, releases, noise, expected, largest) -> None:
    options = {"epsilon": "1", "delta": "1e-6", "stages": str(stages), "releases": str(releases)}
    found = asked(desk, mechanism="deletion", **options)
    assert (found["noise"], found["largest_deletion"]) == (noise, largest)
    assert round(found["expected_deletion"], 2) == expected
    assert found["mechanism"]["kind"] == "deletion-release/1"
    assert 0.9 < found["epsilon"] <= 1.0
    assert (found["delta"], found["stages"], found["releases"]) == (1e-6, stages, releases)
    said = desk("plan", "--mechanism", "deletion", *(x for o, v in options.items() for x in (f"--{o}", v)))
    assert said.code == 0
    assert noise in said.out
    assert str(largest) in said.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--epsilon", "1", "--delta", "1e-6", "--k", "20"), "alone"),
        (("spec.toml",), "alone"),
        (("--epsilon", "1"), "epsilon, delta and a number of releases"),
        (("--epsilon", "1", "--delta", "1e-6", "--releases", "max"), "number of releases"),
        (("--epsilon", "1e-9", "--delta", "1e-6"), "no noise"),
    ],
)
def test_what_is_no_plan_of_a_deletion_release_is_refused(desk, words, told) -> None:
    refused = desk("plan", "--mechanism", "deletion", *words)
    assert refused.code == 2
    assert told in refused.err


def test_margins_are_planned_beside_the_rows(desk) -> None:
    found = asked(desk, mechanism="deletion", epsilon="1", delta="1e-6", stages="2", margins="10")
    assert (found["mechanism"]["kind"], found["margins"]) == ("calibrated-deletion-release/1", 10)
    assert round(found["margin_error"], 1) == 67.4
    assert (found["largest_deletion"], 0.9 < found["epsilon"] <= 1) == (64, True)
    words = ("--epsilon", "1", "--delta", "1e-6", "--margins", "1", "--margin-share", "0.5")
    assert "± " in desk.succeed("plan", "--mechanism", "deletion", *words).out
    pairs = asked(desk, mechanism="deletion", epsilon="1", delta="1e-6", stages="2", margins="10", pairs="20")
    assert (pairs["mechanism"]["kind"], pairs["pairs"]) == ("paired-deletion-release/1", 20)
    assert pairs["epsilon"] <= 1
    blocks = asked(
        desk, mechanism="deletion", epsilon="1", delta="1e-6", stages="2", margins="10", pairs="20", blocks="3"
    )
    assert (blocks["mechanism"]["kind"], blocks["blocks"]) == ("blocked-deletion-release/1", 3)
    assert blocks["epsilon"] <= 1 < blocks["parameter"] / pairs["parameter"]
    assert (
        "chosen privately"
        in desk.succeed("plan", "--mechanism", "deletion", *words[:4], "--margins", "3", "--pairs", "2").out
    )
    wrongs: tuple[tuple[str, ...], ...] = (
        ("--margins", "2"),
        ("--mechanism", "deletion", "--margin-share", "0.5"),
        ("--mechanism", "deletion", "--pairs", "3"),
        ("--mechanism", "deletion", "--margins", "3", "--blocks", "2"),
    )
    for wrong in wrongs:
        assert desk("plan", "--epsilon", "1", "--delta", "1e-6", *wrong).code == 2


def test_stages_without_deletion_are_refused(desk) -> None:
    assert desk("plan", "--k", "20", "--sampling-rate", "0.1", "--delta", "1e-6", "--stages", "2").code == 2
