"""Checks a claim that noise gives ε-differential privacy: its largest ratio of probabilities, or that there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

import numpy as np
from crowdblend.accounting.kernel.prices.arithmetic import decimal_up, divide_up, log_up, multiply_up
from crowdblend.mechanisms.kernel.amounts import amount_shown
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.mechanism import Randomness
from crowdblend.mechanisms.kernel.noise import TwoSidedGeometricNoise
from numpy.typing import NDArray

__all__ = [
    "CoinFlipNoise",
    "GaussianNoise",
    "LaplaceNoise",
    "Noise",
    "OneSidedGeometricNoise",
    "Witness",
    "WorstRatio",
    "coin_flip_draws",
    "log_probability",
    "require_pure",
    "worst_ratio",
]

_DISTANCES = (1, 10, 100, 1000)
_WORD_BITS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class CoinFlipNoise:
    """Noise made with fair coins: flip until heads, take the number of tails, and a last coin for the sign.

    Pr[0] = 1/2 and Pr[±d] = 2^{−(d+2)}: the ratio of neighbours is 4 at 0 and 2 elsewhere, so that a counting
    query is ln 4-private, exactly. Source: Notes-DP, Example 1.
    """

    @property
    def variance(self) -> float:
        """The variance 2·Σ d²·2^{−(d+2)} = 3."""
        return 3.0


def coin_flip_draws(count: int, *, randomness: Randomness) -> NDArray[np.int64]:
    """Independent draws of `CoinFlipNoise`, shape (count,).

    Args:
        count: how many, at least 0.
        randomness: n to n secret bytes; each bit is a coin.
    """
    tails = np.zeros(count, dtype=np.int64)
    running = np.arange(count)
    while running.size:
        words = np.frombuffer(randomness(8 * running.size), dtype="<u8")
        # The lowest set bit is the first heads; a word of 64 tails goes on with the next word.
        lowest = words & (~words + np.uint64(1))
        first = np.where(words == 0, _WORD_BITS, np.log2(np.maximum(lowest, 1).astype(np.float64)).astype(np.int64))
        tails[running] += first
        running = running[words == 0]
    signs = np.unpackbits(np.frombuffer(randomness((count + 7) // 8), dtype=np.uint8))[:count]
    return np.where(signs == 1, tails, -tails)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaplaceNoise:
    """The Laplace distribution of density e^{−|x|/b}/(2b).

    Args:
        scale: b above 0.

    Raises:
        ValueError: a scale outside its range.
    """

    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0.0):
            raise ValueError(f"a scale of noise must be positive and finite, not {self.scale}")


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianNoise:
    """The normal distribution of standard deviation σ; described so that its claim can be refused.

    Args:
        standard_deviation: σ above 0.

    Raises:
        ValueError: a standard deviation outside its range.
    """

    standard_deviation: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.standard_deviation) and self.standard_deviation > 0.0):
            raise ValueError(f"a standard deviation must be positive and finite, not {self.standard_deviation}")


@dataclass(frozen=True, kw_only=True, slots=True)
class OneSidedGeometricNoise:
    """Noise on 0, 1, 2, … only: Pr[x] = (1−α)·α^x, α = e^{−ε}; described so that its claim can be refused.

    Args:
        epsilon: ε above 0.

    Raises:
        ValueError: a field outside its range.
    """

    epsilon: Decimal

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError(f"epsilon must be positive and finite, not {self.epsilon}")


Noise = TwoSidedGeometricNoise | CoinFlipNoise | LaplaceNoise | GaussianNoise | OneSidedGeometricNoise


@dataclass(frozen=True, kw_only=True, slots=True)
class Witness:
    """An output and how much likelier it is under one of the neighbours.

    Args:
        output: the published number, where the neighbours' exact answers are 0 and the sensitivity.
        log_ratio: natural logarithm of the likelier neighbour's probability over the other's; infinite if that is 0.
    """

    output: float
    log_ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class WorstRatio:
    """The largest loss of a noise, or that there is none.

    Args:
        epsilon: the least ε for which the noise is ε-private, rounded up; None where none is enough.
        witnesses: outputs with their losses, the last the worst that was evaluated.
        explanation: why, in words.
    """

    epsilon: Decimal | None
    witnesses: tuple[Witness, ...]
    explanation: str


def log_probability(noise: Noise, output: float) -> float:
    """ln of the noise's probability (density for Laplace and Gauss) of an output; −∞ where it is impossible."""
    match noise:
        case TwoSidedGeometricNoise():
            return math.log(math.tanh(0.5 / noise.scale)) - abs(output) / noise.scale
        case CoinFlipNoise():
            return -math.log(2.0) * (1.0 if output == 0 else abs(output) + 2.0)
        case LaplaceNoise(scale=scale):
            return -abs(output) / scale - math.log(2.0 * scale)
        case GaussianNoise(standard_deviation=sigma):
            return -0.5 * (output / sigma) ** 2 - math.log(sigma * math.sqrt(2.0 * math.pi))
        case OneSidedGeometricNoise(epsilon=epsilon):
            if output < 0:
                return -math.inf
            return math.log(-math.expm1(-float(epsilon))) - float(epsilon) * output
        case _:
            assert_never(noise)


