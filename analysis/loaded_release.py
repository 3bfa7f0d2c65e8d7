"""A release as a researcher works with it: counts, tables, shares, means and quantiles, each with an interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..mechanisms.generalization_map import MappedColumn
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.kernel.recoding import BUCKET_CODE
from .combined_counts import Amounts, Codes, CombinedCounts, LinearCount
from .completed_copies import CompletedCopies
from .conditions import NOTHING_COUNTED, Edges, Mask, Where, edges_of, labels_of, place_of, selection_of
from .figures import Figure, Frames, Ratio, Source, frame_of, quantile_of
from .label_tree import LabelTree, chosen_mass, counts_above_zero, pair_model
from .published_tables import PublishedTables, RowTable, labels_to, read_release
from .regressions import Of, least_squares
from .row_counts import CountedRows, counted_rows, least_records, table_for

if TYPE_CHECKING:
    from ..mechanisms.hierarchies.declare import Hierarchy
    from ..mechanisms.pair_model.model import PairModel
    from .figures import DataFrame

ERROR = 0.05
Selection = Mapping[int, Mask]
_LEFT_OUT = "records without a number, or outside the declared range, are left out"
_NO_PEOPLE = "this release's rows are no person's records, and have no stated error"
_SPREAD = "some rows have coarser labels, and are shared out"
_NO_INTERVAL = "rows give no interval of this"


def load(
    release: Path | str,
    *,
    public_key: Path | str | None = None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
    frames: Frames = "pandas",
) -> LoadedRelease:
    """Read and verify a release.

    Args:
        release: its folder, or its certificate.
        public_key: PEM file of the publisher's public keys; without it whose key signed isn't checked.
        hierarchies: of columns whose hierarchies are too large for the certificate.
        frames: "pandas" or "polars".

    Raises:
        InputRefused: it can't be read, doesn't verify, or has no labels of records.
    """
    key = None if public_key is None else Path(public_key)
    certificate, published = read_release(Path(release), public_key=key, hierarchies=hierarchies)
    return LoadedRelease(published, certificate=certificate, frames=frames)


class LoadedRelease:
    """A release's tables, and what can be said of the records by them.

    Intervals are of the records that the release is of. Where these are a sample of a population, that is besides.
    A count by one column, or by a counted pair, is made of noisy counts whose law is known; others are made of rows.

    Args:
        published: the tables.
        certificate: the certificate's fields.
        frames: what tables are given as, "pandas" or "polars".
    """

    def __init__(
        self, published: PublishedTables, *, certificate: Mapping[str, Any] | None = None, frames: Frames = "pandas"
    ) -> None:
        self.published = published
        self.certificate = certificate or {}
        self._frames = frames

    def __repr__(self) -> str:
        """Return the release's id and what it has."""
        columns = ", ".join(column.name for column in self.published.columns)
        return f"LoadedRelease({self.certificate.get('release_id', '')!r}, columns: {columns})"

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

    def labels(self, column: str) -> list[str]:
        """Return the finest labels of a column that can be counted by."""
        own = self.columns[place_of(column, self.columns)]
        return labels_of(own, own.level)

    def count(self, where: Where | None = None) -> Figure:
        """Return how many records fulfil a condition, all where there is none.

        Args:
            where: column → a label of any level, a value, a `range` of numbers, or a list of them.

        Raises:
            InputRefused: a condition that the labels can't express.
        """
        return self._count(selection_of(where or {}, self.columns))

    def share(self, where: Where, *, of: Where | None = None) -> Figure:
        """Return which share of the records that fulfil a condition fulfils another one too.

        Args:
            where: the condition.
            of: of which records; all where it is None.
        """
        whole = selection_of(of or {}, self.columns)
        part = _both(whole, selection_of(where, self.columns))
        above, below = self._linear(part), self._linear(whole)
        if self.combined is None or not above or not below:
            return self._share_by_rows(part, whole)
        ratio = self._ratio(self.combined.narrowest(above), self.combined.narrowest(below))
        lower, upper = ratio.interval(quantile_of(ERROR))
        return Figure(
            estimate=_within(ratio.estimate, 0.0, 1.0),
            lower=_within(lower, 0.0, 1.0),
            upper=_within(upper, 0.0, 1.0),
            source=_source({*part, *whole}),
            note="" if math.isfinite(lower) else "too few records to tell",
        )

    def mean(self, column: str, *, where: Where | None = None, by: str | None = None) -> Figure | DataFrame:
        """Return the mean of a column of numbers, by the middles of its labels.

        The interval has the noise and, where labels hold several numbers, their ends: it holds wherever within its
        labels the numbers are. Records without a number, or outside the declared range, are left out.

        Args:
            column: of numbers, or of labels that are numbers.
            where: a condition that the records fulfil.
            by: a column; then a frame of the mean for each of its labels but `*`.

        Raises:
            InputRefused: the labels stand for no numbers.
        """
        place, selection = place_of(column, self.columns), selection_of(where or {}, self.columns)
        if by is None:
            return self._mean(place, selection)
        return self._by(by, lambda label: self._mean(place, _both(selection, label)))

    def quantile(
        self, column: str, q: float = 0.5, *, where: Where | None = None, by: str | None = None
    ) -> Figure | DataFrame:
        """Return the least number at or below which a share of the records lies.

        The interval has all numbers of the labels in which the quantile may lie.

        Args:
            column: of numbers, or of labels that are numbers.
            q: the share, between 0 and 1.
            where: a condition that the records fulfil.
            by: a column; then a frame of the quantile for each of its labels but `*`.

        Raises:
            InputRefused: the labels stand for no numbers, or the share isn't between 0 and 1.
        """
        if not 0 < q < 1:
            raise InputRefused("a quantile's share is between 0 and 1.", not_done=NOTHING_COUNTED)
        place, selection = place_of(column, self.columns), selection_of(where or {}, self.columns)
        if by is None:
            return self._quantile(place, q, selection)
        return self._by(by, lambda label: self._quantile(place, q, _both(selection, label)))

    def table(self, rows: str, columns: str | None = None, *, where: Where | None = None) -> DataFrame:
        """Return the number of records of each label of a column, or of each two labels of two columns, as a frame.

        A pair that was counted has the labels by which it was; other columns have the labels that all rows have.

        Args:
            rows: a column.
            columns: another one.
            where: a condition that the records fulfil.
        """
        names = [rows, *([] if columns is None else [columns])]
        places, selection = [place_of(name, self.columns) for name in names], selection_of(where or {}, self.columns)
        if not selection and (counted := self._counted_table(names, places)) is not None:
            return frame_of(counted, self._frames)
        levels = [self._level_of_table(place, alone=len(places) == 1 and not selection) for place in places]
        found: list[dict[str, Any]] = []
        for codes in np.ndindex(
            *(self.columns[p].hierarchy.size(level) for p, level in zip(places, levels, strict=True))
        ):
            labels = {}
            cell = dict(selection)
            for place, level, code in zip(places, levels, codes, strict=True):
                labels[self.columns[place].name] = labels_of(self.columns[place], level)[code]
                cell = _both(cell, {place: labels_to(self.columns[place], level) == code})
            found.append(labels | self._count(cell).as_dict())
        return frame_of(found, self._frames)

    def regression(self, formula: str, *, of: Of = "records") -> DataFrame:
        """Return the coefficients of ordinary least squares, from counted pairs, as a frame.

        Columns of numbers have the middles of their labels; of others each label but the first has a coefficient.

        Args:
            formula: `income ~ age + C(region) + sex[Female]`; C(column) gives each label of a column of numbers a
                coefficient, column[label] takes one label.
            of: whose coefficients the intervals are of: those that all records give, or those of a population of which
                they are a random sample, with residuals of one variance.

        Raises:
            InputRefused: the formula can't be read, or two of its columns weren't counted together.
        """
        if self.combined is None or not self.published.pairs:
            raise InputRefused(
                "this release counted no pairs of columns, from which a regression is made.",
                not_done=NOTHING_COUNTED,
                remedy="Its rows can be weighted by `weight`; nothing says how far that is off.",
            )
        rows = least_squares(formula, self.published, self.combined, of=of, error=ERROR)
        return frame_of(rows, self._frames)

    def complete(self, copies: int = 20, *, seed: int = 1) -> CompletedCopies:
        """Return completed copies: files of as many records as there were, drawn from what is published.

        They are for programs that need whole files, and are no records: what they give of three and more columns
        together, and of values within labels, follows a model. `rubin` combines what they give.

        Args:
            copies: how many.
            seed: the same gives the same copies.

        Raises:
            InputRefused: nothing was counted by columns.
        """
        if copies < 1 or not self.published.margins or not self.published.reading.are_records:
            raise InputRefused(
                "copies are completed by margins beside rows of records, and there is to be one or more.",
                not_done="Nothing was drawn.",
            )
        name = f"{self.certificate.get('release_id', '')}/{seed}"
        return CompletedCopies(published=self.published, copies=copies, seed=name, frames=self._frames)

    def _by(self, name: str, figure: Callable[[Selection], Figure]) -> DataFrame:
        place = place_of(name, self.columns)
        level = self._level_by(place)
        own = labels_to(self.columns[place], level)
        rows = [
            {name: label} | figure({place: own == code}).as_dict()
            for code, label in enumerate(labels_of(self.columns[place], level))
            if code != BUCKET_CODE or self.columns[place].hierarchy.size(level) == 1
        ]
        return frame_of(rows, self._frames)

    def _level_by(self, place: int) -> int:
        """Return the finest level by which a column is counted in pairs, or its finest where it is in none."""
        levels = [pair.levels[pair.columns.index(place)] for pair in self.published.pairs if place in pair.columns]
        return max([self.columns[place].level, *levels])

    def _level_of_table(self, place: int, *, alone: bool) -> int:
        own = self.columns[place]
        if alone and self.published.margins:
            return own.level
        levels = [
            table.stages[-1].levels[table.columns.index(place)]
            for table in self.published.rows
            if place in table.columns
        ]
        return max([own.level, *levels])

    def _counted_table(self, names: list[str], places: list[int]) -> list[dict[str, Any]] | None:
        """Return the rows of a frame of the cells of a counted pair, None where these columns weren't counted."""
        if len(places) != 2 or self.combined is None:
            return None
        able = [number for number, pair in enumerate(self.published.pairs) if set(pair.columns) == set(places)]
        if not able:
            return None
        number = max(able, key=lambda one: self.published.pairs[one].counts.size)
        pair = self.published.pairs[number]
        estimate, variance = self.combined.pair_cells(number)
        width = quantile_of(ERROR) * np.sqrt(variance)
        least = self._certain_cells(pair.columns, pair.levels)
        labels = [labels_of(self.columns[place], level) for place, level in zip(pair.columns, pair.levels, strict=True)]
        order = [pair.columns.index(place) for place in places]
        found = []
        for cell in np.ndindex(*(len(labels[axis]) for axis in order)):
            at = tuple(cell[order.index(axis)] for axis in (0, 1))
            named = {name: labels[axis][code] for name, axis, code in zip(names, order, cell, strict=True)}
            found.append(named | _whole(estimate[at], width[at], least=float(least[at]), source="pairs").as_dict())
        return found

    def _certain_cells(self, places: tuple[int, int], levels: tuple[int, int]) -> Amounts:
        """Return for each cell how many published rows are surely of it."""
        sizes = [self.columns[place].hierarchy.size(level) for place, level in zip(places, levels, strict=True)]
        least = np.zeros(sizes)
        table = table_for(places, self.published.rows)
        if table is None or not self.published.reading.are_records:
            return least
        for stage in table.stages:
            at = [table.columns.index(place) for place in places]
            if all(stage.levels[one] <= level for one, level in zip(at, levels, strict=True)):
                codes = [
                    self.columns[place].hierarchy.coarser(stage.codes[one], level=stage.levels[one], to=level)
                    for place, one, level in zip(places, at, levels, strict=True)
                ]
                np.add.at(least, tuple(codes), stage.counts)
        return least

    def _linear(self, selection: Selection) -> list[LinearCount]:
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

    def _count(self, selection: Selection, *, error: float = ERROR) -> Figure:
        counted = self._rows(selection)
        found = self._linear(selection)
        least = 0.0 if counted is None or not self.published.reading.are_records else counted.certain
        if self.combined is not None and found:
            best = self.combined.narrowest(found)
            width = quantile_of(error) * math.sqrt(self.combined.covariance(best, best))
            return _whole(self.combined.value(best), width, least=least, source=_source(selection))
        if counted is None:
            raise InputRefused(
                "no table of this release has all these columns.",
                not_done=NOTHING_COUNTED,
                remedy="Ask for columns of one table of rows, or of a counted pair.",
            )
        return self._count_by_rows(selection, counted, error=error)

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
    def _tree(self) -> LabelTree | None:
        return None if self.model is None else LabelTree.of_model(self.model)

    def _rows(self, selection: Selection) -> CountedRows | None:
        table = table_for([*selection], self.published.rows)
        return None if table is None else counted_rows(selection, table, self.published, fitted=self.fitted)

    def _count_by_rows(self, selection: Selection, counted: CountedRows, *, error: float) -> Figure:
        reading = self.published.reading
        note = _SPREAD if counted.spread else ""
        if reading.form == "synthetic":
            return Figure(estimate=counted.weight, lower=None, upper=None, source="rows", note=_NO_PEOPLE)
        if self.combined is None:
            lower, upper = self._bounds_by_rows_alone(selection, counted, error=error)
        else:
            lower = least_records(counted, self.published, error=error / 2)
            upper = self._most_beside_others(selection, error=error / 2)
        if upper is None or lower is None:
            return Figure(estimate=counted.weight, lower=lower, upper=upper, source="rows", note=note or _NO_INTERVAL)
        lower, upper = math.ceil(max(lower, 0.0) - 1e-9), math.floor(upper + 1e-9)
        upper = max(upper, lower)
        weight = self._estimated(selection, counted)
        estimate = weight if reading.noise is not None else _within(weight, lower, upper)
        return Figure(estimate=estimate, lower=float(lower), upper=float(upper), source="rows", note=note)

    def _estimated(self, selection: Selection, counted: CountedRows) -> float:
        """Return how many records a set has by the model, or by the rows where there is none."""
        table = table_for([*selection], self.published.rows)
        if self.model is None or self._tree is None or table is None:
            return counted.weight
        if len(selection) == 2 and tuple(sorted(selection)) in self.model.tables:
            first, second = sorted(selection)
            return float(selection[first] @ self.model.table(first, second) @ selection[second])
        return chosen_mass(selection, table, self.published, self._tree)

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
            if self._linear(subset)
        ]
        if combined is None or table is None or not larger:
            return None
        # A larger set by fewer columns holds those by more; it is taken only where they weren't counted.
        most = max(len(subset) for subset in larger)
        kept = [subset for subset in larger if len(subset) == most]
        ends = []
        for subset in kept:
            own = combined.narrowest(self._linear(subset))
            # The error is shared by the noise, and by the draw of the sample or of what is deleted.
            each = error / len(kept) / 2
            above = combined.value(own) + quantile_of(2 * each) * math.sqrt(combined.covariance(own, own))
            others = counted_rows(subset, table, self.published, fitted=self.fitted, less=selection)
            ends.append(above - least_records(others, self.published, error=each))
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

    def _share_by_rows(self, part: Selection, whole: Selection) -> Figure:
        above, below = self._count(part), self._count(whole)
        estimate = _within(above.estimate / below.estimate, 0.0, 1.0) if below.estimate > 0 else math.nan
        return Figure(estimate=estimate, lower=None, upper=None, source="rows", note=above.note or _NO_INTERVAL)

    def _ratio(self, above: LinearCount, below: LinearCount) -> Ratio:
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

    def _weighted(self, place: int, selection: Selection) -> tuple[Any, Edges] | None:
        """Return how weights of a column's labels become a weighted count, and the numbers of these labels.

        None where a condition on other columns wasn't counted together with it.
        """
        column = self.columns[place]
        others = {other: mask for other, mask in selection.items() if other != place}
        own = selection.get(place)
        if self.combined is None or not self.published.margins or len(others) > 1:
            return None
        if not others:
            kept = np.ones(column.size, dtype=np.bool_) if own is None else own
            return (lambda weights: LinearCount(mains={place: np.where(kept, weights, 0.0)})), edges_of(
                column, column.level
            )
        [(other, mask)] = others.items()
        able = []
        for number, pair in enumerate(self.published.pairs):
            if set(pair.columns) != {place, other}:
                continue
            mine, its = pair.columns.index(place), pair.columns.index(other)
            outer = merged_mask(mask, pair.labels[its], pair.counts.shape[its])
            kept_here = (
                np.ones(pair.counts.shape[mine], dtype=np.bool_)
                if own is None
                else merged_mask(own, pair.labels[mine], pair.counts.shape[mine])
            )
            if outer is not None and kept_here is not None:
                able.append((pair.levels[mine], number, mine, outer, kept_here))
        if not able:
            return None
        level, number, mine, outer, inner = min(able, key=lambda one: one[:2])
        combined = self.combined

        def of_weights(weights: Amounts) -> LinearCount:
            cells = np.outer(np.where(inner, weights, 0.0), outer.astype(np.float64))
            return combined.of_pair(number, cells if mine == 0 else cells.T)

        return of_weights, edges_of(column, level)

    def _mean(self, place: int, selection: Selection) -> Figure:
        found = self._weighted(place, selection)
        if found is None:
            return self._mean_by_rows(place, selection)
        of_weights, edges = found
        numbers = np.nan_to_num(np.stack([edges.lower, edges.middle, edges.upper]))
        below = of_weights(edges.known.astype(np.float64))
        lowest, middle, highest = (self._ratio(of_weights(row), below) for row in numbers)
        width = quantile_of(ERROR)
        lower, upper = lowest.interval(width)[0], highest.interval(width)[1]
        least, most = float(np.nanmin(edges.lower)), float(np.nanmax(edges.upper))
        return Figure(
            estimate=_within(middle.estimate, least, most),
            lower=_within(lower, least, most),
            upper=_within(upper, least, most),
            source=_source({*selection, place}),
            note=_LEFT_OUT if not edges.known.all() else "",
        )

    def _mean_by_rows(self, place: int, selection: Selection) -> Figure:
        edges = edges_of(self.columns[place], self.columns[place].level)
        weights = self._weights_of_labels(place, selection)
        known = edges.known & (weights > 0)
        total = float(weights[known].sum())
        estimate = float(weights[known] @ edges.middle[known]) / total if total > 0 else math.nan
        note = _NO_PEOPLE if self.published.reading.form == "synthetic" else f"{_NO_INTERVAL}; {_LEFT_OUT}"
        return Figure(estimate=estimate, lower=None, upper=None, source="rows", note=note)

    def _weights_of_labels(self, place: int, selection: Selection) -> Amounts:
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
                part = _both(selection, {place: mask})
                weights[mask] += parts[mask] * counted_rows(part, own, self.published, fitted=self.fitted).weight
        return weights

    def _table_of(self, places: Iterable[int]) -> RowTable:
        table = table_for([*places], self.published.rows)
        if table is None:
            raise InputRefused(
                "no table of this release has all these columns.",
                not_done=NOTHING_COUNTED,
                remedy="Ask for columns of one table of rows, or of a counted pair.",
            )
        return table

    def _quantile(self, place: int, q: float, selection: Selection) -> Figure:
        found = self._weighted(place, selection)
        if found is None or self.combined is None:
            return self._quantile_by_rows(place, q, selection)
        of_weights, edges = found
        combined, width = self.combined, quantile_of(ERROR)
        order = np.flatnonzero(edges.known)[np.argsort(edges.lower[edges.known], kind="stable")]
        counts, above, below = [], [], []
        reached, known = np.zeros(edges.known.size), edges.known.astype(np.float64)
        for code in order.tolist():
            own = np.zeros(edges.known.size)
            own[code] = 1.0
            reached[code] = 1.0
            counts.append(combined.value(of_weights(own)))
            # How many more records are at or below this label than a share of all.
            excess = of_weights(reached - q * known)
            value, error = combined.value(excess), math.sqrt(max(combined.covariance(excess, excess), 0.0))
            above.append(value > width * error)
            below.append(value < -width * error)
        # A label may hold the quantile unless too few are at or below it, or too many already below it.
        possible = [not below[i] and not (i and above[i - 1]) for i in range(len(order))]
        if not any(possible):
            possible = [not low for low in below]
        ends = [order[i] for i in range(len(order)) if possible[i]] or order.tolist()
        return Figure(
            estimate=_interpolated(np.array(counts), edges, order, q),
            lower=float(edges.lower[ends].min()),
            upper=float(edges.upper[ends].max()),
            source=_source({*selection, place}),
            note=_LEFT_OUT if not edges.known.all() else "",
        )

    def _quantile_by_rows(self, place: int, q: float, selection: Selection) -> Figure:
        edges = edges_of(self.columns[place], self.columns[place].level)
        weights = self._weights_of_labels(place, selection)
        order = np.flatnonzero(edges.known)[np.argsort(edges.lower[edges.known], kind="stable")]
        note = _NO_PEOPLE if self.published.reading.form == "synthetic" else f"{_NO_INTERVAL}; {_LEFT_OUT}"
        estimate = _interpolated(weights[order], edges, order, q)
        return Figure(estimate=estimate, lower=None, upper=None, source="rows", note=note)


