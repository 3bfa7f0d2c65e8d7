"""Estimate how many records a set of labels has: by noisy counts, else by rows, with an interval or without."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ..mechanisms.generalization_map import MappedColumn
from ..mechanisms.kernel.errors import InputRefused
from .combined_counts import Amounts, Codes, CombinedCounts, LinearCount
from .conditions import NOTHING_COUNTED, Mask
from .figures import Figure, Ratio, Source, quantile_of
from .label_tree import LabelTree, chosen_mass, counts_above_zero, pair_model
from .published_tables import PublishedTables, RowTable, labels_to
from .row_counts import CountedRows, counted_rows, least_records, table_for

if TYPE_CHECKING:
    from ..mechanisms.pair_model.model import PairModel

ERROR = 0.05
Selection = Mapping[int, Mask]
NO_PEOPLE = "this release's rows are no person's records, and have no stated error"
NO_INTERVAL = "rows give no interval of this"
_APART = "no rows have these columns together; the estimate is a model's"
_SPREAD = "some rows have coarser labels, and are shared out"


class CountEstimates:
    """Estimates of counts of a release.

    Args:
        published: its tables.
    """

    def __init__(self, published: PublishedTables) -> None:
        self.published = published

    @property
    def columns(self) -> tuple[MappedColumn, ...]:
        """Return the columns, each at the level of its finest labels."""
        return self.published.columns

    @cached_property
    def combined(self) -> CombinedCounts | None:
        """Return the counts by margins and pairs; None where nothing was counted beside the rows."""
        own = self.published
        if not own.margins and own.total is None:
            return None
        return CombinedCounts(own.margins, deviation=own.margin_deviation, pairs=own.pairs, total=own.total)

    def linear(self, selection: Selection) -> list[LinearCount]:
        """Return the unbiased estimates of a count by margins and pairs; none where it isn't a function of them."""
        combined = self.combined
        if combined is None:
            return []
        if not selection:
            return [LinearCount(records=1.0)]
        if not self.published.margins:
            return []
        if len(selection) == 1:
            [(place, mask)] = selection.items()
            return [LinearCount(mains={place: mask.astype(np.float64)})]
        found = []
        for number, pair in enumerate(self.published.pairs):
            if set(pair.columns) == selection.keys():
                masks = [
                    merged_mask(selection[place], labels, size)
                    for place, labels, size in zip(pair.columns, pair.labels, pair.counts.shape, strict=True)
                ]
                if masks[0] is not None and masks[1] is not None:
                    found.append(combined.of_pair(number, np.outer(masks[0], masks[1]).astype(np.float64)))
        return found

    def counted(self, part: Selection, whole: Selection) -> tuple[LinearCount, LinearCount] | None:
        """Return the narrowest estimates of two counts by margins and pairs; None where one isn't made of them."""
        above, below = self.linear(part), self.linear(whole)
        if self.combined is None or not above or not below:
            return None
        return self.combined.narrowest(above), self.combined.narrowest(below)

    def count(self, selection: Selection, *, error: float = ERROR) -> Figure:
        """Return how many records a set has.

        Raises:
            InputRefused: it wasn't counted, and no table of rows and no model tells of it.
        """
        counted = self._rows(selection)
        found = self.linear(selection)
        least = 0.0 if counted is None or not self.published.reading.are_records else counted.certain
        if self.combined is not None and found:
            best = self.combined.narrowest(found)
            width = quantile_of(error) * math.sqrt(self.combined.covariance(best, best))
            return whole_count(self.combined.value(best), width, least=least, source=source_of(selection))
        if counted is None and self.tree is None:
            raise no_table()
        return self._count_by_rows(selection, counted or CountedRows(weight=0.0, certain=0.0, groups=0), error=error)

    @cached_property
    def fitted(self) -> dict[int, Amounts]:
        """Return how records are spread over each column's finest labels, none below 0; empty without margins."""
        if self.combined is None or not self.published.margins:
            return {}
        own = self.combined
        return {
            place: counts_above_zero(own.margin(place), column, records=own.records)
            for place, column in enumerate(self.columns)
        }

    @cached_property
    def model(self) -> PairModel | None:
        """Return the model of all that is published; None where nothing was counted by columns."""
        return (
            None if self.combined is None or not self.published.margins else pair_model(self.published, self.combined)
        )

    @cached_property
    def tree(self) -> LabelTree | None:
        """Return the tree by which coarse labels are shared out; None where nothing was counted by columns."""
        return None if self.model is None else LabelTree.of_model(self.model)

    def _rows(self, selection: Selection) -> CountedRows | None:
        table = table_for([*selection], self.published.rows)
        return None if table is None else counted_rows(selection, table, self.published, fitted=self.fitted)

    def _count_by_rows(self, selection: Selection, counted: CountedRows, *, error: float) -> Figure:
        reading = self.published.reading
        note = _SPREAD if counted.spread else ""
        if table_for([*selection], self.published.rows) is None:
            note = _APART
        if reading.form == "synthetic":
            return Figure(estimate=counted.weight, lower=None, upper=None, source="rows", note=NO_PEOPLE)
        if self.combined is None:
            lower, upper = self._bounds_by_rows_alone(selection, counted, error=error)
        else:
            lower = least_records(counted, self.published, error=error / 2)
            upper = self._most_beside_others(selection, error=error / 2)
        if upper is None or lower is None:
            return Figure(estimate=counted.weight, lower=lower, upper=upper, source="rows", note=note or NO_INTERVAL)
        lower, upper = math.ceil(max(lower, 0.0) - 1e-9), math.floor(upper + 1e-9)
        upper = max(upper, lower)
        weight = self._estimated(selection, counted)
        estimate = weight if reading.noise is not None else within(weight, lower, upper)
        return Figure(estimate=estimate, lower=float(lower), upper=float(upper), source="rows", note=note)

    def _estimated(self, selection: Selection, counted: CountedRows) -> float:
        """Return how many records a set has by the model, or by the rows where there is none."""
        table = table_for([*selection], self.published.rows)
        if self.model is None or self.tree is None:
            return counted.weight
        if len(selection) == 2 and tuple(sorted(selection)) in self.model.tables:
            first, second = sorted(selection)
            return float(selection[first] @ self.model.table(first, second) @ selection[second])
        if table is None:
            return self.model.records * float(
                self.tree.chances({place: own[None, :] for place, own in selection.items()})[0]
            )
        return chosen_mass(selection, table, self.published, self.tree)

    def _most_beside_others(self, selection: Selection, *, error: float) -> float | None:
        """Return how many records a set has at most: those of a larger set that was counted, less known others.

        The larger sets are those by all but some columns; the error is shared out among them.
        """
        combined, table = self.combined, table_for([*selection], self.published.rows)
        larger = [
            subset
            for size in (2, 1, 0)
            for names in combinations(sorted(selection), size)
            if len(names) < len(selection)
            for subset in ({name: selection[name] for name in names},)
            if self.linear(subset)
        ]
        if combined is None or not larger:
            return None
        # A larger set by fewer columns holds those by more; it is taken only where they weren't counted.
        most = max(len(subset) for subset in larger)
        kept = [subset for subset in larger if len(subset) == most]
        ends = []
        for subset in kept:
            own = combined.narrowest(self.linear(subset))
            # The error is shared by the noise, and by the draw of the sample or of what is deleted.
            each = error / len(kept) / 2
            above = combined.value(own) + quantile_of(2 * each) * math.sqrt(combined.covariance(own, own))
            if table is not None:
                others = counted_rows(subset, table, self.published, fitted=self.fitted, less=selection)
                above -= least_records(others, self.published, error=each)
            ends.append(above)
        return min(ends)

    def _bounds_by_rows_alone(
        self, selection: Selection, counted: CountedRows, *, error: float
    ) -> tuple[float | None, float | None]:
        """Return bounds by rows and what each absent combination may have at most."""
        from ..accounting.theory.count_bounds import BinomialBounds

        reading = self.published.reading
        if reading.rate is None and reading.noise is not None:
            return None, None
        if reading.noise is not None and reading.rate is not None:
            if error != ERROR:
                return None, None
            bounds = BinomialBounds.of(
                reading.rate, k=reading.k, noise=reading.noise, combinations=self._combinations(selection)
            )
            groups = np.float64(counted.groups)
            most = float(bounds.at_most(np.float64(counted.certain), groups))
            return float(bounds.at_least(np.float64(counted.certain), groups)), most if math.isfinite(most) else None
        return least_records(counted, self.published, error=error / 2), self._most_with_absent(
            selection, counted, error=error / 2
        )

    def _most_with_absent(self, selection: Selection, counted: CountedRows, *, error: float) -> float | None:
        from scipy.special import nbdtrik

        from ..accounting.theory.count_bounds import LONG_TAILS

        reading, groups = self.published.reading, self._combinations(selection)
        if groups is None or reading.k is None or counted.spread:
            return None
        absent = groups - counted.groups
        if reading.rate is not None:
            most = counted.certain + (reading.k - 1) * absent
            return most + math.ceil(float(nbdtrik(1 - error, most + 1, reading.rate)) - 1e-9)
        deviation = math.sqrt(reading.variance * (groups + LONG_TAILS))
        weights = counted.certain + reading.expected * counted.groups
        return weights + (reading.expected + reading.k - 1) * absent + quantile_of(2 * error) * deviation + 0.5

    def _combinations(self, selection: Selection) -> int | None:
        """Return how many combinations of labels of the last stage a set has; None where it has parts of some."""
        if not self.published.whole or len(self.published.rows) != 1:
            return None
        [table] = self.published.rows
        product = 1
        for place, level in zip(table.columns, table.stages[-1].levels, strict=True):
            column = self.columns[place]
            size = column.hierarchy.size(level)
            if place in selection:
                mask = merged_mask(selection[place], labels_to(column, level), size)
                if mask is None:
                    return None
                size = int(mask.sum())
            product *= size
        return product

    def ratio(self, above: LinearCount, below: LinearCount) -> Ratio:
        """Return the ratio of two counts that were made of margins and pairs."""
        combined = self.combined
        if combined is None:
            raise TypeError("nothing was counted beside the rows")
        return Ratio(
            above=combined.value(above),
            below=combined.value(below),
            variance_above=combined.covariance(above, above),
            covariance=combined.covariance(above, below),
            variance_below=combined.covariance(below, below),
        )

    def _table_of(self, places: Iterable[int]) -> RowTable:
        table = table_for([*places], self.published.rows)
        if table is None:
            raise no_table()
        return table

    def weights_of_labels(self, place: int, selection: Selection) -> Amounts:
        """Return for how many records the rows stand of each of a column's finest labels."""
        column, table = self.columns[place], self._table_of([*selection, place])
        others = [other for other in selection if other != place]
        if self.model is not None and len(others) == 1 and tuple(sorted([place, *others])) in self.model.tables:
            counts: Amounts = self.model.table(place, others[0]) @ selection[others[0]]
            return np.where(selection[place], counts, 0.0) if place in selection else counts
        weights = np.zeros(column.size)
        for stage in table.stages:
            own = RowTable(columns=table.columns, stages=(stage,))
            at = table.columns.index(place)
            finer = labels_to(column, stage.levels[at])
            spread = self.fitted.get(place, np.ones(column.size)) + 1e-9
            parts = spread / np.bincount(finer, spread)[finer]
            for code in np.unique(stage.codes[at]).tolist():
                mask = finer == code
                part = both(selection, {place: mask})
                weights[mask] += parts[mask] * counted_rows(part, own, self.published, fitted=self.fitted).weight
        return weights


