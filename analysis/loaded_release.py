"""A release as a researcher works with it: counts, tables, shares, odds, means, quantiles, each with an interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting.certificate.row_tables import MEMBERS, are_margins_of_mechanism, members_view
from ..mechanisms.generalization_map import MappedColumn
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.kernel.recoding import BUCKET_CODE
from .combined_counts import Amounts, Codes, LinearCount
from .completed_copies import CompletedCopies
from .conditions import NOTHING_COUNTED, Edges, Where, edges_of, labels_of, place_of, require_no_cap, selection_of
from .count_estimates import (
    ERROR,
    NO_INTERVAL,
    NO_PEOPLE,
    CountEstimates,
    Selection,
    both,
    merged_mask,
    source_of,
    whole_count,
    within,
)
from .figures import Figure, Frames, frame_of, quantile_of
from .odds import TOO_FEW, odds_by_rows, odds_of, odds_ratio
from .published_tables import NOT_DONE, PublishedTables, labels_to, read_tables, verified_certificate
from .regressions import Of, least_squares
from .row_counts import table_for
from .weighted_figures import too_many, weighted_mean, weighted_share, weighted_total

if TYPE_CHECKING:
    from ..mechanisms.hierarchies.declare import Hierarchy
    from .figures import DataFrame

_LEFT_OUT = "records without a number, or outside the declared range, are left out"
_MOST = "of a unit with more than {most} members only {most} are counted"


def load(
    release: Path | str,
    *,
    public_key: Path | str | None = None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
    frames: Frames = "pandas",
) -> LoadedRelease:
    """Read and verify a release.

    Labels that the hierarchies don't have are refused, as are other margins than the mechanism's. That levels and
    blocks are those that follow from published counts is checked by `crowdblend verify` alone, as are the labels of
    columns that aren't read, which have more than 2^20 or lack their hierarchy.

    Args:
        release: its folder, or its certificate.
        public_key: PEM file of the publisher's public keys; without it whose key signed isn't checked.
        hierarchies: of columns whose hierarchies are too large for the certificate.
        frames: "pandas" or "polars".

    Raises:
        InputRefused: it can't be read, doesn't verify, or has no labels of records.
    """
    key = None if public_key is None else Path(public_key)
    folder, certificate = verified_certificate(Path(release), public_key=key)
    members = None
    if (view := members_view(certificate)) is not None:
        own = read_tables(folder, view, hierarchies=hierarchies, stem=MEMBERS)
        members = LoadedRelease(own, certificate=view, frames=frames)
    published = read_tables(folder, certificate, hierarchies=hierarchies)
    if not are_margins_of_mechanism(certificate):
        raise InputRefused(
            "its margins are not those of its mechanism and its map.",
            where=str(folder),
            not_done=NOT_DONE,
            remedy="Check it with `crowdblend verify`.",
        )
    return LoadedRelease(published, certificate=certificate, frames=frames, members=members)


class LoadedRelease:
    """A release's tables, and what can be said of the records by them.

    Intervals are of the records that the release is of. Where these are a sample of a population, that is besides.
    A count by one column, or by a counted pair, is made of noisy counts whose law is known; others are made of rows.

    Args:
        published: the tables.
        certificate: the certificate's fields.
        frames: what tables are given as, "pandas" or "polars".
        members: the table of members beside a table of units, as a release by itself; None where there is none.
    """

    def __init__(
        self,
        published: PublishedTables,
        *,
        certificate: Mapping[str, Any] | None = None,
        frames: Frames = "pandas",
        members: LoadedRelease | None = None,
    ) -> None:
        self.published = published
        self.members = members
        self.counts = CountEstimates(published)
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

    def labels(self, column: str) -> list[str]:
        """Return the finest labels of a column that can be counted by."""
        own = self.columns[place_of(column, self.columns)]
        return labels_of(own, own.level)

    def count(self, where: Where | None = None, *, weighted: bool = False) -> Figure:
        """Return how many records fulfil a condition, all where there is none.

        Args:
            where: column → a label of any level, a value, a `range` of numbers, or a list of them.
            weighted: the total of their survey weights instead: for how many people they stand.

        Raises:
            InputRefused: a condition that the labels can't express.
        """
        selection = selection_of(where or {}, self.columns)
        return weighted_total(selection, self.counts) if weighted else self._noted(self.counts.count(selection))

    def share(self, where: Where, *, of: Where | None = None, weighted: bool = False) -> Figure:
        """Return which share of the records that fulfil a condition fulfils another one too.

        Args:
            where: the condition.
            of: of which records; all where it is None.
            weighted: the share of their survey weights.
        """
        whole = selection_of(of or {}, self.columns)
        part = both(whole, selection_of(where, self.columns))
        return weighted_share(part, whole, self.counts) if weighted else self._noted(self._share(part, whole))

    def _share(self, part: Selection, whole: Selection) -> Figure:
        counted = self.counts.counted(part, whole)
        if counted is None:
            return self._share_by_rows(part, whole)
        ratio = self.counts.ratio(*counted)
        lower, upper = ratio.interval(quantile_of(ERROR))
        return Figure(
            estimate=within(ratio.estimate, 0.0, 1.0),
            lower=within(lower, 0.0, 1.0),
            upper=within(upper, 0.0, 1.0),
            source=source_of({*part, *whole}),
            note="" if math.isfinite(lower) else TOO_FEW,
        )

    def odds(
        self, where: Where, *, of: Where | None = None, by: str | None = None, against: Where | str | None = None
    ) -> Figure | DataFrame:
        """Return how many records fulfil a condition for each one that doesn't, or the ratio of two such odds.

        By the labels of a column, against one of them, the logarithms are the coefficients of a logit with this column
        alone. One with several columns needs counts of all of them together, which pairs don't tell.

        Args:
            where: the condition.
            of: of which records; all where it is None.
            by: a column; then a frame of the odds for each of its labels but `*`.
            against: records whose odds those of the others are divided by; with `by` one of its labels.

        Raises:
            InputRefused: a condition that the labels can't express, or several columns to compare by.
        """
        whole = selection_of(of or {}, self.columns)
        condition = selection_of(where, self.columns)
        if by is None:
            if against is None:
                return self._noted(odds_of(self._share(both(whole, condition), whole)))
            if isinstance(against, Mapping):
                return self._noted(self._odds_ratio(condition, whole, selection_of(against, self.columns)))
        if not isinstance(by, str) or isinstance(against, Mapping):
            raise InputRefused(
                "odds are compared by the labels of one column.",
                not_done=NOTHING_COUNTED,
                remedy="A logit of several columns doesn't follow from counts of two; `regression` with a label as the "
                "response, as employed[yes] ~ education + sex, gives the linear probability model.",
            )
        place = place_of(by, self.columns)
        base = None if against is None else both(whole, selection_of({by: against}, self.columns))

        def figure(label: Selection) -> Figure:
            own = both(whole, label)
            if base is None:
                return odds_of(self._share(both(own, condition), own))
            return self._odds_ratio(condition, own, base)

        return self._by(by, next((one for one in condition if one != place), place), figure)

    def _odds_ratio(self, condition: Selection, whole: Selection, base: Selection) -> Figure:
        """Return the odds of a condition among some records over those among others."""
        sets = [(both(own, condition), own) for own in (whole, base)]
        counted = [self.counts.counted(*one) for one in sets]
        if self.counts.combined is None or counted[0] is None or counted[1] is None:
            return odds_by_rows(*(self._share(*one) for one in sets))
        return odds_ratio(counted[0], counted[1], self.counts.combined, ERROR)

    def mean(
        self, column: str, *, where: Where | None = None, by: str | None = None, weighted: bool = False
    ) -> Figure | DataFrame:
        """Return the mean of a column of numbers, by the middles of its labels.

        The interval has the noise and, where labels hold several numbers, their ends: it holds wherever within its
        labels the numbers are. Records without a number, or outside the declared range, are left out.

        Args:
            column: of numbers, or of labels that are numbers.
            where: a condition that the records fulfil.
            by: a column; then a frame of the mean for each of its labels but `*`.
            weighted: by survey weights, without `by`: they were counted with one column at a time.

        Raises:
            InputRefused: the labels stand for no numbers, or one for all from a number on.
        """
        place, selection = place_of(column, self.columns), selection_of(where or {}, self.columns)
        require_no_cap(self.columns[place], selection, place)
        if weighted:
            if by is not None:
                raise too_many()
            return weighted_mean(place, selection, self.counts)
        if by is None:
            return self._noted(self._mean(place, selection))
        return self._by(by, place, lambda label: self._mean(place, both(selection, label)))

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
            InputRefused: the labels stand for no numbers, one for all from a number on, or the share isn't between 0
                and 1.
        """
        if not 0 < q < 1:
            raise InputRefused("a quantile's share is between 0 and 1.", not_done=NOTHING_COUNTED)
        place, selection = place_of(column, self.columns), selection_of(where or {}, self.columns)
        require_no_cap(self.columns[place], selection, place)
        if by is None:
            return self._noted(self._quantile(place, q, selection))
        return self._by(by, place, lambda label: self._quantile(place, q, both(selection, label)))

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
                cell = both(cell, {place: labels_to(self.columns[place], level) == code})
            found.append(labels | self._noted(self.counts.count(cell)).as_dict())
        return frame_of(found, self._frames)

    def regression(self, formula: str, *, of: Of = "records") -> DataFrame:
        """Return the coefficients of ordinary least squares, from counted pairs, as a frame.

        Columns of numbers have the middles of their labels; of others each label but the first has a coefficient.

        Args:
            formula: `log(income) ~ age + square(age) + C(region) + sex[Female]`; C(column) gives each label of a column
                of numbers a coefficient, column[label] takes one label, log and square are of the labels' middles.
            of: whose coefficients the intervals are of: those that all records give, or those of a population of which
                they are a random sample, with residuals of one variance.

        Raises:
            InputRefused: the formula can't be read, or two of its columns weren't counted together.
        """
        if self.counts.combined is None or not self.published.pairs:
            raise InputRefused(
                "this release counted no pairs of columns, from which a regression is made.",
                not_done=NOTHING_COUNTED,
                remedy="Its rows can be weighted by `weight`; nothing says how far that is off.",
            )
        rows = least_squares(formula, self.published, self.counts.combined, of=of, error=ERROR)
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

    def _noted(self, figure: Figure) -> Figure:
        """Return a figure with a note of what it leaves out: of members those beyond the most of a unit."""
        most = self.certificate.get("published", {}).get("most")
        if most is None:
            return figure
        return replace(figure, note="; ".join(filter(None, (figure.note, _MOST.format(most=most)))))

    def _by(self, name: str, of: int, figure: Callable[[Selection], Figure]) -> DataFrame:
        """Return a figure of a column for each label of another: the finest by which both were counted together."""
        place = place_of(name, self.columns)
        together = [pair for pair in self.published.pairs if set(pair.columns) == {place, of}]
        levels = [pair.levels[pair.columns.index(place)] for pair in together]
        level = min(levels, default=self.columns[place].level)
        own = labels_to(self.columns[place], level)
        rows = [
            {name: label} | self._noted(figure({place: own == code})).as_dict()
            for code, label in enumerate(labels_of(self.columns[place], level))
            if code != BUCKET_CODE or self.columns[place].hierarchy.size(level) == 1
        ]
        return frame_of(rows, self._frames)

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
        if len(places) != 2 or self.counts.combined is None:
            return None
        able = [number for number, pair in enumerate(self.published.pairs) if set(pair.columns) == set(places)]
        if not able:
            return None
        number = max(able, key=lambda one: self.published.pairs[one].counts.size)
        pair = self.published.pairs[number]
        estimate, variance = self.counts.combined.pair_cells(number)
        width = quantile_of(ERROR) * np.sqrt(variance)
        least = self._certain_cells(pair.columns, pair.levels)
        labels = [labels_of(self.columns[place], level) for place, level in zip(pair.columns, pair.levels, strict=True)]
        order = [pair.columns.index(place) for place in places]
        found = []
        for cell in np.ndindex(*(len(labels[axis]) for axis in order)):
            at = tuple(cell[order.index(axis)] for axis in (0, 1))
            named = {name: labels[axis][code] for name, axis, code in zip(names, order, cell, strict=True)}
            found.append(named | whole_count(estimate[at], width[at], least=float(least[at]), source="pairs").as_dict())
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

    def _share_by_rows(self, part: Selection, whole: Selection) -> Figure:
        """Return a share by the intervals of both counts, each with half of the error."""
        above, below = (self.counts.count(one, error=ERROR / 2) for one in (part, whole))
        estimate = within(above.estimate / below.estimate, 0.0, 1.0) if below.estimate > 0 else math.nan
        note = above.note or below.note
        if above.lower is None or above.upper is None or below.lower is None or below.upper is None:
            return Figure(estimate=estimate, lower=None, upper=None, source="rows", note=note or NO_INTERVAL)
        lower = above.lower / below.upper if below.upper > 0 else 0.0
        upper = min(above.upper / below.lower, 1.0) if below.lower > 0 else 1.0
        return Figure(estimate=estimate, lower=lower, upper=upper, source="rows", note=note)

    def _weighted(self, place: int, selection: Selection) -> tuple[Any, Edges] | None:
        """Return how weights of a column's labels become a weighted count, and the numbers of these labels.

        None where a condition on other columns wasn't counted together with it.
        """
        column = self.columns[place]
        others = {other: mask for other, mask in selection.items() if other != place}
        own = selection.get(place)
        if self.counts.combined is None or not self.published.margins or len(others) > 1:
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
        combined = self.counts.combined

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
        lowest, middle, highest = (self.counts.ratio(of_weights(row), below) for row in numbers)
        width = quantile_of(ERROR)
        lower, upper = lowest.interval(width)[0], highest.interval(width)[1]
        least, most = float(np.nanmin(edges.lower)), float(np.nanmax(edges.upper))
        note = _LEFT_OUT if not edges.known.all() else ""
        return Figure(
            estimate=within(middle.estimate, least, most),
            lower=within(lower, least, most),
            upper=within(upper, least, most),
            source=source_of({*selection, place}),
            note=note if math.isfinite(lower) and math.isfinite(upper) else TOO_FEW,
        )

    def _mean_by_rows(self, place: int, selection: Selection) -> Figure:
        edges = edges_of(self.columns[place], self.columns[place].level)
        weights = self.counts.weights_of_labels(place, selection)
        known = edges.known & (weights > 0)
        total = float(weights[known].sum())
        estimate = float(weights[known] @ edges.middle[known]) / total if total > 0 else math.nan
        note = NO_PEOPLE if self.published.reading.form == "synthetic" else f"{NO_INTERVAL}; {_LEFT_OUT}"
        return Figure(estimate=estimate, lower=None, upper=None, source="rows", note=note)

    def _quantile(self, place: int, q: float, selection: Selection) -> Figure:
        found = self._weighted(place, selection)
        if found is None or self.counts.combined is None:
            return self._quantile_by_rows(place, q, selection)
        of_weights, edges = found
        combined, width = self.counts.combined, quantile_of(ERROR)
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
            source=source_of({*selection, place}),
            note=_LEFT_OUT if not edges.known.all() else "",
        )

    def _quantile_by_rows(self, place: int, q: float, selection: Selection) -> Figure:
        edges = edges_of(self.columns[place], self.columns[place].level)
        weights = self.counts.weights_of_labels(place, selection)
        order = np.flatnonzero(edges.known)[np.argsort(edges.lower[edges.known], kind="stable")]
        note = NO_PEOPLE if self.published.reading.form == "synthetic" else f"{NO_INTERVAL}; {_LEFT_OUT}"
        estimate = _interpolated(weights[order], edges, order, q)
        return Figure(estimate=estimate, lower=None, upper=None, source="rows", note=note)


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
