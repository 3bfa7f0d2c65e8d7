"""Biased coins from random bytes, exactly: many at once, about one byte each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..kernel.mechanism import Mechanism, Randomness

__all__ = [
    "MOST_BITS",
    "WORD",
    "KRandomization",
    "OutcomeCounts",
    "biased_coins",
    "estimated_distribution",
    "estimated_ones",
    "flipped",
    "outcome_counts",
    "standard_error_of_ones",
    "standard_errors",
    "uniform_below",
    "word_threshold_up",
]

WORD = 1 << 64
_BLOCK = 1 << 24


def word_threshold_up(probability: Decimal | Fraction) -> int:
    """The least whole T with T / 2⁶⁴ of at least a probability.

    Raises:
        ValueError: a probability outside (0, 1).
    """
    exact = Fraction(probability)
    if not 0 < exact < 1:
        raise ValueError(f"a probability must lie strictly between 0 and 1, not {probability}")
    return -int(-exact * WORD // 1)


def biased_coins(count: int, *, threshold: int, randomness: Randomness) -> NDArray[np.bool_]:
    """Independent coins, each true with probability T / 2⁶⁴ exactly.

    A coin is a 64-bit word compared with T; its seven low bytes are drawn only where the top byte ties.

    Args:
        count: how many, at least 0.
        threshold: T, 0 ≤ T < 2⁶⁴.
        randomness: n to n secret bytes.

    Returns:
        Shape (count,).

    Raises:
        ValueError: a threshold out of range.
    """
    if not 0 <= threshold < WORD:
        raise ValueError(f"a threshold must lie in 0 … 2**64 - 1, not {threshold}")
    top, rest = threshold >> 56, threshold & ((1 << 56) - 1)
    coins = np.empty(count, dtype=np.bool_)
    for start in range(0, count, _BLOCK):
        first = np.frombuffer(randomness(min(_BLOCK, count - start)), dtype=np.uint8)
        block = coins[start : start + first.size]
        np.less(first, top, out=block)
        tied = np.flatnonzero(first == top)
        words = np.zeros((tied.size, 8), dtype=np.uint8)
        words[:, 1:] = np.frombuffer(randomness(7 * tied.size), dtype=np.uint8).reshape(tied.size, 7)
        block[tied] = words.view(">u8").reshape(tied.size) < rest
    return coins


def uniform_below(count: int, *, bound: int, randomness: Randomness) -> NDArray[np.int64]:
    """Independent whole numbers, uniform on 0 … bound − 1 exactly (by rejection).

    Args:
        count: how many, at least 0.
        bound: 1 ≤ bound ≤ 2³².
        randomness: n to n bytes.

    Returns:
        Shape (count,).

    Raises:
        ValueError: a bound out of range.
    """
    if not 1 <= bound <= 1 << 32:
        raise ValueError(f"a bound must lie in 1 … 2**32, not {bound}")
    drawn = np.empty(count, dtype=np.int64)
    waiting = np.arange(count)
    limit = np.uint64(WORD // bound * bound - 1)
    while waiting.size:
        words = np.frombuffer(randomness(8 * waiting.size), dtype="<u8")
        fair = words <= limit
        drawn[waiting[fair]] = (words[fair] % np.uint64(bound)).astype(np.int64)
        waiting = waiting[~fair]
    return drawn


MOST_BITS = 24

Counts = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class KRandomization(Mechanism):
    """Each of L bits is flipped with probability q < ½. Source: KR (Zhilyaev and Zeber, K-Randomization, 2016).

    Every report is L·ln((1−q)/q)-locally private: no trust in the server is needed.

    Args:
        bits: L, 1 … 24.
        flip_probability: q, 0 < q < ½, exact.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "local_reports"

    bits: int
    flip_probability: Decimal

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MOST_BITS:
            raise ValueError(f"the number of bits must lie in 1 … {MOST_BITS}, not {self.bits}")
        if not Decimal("1e-15") <= self.flip_probability <= Decimal("0.499999"):
            raise ValueError(f"the flip probability must lie in 1e-15 … 0.499999, not {self.flip_probability}")

    @property
    def flip_threshold(self) -> int:
        """T: a bit is flipped with probability T / 2⁶⁴, the least that is not below q."""
        return word_threshold_up(self.flip_probability)

    @property
    def real_flip_probability(self) -> Fraction:
        """The probability of a flip as it is drawn, at least q and above it by less than 2⁻⁶⁴."""
        return Fraction(self.flip_threshold, WORD)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeCounts(Mechanism):
    """The published counts of the outcomes of many people's reports.

    Args:
        randomizer: what each device did.
        least_people: a public lower bound on the number of people, at least 1.

    Raises:
        ValueError: fewer people than one.
    """

    kind = "outcome_counts"

    randomizer: KRandomization
    least_people: int

    def __post_init__(self) -> None:
        if self.least_people < 1:
            raise ValueError(f"there must be at least one person, not {self.least_people}")


