"""[data] weight: a column of survey weights, released by classes, and what is published of it beside the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ..mechanisms.hierarchies.decimals import WeightClasses
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.kernel.group_counts import GroupCounts
from ..mechanisms.kinds.margins import Margin
from ..mechanisms.record_weights import (
    ClassWeights,
    class_totals,
    class_weights,
    row_weights,
    weight_place,
    weighted_totals,
    whole_total,
)
from .margin_specs import cell_columns
from .spec_tables import ColumnTable, WeightColumn

if TYPE_CHECKING:
    from ..tasks.stages.table import PublishedTable, TableColumn
    from .releases.release_kind import GivenSpec

SURVEY_WEIGHT = "survey_weight"
"""The column of the rows that has a number for the weight's class."""
TOTALS = "totals"
"""The name of the table of totals of weights."""
IN_WORDS = (
    "The column {name!r} of survey weights was released by classes: a record counts as the middle of its class by "
    "ratio. A weight below {least} counted as {least} and one above {most} as {most}; how many there were isn't told. "
    "A record without a weight has the class * and counts as the mean of all others, {mean:.6g}. A row of a stage that "
    "merges classes has the mean of the records that the stages before left of them. Totals are of weights clipped so. "
    "Their intervals of 95 % cover the noise, and whatever the weights are within their classes; they don't cover how "
    "the people were sampled."
)

Cells = NDArray[np.int64]


def released_columns(given: GivenSpec) -> Mapping[str, ColumnTable]:
    """Return the released columns, with that of the survey weights as the last one where there is one.

    To the mechanism it is a column like any other, whose labels are the declared classes.

    Raises:
        InputRefused: a weight without classes or classes without a weight, one that is released too, or no margins.
    """
    data, margins, where = given.tables.data, given.tables.margins, f"{given.path}: [data].weight"
    name, table = data.weight, data.weight_classes
    if name is None or table is None:
        if name is None and table is None:
            return given.columns
        missing = "weight_classes" if table is None else "weight"
        raise InputRefused(
            "a column of survey weights and the classes that are declared for it must be given together.",
            where=f"{given.path}: [data].{missing}",
            remedy='Write weight = "NAME" in [data], and [data.weight_classes] with bounds = [LEAST, …, LARGEST].',
        )
    if name in given.columns:
        raise InputRefused(
            f"the column {name!r} has the survey weights, and it is among the released columns.",
            where=where,
            remedy=f"Remove [columns.{name}]: weights are released by classes, and never as values.",
        )
    if margins is None or not margins.columns or given.tables.selection is not None:
        raise InputRefused(
            "totals of survey weights follow from the margins of columns, and this release has none.",
            where=where,
            remedy='Add [margins], best with pairs = "auto", and give levels instead of [selection].',
        )
    first = next(iter(given.columns.values()))
    automatic = any(column.levels == "auto" for column in given.columns.values())
    stages = len(first.levels) if isinstance(first.levels, list) else 1
    levels = table.levels or ("auto" if automatic else [0] * stages)
    column = WeightColumn(weight_bounds=table.bounds, levels=levels, weight=table.weight)
    return {**given.columns, name: column}


