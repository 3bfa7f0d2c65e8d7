"""Tables on a terminal and in a notebook; those of data sets, releases, series and private looks, also for `--json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, cast

import click
from rich.cells import cell_len
from rich.table import Table

from ...accounting.kernel.ledger.entries import RECORD, BudgetRaised, FreeSeriesRegistered
from ...accounting.ledger.lookup import DatasetState, RecordedLook, ReleaseState, SeriesState
from ...mechanisms.kernel.amounts import amount_shown
from ...mechanisms.kernel.errors import one_line
from ...mechanisms.wording import amount_left, double_left, share_shown
from .stages import console

if TYPE_CHECKING:
    from ..schemas.outputs import (
        Account,
        BudgetRaise,
        DatasetRow,
        PrivateLook,
        Relation,
        ReleaseRow,
        SeriesPart,
        SeriesRow,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class FactTable:
    """A titled table of texts.

    Args:
        title: what it is about.
        headers: names of the columns, each may be empty.
        rows: the cells, as many in each row as there are headers.

    Example:
        >>> print(FactTable(title="Prices", headers=("k", "ε"), rows=(("20", "0.183"),)))
        Prices
        k   ε
        20  0.183
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        """Return the table as plain text."""
        return self.fitted(None)

    def fitted(self, width: int | None) -> str:
        """Return the table as plain text for a terminal of some width, None for a pipe or a file; no cell is cut.

        Where a line would be too long, each row becomes a paragraph: its first cell, then each other with its header.
        """
        rows = [tuple(map(one_line, row)) for row in self.rows]
        lines = [self.headers, *rows]
        widths = [max(cell_len(line[place]) for line in lines) for place in range(len(self.headers))]
        if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
            return "\n".join([self.title, *(line for row in rows for line in self._paragraph(row, width))])
        return "\n".join(
            [self.title]
            + [
                "  ".join(
                    cell + " " * (size - cell_len(cell)) for cell, size in zip(line, widths, strict=True)
                ).rstrip()
                for line in lines
            ]
        )

    def _paragraph(self, row: tuple[str, ...], width: int) -> list[str]:
        """Return a row as lines of at most some width, but for cells that are longer alone."""
        pairs = zip(self.headers[1:], row[1:], strict=True)
        pieces = [f"{header} {cell}".strip() for header, cell in pairs if cell]
        lines, line = [row[0]], ""
        for place, piece in enumerate(pieces):
            ended = piece if place == len(pieces) - 1 else f"{piece},"
            if line and cell_len(line) + 1 + cell_len(ended) > width:
                lines.append(line)
                line = ""
            line = f"{line} {ended}" if line else f"  {ended}"
        return [*lines, line] if line else lines

    def __rich__(self) -> Table:
        """Return the table for a terminal."""
        table = Table(*self.headers, title=self.title, title_justify="left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def _repr_html_(self) -> str:
        """Return the table for a notebook; every text stays a text."""
        head = "".join(f'<th scope="col" style="text-align:left">{escape(name)}</th>' for name in self.headers)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row) + "</tr>"
            for row in self.rows
        )
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def print_uncut(table: FactTable) -> None:
    """Print a table whose texts people copy, ids and days among them: as wide as it needs to be, but on a terminal."""
    out = console()
    out.print(table.fitted(out.width if out.is_terminal else None), markup=False, highlight=False, soft_wrap=True)


def dataset_rows(states: Iterable[DatasetState], *, raises: Iterable[tuple[int, BudgetRaised]]) -> list[DatasetRow]:
    """Return the data sets as `--json` shows them, each with the raises of its budget."""
    of_dataset: dict[str, list[BudgetRaise]] = {}
    for position, raised in raises:
        of_dataset.setdefault(raised.dataset, []).append(
            {
                "epsilon": float(raised.epsilon),
                "delta": float(raised.delta),
                "reason": raised.reason,
                "by": raised.by,
                "day": raised.day.isoformat(),
                "position": position,
            }
        )
    return [
        {
            "dataset": state.name,
            **_account(state),
            "raises": of_dataset.get(state.name, []),
            "relation": cast("Relation", state.relation),
            "survey": state.survey,
            "rows_per_person": state.rows_per_person,
            "unit": None if state.unit is None else str(state.unit),
        }
        for state in states
    ]


def _account(state: DatasetState) -> Account:
    """Return what is spent and left of a data set's budget as JSON has it; a filter's has no ε or δ that is spent."""
    account, registered = state.account, state.filter_budget
    left = double_left(account.epsilon_left), double_left(account.delta_left)
    if registered is not None:
        return {
            "accounting": "filter",
            "order": float(registered.accounting.order),
            "epsilon_budget": float(registered.epsilon),
            "epsilon_spent": None,
            "epsilon_left": None,
            "delta_budget": float(registered.delta),
            "delta_spent": None,
            "delta_left": None,
            "spent_share": float(account.spent_share),
            "remaining": {"divergence": left[0], "tail": left[1]},
            "allowance": {"divergence": float(account.epsilon_budget), "tail": float(account.delta_budget)},
            "spent": {"divergence": float(account.epsilon_spent), "tail": float(account.delta_spent)},
        }
    return {
        "accounting": "additive",
        "order": None,
        "epsilon_budget": float(account.epsilon_budget),
        "epsilon_spent": float(account.epsilon_spent),
        "delta_budget": float(account.delta_budget),
        "delta_spent": float(account.delta_spent),
        "epsilon_left": left[0],
        "delta_left": left[1],
        "spent_share": float(account.spent_share),
        "remaining": {"epsilon": left[0], "delta": left[1]},
    }


