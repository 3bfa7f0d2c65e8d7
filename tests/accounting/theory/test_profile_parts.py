"""The profile's parts alone: exact residuals, sums in blocks of any size, cut-off tails, and the ends of the ranges."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
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
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.theory.planning import searches
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

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


def relative(found, truth):
    """How far a double is above the truth, in units in the last place of 1."""
    return float((mpmath.mpf(float(found)) / truth - 1) / mpmath.mpf(ULP))


@pytest.mark.parametrize("rate", [1e-9, 0.1, 0.3, 0.9485])
def test_parameters_are_rounded_outward_by_the_margin_that_is_proved(rate, monkeypatch):
    """docs/proofs/floating-point.md, 2.: 16 units in the last place, of which their own roundings cost a few."""
    seen: list[np.ndarray] = []

    def watched(k, factors):
        seen.append(factors)
        return np.full_like(factors, 3.0), np.ones_like(factors)

    monkeypatch.setattr(privacy_profile, "groups_of_adding", watched)
    monkeypatch.setattr(privacy_profile, "groups_of_removing", watched)
    epsilons = np.concatenate([np.linspace(0.0, -math.log1p(-rate), 7)[:6], [1e-12 * rate, 3.0, 40.0]])
    log_adding(k=3, sampling_rate=rate, epsilons=epsilons)
    log_removing(k=3, sampling_rate=rate, epsilons=epsilons)
    with mpmath.workdps(60):
        beta, growths = mpmath.mpf(rate), [mpmath.exp(mpmath.mpf(float(epsilon))) for epsilon in epsilons]
        for gamma, growth in zip(seen[0], growths, strict=True):
            assert -22.0 <= relative(gamma, 1 - (1 - beta) / growth) <= -10.0
        for eta, growth in zip(seen[1], growths[:7], strict=True):  # beyond it none
            assert abs((mpmath.mpf(float(eta)) - (1 - growth * (1 - beta))) / (beta * mpmath.mpf(ULP)) - 16) <= 6


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
def test_logarithms_are_raised_by_what_sums_and_additions_can_cost(rate):
    """For k = 1 the sums have one term, and the divergences are β and η themselves."""
    one = np.array([1.0])
    epsilons = np.array([0.1])
    first, error = log_binomial_pmf(one, one, rate)
    [over] = (log_adding(k=1, sampling_rate=rate, epsilons=epsilons) - first - error) / ULP
    assert abs(over - (40 + 16)) <= 4
    _, error = log_binomial_pmf(0 * one, one, rate)
    eta = rate - math.expm1(0.1) * (1.0 - rate) + 16.0 * ULP * rate
    [over] = (log_removing(k=1, sampling_rate=rate, epsilons=epsilons) - math.log(eta) - error) / ULP
    assert abs(over - (40 + 16)) <= 4
    assert privacy_profile.MARGIN == 16.0 * ULP
    assert privacy_profile._cost_of_sums(1) == 40.0 * ULP
    assert privacy_profile._cost_of_sums(1_000) == 8_032.0 * ULP


@pytest.mark.parametrize(
    ("top", "bottom", "odds", "expected"),
    [
        (1e15, 1e15, 0.5, 58),  # all but geometric: 40/ln 2
        (2e6, 1e6, 0.5, 10_328),  # no drop at first: 2·sqrt(40/(1/top + 1/bottom))
        (1e5, 1e5, math.exp(-0.01), 2_000),  # both: 80/(0.01 + sqrt(0.01² + 40·2e-5))
        (3.0, 1e6, 1e5, 4),  # past the third there is none
        (0.0, 5.0, 0.1, 1),
        (1.0, 1.0, math.exp(-40.0), 1),
        (1.0, 1.0, 0.9, 2),
    ],
)
def test_sums_have_as_many_terms_as_their_ratios_ask_for(top, bottom, odds, expected):
    [found] = privacy_profile._terms(np.array([top]), np.array([bottom]), odds)
    assert 0 <= found - expected <= (expected == 2_000)


@pytest.mark.slow
def test_blocks_are_as_large_as_allowed_and_no_larger():
    most = 2**20
    for size, terms, blocks in (
        (most, 1.0, [most]),
        (most + 1, 1.0, [most, 1]),
        (most // 64 + 2, 64.0, [most // 64, 2]),
    ):
        assert [rows.size for rows in privacy_profile._blocks(np.full(size, terms))] == blocks
    uneven = np.array([most + 5.0, 1.0, most / 2.0, 7.0, most / 2.0])
    found = [rows.tolist() for rows in privacy_profile._blocks(uneven)]
    assert [sorted(rows) for rows in found] == [[1, 3], [2, 4], [0]]
    assert all(rows == sorted(rows, key=lambda row: uneven[row]) for rows in found)
    assert list(privacy_profile._blocks(np.empty(0))) == []


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
    made = privacy_profile._block_of_sums
    blocks: list[tuple[int, int]] = []

    def watched(theta, top, bottom, odds, terms):
        assert theta.size == 1 or theta.size * terms <= block
        blocks.append((theta.size, terms))
        return made(theta, top, bottom, odds, terms)

    monkeypatch.setattr(privacy_profile, "_block_of_sums", watched)
    for side, expected in zip((log_adding, log_removing), whole, strict=True):
        blocks.clear()
        assert np.allclose(expected, side(k=k, sampling_rate=rate, epsilons=epsilons), rtol=0, atol=1e-12)
        # They are no smaller than they must be: with another row of the next one's length each would be too large.
        assert all((size + 1) * more > block for (size, _), (_, more) in itertools.pairwise(blocks))


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 20, 77, 1_000])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.999])
def test_the_decisive_group_is_the_first_that_has_enough_records(k, rate, monkeypatch):
    """At ε whose factor is (k − 1) over a whole number, up to rounding, the quotient alone is at times one off."""
    groups = np.arange(math.ceil((k - 1) / rate) + 1, math.ceil((k - 1) / rate) + 2_000, dtype=np.float64)
    removing = np.log1p((rate + 16.0 * ULP * rate - (k - 1.0) / groups) / (1.0 - rate))
    whole = np.arange(k, k + 2_000, dtype=np.float64)
    adding = np.log((1.0 - rate) / (1.0 - (k - 1.0) / whole[(k - 1.0) / whole > rate])) + 16.0 * ULP  # κ's own margin
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def watched(*, theta, top, bottom, odds):
        seen.append((theta, top))
        return np.zeros_like(theta)

    monkeypatch.setattr(privacy_profile, "log_weighted_sum", watched)
    for shift in np.arange(-20, 21) * ULP / 2.0:
        epsilons = np.maximum(removing + shift, 0.0)
        log_removing(k=k, sampling_rate=rate, epsilons=epsilons)
        [(theta, _)] = seen
        factor = rate - np.expm1(epsilons) * (1.0 - rate) + 16.0 * ULP * rate
        assert np.all((theta >= 0.0) & (theta <= factor))
        seen.clear()
        epsilons = np.maximum(adding + shift, 0.0)
        log_adding(k=k, sampling_rate=rate, epsilons=epsilons)
        [(theta, beyond)] = seen
        rest = (1.0 - rate) * np.exp(-epsilons)
        assert np.all((theta <= 1.0) & ((theta >= rest * (1.0 - 1e-12)) | (beyond == 0)))
        seen.clear()


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


@pytest.mark.parametrize(("k", "rate", "delta"), [(20, 0.1, 1e-6), (1, 1e-299, 1.0000000001e-299), (1_000, 0.9, 0.5)])
def test_the_search_for_epsilon_ends_soon_and_at_the_least_one(k, rate, delta, monkeypatch):
    asked: list[float] = []
    made = privacy_profile.log_profile

    def watched(**given):
        asked.append(float(given["epsilons"][0]))
        return made(**given)

    monkeypatch.setattr(privacy_profile, "log_profile", watched)
    found = searches.epsilon_exact(k=k, sampling_rate=rate, delta=delta)
    assert found is not None
    assert asked.count(found) >= 1  # it has itself been evaluated
    assert len(asked) <= 60 + max(0.0, -math.log2(max(found, 1e-320)))
    if found > 0.0:
        log_delta = math.log(delta)
        [above], [below] = (made(k=k, sampling_rate=rate, epsilons=np.array([found * far])) for far in (1, 1 - 1e-12))
        assert above <= log_delta < below + 1e-9 * abs(below)


def test_the_target_is_rounded_away_from_what_is_allowed(monkeypatch):
    asked: list[float] = []
    monkeypatch.setattr(searches, "epsilon_of_log_delta", lambda **given: asked.append(given["log_delta"]))
    for delta in (0.9, 0.5, 1e-3, 1e-6, 1e-300):
        searches.epsilon_exact(k=20, sampling_rate=0.1, delta=delta)
        truth, found = Decimal(delta).ln(), asked.pop()
        assert isinstance(found, float)
        assert truth * (1 + Decimal("1e-14")) <= Decimal(found) <= truth
        assert found == math.log(delta) * (1.0 + 4.0 * ULP)  # its own error is at most these 4


def test_an_epsilon_of_exactly_the_allowed_delta_holds():
    [at_zero] = log_profile(k=20, sampling_rate=0.1, epsilons=np.array([0.0]))
    assert privacy_profile.epsilon_of_log_delta(k=20, sampling_rate=0.1, log_delta=at_zero) == 0.0
    assert privacy_profile.epsilon_of_log_delta(k=20, sampling_rate=0.1, log_delta=np.nextafter(at_zero, -1e9)) > 0.0


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.0, 1.5, math.nan, -math.inf])
def test_a_delta_out_of_range_is_refused(delta):
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        searches.epsilon_exact(k=20, sampling_rate=0.1, delta=delta)


@pytest.mark.parametrize("releases", [0, -1])
@pytest.mark.parametrize("records", [1, 2])
def test_no_release_has_no_price(releases, records):
    release = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    with pytest.raises(InputRefused):
        price(release, delta=Decimal("1e-6"), releases=releases, rows_per_person=records)
