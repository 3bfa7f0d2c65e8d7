"""A preview's tables, described once: as they stand at the terminal and on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...mechanisms.amount_format import amount_shown
from .forecast import ByPrice, Forecast
from .suggestions import Suggestion

__all__ = ["PreviewRow", "PreviewTable", "preview_tables", "print_forecast"]

BAR = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewRow:
    """A row of a table.

    Args:
        cells: texts; a float is a share that would be suppressed, 0 to 1, and is drawn as a bar too.
        chosen: whether this is what the specification says.
    """

    cells: tuple[str | float, ...]
    chosen: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewTable:
    """A table of a preview.

    Args:
        title: what it is about.
        note: how it is to be read; empty where the title says it.
        headers: of the columns.
        rows: at least one.
    """

    title: str
    note: str
    headers: tuple[str, ...]
    rows: tuple[PreviewRow, ...]


def preview_tables(
    told: Forecast, helpful: Sequence[Suggestion], *, number: Callable[[float], str], percent: Callable[[float], str]
) -> dict[str, PreviewTable]:
    """The tables that have rows, by a word for each, in their order.

    Args:
        told: the preview.
        helpful: what would help.
        number: how a number of people or records is written.
        percent: how a share is written that is not drawn as a bar.
    """
    tables = {
        "suggested": PreviewTable(
            title="Worth a thought",
            note="Each tried alone on the same people. Information: what the map keeps of that at the finest levels "
            "that are known, by the columns' weights.",
            headers=("change", "suppressed", "published", "information", "ε"),
            rows=tuple(
                PreviewRow(
                    cells=(
                        one.what,
                        one.suppressed,
                        number(one.records),
                        percent(one.information),
                        amount_shown(one.epsilon),
                    )
                )
                for one in helpful
            ),
        ),
        "columns": PreviewTable(
            title="Which columns cost most",
            note="What would be suppressed if the column were left out of the release.",
            headers=("column", "suppressed without it", "saves"),
            rows=tuple(
                PreviewRow(cells=(cost.column, cost.suppressed, f"{100 * cost.saved:.1f} points"))
                for cost in told.by_column
            ),
        ),
        "levels": PreviewTable(
            title="Level by level",
            note="One column at another level, the others as they are; • marks the level that is previewed.",
            headers=("column", "level", "information kept", "suppressed"),
            rows=tuple(
                PreviewRow(
                    cells=(row.column, _marked(f"{row.level}", row.chosen), percent(row.kept), row.suppressed),
                    chosen=row.chosen,
                )
                for row in told.by_level
            ),
        ),
        "lost": PreviewTable(
            title="Who is lost more than others",
            note="Labels, and pairs of labels, whose people are suppressed more often than all people together; those "
            "who lose most people first.",
            headers=("people with", "people", "suppressed"),
            rows=tuple(
                PreviewRow(
                    cells=(
                        ", ".join(f"{column} {label}" for column, label in zip(lost.columns, lost.labels, strict=True)),
                        number(lost.people),
                        lost.suppressed,
                    )
                )
                for lost in (*told.by_label, *told.by_pair)
            ),
        ),
        "by_k": _priced("Other thresholds at this rate", told.by_k, number),
        "by_rate": _priced("Other rates at this threshold", told.by_rate, number),
        "same_price": _priced("Other rates at no higher price, each with its least threshold", told.same_price, number),
    }
    return {name: table for name, table in tables.items() if table.rows}


def print_forecast(told: Forecast, helpful: Sequence[Suggestion], console: Console | None = None) -> None:
    """Write a preview to the console (standard output where none is given)."""
    out = console or Console(highlight=False)
    now = told.outlook
    out.print(Text(f"Of the sampled records {now.suppressed:.1%} would be suppressed.", style="bold"))
    out.print(
        Text(
            f"Looked at: {told.crowd}, standing for {told.people:,.0f} people. About {now.records:,.0f} records in "
            f"{now.groups:,.0f} groups would be published, for ε = {amount_shown(told.epsilon)} at δ = "
            f"{amount_shown(told.delta)}."
        )
    )
    for remark in told.remarks:
        out.print(Text(remark, style="dim"))
    tables = preview_tables(told, helpful, number="{:,.0f}".format, percent="{:.1%}".format)
    suggested = tables.pop("suggested", None)
    for table in (*tables.values(), *([suggested] if suggested else [])):
        shown = Table(*table.headers, title=table.title, title_justify="left", title_style="bold")
        for row in table.rows:
            shown.add_row(*(Text(_bar(cell) if isinstance(cell, float) else cell) for cell in row.cells))
        out.print()
        out.print(shown)
    if not suggested:
        out.print("No single step would help clearly.")
    out.print("The private records were not read, and nothing was charged.")


def _priced(title: str, points: Iterable[ByPrice], number: Callable[[float], str]) -> PreviewTable:
    rows = tuple(
        PreviewRow(
            cells=(
                _marked(f"k = {point.k}", point.chosen),
                f"{point.rate:g}",
                "none" if point.epsilon is None else amount_shown(point.epsilon),
                point.suppressed,
                number(point.records),
            ),
            chosen=point.chosen,
        )
        for point in points
    )
    return PreviewTable(title=title, note="", headers=("threshold", "rate", "ε", "suppressed", "published"), rows=rows)


def _marked(text: str, chosen: bool) -> str:
    return f"{text} •" if chosen else text


def _bar(share: float) -> str:
    """A share as blocks, as wide for all, with its percentage."""
    filled = round(share * BAR)
    return f"{'█' * filled}{'░' * (BAR - filled)} {share:6.1%}"
