"""Deletion releases: a secret random number of records is deleted from each group, and the rest is published."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ..kernel.mechanism import Mechanism
from .deletion_noise import DeletionNoise, GaussianDeletion, expected_deletion

Counts = NDArray[np.int64]
Integers = NDArray[np.integer]
_GROUPS_AT_ONCE = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionRelease(Mechanism):
    """One release of all records by a chain of fixed maps, the finest first, each a coarsening of the one before.

    Each stage publishes max(0, R − Z) records of each of its groups, Z drawn afresh for each group of each stage; the
    others go on to the next stage, as part of the group that theirs belongs to there. So every published record is
    another one. A group of which fewer than k would be published at a stage publishes none there.

    The test by k costs nothing (docs/proofs/deletion.md). The records of a group that k keeps back go on to the next
    stage too, so that more is published than if they were dropped.

    Args:
        stages: maps in the chain, at least 1.
        k: the smallest number of records that a stage publishes of a group, at least 1.
        noise: the law of Z, the same at all stages.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "deletion"

    stages: int
    k: int
    noise: DeletionNoise

    def __post_init__(self) -> None:
        if self.stages < 1:
            raise ValueError(f"there must be at least one stage, not {self.stages}")
        if self.k < 1:
            raise ValueError(f"k must be at least 1, not {self.k}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedDeletion(DeletionRelease):
    """A deletion release whose map or chain of maps is the draw of an ε₁-private mechanism among public candidates.

    The draw is made on all records with coins of its own, and stored before the records are counted with it.

    Args:
        selection_epsilon: ε₁ of the draw, above 0.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "selected_deletion"

    selection_epsilon: Decimal

    def __post_init__(self) -> None:
        DeletionRelease.__post_init__(self)  # super() knows no dataclass with slots
        if not (self.selection_epsilon.is_finite() and self.selection_epsilon > 0):
            raise ValueError(f"the selection's epsilon must be positive, not {self.selection_epsilon}")

    @property
    def release(self) -> DeletionRelease:
        """The release that follows the draw, by itself."""
        return DeletionRelease(stages=self.stages, k=self.k, noise=self.noise)

    @property
    def selection_threshold(self) -> int:
        """k′ = ⌈E[Z]⌉ + k: the size from which on a group's records count for a candidate."""
        return math.ceil(expected_deletion(self.noise)) + self.k


@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialDeletion(SelectedDeletion):
    """The same where the map is drawn by exponential mechanisms alone, which have a bounded range.

    Args:
        selection_draws: how many of them share ε₁ evenly, one after the other: the steps of a walk, or 1.

    Raises:
        ValueError: a field outside its range.
    """

    selection_draws: int

    def __post_init__(self) -> None:
        SelectedDeletion.__post_init__(self)  # super() knows no dataclass with slots
        if self.selection_draws < 1:
            raise ValueError(f"there must be at least one draw, not {self.selection_draws}")


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibratedDeletion(DeletionRelease):
    """A deletion release with noisy margins of the same records beside it (`margins.py`), to which weights are raked.

    Every cell of every margin, empty ones too, is published as its count and Z − m, Z drawn afresh by the integer
    weights of a truncated discrete Gaussian on 0 … 2m: with one record more the pair is (Z, Z + 1), as of a stage.

    Args:
        margins: how many margins are published, at least 1.
        margin_scale: σ of their noise.
        margin_width: m of their noise.

    Raises:
        ValueError: a field outside its range.
    """

    margins: int
    margin_scale: Decimal
    margin_width: int

    def __post_init__(self) -> None:
        DeletionRelease.__post_init__(self)
        if self.margins < 1:
            raise ValueError(f"there must be at least one margin, not {self.margins}")
        GaussianDeletion(scale=self.margin_scale, width=self.margin_width)

    @property
    def margin_noise(self) -> GaussianDeletion:
        """The law of Z for each cell of a margin."""
        return GaussianDeletion(scale=self.margin_scale, width=self.margin_width)


def stage_counts(counts: Counts, deletions: Integers, *, k: int) -> Counts:
    """Return how many records a stage publishes of each group, shape (groups,); 0 where it publishes none."""
    kept = counts - deletions
    # PRIVACY: k is compared with what would be published, which is noisy already, and never with a count of records.
    kept[kept < max(k, 1)] = 0
    return kept


def residual_counts(counts: Counts, published: Counts, parents: Integers, *, groups: int) -> Counts:
    """Return how many records are left for the next stage in each of its groups, by the groups' parents there.

    INVARIANT: a published record is left nowhere: the residual of a group is its records less all that were published.
    All but `groups`, the number of the next stage's groups, have the shape (n,).
    """
    left = np.zeros(groups, dtype=np.int64)
    for first in range(0, counts.size, _GROUPS_AT_ONCE):  # some at a time, so that the differences take little memory
        block = slice(first, first + _GROUPS_AT_ONCE)
        np.add.at(left, parents[block], counts[block] - published[block])
    return left


def delete_records(
    counts: Counts, *, release: DeletionRelease, parents: Sequence[Integers], deletions: Iterable[Integers]
) -> list[Counts]:
    """Return how many records each stage publishes of each of its groups.

    Args:
        counts: records of each group of the finest map, shape (groups of the first stage,).
        release: the mechanism.
        parents: for each stage but the last, the number of each group's group at the next stage.
        deletions: for each stage, Z of each of its groups, from `draw_deletions`; each is taken as its turn comes.

    Raises:
        ValueError: the number of stages differs.
    """
    if len(parents) + 1 != release.stages:
        raise ValueError(f"{release.stages} stages need as many draws, and one step fewer between them")
    published: list[Counts] = []
    for step, drawn in zip((None, *parents), deletions, strict=True):
        if step is not None:
            counts = residual_counts(counts, published[-1], step, groups=drawn.size)
        published.append(stage_counts(counts, drawn, k=release.k))
    return published
