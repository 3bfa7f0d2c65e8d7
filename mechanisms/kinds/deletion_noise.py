"""The laws of how many records a group loses: integer weights, and draws that are exact by them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from ..kernel.mechanism import Randomness

WEIGHT_TOTAL = 1 << 128
"""What the integer weights of a noise add up to: a draw is 16 uniform bytes, none is ever rejected."""


LARGEST_DELETION = 1 << 16
"""No noise deletes more records of a group."""


_HALF_BITS = 64
_DRAW_BYTES = 16
_DRAWS_AT_ONCE = 1 << 18
_FINE = 1 << 256
_FINER, _UNSURE = 1 << 600, 1 << 244
_DIGITS, _MORE_DIGITS = (Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX) for digits in (120, 200))
Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimalDeletion:
    """The noise with which one stage publishes the most records that (ε, δ) allows.

    With π(0) = 0 and π(i+1) = min(e^ε·π(i) + δ, 1 − e^{−ε}(1 − π(i) − δ), 1), Pr[Z = z] = π(z+1) − π(z). The recursion
    is that of Desfontaines, Voss, Gipson, Mandayam, arXiv:2006.03684, Theorem 1; that no private release of a fixed
    map publishes more of any group is proved in docs/proofs/deletion.md.

    Args:
        epsilon: ε of one stage, above 0 and at most 50.
        delta: δ of one stage, 1e-25 ≤ δ < 1.

    Raises:
        ValueError: a field outside its range, or a noise that may delete more than `LARGEST_DELETION` records.
    """

    epsilon: Decimal
    delta: Decimal

    def __post_init__(self) -> None:
        require_amount("epsilon", self.epsilon, 50)
        if not (self.delta.is_finite() and Decimal("1e-25") <= self.delta < 1):
            raise ValueError(f"delta must be at least 1e-25 and below 1, not {self.delta}")
        deletion_weights(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class GeometricDeletion:
    """Pr[Z = z] ∝ e^{−ε|z − m|} on 0 … 2m: every loss but that of the two ends is ε.

    Args:
        epsilon: ε above 0 and at most 50.
        width: m, at least 1 and at most half of `LARGEST_DELETION`.

    Raises:
        ValueError: a field outside its range, or ends so improbable that they have no weight.
    """

    epsilon: Decimal
    width: int

    def __post_init__(self) -> None:
        require_amount("epsilon", self.epsilon, 50)
        _require_width(self.width)
        deletion_weights(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianDeletion:
    """Pr[Z = z] ∝ e^{−(z − m)²/(2σ²)} on 0 … 2m, the truncated discrete Gaussian.

    Args:
        scale: σ above 0 and at most `LARGEST_DELETION`.
        width: m, at least 1 and at most half of `LARGEST_DELETION`.

    Raises:
        ValueError: a field outside its range, or ends so improbable that they have no weight.
    """

    scale: Decimal
    width: int

    def __post_init__(self) -> None:
        require_amount("the scale", self.scale, LARGEST_DELETION)
        _require_width(self.width)
        deletion_weights(self)


DeletionNoise = OptimalDeletion | GeometricDeletion | GaussianDeletion
"""The law of Z, the number of records that a stage deletes from a group."""


@lru_cache(maxsize=64)
def deletion_weights(noise: DeletionNoise) -> tuple[int, ...]:
    """Return the integer weights of Z = 0, 1, …: each at least 1, their sum `WEIGHT_TOTAL`; the same on every machine.

    Geometric and Gaussian: a(d) = ⌊2²⁵⁶·e^{−x}⌋, x = εd or d²/(2σ²) rounded to 120 decimal digits, and e^{−x} too
    (decimal arithmetic, correctly rounded); the weight of z is ⌊2¹²⁸·a(|z − m|)/Σa⌋, and what is lacking to 2¹²⁸ is
    added to that of m. Optimal: the recursion of `OptimalDeletion` in whole 2⁻¹²⁸ths, every step rounded down, with a δ
    that is smaller by (2¹⁶ + 1)(⌊e^ε⌋ + 3) of them, so that the weights themselves are (ε, δ)-private.

    Raises:
        ValueError: a noise that may delete more than `LARGEST_DELETION` records, or ends without weight.
    """
    match noise:
        case OptimalDeletion():
            return _optimal(noise)
        case GeometricDeletion(epsilon=epsilon, width=width):
            return _symmetric([_term(_DIGITS.multiply(epsilon, distance)) for distance in range(width + 1)])
        case GaussianDeletion(scale=scale, width=width):
            return _symmetric(list(_gaussian_terms(2 * Fraction(scale) ** 2, width)))
        case _:
            assert_never(noise)


def _optimal(noise: OptimalDeletion) -> tuple[int, ...]:
    growth = math.floor(Fraction(_DIGITS.exp(noise.epsilon)) * _FINE) - 1
    decay = math.ceil(Fraction(_DIGITS.exp(noise.epsilon.copy_negate())) * _FINE) + 1
    # INVARIANT: each of at most LARGEST_DELETION + 1 steps errs by at most one unit, or e^ε units; δ is lowered by all.
    lowered = (LARGEST_DELETION + 1) * (growth // _FINE + 3)
    share = math.floor(Fraction(noise.delta) * WEIGHT_TOTAL) - lowered
    if share <= lowered:
        raise ValueError(f"delta {noise.delta} is too small for epsilon {noise.epsilon}")
    below = [0]
    while below[-1] < WEIGHT_TOTAL:
        if len(below) > LARGEST_DELETION + 1:
            raise ValueError(f"this noise may delete more than {LARGEST_DELETION} records of a group")
        up = growth * below[-1] // _FINE + share
        down = WEIGHT_TOTAL + decay * (below[-1] + share - WEIGHT_TOTAL) // _FINE
        below.append(min(up, down, WEIGHT_TOTAL))
    return tuple(above - lower for lower, above in pairwise(below))


def _term(exponent: Decimal) -> int:
    return math.floor(Fraction(_DIGITS.exp(exponent.copy_negate())) * _FINE)


def _gaussian_terms(twice_variance: Fraction, width: int) -> Iterator[int]:
    """Give ⌊2²⁵⁶·e^{−x}⌋ at each distance d from 0 to the width, without an exponential for each.

    With c = 1/(2σ²), e^{−(d+1)²c} is e^{−d²c} times e^{−(2d+1)c}, which is the one before it times e^{−2c}. In whole
    2⁻⁶⁰⁰ths, rounded down, at most 2¹⁶ steps err by less than 2³⁴ of them; the decimal arithmetic that defines a term,
    by less than 2⁻¹³⁰ of it all times 2²⁵⁶. So both have the same whole part, unless it is within 2⁻¹⁰⁰ of the next.
    """
    numerator, denominator = twice_variance.numerator, twice_variance.denominator
    exponent = _MORE_DIGITS.divide(Decimal(denominator), Decimal(numerator))
    first = math.floor(Fraction(_MORE_DIGITS.exp(exponent.copy_negate())) * _FINER)
    term, factor, step = _FINER, first, first * first // _FINER
    for distance in range(width + 1):
        whole, rest = divmod(term, _FINER // _FINE)
        sure = _UNSURE < rest < _FINER // _FINE - _UNSURE
        yield whole if sure else _term(_DIGITS.divide(Decimal(distance**2 * denominator), Decimal(numerator)))
        term, factor = term * factor // _FINER, factor * step // _FINER


def _symmetric(half: list[int]) -> tuple[int, ...]:
    total = 2 * sum(half) - half[0]
    weights = [WEIGHT_TOTAL * term // total for term in half]
    if weights[-1] == 0:
        raise ValueError(
            f"the ends of this noise, {len(half) - 1} from its middle, are too improbable: lower the width"
        )
    # The rounding's remainder goes to the middle, so that the weights add up to 2**128 and no draw is rejected.
    weights[0] += WEIGHT_TOTAL - (2 * sum(weights) - weights[0])
    return (*weights[:0:-1], *weights)


def largest_deletion(noise: DeletionNoise) -> int:
    """Return the largest value of Z, in records."""
    return len(deletion_weights(noise)) - 1


def expected_deletion(noise: DeletionNoise) -> Fraction:
    """Return E[Z], in records, exactly."""
    return Fraction(sum(z * weight for z, weight in enumerate(deletion_weights(noise))), WEIGHT_TOTAL)


def draw_deletions(noise: DeletionNoise, groups: int, *, randomness: Randomness) -> NDArray[np.int32]:
    """Return Z for each of a number of groups, exactly by the integer weights; shape (groups,).

    PRIVACY: draw once for each group of each stage, store before anything depends on it, and never draw again.
    """
    reached = np.cumsum(np.array(deletion_weights(noise), dtype=object))[:-1]
    edges = [int(edge) for edge in reached]
    heads = np.array([edge >> _HALF_BITS for edge in edges], dtype=np.uint64)
    draws = np.empty(groups, dtype=np.int32)
    for start in range(0, groups, _DRAWS_AT_ONCE):
        size = min(_DRAWS_AT_ONCE, groups - start)
        # A uniform number below 2**128, most significant byte first; Z is how many cumulative weights it reaches. Its
        # first 64 bits nearly always decide, and the whole number is compared where they don't.
        halves = np.frombuffer(randomness(_DRAW_BYTES * size), dtype=">u8").reshape(size, 2).astype(np.uint64)
        low = np.searchsorted(heads, halves[:, 0], side="left")
        high = np.searchsorted(heads, halves[:, 0], side="right")
        for tied in np.flatnonzero(low < high).tolist():
            value = (int(halves[tied, 0]) << _HALF_BITS) | int(halves[tied, 1])
            high[tied] = bisect_right(edges, value)
        draws[start : start + size] = high
    return draws


def require_amount(name: str, amount: Decimal, most: int) -> None:
    """Refuse an amount that is not above 0, or above the most, by ValueError."""
    if not (amount.is_finite() and 0 < amount <= most):
        raise ValueError(f"{name} must be above 0 and at most {most}, not {amount}")


def _require_width(width: int) -> None:
    if not 1 <= width <= LARGEST_DELETION // 2:
        raise ValueError(f"the width must lie in 1 … {LARGEST_DELETION // 2}, not {width}")
