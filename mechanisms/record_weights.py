"""For how many records each published record stands, raked to noisy margins where there are any; survey weights.

A survey weight says for how many people of the population a record stands. All here is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .generalization_map import GeneralizationMap
from .hierarchies.decimals import WeightClasses
from .kernel.recoding import BUCKET_CODE, KeyLayout
from .kinds.deletion import DeletionRelease
from .kinds.deletion_noise import WEIGHT_TOTAL, DeletionNoise, deletion_weights, expected_deletion
from .kinds.margins import Margin, cells_of_margin

Cells = NDArray[np.int64]
Codes = Sequence[NDArray[np.int64]] | Sequence[NDArray[np.int32]]
Amounts = NDArray[np.float64]
Number = TypeVar("Number", Cells, Amounts)
"""Noisy counts, or amounts that were fitted to them."""

_ROUNDS = 200
_NEAR_ENOUGH = 1e-6


def record_weights(published: Cells, *, release: DeletionRelease, stage: int) -> NDArray[np.float64]:
    """Return for how many records each published record of a group stands.

    1 before the last stage: what was deleted there went on. On the last (J + E[Z])/J, so that a group's weights add up
    to an unbiased estimate where `largest_deletion` + k records or more are left of the group; smaller groups that
    happen to be published are overstated. Its standard error is sd(Z).

    Args:
        published: J of each group, at least 1; shape (groups,).
        stage: 1 for the finest … `release.stages`.
    """
    if stage < release.stages:
        return np.ones(published.shape)
    weights = np.asarray(float(expected_deletion(release.noise)) / published, dtype=np.float64)
    weights += 1.0
    return weights


def deletion_variance(noise: DeletionNoise) -> Fraction:
    """Var[Z], in records squared, exactly."""
    square = Fraction(sum(z * z * weight for z, weight in enumerate(deletion_weights(noise))), WEIGHT_TOTAL)
    return square - expected_deletion(noise) ** 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Raked:
    """Weights that were raked to margins, and how well they fit.

    Args:
        weights: of each group's records; shape (groups,).
        total: the number of records that they were raked to; 0 where nothing was, and the weights are those given.
        largest_difference: between what they add up to in a cell and what was aimed at, as a share of the total.
    """

    weights: Amounts
    total: float
    largest_difference: float


def coarser_margins(
    noisy: Sequence[Number], *, finer: GeneralizationMap, coarser: GeneralizationMap, margins: Sequence[Margin]
) -> list[Number]:
    """Return margins by the labels of a coarser map: the sums of the cells that become one."""
    becomes = [
        after.hierarchy.coarser(np.arange(before.size, dtype=np.int64), level=before.level, to=after.level)
        for before, after in zip(finer.columns, coarser.columns, strict=True)
    ]
    merged: list[Number] = []
    for margin, cells in zip(margins, noisy, strict=True):
        if not margin:
            merged.append(cells)
            continue
        shape = tuple(finer.columns[place].size for place in margin)
        codes: list[Cells] = [np.zeros(0, dtype=np.int64)] * len(finer.columns)
        for place, own in zip(margin, np.unravel_index(np.arange(cells.size), shape), strict=True):
            codes[place] = becomes[place][own]
        sums = np.zeros(math.prod(coarser.columns[place].size for place in margin), dtype=cells.dtype)
        np.add.at(sums, cells_of_margin(codes, coarser, margin), cells)
        merged.append(sums)
    return merged


def rake_weights(
    weights: Amounts,
    records: Cells,
    codes: Codes,
    *,
    layout: KeyLayout,
    margins: Sequence[Margin],
    noisy: Sequence[Cells] | Sequence[Amounts],
) -> Raked:
    """Change weights by one factor a cell, margin after margin, until they add up to the noisy margins.

    Source: iterative proportional fitting, W. Deming, F. Stephan, On a least squares adjustment of a sampled frequency
    table when the expected marginal totals are known, Annals of Mathematical Statistics 11 (1940). It is
    post-processing of what is published. Only sums in the order of the groups, products and quotients are computed, so
    that the weights are the same on every machine.

    What is aimed at in a cell is its noisy count, and at least the number of its records that are published; nothing
    where none is published, since no weight can reach it. Each margin is scaled to one total, the mean of the margins'
    own weighted by the inverse of their number of cells, as their variances are. There are at most 200 rounds.

    Args:
        weights: of each group's records at the beginning, above 0; shape (groups,).
        records: published of each group, at least 1; shape (groups,).
        codes: per column, the groups' codes at the levels that all of them have; each of shape (groups,).
        layout: of these codes.
        margins: the columns of each margin.
        noisy: its noisy cells by the labels of these levels.
    """
    totals = math.fsum(math.fsum(cells.tolist()) / cells.size for cells in noisy)
    # No fewer than were published: those are certainly there, and with very noisy margins the mean may be below.
    total = max(totals / math.fsum(1 / cells.size for cells in noisy), float(records.sum()))
    if not records.size:
        return Raked(weights=weights, total=0.0, largest_difference=0.0)
    places = [cells_of_margin(codes, layout, margin).astype(np.int32, copy=False) for margin in margins]
    aims = []
    for cells, place in zip(noisy, places, strict=True):
        there = np.bincount(place, weights=records, minlength=cells.size)
        # Each published record stands for at least itself, so that no cell may be scaled below its own records.
        aim = np.where(there > 0, np.maximum(cells, there), 0.0)
        aims.append(aim * (total / math.fsum(aim.tolist())))
    mass = weights * records
    difference = math.inf
    for _ in range(_ROUNDS):
        difference = 0.0
        for aim, place in zip(aims, places, strict=True):
            now = np.bincount(place, weights=mass, minlength=aim.size)
            difference = max(difference, float(np.abs(now - aim).max()) / total)
            # A cell without mass has no record, and its factor is applied to none.
            factors = np.divide(aim, now, out=np.ones_like(aim), where=now > 0)
            mass = mass * factors[place]
        if difference <= _NEAR_ENOUGH:
            break
    return Raked(weights=mass / records, total=total, largest_difference=difference)


QUANTILE = 1.959964
"""Of the normal law: each end of an interval fails in at most one of 40 releases."""


def weight_place(columns: GeneralizationMap) -> int | None:
    """Return the place of the column of survey weights, the only one in classes of weights; None without one."""
    kinds = [isinstance(column.hierarchy, WeightClasses) for column in columns.columns]
    return kinds.index(True) if any(kinds) else None


class ClassWeights(NamedTuple):
    """Which weights the labels of a level hold. The label `*` holds the mean of the others in all three.

    Args:
        lower: the least weight that each label counts as; shape (labels,).
        middle: what its records are taken for.
        upper: the largest weight that it counts as.
    """

    lower: Amounts
    middle: Amounts
    upper: Amounts

    @property
    def mean(self) -> float:
        """The mean weight of all records, by the published counts."""
        return float(self.middle[BUCKET_CODE])


def class_weights(hierarchy: WeightClasses, level: int, counts: Cells) -> ClassWeights:
    """Return which weights the labels of a level hold.

    Args:
        hierarchy: of the column of weights.
        level: by whose labels it was counted.
        counts: noisy ones, of each label; shape (labels,).
    """
    first = np.arange(0, hierarchy.classes, 1 << level)
    last = np.minimum(first + (1 << level), hierarchy.classes) - 1
    ends = hierarchy.ends()
    lower, upper = ends[0][first], ends[1][last]
    # By ratio: no weight of a class differs from it by a larger factor than the ends do. Survey weights are products,
    # and rarer the larger they are; the arithmetic middle would be too large for most of them.
    middle = np.sqrt(lower * upper)
    there = np.maximum(counts[1:], 0).astype(np.float64)
    mean = middle @ there / there.sum() if there.any() else np.sqrt(lower[0] * upper[-1])
    return ClassWeights(*(np.concatenate(([mean], own)) for own in (lower, middle, upper)))


def row_weights(
    hierarchy: WeightClasses,
    weights: ClassWeights,
    counts: Cells,
    *,
    level: int,
    stages: Sequence[tuple[int, Cells, Amounts]],
) -> list[Amounts]:
    """Return the weight of each group of rows, stage by stage: that of its class, or the mean of what is merged.

    The mean is of the records that the stages before have left of each class, by the published counts and rows.

    Args:
        hierarchy: of the column of weights.
        weights: of the level by which it was counted.
        counts: noisy ones, of each of that level's labels.
        level: this level.
        stages: of each stage its level, each group's label, and for how many records each group stands.
    """
    left, found = np.maximum(counts, 0).astype(np.float64), []
    for to, labels, records in stages:
        size = hierarchy.size(to)
        becomes = hierarchy.coarser(np.arange(counts.size, dtype=np.int64), level=level, to=to)
        there = np.bincount(becomes, weights=left, minlength=size)
        totals = np.bincount(becomes, weights=left * weights.middle, minlength=size)
        plain = np.bincount(becomes, weights=weights.middle, minlength=size) / np.bincount(becomes, minlength=size)
        plain[BUCKET_CODE] = weights.mean
        values = np.where(there > 0, totals / np.maximum(there, 1e-9), plain) if to > level else weights.middle
        found.append(values[labels])
        shown = np.bincount(labels, weights=records, minlength=size)
        left *= 1.0 - np.minimum(shown / np.maximum(there, 1e-9), 1.0)[becomes]
    return found


class WeightedTotals(NamedTuple):
    """Totals of survey weights, one for each label of a column; each of shape (labels,) but the standard error.

    Args:
        totals: estimates, in which a record counts as the middle of its class.
        standard_error: of each, by the noise alone.
        low: lower ends of intervals of 95 % for the totals of the weights themselves, clipped at the bounds.
        high: upper ends.
    """

    totals: Amounts
    standard_error: float
    low: Amounts
    high: Amounts


def weighted_totals(
    by_class: Amounts | Cells, weights: ClassWeights, *, deviation: float, alone: Cells, alone_deviation: float
) -> WeightedTotals:
    """Return the totals of a column's labels by its counts together with the classes and by its counts alone.

    A total is Σ v·x over the classes, v being what a record of the class counts as and x its noisy count. What the
    counts of a label by class add up to is known a second time, from the column alone; of the difference the multiple
    is taken off that leaves the least noise. The ends are totals of the least and of the largest weights of the
    classes, each with its noise's quantile, so that an interval holds whatever the weights are within their classes.

    Args:
        by_class: noisy counts, shape (labels, labels of the classes).
        weights: of the classes' labels.
        deviation: of their noise.
        alone: noisy counts of the column alone, shape (labels,).
        alone_deviation: of theirs.
    """
    difference = by_class.sum(axis=1) - alone

    def total(values: Amounts) -> tuple[Amounts, float]:
        # Var = s²·Σ(v − a)² + a²·t², s and t being the deviations, is least at this a.
        share = float(values.sum()) / (values.size + (alone_deviation / deviation) ** 2)
        error = deviation * float(np.sqrt(max(float(values @ values) - share * float(values.sum()), 0.0)))
        return by_class @ values - share * difference, error

    (low, below), (totals, error), (high, above) = (total(values) for values in weights)
    # A total of weights is never negative.
    return WeightedTotals(
        totals, error, np.maximum(low - QUANTILE * below, 0.0), np.maximum(high + QUANTILE * above, 0.0)
    )


Totals = tuple[Amounts, Amounts, Amounts, Amounts]
"""Estimates, their standard errors, and the ends of their intervals."""


def class_totals(weights: ClassWeights, counts: Cells, *, deviation: float) -> Totals:
    """Return the total of each class; shape (labels,).

    Args:
        weights: of the classes' labels.
        counts: their noisy counts.
        deviation: of the noise.
    """
    width = QUANTILE * deviation
    low, high = np.maximum(counts - width, 0.0) * weights.lower, np.maximum(counts + width, 0.0) * weights.upper
    return weights.middle * counts, weights.middle * deviation, low, high


def whole_total(weights: ClassWeights, counts: Cells, *, deviation: float) -> Totals:
    """Return the total of all records by the counts of the classes, as `class_totals`; shape (1,)."""

    def total(values: Amounts) -> tuple[Amounts, Amounts]:
        return np.array([values @ counts]), np.array([deviation * np.sqrt(values @ values)])

    (low, below), (middle, error), (high, above) = (total(values) for values in weights)
    return middle, error, np.maximum(low - QUANTILE * below, 0.0), np.maximum(high + QUANTILE * above, 0.0)
