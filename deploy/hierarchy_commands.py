"""`crowdblend hierarchy`: check, import and show hierarchies; building them is in `hierarchy_building`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..mechanisms.refusal import InputRefused
from .command_groups import CommandGroup
from .hierarchy_building import ENCODING, SEPARATOR, build
from .options import AS_JSON, FILE

if TYPE_CHECKING:
    from ..mechanisms.hierarchy_faults import HierarchyFault
    from ..tasks.peer_hierarchy import PeerRows

__all__ = ["hierarchy"]

MOST_TOLD = 20
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
    from ..mechanisms.amount_format import counted
    from ..mechanisms.hierarchy_faults import (
        HierarchyFault,
        domain_faults,
        domain_remarks,
        hierarchy_faults,
        hierarchy_remarks,
    )
    from ..tasks.hierarchy_file import read_hierarchy
    from ..tasks.peer_hierarchy import is_utf8, read_peer_rows

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
    _tell(file, read, faults, remarks)
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
    from rich.console import Console

    from ..tasks.hierarchy_file import read_hierarchy
    from .hierarchy_tree import hierarchy_tree, tree_record

    declared = read_hierarchy(str(file.absolute()))
    if as_json:
        click.echo(json.dumps(tree_record(declared), ensure_ascii=False))
        return
    Console(highlight=False).print(hierarchy_tree(declared, name=file.name, depth=depth, most=most))


@hierarchy.command("import")
@click.argument("file", type=FILE)
@click.option("--output", type=FILE, required=True, help="The hierarchy's new file.")
@SEPARATOR
@ENCODING
@click.option("--header", is_flag=True, help="The first line names the levels.")
@click.option("--root-first", is_flag=True, help="The rows run from the most general label to the value.")
def import_(file: Path, output: Path, separator: str | None, encoding: str, header: bool, root_first: bool) -> int:
    """Bring a hierarchy of ARX or another tool into the form that specifications name.

    A level `*` is added on top where there is none. Values are taken as they are written; what is wrong is told with
    its line, and then nothing is written.
    """
    from ..mechanisms.amount_format import counted
    from ..mechanisms.hierarchy import ValueHierarchy
    from ..mechanisms.hierarchy_faults import hierarchy_faults, hierarchy_remarks
    from ..tasks.peer_hierarchy import hierarchy_text, read_peer_rows
    from .placing import require_elsewhere, write_new

    require_elsewhere(output)
    read = read_peer_rows(file, encoding=encoding, separator=separator, header=header)
    rows = tuple(row[::-1] for row in read.rows) if root_first else read.rows
    faults = hierarchy_faults(rows)
    remarks = [] if faults else hierarchy_remarks(rows)
    _tell(file, read, faults, remarks)
    if faults:
        click.echo(f"{counted(len(faults), 'fault')}: nothing was written.", err=True)
        return 2
    topped = rows if {row[-1] for row in rows} == {"*"} else tuple((*row, "*") for row in rows)
    made = ValueHierarchy.from_rows(topped)
    write_new(output, hierarchy_text(topped))
    click.echo(f"{counted(len(made.rows()), 'value')} at {counted(made.levels, 'level')} are in {output}.")
    return 0


def _domain(path: Path | None, lower: int | None, upper: int | None, *, encoding: str) -> list[str] | None:
    if (lower is None) is not (upper is None) or (path is not None and lower is not None):
        raise click.UsageError("give --domain, or both --lower and --upper.")
    if path is not None:
        from ..tasks.peer_hierarchy import read_lines

        return [line for line in read_lines(path, encoding=encoding) if line]
    if lower is None or upper is None:
        return None
    if not 0 < upper - lower <= MOST_INTEGERS:
        raise InputRefused(f"a domain of numbers has 1 to {MOST_INTEGERS} of them.", where="--lower, --upper")
    return [str(number) for number in range(lower, upper)]


def _checked(read: PeerRows, faults: list[HierarchyFault], remarks: list[HierarchyFault]) -> dict[str, Any]:
    def told(found: list[HierarchyFault]) -> list[dict[str, Any]]:
        return [{"line": None if one.row is None else read.lines[one.row], "what": _worded(read, one)} for one in found]

    width = max(len(row) for row in read.rows)
    levels = [len({row[level] for row in read.rows if len(row) > level}) for level in range(width)]
    return {
        "ok": not faults,
        "findings": told(faults),
        "remarks": told(remarks),
        "values": len(read.rows),
        "labels_per_level": levels,
        "separator": read.separator,
    }


def _tell(file: Path, read: PeerRows, faults: list[HierarchyFault], remarks: list[HierarchyFault]) -> None:
    for fault in faults[:MOST_TOLD]:
        click.echo(f"{read.where(file, fault.row)}: {_worded(read, fault)}.", err=True)
    if len(faults) > MOST_TOLD:
        click.echo(f"… and {len(faults) - MOST_TOLD} more; --json gives all.", err=True)
    for remark in remarks:
        click.echo(f"{read.where(file, remark.row)}: perhaps not meant: {remark.what}.", err=True)


def _worded(read: PeerRows, fault: HierarchyFault) -> str:
    return fault.what if fault.first is None else f"{fault.what}, first in line {read.lines[fault.first]}"
