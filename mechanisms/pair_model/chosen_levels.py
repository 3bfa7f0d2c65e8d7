"""Levels chosen by published figures: chains of maps, scored on records drawn from the model of what is published.

Nothing here sees a record of a person: it is a deterministic function of published counts and public declarations, so
that the choice costs nothing, and whoever has the release computes it again ("levels/2").
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
from ..kernel.recoding import KeyLayout
from ..map_selection.chains import chain_quality
from ..map_selection.choice import Lattice, LatticeColumn, Levels, MapWeights
from .model import PairModel
from .shrinkage import Amounts

RULE = "levels/2"
MOST_DRAWN = 1 << 15
"""Records that are drawn from the model; where there are more people, thresholds are scaled down with them."""
LEAST_OF_FIRST_STAGE = 0.05
"""Of the records, to be published by the first stage with every column told; else columns are given up."""
_SWEEPS = 6
_MOST_REMEMBERED = 4
MIXING = np.int64(-7046029254386353131)
"""An odd number, 2⁶⁴ over the golden ratio."""
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
        then, since there are too few records for all columns together, columns are given up one by one: next that
        without which the coarsest labels of the others publish most.
        """
        scorer, coarsest = self.scorer(model), tuple(map(self._last_told, range(len(self.columns))))
        while True:
            if coarsest == self.lattice.coarsest or scorer.share_published(coarsest) >= LEAST_OF_FIRST_STAGE:
                found = self._best(scorer, coarsest)
                if coarsest == self.lattice.coarsest or scorer.share_published(found[0]) >= LEAST_OF_FIRST_STAGE:
                    return found
            without = [
                (*coarsest[:place], column.max_level, *coarsest[place + 1 :])
                for place, column in enumerate(self.columns)
                if coarsest[place] < column.max_level
            ]
            coarsest = max(without, key=scorer.share_published)

    def _best(self, scorer: ChainScorer, coarsest: Levels) -> tuple[Levels, ...]:
        """Return the better of two climbs, one from the middle and one from the coarsest levels.

        Args:
            scorer: of chains.
            coarsest: levels that the first stage may have at most.
        """
        # From the middle the climb may begin where no chain nearby publishes anything; from the coarsest it doesn't.
        later = (self.lattice.coarsest,) * (self.stages - 1)
        climbs = [self._climbed(scorer, begin, coarsest) for begin in (self._begin(), (coarsest, *later))]
        return max(climbs, key=scorer.quality)

    def _climbed(self, scorer: ChainScorer, begin: tuple[Levels, ...], coarsest: Levels) -> tuple[Levels, ...]:
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

    def scorer(self, model: PairModel) -> ChainScorer:
        """Return what scores chains on records drawn from a model."""
        number = min(MOST_DRAWN, max(1, round(model.records)))
        return ChainScorer(choice=self, codes=model_records(model, number=number), scale=number / model.records)

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
class ChainScorer:
    """Scores chains on drawn records.

    Args:
        choice: of the levels.
        codes: per column, each drawn record's label at its finest level; each of shape (records,).
        scale: how many records are drawn for each one that there is.
    """

    choice: LevelChoice
    codes: Sequence[Codes]
    scale: float

    @cached_property
    def _weights(self) -> MapWeights:
        return MapWeights(lattice=self.choice.lattice)

    @cached_property
    def _known(self) -> dict[tuple[Levels, ...], int]:
        return {}

    @cached_property
    def _recent(self) -> dict[Levels, tuple[NDArray[np.int64], Codes]]:
        """Return the keys and groups of the drawn records by maps that were asked for last, the latest at the end."""
        return {}

    @cached_property
    def _layout(self) -> KeyLayout:
        """Return a layout that has room for the codes of every level."""
        return KeyLayout(
            sizes=tuple(
                max(one.hierarchy.size(level) for level in range(one.min_level, one.max_level + 1))
                for one in self.choice.columns
            )
        )

    def quality(self, chain: tuple[Levels, ...]) -> int:
        """Return the chain's quality, `chain_quality` of the drawn records."""
        if chain not in self._known:
            groups = [self._groups(levels) for levels in chain]
            parents = []
            for finer, coarser in pairwise(groups):
                above = np.zeros(int(finer.max()) + 1, dtype=np.int64)
                above[finer] = coarser
                parents.append(above)
            # Fewer records are drawn than there are people, so a group's size on them is smaller by the same factor.
            self._known[chain] = chain_quality(
                np.bincount(groups[0]),
                parents=parents,
                thresholds=[self._threshold] * len(chain),
                weights=[self._weights.of(levels) for levels in chain],
            )
        return self._known[chain]

    def share_published(self, levels: Levels) -> float:
        """Return which share of the drawn records a first stage of these levels would publish."""
        sizes = np.bincount(self._groups(levels))
        return int(np.maximum(sizes - self._threshold, 0).sum()) / int(sizes.sum())

    @property
    def _threshold(self) -> int:
        return round((self.choice.threshold - 1) * self.scale)

    def _groups(self, levels: Levels) -> Codes:
        """Return for each drawn record the number of its group by a map, from 0."""
        if levels not in self._recent:
            keys = self._keys(levels)
            self._recent[levels] = keys, numbered(keys)
            if len(self._recent) > _MOST_REMEMBERED * self.choice.stages:
                del self._recent[next(iter(self._recent))]
        self._recent[levels] = self._recent.pop(levels)  # the latest stands at the end
        return self._recent[levels][1]

    def _keys(self, levels: Levels) -> NDArray[np.int64]:
        """Return the drawn records' keys by a map; shape (words, records)."""
        # A climb changes one column at a time, and one of a hundred is quicker put in place than all.
        for near in reversed(self._recent):
            changed = [place for place, own in enumerate(levels) if own != near[place]]
            if len(changed) == 1:
                break
        else:
            return self._layout.keys([self._codes(column, level) for column, level in enumerate(levels)])
        [column] = changed
        self._groups(near)  # it will be near to the next ones too
        place, keys = self._layout.placements[column], self._recent[near][0].copy()
        keys[place.word] += (self._codes(column, levels[column]) - self._codes(column, near[column])) * place.stride
        return keys

    def _codes(self, column: int, level: int) -> Codes:
        own = self.choice.columns[column]
        if level == own.min_level:
            return self.codes[column]
        table = own.hierarchy.coarser(np.arange(own.hierarchy.size(own.min_level)), level=own.min_level, to=level)
        codes: Codes = table[self.codes[column]].astype(np.int64)
        return codes


def numbered(keys: NDArray[np.int64]) -> Codes:
    """Return for each key, of shape (words, n), the number of its group, from 0."""
    mixed = keys[0].copy()
    for word in keys[1:]:
        mixed *= MIXING  # modulo 2⁶⁴
        mixed += word
    order = np.argsort(mixed)
    ordered = keys[:, order]
    begins = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    numbers = np.empty(order.size, dtype=np.int64)
    numbers[order] = np.concatenate(([0], np.cumsum(begins)))
    if np.count_nonzero(begins) != np.count_nonzero(np.diff(mixed[order])):
        # Two keys have one mixed number, so that equal ones needn't stand together.
        return np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    return numbers
