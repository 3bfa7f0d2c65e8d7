"""Warn once about each name that the next major version will not have, and say what to write instead."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Deprecation:
    """Tell since when a public name is deprecated, and what replaces it.

    Args:
        since: the version that deprecated it, such as "1.1".
        instead: what to write instead.
    """

    since: str
    instead: str


DEPRECATED: dict[str, Deprecation] = {}
"""Public name, as the recorded surface has it (docs/stability.md) → its deprecation."""


class DeprecatedName(FutureWarning):
    """A warning that a public name goes; Python shows it to everybody, since users can do something about it."""


_told: set[str] = set()


def warn_once(name: str) -> None:
    """Warn about a deprecated name where it is used first in this process; about any other name do nothing.

    Args:
        name: as the recorded surface has it: "specification: specification.data.source".
    """
    found = DEPRECATED.get(name)
    if found is not None and name not in _told:
        _told.add(name)
        shown = name.partition(": ")[2]
        text = f"{shown} is deprecated since {found.since} and goes with the next major version. Use {found.instead}."
        warnings.warn(text, DeprecatedName, stacklevel=3)


def warn_of_keys(tables: Mapping[str, Any]) -> None:
    """Warn once about each deprecated key that a specification has.

    Args:
        tables: the specification as it is written; in a name `*` stands for any key: "columns.*.level".
    """
    for name in DEPRECATED:
        section, _, path = name.partition(": specification.")
        if section == "specification" and _has(tables, path.split(".")):
            warn_once(name)


def _has(value: object, path: list[str]) -> bool:
    if not path:
        return True
    if not isinstance(value, Mapping):
        return False
    below = value.values() if path[0] == "*" else [value[path[0]]] if path[0] in value else []
    return any(_has(one, path[1:]) for one in below)


def one_line_warnings(program: str) -> None:
    """Have Python show these warnings as a program's other messages are shown: one line, without a place in the code.

    Args:
        program: the name that the line begins with.
    """
    others = warnings.formatwarning

    def formatted(message: Warning | str, category: type[Warning], *place: Any) -> str:  # noqa: ANN401 - Python's own
        return f"{program}: {message}\n" if category is DeprecatedName else others(message, category, *place)

    warnings.formatwarning = formatted  # type: ignore[assignment]
