"""JSON Schemas (draft 2020-12) of Python's types: what JSON has for their values, and nothing beside it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

__all__ = ["DIALECT", "schema_of_type"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN: Mapping[object, Mapping[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "number"},
    date: {"type": "string", "format": "date"},
    NoneType: {"type": "null"},
    Any: {},
}
AMOUNT = {"type": "string", "pattern": r"^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$"}
Schema = dict[str, Any]


def schema_of_type(hint: Any, *, exact: bool = False) -> Schema:  # noqa: ANN401 - a type hint
    """The schema of a type's values; the classes in it stand below `$defs`.

    A class is a dataclass or a TypedDict. Its object has the keys of its fields and no other. In `Annotated` a text is
    the description, and a pair a keyword with its value; a dataclass's fields are described by the docstring's `Args`.

    Args:
        hint: the type.
        exact: as the ledger writes it: amounts as decimal texts, and pairs of a name and a value as an object.

    Raises:
        TypeError: JSON has no form for the type, or two classes have one name.
    """
    found = _Found(exact=exact)
    schema = found.schema(hint)
    return schema | {"$defs": dict(sorted(found.definitions.items()))} if found.definitions else schema


class _Found:
    """Classes that were met on the way, with their schemas."""

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact
        self.definitions: dict[str, Schema] = {}
        self._classes: dict[str, type] = {}

    def schema(self, hint: Any) -> Schema:  # noqa: ANN401 - a type hint
        """The schema of a type."""
        origin, parts = get_origin(hint), get_args(hint)
        if isinstance(hint, type) and (is_dataclass(hint) or is_typeddict(hint)):
            return self._reference(hint)
        if origin is None and hint in PLAIN:
            return dict(AMOUNT if self.exact and hint is Decimal else PLAIN[hint])
        forms: Mapping[object, Callable[[], Schema]] = {
            Annotated: lambda: self.schema(parts[0]) | dict(_keyword(said) for said in parts[1:]),
            Literal: lambda: {"enum": list(parts)},
            Union: lambda: _either([self.schema(part) for part in parts]),
            UnionType: lambda: _either([self.schema(part) for part in parts]),
            dict: lambda: {"type": "object", "additionalProperties": self.schema(parts[1])},
            list: lambda: {"type": "array", "items": self.schema(parts[0])},
            tuple: lambda: self._tuple(parts),
        }
        if origin not in forms:
            raise TypeError(f"JSON has no form for {hint}")
        return forms[origin]()

    def _tuple(self, parts: tuple[Any, ...]) -> Schema:
        if parts[-1] is not Ellipsis:
            members = [self.schema(part) for part in parts]
            return {"type": "array", "prefixItems": members, "minItems": len(members), "maxItems": len(members)}
        if self.exact:  # of pairs of a name and a value
            return {"type": "object", "additionalProperties": self.schema(get_args(parts[0])[1])}
        return {"type": "array", "items": self.schema(parts[0])}

    def _reference(self, cls: type) -> Schema:
        if self._classes.setdefault(cls.__name__, cls) is not cls:
            raise TypeError(f"two classes are called {cls.__name__}")
        if cls.__name__ not in self.definitions:
            self.definitions[cls.__name__] = {}  # for one that holds itself
            self.definitions[cls.__name__] = self._object(cls)
        return {"$ref": f"#/$defs/{cls.__name__}"}

    def _object(self, cls: type) -> Schema:
        hints = get_type_hints(cls, include_extras=True)
        names = [field.name for field in fields(cls)] if is_dataclass(cls) else list(hints)
        said = _described(cls)
        properties, required = {}, []
        for name in names:
            hint = hints[name]
            if get_origin(hint) is NotRequired:
                [hint] = get_args(hint)
            else:
                required.append(name)
            properties[name] = self.schema(hint) | ({"description": said[name]} if name in said else {})
        if hasattr(cls, "KIND"):  # an entry of the ledger
            properties, required = {"kind": {"const": cls.KIND}} | properties, ["kind", *required]
        first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
        return {
            "type": "object",
            "description": _plain(first),
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def _keyword(said: str | tuple[str, Any]) -> tuple[str, Any]:
    return ("description", said) if isinstance(said, str) else said


def _either(options: list[Schema]) -> Schema:
    """One of several; types without anything else to say stand in one list."""
    if all(option.keys() == {"type"} for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


ARGUMENT = re.compile(r"^    (\w+): (.*)$")


def _described(cls: type) -> dict[str, str]:
    """What the docstrings of a class and of those that it is made from say of each field."""
    said: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        said |= dict(_arguments(inspect.cleandoc(one.__dict__.get("__doc__") or "")))
    return said


def _arguments(docstring: str) -> Iterator[tuple[str, str]]:
    _, _, listed = docstring.partition("\nArgs:\n")
    name, lines = "", list[str]()
    for line in listed.splitlines():
        if not line.startswith("    "):
            break
        if found := ARGUMENT.match(line):
            if name:
                yield name, _plain(" ".join(lines))
            name, lines = found[1], [found[2]]
        else:
            lines.append(line.strip())
    if name:
        yield name, _plain(" ".join(lines))


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("`", "")
