"""How private looks are shown to the steward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..accounting.ledger.private_looks import RecordedLook
from .facts import FactTable, print_uncut

__all__ = ["look_rows", "print_looks"]


def look_rows(looks: Iterable[RecordedLook]) -> list[dict[str, Any]]:
    """Private looks as JSON has them."""
    return [
        {
            "dataset": known.look.dataset,
            "what": known.look.what,
            "by": known.look.by,
            "day": known.look.day.isoformat(),
            "position": known.position,
        }
        for known in looks
    ]


def print_looks(rows: list[dict[str, Any]]) -> None:
    """Print them as a table."""
    shown = tuple((row["dataset"], row["what"], row["by"], row["day"]) for row in rows)
    print_uncut(FactTable(title="Private looks", headers=("data set", "what", "by", "day"), rows=shown))
