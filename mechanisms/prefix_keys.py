"""Group keys in which a coarser level is a mask of a finer one: a roll-up is an AND, a merge of runs, a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .lattice import Levels

__all__ = ["PrefixKeys", "PrefixLayout", "ordered_groups"]

_WORD_BITS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixLayout:
    """Where each column's digits stand.

    A column's code is the path from its coarsest label down: one digit per level, the number of the child below its
    parent, the coarsest in the highest bits. So the code of a coarser level is the same with the low digits cleared.

    Args:
        finest: levels of the keys as they were built.
        order: the columns from the most significant digits on.
        masks: per column, per level from its finest one, the bits of its digits that are left.
        word_of: per column, the word that has its digits.
        words: number of 64-bit words of a key, the first the most significant.
    """

    finest: Levels
    order: tuple[int, ...]
    masks: tuple[tuple[int, ...], ...]
    word_of: tuple[int, ...]
    words: int

    def live(self, levels: Levels) -> tuple[int, ...]:
        """Per word, the bits that keys of a map may have set."""
        bits = [0] * self.words
        for masks, word, level, finest in zip(self.masks, self.word_of, levels, self.finest, strict=True):
            bits[word] |= masks[level - finest]
        return tuple(bits)

    def leading(self, levels: Levels, columns: int) -> tuple[int, ...]:
        """Per word, the bits of the first columns of the order at some levels, and of the next at its coarsest."""
        bits = [0] * self.words
        for place, column in enumerate(self.order[: columns + 1]):
            level = levels[column] - self.finest[column] if place < columns else -1
            bits[self.word_of[column]] |= self.masks[column][level]
        return tuple(bits)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PrefixKeys:
    """The groups of one map and their sizes.

    INVARIANT: keys are distinct and ascend word by word.

    Args:
        layout: where the digits stand.
        levels: levels of the map.
        keys: shape (words, n).
        counts: shape (n,), int64.
    """

    layout: PrefixLayout
    levels: Levels
    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]

    def coarsened(self, levels: Levels) -> PrefixKeys:
        """The groups of a coarser map.

        Raises:
            ValueError: a level finer than this map's.
        """
        if any(to < level for to, level in zip(levels, self.levels, strict=True)):
            raise ValueError(f"{levels} is not coarser than {self.levels}")
        before, after = self.layout.live(self.levels), self.layout.live(levels)
        keys, counts = self.keys, self.counts
        if before != after and counts.size:
            keys = keys & np.array(after, dtype=np.uint64).reshape(-1, 1)
            if not _keeps_order(before, after):
                keys, counts = ordered_groups(keys, counts)
            ends = group_ends(keys)
            keys, counts = keys[:, ends], group_sums(counts, ends)
        return PrefixKeys(layout=self.layout, levels=levels, keys=keys, counts=counts)

    def reaching(self, threshold: int, *, columns: int) -> PrefixKeys:
        """The groups that may reach a size at some coarser level of the columns after the first few of the order.

        Left out are those whose first columns agree in fewer records than that, whatever the other columns do.

        Args:
            threshold: the size.
            columns: how many columns of the order stay at their levels.
        """
        counts = self.counts
        if counts.size == 0:
            return self
        ends = group_ends(self.keys & np.array(self.layout.leading(self.levels, columns), np.uint64).reshape(-1, 1))
        reached = group_sums(counts, ends) >= threshold
        if reached.all():
            return self
        chosen = np.flatnonzero(np.repeat(reached, np.diff(ends, prepend=-1)))
        return PrefixKeys(
            layout=self.layout, levels=self.levels, keys=self.keys.take(chosen, axis=1), counts=counts.take(chosen)
        )


def ordered_groups(keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Put keys in ascending order, with their counts; keys need not be distinct, shape (words, n)."""
    if keys.shape[0] == 1 and counts.size:
        count_bits = int(counts.max()).bit_length()
        if int(keys[0].max()).bit_length() + count_bits <= _WORD_BITS:
            # Key and count in one number, so that one sort carries both. Stable sorting merges the runs that a
            # roll-up leaves, which is several times faster here than sorting afresh.
            packed = keys[0] << np.uint64(count_bits)
            packed |= counts.view(np.uint64)
            packed.sort(kind="stable")
            ordered = packed & np.uint64((1 << count_bits) - 1)
            packed >>= np.uint64(count_bits)
            return packed.reshape(1, -1), ordered.view(np.int64)
    order = np.argsort(keys[0], kind="stable") if keys.shape[0] == 1 else np.lexsort(keys[::-1])
    return keys[:, order], counts[order]


def group_ends(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where each run of equal keys ends, in ascending keys of shape (words, n); n at least 1."""
    changes = keys[0, 1:] != keys[0, :-1]
    for word in keys[1:]:
        changes |= word[1:] != word[:-1]
    return np.append(np.flatnonzero(changes), keys.shape[1] - 1)


def group_sums(counts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of each run; by differences of running sums, since most runs are short."""
    return np.diff(np.cumsum(counts).take(ends), prepend=0)


def _keeps_order(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether clearing bits leaves ascending keys ascending: no bit that is left stands below a cleared one."""
    cleared = False
    for old, new in zip(before, after, strict=True):
        gone = old & ~new
        if (cleared and new) or new & ((1 << gone.bit_length()) - 1):
            return False
        cleared = cleared or gone != 0
    return True
