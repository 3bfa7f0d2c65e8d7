"""Deletion: the integer weights and their draws, each record published once, and what a weight stands for."""

from __future__ import annotations

import hashlib
import itertools
import math
from bisect import bisect_right
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.mechanisms.kinds.deletion import (
    DeletionRelease,
    delete_records,
    residual_counts,
    stage_counts,
)
from crowdblend.mechanisms.kinds.deletion_noise import (
    WEIGHT_TOTAL,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    _gaussian_terms,
    deletion_weights,
    draw_deletions,
    expected_deletion,
    largest_deletion,
)
from crowdblend.mechanisms.map_selection.chains import chain_quality
from crowdblend.mechanisms.map_selection.choice import WEIGHT_UNIT
from crowdblend.mechanisms.record_weights import deletion_variance, record_weights
from hypothesis import given
from hypothesis import strategies as st

OPTIMAL = OptimalDeletion(epsilon=Decimal(1), delta=Decimal("1e-6"))
GEOMETRIC = GeometricDeletion(epsilon=Decimal("0.5"), width=27)
GAUSSIAN = GaussianDeletion(scale=Decimal("7.8"), width=39)
NOISES = (OPTIMAL, GEOMETRIC, GAUSSIAN)
PARENTS = [np.array([0, 0, 1, 1, 1]), np.array([0, 0])]


@pytest.mark.parametrize(
    ("epsilon", "delta", "largest", "mean", "deviation"),
    [
        ("0.183", "1e-6", 125, 62.4338, 7.7301),
        ("0.5", "1e-6", 50, 24.8526, 2.8211),
        ("1", "1e-6", 27, 13.0675, 1.3799),
        ("2", "1e-6", 14, 6.9094, 0.6667),
        ("1", "1e-9", 40, 19.9710, 1.3673),
    ],
)
def test_the_optimal_noise_has_its_known_support_mean_and_deviation(epsilon, delta, largest, mean, deviation):
    noise = OptimalDeletion(epsilon=Decimal(epsilon), delta=Decimal(delta))
    assert largest_deletion(noise) == largest
    assert float(expected_deletion(noise)) == pytest.approx(mean, abs=5e-5)
    assert float(deletion_variance(noise)) ** 0.5 == pytest.approx(deviation, abs=5e-5)


