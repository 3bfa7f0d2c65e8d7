"""For how many records each published record stands, raked to noisy margins where there are any: post-processing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .generalization_map import GeneralizationMap
from .kernel.recoding import KeyLayout
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
