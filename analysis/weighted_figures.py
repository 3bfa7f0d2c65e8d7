"""Totals, shares and means by survey weights, from counts of a column together with the classes of the weights.

A class tells between which ends a weight lies, and the label of a column between which ends a number does. Intervals
hold wherever within these they are, and have the noise besides; how the people were sampled isn't in them. The weights
are those that were counted: clipped at the first and the last bound, a missing one at the mean of the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..mechanisms.hierarchies.decimals import WeightClasses
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.record_weights import ClassWeights, class_weights
from .combined_counts import Amounts, LinearCount
from .conditions import NOTHING_COUNTED, Mask, edges_of
from .count_estimates import ERROR, CountEstimates, Selection, merged_mask, source_of
from .figures import Figure, quantile_of
from .published_tables import labels_to

_HALVINGS = 40
_NOTE = "of weights clipped at the bounds, missing ones at the mean; how people were sampled is besides"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WeightedLabels:
    """The labels of a column that was counted together with the classes of weights.

    Args:
        counts: of the release.
        classes: place of the column of classes.
        pair: number of the counted pair; None for the classes alone.
        axis: of the labels in the pair.
        level: of the labels.
        weights: which weights the classes hold.
        inside: which labels and classes are asked for, shape (labels, classes).
    """

    counts: CountEstimates
    classes: int
    pair: int | None
    axis: int
    level: int
    weights: ClassWeights
    inside: Mask

    def value(self, coefficients: Amounts, *, errors: float = 0.0) -> float:
        """Return the counts of labels and classes with these weights, and so many of its standard errors besides."""
        combined = self.counts.combined
        if combined is None:
            raise TypeError("nothing was counted beside the rows")
        cells = np.where(self.inside, coefficients, 0.0)
        if self.pair is None:
            own = LinearCount(mains={self.classes: cells[0]})
        else:
            own = combined.of_pair(self.pair, cells if self.axis == 0 else cells.T)
        variance = combined.covariance(own, own) if errors else 0.0
        return combined.value(own) + errors * math.sqrt(max(variance, 0.0))


def weighted_labels(selection: Selection, counts: CountEstimates, *, of: int | None = None) -> WeightedLabels:
    """Return the labels by which a set can be counted with its weights.

    Args:
        selection: the set, by one column and the classes.
        counts: of the release.
        of: a column that is asked for besides.

    Raises:
        InputRefused: the release has no survey weights, or they weren't counted with all of these columns together.
    """
    published = counts.published
    columns = published.columns
    classes = next((at for at, one in enumerate(columns) if isinstance(one.hierarchy, WeightClasses)), None)
    if classes is None or not published.margins:
        raise InputRefused(
            "this release has no survey weights.",
            not_done=NOTHING_COUNTED,
            remedy="Leave `weighted` out: figures are of the records.",
        )
    others = sorted({*selection, *(() if of is None else (of,))} - {classes})
    chosen = selection.get(classes, np.ones(columns[classes].size, dtype=np.bool_))
    if not others and of is None:
        level = columns[classes].level
        weights = _weights(classes, level, counts)
        return WeightedLabels(
            counts=counts, classes=classes, pair=None, axis=0, level=level, weights=weights, inside=chosen[None, :]
        )
    for number, pair in enumerate(published.pairs):
        if {*pair.columns} != {classes, *others}:
            continue
        axis = pair.columns.index(others[0])
        asked = selection.get(others[0], np.ones(columns[others[0]].size, dtype=np.bool_))
        labels = merged_mask(asked, pair.labels[axis], pair.counts.shape[axis])
        within = merged_mask(chosen, pair.labels[1 - axis], pair.counts.shape[1 - axis])
        if labels is not None and within is not None:
            return WeightedLabels(
                counts=counts,
                classes=classes,
                pair=number,
                axis=axis,
                level=pair.levels[axis],
                weights=_weights(classes, pair.levels[1 - axis], counts),
                inside=np.outer(labels, within),
            )
    raise too_many()


def too_many() -> InputRefused:
    """Return what is said of more columns than were counted together with the weights."""
    return InputRefused(
        "survey weights were counted together with one column at a time.",
        not_done=NOTHING_COUNTED,
        remedy="Ask by one column, whose labels are not finer than those that were counted with the weights.",
    )


def _weights(place: int, level: int, counts: CountEstimates) -> ClassWeights:
    column = counts.columns[place]
    if not isinstance(column.hierarchy, WeightClasses):
        raise TypeError("this is no column of survey weights")
    margin = np.bincount(labels_to(column, level), counts.published.margins[place])
    return class_weights(column.hierarchy, level, margin.round().astype(np.int64))


def weighted_total(selection: Selection, counts: CountEstimates) -> Figure:
    """Return the total of the survey weights of a set: for how many people its records stand."""
    own, width = weighted_labels(selection, counts), quantile_of(ERROR)
    lower, middle, upper = (np.broadcast_to(weights, own.inside.shape) for weights in own.weights)
    return Figure(
        estimate=max(own.value(middle), 0.0),
        lower=max(own.value(lower, errors=-width), 0.0),
        upper=max(own.value(upper, errors=width), 0.0),
        source=source_of(selection),
        note=_NOTE,
    )


def weighted_share(part: Selection, whole: Selection, counts: CountEstimates) -> Figure:
    """Return which share of the survey weights of a set a part of it has."""
    if len({*part, *whole}) != 1:
        raise too_many()
    [place] = {*part, *whole}
    own = weighted_labels(whole, counts, of=place)
    every = np.ones(counts.columns[place].size, dtype=np.bool_)
    inside = merged_mask(part.get(place, every), labels_to(counts.columns[place], own.level), own.inside.shape[0])
    if inside is None:
        raise too_many()
    numbers = inside.astype(np.float64)
    return _mean(own, {"lower": numbers, "middle": numbers, "upper": numbers})


def weighted_mean(place: int, selection: Selection, counts: CountEstimates) -> Figure:
    """Return the mean of a column's numbers by survey weights, as `LoadedRelease.mean`."""
    own = weighted_labels(selection, counts, of=place)
    edges = edges_of(counts.columns[place], own.level)
    own = replace(own, inside=own.inside & edges.known[:, None])
    ends = {"lower": edges.lower, "middle": edges.middle, "upper": edges.upper}
    return _mean(own, {name: np.nan_to_num(numbers) for name, numbers in ends.items()})


