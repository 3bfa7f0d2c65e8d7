"""Hierarchies that lie in a folder under the names of the columns that they are for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..mechanisms.refusal import InputRefused
from ..tasks.hierarchy_file import read_hierarchy as read_hierarchy_at

__all__ = ["NamedHierarchy", "named_hierarchies"]

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
    """The hierarchies of a folder by column, each read and found without fault.

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
