"""The families of mechanisms that one form of specification or one stage serves."""

from __future__ import annotations

from .answers import Answer
from .biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from .count_sketch import CountMeanSketch
from .epsilon_safe import EpsilonSafeRelease
from .histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from .krandomization import KRandomization, OutcomeCounts
from .mechanism import Mechanism
from .strongly_safe import StronglySafeRelease

__all__ = ["Answer", "BiasedCounts", "Histogram", "LocalReports", "Mechanism", "Microdata"]

Microdata = StronglySafeRelease | EpsilonSafeRelease
BiasedCounts = BiasedSampleCounts | UnequalRatesHistogram
Histogram = SuppressedHistogram | NoisyHistogram | OutlierPrivateHistogram | BiasedCounts
LocalReports = CountMeanSketch | KRandomization | OutcomeCounts
