"""The parts of the prices of unequal rates, the earlier rule's among them: each against its definition, tightly."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.descriptions.biased_sampling_description import survey_statement
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.accounting.kernel.prices.registry import kind_of, price, recorded_price
from crowdblend.accounting.kinds.composition import robust_counts, unequal_rates_profile
from crowdblend.accounting.kinds.composition.robust_counts import (
    delta_robust,
    price_robust_counts,
)
from crowdblend.accounting.kinds.composition.unequal_rates_profile import (
    MOST_EXCEPTIONS,
    delta_unequal,
)
from crowdblend.accounting.kinds.survey_prices import price_biased_counts
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from scipy import stats


def test_bounds_of_what_is_priced(monkeypatch):
    given = {"k": 5, "highest_rate": 0.01, "largest_rate": 0.02, "epsilon": 0.4}
    assert MOST_EXCEPTIONS == 1000
    monkeypatch.setattr(unequal_rates_profile, "MOST_EXCEPTIONS", 4)
    many = [delta_unequal(**given, exceptions=odd) for odd in (4, 5)]
    assert many[0] < many[1] == delta_exact(k=5, sampling_rate=0.02, epsilon=0.4)
    nearly = 1.0 - 2e-12
    alone = delta_unequal(k=1, highest_rate=0.5, largest_rate=nearly, exceptions=0, epsilon=0.0)
    assert nearly <= alone <= 1.0
    assert 0.0 < delta_unequal(**given | {"k": 900}, exceptions=0) < 1e-299
    for change in ({"epsilon": -0.5}, {"exceptions": -1}, {"highest_rate": 0.03}):
        with pytest.raises(ValueError, match="rates must ascend"):
            delta_unequal(**{**given, "exceptions": 0, **change})


def of_group(n, k, p, q, top, odd, epsilon):
    """E[φ_n(X + B); X + B ≥ k′] of the earlier rule, straight from docs/proofs/robust-sampling.md."""
    j = np.arange(max(1, k - odd), n + 2)
    weights = (1 - top) * stats.binom.pmf(j, n, q) + top * stats.binom.pmf(j - 1, n, q)
    with np.errstate(divide="ignore"):
        ratios = 1 - top + top * j * (1 - p) / ((n - j + 1) * p)
        return float((weights * np.maximum(1 - math.exp(epsilon) / ratios, 0)).sum())


EARLIER = [
    (1, 0.1, 0.12, 0.2, 0, 0.6),
    (4, 0.2, 0.22, 0.4, 2, 0.7),
    (20, 0.1, 0.11, 0.15, 1, 0.35),
    (3, 0.3, 0.3, 0.6, 5, 1.0),
    (6, 0.02, 0.022, 0.03, 0, 0.25),
]


@pytest.mark.parametrize(("k", "p", "q", "top", "odd", "epsilon"), EARLIER)
def test_the_earlier_rule_is_the_largest_expectation(k, p, q, top, odd, epsilon):
    bounds = {"lowest_rate": p, "highest_rate": q, "largest_rate": top, "exceptions": odd, "epsilon": epsilon}
    truth = max(of_group(n, k, p, q, top, odd, epsilon) for n in range(max(k - odd, 1) - 1, 700))
    found = delta_robust(k=k, **bounds)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-9)
    for factor in (0.01, 0.99, 1.01, 100.0):
        sided = delta_robust(k=k, **bounds, target=truth * factor)
        assert (sided <= truth * factor) is (factor > 1)
        assert factor < 1 or sided >= truth * (1 - 1e-12)


def test_what_the_earlier_rule_refuses(monkeypatch):
    """Where a decisive count is hardly above the mean of a group at the highest rate, δ does not fall with its size."""
    monkeypatch.setattr(robust_counts, "_MOST_GROUPS", 3005)
    p, q, top = 0.05, 0.2, 0.5
    bounds = {"lowest_rate": p, "highest_rate": q, "largest_rate": top, "exceptions": 0}
    for above, message in ((5e-7, "too far apart for"), (2e-6, "is too long")):
        share = q * (1 + above)
        epsilon = math.log(1 - top + top * share / (1 - share) * (1 - p) / p)
        with pytest.raises(InputRefused, match=message):
            delta_robust(k=3000, epsilon=epsilon, **bounds)
    assert delta_robust(k=3000, epsilon=5.0, **bounds) == 5e-324, "below every double"
    least = -math.log1p(-top)
    one_rate = bounds | {"lowest_rate": top, "highest_rate": top}
    assert delta_robust(k=9, epsilon=least, **one_rate) < 1.0
    with pytest.raises(InputRefused, match="epsilon must be at least"):
        delta_robust(k=9, epsilon=math.nextafter(least, 0.0), **one_rate)
    assert delta_robust(k=1, epsilon=least, **one_rate) == pytest.approx(0.5, rel=1e-13)
    for change in ({"lowest_rate": 0.0}, {"largest_rate": 1.0}, {"k": 0}, {"exceptions": -1}):
        with pytest.raises(InputRefused, match="must"):
            delta_robust(**{"k": 9, "epsilon": 60.0, **one_rate, **change})


SURVEY = BiasedSampleCounts(
    k=12, lowest_rate=Decimal("0.1"), highest_rate=Decimal("0.12"), largest_rate=Decimal("0.2"), exceptions=2
)


def test_prices_by_either_rule_are_the_least_epsilon_of_their_delta():
    for rule, delta_of in (
        ("unequal-rates/1", lambda epsilon: delta_unequal(k=12, **RATES, epsilon=epsilon)),
        ("robust-counts/1", lambda epsilon: delta_robust(k=12, lowest_rate=0.1, **RATES, epsilon=epsilon)),
    ):
        found = recorded_price(SURVEY, rule=rule, delta=Decimal("1e-3"))
        assert (found.rule, found.releases, found.rows_per_person, found.delta) == (rule, 1, 1, Decimal("1e-3"))
        assert delta_of(float(found.epsilon)) <= 1e-3 < delta_of(float(found.epsilon) * (1 - 1e-10))
        by_name = {"unequal-rates/1": price_biased_counts, "robust-counts/1": price_robust_counts}[rule]
        assert by_name(mechanism=SURVEY, delta=Decimal("1e-3")) == found
        with pytest.raises(InputRefused, match="one coin"):
            recorded_price(SURVEY, rule=rule, delta=Decimal("1e-3"), rows_per_person=2)


RATES = {"highest_rate": 0.12, "largest_rate": 0.2, "exceptions": 2}


def test_what_a_survey_and_own_coins_say_of_themselves():
    drawn = UnequalRatesHistogram(k=12, sampling_rate=Decimal("0.2"), lowest_rate=Decimal("0.1"))
    survey, own = kind_of(SURVEY), kind_of(drawn)
    assert (survey.samples(SURVEY), survey.sampling_rate(SURVEY), survey.survey_rate(SURVEY)) == (
        1,
        None,
        Decimal("0.2"),
    )
    assert (own.samples(drawn), own.sampling_rate(drawn), own.survey_rate) == (1, Decimal("0.2"), None)
    assert not any((survey.pure, own.pure, survey.exclusive, own.exclusive))
    for lowest, proved in (("0.01", True), ("0", False)):
        claimed = survey_statement(replace(SURVEY, lowest_rate=Decimal(lowest)))
        assert ("zero-knowledge" in claimed) is proved, "its theorem needs a lowest rate"
    tiny = price(replace(drawn, k=2000), delta=Decimal("1e-400"))
    assert 0 < tiny.epsilon < 1, "one rate has a price at a δ below every double"
    alone = price(replace(SURVEY, highest_rate=Decimal("0.2")), delta=Decimal("1e-3"))
    assert alone.epsilon == price(drawn, delta=Decimal("1e-3")).epsilon
