"""What the sheet says of counts, totals and means holds at its rate in simulation; where nothing is sure, bounds do."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pytest
from crowdblend.accounting.theory.planning.deletion import plan_deletion
from crowdblend.deploy.documents.sheet.facts import CountBounds, deletion_bounds, sampling_bounds
from crowdblend.mechanisms.deletion import (
    DeletionNoise,
    DeletionRelease,
    deletion_variance,
    deletion_weights,
    expected_deletion,
)

DRAWS = 20_000
RATE, K = 0.2, 20
SLACK = 4 * math.sqrt(0.05 * 0.95 / DRAWS)
"""Four standard errors of a share of draws."""


@lru_cache
def release(epsilon: str = "1") -> DeletionRelease:
    return plan_deletion(epsilon=Decimal(epsilon), delta=Decimal("1e-6")).mechanism


def noise_of(law: DeletionNoise, shape: tuple[int, ...], coins: np.random.Generator) -> np.ndarray:
    """Z, by the very weights."""
    weights = np.array(deletion_weights(law), dtype=float)
    return np.searchsorted(np.cumsum(weights / weights.sum()), coins.random(shape), side="right")


def deleted(sizes: np.ndarray, draws: int, epsilon: str = "1", seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the weights of a table with groups of these sizes, and how many of them are in it, draw by draw."""
    left = np.maximum(
        sizes - noise_of(release(epsilon).noise, (draws, sizes.size), np.random.default_rng([seed, sizes.size])), 0
    )
    groups = (left > 0).sum(axis=1)
    return left.sum(axis=1) + float(expected_deletion(release(epsilon).noise)) * groups, groups.astype(float)


def sampled(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Likewise the sampled records, of groups with at least k of them."""
    left = np.random.default_rng(sizes.size).binomial(sizes, RATE, (DRAWS, sizes.size))
    left[left < K] = 0
    return left.sum(axis=1).astype(float), (left > 0).sum(axis=1).astype(float)


def held(bounds: CountBounds, table: tuple[np.ndarray, np.ndarray], true: float) -> tuple[float, float]:
    """How often each bound holds."""
    return float(np.mean(bounds.at_least(*table) <= true)), float(np.mean(bounds.at_most(*table) >= true))


COMPLETE = np.arange(300, 340)
LOSSY = np.array([1_000 // rank for rank in range(1, 200)])
"""As with many columns: most groups are small."""


@pytest.mark.parametrize(("epsilon", "most"), [("0.2", 0.96), ("1", 0.96), ("2", 0.97)])
def test_a_deletion_release_without_absent_combinations_has_intervals_of_95_percent(epsilon, most) -> None:
    """At ε = 2 the deviation is some four records, so that whole numbers cover a little more."""
    low, high = held(
        deletion_bounds(release(epsilon), combinations=COMPLETE.size),
        deleted(COMPLETE, DRAWS, epsilon),
        float(COMPLETE.sum()),
    )
    assert 0.95 - SLACK <= low + high - 1 <= most + SLACK


@pytest.mark.parametrize("epsilon", ["0.2", "1", "3"])
def test_few_groups_have_at_least_that_by_the_exact_law_of_their_sum(epsilon) -> None:
    weights = np.array(deletion_weights(release(epsilon).noise), dtype=float)
    expected, law = float(expected_deletion(release(epsilon).noise)), np.ones(1)
    for groups in range(1, 101):
        law = np.convolve(law, weights / weights.sum())
        told = groups * expected - np.arange(law.size)  # what the sum of the weights exceeds the truth by
        bounds = deletion_bounds(release(epsilon), combinations=groups)
        holds = (bounds.at_least(told, np.float64(groups)) <= 0) & (bounds.at_most(told, np.float64(groups)) >= 0)
        assert law @ holds >= 0.949


def test_a_sampled_release_without_absent_combinations_has_intervals_of_95_percent() -> None:
    bounds = sampling_bounds(RATE, k=K, noise=None, combinations=COMPLETE.size)
    low, high = held(bounds, sampled(COMPLETE), float(COMPLETE.sum()))
    assert 0.94 <= low + high - 1 <= 0.96


def test_the_bounds_hold_where_groups_are_lost_and_an_interval_by_the_standard_error_does_not() -> None:
    """Five times as many combinations are declared as anybody has."""
    true, combinations = float(LOSSY.sum()), 5 * LOSSY.size
    for bounds, table in (
        (deletion_bounds(release(), combinations=combinations), deleted(LOSSY, DRAWS // 10)),
        (sampling_bounds(RATE, k=K, noise=None, combinations=combinations), sampled(LOSSY)),
    ):
        low, high = held(bounds, table, true)
        assert low + high - 1 >= 0.95
        symmetric = 2 * table[0] * bounds.weight - bounds.at_least(*table)
        assert np.mean(symmetric >= true) < 0.01, "the control: what is lost is far more than the standard error"


@pytest.mark.parametrize("groups", [1, 3, 30, 300])
def test_no_size_of_lucky_groups_breaks_the_lower_bound(groups) -> None:
    """A small group is overstated where it is there; but it seldom is, and none of these sizes gains by that."""
    bounds = deletion_bounds(release(), combinations=None)
    largest = len(deletion_weights(release().noise))
    draws = 60_000 // groups
    for people in range(1, largest + 2):
        low, _ = held(bounds, deleted(np.full(groups, people), draws, seed=people), float(groups * people))
        assert low >= 0.975 - 4 * math.sqrt(0.025 * 0.975 / draws)


def test_margins_have_counts_totals_and_means_with_intervals_of_95_percent() -> None:
    """Of the numbers that labels stand for; also what a single lost group would have taken is in them."""
    margins = plan_deletion(epsilon=Decimal(1), delta=Decimal("1e-6"), margins=4).mechanism
    law, width = margins.margin_noise, margins.margin_width
    true, values = np.array([3, 40, 500, 1_200, 900, 60, 0]), np.array([0.0, 10, 20, 30, 40, 50, 60])
    told = true + noise_of(law, (DRAWS, true.size), np.random.default_rng(8)) - width
    error = math.sqrt(deletion_variance(law))
    bounds = CountBounds(weight=1.0, share=0.0, deviation=error, once=0.0, absent=0.0, combinations=1)
    single = (bounds.at_least(told, np.float64(1)) <= true) & (true <= bounds.at_most(told, np.float64(1)))
    assert 0.94 <= single.mean() <= 0.96
    total = 1.959964 * error * math.sqrt(float(values @ values))
    assert 0.94 <= np.mean(np.abs(told @ values - true @ values) <= total) <= 0.96
    means = told @ values / told.sum(axis=1)
    off = 1.959964 * error * np.sqrt(((values - means[:, None]) ** 2).sum(axis=1)) / told.sum(axis=1)
    assert 0.94 <= np.mean(np.abs(means - true @ values / true.sum()) <= off) <= 0.96