@pytest.mark.parametrize(
    ("noise", "digest"),
    [(OPTIMAL, "80c983428f5483bb"), (GEOMETRIC, "c892f2e73dd0bb76"), (GAUSSIAN, "45157d5cd5df864f")],
)
def test_weights_are_the_same_on_every_machine(noise, digest):
    weights = deletion_weights(noise)
    assert sum(weights) == WEIGHT_TOTAL
    assert min(weights) >= 1
    assert hashlib.sha256(" ".join(map(str, weights)).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize(("twice", "width"), [(Fraction(1, 3), 9), (2 * Fraction(1110) ** 2, 4000), (10**150, 3)])
def test_terms_that_follow_from_each_other_are_those_of_exponents_of_120_digits(twice, width):
    """The last are so near to one that they are one by their 120 digits."""
    with localcontext(prec=120):
        exponents = [
            Decimal(-(d**2) * Fraction(twice).denominator) / Fraction(twice).numerator for d in range(width + 1)
        ]
        expected = [math.floor(Fraction(exponent.exp()) * 2**256) for exponent in exponents]
    assert list(_gaussian_terms(Fraction(twice), width)) == expected


@pytest.mark.parametrize("digits", [3, 28, 150])
@pytest.mark.parametrize(("scale", "width"), [("0.4", 3), ("7.8", 39), ("1.110E+3", 4000)])
def test_weights_are_those_of_exponents_of_120_digits_whatever_the_callers_decimal_context(digits, scale, width):
    variance, unit = 2 * Fraction(Decimal(scale)) ** 2, 2**256
    with localcontext(prec=120):
        exponents = [Decimal(-(d**2) * variance.denominator) / variance.numerator for d in range(width + 1)]
        half = [math.floor(Fraction(exponent.exp()) * unit) for exponent in exponents]
    shares = [WEIGHT_TOTAL * term // (2 * sum(half) - half[0]) for term in half]
    deletion_weights.cache_clear()
    with localcontext(prec=digits):
        weights = deletion_weights(GaussianDeletion(scale=Decimal(scale), width=width))
        assert list(weights[width + 1 :]) == shares[1:]


@pytest.mark.parametrize("noise", NOISES)
def test_the_logarithm_of_the_weights_is_concave_up_to_rounding(noise):
    weights = deletion_weights(noise)
    for before, here, after in zip(weights, weights[1:], weights[2:], strict=False):
        assert here**2 * (10**25 + 1) >= before * after * 10**25


@pytest.mark.parametrize("noise", NOISES)
def test_draws_are_exact_on_both_sides_of_every_cumulative_weight(noise):
    edges = list(itertools.accumulate(deletion_weights(noise)))
    values = [0, WEIGHT_TOTAL - 1]
    for edge in edges[:-1]:
        values += [edge - 1, edge, edge ^ 1, (edge >> 64) << 64, edge | (2**64 - 1)]
    stream = b"".join(value.to_bytes(16, "big") for value in values)
    drawn = draw_deletions(noise, len(values), randomness=lambda size: stream[:size])
    assert drawn.tolist() == [bisect_right(edges, value) for value in values]


def test_many_draws_take_sixteen_bytes_each_in_order():
    asked: list[int] = []

    def zeros(size):
        asked.append(size)
        return bytes(size)

    drawn = draw_deletions(OPTIMAL, 600_000, randomness=zeros)
    assert sum(asked) == 16 * 600_000
    assert drawn.shape == (600_000,)
    assert not drawn.any()
    assert draw_deletions(OPTIMAL, 0, randomness=zeros).shape == (0,)


@given(
    st.lists(st.integers(0, 9), min_size=5, max_size=5),
    st.lists(st.integers(0, 4), min_size=8, max_size=8),
    st.integers(1, 4),
)
def test_every_record_is_published_at_most_once_and_k_holds_at_every_stage(counts, drawn, k):
    release = DeletionRelease(stages=3, k=k, noise=OPTIMAL)
    deletions = [np.array(drawn[:5]), np.array(drawn[5:7]), np.array(drawn[7:])]
    fine, middle, coarse = delete_records(np.array(counts), release=release, parents=PARENTS, deletions=deletions)
    for published in (fine, middle, coarse):
        assert np.all((published == 0) | (published >= k))
    # What a group published at any stage, its parts' records included, is at most what it has.
    for group in (0, 1):
        of_parts = sum(int(fine[part]) for part in range(5) if PARENTS[0][part] == group)
        assert of_parts + middle[group] <= sum(counts[part] for part in range(5) if PARENTS[0][part] == group)
    left = sum(counts) - int(fine.sum()) - int(middle.sum())
    wanted = left - drawn[7]
    assert int(coarse[0]) == (wanted if wanted >= k else 0)


def test_records_of_a_group_below_k_go_on():
    published = stage_counts(np.array([9, 3]), np.array([1, 1]), k=5)
    assert published.tolist() == [8, 0]
    assert residual_counts(np.array([9, 3]), published, np.array([0, 0]), groups=1).tolist() == [4]


def test_stages_and_draws_must_agree():
    release = DeletionRelease(stages=2, k=1, noise=OPTIMAL)
    with pytest.raises(ValueError, match="2 stages"):
        delete_records(np.array([1]), release=release, parents=[], deletions=[np.array([0])])


@pytest.mark.parametrize("noise", NOISES)
def test_weights_of_the_last_stage_are_unbiased_from_the_largest_deletion_on(noise):
    release = DeletionRelease(stages=1, k=1, noise=noise)
    n = largest_deletion(noise) + 1
    z = np.arange(n, dtype=np.int64)
    left = n - z
    sums = left * record_weights(left, release=release, stage=1)
    law = np.array([weight / WEIGHT_TOTAL for weight in deletion_weights(noise)])
    assert float(law @ sums) == pytest.approx(n, rel=1e-12)
    assert float(law @ (sums - n) ** 2) == pytest.approx(deletion_variance(noise), rel=1e-9)


def test_what_is_deleted_before_the_last_stage_goes_on_to_it_and_weights_there_are_one():
    release = DeletionRelease(stages=2, k=1, noise=OPTIMAL)
    for drawn in itertools.product(range(9), repeat=2):
        fine, coarse = delete_records(
            np.array([7, 9]), release=release, parents=[np.array([0, 0])], deletions=[np.array(drawn), np.array([0])]
        )
        assert fine.sum() + coarse.sum() == 16
    assert record_weights(np.array([3, 8]), release=release, stage=1).tolist() == [1.0, 1.0]
    assert record_weights(np.array([3, 8]), release=release, stage=2) == pytest.approx([16.0675 / 3, 21.0675 / 8], 1e-5)


def test_small_groups_that_happen_to_be_published_are_overstated():
    law = [Fraction(weight, WEIGHT_TOTAL) for weight in deletion_weights(OPTIMAL)]
    mean = expected_deletion(OPTIMAL)
    shown = sum(law[:5])
    estimate = sum(law[z] * (5 - z + mean) for z in range(5)) / shown
    assert float(estimate) == pytest.approx(14.6, abs=0.05)


def test_the_quality_of_a_chain_is_what_is_published_when_every_group_loses_its_threshold():
    counts = np.array([7, 1, 4, 0, 2])
    published = delete_records(
        counts,
        release=DeletionRelease(stages=3, k=1, noise=OPTIMAL),
        parents=PARENTS,
        deletions=[np.full(5, 2), np.full(2, 2), np.full(1, 2)],
    )
    quality = chain_quality(counts, parents=PARENTS, thresholds=[2, 2, 2], weights=[WEIGHT_UNIT] * 3)
    assert quality == WEIGHT_UNIT * sum(int(one.sum()) for one in published)
    one_stage = chain_quality(counts, parents=[], thresholds=[3], weights=[5])
    assert one_stage == 5 * (4 + 1)


@pytest.mark.parametrize("wrong", [{"thresholds": [1]}, {"thresholds": [1, -1]}, {"weights": [1, WEIGHT_UNIT + 1]}])
def test_a_quality_out_of_range_is_refused(wrong):
    arguments = {"thresholds": [1, 1], "weights": [1, 1]} | wrong
    with pytest.raises(ValueError, match="threshold"):
        chain_quality(np.array([1, 2]), parents=[np.array([0, 0])], **arguments)
