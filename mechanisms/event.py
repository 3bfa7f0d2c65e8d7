"""The closed union of events that a ledger can hold and a theory must price.

Of the sources' other mechanisms (`source_event.SourceEvent`) it has those that are releases.
"""

from __future__ import annotations

from .answers import Answer
from .biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from .epsilon_safe import EpsilonSafeRelease
from .histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from .points import SyntheticPoints
from .strongly_safe import StronglySafeRelease

__all__ = ["Answer", "BiasedCounts", "Histogram", "Mechanism", "Microdata"]

Microdata = StronglySafeRelease | EpsilonSafeRelease
BiasedCounts = BiasedSampleCounts | UnequalRatesHistogram
Histogram = SuppressedHistogram | NoisyHistogram | OutlierPrivateHistogram | BiasedCounts
Mechanism = Microdata | Histogram | SyntheticPoints | Answer
