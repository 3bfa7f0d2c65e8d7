"""[data]: how records are read, as the specification declares it."""

from __future__ import annotations

from ..tasks.record_reading import RecordReading
from .spec_tables import SpecTables

__all__ = ["record_reading"]


def record_reading(spec: SpecTables) -> RecordReading:
    """How the specification's records are read.

    Args:
        spec: its tables.
    """
    table = spec.data
    return RecordReading(
        separator=table.separator,
        quoting=table.quoting,
        null_values=tuple(sorted(set(table.null))),
    )
