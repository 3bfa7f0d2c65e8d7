"""`crowdblend hierarchy build`: hierarchies from intervals, days, prefixes, outlines and code lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..mechanisms.refusal import InputRefused
from .command_groups import CommandGroup
from .options import FILE

if TYPE_CHECKING:
    from ..mechanisms.hierarchy import HierarchyError

__all__ = ["ENCODING", "SEPARATOR", "build"]

MOST_DAYS = 200_000
OUTPUT = click.option("--output", type=FILE, required=True, help="The hierarchy's file.")
ENCODING = click.option("--encoding", default="utf-8-sig", help="Of the file, as cp1252 or latin-1; default: UTF-8.")
SEPARATOR = click.option(
    "--separator",
    callback=lambda _context, _option, given: "\t" if given == "\\t" else given,
    help="Of the file; default: the one of ; , tab | that splits its lines evenly.",
)
FORMS = "Of %d %m %Y; %-d and %-m without a leading 0; %y; %b and %B for Mar and March: %d.%m.%Y, %m/%d/%Y"
WEEKS = "ISO weeks are not offered: none lies within one month or one year for certain"


@click.group(cls=CommandGroup)
def build() -> None:
    """Build a hierarchy from what is public, never from the records."""


@build.command()
@click.option("--lower", type=int, required=True, help="The least number.")
@click.option("--upper", type=int, required=True, help="The first number above.")
@click.option(
    "--cuts", multiple=True, required=True, help="Where a level's intervals end, as 18,25,65; finest level first."
)
@OUTPUT
def intervals(lower: int, upper: int, cuts: tuple[str, ...], output: Path) -> None:
    """Whole numbers in intervals of any widths; for equal widths `interval` in the specification is enough."""
    from ..mechanisms.hierarchy import HierarchyError
    from ..mechanisms.hierarchy_building import interval_rows

    points = [_numbers(text, option="--cuts") for text in cuts]
    try:
        rows = interval_rows(lower, upper, points)
    except HierarchyError as error:
        where = "--lower, --upper" if error.row is None else f"--cuts, number {error.row + 1}"
        raise InputRefused(f"{error.what}.", where=where) from None
    _write(rows, output)


@build.command()
@click.option("--first", required=True, help="First day, as 2000-01-01.")
@click.option("--last", required=True, help="Last day.")
@click.option("--form", default="%Y-%m-%d", show_default=True, help=f"How the records write a day. {FORMS}.")
@click.option(
    "--levels", default="month,year,decade", show_default=True, help=f"Of month, quarter, year, decade. {WEEKS}."
)
@OUTPUT
def dates(first: str, last: str, form: str, levels: str, output: Path) -> None:
    """Days, their months, quarters, years and decades."""
    from ..mechanisms.hierarchy import HierarchyError
    from ..mechanisms.hierarchy_building import day_rows, written_day

    start, end = _day(first, "--first"), _day(last, "--last")
    span = (end - start).days + 1
    if not 0 < span <= MOST_DAYS:
        raise InputRefused(f"there must be 1 to {MOST_DAYS} days, not {span}.", where="--first, --last")
    days = [(start + timedelta(days=number)).isoformat() for number in range(span)]
    try:
        written = [written_day(day, form) for day in days]
    except HierarchyError as error:
        raise InputRefused(f"{error.what}.", where="--form", remedy=f"{FORMS}.") from None
    if len(set(written)) < len(days):
        raise InputRefused(
            "several days are written alike in this form.", where="--form", remedy="Name day, month and year."
        )
    try:
        rows = day_rows(days, levels.split(","))
    except HierarchyError as error:
        raise InputRefused(f"{error.what}.", where="--levels", remedy=f"{WEEKS}.") from None
    _write([(value, *row[1:]) for value, row in zip(written, rows, strict=True)], output)


@build.command()
@click.argument("values", type=FILE)
@click.option("--keep", required=True, help="Characters kept at each level, as 3,2,1.")
@click.option("--mark", default="_", show_default=True, help="Stands for each character left out; may be empty.")
@ENCODING
@OUTPUT
def prefixes(values: Path, keep: str, mark: str, encoding: str, output: Path) -> None:
    """Codes of a public list VALUES, one a line, by ever shorter prefixes: postal codes, industries, diseases."""
    from ..mechanisms.hierarchy import HierarchyError
    from ..mechanisms.hierarchy_building import prefix_rows
    from ..tasks.peer_hierarchy import read_lines

    listed = [line for line in read_lines(values, encoding=encoding) if line]
    try:
        rows = prefix_rows(listed, _numbers(keep, option="--keep"), mark=mark)
    except HierarchyError as error:
        raise InputRefused(f"{error.what}.", where="--keep") from None
    _write(rows, output, source=values)


@build.command()
@click.argument("outline", type=FILE)
@ENCODING
@OUTPUT
def tree(outline: Path, encoding: str, output: Path) -> None:
    """An indented OUTLINE: what is indented below a line belongs to it, and what has nothing below is a value."""
    from ..mechanisms.hierarchy import HierarchyError
    from ..mechanisms.hierarchy_building import outline_rows
    from ..tasks.peer_hierarchy import read_lines

    try:
        rows = outline_rows(read_lines(outline, encoding=encoding))
    except HierarchyError as error:
        raise _refused(outline, error) from None
    _write(rows, output, source=outline)


@build.command()
@click.argument("codes", type=FILE)
@SEPARATOR
@ENCODING
@click.option("--header", is_flag=True, help="The first line names the columns.")
@OUTPUT
def parents(codes: Path, separator: str | None, encoding: str, header: bool, output: Path) -> None:
    """A code list CODES with two columns, a code and the code above it, empty at the top."""
    from ..mechanisms.hierarchy import HierarchyError
    from ..mechanisms.hierarchy_building import parent_rows
    from ..tasks.peer_hierarchy import read_peer_rows

    read = read_peer_rows(codes, encoding=encoding, separator=separator, header=header)
    parent_of: dict[str, str] = {}
    for number, row in enumerate(read.rows):
        where = read.where(codes, number)
        if len(row) != 2 or not row[0]:
            raise InputRefused("a line has a code and the code above it.", where=where)
        if row[0] in parent_of:
            raise InputRefused(f"the code {row[0]!r} has its line already.", where=where)
        parent_of[row[0]] = row[1]
    known = {parent: number for number, (_, parent) in enumerate(read.rows) if parent}
    unknown = [parent for parent in known if parent not in parent_of and parent != "*"]
    if unknown:
        first = known[unknown[0]] == 0 and not header
        raise InputRefused(
            f"the code {unknown[0]!r} is above another, but has no line of its own.",
            where=read.where(codes, known[unknown[0]]),
            remedy="If this line names the columns, say --header. Otherwise add the code, with nothing after the "
            "separator if it is at the top."
            if first
            else "Add it, with nothing after the separator if it is at the top.",
        )
    try:
        rows = parent_rows(parent_of)
    except HierarchyError as error:
        raise _refused(codes, error) from None
    _write(rows, output, source=codes)


def _write(rows: Sequence[tuple[str, ...]], output: Path, *, source: Path | None = None) -> None:
    from ..mechanisms.amount_format import counted
    from ..mechanisms.hierarchy import HierarchyError, ValueHierarchy
    from ..mechanisms.hierarchy_faults import hierarchy_faults
    from ..tasks.peer_hierarchy import hierarchy_text
    from .placing import require_elsewhere, write_new

    require_elsewhere(output)
    try:
        made = ValueHierarchy.from_rows(rows)
    except HierarchyError:
        fault = hierarchy_faults(rows)[0]
        raise InputRefused(f"{fault.what}.", where=str(source or output)) from None
    write_new(output, hierarchy_text(rows))
    click.echo(f"{counted(len(made.rows()), 'value')} at {counted(made.levels, 'level')} are in {output}.")
    click.echo(f"See it with: crowdblend hierarchy show {output}")


def _refused(path: Path, error: HierarchyError) -> InputRefused:
    place = "" if error.row is None else f", line {error.row + 1}"
    return InputRefused(f"{error.what}.", where=f"{path}{place}")


def _numbers(text: str, *, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputRefused("these are whole numbers, separated by commas.", where=option) from None


def _day(text: str, option: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputRefused("a day is written as 2026-03-31.", where=option) from None
