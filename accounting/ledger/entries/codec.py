"""The one byte string of an entry: sorted-key ASCII JSON without floating-point numbers, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .kinds import Entry, Fields
from .values import amount_of_text, amount_text

__all__ = ["KINDS", "NotCanonicalError", "bytes_of_entry", "entry_of_bytes", "sorted_fields"]

Reader = Callable[[object], Any]
FORMS: Mapping[type, str] = {
    str: "text field",
    int: "whole-number field",
    bool: "true-or-false field",
    dict: "field of named values",
}


class NotCanonicalError(ValueError):
    """Bytes that are not the one form of an entry that this version knows."""


ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)
KINDS: Mapping[str, type[Entry]] = {member.KIND: member for member in get_args(Entry)}
"""Every kind of entry that this version knows."""


def sorted_fields(record: Mapping[str, str | int]) -> Fields:
    """A mechanism's record as entries hold it: pairs, sorted by name."""
    return tuple(sorted(record.items()))


def bytes_of_entry(entry: Entry) -> bytes:
    """The entry's canonical bytes, the same on every machine and in every version.

    Raises:
        TypeError: a field holds a value of a type that no entry has.
    """
    document = {"kind": entry.KIND} | _document(entry)
    return ENCODER.encode(document).encode("ascii")


def entry_of_bytes(body: bytes) -> Entry:
    """Read an entry back.

    INVARIANT: only canonical bytes are accepted, so that an entry has one hash.

    Raises:
        NotCanonicalError: unknown kind, unknown or missing field, wrong type, or any other byte string than
            the canonical one.
        ValueError: a field outside its range, or bytes that are not JSON.
    """
    try:
        document = json.loads(body.decode("ascii"))
    except RecursionError:
        raise NotCanonicalError("an entry has no deep nesting") from None
    if not isinstance(document, dict):
        raise NotCanonicalError("an entry must be a JSON object")
    kind = document.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise NotCanonicalError(f"this version knows no entry of kind {str(kind)[:60]!r}")
    entry: Entry = _record(KINDS[kind], document)
    if bytes_of_entry(entry) != body:
        raise NotCanonicalError("the entry is not in its canonical form")
    return entry


def _document(record: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of entries
    return {name: _encoded(getattr(record, name)) for name in _readers(type(record))}  # type: ignore[arg-type]  # a class is hashable


def _encoded(value: object) -> object:
    match value:
        case None | str() | bool() | int():
            return value
        case Decimal():
            return amount_text(value)
        case date():
            return value.isoformat()
        case tuple():
            return {name: _encoded(member) for name, member in value}
        case _ if is_dataclass(value):
            return _document(value)
        case _:
            raise TypeError(f"an entry can't hold a value of type {type(value).__name__}")


def _record(cls: type[Any], document: Mapping[str, object]) -> Any:  # noqa: ANN401 - the class decides
    readers = _readers(cls)  # type: ignore[arg-type]  # a class is hashable
    if unknown := sorted(document.keys() - readers.keys()):
        raise NotCanonicalError(f"{cls.__name__} has no field {unknown[0][:60]!r}")
    if missing := sorted(readers.keys() - document.keys()):
        raise NotCanonicalError(f"{cls.__name__} needs the field {missing[0]!r}")
    return cls(**{name: read(document[name]) for name, read in readers.items()})


@cache
def _readers(cls: type[Any]) -> dict[str, Reader]:
    """How each field of a dataclass is read back, by its type."""
    hints = get_type_hints(cls)
    return {field.name: _reader(hints[field.name]) for field in fields(cls)}


@cache
def _reader(hint: Any) -> Reader:  # noqa: ANN401 - a type hint
    """How a value of a type is read back from JSON; each type has one form there, so a union's are told apart."""
    options = {_form(option): option for option in (get_args(hint) if isinstance(hint, UnionType) else (hint,))}
    last = [form for form in FORMS if form in options][-1]

    def read(value: object) -> object:
        if type(value) not in options:
            raise NotCanonicalError(f"a {FORMS[last]} holds something else")
        return _read(options[type(value)], value)

    return read


def _form(option: Any) -> type:  # noqa: ANN401 - a type hint
    """The type that JSON has for the values of a type."""
    if option in (Decimal, date):
        return str
    return option if option in (str, int, bool, NoneType) else dict


def _read(option: Any, value: Any) -> object:  # noqa: ANN401 - a type hint, and a value of its form
    if option is Decimal:
        return amount_of_text(value)
    if option is date:
        return date.fromisoformat(value)
    if get_origin(option) is tuple:
        read_member = _reader(get_args(get_args(option)[0])[1])  # of pairs of a name and a value
        return sorted_fields({name: read_member(one) for name, one in value.items()})
    return _record(option, value) if isinstance(option, type) and is_dataclass(option) else value
