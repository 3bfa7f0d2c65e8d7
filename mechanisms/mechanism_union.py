"""The families of mechanisms that one form of specification or one stage serves."""

from __future__ import annotations

from .answers import Answer
from .biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from .histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from .local_reports.krandomization import KRandomization, OutcomeCounts
from .local_reports.sketch import CountMeanSketch
from .mechanism import Mechanism
from .microdata import EpsilonSafeRelease, StronglySafeRelease

__all__ = ["Answer", "BiasedCounts", "Histogram", "LocalReports", "Mechanism", "Microdata"]

Microdata = StronglySafeRelease | EpsilonSafeRelease
BiasedCounts = BiasedSampleCounts | UnequalRatesHistogram
Histogram = SuppressedHistogram | NoisyHistogram | OutlierPrivateHistogram | BiasedCounts
LocalReports = CountMeanSketch | KRandomization | OutcomeCounts
