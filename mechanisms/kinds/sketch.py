"""Private count mean sketch: what a person's device sends, and what a server makes of many such reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ..kernel.mechanism import Mechanism, Randomness
from .biased_coins import WORD, biased_coins, uniform_below, word_threshold_up

LEAST_EPSILON = Decimal("1e-18")
"""Below 8/2⁶⁴ no coin of 64 bits flips with at least 1/(e^{ε/2}+1) and below one half."""

_DIGITS = Context(prec=50)
_BLOCK_BYTES = 1 << 23


@dataclass(frozen=True, kw_only=True, slots=True)
class CountMeanSketch(Mechanism):
    """Each person hashes their value with one of k functions to one of m bits, and flips every bit with 1/(e^{ε/2}+1).

    Source: Apple, Learning with Privacy at Scale (2017), Algorithms 1 to 3 (client, server, estimate); Notes-DP.
    Every report is ε-locally private: no trust in the server is needed.

    Args:
        epsilon: ε of one report, `LEAST_EPSILON` to 40.
        hashes: k, number of hash functions, 1 … 65536.
        bits: m, bits of a report, a multiple of 8 from 8 to 65536.
        seed: public; names the hash functions, so that clients and server agree.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "local_reports"

    epsilon: Decimal
    hashes: int
    bits: int
    seed: bytes

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and LEAST_EPSILON <= self.epsilon <= 40):
            raise ValueError(f"epsilon must be at least {LEAST_EPSILON} and at most 40, not {self.epsilon}")
        if not 1 <= self.hashes <= 1 << 16:
            raise ValueError(f"the number of hash functions must lie in 1 … 65536, not {self.hashes}")
        if not 8 <= self.bits <= 1 << 16 or self.bits % 8:
            raise ValueError(f"a report's bits must be a multiple of 8 from 8 to 65536, not {self.bits}")
        if not 1 <= len(self.seed) <= 64:
            raise ValueError(f"the seed has 1 to 64 bytes, not {len(self.seed)}")

    @property
    def flip_threshold(self) -> int:
        """T: a bit is flipped with probability T / 2⁶⁴ below one half, the least that is not below 1/(e^{ε/2}+1)."""
        # Rounded down, so that the flip is at least as likely as the declared ε asks.
        growth = _DIGITS.next_minus(_DIGITS.exp(_DIGITS.divide(self.epsilon, Decimal(2))))
        return word_threshold_up(Fraction(1) / (Fraction(growth) + 1))

    @property
    def flip_probability(self) -> float:
        """The real probability of a flip, to double precision."""
        return self.flip_threshold / WORD

    @property
    def correction(self) -> float:
        """c = 1/(1 − 2q), (e^{ε/2}+1)/(e^{ε/2}−1) in the source."""
        return float(1 / (1 - Fraction(2 * self.flip_threshold, WORD)))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SketchReports:
    """What devices send: the number of the hash function and the flipped bits.

    Args:
        hash_numbers: 0 … k − 1, shape (n,), uint16.
        packed_bits: m bits in m/8 bytes, the first bit the highest of its byte; shape (n, m/8), uint8.
    """

    hash_numbers: NDArray[np.uint16]
    packed_bits: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SketchSums:
    """Reports added up.

    Args:
        reports: reports of each hash function, shape (k,), int64.
        ones: ones at each bit of each hash function's reports, shape (k, m), int64.
    """

    reports: NDArray[np.int64]
    ones: NDArray[np.int64]


def hash_positions(sketch: CountMeanSketch, value: str) -> NDArray[np.int64]:
    """Return where each hash function puts a value: 0 … m − 1, shape (k,). BLAKE2b keyed with the seed."""
    text = value.encode()
    limit = sketch.bits
    return np.array([_position(sketch.seed, number, text, limit) for number in range(sketch.hashes)], dtype=np.int64)


def encode(sketch: CountMeanSketch, values: Sequence[str], *, randomness: Randomness) -> SketchReports:
    """Return the reports of some people, one value each; runs on the device, usually for one value.

    PRIVACY: the value leaves the device only through the flipped bits. A second report of the same person
    costs another ε.
    """
    numbers = uniform_below(len(values), bound=sketch.hashes, randomness=randomness)
    rows = _BLOCK_BYTES // sketch.bits
    packed = np.empty((len(values), sketch.bits // 8), dtype=np.uint8)
    for start in range(0, len(values), rows):
        chosen = numbers[start : start + rows]
        coins = biased_coins(chosen.size * sketch.bits, threshold=sketch.flip_threshold, randomness=randomness)
        bits = coins.reshape(chosen.size, sketch.bits)
        texts = values[start : start + rows]
        places = [
            _position(sketch.seed, number, text.encode(), sketch.bits)
            for number, text in zip(chosen.tolist(), texts, strict=True)
        ]
        bits[np.arange(chosen.size), places] ^= True
        packed[start : start + rows] = np.packbits(bits, axis=1)
    return SketchReports(hash_numbers=numbers.astype(np.uint16), packed_bits=packed)


def empty_sums(sketch: CountMeanSketch) -> SketchSums:
    """Return the sums of no reports."""
    return SketchSums(
        reports=np.zeros(sketch.hashes, dtype=np.int64), ones=np.zeros((sketch.hashes, sketch.bits), dtype=np.int64)
    )


def summed(sketch: CountMeanSketch, reports: SketchReports) -> SketchSums:
    """Add up reports; a report with an unknown hash number counts nowhere.

    Raises:
        ValueError: bits of another length than the sketch's.
    """
    if reports.packed_bits.shape != (reports.hash_numbers.size, sketch.bits // 8):
        raise ValueError(f"reports of {sketch.bits} bits have shape (n, {sketch.bits // 8})")
    sums = empty_sums(sketch)
    np.copyto(sums.reports, np.bincount(reports.hash_numbers, minlength=sketch.hashes)[: sketch.hashes])
    order = np.argsort(reports.hash_numbers, kind="stable")
    stop = 0
    for number, size in enumerate(sums.reports.tolist()):
        start, stop = stop, stop + size
        if size:
            sums.ones[number] = _ones_by_bit(reports.packed_bits, order[start:stop])
    return sums


def _position(seed: bytes, number: int, text: bytes, bits: int) -> int:
    digest = blake2b(number.to_bytes(2, "big") + text, digest_size=8, key=seed, person=b"crowdblend-cms/1").digest()
    return int.from_bytes(digest, "big") % bits


def _ones_by_bit(packed: NDArray[np.uint8], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.zeros(packed.shape[1] * 8, dtype=np.int64)
    size = min(_BLOCK_BYTES // total.size, np.iinfo(np.uint16).max)  # so that a block's sums fit 16 bits
    for start in range(0, rows.size, size):
        bits = np.unpackbits(packed[rows[start : start + size]], axis=1)
        total += bits.sum(axis=0, dtype=np.uint16)
    return total
