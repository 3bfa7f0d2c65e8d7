"""Deliberately wrong prices are caught, by an exact oracle and by simulation; the right one is accepted by both."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact, log_removing
from crowdblend.accounting.kinds.composition.composed import curves_of, epsilon_composed, grid_spacing, measures_of
from crowdblend.accounting.kinds.composition.loss_distribution import epsilon_at, power
from crowdblend.accounting.kinds.composition.paper_bound import delta_paper
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

K, RATE, EPSILON = 5, 0.3125, 0.2
DRAWS = 2_000_000
# One-sided normal quantile: a right price is rejected with probability below 1e-6 for each group size tried.
QUANTILE = 4.8


def only_one_direction(log_curve):
    return lambda: float(np.exp(log_curve(k=K, sampling_rate=RATE, epsilons=np.array([EPSILON]))[0]))


def from_the_papers_first_group():
    """The adding curve looked at from the paper's first n on, ⌈k/γ − 1⌉, which is past its peak."""
    gamma = 1 - (1 - RATE) * math.exp(-EPSILON)
    first = math.ceil(K / gamma - 1) + 1
    return delta_of_group(first)


def delta_of_group(n):
    upper = [math.comb(n, j) * RATE**j * (1 - RATE) ** (n - j) for j in range(n + 1)]
    lower = [math.comb(n - 1, j) * RATE**j * (1 - RATE) ** (n - 1 - j) for j in range(n)] + [0.0]
    return math.fsum(max(0.0, p - math.exp(EPSILON) * q) for p, q in list(zip(upper, lower, strict=True))[K:])


RIGHT = {"exact profile": lambda: delta_exact(k=K, sampling_rate=RATE, epsilon=EPSILON)}
WRONG = {
    "k off by one": lambda: delta_exact(k=K + 1, sampling_rate=RATE, epsilon=EPSILON),
    "rate 5% too low": lambda: delta_exact(k=K, sampling_rate=0.95 * RATE, epsilon=EPSILON),
    "adding forgotten": only_one_direction(log_removing),
}
WRONG_BUT_CLOSE = {"started at the paper's first group": from_the_papers_first_group}


def exact_oracle_accepts(oracle, claimed):
    adding, removing = oracle.deltas_over_groups(k=K, sampling_rate=RATE, epsilons=(EPSILON,), largest_n=60)
    return Fraction(claimed) >= max(adding[0], removing[0])


def simulation_accepts(claimed):
    """Whether no event {count ≥ m} or {count < m} of simulated releases contradicts (ε, δ), for any group size."""
    draws = np.random.default_rng(1101_2604)
    growth = math.exp(EPSILON)
    for n in range(K, 3 * K):
        with_t = draws.binomial(n, RATE, DRAWS)
        without = draws.binomial(n - 1, RATE, DRAWS)
        for m in range(K, n + 1):
            for event_with, event_without, first in (
                (np.mean(with_t >= m), np.mean(without >= m), "with"),
                (np.mean(with_t < m), np.mean(without < m), "without"),
            ):
                p, q = (event_with, event_without) if first == "with" else (event_without, event_with)
                error = math.sqrt((p * (1 - p) + growth**2 * q * (1 - q)) / DRAWS)
                if p - growth * q - QUANTILE * error > claimed:
                    return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_the_right_price_is_accepted(oracle, name):
    claimed = RIGHT[name]()
    assert exact_oracle_accepts(oracle, claimed)
    assert simulation_accepts(claimed)


@pytest.mark.parametrize("name", WRONG | WRONG_BUT_CLOSE)
def test_a_wrong_price_is_rejected_by_the_exact_oracle(oracle, name):
    assert not exact_oracle_accepts(oracle, (WRONG | WRONG_BUT_CLOSE)[name]())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_price_is_rejected_by_simulation(name):
    assert not simulation_accepts(WRONG[name]())


def test_the_removing_direction_is_held_by_its_own_oracle(oracle):
    _, removing = oracle.deltas_over_groups(k=K, sampling_rate=RATE, epsilons=(EPSILON,), largest_n=60)
    ours = Fraction(only_one_direction(log_removing)()) * Fraction(1 + 1e-12)
    one_k_too_many = log_removing(k=K + 1, sampling_rate=RATE, epsilons=np.array([EPSILON]))[0]
    assert ours >= removing[0] > Fraction(math.exp(one_k_too_many))


def test_a_composition_that_forgets_a_direction_is_rejected(oracle):
    mechanism = StronglySafeRelease(k=8, sampling_rate=Decimal("0.5"))
    with_t, without = oracle.pair(n=14, k=8, sampling_rate=0.5)
    truth = oracle.least_epsilon(*oracle.product([(with_t, without)] * 2), 0.02)
    curves = curves_of(mechanism, negligible=1e-9)
    spacing = grid_spacing({curves: 2}, negligible=1e-9)
    _, removing = measures_of(curves, spacing)
    assert epsilon_composed({mechanism: 2}, delta=0.02) >= truth
    assert epsilon_at(power(removing, 2, cut=1e-9), 0.02) < truth


def test_ten_payments_priced_as_one_are_rejected(oracle):
    mechanism = StronglySafeRelease(k=8, sampling_rate=Decimal("0.5"))
    with_t, without = oracle.pair(n=14, k=8, sampling_rate=0.5)
    truth = oracle.least_epsilon(*oracle.product([(with_t, without)] * 3), 0.02)
    assert epsilon_composed({mechanism: 3}, delta=0.02) >= truth
    assert epsilon_composed({mechanism: 1}, delta=0.02) < truth


def test_the_paper_without_its_tail_beyond_the_first_group_would_be_caught():
    gamma = 1 - 0.9 * math.exp(-1.5)
    first = math.ceil(20 / gamma - 1)
    only_first = math.fsum(math.comb(first, j) * 0.1**j * 0.9 ** (first - j) for j in range(20, first + 1))
    assert delta_paper(k=20, sampling_rate=0.1, epsilon=1.5) >= only_first * (1 - 1e-12)
