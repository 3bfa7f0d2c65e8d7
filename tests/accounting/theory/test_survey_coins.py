"""A survey's own sampling protects nobody who has several records on one coin: the counterexample, in exact numbers."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import comb

import pytest
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.kinds.composition.group_privacy import even_split
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram

RATE = Fraction(1, 10)
K, RECORDS, DELTA = 20, 5, Decimal("1e-6")
SURVEY = BiasedSampleCounts(
    k=K, lowest_rate=Decimal("0.1"), highest_rate=Decimal("0.1"), largest_rate=Decimal("0.1"), exceptions=0
)
Distribution = dict[int, Fraction]


def persons(number: int, *, each: int) -> Distribution:
    """Records in a survey of so many persons, each with so many records on one coin."""
    return {each * j: comb(number, j) * RATE**j * (1 - RATE) ** (number - j) for j in range(number + 1)}


def with_one_more(others: Distribution, *, records: int) -> Distribution:
    together = {count: (1 - RATE) * chance for count, chance in others.items()}
    for count, chance in others.items():
        together[count + records] = together.get(count + records, Fraction(0)) + RATE * chance
    return together


def published(counts: Distribution) -> Distribution:
    """What leaves: the count, 0 where it is below k."""
    found: Distribution = {}
    for count, chance in counts.items():
        shown = count if count >= K else 0
        found[shown] = found.get(shown, Fraction(0)) + chance
    return found


def hockey_stick(first: Distribution, second: Distribution, ratio: Fraction) -> Fraction:
    gains = (chance - ratio * second.get(count, Fraction(0)) for count, chance in first.items())
    return sum((gain for gain in gains if gain > 0), Fraction(0))


def ratio_above(epsilon: Decimal) -> Fraction:
    """A fraction above e^ε, so that a δ computed with it is below the true one."""
    return Fraction(epsilon.exp()) * (1 + Fraction(1, 10**9))


@pytest.mark.slow
def test_the_even_split_would_charge_less_than_one_coin_for_five_records_costs() -> None:
    """The price for five coins is (1.169, 1e-6); with one coin for the five records δ there is above 1.4e-4."""
    _, epsilon = even_split(
        lambda share: price(SURVEY, delta=share), lambda cost: cost.epsilon, delta=DELTA, records=RECORDS
    )
    assert round(epsilon, 3) == Decimal("1.169")
    others = persons(98, each=1)
    delta = hockey_stick(published(with_one_more(others, records=RECORDS)), published(others), ratio_above(epsilon))
    assert Fraction("1.4e-4") < Fraction("2.7e-3") < delta


@pytest.mark.parametrize("epsilon", ["0.5", "1.169", "5", "50"])
def test_where_all_others_have_five_records_the_count_modulo_five_betrays_one_with_one(epsilon) -> None:
    others = persons(200, each=RECORDS)
    together = published(with_one_more(others, records=1))
    betrayed = sum(chance for count, chance in together.items() if count % RECORDS == 1)
    assert betrayed == hockey_stick(together, published(others), ratio_above(Decimal(epsilon)))
    assert Fraction("0.0999") < betrayed < RATE


@pytest.mark.parametrize("records", [2, RECORDS, 100])
def test_a_survey_has_no_price_for_several_records(records) -> None:
    with pytest.raises(InputRefused, match="draws all of them with one coin"):
        price(SURVEY, delta=DELTA, rows_per_person=records)
    assert paper_price(SURVEY, delta=DELTA, rows_per_person=records) is None


@pytest.mark.slow
def test_coins_of_the_release_are_one_for_each_record() -> None:
    """The control: unequal rates that the release draws itself keep their price for several records."""
    drawn = UnequalRatesHistogram(k=K, sampling_rate=Decimal("0.1"), lowest_rate=Decimal("0.1"))
    assert price(drawn, delta=DELTA, rows_per_person=RECORDS).rows_per_person == RECORDS
    assert price(SURVEY, delta=DELTA).rows_per_person == 1
