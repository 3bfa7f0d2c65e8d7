"""Series as the command line shows them: rows for `--json`, a table for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..accounting.ledger.reader import SeriesState
from ..mechanisms.amount_format import amount_shown
from .facts import FactTable, print_uncut

__all__ = ["print_series", "series_rows"]


def series_rows(states: Iterable[SeriesState]) -> list[dict[str, Any]]:
    """The series as `--json` shows them."""
    return [
        {
            "series": state.registered.series,
            "dataset": state.registered.dataset,
            "releases": state.registered.price.releases,
            "taken": state.taken,
            "remaining": state.remaining,
            "mechanism": dict(state.registered.mechanism),
            "epsilon": float(state.registered.price.epsilon),
            "delta": float(state.registered.price.delta),
            "epsilon_paper": None if state.registered.epsilon_paper is None else float(state.registered.epsilon_paper),
            "rule": state.registered.price.rule,
            "day": state.registered.day.isoformat(),
            "position": state.position,
        }
        for state in states
    ]


def print_series(rows: list[dict[str, Any]]) -> None:
    """The series as a table."""
    shown = []
    for row in rows:
        counts = (str(row["taken"]), str(row["releases"]))
        shown.append(
            (
                row["series"],
                row["dataset"],
                *counts,
                amount_shown(row["epsilon"]),
                amount_shown(row["delta"]),
                row["day"],
            )
        )
    headers = ("series", "data set", "taken", "of", "ε", "δ", "day")
    print_uncut(FactTable(title="Series", headers=headers, rows=tuple(shown)))