def release_rows(states: Iterable[ReleaseState]) -> list[ReleaseRow]:
    """The releases as `--json` shows them; one of a series has null for ε and δ: the series was charged whole."""
    return [
        {
            "release_id": state.release_id,
            "dataset": state.charge.dataset,
            "label": state.charge.label,
            "series": None if state.charge.series is None else state.charge.series.name,
            "series_number": None if state.charge.series is None else state.charge.series.number,
            "stage": state.stage,
            "refunded": state.refunded,
            "sample_id": state.charge.sample_id,
            "selection_sample_id": state.receipt.selection_sample_id,
            "mechanism": dict(state.charge.mechanism),
            "epsilon": None if state.charge.series else float(state.charge.price.epsilon),
            "delta": None if state.charge.series else float(state.charge.price.delta),
            "rule": state.charge.price.rule,
            "day": state.charge.day.isoformat(),
            "position": state.receipt.position,
        }
        for state in states
    ]


def print_more(listed: int, count: int, what: str) -> None:
    """Say what a list leaves out."""
    if listed < count:
        click.echo(f"The latest {listed} of {count} {what}; --all lists all.\n")


def print_datasets(datasets: Sequence[Mapping[str, Any]]) -> None:
    """Print the data sets as tables by their accounting, and how their budgets came to be what they are."""
    rows = []
    for row in datasets:
        if row["accounting"] == "filter":
            continue
        amounts = [
            (amount_shown(row[f"{part}_spent"]), amount_shown(row[f"{part}_budget"]), amount_left(row[f"{part}_left"]))
            for part in ("epsilon", "delta")
        ]
        rows.append((row["dataset"], *amounts[0], *amounts[1]))
    headers = ("data set", "ε spent", "of", "left", "δ spent", "of", "left")
    if rows or not datasets:
        print_uncut(FactTable(title="Budgets", headers=headers, rows=tuple(rows)))
    _print_filters([row for row in datasets if row["accounting"] == "filter"])
    for row in datasets:
        if row["unit"] not in (None, RECORD):
            name, _, column = row["unit"].partition(":")
            click.echo(f"  '{row['dataset']}': all its releases limit each {name}'s records by the column {column!r}")
        for raised in row["raises"]:
            budget = f"ε = {amount_shown(raised['epsilon'])}, δ = {amount_shown(raised['delta'])}"
            reported = f"raised to {budget} on {raised['day']} by {raised['by']}: {raised['reason']}"
            click.echo(f"  '{row['dataset']}': {reported}")


def _print_filters(datasets: Sequence[Mapping[str, Any]]) -> None:
    """Print the data sets whose budget is a filter's."""
    if not datasets:
        return
    rows = []
    for row in datasets:
        amounts = [
            (amount_shown(row["spent"][part]), amount_left(row["allowance"][part])) for part in ("divergence", "tail")
        ]
        budget = (amount_shown(row["epsilon_budget"]), amount_shown(row["delta_budget"]))
        rows.append(
            (row["dataset"], *budget, share_shown(row["spent_share"]), f"{row['order']:g}", *amounts[0], *amounts[1])
        )
    headers = ("data set", "ε", "δ", "spent", "order", "divergence", "of", "tails", "of")
    print_uncut(FactTable(title="Filter budgets", headers=headers, rows=tuple(rows)))


def print_releases(releases: Sequence[Mapping[str, Any]]) -> None:
    """Print the releases as a table."""
    rows = []
    for row in releases:
        if row["series"] is None:
            paid = (amount_shown(row["epsilon"]), amount_shown(row["delta"]), "")
        else:
            paid = ("", "", f"{row['series']}, {row['series_number']}")
        rows.append((row["release_id"], row["dataset"], row["stage"], *paid, row["day"]))
    headers = ("release", "data set", "stage", "ε", "δ", "paid by series", "day")
    print_uncut(FactTable(title="Releases", headers=headers, rows=tuple(rows)))


def look_rows(looks: Iterable[RecordedLook]) -> list[PrivateLook]:
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


def print_looks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print them as a table."""
    shown = tuple((row["dataset"], row["what"], row["by"], row["day"]) for row in rows)
    print_uncut(FactTable(title="Private looks", headers=("data set", "what", "by", "day"), rows=shown))


def series_rows(states: Iterable[SeriesState]) -> list[SeriesRow]:
    """Return the series as `--json` shows them."""
    return [
        {
            "series": state.registered.series,
            "dataset": state.registered.dataset,
            "releases": state.registered.price.releases,
            "taken": state.taken,
            "remaining": state.remaining,
            "mechanism": dict(state.registered.mechanism),
            "free_columns": isinstance(state.registered, FreeSeriesRegistered),
            "parts": _part_rows(state),
            "epsilon": float(state.registered.price.epsilon),
            "delta": float(state.registered.price.delta),
            "epsilon_paper": None if state.registered.epsilon_paper is None else float(state.registered.epsilon_paper),
            "rule": state.registered.price.rule,
            "day": state.registered.day.isoformat(),
            "position": state.position,
        }
        for state in states
    ]


def _part_rows(state: SeriesState) -> list[SeriesPart] | None:
    """Return the parts of a series of different mechanisms with their places; None where there is one mechanism."""
    if (mixed := state.registered.mixed) is None:
        return None
    return [
        {
            "part": number,
            "mechanism": str(part),
            "releases": part.releases,
            "taken": taken,
            "remaining": part.releases - taken,
        }
        for number, (part, taken) in enumerate(zip(mixed.each, state.taken_of_parts, strict=True), start=1)
    ]


def print_series(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the series as a table."""
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
    for row in rows:
        for part in row["parts"] or ():
            taken = f"{part['taken']} of {part['releases']} taken"
            click.echo(f"  '{row['series']}', part {part['part']} ({part['mechanism']}): {taken}")
