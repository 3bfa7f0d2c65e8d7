"""What a release that chooses pairs will tell of each column, and how exactly: by its specification alone."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from ...mechanisms.kinds.deletion_noise import DeletionNoise, deletion_weights
from ...mechanisms.pair_model.blocks import BlockChoice
from ...mechanisms.pair_model.paired_plan import PairedPlan
from ..margin_specs import margin_error

LIKELY = 20
"""A group of the likely size is missing in one of so many releases."""


def told_columns(plan: PairedPlan) -> dict[str, Any]:
    """Return for each column what will be counted of it, and in which tables of rows it will be; and how many people.

    Args:
        plan: the public side of the release.
    """
    error, tables = margin_error(plan.mechanism), _tables(plan)
    finest: dict[int, set[int]] = {place: set() for place in range(len(plan.counted.columns))}
    coarser: dict[int, set[int]] = {place: set() for place in finest}
    for candidate in plan.candidates:
        found = finest if candidate.detail == 0 else coarser
        found[candidate.first].add(candidate.second)
        found[candidate.second].add(candidate.first)
    columns = [
        {
            "column": column.name,
            "level": column.level,
            "labels": column.size,
            "standard_error": error,
            "pairs": len(finest[place] | coarser[place]),
            "pairs_by_coarser_labels": len(coarser[place] - finest[place]),
            "least_tables": tables[place][0],
            "most_tables": tables[place][1],
        }
        for place, column in enumerate(plan.counted.columns)
    ]
    likely, certain = group_sizes(plan.mechanism.noise, k=plan.mechanism.k)
    told = {"columns": columns, "tables": plan.mechanism.tables, "likely_group": likely, "certain_group": certain}
    return {"told": told}


def group_sizes(noise: DeletionNoise, *, k: int) -> tuple[int, int]:
    """Return of how many people a group at a stage is shown in 19 of 20 releases, and of how many in every one.

    It is shown where Z ≤ n − k, Z being the noise.
    """
    reached = [*accumulate(deletion_weights(noise))]
    likely = next(z for z, below in enumerate(reached) if LIKELY * below >= (LIKELY - 1) * reached[-1])
    return likely + k, len(reached) - 1 + k


def _tables(plan: PairedPlan) -> list[tuple[int, int]]:
    """Return for each column in how many tables of rows it will be, at least and at most."""
    columns, blocks = range(len(plan.counted.columns)), plan.blocks
    if blocks is None:
        return [(1, 1) for _ in columns]
    if isinstance(blocks, BlockChoice):
        # Found blocks may each take a column of another one besides their own.
        return [(blocks.number if place in blocks.pinned else 1, blocks.number) for place in columns]
    there = [sum(place in block.columns for block in blocks) for place in columns]
    return [(number, number) for number in there]
