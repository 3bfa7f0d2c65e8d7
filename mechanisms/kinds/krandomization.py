"""K-randomization: each bit of a report is flipped by a coin of its own; and the published counts of many reports."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..kernel.mechanism import Mechanism, Randomness
from .biased_coins import WORD, biased_coins, word_threshold_up

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
    """Return the reports of some people; runs on the device, usually for one vector, a number below 2^L; shape (n,).

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
    """Return how many reports are each of the 2^L vectors; shape (2^L,). Reports with more bits count nowhere."""
    outcomes = 1 << mechanism.bits
    # `bincount` takes memory for all numbers below its largest, so one malformed report could exhaust it.
    valid = reports[reports < outcomes]
    return np.bincount(valid, minlength=outcomes).astype(np.int64)
