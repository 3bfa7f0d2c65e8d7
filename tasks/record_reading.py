"""How stored records are read: what the specification declares of it, the same for every record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Quoting", "RecordReading"]

Quoting = Literal["rfc4180", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordReading:
    """The keys of [data] that decide where a record begins and what its fields say.

    PRIVACY: each is a constant that is declared before records are read, and acts on one record at a time.

    Args:
        separator: field separator of CSV records, one character.
        quoting: of CSV: "rfc4180", where a quoted field may hold separators and line breaks; or "none", where every
            line is a record and a quote is a character like any other.
        null_values: texts that mean "missing" and are published as "*".
    """

    separator: str = ","
    quoting: Quoting = "rfc4180"
    null_values: tuple[str, ...] = ("",)

    @property
    def canonical(self) -> dict[str, object]:
        """What a charge is bound to: the keys that are not as they are where nothing is said, and the oldest two."""
        usual = RecordReading()
        kept: dict[str, object] = {"separator": self.separator, "null": list(self.null_values)}
        if self.quoting != usual.quoting:
            kept["quoting"] = self.quoting
        return kept
