"""The oracles of prices; dp_accounting beside them must not write into a stream that pytest has closed."""

from __future__ import annotations

import sys

from absl import logging as absl_logging
from support.brute_force import oracle, vectors

__all__ = ["oracle", "vectors"]

# dp_accounting brings absl, whose log handler closes the stream that it began with: not one of pytest's captures.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__
