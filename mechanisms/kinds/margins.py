"""Noisy margins of the released columns, beside the rows of a deletion release or of a sample.

A margin counts all records by the labels of one column, or of two, every declared label and pair of labels included;
or all of them together, as the only cell of a margin of no column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise, product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import Randomness
from ..kernel.recoding import CodeTable, KeyLayout
from .deletion_noise import GaussianDeletion, draw_deletions

Margin = tuple[int, ...]
"""The places of a margin's columns in the map: at most two, the first the more significant of a cell's number."""

TOTAL: Margin = ()
"""The margin of no column, whose one cell counts all records."""

Cells = NDArray[np.int64]

_GROUPS_AT_ONCE = 1 << 14
_JOINT_CELLS = 1 << 15
_GROUPS_PER_JOINT_CELL = 16
_SETS_AT_ONCE = 128


class WithMargins(Protocol):
    """A release that pays for margins."""

    @property
    def margins(self) -> int:
        """How many margins are published."""
        ...

    @property
    def margin_noise(self) -> GaussianDeletion:
        """The law of Z for each cell of a margin."""
        ...


def margin_sizes(layout: KeyLayout, margins: Sequence[Margin]) -> list[int]:
    """Return how many cells each margin has: one for each label, or pair of labels, that was declared, or one."""
    return [math.prod(layout.sizes[place] for place in margin) for margin in margins]


def noisy_margins(
    counts: GroupCounts,
    *,
    layout: KeyLayout,
    margins: Sequence[Margin],
    release: WithMargins,
    randomness: Randomness,
) -> Cells:
    """Return every cell's count and Z − m, margin after margin; shape (cells of all margins,). Some may be negative.

    PRIVACY: each cell has a draw of its own. Draw once, store before anything depends on it, and never draw again.

    Args:
        counts: all records, by the map of the first stage.
        layout: of its columns.
        margins: which are counted.
        release: the mechanism, as many margins among it.
        randomness: the source of secret random bytes.

    Raises:
        ValueError: another number of margins than is paid for.
    """
    if len(margins) != release.margins:
        raise ValueError(f"{release.margins} margins are paid for, not {len(margins)}")
    # Every declared cell is there: one that stood there alone would tell of a record.
    whole = np.concatenate(exact_margins(counts, layout=layout, margins=margins))
    noise = release.margin_noise
    return whole + draw_deletions(noise, whole.size, randomness=randomness) - noise.width


def exact_margins(
    counts: GroupCounts,
    *,
    layout: KeyLayout,
    margins: Sequence[Margin],
    tables: Sequence[CodeTable | None] | None = None,
    sizes: Sequence[int] | None = None,
) -> list[Cells]:
    """Return every cell's count, margin after margin; each of shape (cells,). Margins may name two columns at most.

    Groups are counted by few sets of columns, each with many of the margins, and these joint counts are summed up. Some
    sets and some groups are looked at at a time, so that memory beside the result is bounded.

    Args:
        counts: all records.
        layout: of its columns.
        margins: which are counted.
        tables: per column, the code to count by of each code; None where they are the same.
        sizes: per column, how many codes to count by there are; those of the layout where it is None.
    """
    tables, sizes = tables or [None] * len(layout.sizes), sizes or layout.sizes
    found: dict[Margin, Cells] = {TOTAL: counts.counts.sum(keepdims=True)}
    missing = set(margins) - {TOTAL}
    # With few groups, summing up the cells of a set would take longer than counting.
    sets = column_sets(missing, sizes, most_cells=min(_JOINT_CELLS, counts.counts.size // _GROUPS_PER_JOINT_CELL))
    for first in range(0, len(sets), _SETS_AT_ONCE):
        joint = {
            own: np.zeros([sizes[place] for place in own], np.int64) for own in sets[first : first + _SETS_AT_ONCE]
        }
        # Codes of some groups stay in the processor's cache for all sets.
        for begin in range(0, counts.counts.size, _GROUPS_AT_ONCE):
            block = slice(begin, begin + _GROUPS_AT_ONCE)
            codes = {place: layout.codes_of(counts.keys[:, block], place) for place in set().union(*joint)}
            for place, own in codes.items():
                codes[place] = own if (table := tables[place]) is None else table[own].astype(np.int64, copy=False)
            for members, cells in joint.items():
                number = codes[members[0]].copy()
                for place in members[1:]:
                    number *= sizes[place]
                    number += codes[place]
                np.add.at(cells.reshape(-1), number, counts.counts[block])
        for members, cells in joint.items():
            for margin in missing.intersection(chain(product(members), product(members, repeat=2))):
                summed = cells.sum(axis=tuple(axis for axis, place in enumerate(members) if place not in margin))
                # Members ascend; a margin may name its columns in the other order.
                found[margin] = (summed if margin[0] <= margin[-1] else summed.T).flatten()
            missing.difference_update(found)
    return [found[margin] for margin in margins]


def column_sets(margins: Iterable[Margin], sizes: Sequence[int], *, most_cells: int) -> list[Margin]:
    """Return few sets of columns, of which each margin lies within one; each set's columns ascend.

    A set has at most some joint cells, unless it is of one margin. It grows by the column that brings most margins.
    """
    # Of each column, as the bits of a number, the columns that it is wanted together with; itself where it's alone.
    wanted = [0] * len(sizes)
    for margin in margins:
        wanted[margin[0]] |= 1 << margin[-1]
        wanted[margin[-1]] |= 1 << margin[0]
    found = []
    while any(wanted):
        first = max(range(len(sizes)), key=lambda place: (wanted[place].bit_count(), sizes[place]))
        members, cells = 1 << first, sizes[first]
        while True:
            others = [place for place in range(len(sizes)) if not members >> place & 1]
            brought = {place: (wanted[place] & (members | 1 << place)).bit_count() for place in others}
            fitting = [place for place in others if brought[place] and cells * sizes[place] <= most_cells]
            if not fitting and members == 1 << first and not wanted[first] & members:
                fitting = [place for place in others if wanted[first] >> place & 1]
            if not fitting:
                break
            best = max(fitting, key=lambda place: (brought[place], -sizes[place]))
            members, cells = members | 1 << best, cells * sizes[best]
        found.append(tuple(place for place in range(len(sizes)) if members >> place & 1))
        wanted = [one & ~members if members >> place & 1 else one for place, one in enumerate(wanted)]
    return found


def split_margins(numbers: Cells, *, layout: KeyLayout, margins: Sequence[Margin]) -> list[Cells]:
    """Return the cells of each margin, out of all of them one after the other."""
    ends = accumulate(margin_sizes(layout, margins), initial=0)
    return [numbers[first:end] for first, end in pairwise(ends)]


def cells_of_margin(
    codes: Sequence[NDArray[np.int64]] | Sequence[NDArray[np.int32]], layout: KeyLayout, margin: Margin
) -> NDArray[Any]:
    """Return the number of each group's cell, of groups that are given by their codes per column; shape (groups,)."""
    if not margin:
        return np.zeros(codes[0].shape, dtype=np.int64)
    number: NDArray[Any] = codes[margin[0]]
    for place in margin[1:]:
        number = number * layout.sizes[place] + codes[place]
    return number