@dataclass(frozen=True, kw_only=True)
class SurveyWeights:
    """What follows from the published counts of the classes of weights. All of it is post-processing.

    Args:
        counted: the map of the margins.
        place: of the column of weights.
        counts: its noisy counts, of each label.
        deviation: of their noise.
    """

    counted: GeneralizationMap
    place: int
    counts: Cells
    deviation: float

    @staticmethod
    def of(counted: GeneralizationMap, margins: Sequence[Cells], *, deviation: float) -> SurveyWeights | None:
        """Return them of a release with these margins, each column's in their order; None without weights."""
        place = weight_place(counted)
        if place is None:
            return None
        return SurveyWeights(counted=counted, place=place, counts=margins[place], deviation=deviation)

    @property
    def column(self) -> MappedColumn:
        """Return the column of weights."""
        return self.counted.columns[self.place]

    @property
    def hierarchy(self) -> WeightClasses:
        """Return its declared classes."""
        if not isinstance(self.column.hierarchy, WeightClasses):
            raise TypeError("this is no column of survey weights")
        return self.column.hierarchy

    @property
    def weights(self) -> ClassWeights:
        """Return which weights its labels hold."""
        return class_weights(self.hierarchy, self.column.level, self.counts)

    def row_column(
        self, stages: Sequence[GroupCounts], maps: Sequence[GeneralizationMap], weights: NDArray[np.float64]
    ) -> TableColumn:
        """Return the survey weight of each group's records: the middle of its class, or the mean of merged ones.

        Args:
            stages: groups, the finest stage first.
            maps: of the stages.
            weights: for how many records each record of a group stands; shape (groups of all stages,).
        """
        from ..tasks.stages.table import figure_column

        shown, end = [], 0
        for stage, one in zip(stages, maps, strict=True):
            begin, end = end, end + stage.counts.size
            place = one.names.index(self.column.name)
            labels, records = one.codes_of(stage.keys, place), stage.counts * weights[begin:end]
            shown.append((one.columns[place].level, labels, records))
        found = row_weights(self.hierarchy, self.weights, self.counts, level=self.column.level, stages=shown)
        return figure_column(SURVEY_WEIGHT, np.concatenate(found))

    def by_class(self, pair: Margin, cells: NDArray[Any]) -> tuple[int, NDArray[Any]]:
        """Return the column that was counted together with the classes, and its counts with the classes last."""
        shape = tuple(self.counted.sizes[place] for place in pair)
        table = cells.reshape(shape)
        return (pair[0], table) if pair[1] == self.place else (pair[1], table.T)

    def tables(self, margins: Sequence[Margin], noisy: Sequence[Cells]) -> dict[int, Cells]:
        """Return of listed margins those that were counted together with the classes, as `totals_table` takes them."""
        pairs = zip(margins, noisy, strict=True)
        return dict(self.by_class(pair, cells) for pair, cells in pairs if len(pair) > 1 and self.place in pair)

    def totals_table(
        self,
        margins: Sequence[Cells],
        tables: Mapping[int, Cells],
        *,
        deviation: float,
        fitted: Mapping[int, NDArray[np.float64]] | None = None,
    ) -> PublishedTable:
        """Return the total of weights of all records, of each class, and of each label that was counted by classes.

        Args:
            margins: each column's noisy counts alone.
            tables: column → its noisy counts together with the classes, shape (labels, labels of the classes).
            deviation: of their noise.
            fitted: column → the same counts as a model fits them; None where there is no model.
        """
        from ..tasks.stages.table import PublishedTable, figure_column

        weights = self.weights
        parts = [
            whole_total(weights, self.counts, deviation=self.deviation),
            class_totals(weights, self.counts, deviation=self.deviation),
        ]
        for place, by_class in sorted(tables.items()):
            own = weighted_totals(
                by_class,
                weights,
                deviation=deviation,
                alone=margins[place],
                alone_deviation=self.deviation,
            )
            errors = np.full(own.totals.size, own.standard_error)
            parts.append((own.totals, errors, own.low, own.high))
        labels = cell_columns(
            [(self.counted, ()), *((self.counted, (place,)) for place in (self.place, *sorted(tables)))], missing=""
        )
        totals, errors, low, high = (np.concatenate(own) for own in zip(*parts, strict=True))
        figures = {"total": totals, "standard_error": errors, "interval_low": low, "interval_high": high}
        if fitted is not None:
            of_classes = fitted[self.place] * weights.middle
            models = [
                of_classes.sum(keepdims=True),
                of_classes,
                *(fitted[place] @ weights.middle for place in sorted(tables)),
            ]
            figures["fitted"] = np.concatenate(models)
        columns = (figure_column(name, values.round(3)) for name, values in figures.items())
        return PublishedTable(columns=(*labels[:2], *columns), times=None)

    def facts(self) -> dict[str, Any]:
        """Return what the certificate says of the weights."""
        weights = self.weights
        whole = whole_total(weights, self.counts, deviation=self.deviation)
        total, error, low, high = (round(float(one[0]), 3) for one in whole)
        bounds = self.hierarchy.bounds
        stated = {
            "mean": weights.mean,
            "total": total,
            "standard_error": error,
            "interval_low": low,
            "interval_high": high,
            "in_words": IN_WORDS.format(name=self.column.name, least=bounds[0], most=bounds[-1], mean=weights.mean),
        }
        return {"survey_weights": planned_weights(self.counted)["survey_weights"] | stated}


def planned_weights(counted: GeneralizationMap) -> dict[str, Any]:
    """Return what is declared of the survey weights; nothing without them."""
    place = weight_place(counted)
    hierarchy = None if place is None else counted.columns[place].hierarchy
    if place is None or not isinstance(hierarchy, WeightClasses):
        return {}
    bounds = [float(bound) for bound in hierarchy.bounds]
    return {"survey_weights": {"column": counted.columns[place].name, "bounds": bounds}}
