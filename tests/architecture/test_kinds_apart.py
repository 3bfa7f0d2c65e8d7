"""Only a kind's own modules ask which mechanism they have: all others take its price and render its description."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import get_args

from crowdblend import accounting, deploy, flows, mechanisms, tasks
from crowdblend.accounting.kernel.prices.registry import MECHANISM_KINDS
from crowdblend.mechanisms import kinds
from crowdblend.mechanisms.kernel.mechanism import Mechanism

PACKAGES = (accounting, deploy, flows, mechanisms, tasks)
OWN = ("accounting/kinds/", "accounting/descriptions/", "flows/releases/", "mechanisms/kinds/")
"""Folders of the kinds' own modules."""

ALLOWED = {
    "accounting/kernel/ledger/entries.py": "a series of several mechanisms has parts, and places in them",
    "mechanisms/answer_errors.py": "errors of one kind of release: each answer has its own",
    "mechanisms/synthetic_points.py": "errors of one kind of release: its counts are noisy or not",
    "tasks/readers/report_files.py": "the reader of one kind of release: each local randomizer has columns of its own",
    "tasks/counting/report_counts.py": "and sums of its own",
}
"""Module → why it may ask all the same."""


NAMES = {*MECHANISM_KINDS, *(record for line in MECHANISM_KINDS.values() for record in line.records)}
"""Of kinds, and of their records."""
RECORDS = NAMES - {*MECHANISM_KINDS}


def mechanism_names() -> set[str]:
    """The names of the mechanisms' classes, and of their unions."""
    found = set()
    for one in pkgutil.iter_modules(kinds.__path__):
        module = importlib.import_module(f"{kinds.__name__}.{one.name}")
        for name, value in vars(module).items():
            parts = get_args(value) if isinstance(value, UnionType) else (value,)
            if all(isinstance(part, type) and issubclass(part, Mechanism) for part in parts):
                found.add(name)
    return found - {"Mechanism"}


def names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def is_kind(node: ast.AST) -> bool:
    """Whether an expression is the name of a kind or of a kind's record: also `x["kind"]`, `x.get("kind")`."""
    match node:
        case ast.Attribute(attr="kind") | ast.Name(id="kind"):
            return True
        case ast.Subscript(slice=ast.Constant(value="kind")):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="kind"), *_]):
            return True
    return False


def is_name_of_kind(node: ast.AST) -> bool:
    """Whether an expression holds a text that names a kind or a kind's record, or the constant that is such a text."""
    texts = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return bool(texts & NAMES) or "MIXED" in names_in(node)


def questions(tree: ast.AST, mechanisms: set[str]) -> Iterator[tuple[int, str]]:
    """Where a module asks which mechanism it has, and how."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, of]) if names_in(of) & mechanisms:
                yield node.lineno, "isinstance"
            case ast.MatchClass(cls=cls) if names_in(cls) & mechanisms:
                yield node.cls.lineno, "case"
            case ast.Call(func=ast.Attribute(value=value, attr="startswith" | "removeprefix")) if is_kind(value):
                yield node.lineno, "startswith"
            case ast.Dict(keys=keys) if any(isinstance(key, ast.Constant) and key.value in RECORDS for key in keys):
                yield node.lineno, "table"
            case ast.Compare(left=left, comparators=others) if any(
                is_kind(one) and any(is_name_of_kind(other) for other in (left, *others)) for one in (left, *others)
            ):
                yield node.lineno, "comparison"


def asked() -> dict[str, list[tuple[int, str]]]:
    names, found = mechanism_names(), {}
    for package in PACKAGES:
        assert package.__file__ is not None
        room = Path(package.__file__).resolve().parent
        for path in sorted(room.rglob("*.py")):
            place = str(path.relative_to(room.parent))
            if not place.startswith(OWN) and (here := list(questions(ast.parse(path.read_text("utf-8")), names))):
                found[place] = here
    return found


def test_nobody_else_asks_which_mechanism_it_has() -> None:
    found = asked()
    assert {place: here for place, here in found.items() if place not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "no longer needed"
