"""What would help, tried on the public crowd: single steps, the same price otherwise spent, the best of all maps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from operator import ge

from ....flows.releases.kind import Suppressing
from ....mechanisms.errors import InputRefused
from ....mechanisms.map_selection.draw import MapChoice
from ....mechanisms.map_selection.lattice import Lattice, LatticeColumn, Levels, information_kept
from ....mechanisms.map_selection.rollup import scores
from ....mechanisms.recoding import GeneralizationMap
from ....mechanisms.suppression import GroupCounts
from ....tasks.request import Request
from .forecast import Forecast, rate_of, suppression_at
from .reference_population import ReferencePopulation

__all__ = ["MOST_MAPS", "Suggestion", "best_levels", "suggestions"]

MOST_MAPS = 5_000
LITTLE = 0.02
MOST_STEPS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """One thing to change.

    Args:
        what: in words.
        suppressed: share that would then be left out.
        records: records that would then be published.
        information: share that the map would keep of what is told at the finest levels, by the columns' weights.
        epsilon: what it would cost.
    """

    what: str
    suppressed: float
    records: float
    information: float
    epsilon: float


def suggestions(
    request: Request, mechanism: Suppressing, crowd: ReferencePopulation, told: Forecast
) -> tuple[Suggestion, ...]:
    """What would help, most helpful kinds first; empty where nothing does."""
    levels = tuple(told.levels.values())
    found = [*_another_map(request, mechanism, crowd, told, levels)]
    found += sorted(_steps(request, crowd, told, levels), key=lambda one: -one.information * (1.0 - one.suppressed))[
        :MOST_STEPS
    ]
    return (*found, *_other_spending(crowd, request, told, levels))


def best_levels(request: Request, mechanism: Suppressing, crowd: ReferencePopulation) -> Levels | None:
    """The map that keeps most on the crowd, by the quality that a private draw has; None where they are too many."""
    lattice = _lattice(request, crowd)
    if lattice.size > MOST_MAPS:
        return None
    base = lattice.map_of(lattice.finest)
    groups = crowd.at(lattice.finest)
    counts = GroupCounts(base.keys(list(groups.codes)), groups.counts)
    threshold = max(1, ceil(mechanism.k / (float(rate_of(mechanism)) * crowd.scale)))
    scored = scores(counts, lattice=lattice, threshold=threshold)
    if not scored.any():
        return lattice.coarsest  # no group of any map is large enough
    return lattice.levels_of(int(scored.argmax()))


def _lattice(request: Request, crowd: ReferencePopulation) -> Lattice:
    """The maps that may be suggested: a choice's own candidates, or all; nowhere finer than the crowd.

    Raises:
        InputRefused: every candidate is finer somewhere.
    """
    match request.recoding:
        case MapChoice(lattice=lattice):
            columns = lattice.columns
            listed = lattice.candidates
        case GeneralizationMap():
            columns = tuple(
                LatticeColumn(
                    name=name, hierarchy=hierarchy, min_level=0, max_level=hierarchy.levels - 1, weight=Decimal(1)
                )
                for name, hierarchy in zip(crowd.names, crowd.hierarchies, strict=True)
            )
            listed = None
    if listed is not None:
        listed = tuple(levels for levels in listed if all(map(ge, levels, crowd.base)))
    for least, column in zip(crowd.base, columns, strict=True):
        if least > column.max_level or listed == ():
            raise InputRefused(
                f"no candidate is as coarse as what is known; the column {column.name!r} is known at level {least}.",
                where="--release",
            )
    bounded = (
        dataclasses.replace(column, min_level=max(least, column.min_level))
        for least, column in zip(crowd.base, columns, strict=True)
    )
    return Lattice(columns=tuple(bounded), candidates=listed)


def _information(request: Request, crowd: ReferencePopulation, levels: Levels) -> float:
    """Share of the information that a map keeps of that at the crowd's own levels, by the columns' weights."""
    weights = [float(column.weight) for column in _lattice(request, crowd).columns]
    kept, most = (
        sum(
            weight * float(information_kept(hierarchy, level))
            for weight, hierarchy, level in zip(weights, crowd.hierarchies, chosen, strict=True)
        )
        for chosen in (levels, crowd.base)
    )
    return kept / most if most else 0.0


def _suggestion(request: Request, crowd: ReferencePopulation, told: Forecast, levels: Levels, what: str) -> Suggestion:
    then = suppression_at(crowd, levels, k=told.k, rate=told.rate)
    return Suggestion(
        what=what,
        suppressed=then.suppressed,
        records=then.records,
        information=_information(request, crowd, levels),
        epsilon=told.epsilon,
    )


def _another_map(
    request: Request, mechanism: Suppressing, crowd: ReferencePopulation, told: Forecast, levels: Levels
) -> Iterator[Suggestion]:
    best = best_levels(request, mechanism, crowd)
    if best is None or best == levels:
        return
    words = ", ".join(
        f"{name} {then}" for name, now, then in zip(crowd.names, levels, best, strict=True) if now != then
    )
    yield _suggestion(request, crowd, told, best, f"Of all maps this one keeps most on this crowd; levels: {words}")


def _steps(request: Request, crowd: ReferencePopulation, told: Forecast, levels: Levels) -> Iterator[Suggestion]:
    """One level more for one column, where that saves enough to be worth it; one less, where little is lost."""
    lattice = _lattice(request, crowd)
    if lattice.candidates is not None:
        return
    for place, column in enumerate(lattice.columns):
        coarser = (*levels[:place], levels[place] + 1, *levels[place + 1 :])
        finer = (*levels[:place], levels[place] - 1, *levels[place + 1 :])
        if levels[place] < column.max_level:
            step = _suggestion(request, crowd, told, coarser, f"Publish {column.name} at level {levels[place] + 1}")
            if told.estimate.suppressed - step.suppressed > LITTLE:
                yield step
        if levels[place] > column.min_level:
            step = _suggestion(request, crowd, told, finer, f"Publish {column.name} at level {levels[place] - 1}")
            if step.suppressed < min(1.0, told.estimate.suppressed + LITTLE):
                yield step


def _other_spending(
    crowd: ReferencePopulation, request: Request, told: Forecast, levels: Levels
) -> Iterator[Suggestion]:
    """Another rate with its least k at no higher price, where it publishes clearly more."""
    best = max(told.same_price, key=lambda point: point.records, default=None)
    if best is None or best.epsilon is None or best.records <= (1.0 + LITTLE) * told.estimate.records:
        return
    yield Suggestion(
        what=f"Spend the same ε on rate {best.rate:g} with k = {best.k}",
        suppressed=best.suppressed,
        records=best.records,
        information=_information(request, crowd, levels),
        epsilon=best.epsilon,
    )
