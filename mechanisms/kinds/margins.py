"""Noisy margins of the released columns, beside the rows of a deletion release or of a sample.

A margin counts all records by the labels of one column, or of two, every declared label and pair of labels included;
or all of them together, as the only cell of a margin of no column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import Randomness
from ..kernel.recoding import KeyLayout
from .deletion_noise import GaussianDeletion, draw_deletions

Margin = tuple[int, ...]
"""The places of a margin's columns in the map: at most two, the first the more significant of a cell's number."""

TOTAL: Margin = ()
"""The margin of no column, whose one cell counts all records."""

Cells = NDArray[np.int64]


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
    codes = layout.decode(counts.keys)
    exact = []
    for margin, size in zip(margins, margin_sizes(layout, margins), strict=True):
        cells = np.zeros(size, dtype=np.int64)  # every declared cell: one that stood there alone would tell of a record
        np.add.at(cells, cells_of_margin(codes, layout, margin), counts.counts)
        exact.append(cells)
    whole = np.concatenate(exact)
    noise = release.margin_noise
    return whole + draw_deletions(noise, whole.size, randomness=randomness) - noise.width


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
