"""How long a part has worked, over all its interruptions."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Spent", "counted_time"]

Spent = dict[str, float]
"""`seconds` by the wall's clock and `processor_seconds` of all processes."""


def _processor_seconds() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


@contextmanager
def counted_time(path: Path, *, about: str) -> Iterator[Spent]:
    """Fill in what was spent, earlier runs on the same sources added, once the part is done or interrupted.

    Processes that were killed, and what outlives the part, are not counted.

    Args:
        path: where it is kept.
        about: digest of what is audited; time that was spent on other sources is forgotten.
    """
    spent: Spent = {"seconds": 0.0, "processor_seconds": 0.0}
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["about"] == about:
            spent |= kept["spent"]
    began, used = time.monotonic(), _processor_seconds()
    try:
        yield spent
    finally:
        spent["seconds"] = round(spent["seconds"] + time.monotonic() - began, 1)
        spent["processor_seconds"] = round(spent["processor_seconds"] + _processor_seconds() - used, 1)
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps({"about": about, "spent": spent}))
        os.replace(beside, path)
