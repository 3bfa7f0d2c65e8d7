"""Biased coins from random bytes, exactly: many at once, about one byte each."""

from __future__ import annotations

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
    "flipped",
    "outcome_counts",
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
