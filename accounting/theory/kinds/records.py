"""How a mechanism is written down: a versioned name, whole numbers, and exact texts, read back as they were."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, get_type_hints

from ....mechanisms.errors import InputRefused
from ....mechanisms.mechanism import ADD_REMOVE, REPLACEMENT, Mechanism, Relation

__all__ = ["RecordForm"]

_AMOUNT_TEXT = re.compile(r"-?[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?")
_HEX_TEXT = re.compile(r"([0-9a-f]{2}){1,64}")
_ALL_RECORDS = "whole"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordForm:
    """One version of a kind's record: the fields of its dataclass, one by one, and those of what it holds beside them.

    INVARIANT: a record that was ever written is read back: a new or another field needs a new version's form.

    Args:
        mechanism: the dataclass, whose fields are the record's: whole numbers as they are, amounts as exact decimal
            texts, bytes in hexadecimal, and "whole" for the rate of what is done on all records.
        nested: field → the dataclass that it holds here; its fields stand in the record beside the others.
        shapes: field → name of a shape → the dataclass that it holds then; in the record it is that name, and the
            dataclass's fields stand beside the others.
    """

    mechanism: type
    nested: Mapping[str, type] = field(default_factory=dict)
    shapes: Mapping[str, Mapping[str, type]] = field(default_factory=dict)

    def describes(self, mechanism: Mechanism) -> bool:
        """Whether a mechanism is written down in this form."""
        return type(mechanism) is self.mechanism and all(
            type(getattr(mechanism, name)) is held for name, held in self.nested.items()
        )

    def _own(self) -> dict[str, _Form]:
        return _forms(self.mechanism, frozenset(self.nested) | frozenset(self.shapes))

    def written(self, mechanism: Mechanism) -> dict[str, str | int]:
        """The record's fields without its name."""
        record = _written(mechanism, self._own())
        for name in self.shapes:
            record[name] = next(
                shape for shape, made in self.shapes[name].items() if type(getattr(mechanism, name)) is made
            )
        for name in (*self.nested, *self.shapes):
            held = getattr(mechanism, name)
            made: type = type(held)
            record |= _written(held, _forms(made))
        return record

    def read(self, kind: str, record: Mapping[str, object]) -> Mechanism:
        """The mechanism that a record describes.

        Args:
            kind: its name on disk, for the message.
            record: all its fields, its name among them.

        Raises:
            InputRefused: a missing or unknown field, or a value of the wrong form.
        """
        own = self._own()
        made = dict(self.nested)
        for name, shapes in self.shapes.items():
            if not isinstance(shape := record.get(name), str) or shape not in shapes:
                raise InputRefused(f"a {kind} record has {name} {' or '.join(shapes)}.")
            made[name] = shapes[shape]
        held = {name: _forms(one) for name, one in made.items()}
        names = {"kind", *own, *self.shapes}.union(*held.values())
        if set(record) != names:
            raise InputRefused(f"a {kind} record has the fields {sorted(names)}, not {sorted(record)}.")
        try:
            values = {name: form.read(record[name]) for name, form in own.items()}
            for name, forms in held.items():
                values[name] = made[name](**{inner: form.read(record[inner]) for inner, form in forms.items()})
            found: Mechanism = self.mechanism(**values)
        except (ValueError, InvalidOperation) as fault:
            raise InputRefused(f"a {kind} record is out of range: {fault}.") from fault
        return found


@dataclass(frozen=True, slots=True)
class _Form:
    """How a field's value is written and read back; `read` refuses what is not of its form by ValueError."""

    written: Callable[[Any], str | int]
    read: Callable[[object], object]


def _read_whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError("a whole number is needed")
    return value


def _read_amount(value: object) -> Decimal:
    if not isinstance(value, str) or not _AMOUNT_TEXT.fullmatch(value):
        raise ValueError("a decimal text is needed")
    return Decimal(value)


def _read_relation(value: object) -> object:
    if value not in (ADD_REMOVE, REPLACEMENT):
        raise ValueError("an unknown relation")
    return value


def _read_bytes(value: object) -> bytes:
    if not isinstance(value, str) or not _HEX_TEXT.fullmatch(value):
        raise ValueError("1 to 64 bytes in hexadecimal are needed")
    return bytes.fromhex(value)


_FORMS: Mapping[object, _Form] = {
    int: _Form(_read_whole, _read_whole),
    Decimal: _Form(str, _read_amount),
    Decimal | None: _Form(
        lambda rate: _ALL_RECORDS if rate is None else str(rate),
        lambda text: None if text == _ALL_RECORDS else _read_amount(text),
    ),
    Relation: _Form(str, _read_relation),
    bytes: _Form(bytes.hex, _read_bytes),
}
"""Type of a field → how it is written."""


@lru_cache
def _forms(made: type, without: frozenset[str] = frozenset()) -> dict[str, _Form]:
    """Field of a dataclass → its form, but for those that hold another mechanism."""
    hints = get_type_hints(made)
    return {one.name: _FORMS[hints[one.name]] for one in fields(made) if one.name not in without}


def _written(mechanism: object, forms: Mapping[str, _Form]) -> dict[str, str | int]:
    return {name: form.written(getattr(mechanism, name)) for name, form in forms.items()}
