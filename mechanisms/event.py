"""The closed union of events that a ledger can hold and a theory must price."""

from __future__ import annotations

from .epsilon_safe import EpsilonSafeRelease
from .strongly_safe import StronglySafeRelease

__all__ = ["Mechanism"]

Mechanism = StronglySafeRelease | EpsilonSafeRelease
