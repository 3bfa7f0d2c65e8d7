"""What mechanisms, prices and ledger hand to each other are values: named, complete, and not to be altered."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

PACKAGES = ("mechanisms", "accounting.theory", "accounting.ledger")
# A state and a comparison grow as they go; weights keep what they have computed; pairs of numbers need no names.
GROWING = {"Dataset", "LedgerState", "Series", "_Comparison"}
WITH_MEMORY = {"FiniteLosses", "MapWeights"}
BY_PLACE = {"_Form", "_Group"}


def modules_of(package):
    root = importlib.import_module(f"crowdblend.{package}")
    for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        if ".migrations" not in found.name:
            yield importlib.import_module(found.name)


def own(module, kind_of):
    """What a module itself defines of some sort."""
    return [one for one in vars(module).values() if kind_of(one) and one.__module__ == module.__name__]


def dataclasses_of(package):
    return [
        one for module in modules_of(package) for one in own(module, inspect.isclass) if dataclasses.is_dataclass(one)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_values_are_frozen_named_and_without_further_attributes(package):
    kinds = list(dataclasses_of(package))
    assert len(kinds) > 10
    for kind in kinds:
        name = kind.__name__
        assert kind.__dataclass_params__.frozen == (name not in GROWING), name
        assert ("__slots__" in vars(kind)) == (name not in WITH_MEMORY), name
        by_name = all(field.kw_only for field in dataclasses.fields(kind) if field.init)
        assert by_name == (name not in BY_PLACE), name


@pytest.mark.parametrize("package", PACKAGES)
def test_every_argument_can_be_given_by_its_name(package):
    for module in modules_of(package):
        members = [
            *vars(module).values(),
            *(one for kind in own(module, inspect.isclass) for one in vars(kind).values()),
        ]
        for member in members:
            function = inspect.unwrap(getattr(member, "__func__", member))
            if inspect.isfunction(function) and function.__code__.co_filename == module.__file__:
                assert function.__code__.co_posonlyargcount == 0, function


@pytest.mark.parametrize("package", PACKAGES)
def test_what_only_types_need_is_not_imported(package):
    for module in modules_of(package):
        source = Path(module.__file__).read_text(encoding="utf-8")
        if "\nif TYPE_CHECKING:\n" in source:
            [block] = [one for one in ast.parse(source).body if isinstance(one, ast.If)]
            names = {alias.name for part in block.body for alias in part.names}
            assert names
            assert not names & vars(module).keys(), module
