"""What the sheet says of counts, totals and means holds at its rate: by every outcome's chance, else in simulation."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pytest
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.accounting.descriptions.kind_description import DeletedRecords
from crowdblend.accounting.theory.count_bounds import (
    BinomialBounds,
    CountBounds,
    NormalBounds,
    deletion_bounds,
    published_intervals,
)
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import DeletionNoise, deletion_weights, expected_deletion
from crowdblend.mechanisms.record_weights import deletion_variance
from scipy import signal, stats

DRAWS = 20_000
RATE, K = 0.2, 20
SLACK = 4 * math.sqrt(0.05 * 0.95 / DRAWS)
"""Four standard errors of a share of draws."""


@lru_cache
def release(epsilon: str = "1") -> DeletionRelease:
    return plan_deletion(epsilon=Decimal(epsilon), delta=Decimal("1e-6")).mechanism


def deleted_records(mechanism: DeletionRelease) -> DeletedRecords:
    of_mechanism = description_of(mechanism).deletion
    assert of_mechanism is not None
    return of_mechanism(mechanism)


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
        deletion_bounds(deleted_records(release(epsilon)), combinations=COMPLETE.size),
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
        bounds = deletion_bounds(deleted_records(release(epsilon)), combinations=groups)
        holds = (bounds.at_least(told, np.float64(groups)) <= 0) & (bounds.at_most(told, np.float64(groups)) >= 0)
        assert law @ holds >= 0.949


def seen_of(people: int, *, k: int, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of one combination with so many people: the records that may be seen of it, whether any are, and the chances."""
    drawn = np.arange(people + 1)
    return np.where(drawn >= k, drawn, 0.0), (drawn >= k).astype(float), stats.binom.pmf(drawn, people, rate)


