"""The lines that `serve` prints: one for each event, with its time."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...accounting.ledger.series import SeriesState

__all__ = ["EXHAUSTED", "exhausted_sentence", "say"]

EXHAUSTED = 4
"""Exit code of a schedule whose series has no release left."""


def say(text: str) -> None:
    """Print one line with the time, at once; a reader of the pipe that has gone ends nothing.

    Args:
        text: one sentence or a few.
    """
    try:
        print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exhausted_sentence(state: SeriesState) -> str:
    """That a series has no release left.

    Args:
        state: the series.
    """
    registered = state.registered
    return (
        f"Ended: all {registered.price.releases} releases of the series '{registered.series}' are taken and finished."
    )
