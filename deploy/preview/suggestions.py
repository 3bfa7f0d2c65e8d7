"""What would help, tried on the public crowd: single steps, the same price otherwise spent, the best of all maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from ...mechanisms.lattice import Lattice, LatticeColumn, Levels
from ...mechanisms.map_choice import MapChoice
from ...mechanisms.quality import MapWeights
from ...mechanisms.recoding import GeneralizationMap
from ...mechanisms.scoring import scores
from ...mechanisms.suppression import GroupCounts
from ...tasks.request import Request
from .crowd import Crowd
from .forecast import Forecast, Suppressing, outlook_at, rate_of

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
        information: share of information that the map would keep, averaged over the columns.
        epsilon: what it would cost.
    """

    what: str
    suppressed: float
    records: float
    information: float
    epsilon: float


def suggestions(request: Request, mechanism: Suppressing, crowd: Crowd, told: Forecast) -> tuple[Suggestion, ...]:
    """What would help, most helpful kinds first; empty where nothing does."""
    levels = tuple(told.levels.values())
    found = [*_another_map(request, mechanism, crowd, told, levels)]
    found += sorted(_steps(request, crowd, told, levels), key=lambda one: -one.information * (1.0 - one.suppressed))[
        :MOST_STEPS
    ]
    return (*found, *_other_spending(crowd, request, told, levels))


def best_levels(request: Request, mechanism: Suppressing, crowd: Crowd) -> Levels | None:
    """The map that keeps most on the crowd, by the quality that a private draw has; None where they are too many."""
    lattice = _lattice(request, crowd)
    if lattice.size > MOST_MAPS:
        return None
    base = lattice.map_of(lattice.finest)
    groups = crowd.at(lattice.finest)
    counts = GroupCounts(base.keys(list(groups.codes)), groups.counts)
    threshold = max(1, ceil(mechanism.k / (float(rate_of(mechanism)) * crowd.scale)))
    scored = scores(counts, lattice=lattice, threshold=threshold)
    return lattice.levels_of(int(scored.argmax()))


def _lattice(request: Request, crowd: Crowd) -> Lattice:
    """The maps that may be suggested: a choice's own candidates, or all; nowhere finer than the crowd."""
    match request.recoding:
        case MapChoice(lattice=lattice):
            if crowd.base == lattice.finest:
                return lattice
            bounds = [
                (max(low, one.min_level), one.max_level, one.weight)
                for low, one in zip(crowd.base, lattice.columns, strict=True)
            ]
        case GeneralizationMap():
            bounds = [
                (low, hierarchy.levels - 1, Decimal(1))
                for low, hierarchy in zip(crowd.base, crowd.hierarchies, strict=True)
            ]
    return Lattice(
        columns=tuple(
            LatticeColumn(
                name=name, hierarchy=hierarchy, min_level=min(low, high), max_level=max(low, high), weight=weight
            )
            for name, hierarchy, (low, high, weight) in zip(crowd.names, crowd.hierarchies, bounds, strict=True)
        )
    )


def _information(request: Request, crowd: Crowd, levels: Levels) -> float:
    """W of a map, the share of the information that the finest map of the specification keeps."""
    lattice = _lattice(request, crowd)
    unbound = Lattice(columns=lattice.columns)
    return MapWeights(lattice=unbound).of(levels) / (1 << 20)


def _suggestion(request: Request, crowd: Crowd, told: Forecast, levels: Levels, what: str) -> Suggestion:
    then = outlook_at(crowd, levels, k=told.k, rate=told.rate)
    return Suggestion(
        what=what,
        suppressed=then.suppressed,
        records=then.records,
        information=_information(request, crowd, levels),
        epsilon=told.epsilon,
    )


def _another_map(
    request: Request, mechanism: Suppressing, crowd: Crowd, told: Forecast, levels: Levels
) -> Iterator[Suggestion]:
    best = best_levels(request, mechanism, crowd)
    if best is None or best == levels:
        return
    words = ", ".join(
        f"{name} {then}" for name, now, then in zip(crowd.names, levels, best, strict=True) if now != then
    )
    yield _suggestion(request, crowd, told, best, f"Of all maps this one keeps most on this crowd; levels: {words}")


def _steps(request: Request, crowd: Crowd, told: Forecast, levels: Levels) -> Iterator[Suggestion]:
    """One level more for one column, where that saves enough to be worth it; one less, where little is lost."""
    lattice = _lattice(request, crowd)
    for place, column in enumerate(lattice.columns):
        coarser = (*levels[:place], levels[place] + 1, *levels[place + 1 :])
        finer = (*levels[:place], levels[place] - 1, *levels[place + 1 :])
        if levels[place] < column.max_level:
            step = _suggestion(request, crowd, told, coarser, f"Publish {column.name} at level {levels[place] + 1}")
            if told.outlook.suppressed - step.suppressed > LITTLE:
                yield step
        if levels[place] > column.min_level:
            step = _suggestion(request, crowd, told, finer, f"Publish {column.name} at level {levels[place] - 1}")
            if step.suppressed - told.outlook.suppressed < LITTLE:
                yield step


def _other_spending(crowd: Crowd, request: Request, told: Forecast, levels: Levels) -> Iterator[Suggestion]:
    """Another rate with its least k at no higher price, where it publishes clearly more."""
    best = max(told.same_price, key=lambda point: point.records, default=None)
    if best is None or best.epsilon is None or best.records <= (1.0 + LITTLE) * told.outlook.records:
        return
    yield Suggestion(
        what=f"Spend the same ε on rate {best.rate:g} with k = {best.k}",
        suppressed=best.suppressed,
        records=best.records,
        information=_information(request, crowd, levels),
        epsilon=best.epsilon,
    )
