"""What is audited: a claim, the neighbours among which the worst is looked for, and how one outcome is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Case", "Draw", "Pair"]

Draw = Callable[[int, int, np.random.Generator], NDArray[np.int64]]
"""Which neighbour (0 has the record, 1 has not), how many draws, the audit's own randomness → outcomes from 0 on."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two neighbouring data sets.

    Args:
        name: what they are, for people.
        draw: outcomes of the mechanism on either of them.
    """

    name: str
    draw: Draw


@dataclass(frozen=True, kw_only=True)
class Case:
    """One claim with the neighbours that it is tried on.

    Args:
        name: unique, of letters, digits and dashes.
        mechanism: what is audited, for people.
        claim: ε that is charged.
        delta: δ that it is charged for.
        rule: by which rule it is charged.
        exact: the exact ε at that δ, where the worst of these neighbours is the worst there is; None where unknown.
        pairs: the neighbours; scouting draws find the worst.
        draws: draws of either neighbour that are counted.
        scouts: draws of either neighbour of each pair, to find the worst pair and the event.
        block: draws at a time.
        coins: whose randomness decides what is drawn.
        goal: the share of the exact ε that the bound must reach; 0 for none.
        exact_outcomes: probabilities of the outcomes of a pair's neighbour (number of the pair, 0 with the record or 1
            without), which the counted draws are held against too; None where they are not.
    """

    name: str
    mechanism: str
    claim: float
    delta: float
    rule: str
    exact: float | None
    pairs: tuple[Pair, ...]
    draws: int
    scouts: int
    block: int
    coins: str
    goal: float = 0.0
    exact_outcomes: Callable[[int, int], NDArray[np.float64]] | None = None