def worst_ratio(noise: Noise, *, sensitivity: int = 1) -> WorstRatio:
    """The largest ratio over all outputs between answers that differ by up to the sensitivity, with witnesses.

    Source: Notes-DP, Examples 1 to 4 (geometric by coins; Laplace; Gauss; one-sided).

    Raises:
        InputRefused: a sensitivity below 1.
    """
    if sensitivity < 1:
        raise InputRefused(f"the sensitivity must be at least 1, not {sensitivity}.")
    shift = Decimal(sensitivity)
    bound: Decimal | None
    places: tuple[float, ...]
    match noise:
        case TwoSidedGeometricNoise(epsilon=epsilon, sensitivity=covered):
            bound = divide_up(multiply_up(epsilon, shift), covered)
            places, why = (-1.0, 0.0), "successive probabilities have the ratio e^(ε/Δ) everywhere."
        case CoinFlipNoise():
            bound = multiply_up(log_up(Decimal(2)), sensitivity + 1)
            places, why = (-1.0, 0.0), "the ratio is 4 from 0 to its neighbours and 2 elsewhere."
        case LaplaceNoise(scale=scale):
            bound = divide_up(shift, Decimal(scale))
            places, why = (-1.0, 0.0), "the density falls by e^(Δ/b) at most over the distance Δ."
        case GaussianNoise(standard_deviation=sigma):
            bound = None
            places = tuple(-distance * sigma for distance in _DISTANCES)
            why = (
                "the loss at output x is (Δ² − 2xΔ)/(2σ²), which grows without bound towards one side: Gaussian "
                "noise is (ε, δ)-private for some δ > 0, and ε-private for no ε."
            )
        case OneSidedGeometricNoise():
            bound, places = None, (float(sensitivity), 0.0)
            why = (
                "an output below the larger answer is impossible under it and possible under the smaller one: "
                "it tells the neighbours apart for certain."
            )
        case _:
            assert_never(noise)
    return WorstRatio(
        epsilon=None if bound is None else decimal_up(bound),
        witnesses=tuple(_witness(noise, place, sensitivity) for place in places),
        explanation=why,
    )


def require_pure(noise: Noise, *, sensitivity: int, epsilon: Decimal) -> WorstRatio:
    """Check a claim of ε-privacy.

    Returns:
        The largest ratio, which is within the claim.

    Raises:
        InputRefused: the noise is not ε-private for the ε claimed; says why, with an output that shows it.
    """
    found = worst_ratio(noise, sensitivity=sensitivity)
    if found.epsilon is not None and found.epsilon <= decimal_up(epsilon):
        return found
    worst = found.witnesses[-1]
    needed = "no ε is enough" if found.epsilon is None else f"it needs ε = {amount_shown(found.epsilon)}"
    raise InputRefused(
        f"{type(noise).__name__} is not {epsilon}-differentially private for sensitivity {sensitivity}: {needed}, "
        f"since {found.explanation} At output {worst.output:g} the loss is {worst.log_ratio:g}.",
        remedy="Use two-sided geometric or Laplace noise of scale sensitivity/ε.",
    )


def _witness(noise: Noise, output: float, sensitivity: int) -> Witness:
    here, there = log_probability(noise, output), log_probability(noise, output - sensitivity)
    return Witness(output=output, log_ratio=abs(here - there))
