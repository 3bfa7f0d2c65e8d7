"""Choose what a sheet asks of its release by the researcher's kit: columns and labels of which the kit answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ....analysis import LoadedRelease
from ....analysis.conditions import edges_of
from ....analysis.published_tables import PublishedTables, read_tables
from ....mechanisms.generalization_map import MappedColumn
from ....mechanisms.hierarchies.declare import BUCKET_LABEL, ValueHierarchy
from ....mechanisms.kernel.errors import InputRefused
from ..document_registry import VerifiedRelease

MOST_LABELS = 60
MOST_CELLS = 1_200
MOST_CELLS_BY_ROWS = 300
"""Each of them reads all rows."""
_FORMULA_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._]*")
"""Names that a formula has as they stand, in Python and in R."""
_Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class KitCalls:
    """Columns and labels that a sheet's calls of the kit name; what the release can't answer is None.

    Args:
        by: the column of a table.
        where: a label of one column, and of another one that stands together with it, if there is one.
        counted: two columns that were counted together.
        apart: two that weren't, but are together in a table of rows.
        mean: a column of numbers.
        mean_by: a column that it was counted together with.
        regression: a response and its regressors, of which any two were counted together.
        copied: a column of completed copies, and a label of it, or None where it is of numbers.
        intervals: whether counts have intervals.
    """

    by: str
    where: tuple[tuple[str, str], ...]
    counted: _Pair | None = None
    apart: _Pair | None = None
    mean: str | None = None
    mean_by: str | None = None
    regression: tuple[str, ...] | None = None
    copied: tuple[str, str | None] | None = None
    intervals: bool = True


def kit_calls(release: VerifiedRelease, *, preferred: Sequence[_Pair] = ()) -> KitCalls | None:
    """Return what a sheet asks of a release; None where the kit can't read it.

    Args:
        release: the release.
        preferred: counted pairs, the one that tells most first.
    """
    try:
        published = read_tables(release.folder, release.certificate)
    except InputRefused:  # of answers, or where the certificate lacks a hierarchy of a release with margins
        return None
    if not published.columns:
        return None
    weights = release.certificate["published"].get("survey_weights", {}).get("column")
    choice = _Choice(LoadedRelease(published, certificate=release.certificate), published, weights=weights)
    counted = choice.counted(preferred)
    apart = choice.apart()
    mean, mean_by = choice.mean()
    by = choice.by()
    where = choice.common(*(counted or apart or (by,)))
    copies = bool(published.margins) and published.reading.are_records
    return KitCalls(
        by=by,
        where=where,
        counted=counted,
        apart=apart,
        mean=mean,
        mean_by=mean_by,
        regression=choice.regression(mean),
        copied=((mean, None) if mean else choice.common(by)[0]) if copies else None,
        intervals=choice.release.count(dict(where)).upper is not None,
    )


class _Choice:
    """Columns of a release in the order in which a sheet takes them."""

    def __init__(self, release: LoadedRelease, published: PublishedTables, *, weights: str | None) -> None:
        self.release = release
        self.published = published
        # Nobody asks for records by classes of survey weights.
        own = [column for column in published.columns if column.name != weights]
        self.columns = own or [*published.columns]
        named = ((frozenset(published.columns[place].name for place in pair.columns), pair) for pair in published.pairs)
        self.pairs = {names: pair.counts.size for names, pair in named if weights not in names}

    def by(self) -> str:
        """Return a column that has several labels, and few enough for a table to be read."""
        able = [column for column in self.columns if 2 < column.size <= MOST_LABELS]
        return (able or sorted(self.columns, key=lambda column: column.size))[0].name

    def counted(self, preferred: Sequence[_Pair]) -> _Pair | None:
        """Return two columns that were counted together, by few enough labels for a table to be read."""
        names = [*preferred, *combinations([column.name for column in self.columns], 2)]
        return next((pair for pair in names if self.pairs.get(frozenset(pair), MOST_CELLS + 1) <= MOST_CELLS), None)

    def apart(self) -> _Pair | None:
        """Return two columns of a table of rows that tell something, and weren't counted together."""
        for one, other in combinations(self.columns, 2):
            together = any(
                {one.name, other.name} <= {self.published.columns[place].name for place in table.columns}
                for table in self.published.rows
            )
            sizes = [self._rows_size(column) for column in (one, other)]
            if (
                together
                and frozenset((one.name, other.name)) not in self.pairs
                and min(sizes) > 2
                and sizes[0] * sizes[1] <= MOST_CELLS_BY_ROWS
            ):
                return one.name, other.name
        return None

    def _rows_size(self, column: MappedColumn) -> int:
        """Return how many labels a column has at the last stage."""
        place = self.published.columns.index(column)
        levels = [
            table.stages[-1].levels[table.columns.index(place)]
            for table in self.published.rows
            if place in table.columns
        ]
        return column.hierarchy.size(max(levels, default=column.level))

    def common(self, *names: str) -> tuple[tuple[str, str], ...]:
        """Return the labels of one or two columns that most records have, `*` where there are no others."""
        cells: Any = self.release.table(*names)
        known = cells[(cells[list(names)] != BUCKET_LABEL).all(axis=1)]
        best = (cells if known.empty else known).sort_values("estimate", kind="stable").iloc[-1]
        return tuple((name, str(best[name])) for name in names)

    def mean(self) -> tuple[str | None, str | None]:
        """Return the column of numbers with the most counted pairs, then labels, and one that it was counted with."""
        able = [column.name for column in self.columns if _has_numbers(column)]
        mean = max(able, key=lambda name: (len(self.partners(name)), self._size(name)), default=None)
        partners = [] if mean is None else self.partners(mean)
        return mean, next((name for name in partners if self._size(name) <= MOST_LABELS), None)

    def partners(self, name: str) -> list[str]:
        """Return the columns that one was counted together with."""
        return [column.name for column in self.columns if frozenset((name, column.name)) in self.pairs]

    def _size(self, name: str) -> int:
        return next(column.size for column in self.columns if column.name == name)

    def regression(self, response: str | None) -> tuple[str, ...] | None:
        """Return a response and one or two regressors of which any two were counted together."""
        if response is None or not _FORMULA_NAME.fullmatch(response):
            return None
        able = [name for name in self.partners(response) if _FORMULA_NAME.fullmatch(name)]
        several = [pair for pair in combinations(able, 2) if frozenset(pair) in self.pairs]
        for regressors in (*several[:1], *((name,) for name in able)):
            try:
                self.release.regression(f"{response} ~ {' + '.join(regressors)}")
            except InputRefused:
                continue
            return response, *regressors
        return None


def _has_numbers(column: MappedColumn) -> bool:
    """Return whether a column's values are numbers, all of them where they were listed."""
    try:
        known = edges_of(column, column.level).known
    except InputRefused:
        return False
    return bool(known[1:].all()) or not isinstance(column.hierarchy, ValueHierarchy)
