"""Every pair of columns as published rows tell it: by their labels, spread over finer labels as a model has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .model import Codes, Pair, merged_table
from .shrinkage import Amounts, fitted, quotient, total


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowStage:
    """What a stage published.

    Args:
        codes: per column, each group's label; each of shape (groups,).
        mass: of how many people each group's rows stand, shape (groups,).
        labels: per column, the label of this stage of each finest label.
        sizes: per column, how many labels the stage has.
    """

    codes: Sequence[NDArray[np.int64]]
    mass: Amounts
    labels: Sequence[Codes]
    sizes: Sequence[int]


def pair_by_rows(pair: Pair, estimate: Amounts, *, stages: Sequence[RowStage], margins: Sequence[Amounts]) -> Amounts:
    """Return a pair's counts by the rows of all stages, spread over the finest labels as an estimate has them.

    What a finer stage accounts for is taken from the estimate before a coarser one is spread by the rest.

    Args:
        pair: the columns.
        estimate: their counts by a model, by the finest labels.
        stages: the finest first.
        margins: per column, the fitted counts of the finest labels.
    """
    rest, found = estimate, np.zeros_like(estimate)
    for stage in stages:
        labels = stage.labels[pair[0]], stage.labels[pair[1]]
        shape = stage.sizes[pair[0]], stage.sizes[pair[1]]
        place = stage.codes[pair[0]] * shape[1] + stage.codes[pair[1]]
        counted: Amounts = np.zeros(shape)
        np.add.at(counted.reshape(-1), place, stage.mass)
        left, whole = (merged_table(one, labels, shape=shape) for one in (rest, estimate))
        by_rest = quotient(counted, left)
        by_whole = np.where(by_rest > 0, 0.0, quotient(counted, whole))  # where finer rows account for all of a label
        spread = rest * by_rest[labels[0]][:, labels[1]] + estimate * by_whole[labels[0]][:, labels[1]]
        found, rest = found + spread, np.maximum(rest - spread, 0.0)
    if not total(found):
        # No stage published a row; the estimate by counts is all there is.
        return estimate
    return fitted(found, margins[pair[0]], margins[pair[1]])
