"""Group keys in which a coarser level is a mask of a finer one, so that a roll-up is an AND and an addition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .hierarchy import Hierarchy
from .lattice import Lattice, LatticeColumn, Levels
from .recoding import GeneralizationMap
from .suppression import GroupCounts

__all__ = ["PrefixKeys", "PrefixLayout", "prefix_keys"]

_WORD_BITS = 64
_MOST_RECORDS = 1 << 42


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixLayout:
    """Where each column's digits stand.

    A column's code is the path from its coarsest label down: one digit per level, the number of the child below its
    parent, the coarsest in the highest bits. So the code of a coarser level is the same with the low digits cleared.

    Args:
        finest: levels of the keys as they were built.
        masks: per column, per level from its finest one, the bits of its digits that are left.
        word_of: per column, the word that has its digits.
        words: number of 64-bit words of a key, the first the most significant.
    """

    finest: Levels
    masks: tuple[tuple[int, ...], ...]
    word_of: tuple[int, ...]
    words: int

    def live(self, levels: Levels) -> tuple[int, ...]:
        """Per word, the bits that keys of a map may have set."""
        bits = [0] * self.words
        for masks, word, level, finest in zip(self.masks, self.word_of, levels, self.finest, strict=True):
            bits[word] |= masks[level - finest]
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
        records: sum of the counts.
    """

    layout: PrefixLayout
    levels: Levels
    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    records: int

    def coarsened(self, levels: Levels) -> PrefixKeys:
        """The groups of a coarser map.

        Raises:
            ValueError: a level finer than this map's.
        """
        if any(to < level for to, level in zip(levels, self.levels, strict=True)):
            raise ValueError(f"{levels} is not coarser than {self.levels}")
        before, after = self.layout.live(self.levels), self.layout.live(levels)
        if before == after:
            return PrefixKeys(
                layout=self.layout, levels=levels, keys=self.keys, counts=self.counts, records=self.records
            )
        keys = self.keys & np.array(after, dtype=np.uint64).reshape(-1, 1)
        counts = self.counts
        if not _keeps_order(before, after):
            keys, counts = _sorted(keys, counts, highest=after[0], records=self.records)
        starts = _starts(keys)
        return PrefixKeys(
            layout=self.layout,
            levels=levels,
            keys=keys[:, starts],
            counts=np.add.reduceat(counts, starts) if starts.size else counts,
            records=self.records,
        )


def prefix_keys(counts: GroupCounts, *, lattice: Lattice) -> PrefixKeys:
    """Recode the groups of the map `lattice.finest`.

    Raises:
        ValueError: more than 2**42 records, or keys of another map.
    """
    finest = lattice.finest
    generalization = lattice.map_of(finest)
    if counts.keys.shape[0] != generalization.words:
        raise ValueError("these groups are not of the lattice's finest map")
    records = int(counts.counts.sum())
    if records > _MOST_RECORDS:
        raise ValueError(f"qualities are exact up to 2**42 records, not for {records}")
    columns = [
        _column_paths(column, codes, levels=range(low, high + 1))
        for column, codes, low, high in zip(
            lattice.columns, _decoded(generalization, counts.keys), finest, lattice.coarsest, strict=True
        )
    ]
    layout, shifts = _layout(columns, finest)
    keys = np.zeros((layout.words, counts.counts.size), dtype=np.uint64)
    for column, codes, word, shift in zip(
        columns, _decoded(generalization, counts.keys), layout.word_of, shifts, strict=True
    ):
        keys[word] |= (column.table << np.uint64(shift)).take(_places(column.present, codes))
    keys, ordered = _sorted(keys, counts.counts, highest=layout.live(finest)[0], records=records)
    return PrefixKeys(layout=layout, levels=finest, keys=keys, counts=ordered, records=records)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _ColumnPaths:
    """Codes of a column that occur, ascending, their paths, and per level the bits of the paths that are left."""

    present: NDArray[np.int64]
    table: NDArray[np.uint64]
    bits: int
    masks: tuple[int, ...]


