"""The quality of chains of maps, which a deletion release draws among."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.recoding import coarsened
from ..kinds.deletion import residual_counts
from .choice import WEIGHT_UNIT, Lattice, MapWeights

_MOST_SCORED = 1 << 42

Counts = NDArray[np.int64]


def chain_quality(
    counts: Counts, *, parents: Sequence[Counts], thresholds: Sequence[int], weights: Sequence[int]
) -> int:
    """Return the quality of a chain of maps, Σ_s w_s·Σ_g max(0, R_g − m_s), in units of 1/WEIGHT_UNIT.

    R of the first stage are the counts; what exceeds m_s is taken off, the rest goes on to the next stage. It is what
    would be published if every group lost m_s records. Adding a record raises it by 0 … WEIGHT_UNIT and lowers nothing
    (docs/proofs/deletion.md), so that it may be drawn by as the quality of a map (docs/proofs/map-quality.md).

    Args:
        counts: records of each group of the finest map, shape (groups of the first stage,).
        parents: for each stage but the last, the number of each group's group at the next stage.
        thresholds: m_s of each stage, public, at least 0.
        weights: w_s of each stage in units of 1/WEIGHT_UNIT, public, 0 … WEIGHT_UNIT.

    Raises:
        ValueError: a number of stages that differs, or a threshold or weight out of range.
    """
    if not len(thresholds) == len(weights) == len(parents) + 1:
        raise ValueError("each stage needs a threshold and a weight")
    if min(thresholds) < 0 or not 0 <= min(weights) <= max(weights) <= WEIGHT_UNIT:
        raise ValueError(f"thresholds must be at least 0, and weights lie in 0 … {WEIGHT_UNIT}")
    quality = 0
    for place, (threshold, weight) in enumerate(zip(thresholds, weights, strict=True)):
        taken = np.maximum(counts - threshold, 0)
        quality += weight * int(taken.sum())
        if place < len(parents):
            step = parents[place]
            counts = residual_counts(counts, taken, step, groups=int(step.max(initial=-1)) + 1)
    return quality


def chain_scores(
    counts: GroupCounts,
    *,
    lattice: Lattice,
    threshold: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> Counts:
    """Return the quality of each candidate chain: `chain_quality` with m = k′ − 1 at each stage.

    A stage's weight is that of its map (`MapWeights`); a chain of one map has the quality that `rollup.scores` gives.

    Returns:
        Shape (candidates,).

    Raises:
        ValueError: candidates that aren't listed, a threshold below 1, or more than 2**42 records.
    """
    if lattice.candidates is None:
        raise ValueError("the chains to choose from are listed")
    if threshold < 1:
        raise ValueError(f"the threshold must be at least 1, not {threshold}")
    if int(counts.counts.sum()) > _MOST_SCORED:
        raise ValueError("there are more records than qualities can be written down for")
    weights, finest = MapWeights(lattice=lattice), lattice.map_of(lattice.finest)
    found = np.zeros(lattice.size, dtype=np.int64)
    for number, levels in enumerate(lattice.candidates):
        maps = lattice.chain_of(levels)
        keys, places = coarsened(counts.keys, finer=finest, coarser=maps[0], tables=finest.tables_to(maps[0]))
        sizes = residual_counts(counts.counts, np.zeros_like(counts.counts), places, groups=keys.shape[1])
        parents: list[Counts] = []
        for finer, coarser in pairwise(maps):
            keys, above = coarsened(keys, finer=finer, coarser=coarser, tables=finer.tables_to(coarser))
            parents.append(above)
        found[number] = chain_quality(
            sizes,
            parents=parents,
            thresholds=[threshold - 1] * lattice.stages,
            weights=[weights.of(one) for one in lattice.by_stage(levels)],
        )
        if on_progress is not None:
            on_progress(number + 1, lattice.size)
    return found
