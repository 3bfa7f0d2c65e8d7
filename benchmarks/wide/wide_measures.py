"""What a wide file's release is worth: all pairs of columns by their values, and triples within blocks of columns.

- *pairs*: NIST's k-marginal with k = 2, 500·(2 − d), d the mean over all pairs of columns of the L1 distance of the
  pair's two distributions, by the values that records are coded by.
- *triples*: the same of every three columns that stand together in a block of the table, by their usual labels.

Synthetic records are read as they are. A release's pairs are those that its files give as `fitted`, with the rest of
its model; a triple is what the rows of a block tell that has the three columns, scaled to its three pairs, or the three
pairs alone where no block has them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from crowdblend.flows.releases.paired_parts import PairedResult
from numpy.typing import NDArray

from ..utility.tables import USUAL_LEVEL
from .wide_tables import WideTable

__all__ = ["Partition", "Weighted", "WideTruth", "completed", "evenly_drawn", "fitted_to", "fitted_triple"]

Codes = NDArray[np.int64]
Amounts = NDArray[np.float64]

LEAST_COPIES = 200_000
"""Records that a release's rows are completed to, at least: each row stands there as often as that takes."""
ROUNDS = 25
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Weighted:
    """Records of some columns, and of how many people each stands.

    Args:
        columns: their numbers, ascending.
        codes: of values, shape (columns, records); -1 is a value that nobody declared.
        weights: shape (records,).
    """

    columns: tuple[int, ...]
    codes: Codes
    weights: Amounts

    def table(self, sizes: Sequence[int], labels: Mapping[int, Codes], *columns: int) -> Amounts:
        """Return the shares of the people by some columns, by labels of their values; shape (sizes,)."""
        places, there = np.zeros(self.weights.size, dtype=np.int64), np.ones(self.weights.size, dtype=bool)
        for column, size in zip(columns, sizes, strict=True):
            own = self.codes[self.columns.index(column)]
            there &= own >= 0
            places = places * size + labels[column][own]
        counts = np.bincount(places[there], weights=self.weights[there], minlength=int(np.prod(sizes)))
        shares: Amounts = (counts / max(float(self.weights.sum()), 1e-300)).reshape(sizes)
        return shares


@dataclass(frozen=True, kw_only=True)
class WideTruth:
    """The records that were released.

    Args:
        wide: their columns.
        records: their values, shape (columns, records).
    """

    wide: WideTable
    records: Codes

    @cached_property
    def whole(self) -> Weighted:
        """All of them."""
        return Weighted(
            columns=tuple(range(len(self.records))), codes=self.records, weights=np.ones(self.records.shape[1])
        )

    @cached_property
    def _values(self) -> dict[int, Codes]:
        return {place: np.arange(size) for place, size in enumerate(self.wide.table.sizes)}

    @cached_property
    def _usual(self) -> dict[int, Codes]:
        codes = self.wide.table.label_codes(USUAL_LEVEL)
        return {place: np.unique(own, return_inverse=True)[1] for place, own in enumerate(codes)}

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], Amounts]:
        return self.pairs_of(self.whole)

    @cached_property
    def _triples(self) -> dict[tuple[int, int, int], Amounts]:
        found = {}
        for block in self.wide.places():
            found |= self.triples_of(self.whole, block)
        return found

    def pairs_of(self, people: Weighted) -> dict[tuple[int, int], Amounts]:
        """Return the shares of people by each two of their columns, by values."""
        sizes = self.wide.table.sizes
        return {
            pair: people.table([sizes[one] for one in pair], self._values, *pair)
            for pair in itertools.combinations(people.columns, 2)
        }

    def triples_of(self, people: Weighted, columns: Sequence[int]) -> dict[tuple[int, int, int], Amounts]:
        """Return the shares of people by each three of some columns, by usual labels."""
        return {
            triple: people.table([int(self._usual[one].max()) + 1 for one in triple], self._usual, *triple)
            for triple in itertools.combinations(sorted(columns), 3)
        }

    def pair_score(self, found: Mapping[tuple[int, int], Amounts]) -> float:
        """Return the score of all pairs, of which what was found holds shares or counts by values."""
        return _score((true, found[pair]) for pair, true in self._pairs.items())

    def usual_pair(self, pair: tuple[int, int], counts: Amounts) -> Amounts:
        """Return a pair's counts by usual labels, from those by values."""
        first, second = (self._usual[column] for column in pair)
        merged = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
        np.add.at(merged, (first[:, None], second[None, :]), counts)
        return merged

    def triple_score(self, told: Callable[[tuple[int, int, int]], Amounts]) -> float:
        """Return the score of all triples within blocks, of which shares by usual labels are told."""
        return _score((true, told(triple)) for triple, true in self._triples.items())

    def triples_by_rows(
        self, blocks: Sequence[Weighted], pairs: Mapping[tuple[int, int], Amounts]
    ) -> Callable[[tuple[int, int, int]], Amounts]:
        """Return what tells a triple's shares by rows and by pairs of which counts by values are given."""

        def told(triple: tuple[int, int, int]) -> Amounts:
            three = [self.usual_pair(pair, pairs[pair]) for pair in itertools.combinations(triple, 2)]
            own = next((one for one in blocks if set(triple) <= set(one.columns)), None)
            return fitted_triple(None if own is None else self.triples_of(own, triple)[triple], three)

        return told


