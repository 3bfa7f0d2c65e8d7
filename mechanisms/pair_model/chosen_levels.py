"""Levels chosen by published figures: chains of maps, scored on records drawn from the model of what is published.

Nothing here sees a record of a person: it is a deterministic function of published counts and public declarations, so
that the choice costs nothing, and whoever has the release computes it again ("levels/1").
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..generalization_map import GeneralizationMap
from ..kernel.group_counts import GroupCounts, count_keys
from ..kernel.recoding import coarsened
from ..map_selection.chains import chain_quality
from ..map_selection.choice import Lattice, LatticeColumn, Levels, MapWeights
from .model import PairModel
from .shrinkage import Amounts

RULE = "levels/1"
MOST_DRAWN = 1 << 15
"""Records that are drawn from the model; where there are more people, thresholds are scaled down with them."""
LEAST_OF_FIRST_STAGE = 0.05
"""Of the records, to be published by the first stage with every column told; else columns may be given up."""
_SWEEPS = 6
_SEED = b"crowdblend levels 1\n"

Codes = NDArray[np.int64]


def model_records(model: PairModel, *, number: int) -> list[Codes]:
    """Return records drawn from the model along its forest, by public coins that are always the same.

    Returns:
        Per column the finest label of each record, each of shape (number,).
    """
    drawn: dict[int, Codes] = {}
    for start, margin in enumerate(model.margins):
        if start in drawn:
            continue
        drawn[start] = _draws(margin[None, :], np.zeros(number, dtype=np.int64), column=start)
        reached = [start]
        while reached:
            here = reached.pop()
            for column in model.neighbours[here]:
                if column not in drawn:
                    drawn[column] = _draws(model.table(here, column), drawn[here], column=column)
                    reached.append(column)
    return [drawn[column] for column in range(len(model.margins))]


def _draws(shares: Amounts, given: Codes, *, column: int) -> Codes:
    """Return for each record a label by the row of shares that it is given."""
    # Public coins: a verifier draws the same records and finds the same levels. They hide nothing, since whatever they
    # are applied to is published already.
    coins = hashlib.shake_256(_SEED + column.to_bytes(4, "big")).digest(4 * given.size)
    uniform = (np.frombuffer(coins, dtype=">u4").astype(np.float64) + 0.5) / 2.0**32
    labels = np.zeros(given.size, dtype=np.int64)
    sums = np.cumsum(shares, axis=1)
    for row in np.unique(given).tolist():
        own = np.flatnonzero(given == row)
        # Scaled by the last partial sum instead of dividing the shares by it: the sums of the doubles may differ from
        # 1, and a coin beyond them would have no label.
        places = np.searchsorted(sums[row], uniform[own] * sums[row, -1], side="right")
        labels[own] = np.minimum(places, shares.shape[1] - 1)
    return labels


@dataclass(frozen=True, kw_only=True)
class LevelChoice:
    """Which levels the stages may have.

    Args:
        columns: with the bounds of their levels and their weights.
        stages: maps in a chain, at least 1.
        threshold: k′, from which size on a group's records count.
    """

    columns: tuple[LatticeColumn, ...]
    stages: int
    threshold: int

    @cached_property
    def lattice(self) -> Lattice:
        """Return every map that a stage may have."""
        return Lattice(columns=self.columns)

    @property
    def counted(self) -> GeneralizationMap:
        """Return the finest map."""
        return self.lattice.map_of(self.lattice.finest)

    def chain(self, model: PairModel) -> tuple[Levels, ...]:
        """Return the levels of each stage, the finest first: a chain that no single change makes better.

        One column's level at one stage is changed at a time, as long as that raises the quality of `[selection]`. At
        the first stage no column is `*`, so that none is hidden in all rows. Where too few rows would be published
        then, since there are too few records for all columns together, columns may be given up.
        """
        scorer = self._scorer(model)
        whole = self._best(scorer, tuple(map(self._last_told, range(len(self.columns)))))
        if scorer.share_of_first_stage(whole) >= LEAST_OF_FIRST_STAGE:
            return whole
        return max(whole, self._best(scorer, self.lattice.coarsest), key=scorer.quality)

    def _best(self, scorer: _Scorer, coarsest: Levels) -> tuple[Levels, ...]:
        """Return the better of two climbs, one from the middle and one from the coarsest levels.

        Args:
            scorer: of chains.
            coarsest: levels that the first stage may have at most.
        """
        # From the middle the climb may begin where no chain nearby publishes anything; from the coarsest it doesn't.
        later = (self.lattice.coarsest,) * (self.stages - 1)
        climbs = [self._climbed(scorer, begin, coarsest) for begin in (self._begin(), (coarsest, *later))]
        return max(climbs, key=scorer.quality)

    def _climbed(self, scorer: _Scorer, begin: tuple[Levels, ...], coarsest: Levels) -> tuple[Levels, ...]:
        best, quality = begin, scorer.quality(begin)
        for _ in range(_SWEEPS):
            before = best
            for stage in range(self.stages):
                for column in range(len(self.columns)):
                    for candidate in self._changed(best, stage, column, coarsest):
                        found = scorer.quality(candidate)
                        if found > quality:
                            best, quality = candidate, found
            if best == before:
                break
        return best

    def scored(self, model: PairModel, chain: tuple[Levels, ...]) -> int:
        """Return a chain's quality on records drawn from a model."""
        return self._scorer(model).quality(chain)

    def _scorer(self, model: PairModel) -> _Scorer:
        number = min(MOST_DRAWN, max(1, round(model.records)))
        return _Scorer(choice=self, codes=model_records(model, number=number), scale=number / model.records)

    def _begin(self) -> tuple[Levels, ...]:
        """Return levels evenly between the middle and the coarsest that tell something."""
        ways = []
        for column in self.columns:
            informative = [
                level for level in range(column.min_level, column.max_level + 1) if column.hierarchy.size(level) > 1
            ]
            last = informative[-1] if informative else column.max_level
            middle = (column.min_level + last + 1) // 2
            steps = max(self.stages - 1, 1)
            ways.append([middle + (last - middle) * stage // steps for stage in range(self.stages)])
        return tuple(tuple(levels[stage] for levels in ways) for stage in range(self.stages))

    def _last_told(self, column: int) -> int:
        """Return a column's coarsest level that has more labels than one; its coarsest where none has."""
        own = self.columns[column]
        levels = range(own.max_level, own.min_level - 1, -1)
        return next((level for level in levels if own.hierarchy.size(level) > 1), own.max_level)

    def _changed(
        self, chain: tuple[Levels, ...], stage: int, column: int, coarsest: Levels
    ) -> list[tuple[Levels, ...]]:
        """Return the chain with each level that one column may have at one stage, between those of its neighbours."""
        bounds = self.columns[column]
        # Levels may only rise from stage to stage: a stage's label must follow from the one before.
        low = bounds.min_level if stage == 0 else chain[stage - 1][column]
        high = coarsest[column] if stage == 0 else bounds.max_level
        high = high if stage == self.stages - 1 else min(high, chain[stage + 1][column])
        return [
            (*chain[:stage], (*chain[stage][:column], level, *chain[stage][column + 1 :]), *chain[stage + 1 :])
            for level in range(low, high + 1)
        ]


@dataclass(frozen=True, kw_only=True)
class _Scorer:
    """Scores chains on drawn records."""

    choice: LevelChoice
    codes: Sequence[Codes]
    scale: float

    @cached_property
    def _weights(self) -> MapWeights:
        return MapWeights(lattice=self.choice.lattice)

    @cached_property
    def _known(self) -> dict[tuple[Levels, ...], int]:
        return {}

    def quality(self, chain: tuple[Levels, ...]) -> int:
        """Return the chain's quality, `chain_quality` of the drawn records."""
        if chain not in self._known:
            lattice = self.choice.lattice
            maps = [lattice.map_of(levels) for levels in chain]
            groups = self._groups(maps[0])
            keys, parents = groups.keys, []
            for finer, coarser in pairwise(maps):
                keys, above = coarsened(keys, finer=finer, coarser=coarser, tables=finer.tables_to(coarser))
                parents.append(above)
            # Fewer records are drawn than there are people, so a group's size on them is smaller by the same factor.
            self._known[chain] = chain_quality(
                groups.counts,
                parents=parents,
                thresholds=[self._threshold] * len(maps),
                weights=[self._weights.of(levels) for levels in chain],
            )
        return self._known[chain]

    def share_of_first_stage(self, chain: tuple[Levels, ...]) -> float:
        """Return which share of the drawn records the first stage would publish."""
        sizes = self._groups(self.choice.lattice.map_of(chain[0])).counts
        return int(np.maximum(sizes - self._threshold, 0).sum()) / int(sizes.sum())

    @property
    def _threshold(self) -> int:
        return round((self.choice.threshold - 1) * self.scale)

    def _groups(self, one: GeneralizationMap) -> GroupCounts:
        """Return the groups of the drawn records by a map."""
        tables = self.choice.counted.tables_to(one)
        codes = [
            own if table is None else table[own].astype(np.int64) for own, table in zip(self.codes, tables, strict=True)
        ]
        return count_keys(one.keys(codes), cells=one.cells)
