"""K-randomization: the outcomes' distribution, the inverse of the flips, the estimates' mean and variance."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.kinds.krandomization import KRandomization, flipped, outcome_counts
from crowdblend.mechanisms.local_reports.estimates import estimated_distribution, standard_errors
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.theory.report_errors import variances

THREE = KRandomization(bits=3, flip_probability=Decimal("0.2"))


def matrix(bits, q):
    """Pr[outcome | vector] from the definition: q to the number of differing bits."""
    size = 1 << bits
    apart = np.array([[bin(a ^ b).count("1") for b in range(size)] for a in range(size)])
    return q**apart * (1 - q) ** (bits - apart)


@pytest.mark.parametrize("vector", [0, 5, 7])
def test_outcomes_have_their_distribution(fit, seeded_bytes, vector):
    drawn = flipped(THREE, np.full(40_000, vector, dtype=np.uint32), randomness=seeded_bytes).astype(np.int64)
    assert fit(drawn, lambda outcome: matrix(3, 0.2)[outcome, vector])
    assert not fit(drawn, lambda outcome: matrix(3, 0.22)[outcome, vector])
    assert not fit(drawn, lambda outcome: matrix(3, 0.2 / 1.1)[outcome, vector])


@given(bits=st.integers(1, 7), q=st.decimals("0.001", "0.49", places=3), seed=st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=60)
def test_the_estimate_is_the_inverse_of_the_flip_matrix(bits, q, seed):
    mechanism = KRandomization(bits=bits, flip_probability=q)
    flips = matrix(bits, float(q))
    counts = np.random.default_rng(seed).integers(0, 1000, 1 << bits)
    assert np.allclose(flips @ estimated_distribution(mechanism, counts), counts, rtol=1e-6, atol=1e-6 * counts.sum())


@given(bits=st.integers(1, 5), q=st.decimals("0.01", "0.45", places=2), seed=st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=40)
def test_variances_are_those_of_the_dense_matrices_and_so_are_standard_errors_of_the_expected(bits, q, seed):
    mechanism = KRandomization(bits=bits, flip_probability=q)
    flips = matrix(bits, float(q))
    inverse = np.linalg.inv(flips)
    people = np.random.default_rng(seed).integers(0, 50, 1 << bits)
    covariance = sum(
        count * (np.diag(column) - np.outer(column, column)) for count, column in zip(people, flips.T, strict=True)
    )
    dense = np.diag(inverse @ covariance @ inverse.T)
    assert np.allclose(variances(mechanism, people.astype(float)), dense, rtol=1e-6, atol=1e-6)
    assert np.allclose(standard_errors(mechanism, flips @ people) ** 2, dense, rtol=1e-6, atol=1e-6)


def test_strange_reports_count_nowhere():
    reports = np.array([0, 1, 7, 7, 8, 200], dtype=np.uint16)
    counts = outcome_counts(THREE, reports)
    assert counts.tolist() == [1, 1, 0, 0, 0, 0, 0, 2]
    assert outcome_counts(THREE, np.empty(0, dtype=np.uint16)).sum() == 0


def test_a_vector_with_more_bits_is_refused_on_the_device(seeded_bytes):
    with pytest.raises(ValueError, match="3 bits"):
        flipped(THREE, np.array([8], dtype=np.uint32), randomness=seeded_bytes)


def test_an_error_whose_estimated_square_is_negative_is_0():
    """Ten reports of 00: by (a² − a)·10 for products a of 1.5 (a bit agrees) and −0.5 (it doesn't)."""
    mechanism = KRandomization(bits=2, flip_probability=Decimal("0.25"))
    errors = standard_errors(mechanism, np.array([10, 0, 0, 0]))
    squares = [10 * (2.25**2 - 2.25), 10 * (0.75**2 + 0.75), 10 * (0.75**2 + 0.75), 10 * (0.25**2 - 0.25)]
    assert errors == pytest.approx([math.sqrt(max(square, 0.0)) for square in squares])
    assert errors[3] == 0.0
