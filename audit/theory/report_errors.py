"""The exact mean and variance of estimates from local reports: of a sketch's, and of those of randomized vectors."""

from __future__ import annotations

import numpy as np
from crowdblend.mechanisms.kinds.krandomization import KRandomization
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch, hash_positions
from numpy.typing import NDArray

__all__ = ["expected_estimate", "variance_given_hashes", "variance_over_hashes", "variances"]


def expected_estimate(sketch: CountMeanSketch, *, value: str, counts: dict[str, int]) -> float:
    """The mean of a value's estimate for these hash functions; its distance from the count is their collisions."""
    n = sum(counts.values())
    shares = _collisions(sketch, value, counts)
    total = sum(count * shares[other] for other, count in counts.items())
    return (total - n / sketch.bits) * sketch.bits / (sketch.bits - 1)


def variance_given_hashes(sketch: CountMeanSketch, *, value: str, counts: dict[str, int]) -> float:
    """The variance of a value's estimate over the people's coins, for these hash functions.

    (m/(m−1))²·Σ_people (c² − (2s−1)²)/4, s the share of hash functions that put the person's value where `value` is.
    """
    shares = _collisions(sketch, value, counts)
    total = sum(
        count * (sketch.correction**2 - (2.0 * shares[other] - 1.0) ** 2) / 4.0 for other, count in counts.items()
    )
    return total * (sketch.bits / (sketch.bits - 1)) ** 2


def variance_over_hashes(sketch: CountMeanSketch, *, value: str, counts: dict[str, int]) -> float:
    """The variance over coins and independent, three-wise independent hash functions (docs/proofs/local.md)."""
    m, k, c = sketch.bits, sketch.hashes, sketch.correction
    spread = (1.0 / m) * (1.0 - 1.0 / m) / k
    own = counts.get(value, 0)
    others = [count for other, count in counts.items() if other != value]
    coins = own * (c * c - 1.0) / 4.0 + sum(others) * (c * c - (2.0 / m - 1.0) ** 2 - 4.0 * spread) / 4.0
    collisions = spread * sum(count * count for count in others)
    return (coins + collisions) * (m / (m - 1)) ** 2


def variances(mechanism: KRandomization, originals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The variance of each of the estimates, for these numbers of original vectors; shape (2^L,).

    Σ_r x_r·(Π over bits of (p³+q³)/(1−2q)² where r and s agree, pq/(1−2q)² where not) − x_s, p = 1 − q.
    """
    q = float(mechanism.real_flip_probability)
    p, gap = 1.0 - q, (1.0 - 2.0 * q) ** 2
    same, other = (p**3 + q**3) / gap, p * q / gap
    spread = np.ones((1, 1))
    for _ in range(mechanism.bits):
        spread = np.kron(spread, [[same, other], [other, same]])
    return np.maximum(spread @ originals - originals, 0.0)


def _collisions(sketch: CountMeanSketch, value: str, counts: dict[str, int]) -> dict[str, float]:
    places = hash_positions(sketch, value)
    return {other: float(np.mean(hash_positions(sketch, other) == places)) for other in counts}