def _mean(own: WeightedLabels, numbers: Mapping[str, Amounts]) -> Figure:
    """Return a mean of numbers by weights: all means that some numbers and weights within their ends may have.

    A mean isn't too low as long as Σ (number − mean) · weight, each weight at the end that makes it smallest, isn't
    surely above 0; likewise for too high. Where weights and numbers are exact this is Fieller's interval.
    """
    width = quantile_of(ERROR)
    rows = own.inside.any(axis=1)
    least, most = float(numbers["lower"][rows].min()), float(numbers["upper"][rows].max())

    def surely(mean: float, *, above: bool) -> bool:
        left = (numbers["lower" if above else "upper"] - mean)[:, None]
        light, heavy = own.weights.lower, own.weights.upper
        cells = left * np.where((left > 0) == above, light, heavy)
        return own.value(cells, errors=-width) > 0 if above else own.value(cells, errors=width) < 0

    ends = []
    for above, begin, end in ((True, least, most), (False, most, least)):
        reached, beyond = begin, end
        if surely(begin, above=above):
            for _ in range(_HALVINGS):
                middle = (reached + beyond) / 2.0
                reached, beyond = (middle, beyond) if surely(middle, above=above) else (reached, middle)
        ends.append(reached)
    whole = own.value(np.broadcast_to(own.weights.middle, own.inside.shape))
    total = own.value(numbers["middle"][:, None] * own.weights.middle)
    return Figure(
        estimate=min(max(total / whole, least), most) if whole > 0 else math.nan,
        lower=ends[0],
        upper=ends[1],
        source="pairs",
        note=_NOTE,
    )
