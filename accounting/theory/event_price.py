"""One price for each of the sources' other mechanisms, with its own neighbouring relation."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from ...mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.points import SyntheticPoints
from ...mechanisms.refusal import InputRefused
from ...mechanisms.source_event import SourceEvent
from ...mechanisms.strongly_safe import StronglySafeRelease
from .answer_price import price_answer
from .biased_price import price_biased_counts
from .cost import Price
from .local_reports import price_of_report
from .noisy_counts import price_noisy_histogram
from .outlier_privacy import price_outlier_histogram
from .shuffling import price_outcome_counts
from .strongly_safe_price import price_fixed

__all__ = ["price_event"]


def price_event(event: SourceEvent, *, delta: Decimal) -> Price:
    """What one run of a mechanism costs; mechanisms of pure privacy ignore δ and have a price with δ = 0.

    Args:
        event: the mechanism.
        delta: 0 < δ < 1.

    Raises:
        InputRefused: a mechanism that has no such price, δ out of range, or no ε is enough.
    """
    match event:
        case SuppressedHistogram(k=k, sampling_rate=rate):
            if rate is None:
                raise InputRefused(
                    "a suppressed histogram is crowd-blending, but not differentially private without sampling.",
                    remedy="Give it a sampling rate of its own.",
                )
            found = price_fixed(StronglySafeRelease(k=k, sampling_rate=rate), delta=delta, releases=1)
        case NoisyHistogram():
            found = price_noisy_histogram(event, delta=delta)
        case OutlierPrivateHistogram():
            found = price_outlier_histogram(event, delta=delta)
        case CountAnswer() | SumAnswer() | MeanAnswer():
            found = price_answer(event)
        case SyntheticPoints(counts=counts):
            if isinstance(counts, NoisyHistogram):
                found = price_noisy_histogram(counts, delta=delta)
            else:
                found = price_fixed(counts, delta=delta, releases=1)
        case BiasedSampleCounts() | UnequalRatesHistogram():
            survey = event if isinstance(event, BiasedSampleCounts) else event.as_survey
            found = price_biased_counts(survey, delta=delta)
        case CountMeanSketch() | KRandomization():
            found = price_of_report(event)
        case OutcomeCounts(randomizer=randomizer, least_people=people):
            found = price_outcome_counts(randomizer, people=people, delta=delta)
        case _:
            assert_never(event)
    return found
