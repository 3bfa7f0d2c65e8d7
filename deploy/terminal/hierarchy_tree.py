"""A hierarchy drawn as a tree, or as nested names for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich.text import Text
from rich.tree import Tree

from ...mechanisms.hierarchies.declare import ValueHierarchy

__all__ = ["hierarchy_tree", "tree_record"]

Nested = dict[str, Any]
"""Label → what lies below it; a value has nothing below it."""


def hierarchy_tree(hierarchy: ValueHierarchy, *, name: str, depth: int | None, most: int) -> Tree:
    """The tree from the most general labels down; beside each label how many values it covers.

    Args:
        hierarchy: what is shown.
        name: at the tree's root.
        depth: levels to show; None is all.
        most: labels to show below one label.
    """
    head = f"{name}: {len(hierarchy.rows())} values, levels 0 to {hierarchy.levels - 1}"
    tree = Tree(Text(head, style="bold"))
    _grow(tree, _nested(hierarchy), level=hierarchy.levels - 1, depth=depth or hierarchy.levels, most=most)
    return tree


def tree_record(hierarchy: ValueHierarchy) -> dict[str, Any]:
    """The levels and the whole tree as JSON values: {label: {label: …}}, values with an empty object."""
    return {"levels": hierarchy.levels, "values": len(hierarchy.rows()), "tree": _nested(hierarchy)}


def _nested(hierarchy: ValueHierarchy) -> Nested:
    tree: Nested = {}
    for row in hierarchy.rows():
        place = tree
        for label in reversed(row):
            place = place.setdefault(label, {})
    return tree


def _values(below: Mapping[str, Any]) -> int:
    return sum(_values(more) for more in below.values()) if below else 1


def _grow(tree: Tree, below: Mapping[str, Any], *, level: int, depth: int, most: int) -> None:
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
            _grow(branch, more, level=level - 1, depth=depth - 1, most=most)


def _by_numbers(label: str) -> list[tuple[int, str]]:
    """An order in which 9 comes before 10 and [5, 10) before [10, 15)."""
    parts = re.split(r"([0-9]+)", label)
    return [(int(part[:18]) if part.isascii() and part.isdigit() else -1, part) for part in parts if part]
