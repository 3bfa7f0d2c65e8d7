"""How long a budget lasts: calendars as they are written, what fits into what is left, and how it is told."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.composition.renyi_filter import FilterTerms, filter_cost, spent_share, tail_for
from crowdblend.accounting.theory.planning import budget_forecast as planned
from crowdblend.accounting.theory.planning.budget_forecast import (
    CALENDARS,
    BudgetLeft,
    Calendar,
    FilterLeft,
    forecast,
    forecast_facts,
    read_calendar,
    require_forecast,
    span_shown,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

MILLIONTH = Decimal("1e-6")
RARE = StronglySafeRelease(k=50, sampling_rate=Decimal("0.05"))
TERMS = FilterTerms(
    epsilon=Decimal(1), delta=MILLIONTH, order=Decimal(20), tail_delta=Decimal("3e-7"), tail_each=Decimal("1e-8")
)
NEVER = {"most": False, "years": 0.0, "lasts": "0 days", "epsilon": 0, "delta": 0}
NOT_EACH = dict.fromkeys(("epsilon_each", "delta_each", "share_each", "limited_by"))


@pytest.mark.parametrize(
    ("text", "releases", "period", "a_year", "k", "rate"),
    [
        ("1/day", 1, "day", 365, 20, "0.1"),
        ("52/year", 52, "year", 52, 20, "0.1"),
        (" 3 / weeks ", 3, "week", 156, 20, "0.1"),
        ("999999/months", 999_999, "month", 11_999_988, 20, "0.1"),
        ("2/quarter of k=9999999,rate=0.05", 2, "quarter", 8, 9_999_999, "0.05"),
        ("4/year of k = 50 , sampling_rate = 5e-2 ", 4, "year", 4, 50, "0.05"),
        ("1/year of k=1,sampling-rate=+.5", 1, "year", 1, 1, "0.5"),
    ],
)
def test_a_calendar_is_read_as_it_is_written(text, releases, period, a_year, k, rate):
    found = read_calendar(text)
    assert (found.releases, found.period, found.a_year) == (releases, period, a_year)
    assert found.mechanism == StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
    assert found.text == f"{releases}/{period}"
    assert read_calendar(found.text, k=7, sampling_rate=Decimal("0.3")).mechanism == StronglySafeRelease(
        k=7, sampling_rate=Decimal("0.3")
    )
    assert found.years(6) == Fraction(6, a_year)


def test_the_calendars_that_are_compared_are_calendars():
    assert [read_calendar(text).text for text in CALENDARS] == list(CALENDARS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("often", "no calendar"),
        ("0/year", "no calendar"),
        ("1000000/year", "no calendar"),
        ("1/decade", "no calendar"),
        ("1/yearss", "no calendar"),
        ("1/year of k=10000000,rate=0.1", "no calendar"),
        ("1/year of k=5", "no calendar"),
        ("1/year, monthly", "no calendar"),
        ("1/year of k=0,rate=0.1", "k must"),
        ("1/year of k=5,rate=1", "sampling rate"),
        ("1/year of k=5,rate=1e", "the rate is no number"),
    ],
)
def test_what_is_no_calendar_is_refused_with_its_text(text, told):
    with pytest.raises(InputRefused, match=told) as refused:
        read_calendar(text)
    assert refused.value.where == f"calendar '{text}'"
    assert refused.value.not_done == ""


def facts(left, *calendars):
    return forecast_facts(forecast(left, [read_calendar(text) for text in calendars]))


def test_a_forecast_tells_what_fits_and_what_it_is_charged():
    """One release costs 0.0353 at a millionth, two in a series 0.0439: a budget of 0.05 has room for two so paid."""
    found = facts(BudgetLeft(epsilon=Decimal("0.05"), delta=MILLIONTH), "3/week of k=50,rate=0.05", "12/year")
    one, two = price(RARE, delta=MILLIONTH).epsilon, price(RARE, delta=MILLIONTH, releases=2).epsilon
    assert two <= Decimal("0.05") < min(2 * one, price(RARE, delta=MILLIONTH, releases=3).epsilon)
    alone = {"epsilon": one, "delta": MILLIONTH, "epsilon_each": one, "delta_each": MILLIONTH}
    assert found == {
        "accounting": "additive",
        "epsilon_left": Decimal("0.05"),
        "delta_left": MILLIONTH,
        "share_left": None,
        "calendars": [
            {
                "calendar": "3/week",
                "k": 50,
                "sampling_rate": Decimal("0.05"),
                "releases_a_year": 156,
                "ways": [
                    {"way": "one by one", "releases": 1, "most": False, "years": 0.0064, "lasts": "2 days"}
                    | NOT_EACH
                    | alone,
                    {"way": "series", "releases": 2, "most": False, "years": 0.0128, "lasts": "4 days"}
                    | NOT_EACH
                    | {"epsilon": two, "delta": MILLIONTH},
                ],
            },
            {
                "calendar": "12/year",
                "k": 20,
                "sampling_rate": Decimal("0.1"),
                "releases_a_year": 12,
                "ways": [{"way": way, "releases": 0} | NEVER | NOT_EACH for way in ("one by one", "series")],
            },
        ],
        "changes": [
            {"k": 50, "sampling_rate": Decimal("0.05"), "releases": {"one by one": 1, "series": 2}},
            {"k": 100, "sampling_rate": Decimal("0.05"), "releases": {"one by one": 2, "series": 7}},
            {"k": 50, "sampling_rate": Decimal("0.025"), "releases": {"one by one": 2, "series": 15}},
        ],
    }


def test_a_large_delta_is_used_whole():
    cheap, left = StronglySafeRelease(k=1, sampling_rate=Decimal("0.7")), Decimal("0.9")
    found = forecast(BudgetLeft(epsilon=Decimal(0), delta=left), [Calendar(releases=1, period="day", mechanism=cheap)])
    assert [(one.releases, one.delta) for one in found.lasting[0]] == [(1, left), (1, left)]


@pytest.mark.parametrize("delta", ["0", "-1e-9"])
def test_nothing_fits_without_delta(delta):
    found = forecast(BudgetLeft(epsilon=Decimal(1), delta=Decimal(delta)), [read_calendar("1/day")])
    assert [one.releases for one in found.lasting[0]] == [0, 0]


def test_what_has_no_price_does_not_fit():
    found = forecast(
        BudgetLeft(epsilon=Decimal("0.1"), delta=Decimal("1e-9")), [read_calendar("1/day of k=1,rate=0.99")]
    )
    assert {way: many for change in found.changes for way, many in change.releases.items()} == {
        "one by one": 0,
        "series": 0,
    }


def filter_left(divergence, tail):
    return FilterLeft(terms=TERMS, divergence=Decimal(divergence), tail=Decimal(tail))


def test_what_is_left_of_a_filter_is_the_smaller_share_rounded_down():
    third = TERMS.allowance / 3
    assert filter_left(third, "3e-7").share == Decimal("0.333333333333")
    assert filter_left(TERMS.allowance, "2e-7").share == Decimal("0.666666666666")
    beside = BudgetLeft.of_filter(filter_left(third, "2e-7"))
    assert (beside.epsilon, beside.delta) == (Decimal("0.333333333333"), Decimal("3.33333333333e-7"))
    spent = BudgetLeft.of_filter(filter_left(-third, "2e-7"))
    assert (spent.epsilon, spent.delta, spent.filtered.share) == (0, 0, Decimal("-0.333333333334"))
    whole = replace(TERMS, epsilon=Decimal("1.00000000000077"))
    rounded = BudgetLeft.of_filter(FilterLeft(terms=whole, divergence=whole.allowance, tail=whole.tail_delta))
    assert (rounded.epsilon, rounded.filtered.share) == (Decimal("1.00000000000"), 1)


@pytest.mark.parametrize(
    ("divergences", "tails", "releases", "limit"),
    [
        ("7.999", "9.5", 7, "divergence"),
        ("8", "9.5", 8, "divergence"),
        ("8.5", "7.5", 7, "tails"),
        ("7.5", "7", 7, "tails"),
        ("0.999", "1", 0, "divergence"),
        ("-1", "9", 0, "divergence"),
        ("1e9", "1e9", 1_000_000, "divergence"),
        ("1e9", "999999", 999_999, "tails"),
    ],
)
def test_a_filter_has_room_for_as_many_as_both_its_parts_have(divergences, tails, releases, limit):
    tail = tail_for(TERMS, RARE)
    cost = filter_cost(RARE, order=TERMS.order, tail=tail)
    left = filter_left(cost.divergence * Decimal(divergences), cost.tail * Decimal(tails))
    found = planned._by_filter(left, RARE)
    assert (found.way, found.releases, found.limited_by) == ("filter", releases, limit)
    assert (found.epsilon, found.delta, found.epsilon_each, found.delta_each) == (None,) * 4
    assert found.share_each == spent_share(TERMS, [cost]) > 0
    assert planned._lasting_facts(read_calendar("1/year"), found)["most"] == (releases == 1_000_000)


def test_a_release_without_a_divergence_has_no_room_in_a_filter():
    found = planned._by_filter(filter_left(1, "3e-7"), StronglySafeRelease(k=1, sampling_rate=Decimal("0.9999")))
    assert found == planned.Lasting(way="filter", releases=0, epsilon=None, delta=None)


def test_a_filter_is_told_beside_an_additive_budget_of_the_same_share():
    cost = filter_cost(RARE, order=TERMS.order, tail=tail_for(TERMS, RARE))
    left = BudgetLeft.of_filter(filter_left(cost.divergence * 9, TERMS.tail_delta))
    found = facts(left, "1/year of k=50,rate=0.05")
    assert found["accounting"] == "filter"
    assert found["share_left"] == left.filtered.share == left.epsilon
    ways = found["calendars"][0]["ways"]
    assert [(one["way"], one["releases"]) for one in ways] == [("filter", 9), ("one by one", 0), ("series", 0)]
    assert [change["releases"]["filter"] for change in found["changes"]] == [9, 17, 37]
    assert ways[1:] == facts(replace(left, filtered=None), "1/year of k=50,rate=0.05")["calendars"][0]["ways"]


@pytest.mark.parametrize(
    ("years", "text"),
    [
        (Fraction(0), "0 days"),
        (Fraction(1, 365), "1 day"),
        (Fraction(1999, 365_000), "1 day"),
        (Fraction(59, 365) + Fraction(364, 365**2), "59 days"),
        (Fraction(60, 365), "1.9 months"),
        (Fraction(1, 6), "2 months"),
        (Fraction(2, 11), "2.1 months"),
        (Fraction(1, 4), "3 months"),
        (Fraction(364, 365), "11.9 months"),
        (Fraction(1), "1 year"),
        (Fraction(109, 100), "1 year"),
        (Fraction(11, 10), "1.1 years"),
        (Fraction(9999, 100), "99.9 years"),
        (Fraction(10049, 100), "100 years"),
        (Fraction(12345678, 1000), "12,345 years"),
    ],
)
def test_times_are_told_rounded_down(years, text):
    assert span_shown(years) == text


USUAL = {"relation": "add/remove", "survey": False, "rows_per_person": 1}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"relation": "replacement"}, "by replacement"),
        ({"survey": True}, "itself a sample"),
        ({"rows_per_person": 2}, "several records"),
    ],
)
def test_only_budgets_of_sampled_releases_are_forecast(change, why):
    require_forecast(**USUAL)
    with pytest.raises(InputRefused, match=f"nothing is forecast for this data set: .*{why}") as refused:
        require_forecast(**USUAL | change)
    assert refused.value.not_done == ""
