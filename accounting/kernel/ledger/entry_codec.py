"""The one byte string of an entry, and the chain of hashes over them.

An entry is sorted-key ASCII JSON without floating-point numbers. A link's hash binds it to its place and to all before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .entry_types import Entry, Fields, Record
from .entry_values import amount_of_text, amount_text, require_digest

__all__ = ["GENESIS", "KINDS", "LINK_DOMAIN", "Head", "bytes_of_entry", "entry_of_bytes", "link_hash", "sorted_fields"]

LINK_DOMAIN = b"crowdblend ledger entry 1\n"
GENESIS = "0" * 64
Reader = Callable[[Any], Any]
FORMS = {str: "text field", int: "whole-number field", bool: "true-or-false field", dict: "field of named values"}
TEXTS: Mapping[object, Reader] = {Decimal: amount_of_text, date: date.fromisoformat}
ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)
KINDS: Mapping[str, type[Entry]] = {member.KIND: member for member in get_args(Entry)}
"""Every kind of entry that this version knows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """Where a ledger's chain ended at some moment.

    Args:
        ledger_id: which ledger, 64 hexadecimal digits.
        position: place of the last entry, from 0.
        hash: its link's hash, which binds all entries before it.
    """

    ledger_id: str
    position: int
    hash: str

    def __post_init__(self) -> None:
        require_digest(self.ledger_id, "ledger's id")
        require_digest(self.hash, "head's hash")
        if type(self.position) is not int or self.position < 0:
            raise ValueError("a head's position is a whole number from 0")


def link_hash(*, previous: str, position: int, body: bytes) -> str:
    """SHA-256 (hex) that binds an entry's bytes to its place and to all entries before it.

    The parts before the body have fixed lengths, so that no two different links share their input.

    Raises:
        ValueError: the previous hash is not 32 bytes in hexadecimal.
    """
    if len(bytes.fromhex(previous)) != 32:
        raise ValueError("a link's previous hash must have 32 bytes")
    return hashlib.sha256(LINK_DOMAIN + bytes.fromhex(previous) + position.to_bytes(8, "big") + body).hexdigest()


def sorted_fields(record: Mapping[str, str | int]) -> Fields:
    """A mechanism's record as entries hold it: pairs, sorted by name."""
    return tuple(sorted(record.items()))


def bytes_of_entry(entry: Entry) -> bytes:
    """The entry's canonical bytes, the same on every machine and in every version.

    Raises:
        TypeError: a field holds a value of a type that no entry has.
    """
    return ENCODER.encode({"kind": entry.KIND} | _encoded(entry)).encode("ascii")


def entry_of_bytes(body: bytes) -> Entry:
    """Read an entry back.

    INVARIANT: only canonical bytes are accepted, so that an entry has one hash.

    Raises:
        ValueError: no JSON, an unknown kind, an unknown or missing field, a value of a wrong type or outside its
            range, or any other byte string than the canonical one.
    """
    try:
        document = json.loads(body.decode("ascii"))
    except RecursionError:
        raise ValueError("an entry has no deep nesting") from None
    if type(document) is not dict:
        raise ValueError("an entry must be a JSON object")
    kind = document.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"this version knows no entry of kind {str(kind)[:60]!r}")
    entry: Entry = _record(KINDS[kind], document)
    if bytes_of_entry(entry) != body:
        raise ValueError("the entry is not in its canonical form")
    return entry


def _encoded(value: object) -> Any:  # noqa: ANN401 - what JSON has for it
    match value:
        case None | str() | bool() | int():
            return value
        case Decimal():
            return amount_text(value)
        case date():
            return value.isoformat()
        case tuple():
            return {name: _encoded(member) for name, member in value}
        case Record():
            names = _readers(type(value))  # type: ignore[arg-type]  # a class is hashable
            return {name: _encoded(getattr(value, name)) for name in names}
        case _:
            raise TypeError(f"an entry can't hold a value of type {type(value).__name__}")


def _record(cls: Any, document: Mapping[str, object]) -> Any:  # noqa: ANN401 - a class, and an object of it
    readers = _readers(cls)
    if unknown := sorted(document.keys() - readers.keys()):
        raise ValueError(f"{cls.__name__} has no field {unknown[0][:60]!r}")
    if missing := sorted(readers.keys() - document.keys()):
        raise ValueError(f"{cls.__name__} needs the field {missing[0]!r}")
    return cls(**{name: read(document[name]) for name, read in readers.items()})


@cache
def _readers(cls: type[Any]) -> dict[str, Reader]:
    """Return how each field of a dataclass is read back, by its type."""
    hints = get_type_hints(cls)
    return {field.name: _reader(hints[field.name]) for field in fields(cls)}


@cache
def _reader(hint: Any) -> Reader:  # noqa: ANN401 - a type hint
    """Return how a value of a type is read back from JSON; the types of a union have different forms there."""
    options = dict(_option(option) for option in (get_args(hint) if isinstance(hint, UnionType) else (hint,)))
    last = [form for form in FORMS if form in options][-1]

    def read(value: object) -> object:
        if type(value) not in options:
            raise ValueError(f"a {FORMS[last]} holds something else")
        return options[type(value)](value)

    return read


def _option(option: Any) -> tuple[type, Reader]:  # noqa: ANN401 - a type hint
    """Return the type that JSON has for the values of a type, and how they are made from that."""
    if option in (str, int, bool, NoneType):
        return option, lambda value: value
    if option in TEXTS:
        return str, TEXTS[option]
    if get_origin(option) is tuple:  # of pairs of a name and a value
        read_member = _reader(get_args(get_args(option)[0])[1])
        return dict, lambda value: sorted_fields({name: read_member(one) for name, one in value.items()})
    return dict, partial(_record, option)
