"""Small tables that show themselves: on a terminal by rich, in a notebook as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from rich.table import Table

__all__ = ["FactTable"]


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
        """The table as plain text."""
        lines = [self.headers, *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.headers))]
        return "\n".join(
            [self.title]
            + [
                "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                for line in lines
            ]
        )

    def __rich__(self) -> Table:
        """The table for a terminal."""
        table = Table(*self.headers, title=self.title, title_justify="left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def _repr_html_(self) -> str:
        """The table for a notebook; every text stays a text."""
        head = "".join(f'<th scope="col" style="text-align:left">{escape(name)}</th>' for name in self.headers)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row) + "</tr>"
            for row in self.rows
        )
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
