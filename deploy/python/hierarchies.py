"""Hierarchies from Python: read, checked, written, imported, and found by their columns' names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...mechanisms.hierarchies.check import domain_faults, domain_remarks, hierarchy_remarks
from ...mechanisms.hierarchies.declare import HierarchyError, HierarchyFault, ValueHierarchy, hierarchy_faults
from ...mechanisms.kernel.errors import InputRefused
from ...tasks.inputs.hierarchy_files import PeerRows, hierarchy_text, read_peer_rows
from ...tasks.inputs.hierarchy_files import read_hierarchy as read_hierarchy_at
from ...tasks.readers.source_files import is_url
from ..release_paths import require_elsewhere, write_new

__all__ = [
    "HierarchyCheck",
    "NamedHierarchy",
    "check_hierarchy",
    "import_hierarchy",
    "named_hierarchies",
    "read_hierarchy",
    "write_hierarchy",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class HierarchyCheck:
    """What was found of a hierarchy.

    Args:
        findings: each fault with its file and line; empty where a release takes the hierarchy.
        remarks: what breaks no rule but is seldom meant.
    """

    findings: tuple[str, ...]
    remarks: tuple[str, ...]


def read_hierarchy(path: Path | str) -> ValueHierarchy:
    """Read a hierarchy as a specification does.

    Args:
        path: its file or URL.

    Raises:
        InputRefused: it can't be read, or has a fault; with file and line.
    """
    return read_hierarchy_at(str(path) if is_url(str(path)) else str(Path(path).absolute()))


def check_hierarchy(
    path: Path | str, *, domain: Iterable[str] | None = None, encoding: str = "utf-8-sig"
) -> HierarchyCheck:
    """Find everything that is wrong with a hierarchy, and what looks like a slip.

    Args:
        path: its file.
        domain: the values that the column may have, by a public list; None where it isn't checked against one.
        encoding: as Python names them; a specification takes UTF-8 alone.

    Raises:
        InputRefused: the file can't be read.
    """
    read = read_peer_rows(Path(path), encoding=encoding)
    faults = hierarchy_faults(read.rows)
    remarks: list[HierarchyFault] = []
    if not faults:
        remarks = hierarchy_remarks(read.rows)
        if domain is not None:
            declared = list(domain)
            faults = domain_faults(read.rows, declared)
            remarks += domain_remarks(read.rows, declared)
    return HierarchyCheck(findings=_sentences(read, path, faults), remarks=_sentences(read, path, remarks))


def write_hierarchy(rows: Sequence[Sequence[str]], path: Path | str) -> ValueHierarchy:
    """Write a hierarchy that specifications can name into a new file.

    Args:
        rows: from each value to its most general label, as `outline_rows` and its like make them.
        path: the new file.

    Returns:
        The hierarchy.

    Raises:
        InputRefused: the rows have a fault, or nothing may be written there.
    """
    place = Path(path)
    require_elsewhere(place)
    try:
        made = ValueHierarchy.from_rows(rows)
    except HierarchyError as error:
        row = "" if error.row is None else f", row {error.row + 1}"
        raise InputRefused(f"{error.what}.", where=f"{path}{row}") from None
    write_new(place, hierarchy_text(rows))
    return made


def import_hierarchy(
    path: Path | str,
    output: Path | str,
    *,
    encoding: str = "utf-8-sig",
    separator: str | None = None,
    header: bool = False,
    root_first: bool = False,
) -> ValueHierarchy:
    """Bring a hierarchy of ARX or another tool into the form that specifications name; `*` is added on top.

    Args:
        path: the other tool's file.
        output: the new file.
        encoding: of the other tool's file, as Python names them.
        separator: one character; None takes the one of ; , tab | that splits the lines evenly.
        header: whether the first line names the levels.
        root_first: whether the rows run from the most general label to the value.

    Returns:
        The hierarchy.

    Raises:
        InputRefused: the file has a fault, reported with its line, or nothing may be written at the output's place.
    """
    read = read_peer_rows(Path(path), encoding=encoding, separator=separator, header=header)
    rows = tuple(row[::-1] for row in read.rows) if root_first else read.rows
    faults = _sentences(read, path, hierarchy_faults(rows))
    if faults:
        raise InputRefused(faults[0], remedy="" if len(faults) == 1 else f"There are {len(faults)} faults in all.")
    return write_hierarchy(rows if {row[-1] for row in rows} == {"*"} else [(*row, "*") for row in rows], output)


def _sentences(read: PeerRows, path: Path | str, found: Sequence[HierarchyFault]) -> tuple[str, ...]:
    return tuple(f"{read.where(Path(path), one.row)}: {one.what}." for one in found)


ENDINGS = (".csv", ".txt")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedHierarchy:
    """A hierarchy that was found for a column.

    Args:
        location: its file, as a specification has to name it.
        labels_per_level: how many labels each level has, from the value to the most general one.
    """

    location: str
    labels_per_level: tuple[int, ...]

    @property
    def level(self) -> int:
        """A level in the middle, by the hierarchy alone; the value itself where there is nothing between it and `*`."""
        levels = len(self.labels_per_level)
        return levels // 2 if levels > 2 else 0


def named_hierarchies(folder: Path, *, columns: Sequence[str], seen_from: Path) -> dict[str, NamedHierarchy]:
    """Return the hierarchies of a folder by column, each read and found without fault.

    A hierarchy is called `COLUMN.csv`, or `ANYTHING_hierarchy_COLUMN.csv` as those of ARX are.

    Args:
        folder: where they lie.
        columns: names of the source's columns.
        seen_from: the specification's file, from whose folder they will be named.

    Raises:
        InputRefused: the folder can't be read, two files are for one column, or a hierarchy has a fault.
    """
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() in ENDINGS and file.is_file())
    except OSError as error:
        raise InputRefused(f"the folder can't be read ({error.strerror}).", where=f"--hierarchies {folder}") from None
    found = {}
    for column in columns:
        own = [file for file in files if file.stem == column or file.stem.endswith(f"_hierarchy_{column}")]
        if len(own) > 1:
            raise InputRefused(
                f"the column {column!r} has two hierarchies, {own[0].name} and {own[1].name}.",
                where=f"--hierarchies {folder}",
                remedy="Leave one of them in the folder.",
            )
        for file in own:
            declared = read_hierarchy_at(str(file.absolute()))
            found[column] = NamedHierarchy(
                location=os.path.relpath(file.absolute(), seen_from.expanduser().absolute().parent),
                labels_per_level=tuple(max(1, declared.size(level) - 1) for level in range(declared.levels)),
            )
    return found
