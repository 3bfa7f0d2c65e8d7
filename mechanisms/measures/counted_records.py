"""Records as distinct combinations with their counts, and the errors of counting queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..generalization_map import GeneralizationMap
from ..kernel.group_counts import GroupCounts, sum_counts

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
        """Return the number of records."""
        return int(self.groups.counts.sum())

    @property
    def class_sizes(self) -> NDArray[np.int64]:
        """Return the sizes of the equivalence classes: records that agree in all columns; shape (classes,)."""
        return self.groups.counts

    def codes(self) -> list[NDArray[np.int64]]:
        """Return per column the code of every distinct row; each of shape (classes,)."""
        return self.map.decode(self.groups.keys)

    def recoded(self, coarser: GeneralizationMap) -> CountedRecords:
        """Return the same records at levels that are nowhere below the present ones.

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
        """Return the records with some of their columns."""
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


SANITY_SHARE = 0.001
MEDIAN_OF_ABSOLUTE_NORMAL = 0.6744897501960817


def relative_errors(
    true: NDArray[np.int64], published: NDArray[np.int64], *, sampling_rate: float, floor: float
) -> NDArray[np.float64]:
    """|published/β − true| / max(true, floor) of each query; shape (queries,).

    The floor keeps queries with hardly a record from deciding everything; Xiao, Wang, Gehrke, Differential Privacy
    via Wavelet Transforms, TKDE 23(8), 2011, Section 7 (arXiv:0909.5530), takes a thousandth of the records.
    """
    estimates = published / sampling_rate
    errors: NDArray[np.float64] = np.abs(estimates - true) / np.maximum(true, floor)
    return errors


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeErrors:
    """The queries whose true answers have one order of magnitude.

    Args:
        least: Least true answer of this order of magnitude.
        below: Least true answer of the next order of magnitude.
        queries: Number of queries.
        median: Median of their relative errors.
        high: The 95th percentile of their relative errors.
        sampling_alone: Median error that sampling would leave if nothing were suppressed, by normal approximation; None
            where nothing was sampled.
        lost: Share of the queries that the release answers with 0.
    """

    least: int
    below: int
    queries: int
    median: float
    high: float
    sampling_alone: float | None
    lost: float


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryErrors:
    """The errors of a set of counting queries.

    Args:
        ways: Largest number of columns whose labels a query fixes.
        queries: Number of queries.
        median: Median of all relative errors.
        high: The 95th percentile of all relative errors.
        floor: Least number that an error is divided by.
        by_size: The errors by the size of the true answer, ascending.
    """

    ways: int
    queries: int
    median: float
    high: float
    floor: float
    by_size: tuple[SizeErrors, ...]


def counting_query_errors(
    before: CountedRecords, after: CountedRecords, *, sampling_rate: Decimal | None, ways: int
) -> QueryErrors:
    """Ask for every cell of every table of up to `ways` columns that holds a record, and compare.

    The set of queries is all of them, so nothing is drawn.

    Args:
        after: the published records; where they have weights, what these add up to.

    Raises:
        ValueError: ways below 1, or tables of different columns or levels.
    """
    if ways < 1:
        raise ValueError(f"a query fixes at least one column, not {ways}")
    floor = max(1.0, SANITY_SHARE * before.records)
    parts = list(_cells(before, after, ways))
    true = np.concatenate([np.zeros(0, dtype=np.int64), *(part[0] for part in parts)])
    published = np.concatenate([np.zeros(0, dtype=np.int64), *(part[1] for part in parts)])
    rate = 1.0 if sampling_rate is None else float(sampling_rate)
    errors = relative_errors(true, published, sampling_rate=rate, floor=floor)
    by_size = []
    for power in sorted({len(str(answer)) - 1 for answer in np.unique(true).tolist()}):
        least, below = 10**power, 10 ** (power + 1)
        chosen = (true >= least) & (true < below)
        deviations = np.sqrt((1 - rate) / rate * true[chosen]) / np.maximum(true[chosen], floor)
        by_size.append(
            SizeErrors(
                least=least,
                below=below,
                queries=int(chosen.sum()),
                median=float(np.median(errors[chosen])),
                high=float(np.quantile(errors[chosen], 0.95)),
                sampling_alone=None
                if sampling_rate is None
                else float(np.median(deviations) * MEDIAN_OF_ABSOLUTE_NORMAL),
                lost=float((published[chosen] == 0).mean()),
            )
        )
    return QueryErrors(
        ways=min(ways, len(before.map.columns)),
        queries=int(true.size),
        median=float(np.median(errors)) if errors.size else 0.0,
        high=float(np.quantile(errors, 0.95)) if errors.size else 0.0,
        floor=floor,
        by_size=tuple(by_size),
    )


def _cells(
    before: CountedRecords, after: CountedRecords, ways: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield per set of columns the true and the published counts of the cells that hold a record."""
    for size in range(1, min(ways, len(before.map.columns)) + 1):
        for places in combinations(range(len(before.map.columns)), size):
            _, one, other = aligned_counts(before.projected(places), after.projected(places))
            yield one[one > 0], other[one > 0]
