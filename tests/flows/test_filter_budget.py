"""Releases of a filter data set, each decided for itself: what they take, what is certified, and where it ends."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.ledger.reader import open_reader

ADD = ("dataset", "add", "people", "--epsilon", "0.48", "--delta", "1e-6", "--accounting", "filter")
FORMS = "this is not NUMBER x k=K,rate=RATE or NUMBER x epsilon=E: "
TWELVE = ("--expect", "12 x k=20,rate=0.1")


@pytest.fixture
def filtered(desk):
    """A desk whose data set has a filter budget for twelve releases."""
    desk.succeed(*ADD, *TWELVE)
    return desk


def listed(desk) -> dict:
    [row] = desk.succeed("dataset", "list", "--json").json["datasets"]
    return row


def test_a_release_takes_its_share_and_its_certificate_says_so(filtered) -> None:
    desk = filtered
    before = listed(desk)
    assert (before["accounting"], before["order"], before["spent_share"]) == ("filter", 37.0, 0.0)
    spec = desk.write_spec(file_format="csv")
    looked = desk.succeed("run", spec, "--dry-run", "--json").json
    told = desk.succeed("explain", spec).out
    assert "5.32 % would be spent" in " ".join(told.split())
    result = desk.succeed("run", spec, "--json").json
    assert (result["epsilon"], result["delta"]) == (looked["epsilon"], 1e-6)
    assert result["filter_charge"]["divergence"] == looked["budget"]["divergence"]
    certificate = json.loads(Path(result["certificate"]).read_text(encoding="utf-8"))
    stated = certificate["filter_budget"]
    assert (stated["epsilon"], stated["delta"], stated["order"]) == ("0.48", "0.000001", "37")
    assert stated["charge"]["share"] == "0.0531585"
    assert certificate["guarantee"]["epsilon"] == str(result["epsilon"])
    desk.succeed("verify", result["certificate"])
    after = listed(desk)
    assert after["spent"]["divergence"] == float(stated["charge"]["divergence"]) == looked["budget"]["divergence"]
    assert after["spent_share"] == pytest.approx(looked["budget"]["spent_share_after"])
    assert after["remaining"]["divergence"] < before["remaining"]["divergence"]
    assert (after["epsilon_spent"], after["epsilon_budget"]) == (None, 0.48)
    assert desk.succeed("ledger", "verify", "--json").json["ok"]
    shown = desk.succeed("ledger", "show")
    assert "Filter budgets" in shown.out
    assert "5.32 %" in shown.out


def test_what_does_not_fit_is_refused_before_anything_is_read(filtered) -> None:
    desk = filtered
    spec = desk.write_spec(rate="0.4")
    (desk.folder / "people.csv").unlink()  # it would be exit 2 if the source were looked for
    desk.refuse("run", spec, "--json", code=3, said=("past the budget", "Left are", "would fit"))
    assert listed(desk)["spent_share"] == 0.0


def test_what_has_no_divergence_is_refused_by_its_name(desk) -> None:
    """Sampled releases for people with several records have none, and answers do."""
    desk.succeed(*ADD, "--rows-per-person", "2", "--expect", "40 x epsilon=0.01")
    spec = desk.write_spec(edit=lambda text: text.replace("[data]\n", "[data]\nrows_per_person = 2\n"))
    desk.refuse("run", spec, "--json", code=3, said="can't pay for strongly-safe-release/1")
    assert listed(desk)["spent_share"] == 0.0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--expect", "12 k=20,rate=0.1"), f"--expect, release 1: {FORMS}'12 k=20,rate=0.1'"),
        (("--expect", "12 x k=20"), f"--expect, release 1: {FORMS}'12 x k=20'"),
        (("--expect", "12 x k=20,rate=0.1,rate=0.2"), f"--expect, release 1: {FORMS}'12 x k=20,rate=0.1,"),
        (("--expect", "12 x k=20,rate=0.1, 3 x k=20,rat=1"), f"--expect, release 2: {FORMS}'3 x k=20,rat=1'"),
        (
            ("--expect", "2 x epsilon=1e", "--expect", "1 x k=5,rate=0.1"),
            f"--expect, release 1: {FORMS}'2 x epsilon=1e'",
        ),
        (("--expect", "0 x k=20,rate=0.1"), "--expect, release 1: a part has 1 to"),
        (("--expect", "1 x k=20,rate=2"), "--expect, release 1: "),
        (("--expect", "1 x k=20,rate=0.1,epsilon=1"), f"--expect, release 1: {FORMS}'1 x k=20,rate=0.1,epsilon=1'"),
        (("--expect", "500 x k=20,rate=0.1"), "would not fit into a filter of epsilon 0.48"),
        (("--survey-rate", "0.1"), "can be released once"),
        (("--rows-per-person", "2"), "no sampled releases where a person may have several records"),
        (("--relation", "replacement", *TWELVE), "or where prices hold by replacement"),
    ],
)
def test_what_cannot_be_expected_is_told_with_its_place(desk, words, told) -> None:
    desk.refuse(*ADD, *words, said=told)
    assert not (desk.folder / "ledger.db").exists()


def test_several_kinds_are_expected_together_and_nothing_without_a_filter(desk) -> None:
    desk.succeed(*ADD[:4], "0.6", *ADD[5:], *TWELVE, "--expect", "4 x k=50,rate=0.05, 6 x epsilon=0.01")
    with open_reader(desk.ledger) as reader:
        state = reader.dataset("people")
    assert state.filter_budget.accounting.allowance == state.account.epsilon_budget > Decimal("0.2")
    refused = desk("dataset", "add", "other", "--epsilon", "1", "--delta", "1e-6", *TWELVE)
    assert refused.code == 2
    assert "this budget adds prices up" in refused.err
