"""How private looks are shown to the steward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from ..accounting.ledger.private_looks import RecordedLook

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
    table = Table("data set", "what", "by", "day", title="Private looks", title_justify="left")
    for row in rows:
        table.add_row(row["dataset"], row["what"], row["by"], row["day"])
    Console().print(table)
