"""`plan --budget` tells how long what is left lasts, by the prices that would be charged, and changes nothing."""

from __future__ import annotations

from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.ledger.filter_budget import FilterBudget
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.composition.renyi_filter import filter_cost, fits, tail_for
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.accounting.theory.planning.budget_forecast import BudgetLeft, forecast, read_calendar
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.wording import times_in

REFERENCE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


def asked(desk, *words: str) -> dict:
    return desk.succeed("plan", "--budget", "people", *words, "--json").json


def ways(answer: dict, number: int = 0) -> dict[str, dict]:
    return {way["way"]: way for way in answer["calendars"][number]["ways"]}


def test_what_is_told_fits_and_one_more_does_not(desk) -> None:
    desk.add_dataset(epsilon="0.5", delta="1e-6")
    before = desk.succeed("ledger", "export").out
    found = ways(asked(desk))
    series, alone = found["series"], found["one by one"]
    for releases, enough in ((series["releases"], True), (series["releases"] + 1, False)):
        charged = price(REFERENCE, delta=Decimal("1e-6"), releases=releases)
        assert (charged.epsilon <= Decimal("0.5")) is enough
    assert series["epsilon"] == float(price(REFERENCE, delta=Decimal("1e-6"), releases=series["releases"]).epsilon)
    each = price(REFERENCE, delta=Decimal(str(alone["delta_each"])), releases=1)
    assert float(each.epsilon) == alone["epsilon_each"]
    assert each.epsilon * alone["releases"] <= Decimal("0.5")
    assert Decimal(str(alone["delta_each"])) * alone["releases"] <= Decimal("1e-6")
    more = price(REFERENCE, delta=Decimal("1e-6") / (alone["releases"] + 1), releases=1)
    assert more.epsilon * (alone["releases"] + 1) > Decimal("0.5")
    assert series["releases"] > 10 * alone["releases"]
    assert desk.succeed("ledger", "export").out == before


@pytest.mark.slow
def test_in_a_filter_data_set_the_filter_is_told_beside_what_an_additive_budget_would_carry(desk) -> None:
    words = ("--epsilon", "0.4", "--delta", "1e-6", "--accounting", "filter", "--expect", "12 x k=20,rate=0.1")
    desk.succeed("dataset", "add", "people", *words)
    desk.succeed("dataset", "add", "added", "--epsilon", "0.4", "--delta", "1e-6")
    answer = asked(desk, "--calendar", "12/year")
    assert list(ways(answer)) == ["filter", "one by one", "series"]
    with open_reader(desk.ledger) as reader:
        budget = FilterBudget.of(reader.dataset("people").filter_budget)
    terms, most = budget.terms, ways(answer)["filter"]["releases"]
    cost = filter_cost(REFERENCE, order=terms.order, tail=tail_for(terms, REFERENCE))
    assert most >= 12
    assert fits(terms, [cost] * most)
    assert not fits(terms, [cost] * (most + 1))
    assert ways(answer)["filter"]["epsilon"] is None
    additive = ways(desk.succeed("plan", "--budget", "added", "--calendar", "12/year", "--json").json)
    assert {way: ways(answer)[way] for way in additive} == additive
    assert most > 5 * additive["one by one"]["releases"]
    said = " ".join(desk.succeed("plan", "--budget", "people").out.split())
    assert "what is charged here" in said
    assert "the tails are used up first" not in said
    assert ways(answer)["filter"]["limited_by"] == "divergence"
    said = " ".join(desk.succeed("plan", "--budget", "people", "--k", "4", "--rate", "0.003").out.split())
    assert "the tails are used up first" in said


def test_how_often_an_amount_fits_is_counted_beyond_the_digits_of_decimals() -> None:
    assert times_in(Decimal("0.3"), Decimal("0.1"), most=9) == 3
    assert times_in(Decimal("0.29999999999999999999999999999999999999"), Decimal("0.1"), most=9) == 2
    assert times_in(Decimal("0.17"), Decimal("1e-400"), most=9) == 9
    assert times_in(Decimal("0.17"), Decimal(0), most=9) == 9
    assert times_in(Decimal(0), Decimal("1e-400"), most=9) == times_in(Decimal(-1), Decimal(1), most=9) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--budget", "people", "--calendar", "often"), "no calendar"),
        (("--budget", "people", "--calendar", "0/year"), "no calendar"),
        (("--budget", "people", "--calendar", "1/year of k=5,rate=2"), "sampling"),
        (("--budget", "people", "--calendar", "1/year of k=5,rate=1e"), "no number"),
        (("--budget", "nobody"), "nobody"),
        (("--budget", "people", "--epsilon", "1"), "alone"),
        (("--calendar", "12/year"), "goes with"),
    ],
)
def test_what_can_not_be_planned_is_refused(desk, words, told) -> None:
    desk.add_dataset()
    refused = desk("plan", *words)
    assert refused.code == 2
    assert told in refused.err


def test_data_sets_without_a_forecast_are_refused_with_the_reason(desk) -> None:
    for name, *options in (
        ("survey", "--survey-rate", "0.1"),
        ("households", "--rows-per-person", "3"),
        ("swapped", "--relation", "replacement"),
    ):
        desk.succeed("dataset", "add", name, "--epsilon", "1", "--delta", "1e-6", *options)
        refused = desk("plan", "--budget", name)
        assert refused.code == 2
        assert "nothing is forecast" in refused.err


def test_a_budget_without_room_has_room_for_none() -> None:
    for left in (
        BudgetLeft(epsilon=Decimal(0), delta=Decimal("1e-6")),
        BudgetLeft(epsilon=Decimal(1), delta=Decimal(0)),
        BudgetLeft(epsilon=Decimal("0.1"), delta=Decimal("1e-9")),
    ):
        found = forecast(left, [read_calendar("12/year")])
        assert [one.releases for one in found.lasting[0]] == [0, 0]
