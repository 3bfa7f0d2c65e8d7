"""The profile against brute force by definition, and in the corners where doubles are weakest."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.arithmetic import log_binomial_pmf
from crowdblend.accounting.kernel.prices.privacy_profile import (
    delta_exact,
    epsilon_of_log_delta,
    log_adding,
    log_profile,
    log_removing,
)
from crowdblend.accounting.theory.planning.searches import epsilon_exact

EPSILONS = (0.0, 0.001, 0.05, 0.25, 0.7, 1.0, 2.5, 6.0)


def check_grid(oracle, k, rate, largest_n):
    adding, removing = oracle.deltas_over_groups(k=k, sampling_rate=rate, epsilons=EPSILONS, largest_n=largest_n)
    points = np.array(EPSILONS)
    ours_adding = log_adding(k=k, sampling_rate=rate, epsilons=points)
    ours_removing = log_removing(k=k, sampling_rate=rate, epsilons=points)
    for i, epsilon in enumerate(EPSILONS):
        reported = delta_exact(k=k, sampling_rate=rate, epsilon=epsilon)
        truth = max(adding[i], removing[i])
        assert Fraction(reported) >= truth
        assert reported <= float(truth) * (1 + 1e-9)
        assert ours_adding[i] >= math.log(adding[i])
        assert ours_adding[i] <= math.log(adding[i]) + 1e-9
        eta = 1 - math.exp(epsilon) * (1 - rate)
        if eta > 0 and (k - 1) / eta < largest_n:
            assert ours_removing[i] >= math.log(removing[i])
            assert ours_removing[i] <= math.log(removing[i]) + 1e-9


@pytest.mark.parametrize("rate", [0.125, 0.3125, 0.5, 0.75, 0.96875])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_never_below_brute_force_over_all_group_sizes_and_within_a_billionth(oracle, k, rate):
    check_grid(oracle, k, rate, math.ceil(1.5 * k / rate) + 25)


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.03125, 0.0625, 0.125, 0.25, 0.4375, 0.5, 0.625, 0.875, 0.984375])
@pytest.mark.parametrize("k", range(1, 13))
def test_the_whole_grid_far_beyond_the_peak(oracle, k, rate):
    check_grid(oracle, k, rate, math.ceil(4 * k / rate) + 60)


def exact_adding(k, rate, epsilon, n):
    """Σ_{j≥k} max(0, f(j;n) − e^ε f(j;n−1)) in 50 digits, from the definition of both probabilities."""
    with mpmath.workdps(50):
        p, growth = mpmath.mpf(rate), mpmath.exp(mpmath.mpf(epsilon))
        log_p, log_q = mpmath.log(p), mpmath.log(1 - p)

        def log_pmf(j, trials):
            return (
                mpmath.loggamma(trials + 1)
                - mpmath.loggamma(j + 1)
                - mpmath.loggamma(trials - j + 1)
                + j * log_p
                + (trials - j) * log_q
            )

        gamma = (growth - 1 + p) / growth
        j = max(k, int(mpmath.floor(gamma * n)) + 1)
        upper = mpmath.exp(log_pmf(j, n))
        lower = mpmath.exp(log_pmf(j, n - 1)) if j < n else mpmath.mpf(0)
        total = mpmath.mpf(0)
        while j <= n:
            term = upper - growth * lower
            total += term
            if term < total * mpmath.mpf("1e-30") and upper < total * mpmath.mpf("1e-20"):
                break
            upper *= mpmath.mpf(n - j) / (j + 1) * p / (1 - p)
            lower *= mpmath.mpf(n - 1 - j) / (j + 1) * p / (1 - p)
            j += 1
        return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "rate", "epsilon"),
    [
        (1000, 0.1, 0.01),
        (1000, 0.1, 1.0),
        (1000, 0.9, 0.4),
        (10_000, 1e-6, 1e-7),
        (10_000, 0.95, 2.0),
        (1_000_000, 0.5, 0.003),
        (20, 1e-9, 1e-9),
        (20, 1 - 1e-9, 1.0),
        (20, 1 - 1e-9, 19.0),
        (3, 0.01, 30.0),
        (50, 0.3, 1e-12),
    ],
)
def test_hostile_corners_against_fifty_digits(k, rate, epsilon):
    reported = mpmath.exp(mpmath.mpf(float(log_adding(k=k, sampling_rate=rate, epsilons=np.array([epsilon]))[0])))
    with mpmath.workdps(50):
        growth = mpmath.exp(mpmath.mpf(epsilon))
        gamma = (growth - 1 + mpmath.mpf(rate)) / growth
        peak = max(k, int(mpmath.ceil((k - 1) / gamma)))
        around = [exact_adding(k, rate, epsilon, n) for n in {max(k, peak - 1), peak, peak + 1, peak + peak // 7 + 2}]
        assert reported >= max(around)
        assert reported <= max(around) * (1 + mpmath.mpf("1e-9"))


@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("k", [1, 2, 20, 400])
def test_at_the_paper_least_epsilon_the_removing_direction_vanishes_without_a_gap(k, rate):
    end = -math.log1p(-rate)
    points = np.array([end * (1 - 1e-9), end * (1 - 1e-15), end, end * (1 + 1e-15), end * (1 + 1e-9)])
    values = log_removing(k=k, sampling_rate=rate, epsilons=points)
    adding = log_adding(k=k, sampling_rate=rate, epsilons=points)
    assert np.all(values <= adding + 1e-9)
    assert values[-1] == -np.inf
    assert np.all(np.isfinite(log_profile(k=k, sampling_rate=rate, epsilons=points)))


def test_delta_below_the_smallest_double_is_answered_in_logarithms():
    found = epsilon_of_log_delta(k=2000, sampling_rate=0.1, log_delta=-1400.0)
    assert found is not None
    assert float(log_profile(k=2000, sampling_rate=0.1, epsilons=np.array([found]))[0]) <= -1400.0
    assert float(log_profile(k=2000, sampling_rate=0.1, epsilons=np.array([found * 0.999]))[0]) > -1400.0
    assert delta_exact(k=2000, sampling_rate=0.1, epsilon=found) == 5e-324


@pytest.mark.parametrize(("k", "rate"), [(1, 0.25), (2, 0.1), (7, 0.5)])
def test_no_epsilon_goes_below_rate_to_the_k(k, rate):
    assert epsilon_exact(k=k, sampling_rate=rate, delta=rate**k * 0.999) is None
    above = epsilon_exact(k=k, sampling_rate=rate, delta=rate**k * 1.001)
    assert above is not None
    assert delta_exact(k=k, sampling_rate=rate, epsilon=above) <= rate**k * 1.001


@pytest.mark.parametrize("epsilon", [-0.1, math.nan])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        delta_exact(k=5, sampling_rate=0.1, epsilon=epsilon)


def test_log_probabilities_stay_within_their_stated_error():
    draws = np.random.default_rng(20120501)
    worst = 0.0
    for _ in range(400):
        n = int(10 ** draws.uniform(0, 13))
        p = float(10 ** draws.uniform(-9, -0.001))
        j = min(n, max(0, round(n * p + draws.normal() * 5 * math.sqrt(n * p * (1 - p) + 1))))
        value, error = log_binomial_pmf(np.array([float(j)]), np.array([float(n)]), p)
        with mpmath.workdps(60):
            truth = (
                mpmath.loggamma(n + 1)
                - mpmath.loggamma(j + 1)
                - mpmath.loggamma(n - j + 1)
                + j * mpmath.log(mpmath.mpf(p))
                + (n - j) * mpmath.log(1 - mpmath.mpf(p))
            )
            distance = abs(mpmath.mpf(float(value[0])) - truth)
            assert distance <= float(error[0])
            worst = max(worst, float(distance) / float(error[0]))
    assert worst > 1e-3, "the bound is so loose that the test shows nothing"


@pytest.mark.parametrize("epsilon", [100.0, 800.0, 1e300, math.inf])
def test_a_huge_epsilon_leaves_rate_to_the_k(epsilon):
    for k, rate in ((1, 0.25), (7, 0.5), (20, 1e-6)):
        assert delta_exact(k=k, sampling_rate=rate, epsilon=epsilon) == pytest.approx(rate**k, rel=1e-10)
