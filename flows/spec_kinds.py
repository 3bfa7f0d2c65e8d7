"""Which tables of a specification belong to which kind of release; any other table is refused, here alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..mechanisms.refusal import InputRefused
from .spec_tables import SpecTables

__all__ = ["KINDS", "TABLES", "release_kind"]

KINDS = ("histogram", "points", "answer", "reports")
"""Tables that change the kind of the release; without them it is of microdata."""

_EVERY = frozenset({"release", "data", "cluster"})
TABLES: Mapping[str, frozenset[str]] = {
    "microdata": _EVERY | {"sampling", "suppression", "privacy", "selection", "columns"},
    "histogram": _EVERY | {"histogram", "sampling", "privacy", "columns"},
    "points": _EVERY | {"points", "sampling", "privacy", "columns"},
    "answer": _EVERY | {"answer", "sampling", "columns"},
    "reports": _EVERY | {"reports", "privacy"},
}
"""Of each kind the tables that it knows. A table that is in none of these sets is refused everywhere."""


def release_kind(path: Path, spec: SpecTables) -> str:
    """What a specification asks for, "microdata" or one of `KINDS`.

    INVARIANT: a table that the kind doesn't know is never passed over, since somebody has written it for a protection.

    Args:
        path: the specification's file, for messages.
        spec: its tables.

    Raises:
        InputRefused: tables of several kinds, a table that the kind doesn't know, or a form of something else than
            microdata.
    """
    given = [name for name in SpecTables.model_fields if name in spec.model_fields_set]
    kinds = [name for name in given if name in KINDS]
    kind = kinds[0] if kinds else "microdata"
    for name in given:
        if name not in TABLES[kind]:
            other = f"[{kind}]" if kinds else "a release of microdata"
            raise InputRefused(
                f"this table and {other} exclude each other.", where=f"{path}: [{name}]", remedy="Remove one of them."
            )
    if kinds and "form" in spec.release.model_fields_set:
        raise InputRefused(
            f"a form is of microdata, and [{kind}] has its own.", where=f"{path}: [release].form", remedy="Remove it."
        )
    return kind
