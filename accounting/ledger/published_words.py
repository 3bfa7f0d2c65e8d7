"""What a release published, in its kind's own nouns."""

from __future__ import annotations

from typing import NamedTuple

from ...mechanisms.amount_format import counted

__all__ = ["published_text"]


class _Published(NamedTuple):
    """Nouns for what a kind of release publishes; records are named only where rows stand for them."""

    group: str
    groups: str
    records: str


RECORDS = _Published("group", "groups", "record")
CELLS = _Published("count", "counts", "")
NOISY_CELLS = _Published("noisy count", "noisy counts", "")
POINTS = _Published("cell", "cells", "synthetic point")
ANSWERS = _Published("answer", "answers", "")
ESTIMATES = _Published("estimate", "estimates", "")
PUBLISHED = {
    "strongly-safe-release": RECORDS,
    "epsilon-safe-release": RECORDS,
    "suppressed-histogram": CELLS,
    "unequal-rates-histogram": CELLS,
    "noisy-histogram": NOISY_CELLS,
    "outlier-private-histogram": NOISY_CELLS,
    "synthetic-points": POINTS,
    "synthetic-noisy-points": POINTS,
    "count-answer": ANSWERS,
    "sum-answer": ANSWERS,
    "mean-answer": ANSWERS,
    "count-mean-sketch": ESTIMATES,
    "k-randomization": ESTIMATES,
    "outcome-counts": ESTIMATES,
}


def published_text(kind: str, *, groups: int, records: int | None) -> str:
    """What a release published: `875 records in 48 groups`, or `48 noisy counts`, whose sum is no number of records.

    Args:
        kind: the mechanism's kind with its version, such as `noisy-histogram/1`.
        groups: rows of the table without repetitions.
        records: their records; None where what is published counts none.
    """
    noun = PUBLISHED.get(kind.partition("/")[0], ANSWERS if records is None else RECORDS)
    shown = counted(groups, noun.group, noun.groups)
    return f"{counted(records, noun.records)} in {shown}" if noun.records and records is not None else shown
