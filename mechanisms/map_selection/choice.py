"""How a release's map is chosen: the candidates, their quality in exact integers, and the private draw of one."""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import lcm, prod
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from ..generalization_map import GeneralizationMap, MappedColumn
from ..hierarchies.declare import Hierarchy

LARGEST_ENUMERATED = 100_000
"""The largest number of maps that are all scored; above it the choice is a walk."""

Levels = tuple[int, ...]
"""One level per column, in the order of the columns; of a chain of maps those of each map after the other."""

_LARGEST_WEIGHT = Decimal(10**6)
_WEIGHT_PLACES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class LatticeColumn:
    """One released column and the levels at which it may be published.

    Args:
        min_level: finest level allowed.
        max_level: coarsest level allowed.
        weight: how much the column's detail matters against the others'; 0 … 1,000,000, at most 12 decimals.

    Raises:
        ValueError: levels that the hierarchy does not have, bounds that leave none, or a weight out of range.
    """

    name: str
    hierarchy: Hierarchy
    min_level: int
    max_level: int
    weight: Decimal

    def __post_init__(self) -> None:
        if not 0 <= self.min_level <= self.max_level < self.hierarchy.levels:
            raise ValueError(
                f"column {self.name!r} has levels 0 … {self.hierarchy.levels - 1}, which leave none from "
                f"{self.min_level} to {self.max_level}"
            )
        if not (self.weight.is_finite() and 0 <= self.weight <= _LARGEST_WEIGHT):
            raise ValueError(f"the weight of column {self.name!r} must lie in 0 … {_LARGEST_WEIGHT}, not {self.weight}")
        if self.weight and self.weight != round(self.weight, _WEIGHT_PLACES):
            raise ValueError(f"the weight of column {self.name!r} has more than {_WEIGHT_PLACES} decimals")

    @property
    def span(self) -> int:
        """Return the number of levels that the column may take."""
        return self.max_level - self.min_level + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Lattice:
    """The candidate maps, numbered; public, and fixed before the records are read.

    Without a list of candidates every combination of levels is one, numbered in lexicographic order of the
    levels; with a list the candidates are numbered in its order. With several stages each candidate is a chain of maps,
    each a coarsening of the one before, for a deletion release.

    PRIVACY: the price of the choice holds for any set of candidates that does not depend on the records.

    Args:
        columns: the released columns, at least one, no name twice.
        candidates: ascending, distinct levels within the columns' bounds, at least one; None is all combinations.
        stages: maps of each candidate, at least 1; chains are listed.

    Raises:
        ValueError: no columns, a name twice, no candidates, candidates that break the rule, or chains not listed.
    """

    columns: tuple[LatticeColumn, ...]
    candidates: tuple[Levels, ...] | None = None
    stages: int = 1

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise ValueError("a lattice needs at least one column")
        if len(set(names)) != len(names):
            raise ValueError(f"a lattice names each column once, not {names}")
        if self.stages < 1 or (self.stages > 1 and self.candidates is None):
            raise ValueError(f"chains of {self.stages} maps are listed")
        if self.candidates is not None:
            _check_candidates(self.candidates, self.columns, self.stages)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def size(self) -> int:
        """Return the number of candidate maps (may exceed 64 bits)."""
        if self.candidates is not None:
            return len(self.candidates)
        return prod(column.span for column in self.columns)

    @property
    def enumerable(self) -> bool:
        """Return whether all candidates can be scored: at most LARGEST_ENUMERATED of them."""
        return self.size <= LARGEST_ENUMERATED

    @property
    def finest(self) -> Levels:
        """Return per column, the finest level that any candidate has; every candidate is a coarsening of this map."""
        if self.candidates is None:
            return tuple(column.min_level for column in self.columns)
        # A chain's first map is its finest.
        return tuple(min(levels) for levels in zip(*self.candidates, strict=True))[: len(self.columns)]

    @property
    def coarsest(self) -> Levels:
        """Return per column, the coarsest level that any candidate has."""
        if self.candidates is None:
            return tuple(column.max_level for column in self.columns)
        return tuple(max(levels) for levels in zip(*self.candidates, strict=True))[-len(self.columns) :]

    def levels_of(self, index: int) -> Levels:
        """Return the levels of a candidate.

        Raises:
            IndexError: there is no candidate of that number.
        """
        if not 0 <= index < self.size:
            raise IndexError(f"candidate {index} of {self.size}")
        if self.candidates is not None:
            return self.candidates[index]
        levels: list[int] = []
        for column in reversed(self.columns):
            index, place = divmod(index, column.span)
            levels.append(column.min_level + place)
        return tuple(reversed(levels))

    def index_of(self, levels: Sequence[int]) -> int:
        """Return the number of the candidate with these levels.

        Raises:
            ValueError: no candidate has them.
        """
        wanted = tuple(levels)
        if self.candidates is not None:
            place = bisect_left(self.candidates, wanted)
            if place == len(self.candidates) or self.candidates[place] != wanted:
                raise ValueError(f"no candidate has the levels {wanted}")
            return place
        if len(wanted) != len(self.columns):
            raise ValueError(f"{len(self.columns)} columns have no levels {wanted}")
        index = 0
        for column, level in zip(self.columns, wanted, strict=True):
            if not column.min_level <= level <= column.max_level:
                raise ValueError(f"no candidate has the levels {wanted}")
            index = index * column.span + level - column.min_level
        return index

    def map_of(self, levels: Sequence[int]) -> GeneralizationMap:
        """Return the generalization map of some levels; they need not be a candidate's.

        Raises:
            ValueError: levels that a hierarchy does not have, or not one per column.
        """
        return GeneralizationMap(
            columns=tuple(
                MappedColumn(name=column.name, hierarchy=column.hierarchy, level=level)
                for column, level in zip(self.columns, levels, strict=True)
            )
        )

    def by_stage(self, levels: Sequence[int]) -> tuple[Levels, ...]:
        """Return a candidate's levels for each stage, the finest first."""
        width = len(self.columns)
        return tuple(tuple(levels[place : place + width]) for place in range(0, len(levels), width))

    def chain_of(self, levels: Sequence[int]) -> tuple[GeneralizationMap, ...]:
        """Return the maps of a candidate, one for each stage, the finest first.

        Raises:
            ValueError: no candidate has these levels.
        """
        self.index_of(levels)
        return tuple(self.map_of(one) for one in self.by_stage(levels))

    def named(self, levels: Sequence[int]) -> dict[str, int | list[int]]:
        """Return a candidate's levels by column, as a specification lists them: of several stages a list a column."""
        by_column = zip(*self.by_stage(levels), strict=True)
        return {
            name: own[0] if self.stages == 1 else list(own) for name, own in zip(self.names, by_column, strict=True)
        }

    def description(self) -> dict[str, object]:
        """Return all that decides the candidates and their weights, as JSON values; public."""
        listed: list[list[int]] | list[list[list[int]]] | None = None
        if self.candidates is not None:
            listed = [list(levels) for levels in self.candidates]
            if self.stages > 1:
                listed = [[list(one) for one in self.by_stage(levels)] for levels in self.candidates]
        return {
            "kind": "lattice/1" if self.stages == 1 else "chains/1",
            "columns": [
                {
                    "name": column.name,
                    "hierarchy": column.hierarchy.digest(),
                    "min_level": column.min_level,
                    "max_level": column.max_level,
                    "weight": _plain(column.weight),
                }
                for column in self.columns
            ],
            "candidates": listed,
        }

    def digest(self) -> str:
        """Return the SHA-256 of the description in canonical form, 64 hexadecimal digits."""
        text = json.dumps(self.description(), ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _check_candidates(candidates: Sequence[Levels], columns: tuple[LatticeColumn, ...], stages: int) -> None:
    if not candidates:
        raise ValueError("the list of candidates is empty")
    if any(left >= right for left, right in pairwise(candidates)):
        raise ValueError("candidates must ascend and be distinct")
    for levels in candidates:
        if len(levels) != stages * len(columns) or not all(
            column.min_level <= level <= column.max_level
            for column, level in zip(columns * stages, levels, strict=True)
        ):
            raise ValueError(f"the candidate {levels} does not lie within the columns' bounds")
        if any(later < level for level, later in zip(levels, levels[len(columns) :], strict=False)):
            raise ValueError(f"the chain {levels} has a map that is finer than the one before")


def _plain(weight: Decimal) -> str:
    """Return one text per number: 1, 1.0 and 1E0 are the same weight."""
    text = format(weight, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


QUALITY, CHAIN_QUALITY = "weighted-excess/1", "weighted-residual-excess/1"
"""Names of the quality of a map, and of that of a chain of maps."""

WEIGHT_UNIT = 1 << 20
"""A quality is an integer number of 1/WEIGHT_UNIT-ths; adding a record moves it by 0 … WEIGHT_UNIT of them."""

_SHARE_UNIT = 1 << 40
_EXACT = Context(prec=60)


def group_threshold(k: int, sampling_rate: Decimal, selection_rate: Decimal | None) -> int:
    """Return the size k′ from which a group's records count: about k of them will be sampled.

    k′ = ⌈k/β⌉ where the map is chosen on the whole data, ⌈k·β_s/β⌉ on a fresh sample at rate β_s; exactly.

    Raises:
        ValueError: k below 1, or a rate outside (0, 1).
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    for rate in (sampling_rate, selection_rate):
        if rate is not None and not 0 < rate < 1:
            raise ValueError(f"a rate must lie strictly between 0 and 1, not {rate}")
    # As exact fractions: a rounded rate could move a whole number k/β to the next one.
    ratio = k * (Fraction(1) if selection_rate is None else Fraction(selection_rate)) / Fraction(sampling_rate)
    return -(-ratio.numerator // ratio.denominator)


def information_kept(hierarchy: Hierarchy, level: int) -> Fraction:
    """Return the share of a column's information that a level keeps, 0 … 1, rounded to a multiple of 2⁻⁴⁰.

    1 − (1/m) Σ_v ln(c_v)/ln(m) for a domain of m declared values, where v shares its label with c_v − 1 others:
    how well the label tells the value, if every declared value were as likely as every other. The value itself
    keeps 1, a single label for all keeps 0, and so does a domain of one value. Coarser levels keep no more.

    Raises:
        IndexError: the hierarchy has no such level.
    """
    sizes = hierarchy.label_sizes(level)
    domain = sum(size * labels for size, labels in sizes.items())
    if domain <= 1:
        return Fraction(0)
    # Decimal logarithms are correctly rounded, so that every machine finds the same integer.
    lost = Decimal(0)
    for size, labels in sorted(sizes.items()):
        lost = _EXACT.add(lost, _EXACT.multiply(Decimal(size * labels), _EXACT.ln(Decimal(size))))
    share = _EXACT.divide(lost, _EXACT.multiply(Decimal(domain), _EXACT.ln(Decimal(domain))))
    return 1 - Fraction(round(Fraction(share) * _SHARE_UNIT), _SHARE_UNIT)


@dataclass(frozen=True, kw_only=True)
class MapWeights:
    """W(g) of every candidate: an integer, WEIGHT_UNIT for the candidates that keep most.

    W(g) = ⌊WEIGHT_UNIT · w(g) / max w⌋, where w(g) is the average of `information_kept` over the columns with
    their weights, and the largest is taken over the candidates, of chains over all their maps. The
    quality of g in units of 1/WEIGHT_UNIT is
    W(g)·Σ max(0, c − k′ + 1), c running over the sizes of its groups.

    INVARIANT: 0 ≤ W(g) ≤ WEIGHT_UNIT, and W is a function of the lattice alone (docs/proofs/map-quality.md).
    """

    lattice: Lattice

    def of(self, levels: Levels) -> int:
        """W of the map with these levels; they must lie within the columns' bounds."""
        largest = self._largest
        return 0 if largest == 0 else WEIGHT_UNIT * self._sum(levels) // largest

    def of_all(self) -> NDArray[np.int64]:
        """W of every candidate, by number; shape (size,)."""
        weights = (self.of(self.lattice.levels_of(index)) for index in range(self.lattice.size))
        return np.fromiter(weights, dtype=np.int64, count=self.lattice.size)

    @cached_property
    def _shares(self) -> tuple[tuple[int, ...], ...]:
        """Return per column and level from its finest, weight · information kept over a common denominator."""
        columns = self.lattice.columns
        exact = [
            [
                Fraction(column.weight) * information_kept(column.hierarchy, level)
                for level in range(column.min_level, column.max_level + 1)
            ]
            for column in columns
        ]
        denominator = _common([share for shares in exact for share in shares])
        return tuple(tuple(int(share * denominator) for share in shares) for shares in exact)

    @cached_property
    def _largest(self) -> int:
        if self.lattice.candidates is None:  # finer levels keep no less
            return self._sum(self.lattice.finest)
        by_stage = self.lattice.by_stage
        return max(self._sum(levels) for candidate in self.lattice.candidates for levels in by_stage(candidate))

    def _sum(self, levels: Levels) -> int:
        return sum(
            shares[level - column.min_level]
            for shares, column, level in zip(self._shares, self.lattice.columns, levels, strict=True)
        )


def _common(fractions: Sequence[Fraction]) -> int:
    """Return a common denominator."""
    return lcm(*(fraction.denominator for fraction in fractions))


Rule = Literal["permute-and-flip", "exponential"]

_SHARE_PLACES = 12


def draw_scale(epsilon: Decimal) -> float:
    """Return the scale s of the draw, WEIGHT_UNIT/ε₁ rounded up, so that a factor e^{u/s} is worth at most ε₁.

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
    if not share:
        raise ValueError(f"{steps} steps leave no share of the selection's epsilon {epsilon}")
    return [share] * steps


def neighbours(lattice: Lattice, levels: Levels) -> tuple[Levels, ...]:
    """Return the map itself and those that differ by one level in one column, ascending; all within the bounds."""
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
    taken: Sequence[Levels] = (),
    keep: Callable[[Levels], None] | None = None,
) -> Levels:
    """Draw a map of a lattice too large to enumerate, by a walk from the coarsest of so many steps, fixed beforehand.

    Each step is an exponential mechanism with an equal share of ε₁ among the current map and its neighbours. The
    walk is ε₁-private as the composition of its steps, whatever it visits (docs/proofs/map-quality.md).

    PRIVACY: the last draw is the result, never the best map visited, and all steps are made.

    Args:
        score_of: qualities of some maps, in units of 1/WEIGHT_UNIT, in their order; shape (maps,).
        taken: draws of an earlier, broken-off run of this same walk, in order; they are not drawn again.
        keep: given each draw before anything depends on it, to store it privately.

    Raises:
        ValueError: the lattice is a list, steps or ε₁ are out of range, or a draw is not of the lattice.
    """
    if lattice.candidates is not None:
        raise ValueError("a walk goes through all combinations of levels, not through a list of candidates")
    shares = epsilon_shares(epsilon, steps)
    if len(taken) > steps:
        raise ValueError(f"a walk of {steps} steps has no {len(taken)} draws")
    for levels in taken:
        lattice.index_of(levels)
    current = taken[-1] if taken else lattice.coarsest
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
        """Return the names of the columns, in order."""
        return self.lattice.names

    @property
    def columns(self) -> tuple[LatticeColumn, ...]:
        """Return the columns, with the bounds of their levels, in order."""
        return self.lattice.columns

    def digest(self) -> str:
        """Return the SHA-256 of the lattice in canonical form, 64 hexadecimal digits."""
        return self.lattice.digest()
