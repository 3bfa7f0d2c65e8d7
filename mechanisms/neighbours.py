"""The two relations between data sets in which prices are stated, and where exact random bytes come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

__all__ = ["ADD_REMOVE", "REPLACEMENT", "Randomness", "Relation"]

Relation = Literal["add/remove", "replacement"]
"""What two neighbouring data sets differ in: one person's presence, or one person's values among a public number."""

ADD_REMOVE: Relation = "add/remove"
REPLACEMENT: Relation = "replacement"

Randomness = Callable[[int], bytes]
"""Source of secret random bytes: n to n bytes. Production passes the operating system's."""
