"""The quality of every candidate map, exactly: by roll-ups on prefix keys, or each map on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .lattice import Lattice, Levels
from .prefix_coding import prefix_keys
from .quality import MapWeights
from .rollup import excess, rolled_up
from .suppression import GroupCounts, sum_counts

__all__ = ["Scored", "scorer", "scores"]

Scored = Callable[[int, int], None]
"""Told how many maps are scored, and of how many."""


def scores(
    counts: GroupCounts,
    *,
    lattice: Lattice,
    threshold: int,
    advanced: Scored | None = None,
    threads: int = 1,
) -> NDArray[np.int64]:
    """The quality of every candidate in units of 1/WEIGHT_UNIT, by number; shape (size,).

    The quality of g is W(g)·Σ max(0, c − k′ + 1) over the sizes c of its groups, in exact integers. Where a column
    has so many and so uneven levels that its prefix keys don't fit a word, each map is counted on its own, which takes
    longer.

    PRIVACY: scores are private; they go to the draw and nowhere else.

    Args:
        counts: groups of the map `lattice.finest` and their sizes.
        lattice: the candidates, enumerable.
        threshold: k′, as `group_threshold`.
        advanced: told of the progress; for the steward's terminal alone.
        threads: how many share the work; they change nothing but the time.

    Raises:
        ValueError: a lattice too large to enumerate, a threshold or a number of threads below 1, more than 2**42
            records, or groups of another map.
    """
    if not lattice.enumerable:
        raise ValueError(f"{lattice.size} maps are too many to score them all")
    _check(threshold)
    if threads < 1:
        raise ValueError(f"the work needs at least one thread, not {threads}")
    base = prefix_keys(counts, lattice=lattice)
    if base is None:
        kept = _one_by_one(counts, lattice=lattice, threshold=threshold, advanced=advanced)
    else:
        kept = rolled_up(base, lattice=lattice, threshold=threshold, advanced=advanced, threads=threads)
    return kept * MapWeights(lattice=lattice).of_all()


def scorer(counts: GroupCounts, *, lattice: Lattice, threshold: int) -> Callable[[Sequence[Levels]], NDArray[np.int64]]:
    """A function that gives the qualities of a few maps, in their order, shape (maps,); for the walk.

    Args:
        counts: groups of the map `lattice.finest` and their sizes.
        lattice: the candidates, of any number.
        threshold: k′, as `group_threshold`.

    Raises:
        ValueError: as `scores`.
    """
    _check(threshold)
    base = prefix_keys(counts, lattice=lattice)
    weights = MapWeights(lattice=lattice)

    def qualities(maps: Sequence[Levels]) -> NDArray[np.int64]:
        if base is None:
            kept = [_kept(counts, lattice=lattice, levels=levels, threshold=threshold) for levels in maps]
        else:
            nearest = base.coarsened(tuple(min(levels) for levels in zip(*maps, strict=True)))
            kept = [excess(nearest.coarsened(levels).counts, threshold) for levels in maps]
        return np.array([weights.of(levels) * one for levels, one in zip(maps, kept, strict=True)], dtype=np.int64)

    return qualities


def _one_by_one(counts: GroupCounts, *, lattice: Lattice, threshold: int, advanced: Scored | None) -> NDArray[np.int64]:
    found = np.zeros(lattice.size, dtype=np.int64)
    for number in range(lattice.size):
        found[number] = _kept(counts, lattice=lattice, levels=lattice.levels_of(number), threshold=threshold)
        if advanced is not None:
            advanced(number + 1, lattice.size)
    return found


def _kept(counts: GroupCounts, *, lattice: Lattice, levels: Levels, threshold: int) -> int:
    """Σ max(0, c − k′ + 1) of one map, from the groups of the finest."""
    fine, coarse = lattice.map_of(lattice.finest), lattice.map_of(levels)
    codes = [
        source.hierarchy.coarser(own, level=source.level, to=target.level)
        for source, target, own in zip(fine.columns, coarse.columns, fine.decode(counts.keys), strict=True)
    ]
    return excess(sum_counts(coarse.keys(codes), counts.counts).counts, threshold)


def _check(threshold: int) -> None:
    if threshold < 1:
        raise ValueError(f"the threshold must be at least 1, not {threshold}")