def no_table() -> InputRefused:
    """Return what is said where columns stand together in no table."""
    return InputRefused(
        "no table of this release has all these columns.",
        not_done=NOTHING_COUNTED,
        remedy="Ask for columns of one table of rows, or of a counted pair.",
    )


def merged_mask(mask: Mask, labels: Codes, size: int) -> Mask | None:
    """Return the coarser labels that a set of finer ones is made of; None where it has parts of some."""
    inside, every = np.bincount(labels, weights=mask, minlength=size), np.bincount(labels, minlength=size)
    if ((inside > 0) & (inside < every)).any():
        return None
    merged: Mask = inside > 0
    return merged


def both(one: Selection, other: Selection) -> dict[int, Mask]:
    """Return the set of what is in both."""
    result = dict(one)
    for place, mask in other.items():
        result[place] = result[place] & mask if place in result else mask
    return result


def source_of(places: Collection[int]) -> Source:
    """Return what a figure of some columns that were counted is made of."""
    return "pairs" if len(places) > 1 else "margins"


def whole_count(value: float, width: float, *, least: float, source: Source) -> Figure:
    """Return a count: whole numbers within its interval, none below what is there for certain."""
    lower, upper = math.ceil(value - width - 1e-9), math.floor(value + width + 1e-9)
    return Figure(
        estimate=max(float(value), least),
        lower=max(float(lower), least),
        upper=max(float(upper), least),
        source=source,
    )


def within(value: float, least: float, most: float) -> float:
    """Return a value, or the end that it is beyond."""
    return min(max(value, least), most)
