"""Small tables that show themselves: on a terminal by rich, in a notebook as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

__all__ = ["FactTable", "print_uncut"]


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
        return self.fitted(None)

    def fitted(self, width: int | None) -> str:
        """The table as plain text for a terminal of some width; no cell is cut.

        Where a line would be too long, each row becomes a paragraph: its first cell, then each other with its header.

        Args:
            width: columns of the terminal; None for a pipe or a file, where a line may be of any length.
        """
        lines = [self.headers, *self.rows]
        widths = [max(cell_len(line[place]) for line in lines) for place in range(len(self.headers))]
        if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
            return "\n".join([self.title, *(line for row in self.rows for line in self._paragraph(row, width))])
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
        """A row as lines of at most some width, but for cells that are longer alone."""
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


def print_uncut(table: FactTable) -> None:
    """Print a table whose texts people copy, ids and days among them: as wide as it needs to be, but on a terminal."""
    out = Console()
    out.print(table.fitted(out.width if out.is_terminal else None), markup=False, highlight=False, soft_wrap=True)
