"""What published answers say of the whole data set, and how accurate they are: functions of what is published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from .kinds.answers import Answer, CountAnswer, MeanAnswer, noise_of, step


def estimates(answer: Answer, published: Sequence[int]) -> list[Fraction]:
    """Return what the published steps say of the whole data set: unbiased for counts and sums, also from a sample."""
    grid = step(answer)
    if answer.sampling_rate is not None and not isinstance(answer, MeanAnswer):
        grid /= Fraction(answer.sampling_rate)
    return [value * grid for value in published]


def half_width(answer: Answer, *, confidence: float) -> Fraction:
    """Return half the width of the interval round each published answer that holds the exact one with this confidence.

    It is about the noise alone (a mean's rounding included); on a fresh sample the exact answer is the sample's.

    Raises:
        ValueError: a confidence outside (0, 1).
    """
    rounding = Fraction(1, 2) if isinstance(answer, MeanAnswer) else Fraction(0)
    return (noise_of(answer).half_width(confidence) + rounding) * step(answer)


def standard_errors(answer: Answer, published: Sequence[int]) -> list[float]:
    """Return the standard error of each of the `estimates` of counts and sums; of a mean, that of its noise.

    From a sample at rate β a count's is √(σ² + c(1−β))/β with c the sample's noisy count (0 if negative). A sum's has
    M·|sum| for c, M the greatest absolute value: at least the truth on average, where all values have one sign.

    Raises:
        ValueError: a sum from a sample whose bounds have both signs, of which the sum tells nothing about the error.
    """
    noise = noise_of(answer).variance * float(step(answer)) ** 2
    if answer.sampling_rate is None or isinstance(answer, MeanAnswer):
        return [math.sqrt(noise)] * len(published)
    rate = float(answer.sampling_rate)
    if isinstance(answer, CountAnswer):
        spreads = [float(max(value, 0)) for value in published]
    elif answer.lower < 0 < answer.upper:
        raise ValueError("the standard error of a sampled sum needs bounds of one sign")
    else:
        spreads = [float(abs(value)) * max(abs(answer.lower), abs(answer.upper)) for value in published]
    return [math.sqrt(noise + spread * (1.0 - rate)) / rate for spread in spreads]
