"""What all mechanisms have in common: each is a value that says everything that its price depends on."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["Mechanism"]


class Mechanism:
    """A mechanism with its parameters: frozen, and so full that it is priced without its code.

    Attributes:
        kind: the name of its kind, whose module in `accounting.theory.kinds` prices it and writes it down.
    """

    __slots__ = ()

    kind: ClassVar[str]
