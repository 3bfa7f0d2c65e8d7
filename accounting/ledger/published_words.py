"""What a release published, in its kind's own nouns."""

from __future__ import annotations

from ...mechanisms.amount_format import counted
from ...mechanisms.refusal import InputRefused
from ..theory.kinds.kind import Published
from ..theory.kinds.registry import kind_of_record

__all__ = ["published_text"]


def published_text(kind: str, *, groups: int, records: int | None) -> str:
    """What a release published: `875 records in 48 groups`, or `48 noisy counts`, whose sum is no number of records.

    Args:
        kind: the mechanism's kind with its version, such as `noisy-histogram/1`.
        groups: rows of the table without repetitions.
        records: their records; None where what is published counts none.
    """
    try:
        noun = kind_of_record(kind).statements.published
    except InputRefused:  # of a later version
        noun = Published("row", "rows", "" if records is None else "record")
    shown = counted(groups, noun.group, noun.groups)
    return f"{counted(records, noun.record)} in {shown}" if noun.record and records is not None else shown
