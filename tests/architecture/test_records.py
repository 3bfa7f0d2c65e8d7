"""Data classes and functions of the mechanisms, the theory and the ledger: what they forbid to those who use them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType

import crowdblend.accounting.kernel
import crowdblend.accounting.kinds
import crowdblend.accounting.ledger
import crowdblend.accounting.theory
import crowdblend.mechanisms
import crowdblend.tasks.kernel

FOLDERS = (
    crowdblend.mechanisms,
    crowdblend.accounting.kernel,
    crowdblend.accounting.kinds,
    crowdblend.accounting.theory,
    crowdblend.accounting.ledger,
    crowdblend.tasks.kernel,
)
CHANGED_BY_A_WALK = {"Dataset", "LedgerState", "Series", "_Comparison"}
BY_PLACE = {"_Form", "_Group"}
WITHOUT_SLOTS = {"CalibratedMembersDeletion", "MembersDeletion", "PairedMembersDeletion"}
"""Python lets a class inherit from two others only where at most one of these has slots of its own."""


def modules() -> Iterator[ModuleType]:
    """Every module of these folders."""
    for folder in FOLDERS:
        root = Path(folder.__file__ or "").parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if "migrations" not in parts and parts[-1] != "__init__":
                yield importlib.import_module(".".join((folder.__name__, *parts)))


def data_classes() -> Iterator[type]:
    """Every data class of these modules."""
    for module in modules():
        for _, found in inspect.getmembers(module, inspect.isclass):
            if dataclasses.is_dataclass(found) and found.__module__ == module.__name__:
                yield found


def functions() -> Iterator[FunctionType]:
    """Every function of these modules, and every one of their classes."""
    for module in modules():
        classes = [one for _, one in inspect.getmembers(module, inspect.isclass) if one.__module__ == module.__name__]
        for holder in (module, *classes):
            for found in vars(holder).values():
                plain = found.__func__ if isinstance(found, staticmethod | classmethod) else found
                if inspect.isfunction(plain) and plain.__module__ == module.__name__:
                    yield plain


def test_a_record_cannot_be_changed_nor_its_fields_be_mixed_up() -> None:
    """A price, a description or an entry of the ledger is checked once, when it is made, by the names of its fields."""
    found = list(data_classes())
    assert {one.__name__ for one in found if not vars(one)["__dataclass_params__"].frozen} == CHANGED_BY_A_WALK
    by_place = {one.__name__ for one in found if any(f.init and not f.kw_only for f in dataclasses.fields(one))}
    assert by_place == BY_PLACE


def test_a_record_has_no_other_fields_than_its_own() -> None:
    """So that a field that is misspelt is none; what is computed once and kept needs a dictionary of the object."""
    bare = {
        base
        for found in data_classes()
        for base in found.__mro__
        if base is not object
        and "__slots__" not in vars(base)
        and not any(isinstance(one, cached_property) for one in vars(base).values())
    }
    assert {one.__name__ for one in bare} == WITHOUT_SLOTS


def test_randomness_is_named_and_has_no_default() -> None:
    drawing = ("crowdblend.mechanisms.", "crowdblend.tasks.kernel.")
    given = [
        inspect.signature(one).parameters.get("randomness") for one in functions() if one.__module__.startswith(drawing)
    ]
    found = [one for one in given if one is not None]
    assert len(found) > 8
    assert {(one.kind, one.default) for one in found} == {(inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty)}
