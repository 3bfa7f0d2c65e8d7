"""`crowdblend hierarchy`: check, import, show and build hierarchies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...mechanisms.kernel.errors import InputRefused
from .options import AS_JSON, FILE, CommandGroup

if TYPE_CHECKING:
    from rich.tree import Tree

    from ...mechanisms.hierarchies.declare import HierarchyFault, ValueHierarchy
    from ...tasks.inputs.hierarchy_files import PeerRows


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
    from ...mechanisms.hierarchies.build import interval_rows

    points = [_numbers(text, option="--cuts") for text in cuts]
    with _refusals("--lower, --upper", row="--cuts, number"):
        rows = interval_rows(lower, upper, points)
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
    from ...mechanisms.hierarchies.build import MOST_DAYS, day_rows, written_day

    start, end = _day(first, "--first"), _day(last, "--last")
    span = (end - start).days + 1
    if not 0 < span <= MOST_DAYS:
        raise InputRefused(f"there must be 1 to {MOST_DAYS} days, not {span}.", where="--first, --last")
    days = [(start + timedelta(days=number)).isoformat() for number in range(span)]
    with _refusals("--form", remedy=f"{FORMS}."):
        written = [written_day(day, form) for day in days]
    if len(set(written)) < len(days):
        raise InputRefused(
            "several days are written alike in this form.", where="--form", remedy="Name day, month and year."
        )
    with _refusals("--levels", remedy=f"{WEEKS}."):
        rows = day_rows(days, levels.split(","))
    _write([(value, *row[1:]) for value, row in zip(written, rows, strict=True)], output)


@build.command()
@click.argument("values", type=FILE)
@click.option("--keep", required=True, help="Characters kept at each level, as 3,2,1.")
@click.option("--mark", default="_", show_default=True, help="Stands for each character left out; may be empty.")
@ENCODING
@OUTPUT
def prefixes(values: Path, keep: str, mark: str, encoding: str, output: Path) -> None:
    """Codes of a public list VALUES, one a line, by ever shorter prefixes: postal codes, industries, diseases."""
    from ...mechanisms.hierarchies.build import prefix_rows
    from ...tasks.inputs.hierarchy_files import read_lines

    listed = [line for line in read_lines(values, encoding=encoding) if line]
    with _refusals("--keep"):
        rows = prefix_rows(listed, _numbers(keep, option="--keep"), mark=mark)
    _write(rows, output, source=values)


@build.command()
@click.argument("outline", type=FILE)
@ENCODING
@OUTPUT
def tree(outline: Path, encoding: str, output: Path) -> None:
    """An indented OUTLINE: what is indented below a line belongs to it, and what has nothing below is a value."""
    from ...mechanisms.hierarchies.build import outline_rows
    from ...tasks.inputs.hierarchy_files import read_lines

    with _refusals(str(outline), row=f"{outline}, line"):
        rows = outline_rows(read_lines(outline, encoding=encoding))
    _write(rows, output, source=outline)


@build.command()
@click.argument("codes", type=FILE)
@SEPARATOR
@ENCODING
@click.option("--header", is_flag=True, help="The first line names the columns.")
@OUTPUT
def parents(codes: Path, separator: str | None, encoding: str, header: bool, output: Path) -> None:
    """A code list CODES with two columns, a code and the code above it, empty at the top."""
    from ...mechanisms.hierarchies.build import parent_rows
    from ...tasks.inputs.hierarchy_files import read_peer_rows

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
        remedy = "Add it, with nothing after the separator if it is at the top."
        if known[unknown[0]] == 0 and not header:
            remedy = "If this line names the columns, say --header. " + remedy.replace("Add", "Otherwise add")
        raise InputRefused(
            f"the code {unknown[0]!r} is above another, but has no line of its own.",
            where=read.where(codes, known[unknown[0]]),
            remedy=remedy,
        )
    with _refusals(str(codes), row=f"{codes}, line"):
        rows = parent_rows(parent_of)
    _write(rows, output, source=codes)


def _write(rows: Sequence[tuple[str, ...]], output: Path, *, source: Path | None = None) -> None:
    from ...mechanisms.hierarchies.declare import hierarchy_faults
    from ..python.hierarchies import write_hierarchy
    from ..release_paths import require_elsewhere

    require_elsewhere(output)
    if faults := hierarchy_faults(rows):
        raise InputRefused(f"{faults[0].what}.", where=str(source or output))
    _print_written(write_hierarchy(rows, output), output)
    click.echo(f"See it with: crowdblend hierarchy show {output}")


def _print_written(made: ValueHierarchy, output: Path) -> None:
    from ...mechanisms.kernel.amounts import counted

    click.echo(f"{counted(len(made.rows()), 'value')} at {counted(made.levels, 'level')} are in {output}.")


@contextmanager
def _refusals(where: str, *, row: str = "", remedy: str = "") -> Iterator[None]:
    """Turn a fault of what a hierarchy is built from into a refusal; `row` stands before the number of its row."""
    from ...mechanisms.hierarchies.declare import HierarchyError

    try:
        yield
    except HierarchyError as error:
        place = where if error.row is None or not row else f"{row} {error.row + 1}"
        raise InputRefused(f"{error.what}.", where=place, remedy=remedy) from None


def _numbers(text: str, *, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputRefused("this must be whole numbers, separated by commas.", where=option) from None


def _day(text: str, option: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputRefused("a day is written as 2026-03-31.", where=option) from None


MOST_SHOWN = 20
MOST_INTEGERS = 1_000_000


@click.group(cls=CommandGroup)
def hierarchy() -> None:
    """Check, build, show and import hierarchies: which labels a value has, level by level.

    They are declared, never derived from the records: name public lists (a census, a code list, a law), not the data.
    """


hierarchy.add_command(build)


@hierarchy.command()
@click.argument("file", type=FILE)
@click.option("--domain", type=FILE, help="Public list of the values that the column may have, one a line.")
@click.option("--lower", type=int, help="With --upper: the column's values are whole numbers from here …")
@click.option("--upper", type=int, help="… to below here.")
@ENCODING
@AS_JSON
def check(file: Path, domain: Path | None, lower: int | None, upper: int | None, encoding: str, as_json: bool) -> int:
    """Find everything that is wrong with a hierarchy, with file and line; leaves with 2 where anything is."""
    from ...mechanisms.hierarchies.check import domain_faults, domain_remarks, hierarchy_remarks
    from ...mechanisms.hierarchies.declare import HierarchyFault, hierarchy_faults
    from ...mechanisms.kernel.amounts import counted
    from ...tasks.inputs.hierarchy_files import is_utf8, read_hierarchy, read_peer_rows

    declared = _domain(domain, lower, upper, encoding=encoding)
    read = read_peer_rows(file, encoding=encoding)
    faults = hierarchy_faults(read.rows)
    remarks: list[HierarchyFault] = []
    digest = None
    if not faults:
        remarks = hierarchy_remarks(read.rows)
        if is_utf8(file):
            digest = read_hierarchy(str(file.absolute())).digest()  # or what a release would say of the file itself
        else:
            what = f"a specification takes UTF-8 alone: `crowdblend hierarchy import --encoding {encoding}` writes it"
            remarks.append(HierarchyFault(what=what))
        if declared is not None:
            faults = domain_faults(read.rows, declared)
            remarks += domain_remarks(read.rows, declared)
    if as_json:
        click.echo(json.dumps(_checked(read, faults, remarks) | {"sha256": digest}, ensure_ascii=False))
        return 2 if faults else 0
    _print_faults(file, read, faults, remarks)
    if faults:
        click.echo(f"{counted(len(faults), 'fault')}: a release with this hierarchy would be refused or lose values.")
        return 2
    values = len(read.rows)
    sizes = " → ".join(str(len({row[level] for row in read.rows})) for level in range(len(read.rows[0])))
    click.echo(f"{counted(values, 'value')} at {counted(len(read.rows[0]), 'level')}; labels level by level: {sizes}.")
    if digest is not None:
        click.echo(f"SHA-256, as certificates name it: {digest}")
    click.echo(
        "The domain is covered." if declared is not None else "No fault; give --domain to check for missing values."
    )
    return 0


@hierarchy.command()
@click.argument("file", type=FILE)
@click.option("--depth", type=click.IntRange(min=1), help="Levels to show, from the most general; default: all.")
@click.option("--most", type=click.IntRange(min=1), default=12, show_default=True, help="Labels to show below a label.")
@AS_JSON
def show(file: Path, depth: int | None, most: int, as_json: bool) -> None:
    """Show a hierarchy as a tree, the most general label first."""
    from ...tasks.inputs.hierarchy_files import read_hierarchy
    from ..terminal.stages import console

    declared = read_hierarchy(str(file.absolute()))
    if as_json:
        tree = {"levels": declared.levels, "values": len(declared.rows()), "tree": _nested(declared)}
        click.echo(json.dumps(tree, ensure_ascii=False))
        return
    console(highlight=False).print(hierarchy_tree(declared, name=file.name, depth=depth, most=most))


@hierarchy.command("import")
@click.argument("file", type=FILE)
@click.option("--output", type=FILE, required=True, help="The hierarchy's new file.")
@SEPARATOR
@ENCODING
@click.option("--header", is_flag=True, help="The first line names the levels.")
@click.option("--root-first", is_flag=True, help="The rows run from the most general label to the value.")
def import_(file: Path, output: Path, separator: str | None, encoding: str, header: bool, root_first: bool) -> int:
    """Bring a hierarchy of ARX or another tool into the form that specifications name.

    A level `*` is added on top where there is none. Values are taken as they are written; what is wrong is said with
    its line, and then nothing is written.
    """
    from ...mechanisms.hierarchies.check import hierarchy_remarks
    from ...mechanisms.hierarchies.declare import hierarchy_faults
    from ...mechanisms.kernel.amounts import counted
    from ...tasks.inputs.hierarchy_files import read_peer_rows
    from ..python.hierarchies import write_hierarchy
    from ..release_paths import require_elsewhere

    require_elsewhere(output)
    read = read_peer_rows(file, encoding=encoding, separator=separator, header=header)
    rows = tuple(row[::-1] for row in read.rows) if root_first else read.rows
    faults = hierarchy_faults(rows)
    remarks = [] if faults else hierarchy_remarks(rows)
    _print_faults(file, read, faults, remarks)
    if faults:
        click.echo(f"{counted(len(faults), 'fault')}: nothing was written.", err=True)
        return 2
    topped = rows if {row[-1] for row in rows} == {"*"} else tuple((*row, "*") for row in rows)
    _print_written(write_hierarchy(topped, output), output)
    return 0


def _domain(path: Path | None, lower: int | None, upper: int | None, *, encoding: str) -> list[str] | None:
    if (lower is None) is not (upper is None) or (path is not None and lower is not None):
        raise click.UsageError("give --domain, or both --lower and --upper.")
    if path is not None:
        from ...tasks.inputs.hierarchy_files import read_lines

        return [line for line in read_lines(path, encoding=encoding) if line]
    if lower is None or upper is None:
        return None
    if not 0 < upper - lower <= MOST_INTEGERS:
        raise InputRefused(f"a domain of numbers has 1 to {MOST_INTEGERS} of them.", where="--lower, --upper")
    return [str(number) for number in range(lower, upper)]


def _checked(read: PeerRows, faults: list[HierarchyFault], remarks: list[HierarchyFault]) -> dict[str, Any]:
    def reported(listed: list[HierarchyFault]) -> list[dict[str, Any]]:
        return [
            {"line": None if one.row is None else read.lines[one.row], "what": _fault_text(read, one)} for one in listed
        ]

    width = max(len(row) for row in read.rows)
    levels = [len({row[level] for row in read.rows if len(row) > level}) for level in range(width)]
    return {
        "ok": not faults,
        "findings": reported(faults),
        "remarks": reported(remarks),
        "values": len(read.rows),
        "labels_per_level": levels,
        "separator": read.separator,
    }


def _print_faults(file: Path, read: PeerRows, faults: list[HierarchyFault], remarks: list[HierarchyFault]) -> None:
    for fault in faults[:MOST_SHOWN]:
        click.echo(f"{read.where(file, fault.row)}: {_fault_text(read, fault)}.", err=True)
    if len(faults) > MOST_SHOWN:
        click.echo(f"… and {len(faults) - MOST_SHOWN} more; --json gives all.", err=True)
    for remark in remarks:
        click.echo(f"{read.where(file, remark.row)}: perhaps not meant: {remark.what}.", err=True)


def _fault_text(read: PeerRows, fault: HierarchyFault) -> str:
    return fault.what if fault.first is None else f"{fault.what}, first in line {read.lines[fault.first]}"


Nested = dict[str, Any]
"""Label → what lies below it; a value has nothing below it."""


def hierarchy_tree(hierarchy: ValueHierarchy, *, name: str, depth: int | None, most: int) -> Tree:
    """Return the tree from the most general labels down; beside each label how many values it covers."""
    from rich.text import Text
    from rich.tree import Tree

    head = f"{name}: {len(hierarchy.rows())} values, levels 0 to {hierarchy.levels - 1}"
    tree = Tree(Text(head, style="bold"))
    _add_branches(tree, _nested(hierarchy), level=hierarchy.levels - 1, depth=depth or hierarchy.levels, most=most)
    return tree


def _nested(hierarchy: ValueHierarchy) -> Nested:
    tree: Nested = {}
    for row in hierarchy.rows():
        place = tree
        for label in reversed(row):
            place = place.setdefault(label, {})
    return tree


def _values(below: Mapping[str, Any]) -> int:
    return sum(_values(more) for more in below.values()) if below else 1


def _add_branches(tree: Tree, below: Mapping[str, Any], *, level: int, depth: int, most: int) -> None:
    from rich.text import Text

    for place, (label, more) in enumerate(sorted(below.items(), key=lambda entry: _by_numbers(entry[0]))):
        if place == most:
            tree.add(Text(f"… and {len(below) - most} more", style="dim"))
            return
        values = _values(more)
        text = Text(label)
        text.append(
            f"  level {level}" if not more else f"  level {level}, {values} value{'s' * (values > 1)}", style="dim"
        )
        branch = tree.add(text)
        if more and depth > 1:
            _add_branches(branch, more, level=level - 1, depth=depth - 1, most=most)


def _by_numbers(label: str) -> list[tuple[int, str]]:
    """Return a key by which 9 is sorted before 10 and [5, 10) before [10, 15)."""
    parts = re.split(r"([0-9]+)", label)
    return [(int(part[:18]) if part.isascii() and part.isdigit() else -1, part) for part in parts if part]
