"""Blocks: which columns stand together in a table of rows, chosen by published figures alone ("blocks/1").

Like levels, blocks follow from published counts and public declarations, so that the choice costs nothing, and whoever
has the release computes it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .model import PairModel
from .shrinkage import Amounts, row_sums, total

RULE = "blocks/1"
_SWEEPS = 20

Places = NDArray[np.int64]
"""Of each column that isn't pinned the number of its block, shape (columns,)."""


class Block(NamedTuple):
    """Columns that are published together.

    Args:
        name: of its table; empty where it is the only one.
        columns: by their numbers from 0, ascending.
    """

    name: str
    columns: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockChoice:
    """How blocks are chosen.

    Args:
        number: of blocks, at least 1 and at most one a column that isn't pinned.
        pinned: columns that stand in every block, by their numbers.
    """

    number: int
    pinned: tuple[int, ...] = ()

    def blocks(self, model: PairModel) -> tuple[Block, ...]:
        """Return blocks whose columns depend on one another most, all of about the same number of columns.

        A column that isn't pinned is put into one block. What is raised is the sum, over all pairs of such columns in
        the same block, of the pair's distance from independence: two columns change places as long as that raises it.
        Then each block takes one column of another one, where that adds more than its own columns do on average.
        """
        free = [column for column in range(len(model.margins)) if column not in self.pinned]
        # Dependence on a pinned column is the same in every block, and decides nothing.
        strengths = dependences(model)[np.ix_(free, free)]
        starts = (np.arange(len(free)) * self.number // len(free), _grown(strengths, self.number))
        places = max((_exchanged(strengths, one) for one in starts), key=lambda found: _within(strengths, found))
        members = [
            tuple(free[one] for one in _with_one_more(strengths, np.flatnonzero(places == block)))
            for block in range(self.number)
        ]
        return tuple(
            Block(str(number), tuple(sorted((*self.pinned, *columns))))
            for number, columns in enumerate(sorted(members), start=1)
        )


def dependences(model: PairModel) -> Amounts:
    """Return how far each pair of columns is from independence: Σ|count − product of margins| as a share of all."""
    columns = range(len(model.margins))
    found = np.zeros((len(columns), len(columns)))
    for (first, second), table in model.estimates(combinations(columns, 2)).items():
        expected = model.margins[first][:, None] * model.margins[second][None, :] / model.records
        found[first, second] = found[second, first] = total(np.abs(table - expected)) / model.records
    return found


def restricted(model: PairModel, columns: tuple[int, ...]) -> PairModel:
    """Return what a model says of some columns: their margins, and the estimates of all their pairs."""
    estimates = model.estimates(combinations(columns, 2))
    place = {column: number for number, column in enumerate(columns)}
    return PairModel(
        records=model.records,
        margins=tuple(model.margins[column] for column in columns),
        tables={(place[first], place[second]): table for (first, second), table in estimates.items()},
    )


def _grown(strengths: Amounts, number: int) -> Places:
    """Return blocks that grow column by column, each by the column that depends most on those that it has."""
    places = np.full(len(strengths), -1)
    for block in range(number):
        # Every block is as large as the columns that are left allow for those that are still to come.
        size = -(-int((places < 0).sum()) // (number - block))
        for _ in range(size):
            left, own = np.flatnonzero(places < 0), places == block
            # The first one is that which depends most on all others that are left.
            gains = row_sums(strengths[left][:, own if own.any() else places < 0])
            places[left[int(np.argmax(gains))]] = block
    return places


def _exchanged(strengths: Amounts, places: Places) -> Places:
    """Return blocks in which no exchange of two columns raises the sum within blocks."""
    found = places.copy()
    for _ in range(_SWEEPS):
        before = found.copy()
        for first, second in combinations(range(found.size), 2):
            if found[first] != found[second]:
                changed = found.copy()
                changed[[first, second]] = found[[second, first]]
                if _of(strengths, changed, first, second) > _of(strengths, found, first, second):
                    found = changed
        if np.array_equal(found, before):
            break
    return found


def _with_one_more(strengths: Amounts, own: Places) -> list[int]:
    """Return a block's columns and that of all others which depends on them most, where it adds more than they do."""
    columns: list[int] = own.tolist()
    others = [one for one in range(len(strengths)) if one not in columns]
    if not others:
        return columns
    added = row_sums(strengths[np.ix_(others, columns)])
    best = int(np.argmax(added))
    average = total(strengths[np.ix_(columns, columns)]) / len(columns)
    return sorted([*columns, others[best]]) if added[best] > average else columns


def _of(strengths: Amounts, places: Places, first: int, second: int) -> float:
    """Return what two columns add to the sum within their blocks."""
    return sum(total(strengths[one][(places == places[one])]) for one in (first, second))


def _within(strengths: Amounts, places: Places) -> float:
    return total(strengths * (places[:, None] == places[None, :]))
