"""The parts of the prices of unequal rates, the earlier rule's among them: each against its definition, tightly."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import cache

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.descriptions.biased_sampling_description import survey_statement
from crowdblend.accounting.kernel.prices.arithmetic import ULP
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.accounting.kernel.prices.registry import kind_of, price, recorded_price
from crowdblend.accounting.kinds.composition import robust_counts, unequal_rates_profile
from crowdblend.accounting.kinds.composition.robust_counts import (
    _at_group,
    _at_least,
    delta_robust,
    price_robust_counts,
)
from crowdblend.accounting.kinds.composition.unequal_rates_profile import (
    MOST_EXCEPTIONS,
    _Counts,
    _geometric,
    _log_pmf,
    delta_unequal,
)
from crowdblend.accounting.kinds.survey_prices import price_biased_counts
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from scipy import stats


def with_coin(masses, rate):
    return np.convolve(masses, [1 - rate, rate])


def masses_of(n, rate, odd, top):
    """Pr[Bin(n, rate) + Bin(odd, top) = j] of the doubles, to the digits of the context."""
    masses = [mpmath.mpf(1)]
    for coin in [mpmath.mpf(rate)] * n + [mpmath.mpf(top)] * odd:
        masses = [
            (masses[j] * (1 - coin) if j < len(masses) else 0) + (masses[j - 1] * coin if j else 0)
            for j in range(len(masses) + 1)
        ]
    return masses


COUNTS = [(2, 0.3, 0.5, 0.2), (3, 0.05, 0.4, 0.1), (9, 0.2, 0.25, 0.05), (9, 0.1, 0.6, 0.7), (24, 0.3, 0.8, 0.9)]


@pytest.mark.parametrize(("k", "rate", "top", "epsilon"), COUNTS)
@pytest.mark.parametrize("odd", [0, 1, 4, 12])
def test_the_size_that_is_priced_is_the_first_beyond_the_ratio(k, rate, top, epsilon, odd):
    """docs/proofs/robust-sampling.md, 2 to 4: ratio R where the record is added, R′ where it is removed."""
    counts, growth = _Counts(k, rate, top, epsilon), math.exp(epsilon)
    masses = np.array([1.0])
    for _ in range(odd):
        masses = with_coin(masses, top)
    ratios = []
    for _ in range(1500):
        below, here = (masses[j] if 0 <= j < masses.size else 0.0 for j in (k - 2, k - 1))
        ratios.append(below / here if here > 0.0 else math.inf)
        masses = with_coin(masses, rate)[: k + 1]
    for adding, ratio in (
        (True, (growth - 1 + top) / top),
        (False, (1 - growth * (1 - top)) / (growth * top)),
    ):
        if ratio > 0.0:
            first = next(n for n, found in enumerate(ratios) if found <= ratio * (1 + 1e-10))
            assert counts.first(odd=odd, adding=adding) == first
    assert _Counts(1, rate, top, epsilon).first(odd, adding=True) == 0


@pytest.mark.parametrize(
    ("k", "rate", "top", "epsilon", "most"), [(30, 0.8, 0.9, 1e-4, (0, 1, 2, 32, 33, 40)), (8, 0.1, 0.5, 0.3, (5, 10))]
)
def test_halving_finds_the_worst_number_of_exceptions(k, rate, top, epsilon, most):
    counts = _Counts(k, rate, top, epsilon)
    for adding in (True, False):
        each = [counts.at(counts.first(odd, adding=adding), odd, adding=adding) for odd in range(most[-1] + 1)]
        for odd in most:
            assert counts.worst(exceptions=odd, enough=0.0, adding=adding) == max(each[: odd + 1])


def test_more_exceptions_than_reach_the_threshold_by_themselves():
    """Three hundred at one half: without any others their count is far above k = 20, as is what tells them apart."""
    masses = np.array([1.0])
    for _ in range(300):
        masses = with_coin(masses, 0.5)
    truth = np.maximum(with_coin(masses, 0.5) - math.exp(0.3) * np.append(masses, 0.0), 0.0).sum()
    found = _Counts(20, 0.1, 0.5, 0.3).at(n=0, odd=300, adding=True)
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-7)


def test_with_a_target_fewer_groups_are_summed(monkeypatch):
    given = {"k": 30, "highest_rate": 0.8, "largest_rate": 0.9, "exceptions": 40, "epsilon": 1e-4}
    summed, own = [], _Counts.at

    def at(self, n, odd, *, adding):
        summed.append((n, odd))
        return own(self, n, odd, adding=adding)

    monkeypatch.setattr(_Counts, "at", at)
    exact, all_of_them = delta_unequal(**given), len(summed)
    for factor in (0.5, 2.0):
        summed.clear()
        delta_unequal(**given, target=exact * factor)
        assert len(summed) < all_of_them // 2


@cache
def divergence(n, odd, adding):
    """Between X + Ber(0.3) and X ~ Bin(n, 0.1) + Bin(odd, 0.3), ε = 1/8, in forty digits."""
    with mpmath.workdps(40):
        absent = masses_of(n, 0.1, odd, 0.3)
        present = masses_of(n, 0.1, odd + 1, 0.3)
        ahead, behind = (present, [*absent, 0]) if adding else ([*absent, 0], present)
        growth = mpmath.exp(mpmath.mpf(0.125))
        return mpmath.fsum(max(0, one - growth * other) for one, other in zip(ahead, behind, strict=True))


@pytest.mark.parametrize("adding", [True, False])
@pytest.mark.parametrize(("n", "odd"), [(0, 0), (0, 3), (5, 2), (40, 0), (60, 3)])
def test_a_sum_is_above_the_truth_by_rounding_only(n, odd, adding):
    found = _Counts(6, 0.1, 0.3, 0.125).at(n, odd, adding=adding)
    truth = divergence(n, odd, adding)
    assert truth <= found <= truth * (1 + mpmath.mpf(5e-11)) + 1e-300


@pytest.mark.parametrize("adding", [True, False])
@pytest.mark.parametrize(("n", "odd"), [(30, 3), (40, 0)])
def test_what_lies_beyond_a_window_is_bounded_and_not_forgotten(monkeypatch, n, odd, adding):
    monkeypatch.setattr(unequal_rates_profile, "_DEVIATIONS", 0.0)
    monkeypatch.setattr(unequal_rates_profile, "_MORE_TERMS", 5.0)
    found = _Counts(6, 0.1, 0.3, 0.125).at(n, odd, adding=adding)
    truth = divergence(n, odd, adding)
    assert truth * (1 + 1e-4) < found < truth * 1.06


@pytest.mark.parametrize(("n", "odd"), [(0, 0), (0, 3), (7, 0), (7, 3), (80, 2)])
def test_logarithms_of_masses_err_by_no_more_than_their_bound(n, odd):
    logs, error = _Counts(6, 0.1, 0.3, 0.125)._log_masses(n, odd, -2, n + odd + 2)
    assert logs.shape == (n + odd + 5,)
    assert 16.0 * ULP <= error < 1e-11
    assert (error == 16.0 * ULP) is (n == odd == 0), "a sum of one certain term has no error but its own"
    with mpmath.workdps(40):
        for found, mass in zip(logs, [0, 0, *masses_of(n, 0.1, odd, 0.3), 0, 0], strict=True):
            assert found == -math.inf if mass == 0 else abs(found - mpmath.log(mass)) <= error


def test_logarithms_of_what_cannot_be_have_the_error_of_their_sum_alone():
    logs, error = _Counts(6, 0.1, 0.3, 0.125)._log_masses(0, 0, 7, 9)
    assert logs.tolist() == [-math.inf] * 3
    assert error == 16.0 * ULP


def test_a_binomial_of_no_trials_and_values_that_cannot_be():
    values = np.array([-1.0, 0.0, 1.0, 2.0])
    for trials, masses in ((0, [0, 1, 0, 0]), (1, [0, 0.75, 0.25, 0])):
        logs, error = _log_pmf(values, trials, 0.25)
        assert np.exp(logs) == pytest.approx(masses, rel=1e-14)
        assert (error == 0.0) is (trials == 0)
    _, error = _log_pmf(np.array([-2.0, 5.0]), 3, 0.25)
    assert error == 0.0, "nothing possible has no error"


def test_a_geometric_series_is_just_above_its_sum():
    for outer, inner, truth in ((0.25, 0.5, 0.5), (0.1, 1.0, 1 / 9), (3e-200, 4e-200, 1.2e-199)):
        assert truth < _geometric(outer, inner) <= truth * (1 + 6e-9)
    assert (unequal_rates_profile._UP, robust_counts._DOWN) == (1.000000001, 0.999999999)
    assert _geometric(0.0, 0.0) == 0.0
    assert _geometric(0.5, 0.5) == _geometric(0.5, 0.4) == math.inf


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


def test_windows_and_margins_are_those_of_the_proof():
    """docs/proofs/robust-sampling.md: 12 standard deviations and 60 beyond the mean."""
    assert (unequal_rates_profile._DEVIATIONS, unequal_rates_profile._MORE_TERMS) == (12, 60)
    assert (unequal_rates_profile._NEAR, robust_counts._BLOCK) == (16, 128), "what was measured"
    assert robust_counts._loss_margin(0.0) == 1e-14
    assert robust_counts._loss_margin(100.0) == 510 * ULP


def test_a_count_at_the_edge_of_what_tells_apart_is_not_passed_over(monkeypatch):
    """c = 1/2 here: of n + 1 = 2m records m might tell, as far as rounding goes."""
    looked = []

    def at_least(least, trials, *, q, top):
        looked.append((least, trials))
        return _at_least(least, trials, q=q, top=top)

    monkeypatch.setattr(robust_counts, "_at_least", at_least)
    delta_robust(k=6, lowest_rate=0.25, highest_rate=0.3, largest_rate=0.5, exceptions=0, epsilon=math.log(2.0))
    assert len(looked) > 20
    assert all(least == max(6, (n + 2) // 2) for least, n in looked)


@pytest.mark.parametrize("n", [0, 1, 5, 40, 3000])
def test_the_expectation_of_one_group_is_rounded_outward(n):
    for k, p, q, top, odd, epsilon in EARLIER:
        truth = of_group(n, k, p, q, top, odd, epsilon)
        found = _at_group(n, max(1, k - odd), p, q, top, epsilon)
        assert truth * (1 - 1e-10) <= found <= truth * (1 + 1e-9) + 1e-13


def test_the_tail_of_a_group_is_just_above_its_probability():
    for least, trials, q, top in ((9, 40, 0.1, 0.3), (1, 0, 0.1, 0.3), (30, 100, 0.12, 0.2), (41, 40, 0.5, 0.25)):
        truth = (1 - top) * stats.binom.sf(least - 1, trials, q) + top * stats.binom.sf(least - 2, trials, q)
        assert truth * (1 - 1e-12) <= _at_least(least, trials, q=q, top=top) <= truth * 1.1
    assert 0.0 < _at_least(least=50, trials=40, q=0.1, top=0.3) <= 1e-300


@pytest.mark.parametrize(("n", "more"), [(40, 0.0097), (60, 0.65), (80, 10.92)])
def test_what_lies_beyond_the_earlier_rules_window_counts_in_full(monkeypatch, n, more):
    p, q, top, epsilon = 0.1, 0.11, 0.2, 0.25
    truth = of_group(n, 1, p, q, top, 0, epsilon)
    monkeypatch.setattr(robust_counts, "_DEVIATIONS", 1.0)
    monkeypatch.setattr(robust_counts, "_MORE_TERMS", 7.0)
    assert _at_group(n, 1, p, q, top, epsilon) / truth == pytest.approx(1 + more, rel=0.01)


@pytest.mark.parametrize(("k", "p", "q", "top", "odd", "epsilon"), EARLIER)
def test_the_earlier_rules_search_is_the_one_that_is_proved(monkeypatch, k, p, q, top, odd, epsilon):
    """docs/proofs/robust-sampling.md, "Stop" and "Blocks": what is passed over, and where it ends."""
    passed, looked = [], []

    def at_least(least, trials, *, q, top):
        passed.append((least, trials, _at_least(least, trials, q=q, top=top)))
        return passed[-1][2]

    def at_group(n, *rest):
        looked.append((n, _at_group(n, *rest)))
        return looked[-1][1]

    monkeypatch.setattr(robust_counts, "_at_least", at_least)
    monkeypatch.setattr(robust_counts, "_at_group", at_group)
    delta_robust(k=k, lowest_rate=p, highest_rate=q, largest_rate=top, exceptions=odd, epsilon=epsilon)
    wanted = (math.exp(epsilon) - 1 + top) / top * p / (1 - p)
    c = wanted / (1 + wanted)
    tilt = c * (1 - q) / (q * (1 - c))
    falls = c * math.log(c / q) + (1 - c) * math.log((1 - c) / (1 - q))

    def bound(n):
        return math.exp(-(n + 1) * falls) * (1 + top * (tilt - 1)) / (1 + q * (tilt - 1))

    threshold, best = max(1, k - odd), 0.0
    n = threshold - 1
    for least, trials, above in passed:
        assert (least, trials) == (max(threshold, math.floor((n + 1) * c) + 1), n + n // 128)
        assert bound(n) > best * (1 - 1e-7)
        if above <= best:
            n = trials + 1
            continue
        assert looked[0][0] == n
        best = max(best, looked.pop(0)[1])
        n += 1
    assert not looked
    assert bound(n) <= best * (1 + 1e-7)


def test_the_earlier_rules_search_ends_once_the_side_of_a_target_is_known(monkeypatch):
    k, p, q, top, odd, epsilon = EARLIER[2]
    looked = []
    monkeypatch.setattr(robust_counts, "_at_group", lambda n, *rest: (looked.append(n), _at_group(n, *rest))[1])
    bounds = {"lowest_rate": p, "highest_rate": q, "largest_rate": top, "exceptions": odd, "epsilon": epsilon}
    delta = delta_robust(k=k, **bounds)
    every = len(looked)
    for target in (delta / 1000, delta * 1000):
        looked.clear()
        delta_robust(k=k, **bounds, target=target)
        assert len(looked) < every / 2


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
