"""The one byte string of an entry: sorted-key ASCII JSON without floating-point numbers, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any, get_args, get_type_hints

from .budget import amount_of_text, amount_text
from .entry import Entry
from .release_entries import ChargedPrice, Fields, OutputHashes, SeriesPlace

__all__ = ["NotCanonicalError", "bytes_of_entry", "entry_of_bytes", "sorted_fields"]

Record = ChargedPrice | SeriesPlace | Entry


class NotCanonicalError(ValueError):
    """Bytes that are not the one form of an entry that this version knows."""


ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)
KINDS: Mapping[str, type[Entry]] = {member.KIND: member for member in get_args(Entry)}


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


def _document(record: Record) -> dict[str, Any]:
    return {name: _encoded(getattr(record, name)) for name in _names(type(record))}  # type: ignore[arg-type]


@cache
def _names(cls: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


def _encoded(value: object) -> object:
    match value:
        case None | str() | bool() | int():
            return value
        case Decimal():
            return amount_text(value)
        case date():
            return value.isoformat()
        case ChargedPrice() | SeriesPlace():
            return _document(value)
        case tuple():
            return {name: _encoded(member) for name, member in value}
        case _:
            raise TypeError(f"an entry can't hold a value of type {type(value).__name__}")


def _record(cls: type[Any], document: object) -> Any:  # noqa: ANN401 - the class decides
    if not isinstance(document, dict):
        raise NotCanonicalError(f"{cls.__name__} must be a JSON object")
    decoders = _decoders(cls)  # type: ignore[arg-type]  # a class is hashable
    if unknown := sorted(set(document) - set(decoders)):
        raise NotCanonicalError(f"{cls.__name__} has no field {unknown[0][:60]!r}")
    if missing := sorted(set(decoders) - set(document)):
        raise NotCanonicalError(f"{cls.__name__} needs the field {missing[0]!r}")
    return cls(**{name: decode(document[name]) for name, decode in decoders.items()})


@cache
def _decoders(cls: type[Any]) -> dict[str, Callable[[object], object]]:
    hints = get_type_hints(cls)
    return {field.name: DECODERS[hints[field.name]] for field in fields(cls)}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise NotCanonicalError("a text field holds something else")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise NotCanonicalError("a whole-number field holds something else")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise NotCanonicalError("a true-or-false field holds something else")
    return value


def _amount(value: object) -> Decimal:
    return amount_of_text(_text(value))


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _amount_or_none(value: object) -> Decimal | None:
    return None if value is None else _amount(value)


def _day(value: object) -> date:
    return date.fromisoformat(_text(value))


def _pairs(value: object) -> Fields:
    if not isinstance(value, dict):
        raise NotCanonicalError("a field of named values holds something else")
    for member in value.values():
        if not isinstance(member, str):
            _whole(member)
    return sorted_fields(value)


def _text_pairs(value: object) -> OutputHashes:
    return tuple((name, _text(member)) for name, member in _pairs(value))


def _price(value: object) -> ChargedPrice:
    price: ChargedPrice = _record(ChargedPrice, value)
    return price


def _place_or_none(value: object) -> SeriesPlace | None:
    if value is None:
        return None
    place: SeriesPlace = _record(SeriesPlace, value)
    return place


DECODERS: Mapping[Any, Callable[[object], object]] = {
    str: _text,
    int: _whole,
    bool: _truth,
    date: _day,
    Decimal: _amount,
    str | None: _text_or_none,
    Decimal | None: _amount_or_none,
    Fields: _pairs,
    OutputHashes: _text_pairs,
    ChargedPrice: _price,
    SeriesPlace | None: _place_or_none,
}
