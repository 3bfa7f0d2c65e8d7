"""The closed union of events that a ledger can hold and a theory must price.

Of the sources' other mechanisms (`source_event.SourceEvent`) it has those that are releases.
"""

from __future__ import annotations

from .answers import Answer
from .epsilon_safe import EpsilonSafeRelease
from .histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from .strongly_safe import StronglySafeRelease

__all__ = ["Answer", "Histogram", "Mechanism", "Microdata"]

Microdata = StronglySafeRelease | EpsilonSafeRelease
Histogram = SuppressedHistogram | NoisyHistogram | OutlierPrivateHistogram
Mechanism = Microdata | Histogram | Answer