def merged_mask(mask: Mask, labels: Codes, size: int) -> Mask | None:
    """Return the coarser labels that a set of finer ones is made of; None where it has parts of some."""
    inside, every = np.bincount(labels, weights=mask, minlength=size), np.bincount(labels, minlength=size)
    if ((inside > 0) & (inside < every)).any():
        return None
    merged: Mask = inside > 0
    return merged


def _both(one: Selection, other: Selection) -> dict[int, Mask]:
    """Return the set of what is in both."""
    result = dict(one)
    for place, mask in other.items():
        result[place] = result[place] & mask if place in result else mask
    return result


def _source(places: Collection[int]) -> Source:
    return "pairs" if len(places) > 1 else "margins"


def _whole(value: float, width: float, *, least: float, source: Source) -> Figure:
    """Return a count: whole numbers within its interval, none below what is there for certain."""
    lower, upper = math.ceil(value - width - 1e-9), math.floor(value + width + 1e-9)
    return Figure(
        estimate=max(float(value), least),
        lower=max(float(lower), least),
        upper=max(float(upper), least),
        source=source,
    )


def _within(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


def _interpolated(counts: Amounts, edges: Edges, order: Codes, q: float) -> float:
    """Return a quantile, records spread evenly within its label."""
    kept = np.maximum(counts, 0.0)
    total = float(kept.sum())
    if total <= 0:
        return math.nan
    reached = np.cumsum(kept)
    place = int(np.searchsorted(reached, q * total - 1e-9))
    place = min(place, order.size - 1)
    before = reached[place] - kept[place]
    part = (q * total - before) / kept[place] if kept[place] > 0 else 0.5
    code = order[place]
    return float(edges.lower[code] + part * (edges.upper[code] - edges.lower[code]))
