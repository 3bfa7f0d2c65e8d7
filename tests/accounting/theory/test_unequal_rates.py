"""The exact price of unequal inclusion rates against every design of a few records, and what was charged before."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kernel.ledger.entries import ChargedPrice
from crowdblend.accounting.kernel.ledger.rules import price_faults
from crowdblend.accounting.kernel.prices.arithmetic import least_epsilon
from crowdblend.accounting.kernel.prices.privacy_profile import LARGEST_GROUP, delta_exact
from crowdblend.accounting.kernel.prices.registry import mechanism_record, price, recorded_price
from crowdblend.accounting.kinds.composition import unequal_rates_profile
from crowdblend.accounting.kinds.composition.robust_counts import price_robust_counts
from crowdblend.accounting.kinds.composition.unequal_rates_profile import (
    MOST_EXCEPTIONS,
    _Counts,
    delta_unequal,
    least_epsilon_unequal,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram

pytestmark = pytest.mark.slow

DELTA = Decimal("1e-6")
DESIGN = BiasedSampleCounts(
    k=18, lowest_rate=Decimal("0.1"), highest_rate=Decimal("0.11"), largest_rate=Decimal("0.2"), exceptions=1
)


def divergence(rates, own, k, growth):
    """Both directions, for a group whose other records have these rates, straight from the definition."""
    others = np.array([1.0])
    for rate in rates:
        others = np.convolve(others, [1.0 - rate, rate])
    present, absent = np.convolve(others, [1.0 - own, own]), np.append(others, 0.0)
    present, absent = (np.concatenate([[masses[:k].sum()], masses[k:]]) for masses in (present, absent))
    return max(np.maximum(present - growth * absent, 0.0).sum(), np.maximum(absent - growth * present, 0.0).sum())


@pytest.mark.parametrize("k", [1, 2, 4, 7])
@pytest.mark.parametrize(("rate", "top", "odd"), [(0.1, 0.1, 0), (0.25, 0.25, 2), (0.2, 0.5, 0), (0.15, 0.6, 2)])
def test_it_is_the_largest_over_all_groups(k, rate, top, odd):
    for epsilon in (0.0, 0.03, 0.3, 1.5):
        found = delta_unequal(k=k, highest_rate=rate, largest_rate=top, exceptions=odd, epsilon=epsilon)
        worst = max(
            divergence([rate] * n + [top] * few, top, k, math.exp(epsilon))
            for n in range(int(4 * k / rate) + 4)
            for few in range(odd + 1)
        )
        assert worst <= found * (1 + 1e-12) + 1e-15
        assert found <= worst * (1 + 1e-9) + 1e-15


def test_no_design_with_any_rates_below_the_bounds_exceeds_it():
    """All multisets of rates for up to six others and t itself: rates of 0 and in between are never worse."""
    low, high, top, k = 0.0, 0.3, 0.55, 3
    for epsilon in (0.05, 0.5, 1.1):
        bounds = [
            delta_unequal(k=k, highest_rate=high, largest_rate=top, exceptions=odd, epsilon=epsilon) for odd in (0, 1)
        ]
        for n in range(7):
            for rates in itertools.combinations_with_replacement((low, 0.1, 0.22, high), n):
                for odd, own in itertools.product(((), (top,), (0.4,)), (0.1, high, top)):
                    found = divergence([*rates, *odd], own, k, math.exp(epsilon))
                    assert found <= bounds[len(odd)] * (1 + 1e-12) + 1e-15


def test_random_designs_never_exceed_it_and_come_near():
    draws, nearest = np.random.default_rng(914), 0.0
    for _ in range(60):
        high = float(draws.uniform(0.03, 0.4))
        top = float(draws.uniform(high, 0.7))
        k, odd, epsilon = int(draws.integers(1, 12)), int(draws.integers(0, 4)), float(draws.uniform(0.0, 1.5))
        bound = delta_unequal(k=k, highest_rate=high, largest_rate=top, exceptions=odd, epsilon=epsilon)
        for n in (max(k - 1, 0), int(k / high), int(2 * k / high)):
            regular = draws.choice([high, high * draws.uniform()], n)
            own = draws.choice([high, top])
            found = divergence([*regular, *draws.uniform(0, top, odd)], own, k, math.exp(epsilon))
            assert found <= bound * (1 + 1e-12) + 1e-15
            nearest = max(nearest, found / bound)
    assert nearest > 0.9


def test_the_numbers_of_the_exact_mixture():
    """k = 20, up to 0.1 but for three records up to 0.5, t among them; and with three others beside t."""
    counts = _Counts(20, 0.1, 0.5, 0.5)
    assert counts.worst(2, 0.0, adding=True)[0] == pytest.approx(1.088e-4, rel=1e-3)
    given = {"k": 20, "highest_rate": 0.1, "largest_rate": 0.5, "epsilon": 0.5}
    assert delta_unequal(**given, exceptions=3) == pytest.approx(1.2121e-4, rel=1e-3)
    assert delta_unequal(**given, exceptions=0) < delta_unequal(**given, exceptions=3)
    everybody = delta_exact(k=20, sampling_rate=0.5, epsilon=0.5)
    assert delta_unequal(**given, exceptions=MOST_EXCEPTIONS + 1) == everybody
    assert delta_unequal(**given, exceptions=20) < everybody
    assert delta_unequal(**given | {"largest_rate": 0.1}, exceptions=7) == delta_exact(
        k=20, sampling_rate=0.1, epsilon=0.5
    )


def test_the_worst_number_of_exceptions_may_be_any():
    """At these rates it is 32 of the 40 that there may be; blocks of fewer and of more are tried too."""
    growth = math.exp(1e-4)
    each = [divergence([0.9] * few, 0.9, 30, growth) for few in range(41)]
    assert int(np.argmax(each)) == 32
    found = delta_unequal(k=30, highest_rate=0.8, largest_rate=0.9, exceptions=40, epsilon=1e-4)
    assert max(each) <= found <= max(each) * (1 + 1e-9)


@pytest.mark.parametrize("adding", [True, False])
@pytest.mark.parametrize(("n", "odd"), [(0, 0), (5, 2), (60, 3), (200, 0)])
def test_a_group_is_summed_outward_in_fifty_digits(n, odd, adding):
    rate, top, epsilon = 0.1, 0.3, 0.125
    counts = _Counts(6, rate, top, epsilon)
    with mpmath.workdps(50):
        masses = [mpmath.mpf(1)]
        for coin in [mpmath.mpf(rate)] * n + [mpmath.mpf(top)] * odd:
            masses = [
                (masses[j] * (1 - coin) if j < len(masses) else 0) + (masses[j - 1] * coin if j else 0)
                for j in range(len(masses) + 1)
            ]
        own = mpmath.mpf(top)
        present = [
            (masses[j] * (1 - own) if j < len(masses) else 0) + (masses[j - 1] * own if j else 0)
            for j in range(len(masses) + 1)
        ]
        ahead, behind = (present, [*masses, 0]) if adding else ([*masses, 0], present)
        truth = mpmath.fsum(max(0, one - mpmath.exp(epsilon) * other) for one, other in zip(ahead, behind, strict=True))
        found = counts.at(n, odd, adding=adding)
        assert truth <= found <= truth * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-300")


def test_a_bound_on_one_side_of_a_target_says_so():
    given = {"k": 15, "highest_rate": 0.1, "largest_rate": 0.4, "exceptions": 5, "epsilon": 0.4}
    exact = delta_unequal(**given)
    for factor in (1e-3, 0.5, 0.999, 1.001, 2.0, 1e3):
        found = delta_unequal(**given, target=exact * factor)
        assert (found <= exact * factor) is (exact <= exact * factor)
        assert factor < 1 or found >= exact


@pytest.mark.parametrize(
    ("k", "highest", "largest", "exceptions", "delta"),
    [
        (20, 0.1, 0.5, 3, 1e-6),
        (12, 0.02, 0.2, 60, 1e-6),
        (12, 0.02, 0.2, 60, 0.9),
        (5, 0.3, 0.6, 4, 1e-9),
        (9, 0.05, 0.9, 0, 1e-4),
        (30, 0.2, 0.2, 5, 1e-6),
        (30, 0.02, 0.2, MOST_EXCEPTIONS + 1, 1e-6),
    ],
)
def test_the_search_by_few_numbers_of_exceptions_ends_where_one_by_all_does(k, highest, largest, exceptions, delta):
    given = {"k": k, "highest_rate": highest, "largest_rate": largest, "exceptions": exceptions}
    by_all = least_epsilon(lambda epsilon: delta_unequal(**given, epsilon=epsilon, target=delta), delta, high=60.0)
    assert least_epsilon_unequal(**given, delta=delta, high=60.0) == by_all


@pytest.mark.parametrize(
    ("k", "lowest", "highest", "now", "then"),
    [
        (40, "0.1", "0.2", 0.219, 0.602),
        pytest.param(40, "0.1", "0.12", 0.117, 0.167, marks=pytest.mark.long),
        pytest.param(100, "0.1", "0.2", 0.107, 0.416, marks=pytest.mark.long),
    ],
)
def test_rates_that_differ_cost_what_the_highest_does(k, lowest, highest, now, then):
    drawn = UnequalRatesHistogram(k=k, sampling_rate=Decimal(highest), lowest_rate=Decimal(lowest))
    found = price(drawn, delta=DELTA)
    assert (round(float(found.epsilon), 3), found.rule) == (now, "unequal-rates/1")
    assert found.epsilon == price(drawn.as_survey, delta=DELTA).epsilon
    survey = UnequalRatesHistogram(k=k, sampling_rate=Decimal(highest), lowest_rate=Decimal(0)).as_survey
    assert price(survey, delta=DELTA).epsilon == found.epsilon, "a lowest rate plays no part"
    before = recorded_price(drawn, rule="robust-counts/1", delta=DELTA)
    assert (round(float(before.epsilon), 3), before.rule) == (then, "robust-counts/1")


def test_what_earlier_versions_charged_is_still_right_and_nothing_else():
    record = tuple(sorted(mechanism_record(DESIGN).items()))
    before, now = price_robust_counts(DESIGN, delta=DELTA), price(DESIGN, delta=DELTA)
    assert before.epsilon > now.epsilon

    def faults(rule, epsilon, rows_per_person=1):
        charged = ChargedPrice(epsilon=epsilon, delta=DELTA, relation="add/remove", rule=rule, releases=1)
        return price_faults(mechanism=record, price=charged, epsilon_paper=None, rows_per_person=rows_per_person)

    assert faults(before.rule, before.epsilon) == faults(now.rule, now.epsilon) == ()
    for rule, epsilon in (
        (before.rule, now.epsilon),
        (now.rule, before.epsilon),
        (before.rule, before.epsilon * Decimal("0.99")),
        ("robust-counts/2", before.epsilon),
        ("pld/1", before.epsilon),
    ):
        assert faults(rule, epsilon), rule
    assert "no price is proved" in faults("even-group-privacy/1+robust-counts/1", before.epsilon, 5)[0]


def test_several_records_of_a_person_by_the_earlier_rule_too():
    drawn = UnequalRatesHistogram(k=12, sampling_rate=Decimal("0.2"), lowest_rate=Decimal("0.15"))
    now = price(drawn, delta=Decimal("1e-3"), rows_per_person=2)
    rule = "even-group-privacy/1+robust-counts/1"
    before = recorded_price(drawn, rule=rule, delta=Decimal("1e-3"), rows_per_person=2)
    assert (now.rule, before.rule) == ("group-privacy/1+unequal-rates/1", "even-group-privacy/1+robust-counts/1")
    assert price(drawn, delta=Decimal("1e-3")).epsilon < now.epsilon < before.epsilon


def test_planted_faults_are_found(monkeypatch):
    """The oracle rejects a price that leaves exceptions out, that takes t for a regular record, or one direction."""
    given = {"k": 4, "highest_rate": 0.1, "largest_rate": 0.5, "exceptions": 2}
    growth = math.exp(0.4)
    worst = max(divergence([0.1] * n + [0.5] * 2, 0.5, 4, growth) for n in range(60))
    assert worst <= delta_unequal(**given, epsilon=0.4)
    assert worst > delta_unequal(**given | {"exceptions": 0}, epsilon=0.4), "exceptions left out"
    ordinary = max(divergence([0.1] * n + [0.5] * 2, 0.1, 4, growth) for n in range(60))
    assert worst > 1.5 * ordinary, "t is never an exception"
    monkeypatch.setattr(unequal_rates_profile, "_NEAR", 1)
    assert delta_unequal(**given, epsilon=0.4) >= worst, "a narrow window widens by itself"


def test_what_lies_beyond_nothing_is_nothing():
    assert unequal_rates_profile._geometric(0.0, 0.5) == 0.0
    assert unequal_rates_profile._geometric(0.25, 0.5) == pytest.approx(0.5, rel=1e-8)


def test_refusals():
    fields = {"k": 5, "highest_rate": 0.1, "largest_rate": 0.2, "exceptions": 1, "epsilon": 1.0}
    delta_unequal(**fields)
    for change in ({"k": 0}, {"exceptions": -1}, {"largest_rate": 0.05}, {"epsilon": -1.0}, {"highest_rate": 1.0}):
        with pytest.raises(ValueError, match="must"):
            delta_unequal(**(fields | change))
    with pytest.raises(InputRefused, match=r"no epsilon is enough .* up to 0\.2 for 1 records"):
        price(replace(DESIGN, k=4), delta=Decimal("1e-6"))
    tiny = UnequalRatesHistogram(k=5, sampling_rate=Decimal("1e-301"), lowest_rate=Decimal(0))
    with pytest.raises(InputRefused, match="this release has no price"):
        price(tiny, delta=DELTA)


def test_one_exception_betrays_itself_as_the_formula_says():
    """n = 0, a = 0, k = 1: t alone, by exact fractions."""
    found = delta_unequal(k=1, highest_rate=0.25, largest_rate=0.5, exceptions=0, epsilon=math.log(2.0))
    assert Fraction(found) >= Fraction(1, 2)
    assert found == pytest.approx(0.5, rel=1e-9)


def test_groups_too_large_to_be_looked_at_are_bounded_by_the_largest_one_that_is():
    """Next to e^ε = 1/(1 − p_max) the worst group for a removed record grows without end, and tells nothing more."""
    limit = math.log(2.0)
    near = math.nextafter(limit - 1e-16, 0.0)
    counts = _Counts(5, 0.01, 0.5, near)
    assert counts.first(2, adding=False) == LARGEST_GROUP
    assert counts.at(LARGEST_GROUP, 2, adding=False) < 1e-300
    bounds = {"k": 5, "highest_rate": 0.01, "largest_rate": 0.5, "exceptions": 2}
    before, here, after = (delta_unequal(**bounds, epsilon=epsilon) for epsilon in (limit - 1e-3, near, limit + 1e-3))
    assert before > here > after
