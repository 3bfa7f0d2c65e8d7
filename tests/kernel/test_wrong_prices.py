"""Deliberately wrong prices are caught by an exact oracle, which accepts the right one."""

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


def of_the_papers_first_group():
    """The adding curve looked at from the paper's first n on, ⌈k/γ − 1⌉, which is past its peak."""
    n = math.ceil(K / (1 - (1 - RATE) * math.exp(-EPSILON)) - 1) + 1
    upper = [math.comb(n, j) * RATE**j * (1 - RATE) ** (n - j) for j in range(n + 1)]
    lower = [math.comb(n - 1, j) * RATE**j * (1 - RATE) ** (n - 1 - j) for j in range(n)] + [0.0]
    return math.fsum(max(0.0, p - math.exp(EPSILON) * q) for p, q in list(zip(upper, lower, strict=True))[K:])


def of_removing_alone():
    return float(np.exp(log_removing(k=K, sampling_rate=RATE, epsilons=np.array([EPSILON]))[0]))


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        (lambda: delta_exact(k=K, sampling_rate=RATE, epsilon=EPSILON), True),
        (lambda: delta_exact(k=K + 1, sampling_rate=RATE, epsilon=EPSILON), False),
        (lambda: delta_exact(k=K, sampling_rate=0.95 * RATE, epsilon=EPSILON), False),
        (of_removing_alone, False),
        (of_the_papers_first_group, False),
    ],
    ids=["the profile", "k off by one", "rate 5% too low", "adding forgotten", "the paper's first group"],
)
def test_the_exact_oracle_accepts_the_price_and_rejects_wrong_ones(oracle, claim, holds):
    adding, removing = oracle.deltas_over_groups(k=K, sampling_rate=RATE, epsilons=(EPSILON,), largest_n=60)
    assert (Fraction(claim()) >= max(adding[0], removing[0])) is holds


def test_the_removing_direction_is_held_by_its_own_oracle(oracle):
    _, removing = oracle.deltas_over_groups(k=K, sampling_rate=RATE, epsilons=(EPSILON,), largest_n=60)
    ours = Fraction(of_removing_alone()) * Fraction(1 + 1e-12)
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
