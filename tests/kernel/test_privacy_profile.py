"""The profile's parts alone: exact residuals, sums in blocks of any size, cut-off tails, and the ends of the ranges."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices import privacy_profile
from crowdblend.accounting.kernel.prices.arithmetic import ULP, log_binomial_pmf
from crowdblend.accounting.kernel.prices.privacy_profile import (
    check_parameters,
    exp_up,
    farthest_epsilon,
    least_log_delta,
    log_adding,
    log_profile,
    log_removing,
)

EPSILONS = np.array([0.0, 1e-9, 1e-3, 0.05, 0.4, 1.0, 3.0, 9.0])
SETTINGS = [(1, 0.3), (2, 0.5), (5, 0.05), (20, 0.2), (20, 0.9), (400, 0.01), (3_000, 0.6)]


@pytest.mark.parametrize("k", [1, 2, 3, 20, 999, 10**6])
def test_the_decisive_group_and_what_it_has_over_are_exact(k):
    """Also where all digits cancel: half of the factors are k − 1 over a whole number, or next to it."""
    draws = np.random.default_rng(7)
    whole = np.floor(2.0 ** draws.uniform(math.log2(k + 1), 49, 1_000))
    near = np.clip((k - 1.0) / whole * (1.0 + draws.integers(-2, 3, 1_000) * ULP), (k - 1) / 2.0**50, 1.0 - ULP)
    factors = np.concatenate([near[near > 0.0], draws.uniform((k - 1) / 2.0**50, 1, 1_000)])
    for groups, least, over in (
        (privacy_profile.groups_of_adding, k, lambda n, factor: k - factor * n),
        (privacy_profile.groups_of_removing, 1, lambda n, factor: factor * n - (k - 1)),
    ):
        for n, theta, factor in zip(*groups(k, factors), map(Fraction, factors), strict=True):
            assert n >= least
            assert factor * int(n) >= k - 1
            assert n == least or factor * (int(n) - 1) < k - 1
            assert theta == float(over(int(n), factor))


def test_a_group_beyond_counting_is_replaced_by_the_largest_one():
    epsilon, rate, largest = -math.log1p(-0.01), 0.01, np.array([2.0**50])
    [value] = log_removing(k=2, sampling_rate=rate, epsilons=np.array([epsilon]))
    [first], [error] = log_binomial_pmf(np.array([1.0]), largest, rate)
    # At a group where ηn is k − 1, one record fewer is all that counts: odds of 99 among 2**50, over the group's size.
    assert value == pytest.approx(first + math.log(99 / largest[0]) - math.log(largest[0]), abs=2 * error)
    [least] = log_removing(k=1, sampling_rate=rate, epsilons=np.array([epsilon]))
    assert least == pytest.approx(math.log(16.0 * ULP * rate), abs=0.2)


@pytest.mark.parametrize("block", [1, 50, 700])
@pytest.mark.parametrize(("k", "rate"), SETTINGS)
def test_sums_do_not_depend_on_the_blocks_that_they_are_made_in(k, rate, block, monkeypatch):
    epsilons = np.sort(np.concatenate([EPSILONS, np.linspace(0.0, 0.3, 260)]))
    whole = [side(k=k, sampling_rate=rate, epsilons=epsilons) for side in (log_adding, log_removing)]
    monkeypatch.setattr(privacy_profile, "_BLOCK", block)
    for side, expected in zip((log_adding, log_removing), whole, strict=True):
        assert np.allclose(expected, side(k=k, sampling_rate=rate, epsilons=epsilons), rtol=0, atol=1e-12)


@pytest.mark.parametrize("decay", [0.01, 1.0, 6.0])
@pytest.mark.parametrize(("k", "rate"), SETTINGS)
def test_what_a_sum_leaves_out_is_made_up_for(k, rate, decay, monkeypatch):
    """With tails cut off much too early the bounds stay bounds, and come near again as less is cut off."""
    whole = np.array([side(k=k, sampling_rate=rate, epsilons=EPSILONS) for side in (log_adding, log_removing)])
    monkeypatch.setattr(privacy_profile, "_DECAY", decay)
    short = np.array([side(k=k, sampling_rate=rate, epsilons=EPSILONS) for side in (log_adding, log_removing)])
    assert np.all(short >= whole - 1e-12)
    finite = np.isfinite(whole)
    assert np.array_equal(finite, np.isfinite(short))
    assert np.max(short[finite] - whole[finite]) <= {0.01: 4.0, 1.0: 0.5, 6.0: 0.01}[decay]


def test_parameters_are_refused_at_the_ends_of_their_ranges_and_no_earlier():
    most = 2.0**48
    check_parameters(3, 2 / most)
    check_parameters(2**47, 0.99)
    check_parameters(1, 1.1e-300)
    check_parameters(1, 1 - 1.1e-12)
    for k, rate in ((3, 2 / (most + 0.5)), (2**48 + 1, 0.99), (1, 1e-300), (1, 1 - 1e-12), (0, 0.5), (3, math.nan)):
        with pytest.raises(ValueError, match=r"k must be|must lie between|beyond double precision"):
            check_parameters(k, rate)


@pytest.mark.parametrize(
    ("k", "rate"), [(1, 0.3), (2, 0.5), (5, 0.05), (20, 0.2), (20, 0.9), (20, 0.9485), (7, 0.8555)]
)
def test_the_farthest_epsilon_is_far_enough_and_no_farther(k, rate):
    end = farthest_epsilon(k=k, sampling_rate=rate)
    [beyond] = log_profile(k=k, sampling_rate=rate, epsilons=np.array([end]))
    least = least_log_delta(k=k, sampling_rate=rate)
    assert least <= beyond <= least + 1e-9
    assert log_removing(k=k, sampling_rate=rate, epsilons=np.array([end]))[0] == -np.inf
    assert 0 < end <= max(math.log(k) + math.log1p(-rate), -math.log1p(-rate)) + 1e-5


def test_the_least_delta_is_bounded_from_above():
    for k in (1, 7, 20, 1_000):
        for rate in (0.1, 0.3, 0.99):
            truth = k * Decimal(rate).ln()
            assert truth < Decimal(least_log_delta(k=k, sampling_rate=rate)) < truth + abs(truth) * Decimal("1e-14")
    assert least_log_delta(k=1, sampling_rate=math.exp(-1.0)) == -(1.0 - 8.0 * ULP)


def test_powers_are_rounded_up_and_stay_probabilities():
    for value in (0.0, -1e-17, -0.1, -1.0, -30.0, -700.0, -740.0):
        truth = Decimal(value).exp()
        assert truth <= Decimal(exp_up(value)) <= min(1, truth * (1 + Decimal("1e-14")) + Decimal("1e-323"))
    assert exp_up(-1e4) == math.ulp(0.0)
    assert exp_up(-1.0) == math.nextafter(math.exp(-1.0) * (1.0 + 8.0 * ULP), 1.0)  # as docs/proofs promises


def test_an_epsilon_of_exactly_the_allowed_delta_holds():
    [at_zero] = log_profile(k=20, sampling_rate=0.1, epsilons=np.array([0.0]))
    assert privacy_profile.epsilon_of_log_delta(k=20, sampling_rate=0.1, log_delta=at_zero) == 0.0
    assert privacy_profile.epsilon_of_log_delta(k=20, sampling_rate=0.1, log_delta=np.nextafter(at_zero, -1e9)) > 0.0
