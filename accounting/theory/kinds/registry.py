"""The kinds of mechanisms: a line for each, loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeVar

from ....mechanisms.errors import InputRefused
from ....mechanisms.mechanism import Mechanism
from .kind import MechanismKind

__all__ = ["KINDS", "kind_of", "kind_of_record", "load_kind", "mechanism_of_record", "mechanism_record"]

KINDS: dict[str, tuple[str, ...]] = {
    "strongly_safe": ("strongly-safe-release/1",),
    "epsilon_safe": ("epsilon-safe-release/1",),
    "suppressed_histogram": ("suppressed-histogram/1",),
    "noisy_histogram": ("noisy-histogram/1",),
    "outlier_histogram": ("outlier-private-histogram/1",),
    "survey_counts": ("biased-sample-counts/1",),
    "unequal_rates": ("unequal-rates-histogram/1",),
    "points": ("synthetic-points/1", "synthetic-noisy-points/1"),
    "answers": ("count-answer/1", "sum-answer/1", "mean-answer/1"),
    "local_reports": ("count-mean-sketch/1", "k-randomization/1"),
    "outcome_counts": ("outcome-counts/1",),
    "deletion": ("deletion-release/1",),
}
"""Kind, which is the name of its module here and of its mechanisms' `kind` → the names of its records on disk."""

M = TypeVar("M", bound=Mechanism)


def load_kind(name: str) -> MechanismKind[Any]:
    """A kind by its name; its module is loaded now if it wasn't."""
    found: MechanismKind[Any] = import_module(f"{__package__}.{name}").KIND
    return found


def kind_of(mechanism: M) -> MechanismKind[M]:
    """The kind of a mechanism."""
    return load_kind(mechanism.kind)


def kind_of_record(name: object) -> MechanismKind[Any]:
    """The kind whose record has a name.

    Raises:
        InputRefused: no kind has.
    """
    for kind, records in KINDS.items():
        if name in records:
            return load_kind(kind)
    raise InputRefused(f"unknown kind of mechanism: {name!r}.")


def mechanism_record(mechanism: Mechanism) -> dict[str, str | int]:
    """The mechanism as the ledger stores it: kind with version, and its parameters, amounts as exact decimal texts.

    What is done on all records, a choice of the map or a whole mechanism, has the rate "whole".
    """
    records = kind_of(mechanism).records
    name = next(name for name, form in records.items() if form.describes(mechanism))
    return {"kind": name, **records[name].written(mechanism)}


def mechanism_of_record(record: Mapping[str, object]) -> Mechanism:
    """The mechanism that a stored record describes.

    Raises:
        InputRefused: an unknown kind, a missing or unknown field, or a value of the wrong form.
    """
    name = record.get("kind")
    found: Mechanism = kind_of_record(name).records[str(name)].read(str(name), record)
    return found
