"""Measures of what coarsening loses: granularity, non-uniform entropy, ambiguity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..hierarchy import Hierarchy
from .counted import CountedRecords

__all__ = ["EntropyLoss", "ambiguity_log10", "entropy_loss", "granularity_loss"]


def granularity_loss(records: CountedRecords, place: int, *, suppressed: int = 0) -> float:
    """LM: how much of its domain a value of one column covers beyond itself, averaged over records; 0 … 1.

    (1/n) Σ (c − 1)/(m − 1), where a record's label covers c of the m declared values; a suppressed record loses 1.
    Iyengar, Transforming Data to Satisfy Privacy Constraints, KDD 2002, Section 2. ARX shows 1 minus this as its
    quality "granularity". 0 for a domain of one value, and where there are no records.

    Args:
        records: the table.
        place: number of the column, from 0.
        suppressed: records that were left out, at least 0.
    """
    column = records.map.columns[place]
    codes, counts = records.marginal(place)
    domain = _domain(column.hierarchy)
    total = int(counts.sum()) + suppressed
    if domain <= 1 or not total:
        return 0.0
    covered = column.hierarchy.values_covered(codes, column.level).astype(np.float64)
    lost = float(((covered - 1) / (domain - 1) * counts).sum()) + suppressed
    return lost / total


@dataclass(frozen=True, kw_only=True, slots=True)
class EntropyLoss:
    """What coarsening one column loses of the information that its values had.

    Args:
        lost: bits lost over all records.
        had: bits that the values had over all records.
    """

    lost: float
    had: float

    @property
    def share(self) -> float:
        """Share lost, 0 … 1; 0 where the column told nothing before."""
        return self.lost / self.had if self.had else 0.0


def entropy_loss(before: CountedRecords, place: int, *, level: int) -> EntropyLoss:
    """Π_e: non-uniform entropy, the bits that one needs to get from each record's label back to its value.

    lost = Σ log₂(n_label / n_value) and had = Σ log₂(n / n_value) over the records, with the frequencies of the
    table before. De Waal, Willenborg, Information Loss through Global Recoding and Local Suppression, Netherlands
    Official Statistics 14, 1999; Gionis, Tassa, k-Anonymization with Minimal Loss of Information, TKDE 21(2), 2009,
    Section 4.

    Args:
        before: the table before coarsening.
        place: number of the column, from 0.
        level: the level that it is coarsened to.

    Raises:
        ValueError: a level below the table's.
    """
    column = before.map.columns[place]
    codes, counts = before.marginal(place)
    if not counts.size:
        return EntropyLoss(lost=0.0, had=0.0)
    labels = column.hierarchy.coarser(codes, level=column.level, to=level)
    _, group = np.unique(labels, return_inverse=True)
    of_label = np.bincount(group, weights=counts)[group]
    return EntropyLoss(
        lost=float((counts * np.log2(of_label / counts)).sum()),
        had=float((counts * np.log2(counts.sum() / counts)).sum()),
    )


def ambiguity_log10(records: CountedRecords) -> float:
    """AM: log₁₀ of how many combinations of declared values a record may stand for, on average over records.

    (1/n) Σ Π c_j, where the record's label in column j covers c_j declared values. Goldberger, Tassa, Efficient
    Anonymizations with Enhanced Utility, Transactions on Data Privacy 3(2), 2010, Section 2. The logarithm, since
    the product of many columns is large; 0 means that every record stands for one combination, and so does an
    empty table.

    Args:
        records: the table.
    """
    if not records.class_sizes.size:
        return 0.0
    logs: NDArray[np.float64] = np.zeros(records.class_sizes.size)
    for column, codes in zip(records.map.columns, records.codes(), strict=True):
        logs += np.log10(column.hierarchy.values_covered(codes, column.level).astype(np.float64))
    highest = float(logs.max())
    scaled = float((records.class_sizes * 10 ** (logs - highest)).sum()) / records.records
    return highest + math.log10(scaled)


def _domain(hierarchy: Hierarchy) -> int:
    """Number of declared values."""
    return sum(size * labels for size, labels in hierarchy.label_sizes(0).items())
