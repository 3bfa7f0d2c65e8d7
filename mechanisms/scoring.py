"""The quality of every candidate map, exactly, by roll-ups from finer to coarser maps on prefix keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .lattice import Lattice, Levels
from .prefix_coding import prefix_keys
from .prefix_keys import PrefixKeys
from .quality import MapWeights
from .rollup import excess, rolled_up
from .suppression import GroupCounts

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

    The quality of g is W(g)·Σ max(0, c − k′ + 1) over the sizes c of its groups, in exact integers.

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
    base = prefix_keys(counts, lattice=lattice)
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
        nearest: PrefixKeys = base.coarsened(tuple(min(levels) for levels in zip(*maps, strict=True)))
        found = [weights.of(levels) * excess(nearest.coarsened(levels).counts, threshold) for levels in maps]
        return np.array(found, dtype=np.int64)

    return qualities


def _check(threshold: int) -> None:
    if threshold < 1:
        raise ValueError(f"the threshold must be at least 1, not {threshold}")
