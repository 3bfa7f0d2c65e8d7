"""Records as distinct combinations with their counts, which every measure of a table can be computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..recoding import GeneralizationMap
from ..suppression import GroupCounts, sum_counts

__all__ = ["CountedRecords", "aligned_counts"]

_DENSE_CODES = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CountedRecords:
    """A table as its distinct rows; the memory that it takes follows their number, not that of the records.

    Args:
        map: columns, hierarchies and levels of the rows.
        groups: the distinct rows, as keys of the map, and how many records each has.
    """

    map: GeneralizationMap
    groups: GroupCounts = field(repr=False)

    @property
    def records(self) -> int:
        """Number of records."""
        return int(self.groups.counts.sum())

    @property
    def class_sizes(self) -> NDArray[np.int64]:
        """Sizes of the equivalence classes: records that agree in all columns; shape (classes,)."""
        return self.groups.counts

    def codes(self) -> list[NDArray[np.int64]]:
        """Per column the code of every distinct row; each of shape (classes,)."""
        return self.map.decode(self.groups.keys)

    def recoded(self, coarser: GeneralizationMap) -> CountedRecords:
        """The same records at levels that are nowhere below the present ones.

        Args:
            coarser: a map of the same columns in the same order.

        Raises:
            ValueError: other columns, or a level below the present one.
        """
        if coarser.names != self.map.names:
            raise ValueError(f"records of the columns {self.map.names} can't be recoded to {coarser.names}")
        codes = [
            target.hierarchy.coarser(column_codes, level=source.level, to=target.level)
            for source, target, column_codes in zip(self.map.columns, coarser.columns, self.codes(), strict=True)
        ]
        return CountedRecords(map=coarser, groups=sum_counts(coarser.keys(codes), self.groups.counts))

    def projected(self, places: Sequence[int]) -> CountedRecords:
        """The records with some of their columns.

        Args:
            places: numbers of columns, from 0, at least one.
        """
        part = GeneralizationMap(columns=tuple(self.map.columns[place] for place in places))
        codes = self.codes()
        keys = part.keys([codes[place] for place in places])
        return CountedRecords(map=part, groups=sum_counts(keys, self.groups.counts))

    def marginal(self, place: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Codes of one column that some record has, ascending, and how many records have each; both of shape (n,)."""
        column, key = self.map.columns[place], self.map.placements[place]
        codes = (self.groups.keys[key.word] // key.stride) % column.size
        if column.size <= _DENSE_CODES:
            tally = np.zeros(column.size, dtype=np.int64)
            np.add.at(tally, codes, self.groups.counts)
            present = np.flatnonzero(tally)
            return present, tally[present]
        part = sum_counts(codes.reshape(1, -1), self.groups.counts)
        return part.keys[0], part.counts


def aligned_counts(
    one: CountedRecords, other: CountedRecords
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Counts of two tables over the rows that either has.

    Args:
        one: a table.
        other: another with the same columns at the same levels.

    Returns:
        The keys, shape (words, n), and the counts of the one and of the other, each of shape (n,).

    Raises:
        ValueError: the tables have different columns or levels.
    """
    if [(c.name, c.level) for c in one.map.columns] != [(c.name, c.level) for c in other.map.columns]:
        raise ValueError("tables of different columns or levels have no rows in common")
    keys = np.concatenate([one.groups.keys, other.groups.keys], axis=1)
    nothing = (np.zeros_like(one.groups.counts), np.zeros_like(other.groups.counts))
    first = sum_counts(keys, np.concatenate([one.groups.counts, nothing[1]]))
    second = sum_counts(keys, np.concatenate([nothing[0], other.groups.counts]))
    return first.keys, first.counts, second.counts