def flipped(mechanism: KRandomization, vectors: NDArray[np.uint32], *, randomness: Randomness) -> NDArray[np.uint32]:
    """The reports of some people; runs on the device, usually for one vector.

    Args:
        mechanism: the public parameters.
        vectors: each person's bits as a number below 2^L, shape (n,).
        randomness: the operating system's, n to n bytes.

    Raises:
        ValueError: a vector with more bits.
    """
    if vectors.size and int(vectors.max()) >> mechanism.bits:
        raise ValueError(f"a vector has more than {mechanism.bits} bits")
    flips = np.zeros(vectors.shape, dtype=np.uint32)
    for bit in range(mechanism.bits):
        coins = biased_coins(vectors.size, threshold=mechanism.flip_threshold, randomness=randomness)
        flips |= coins.astype(np.uint32) << np.uint32(bit)
    return vectors ^ flips


def outcome_counts(mechanism: KRandomization, reports: NDArray[np.unsignedinteger]) -> Counts:
    """How many reports are each of the 2^L vectors; shape (2^L,), int64. Reports with more bits count nowhere."""
    outcomes = 1 << mechanism.bits
    known = reports[reports < outcomes]  # a single strange report would else cost memory for all numbers below it
    return np.bincount(known, minlength=outcomes).astype(np.int64)


def estimated_distribution(mechanism: KRandomization, outcomes: Counts) -> Reals:
    """Unbiased estimates of how many people have each of the 2^L vectors; shape (2^L,), may be negative.

    The inverse of the flip matrix, which is a tensor product of 2 × 2 matrices: O(L·2^L). It goes
    through sums and differences of each bit (Walsh and Hadamard), whose eigenvalues are 1 and 1 − 2q.
    """
    same, other = _inverse(mechanism)
    return _each_bit(outcomes.astype(np.float64), same, other)


def standard_errors(mechanism: KRandomization, outcomes: Counts) -> Reals:
    """Standard errors of the estimates, from the published outcome counts; shape (2^L,).

    Their squares are unbiased for the estimates' variances wherever they are positive: for x_r people of vector r,
    Σ_r x_r·(Π over bits of (p³+q³)/(1−2q)² where r and s agree, pq/(1−2q)² where not) − x_s, p = 1 − q.
    """
    same, other = _inverse(mechanism)
    squares = _each_bit(outcomes.astype(np.float64), same * same, other * other)
    return np.sqrt(np.maximum(squares - estimated_distribution(mechanism, outcomes), 0.0))


def estimated_ones(mechanism: KRandomization, outcomes: Counts) -> Reals:
    """Unbiased estimates of how many people have each bit set: (ones reported − n·q)/(1 − 2q); shape (L,).

    With one bit for each value they are the values' counts, with a smaller error than the vectors' estimates, which
    answer more.
    """
    q = float(mechanism.real_flip_probability)
    reported = np.array([float(outcomes.reshape(-1, 2, 1 << bit)[:, 1].sum()) for bit in range(mechanism.bits)])
    return (reported - q * float(outcomes.sum())) / (1.0 - 2.0 * q)


def standard_error_of_ones(mechanism: KRandomization, *, people: int) -> float:
    """The exact standard error of each bit's estimate of n people: √(n·q(1−q))/(1−2q), whatever they have."""
    q = float(mechanism.real_flip_probability)
    return math.sqrt(people * q * (1.0 - q)) / (1.0 - 2.0 * q)


def _inverse(mechanism: KRandomization) -> tuple[float, float]:
    """Diagonal and off-diagonal of the inverse of [[1−q, q], [q, 1−q]]."""
    gap = 1 - 2 * mechanism.real_flip_probability
    return float((1 - mechanism.real_flip_probability) / gap), float(-mechanism.real_flip_probability / gap)


def _each_bit(values: Reals, same: float, other: float) -> Reals:
    """Apply [[same, other], [other, same]] along every bit."""
    result = values.astype(np.float64)
    width = 1
    while width < result.size:
        pairs = result.reshape(-1, 2, width)
        low, high = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0] = same * low + other * high
        pairs[:, 1] = other * low + same * high
        width *= 2
    return result
