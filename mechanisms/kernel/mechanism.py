"""What all mechanisms have in common: each is a value that says everything that its price depends on.

And the two relations between data sets in which prices are stated, and where exact random bytes come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal


class Mechanism:
    """A mechanism with its parameters: frozen, and so full that it is priced without its code.

    Attributes:
        kind: the name of its kind, whose module in `accounting.kinds` prices it and writes it down.
    """

    __slots__ = ()

    kind: ClassVar[str]


Relation = Literal["add/remove", "replacement"]
"""What two neighbouring data sets differ in: one person's presence, or one person's values among a public number."""

ADD_REMOVE: Relation = "add/remove"
REPLACEMENT: Relation = "replacement"

MOST_RECORDS = 10_000
"""The most records of one person, M, that are priced; rounding slack and work are stated for no more."""

Randomness = Callable[[int], bytes]
"""Source of secret random bytes: n to n bytes. Production passes the operating system's."""