def fitted_triple(start: Amounts | None, pairs: Sequence[Amounts]) -> Amounts:
    """Return a table of three columns scaled to its three pairs, in rounds; as shares.

    Args:
        start: shape (first, second, third); None for the table that has nothing but its pairs.
        pairs: first and second, first and third, second and third.
    """
    wanted = [np.maximum(one, 0.0) / one.sum() for one in pairs]
    table = np.full((*wanted[0].shape, wanted[1].shape[1]), _TINY) if start is None else np.maximum(start, _TINY)
    for _ in range(ROUNDS):
        for axis, one in zip((2, 1, 0), wanted, strict=True):
            table = table * np.expand_dims(one / np.maximum(table.sum(axis=axis), _TINY**2), axis)
    found: Amounts = table / table.sum()
    return found


def _score(compared: Iterable[tuple[Amounts, Amounts]]) -> float:
    return 500.0 * (2.0 - float(np.mean([np.abs(true - told).sum() for true, told in compared])))


class Partition(NamedTuple):
    """How many people are to be in each part of some records.

    Args:
        parts: of each record its part, shape (records,); -1 where nothing is known.
        counts: shape (parts,).
    """

    parts: Codes
    counts: Amounts


def fitted_to(weights: Amounts, partitions: Sequence[Partition]) -> Amounts:
    """Return weights by which records have the counts of all partitions, nearly: scaled to one after the other.

    Source: W. Deming, F. Stephan, Annals of Mathematical Statistics 11 (1940).
    """
    found = weights.copy()
    for _ in range(ROUNDS):
        for parts, counts in partitions:
            have = np.bincount(parts + 1, weights=found, minlength=counts.size + 1)[1:]
            factors = np.divide(np.maximum(counts, 0.0), have, out=np.zeros_like(have), where=have > 0)
            found *= np.concatenate([factors, [1.0]])[parts]  # -1 is the last one
    return found


def evenly_drawn(weights: Amounts, *, number: int, coins: np.random.Generator) -> Codes:
    """Return the places of so many records, evenly spaced along the sum of their weights; shape (number,)."""
    ends = np.cumsum(weights)
    places = np.searchsorted(ends, (np.arange(number) + coins.random()) * ends[-1] / number, side="right")
    return np.minimum(places, weights.size - 1)


def completed(result: PairedResult, *, coins: np.random.Generator) -> list[Weighted]:
    """Return the rows of each block as records by values, with the weights that they have in the files.

    A row stands there several times, each time with values drawn within its labels by the fitted margins.
    """
    final = result.final
    found = []
    for one, raked in zip(result.rows, result.raked, strict=True):
        groups = np.concatenate([stage.counts for stage in one.stages])
        copies = max(1, -(-LEAST_COPIES // max(1, int(groups.sum()))))
        codes: list[list[Codes]] = [[] for _ in one.block.columns]
        for stage, recoding in zip(one.stages, one.maps, strict=True):
            for place, labels in enumerate(recoding.decode(stage.keys)):
                column, margin = recoding.columns[place], final.margins[one.block.columns[place]][1:]
                values = np.arange(1, margin.size + 1, dtype=np.int64)
                own = column.hierarchy.coarser(values, level=0, to=column.level)
                codes[place].append(_within(np.repeat(labels, stage.counts * copies), own, margin, coins))
        found.append(
            Weighted(
                columns=one.block.columns,
                codes=np.array([np.concatenate(own) for own in codes]),
                weights=np.repeat(raked.weights / copies, groups * copies),
            )
        )
    return found


def _within(labels: Codes, own: Codes, margin: Amounts, coins: np.random.Generator) -> Codes:
    """Return for each label one of its values, drawn by a margin.

    Args:
        labels: shape (records,).
        own: the label of each value.
        margin: how many people have each value.
        coins: of the draws.
    """
    found = np.zeros(labels.size, dtype=np.int64)
    for label in np.unique(labels).tolist():
        here = labels == label
        inside = np.flatnonzero(own == label)
        shares = np.maximum(margin[inside], 1e-9)
        found[here] = coins.choice(inside, size=int(here.sum()), p=shares / shares.sum())
    return found
