"""Which columns to leave out or to coarsen, and what that would bring back, tried on the reference population."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.generalization_map import columns_told
from ....mechanisms.hierarchies.declare import Hierarchy
from ....mechanisms.kernel.recoding import BUCKET_CODE
from ....mechanisms.map_selection.choice import Levels, information_kept
from .reference_population import Groups, ReferencePopulation

MOST_WORK = 30_000_000
"""So many groups are looked at over all that is tried; what is left is not tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TellingRecords:
    """How much the published records would tell, in expectation.

    Args:
        informative: Expected number of published records with at least one label that isn't `*`.
        columns_told: Largest number of columns that at least half of the published records tell.
        information: Share that is published of what the finest values of all columns would tell of everybody: a label
            counts by the share of its column's information that its level keeps, and `*` counts nothing.
    """

    informative: float
    columns_told: int
    information: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A column left out, or a level coarser at each stage, the others as they are.

    Args:
        column: Name of the column.
        change: The change in words.
        telling: What would then be informative; its information is a share of that of all columns.
    """

    column: str
    change: str
    telling: TellingRecords


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptColumn:
    """A column that is worth keeping, by what its best levels add to the columns before it.

    Args:
        column: Name of the column.
        levels: Level of the column at each stage.
        telling: What would be informative with this column and those before it.
    """

    column: str
    levels: tuple[int, ...]
    telling: TellingRecords


Evaluate = Callable[[ReferencePopulation, Sequence[Levels]], TellingRecords]
"""What would be told of a population by a release with these levels at each stage."""


def telling_records(
    reference: ReferencePopulation,
    chain: Sequence[Levels],
    published: Sequence[tuple[Groups, NDArray[np.float64]]],
) -> TellingRecords:
    """Add up what the stages of a release would tell.

    Args:
        reference: the population.
        chain: the levels of each stage.
        published: of each stage its groups and how many records of each would be published, shape (groups,).
    """
    stars, amount = [], 0.0
    for levels, (groups, times) in zip(chain, published, strict=True):
        stars.append([codes == BUCKET_CODE for codes in groups.codes])
        for hierarchy, level, starred in zip(reference.hierarchies, levels, stars[-1], strict=True):
            amount += _kept(hierarchy, level) * float(times[~starred].sum())
    every = {name: np.concatenate(parts) for name, parts in zip(reference.names, zip(*stars, strict=True), strict=True)}
    told = columns_told(every, np.maximum(np.concatenate([times for _, times in published]), 0.0))
    most = reference.people * len(reference.names)
    return TellingRecords(
        informative=told.informative, columns_told=told.median, information=amount / most if most else 0.0
    )


@lru_cache(maxsize=1024)
def _kept(hierarchy: Hierarchy, level: int) -> float:
    """Exact logarithms take long, and each attempt asks for the same ones."""
    return float(information_kept(hierarchy, level))


@dataclass(slots=True)
class _Tried:
    """What is told by some columns of a population; the information in shares of that of all its columns."""

    reference: ReferencePopulation
    evaluate: Evaluate
    left: int = MOST_WORK

    def at(self, places: Sequence[int], chain: Sequence[Levels]) -> TellingRecords | None:
        """Return what would be informative with these columns; None where enough has been tried."""
        if self.left <= 0:
            return None
        some = self.reference.of_columns(places)
        self.left -= self.reference.counts.size + some.counts.size * len(chain)
        found = self.evaluate(some, chain)
        share = len(places) / len(self.reference.names)
        return TellingRecords(
            informative=found.informative, columns_told=found.columns_told, information=found.information * share
        )


def column_changes(reference: ReferencePopulation, chain: Sequence[Levels], evaluate: Evaluate) -> tuple[Change, ...]:
    """Try each column left out, and a level coarser, alone; those that would have most information told come first.

    Args:
        reference: the population.
        chain: the levels of each stage.
        evaluate: what would be told.
    """
    tried, found = _Tried(reference, evaluate), []
    every = range(len(reference.names))
    for place, name in enumerate(reference.names):
        others = [other for other in every if other != place]
        if others and (without := tried.at(others, [_some(levels, others) for levels in chain])) is not None:
            found.append(Change(column=name, change="left out", telling=without))
        own = [levels[place] for levels in chain]
        coarser = next(_coarser(reference, place, own), None)
        if coarser is not None:
            moved = [
                (*levels[:place], level, *levels[place + 1 :]) for levels, level in zip(chain, coarser, strict=True)
            ]
            if (then := tried.at(every, moved)) is not None:
                words = ", ".join(map(str, coarser))
                found.append(Change(column=name, change=f"at level {words}", telling=then))
    return tuple(sorted(found, key=lambda one: (-one.telling.information, -one.telling.informative)))


def columns_kept(reference: ReferencePopulation, chain: Sequence[Levels], evaluate: Evaluate) -> tuple[KeptColumn, ...]:
    """Begin with no column and add the one, at its own or coarser levels, that has most information told.

    It ends where no other column adds any: those that are left take away more than they tell.

    Args:
        reference: the population.
        chain: the levels of each stage.
        evaluate: what would be told.
    """
    tried, kept = _Tried(reference, evaluate), list[tuple[int, tuple[int, ...], TellingRecords]]()
    while len(kept) < len(reference.names):
        best = None
        for place in range(len(reference.names)):
            if any(place == other for other, _, _ in kept):
                continue
            own = tuple(levels[place] for levels in chain)
            for levels in (own, *_coarser(reference, place, own)):
                places, columns = zip(*[(other, its) for other, its, _ in kept], (place, levels), strict=True)
                found = tried.at(places, list(zip(*columns, strict=True)))
                if found is None:
                    break
                if best is None or found.information > best[2].information:
                    best = (place, levels, found)
        if best is None or (kept and best[2].information <= kept[-1][2].information):
            break
        kept.append(best)
    return tuple(KeptColumn(column=reference.names[place], levels=own, telling=told) for place, own, told in kept)


def _some(levels: Levels, places: Sequence[int]) -> Levels:
    return tuple(levels[place] for place in places)


def _coarser(reference: ReferencePopulation, place: int, own: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """A column's levels at each stage, one coarser again and again, as far as the first has other labels than `*`."""
    hierarchy = reference.hierarchies[place]
    labelled = [level for level in range(hierarchy.levels) if hierarchy.size(level) > 1]
    levels = tuple(own)
    while labelled and levels[0] < labelled[-1]:
        levels = tuple(max(level, min(level + 1, labelled[-1])) for level in levels)
        yield levels
