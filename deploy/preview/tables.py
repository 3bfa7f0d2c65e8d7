"""A preview at the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ...mechanisms.amount_format import amount_shown
from .forecast import ByPrice, Forecast
from .suggestions import Suggestion

__all__ = ["print_forecast", "share_bar"]

BAR = 16


def print_forecast(told: Forecast, helpful: Sequence[Suggestion], console: Console | None = None) -> None:
    """Write a preview to the console (standard output where none is given)."""
    out = console or Console(highlight=False)
    now = told.outlook
    out.print(Text(f"Of the sampled records {now.suppressed:.1%} would be suppressed.", style="bold"))
    out.print(
        f"Looked at: {escape(told.crowd)}, standing for {told.people:,.0f} people. About {now.records:,.0f} records in "
        f"{now.groups:,.0f} groups would be published, for ε = {amount_shown(told.epsilon)} at δ = "
        f"{amount_shown(told.delta)}."
    )
    for remark in told.remarks:
        out.print(Text(remark, style="dim"))
    out.print()
    for table in _tables(told):
        if table.row_count:
            out.print(table)
    out.print(_suggested(helpful) if helpful else "No single step would help clearly.")
    out.print("The private records were not read, and nothing was charged.")


def share_bar(share: float) -> str:
    """A share as a bar of blocks, as wide for all, with its percentage."""
    filled = round(share * BAR)
    return f"{'█' * filled}{'░' * (BAR - filled)} {share:6.1%}"


def _tables(told: Forecast) -> list[Table]:
    columns = _titled("column", "without it", "saves", title="Which columns cost most")
    for cost in told.by_column:
        columns.add_row(escape(cost.column), share_bar(cost.suppressed), f"{100 * cost.saved:.1f} points")
    levels = _titled("column", "level", "kept", "suppressed", title="Level by level, the other columns as they are")
    name = ""
    for row in told.by_level:
        if name and row.column != name:
            levels.add_section()
        mark = "•" if row.chosen else " "
        levels.add_row(
            "" if row.column == name else escape(row.column),
            f"{row.level} {mark}",
            f"{row.kept:.0%}",
            share_bar(row.suppressed),
        )
        name = row.column
    labels = _titled("who", "people", "suppressed", title="Who is lost more than others")
    for lost in (*told.by_label, *told.by_pair):
        who = ", ".join(f"{column} {label}" for column, label in zip(lost.columns, lost.labels, strict=True))
        labels.add_row(escape(who), f"{lost.people:,.0f}", share_bar(lost.suppressed))
    return [
        columns,
        levels,
        labels,
        _priced("Other thresholds at this rate", told.by_k),
        _priced("Other rates at this k", told.by_rate),
        _priced("Other rates at no higher price, each with its least k", told.same_price),
    ]


def _priced(title: str, points: Sequence[ByPrice]) -> Table:
    table = _titled("k", "rate", "ε", "suppressed", "published", title=title)
    for point in points:
        table.add_row(
            f"{point.k} {'•' if point.chosen else ' '}",
            f"{point.rate:g}",
            "none" if point.epsilon is None else amount_shown(point.epsilon),
            share_bar(point.suppressed),
            f"{point.records:,.0f}",
        )
    return table


def _suggested(helpful: Sequence[Suggestion]) -> Table:
    table = _titled("what", "suppressed", "published", "information", "ε", title="Worth a thought")
    for one in helpful:
        table.add_row(
            escape(one.what),
            f"{one.suppressed:.1%}",
            f"{one.records:,.0f}",
            f"{one.information:.0%}",
            amount_shown(one.epsilon),
        )
    return table


def _titled(*columns: str, title: str) -> Table:
    return Table(*columns, title=title, title_justify="left", title_style="bold")
