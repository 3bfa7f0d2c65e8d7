"""Goodness of fit for every mechanism, and the published examples."""

from __future__ import annotations

from support.goodness_of_fit import examples, false_alarm, fit, seeded_bytes

__all__ = ["examples", "false_alarm", "fit", "seeded_bytes"]
