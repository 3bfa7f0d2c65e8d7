"""How a release's map is chosen: candidates, and the private draw that picks one by exact qualities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from .lattice import WEIGHT_UNIT, Lattice, LatticeColumn, Levels

__all__ = ["Draw", "MapChoice", "Rule", "draw_map", "draw_scale", "epsilon_shares", "neighbours", "walk"]

Rule = Literal["permute-and-flip", "exponential"]

_SHARE_PLACES = 12


def draw_scale(epsilon: Decimal) -> float:
    """The scale s of the draw, WEIGHT_UNIT/ε₁ rounded up, so that a factor e^{u/s} is worth at most ε₁.

    Qualities are monotone (adding a record lowers none), so s = Δ/ε₁ where others need 2Δ/ε₁.

    Raises:
        ValueError: ε₁ is not positive and finite, or so small that no scale can be written down.
    """
    if not (epsilon.is_finite() and epsilon > 0):
        raise ValueError(f"the selection's epsilon must be positive, not {epsilon}")
    if not -30 < epsilon.adjusted() < 30:
        raise ValueError(f"the selection's epsilon must lie between 1e-29 and 1e30, not {epsilon}")
    exact = WEIGHT_UNIT / Fraction(epsilon)
    scale = float(exact)
    return scale if Fraction(scale) >= exact else math.nextafter(scale, math.inf)


def draw_map(scores: NDArray[np.int64], *, epsilon: Decimal, rule: Rule) -> int:
    """Draw the number of a candidate, ε₁-privately under add/remove; randomness is opendp's own.

    PRIVACY: the draw itself is what may be published, never a better map that is known of; and the same scores
    must not be drawn from twice, so store the draw before anything depends on it.

    The exponential mechanism draws g with probability ∝ e^{ε₁ u(g)}. Permute-and-flip walks through the candidates
    in random order and takes each with probability e^{ε₁ (u(g) − max u)}, and never has a lower expected quality
    (McKenna and Sheldon, arXiv:2010.12603v1). Both by noise added to the scores, exponential (Ding, Kifer and others,
    arXiv:2105.07260v3) and Gumbel, compared exactly. That either is ε₁-private is proved in docs/proofs/map-quality.md.

    Args:
        scores: qualities in units of 1/WEIGHT_UNIT, as `scores`; shape (candidates,).
        epsilon: ε₁, of this draw.
        rule: which of the two.

    Raises:
        ValueError: no scores, or ε₁ out of range.
    """
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError("there is no candidate to draw from")
    import opendp.prelude as dp  # it takes its time to load, and only a drawn map needs it

    dp.enable_features("contrib")
    match rule:
        case "permute-and-flip":
            measure = dp.max_divergence()
        case "exponential":
            measure = dp.zero_concentrated_divergence()
        case _:
            assert_never(rule)
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    metric = dp.linf_distance(T="i64", monotonic=True)
    noisy_max = dp.m.make_noisy_max(domain, metric, measure, scale=draw_scale(epsilon))
    return int(noisy_max(scores.tolist()))


def epsilon_shares(epsilon: Decimal, steps: int) -> list[Decimal]:
    """ε₁ in equal shares of at most 12 decimals, rounded down, so that together they are at most ε₁.

    Raises:
        ValueError: no steps, or shares that would be 0.
    """
    if steps < 1:
        raise ValueError(f"a walk has at least one step, not {steps}")
    share = Decimal(f"{int(Fraction(epsilon) / steps * 10**_SHARE_PLACES)}e-{_SHARE_PLACES}")
    if share <= 0:
        raise ValueError(f"{steps} steps leave no share of the selection's epsilon {epsilon}")
    return [share] * steps


def neighbours(lattice: Lattice, levels: Levels) -> tuple[Levels, ...]:
    """The map itself and those that differ by one level in one column, ascending; all within the bounds."""
    found = {levels}
    for place, column in enumerate(lattice.columns):
        for level in (levels[place] - 1, levels[place] + 1):
            if column.min_level <= level <= column.max_level:
                found.add((*levels[:place], level, *levels[place + 1 :]))
    return tuple(sorted(found))


def walk(
    score_of: Callable[[Sequence[Levels]], NDArray[np.int64]],
    *,
    lattice: Lattice,
    epsilon: Decimal,
    steps: int,
    start: Levels | None = None,
    taken: Sequence[Levels] = (),
    keep: Callable[[Levels], None] | None = None,
) -> Levels:
    """Draw a map of a lattice too large to enumerate, by a walk of a number of steps fixed beforehand.

    Each step is an exponential mechanism with an equal share of ε₁ among the current map and its neighbours. The
    walk is ε₁-private as the composition of its steps, whatever it visits (docs/proofs/map-quality.md).

    PRIVACY: the last draw is the result, never the best map visited, and all steps are made.

    Args:
        score_of: qualities of some maps, in units of 1/WEIGHT_UNIT, in their order; shape (maps,).
        lattice: all combinations of levels; not a list of candidates.
        epsilon: ε₁ of the whole walk.
        steps: number of draws, public.
        start: where it starts, public; None is the coarsest map.
        taken: draws of an earlier, broken-off run of this same walk, in order; they are not drawn again.
        keep: given each draw before anything depends on it, to store it privately.

    Raises:
        ValueError: the lattice is a list, steps or ε₁ are out of range, or a start or draw is not of the lattice.
    """
    if lattice.candidates is not None:
        raise ValueError("a walk goes through all combinations of levels, not through a list of candidates")
    shares = epsilon_shares(epsilon, steps)
    if len(taken) > steps:
        raise ValueError(f"a walk of {steps} steps has no {len(taken)} draws")
    current = lattice.coarsest if start is None else start
    for levels in (current, *taken):
        lattice.index_of(levels)
        current = levels
    for share in shares[len(taken) :]:
        around = neighbours(lattice, current)
        current = around[draw_map(score_of(around), epsilon=share, rule="exponential")]
        if keep is not None:
            keep(current)
    return current


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