def law_of_sum(sizes: tuple[int, ...], *, k: int, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Likewise of several combinations: their sum, how many are in the table, and the chances; by convolution."""
    law = np.ones((1, 1))
    for people in sizes:
        records, there, chances = seen_of(people, k=k, rate=rate)
        own = np.zeros((people + 1, 2))
        np.add.at(own, (records.astype(int), there.astype(int)), chances)
        law = signal.convolve2d(law, own)
    counted, groups = np.indices(law.shape).astype(float)
    return counted.ravel(), groups.ravel(), law.ravel()


RATES = (0.01, 0.1, 0.2, 0.5, 0.9)
THRESHOLDS = (1, 2, 5, 10, 20)
TOLD = {(1, 0.2): 49, (20, 0.2): 94}
"""What docs/decisions/0020-intervals-that-hold.md says of the normal law."""


def sizes_about(k: int, rate: float) -> list[int]:
    """Every small size, those near the threshold, and some that are large."""
    near = k / rate
    return sorted({*range(60), *np.unique(np.linspace(1, 3 * near + 30, 120).astype(int)), int(8 * near + 200)})


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("k", THRESHOLDS)
def test_one_combination_of_a_sample_is_bounded_in_19_of_20_releases_whatever_its_size(k, rate) -> None:
    """By every outcome and its exact chance, those in which it isn't in the table included."""
    bounds = BinomialBounds.of(rate, k=k, noise=None, combinations=1)
    most = bounds.at_most(np.float64(0), np.float64(0))
    by_normal_law, sizes = [], sizes_about(k, rate)
    counted, there, _ = seen_of(max(sizes), k=k, rate=rate)
    least, greatest = bounds.at_least(counted, there), bounds.at_most(counted, there)
    for people in sizes:
        counted, there, chances = seen_of(people, k=k, rate=rate)
        low, high = least[: people + 1] <= people, greatest[: people + 1] >= people
        assert min(chances @ low, chances @ high) >= 0.975 - 1e-9
        assert chances @ (low & high) >= 0.95 - 1e-9
        assert people <= most or stats.binom.cdf(k - 1, people, rate) <= 0.025
        m = counted + (k - 1) * (1 - there)
        below = counted - 1.96 * np.sqrt(counted * (1 - rate)) - 0.5 <= people * rate
        by_normal_law.append(chances @ (below & (m + 1.96 * np.sqrt(m * (1 - rate)) + 0.5 >= people * rate)))
    if rate < 0.9:
        assert min(by_normal_law) < 0.95, "the control: with the normal law's width in their place they don't"
    if (k, rate) in TOLD:
        assert round(100 * min(by_normal_law)) == TOLD[k, rate]


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_sum_of_several_is_bounded_likewise_whatever_their_sizes(k, rate) -> None:
    near = round(k / rate)
    for each in itertools.combinations_with_replacement((0, 1, near // 2, near, 2 * near), 3):
        bounds = BinomialBounds.of(rate, k=k, noise=None, combinations=3)
        counted, groups, chances = law_of_sum(each, k=k, rate=rate)
        holds = (bounds.at_least(counted, groups) <= sum(each)) & (bounds.at_most(counted, groups) >= sum(each))
        assert chances @ holds >= 0.95 - 1e-9
        forgotten = BinomialBounds.of(rate, k=1, noise=None, combinations=3)  # the control: as if nothing were absent
        if k == 5 and each == (near // 2,) * 3:
            assert chances @ (forgotten.at_most(counted, groups) >= sum(each)) < 0.9


@pytest.mark.parametrize("rate", [0.1, 0.9])
@pytest.mark.parametrize(("k", "epsilon"), [(1, 2.0), (5, 0.5), (20, 0.1)])
@pytest.mark.parametrize("others", [0, 4])
def test_noisy_counts_of_a_sample_are_bounded_likewise(k, epsilon, rate, others) -> None:
    """Counts below k have noise, and so have the other cells, in which nobody is."""
    alpha, reach = math.exp(-epsilon), int(50 / epsilon)
    noise = (1 - alpha) / (1 + alpha) * alpha ** np.abs(np.arange(-reach, reach + 1))
    bounds = BinomialBounds.of(rate, k=k, noise=epsilon, combinations=1 + others)
    for people in sizes_about(k, rate)[::6]:
        drawn = stats.binom.pmf(np.arange(people + 1), people, rate)
        law = np.convolve(np.where(np.arange(people + 1) < k, drawn, 0.0), noise)
        law[reach : reach + people + 1] += np.where(np.arange(people + 1) >= k, drawn, 0.0)
        for _ in range(others):
            law = np.convolve(law, noise)
        told = np.arange(law.size, dtype=float) - reach * (1 + others)
        cells = np.float64(1 + others)
        low, high = bounds.at_least(told, cells) <= people, bounds.at_most(told, cells) >= people
        assert min(law @ low, law @ high, law @ (low & high) + 0.025) >= 0.975 - 1e-6


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_an_interval_of_a_combination_that_is_in_the_table_holds_where_it_is(k, rate) -> None:
    sizes = [people for people in sizes_about(k, rate)[:-1] if people >= k]
    shown = {one.published: one for one in published_intervals(range(k, max(sizes) + 1), k=k, rate=rate)}
    assert (shown[k].low, shown[k].people) == (k, k / rate), "a lucky one may have no others"
    low, high = (np.array([getattr(shown[count], end) for count in sorted(shown)]) for end in ("low", "high"))
    for people in sizes:
        counts = np.arange(k, people + 1)
        chances = stats.binom.pmf(counts, people, rate)
        held = (low[: counts.size] <= people) & (people <= high[: counts.size])
        assert chances @ held >= (0.95 - 1e-9) * chances.sum()
    # The control: limits that don't heed the threshold miss all small ones that are seen.
    if k >= 5 and rate == 0.1:
        assert BinomialBounds.of(rate, k=k, noise=None, combinations=1).at_least(np.float64(k), np.float64(1)) > k


def test_the_bounds_hold_where_groups_are_lost_and_an_interval_by_the_standard_error_does_not() -> None:
    """Five times as many combinations are declared as anybody has."""
    true, combinations = float(LOSSY.sum()), 5 * LOSSY.size
    for bounds, table, weight in (
        (
            deletion_bounds(deleted_records(release()), combinations=combinations),
            deleted(LOSSY, DRAWS // 10),
            1.0,
        ),
        (BinomialBounds.of(RATE, k=K, noise=None, combinations=combinations), sampled(LOSSY), 1 / RATE),
    ):
        low, high = held(bounds, table, true)
        assert low + high - 1 >= 0.95
        symmetric = 2 * table[0] * weight - bounds.at_least(*table)
        assert np.mean(symmetric >= true) < 0.01, "the control: what is lost is far more than the standard error"


@pytest.mark.parametrize("groups", [1, 3, 30, 300])
def test_no_size_of_lucky_groups_breaks_the_lower_bound(groups) -> None:
    """A small group is overstated where it is there; but it seldom is, and none of these sizes gains by that."""
    bounds = deletion_bounds(deleted_records(release()), combinations=None)
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
    bounds = NormalBounds(deviation=error, once=0.0, absent=0.0, combinations=1)
    single = (bounds.at_least(told, np.float64(1)) <= true) & (true <= bounds.at_most(told, np.float64(1)))
    assert 0.94 <= single.mean() <= 0.96
    total = 1.959964 * error * math.sqrt(float(values @ values))
    assert 0.94 <= np.mean(np.abs(told @ values - true @ values) <= total) <= 0.96
    means = told @ values / told.sum(axis=1)
    off = 1.959964 * error * np.sqrt(((values - means[:, None]) ** 2).sum(axis=1)) / told.sum(axis=1)
    assert 0.94 <= np.mean(np.abs(means - true @ values / true.sum()) <= off) <= 0.96
