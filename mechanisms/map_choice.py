"""How a release's map is chosen: the candidates, and the draw that picks one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .lattice import Lattice, LatticeColumn

__all__ = ["Draw", "MapChoice"]

Draw = Literal["permute-and-flip", "exponential", "walk"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MapChoice:
    """Candidates and draw, all public and fixed before the records are read.

    Args:
        lattice: the candidates, with each column's bounds and weight.
        draw: how one of them is drawn by its quality; "walk" draws step by step, for a lattice too large to score.
        steps: steps of the walk, at least 1; None for the other draws, which score every candidate.

    Raises:
        ValueError: steps without a walk, a walk without steps or through a list of candidates, or more candidates
            than are scored.
    """

    lattice: Lattice
    draw: Draw
    steps: int | None

    def __post_init__(self) -> None:
        if (self.draw == "walk") is not (self.steps is not None):
            raise ValueError("a walk, and nothing else, has a number of steps")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"a walk has at least one step, not {self.steps}")
        if self.draw == "walk" and self.lattice.candidates is not None:
            raise ValueError("a walk goes through all combinations of levels, not through a list of candidates")
        if self.draw != "walk" and not self.lattice.enumerable:
            raise ValueError(f"{self.lattice.size} maps are too many to score them all")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self.lattice.names

    @property
    def columns(self) -> tuple[LatticeColumn, ...]:
        """The columns, with the bounds of their levels, in order."""
        return self.lattice.columns

    def digest(self) -> str:
        """SHA-256 of the lattice in canonical form, 64 hexadecimal digits."""
        return self.lattice.digest()
