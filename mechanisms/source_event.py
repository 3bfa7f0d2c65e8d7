"""The closed union of the sources' other mechanisms, each an event that can be priced without its code."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from .answers import CountAnswer, MeanAnswer, SumAnswer
from .biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from .count_sketch import CountMeanSketch
from .histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from .krandomization import KRandomization, OutcomeCounts
from .points import SyntheticPoints

__all__ = ["SourceEvent", "fresh_sample_rate", "spends_own_sample"]

SourceEvent = (
    SuppressedHistogram
    | NoisyHistogram
    | OutlierPrivateHistogram
    | CountAnswer
    | SumAnswer
    | MeanAnswer
    | SyntheticPoints
    | BiasedSampleCounts
    | UnequalRatesHistogram
    | CountMeanSketch
    | KRandomization
    | OutcomeCounts
)


def fresh_sample_rate(event: SourceEvent) -> Decimal | None:
    """The rate of the fresh sample that the event draws and spends; None where it looks at all records."""
    match event:
        case SuppressedHistogram() | NoisyHistogram() | UnequalRatesHistogram():
            return event.sampling_rate
        case CountAnswer() | SumAnswer() | MeanAnswer():
            return event.sampling_rate
        case SyntheticPoints(counts=counts):
            return counts.sampling_rate
        case OutlierPrivateHistogram() | BiasedSampleCounts() | CountMeanSketch() | KRandomization() | OutcomeCounts():
            return None
        case _:
            assert_never(event)


def spends_own_sample(event: SourceEvent) -> bool:
    """Whether the protection is the data set's own sampling, so that it can be released once, ever."""
    return isinstance(event, BiasedSampleCounts)
