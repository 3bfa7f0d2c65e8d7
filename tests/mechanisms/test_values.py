"""What mechanisms, prices and ledger hand to each other are values: named, complete, and not to be altered."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil

import pytest

# A replay and a comparison grow as they go; weights keep what they have computed; pairs of numbers need no names.
GROWING = {"_Gap", "Replay", "_Differences"}
WITH_MEMORY = {"FiniteLosses", "MapWeights"}
BY_PLACE = {"_Form", "_Group"}


def dataclasses_of(package):
    root = importlib.import_module(f"crowdblend.{package}")
    for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        if ".migrations" not in found.name:
            module = importlib.import_module(found.name)
            for kind in vars(module).values():
                if inspect.isclass(kind) and kind.__module__ == module.__name__ and dataclasses.is_dataclass(kind):
                    yield kind


@pytest.mark.parametrize("package", ["mechanisms", "accounting.theory", "accounting.ledger"])
def test_values_are_frozen_named_and_without_further_attributes(package):
    kinds = list(dataclasses_of(package))
    assert len(kinds) > 10
    for kind in kinds:
        name = kind.__name__
        assert kind.__dataclass_params__.frozen == (name not in GROWING), name
        assert ("__slots__" in vars(kind)) == (name not in WITH_MEMORY), name
        by_name = all(field.kw_only for field in dataclasses.fields(kind) if field.init)
        assert by_name == (name not in BY_PLACE), name
