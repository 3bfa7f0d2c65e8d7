"""A published release as an object: its facts, its table, and whether it verifies.

Small tables that show themselves: on a terminal by rich, in a notebook as HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from ...accounting.ledger.certificate.verify import CertificateCheck, read_certificate
from ...accounting.ledger.private_store.signing import read_public_keys
from ...mechanisms.amounts import amount_shown
from ...tasks.readers.released_groups import read_released_table
from ..release_check import verify_release

__all__ = ["FactTable", "PublishedRelease", "open_release", "print_uncut", "verify"]


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


CERTIFICATE = "certificate.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRelease:
    """A release in a folder of this machine; everything that this object knows is public.

    Args:
        folder: holds the table and the certificate.
        certificate: the certificate's fields as they are written; nothing is checked yet, see `findings`.
    """

    folder: Path
    certificate: Mapping[str, Any]

    def __repr__(self) -> str:
        """The release's id and its folder's name."""
        return f"PublishedRelease(release_id={self.release_id!r}, folder={self.folder.name!r})"

    @property
    def release_id(self) -> str:
        """The release's id."""
        return str(self.certificate["release_id"])

    @property
    def dataset(self) -> str:
        """The data set that it was charged to."""
        return str(self.certificate["dataset"])

    @property
    def epsilon(self) -> Decimal:
        """ε of the guarantee; of a series, for all its releases together."""
        return Decimal(self.certificate["guarantee"]["epsilon"])

    @property
    def delta(self) -> Decimal:
        """δ of the guarantee, between 0 and 1; of a series, for all its releases together."""
        return Decimal(self.certificate["guarantee"]["delta"])

    @property
    def sampling_rate(self) -> Decimal | None:
        """β, between 0 and 1: divide a count by it to estimate how many there are; None where nothing was sampled."""
        rate = self.certificate["mechanism"].get("sampling_rate")
        return None if rate in (None, "whole") else Decimal(str(rate))

    @property
    def levels(self) -> dict[str, int]:
        """The level of each released column, 0 being the value itself."""
        return {column["column"]: column["level"] for column in self.certificate["map"]["columns"]}

    def groups(self) -> pa.Table:
        """The groups of a microdata release: one row each, with its labels and its number of records in `count`.

        Raises:
            InputRefused: there is no table of groups, or it can't be read.
        """
        return read_released_table(self.folder)

    def findings(self, *, public_key: Path | None = None) -> tuple[str, ...]:
        """What does not hold of the certificate and the files, one sentence each; empty where all is well.

        Args:
            public_key: PEM file of the publisher's key, had from the publisher; without one whose key signed isn't
                checked.

        Raises:
            InputRefused: the certificate or the key can't be read.
        """
        trusted = None if public_key is None else read_public_keys(public_key)
        return verify_release(self.folder / CERTIFICATE, trusted=trusted).findings

    @property
    def facts(self) -> FactTable:
        """The release in a few lines."""
        stated, mechanism = self.certificate, self.certificate["mechanism"]
        published = stated["published"]
        rows = [
            ("data set", self.dataset),
            ("day", str(stated["day"])),
            ("mechanism", str(mechanism["kind"])),
            ("ε", amount_shown(self.epsilon)),
            ("δ", amount_shown(self.delta)),
            *((name, str(mechanism[name])) for name in ("k", "sampling_rate") if name in mechanism),
            ("levels", ", ".join(f"{name} {level}" for name, level in self.levels.items())),
            *((name, str(value)) for name, value in published.items()),
            ("folder", str(self.folder)),
        ]
        return FactTable(title=f"Release {self.release_id}", headers=("", "value"), rows=tuple(rows))

    def __rich__(self) -> Table:
        """The facts for a terminal."""
        return self.facts.__rich__()

    def _repr_html_(self) -> str:
        """The facts for a notebook."""
        return self.facts._repr_html_()


def open_release(folder: Path | str) -> PublishedRelease:
    """Open a release by its folder; nothing is checked but that it has a certificate.

    Args:
        folder: holds the table and `certificate.json`.

    Raises:
        InputRefused: there is no certificate, or it can't be read.
    """
    place = Path(folder).absolute()
    return PublishedRelease(folder=place, certificate=read_certificate(place / CERTIFICATE))


def verify(place: Path | str, *, public_key: Path | str | None = None) -> CertificateCheck:
    """Check a release's certificate and its files, without ledger or private store; as `crowdblend verify`.

    Args:
        place: the release's folder, or its certificate.
        public_key: PEM file of the publisher's key, had from the publisher; without one whose key signed isn't checked.

    Returns:
        What doesn't hold, whose signature does, and what was not shown.

    Raises:
        InputRefused: the certificate or the key can't be read.
    """
    path = Path(place)
    trusted = None if public_key is None else read_public_keys(Path(public_key))
    return verify_release(path / CERTIFICATE if path.is_dir() else path, trusted=trusted)