def _column_paths(column: LatticeColumn, codes: NDArray[np.int64], *, levels: range) -> _ColumnPaths:
    present = _distinct(codes, column.hierarchy, levels[0])
    labels = [column.hierarchy.coarser(present, level=levels[0], to=level) for level in levels]
    table = np.zeros(present.size, dtype=np.uint64)
    parents = np.zeros(present.size, dtype=np.int64)
    widths: list[int] = []
    for label in reversed(labels):
        children, child = np.unique(np.stack((parents, label)), axis=1, return_inverse=True)
        firsts = np.searchsorted(children[0], np.arange(children[0].max(initial=-1) + 1))
        digit = child - firsts[parents] if present.size else child
        widths.append(int(digit.max(initial=0)).bit_length())
        table = (table << np.uint64(widths[-1])) | digit.astype(np.uint64)
        parents = child
    bits = sum(widths)
    masks: list[int] = []
    left = bits
    for level in range(len(levels)):
        masks.append(((1 << bits) - 1) >> (bits - left) << (bits - left))
        left -= widths[len(levels) - 1 - level]
    return _ColumnPaths(present=present, table=table, bits=bits, masks=tuple(masks))


def _layout(columns: Sequence[_ColumnPaths], finest: Levels) -> tuple[PrefixLayout, list[int]]:
    """Fill words from the first column on, each word from its lowest bit on for the last of its columns."""
    word_of: list[int] = []
    used = [0]
    for column in columns:
        if used[-1] + column.bits > _WORD_BITS:
            used.append(0)
        word_of.append(len(used) - 1)
        used[-1] += column.bits
    shifts: list[int] = []
    taken = [0] * len(used)
    for column, word in zip(columns, word_of, strict=True):
        taken[word] += column.bits
        shifts.append(used[word] - taken[word])
    masks = tuple(tuple(mask << shift for mask in column.masks) for column, shift in zip(columns, shifts, strict=True))
    return PrefixLayout(finest=finest, masks=masks, word_of=tuple(word_of), words=len(used)), shifts


def _decoded(generalization: GeneralizationMap, keys: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Codes column by column, by divisions alone, which are several times faster than remainders."""
    for column, place in zip(generalization.columns, generalization.placements, strict=True):
        above = keys[place.word] // place.stride
        yield above - above // column.size * column.size


def _distinct(codes: NDArray[np.int64], hierarchy: Hierarchy, level: int) -> NDArray[np.int64]:
    size = hierarchy.size(level)
    if size > max(1 << 16, 4 * codes.size):
        return np.unique(codes)
    return np.flatnonzero(np.bincount(codes, minlength=1))


def _places(present: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each code stands among the present ones."""
    if present.size == 0 or present[-1] > max(1 << 16, 4 * codes.size):
        return np.searchsorted(present, codes)
    place = np.zeros(int(present[-1]) + 1, dtype=np.int64)
    place[present] = np.arange(present.size)
    return place.take(codes)


def _keeps_order(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether clearing bits leaves ascending keys ascending: no bit that is left stands below a cleared one."""
    cleared = False
    for old, new in zip(before, after, strict=True):
        if cleared and new:
            return False
        gone = old & ~new
        if gone:
            cleared = True
            if new & ((1 << gone.bit_length()) - 1):
                return False
    return True


def _sorted(
    keys: NDArray[np.uint64], counts: NDArray[np.int64], *, highest: int, records: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    count_bits = records.bit_length()
    if keys.shape[0] == 1 and highest.bit_length() + count_bits <= _WORD_BITS:
        # Keys and counts in one word, so that one vectorised sort carries both.
        packed = keys[0] << np.uint64(count_bits)
        packed |= counts.view(np.uint64)
        packed.sort()
        ordered = (packed & np.uint64((1 << count_bits) - 1)).view(np.int64)
        packed >>= np.uint64(count_bits)
        return packed.reshape(1, -1), ordered
    order = np.argsort(keys[0]) if keys.shape[0] == 1 else np.lexsort(keys[::-1])
    return keys[:, order], counts[order]


def _starts(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    changes = keys[0, 1:] != keys[0, :-1]
    for word in keys[1:]:
        changes |= word[1:] != word[:-1]
    return np.concatenate((np.zeros(min(1, keys.shape[1]), dtype=np.int64), np.flatnonzero(changes) + 1))
