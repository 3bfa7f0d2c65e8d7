"""Find the description of a kind of mechanism, and say a few things of kinds by the names of their records."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from ...mechanisms.kernel.amounts import counted
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.mechanism import Mechanism
from ..kernel.prices.registry import MECHANISM_KINDS, kind_name_of_record, kind_of_record
from .kind_description import KindDescription, Published

M = TypeVar("M", bound=Mechanism)


def description_of(mechanism: M) -> KindDescription[M]:
    """Return the description of a mechanism's kind."""
    return _load(mechanism.kind)


def description_of_record(name: object) -> KindDescription[Any]:
    """Return the description of the kind whose record has a name.

    Raises:
        InputRefused: no kind has.
    """
    return _load(kind_name_of_record(name))


def _load(kind: str) -> KindDescription[Any]:
    description: KindDescription[Any] = getattr(import_module(MECHANISM_KINDS[kind].description_module), kind.upper())
    return description


def has_parts(name: object) -> bool:
    """Tell whether the kind whose record has a name is a series of parts, which no release runs by itself."""
    return _of_known(name, lambda described: described.part is not None)


def has_sampled_rows(name: object, *, drawn: bool = False) -> bool:
    """Tell whether the kind whose record has a name publishes rows of a sample.

    Args:
        name: of the record.
        drawn: whether its map must be chosen as well.
    """
    if drawn and _of_known(name, lambda _: kind_of_record(name).selection is None):
        return False
    return _of_known(name, lambda described: described.told is not None and described.deletion is None)


def _of_known(name: object, asked: Callable[[KindDescription[Any]], bool]) -> bool:
    """Return what is asked of the kind whose record has a name; False for one of a later version."""
    try:
        return asked(description_of_record(name))
    except InputRefused:
        return False


def published_text(kind: str, *, groups: int, records: int | None) -> str:
    """Say what a release published: `875 records in 48 groups`, or `48 noisy counts`, whose sum counts no records.

    Args:
        kind: name of the mechanism's record, such as `noisy-histogram/1`, also of a later version.
        groups: rows of the table without repetitions.
        records: their records; None where what is published counts none.
    """
    try:
        noun = description_of_record(kind).published
    except InputRefused:  # of a later version
        noun = Published("row", "rows", "" if records is None else "record")
    shown = counted(groups, noun.group, noun.groups)
    return f"{counted(records, noun.record)} in {shown}" if noun.record and records is not None else shown
