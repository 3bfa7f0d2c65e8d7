"""Data classes of the mechanisms, the theory and the ledger: what was checked when one was made stays as it was."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import crowdblend.accounting.ledger
import crowdblend.accounting.theory
import crowdblend.mechanisms

FOLDERS = (crowdblend.mechanisms, crowdblend.accounting.theory, crowdblend.accounting.ledger)
SUMS_OF_A_WALK = {"Replay", "_Differences", "_Gap"}
WITH_CACHED_PROPERTIES = {"FiniteLosses", "MapWeights"}
BY_PLACE = {"_Form", "_Group"}
WITH_ARRAYS = {"IntegerIndex", "LogisticModel", "PrefixKeys", "SketchReports", "SketchSums", "ValueHierarchy", "_Paths"}
WITH_ARRAYS |= {"CountedRecords", "Estimates", "LossDistribution", "Tally", "_Piece"}
"""Two of them are never compared: comparing arrays has no single answer."""


def data_classes() -> Iterator[type]:
    """Every data class of these folders."""
    for folder in FOLDERS:
        root = Path(folder.__file__ or "").parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if "migrations" in parts or parts[-1] == "__init__":
                continue
            module = importlib.import_module(".".join((folder.__name__, *parts)))
            for _, found in inspect.getmembers(module, inspect.isclass):
                if dataclasses.is_dataclass(found) and found.__module__ == module.__name__:
                    yield found


def test_a_record_cannot_be_changed_nor_its_fields_be_mixed_up() -> None:
    """A price, a description or an entry of the ledger is checked once, when it is made, by the names of its fields."""
    found = list(data_classes())
    assert {one.__name__ for one in found if not vars(one)["__dataclass_params__"].frozen} == SUMS_OF_A_WALK
    assert {one.__name__ for one in found if "__slots__" not in vars(one)} == WITH_CACHED_PROPERTIES
    assert {one.__name__ for one in found if not vars(one)["__dataclass_params__"].eq} == WITH_ARRAYS
    by_place = {one.__name__ for one in found if any(f.init and not f.kw_only for f in dataclasses.fields(one))}
    assert by_place == BY_PLACE
