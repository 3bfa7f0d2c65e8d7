"""Histograms: the sources' examples, the exact distribution of every cell, and their claims of accuracy."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.kernel.noise import TwoSidedGeometricNoise
from crowdblend.mechanisms.kinds.histogram import (
    NoisyHistogram,
    OutlierPrivateHistogram,
    SuppressedHistogram,
    noisy_counts,
    outlier_private_counts,
    suppressed_counts,
)

DRAWS = 30_000


def geometric(epsilon, centre):
    alpha = math.exp(-epsilon)
    return lambda x: (1 - alpha) / (1 + alpha) * alpha ** abs(x - centre)


def test_favourite_colours(examples):
    example = examples["favourite_colours"]
    event = SuppressedHistogram(k=example["k"], sampling_rate=None)
    assert suppressed_counts(np.array(example["counts"]), event).tolist() == example["published"]


def test_the_suppressed_histogram_errs_by_less_than_k():
    event = SuppressedHistogram(k=20, sampling_rate=None)
    counts = np.arange(100)
    error = np.abs(suppressed_counts(counts, event) - counts)
    assert error.max() == 19
    assert (error[20:] == 0).all()


@pytest.mark.parametrize("count", [0, 3, 19])
def test_a_small_count_has_discrete_laplace_noise(fit, count):
    event = NoisyHistogram(k=20, epsilon=Decimal("0.5"), sampling_rate=None)
    published = noisy_counts(np.full(DRAWS, count), event)
    assert fit(published, geometric(0.5, count))
    assert not fit(published, geometric(0.55, count))
    assert not fit(published, geometric(0.5 / 1.1, count))
    assert abs(published.mean() - count) < 6 * math.sqrt(8 / DRAWS), "unbiased"


def test_the_noisy_histogram_is_exact_from_k_on_and_leaves_its_input_alone():
    event = NoisyHistogram(k=20, epsilon=Decimal("0.5"), sampling_rate=None)
    counts = np.array([20, 0, 21, 10**12, 3])
    published = noisy_counts(counts, event)
    assert published[[0, 2, 3]].tolist() == [20, 21, 10**12]
    assert counts.tolist() == [20, 0, 21, 10**12, 3]


@pytest.mark.parametrize("count", [0, 4, 9, 10, 50])
def test_outlier_private_counts_have_the_noise_of_their_size(fit, count):
    event = OutlierPrivateHistogram(epsilon=Decimal("0.2"), horizon=15, margin=5)
    loss = 0.2 if count >= 10 else 5 * 0.2 / (15 - count)
    counts = np.concatenate([np.full(DRAWS, count), np.arange(30)])
    published = outlier_private_counts(counts, event)[:DRAWS]
    assert fit(published, geometric(loss, count))
    assert not fit(published, geometric(loss * 1.1, count))
    assert not fit(published, geometric(loss / 1.1, count))


def test_noise_has_its_full_epsilon_from_the_margin_on() -> None:
    """Below K − t it is ε·t with a sensitivity of K − c: one and the same law at c = K − t, which is written simply."""
    event = OutlierPrivateHistogram(epsilon=Decimal("0.2"), horizon=15, margin=5)
    for count in (10, 11, 10**6):
        assert event.noise(count) == TwoSidedGeometricNoise(epsilon=Decimal("0.2"))
    assert event.noise(9) == TwoSidedGeometricNoise(epsilon=Decimal("1.0"), sensitivity=6)
