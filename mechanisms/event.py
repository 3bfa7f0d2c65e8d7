"""The closed union of events that a ledger can hold and a theory must price.

Of the sources' other mechanisms (`source_event.SourceEvent`) it has those that are releases.
"""

from __future__ import annotations

from .answers import Answer
from .biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from .count_sketch import CountMeanSketch
from .epsilon_safe import EpsilonSafeRelease
from .histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from .krandomization import KRandomization, OutcomeCounts
from .points import SyntheticPoints
from .strongly_safe import StronglySafeRelease

__all__ = ["Answer", "BiasedCounts", "Histogram", "LocalReports", "Mechanism", "Microdata", "PureMechanism"]

Microdata = StronglySafeRelease | EpsilonSafeRelease
BiasedCounts = BiasedSampleCounts | UnequalRatesHistogram
Histogram = SuppressedHistogram | NoisyHistogram | OutlierPrivateHistogram | BiasedCounts
LocalReports = CountMeanSketch | KRandomization | OutcomeCounts
PureMechanism = Answer | CountMeanSketch | KRandomization
"""Those whose price has no δ."""
Mechanism = Microdata | Histogram | SyntheticPoints | Answer | LocalReports
