"""What rows tell of a set of combinations of labels: an estimate by weights, and how many records there are surely.

A published row is a record, another one for each row. Its labels may be coarser than what is asked for: then it may be
of the set or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..accounting.theory.count_bounds import LONG_TAILS
from ..mechanisms.generalization_map import MappedColumn
from .combined_counts import Amounts
from .conditions import Mask
from .published_tables import PublishedTables, RowGroups, RowTable, labels_to


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedRows:
    """The rows of a set of combinations of labels.

    Args:
        weight: of how many records they stand; where labels are coarser, by the share that is of the set.
        certain: rows that are of the set, whatever their values are.
        groups: how many groups of the last stage are among them.
        spread: whether some rows may be of the set or not.
    """

    weight: float
    certain: float
    groups: int
    spread: bool = False


def table_for(places: Sequence[int], tables: Sequence[RowTable]) -> RowTable | None:
    """Return the table of rows that has all these columns, the one with the most rows; None where none has."""
    able = [table for table in tables if set(places) <= set(table.columns)]
    return max(able, key=lambda table: sum(float(stage.counts.sum()) for stage in table.stages), default=None)


def counted_rows(
    selection: Mapping[int, Mask],
    table: RowTable,
    published: PublishedTables,
    *,
    fitted: Mapping[int, Amounts],
    less: Mapping[int, Mask] | None = None,
) -> CountedRows:
    """Count the rows of a set of combinations.

    Args:
        selection: per column's place the finest labels of the set.
        table: that has all these columns.
        published: the release.
        fitted: per column's place how its records are spread over its finest labels, none below 0.
        less: a set whose rows are left out, those that may be of it among them.
    """
    weight = certain = 0.0
    groups, spread = 0, False
    # Of a histogram without noise a 0 stands for a group that isn't shown; with noise each cell is there.
    suppressed = published.reading.form == "histogram" and published.reading.noise is None
    for number, stage in enumerate(table.stages, start=1):
        share, surely, maybe = _shares(selection, stage, table, published.columns, fitted)
        if less is not None:
            surely = surely & ~_shares(less, stage, table, published.columns, fitted)[2]
        weight += float(stage.mass @ share)
        certain += float(stage.counts @ surely)
        spread = spread or bool((maybe & ~surely).any())
        if number == len(table.stages):
            shown = stage.counts > 0 if suppressed else np.ones(surely.shape, dtype=bool)
            groups = int((surely & shown).sum())
    return CountedRows(weight=weight, certain=certain, groups=groups, spread=spread)


def _shares(
    selection: Mapping[int, Mask],
    stage: RowGroups,
    table: RowTable,
    columns: Sequence[MappedColumn],
    fitted: Mapping[int, Amounts],
) -> tuple[Amounts, Mask, Mask]:
    """Return which share of each group is of the set, and whether it surely is and whether it may be."""
    share = np.ones(stage.counts.shape)
    surely, maybe = np.ones(stage.counts.shape, dtype=np.bool_), np.ones(stage.counts.shape, dtype=np.bool_)
    for place, mask in selection.items():
        at = table.columns.index(place)
        codes, level = stage.codes[at], stage.levels[at]
        own, size = labels_to(columns[place], level), columns[place].hierarchy.size(level)
        of_label = np.bincount(own, minlength=size)
        inside = np.bincount(own, weights=mask, minlength=size)
        spread = fitted.get(place, np.ones(mask.size)) + 1e-9
        part = np.bincount(own, weights=mask * spread, minlength=size) / np.bincount(own, spread, minlength=size)
        share *= part[codes]
        surely &= (inside == of_label)[codes]
        maybe &= (inside > 0)[codes]
    return share, surely, maybe


def least_records(counted: CountedRows, published: PublishedTables, *, error: float) -> float:
    """Return how many records a set has at least, but for this error.

    Of a deletion release each published group of the last stage has lost Z records, E[Z] in the mean; of a sampled one
    the exact limit of the binomial law holds. Proofs: docs/decisions/0020-intervals-that-hold.md.
    """
    from scipy.special import nbdtrik, ndtri  # SciPy's functions load faster than its distributions

    reading = published.reading
    if not reading.are_records:
        return 0.0
    if reading.rate is not None:
        if counted.certain <= 0:
            return 0.0
        # The quantile of the negative binomial law: the least number of failures before so many successes.
        failures = math.ceil(float(nbdtrik(error, counted.certain, reading.rate)) - 1e-9)
        return counted.certain + max(failures, 0)
    if not reading.expected or not counted.groups:
        return counted.certain
    deviation = math.sqrt(reading.variance * (counted.groups + LONG_TAILS))
    lost = reading.expected * counted.groups + float(ndtri(error)) * deviation - 0.5
    return counted.certain + max(lost, 0.0)
