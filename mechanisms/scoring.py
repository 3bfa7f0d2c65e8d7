"""The quality of every candidate map, exactly, by roll-ups from finer to coarser maps on prefix codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .lattice import Lattice, Levels
from .prefix_keys import PrefixKeys, prefix_keys
from .quality import MapWeights
from .suppression import GroupCounts

__all__ = ["Scored", "scores", "scores_of"]

Scored = Callable[[int, int], None]
"""Told how many maps are scored, and of how many."""


def scores(
    counts: GroupCounts,
    *,
    lattice: Lattice,
    threshold: int,
    advanced: Scored | None = None,
    threads: int = 2,
) -> NDArray[np.int64]:
    """The quality of every candidate in units of 1/WEIGHT_UNIT, by number; shape (size,).

    PRIVACY: scores are private; they go to the draw and nowhere else.

    Args:
        counts: groups of the map `lattice.finest` and their sizes.
        lattice: the candidates, enumerable.
        threshold: k′, as `group_threshold`.
        advanced: told of the progress; for the steward's terminal alone.
        threads: at most this many at a time.

    Raises:
        ValueError: a lattice too large to enumerate, a threshold below 1, or more than 2**42 records.
    """
    del threads
    if not lattice.enumerable:
        raise ValueError(f"{lattice.size} maps are too many to score them all")
    candidates = [lattice.levels_of(index) for index in range(lattice.size)]
    found = scores_of(candidates, counts=counts, lattice=lattice, threshold=threshold)
    if advanced is not None:
        advanced(lattice.size, lattice.size)
    return found


def scores_of(maps: Sequence[Levels], *, counts: GroupCounts, lattice: Lattice, threshold: int) -> NDArray[np.int64]:
    """The quality of some maps, for the walk; each on its own from the finest map that they need."""
    weights = MapWeights(lattice=lattice)
    keys = prefix_keys(counts, lattice=lattice)
    base = keys.coarsened(tuple(min(levels) for levels in zip(*maps, strict=True)))
    return np.array([weights.of(levels) * excess(base.coarsened(levels), threshold) for levels in maps], dtype=np.int64)


def excess(groups: PrefixKeys, threshold: int) -> int:
    """Σ max(0, c − k′ + 1) over the sizes c of all groups."""
    large = groups.counts[groups.counts >= threshold]
    return int(large.sum()) - (threshold - 1) * large.size
