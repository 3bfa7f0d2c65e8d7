"""Group keys in which a coarser level is a mask of a finer one, and the coding that makes them.

Group keys in which a coarser level is a mask of a finer one: a roll-up is an AND, a merge of runs, a sum.

From a map's group keys to prefix keys: every column's codes renumbered so that levels nest by prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..hierarchies.declare import Hierarchy
from ..recoding import GeneralizationMap
from ..suppression import GroupCounts
from .lattice import Lattice, LatticeColumn, Levels

__all__ = ["PrefixKeys", "PrefixLayout", "ordered_groups", "prefix_keys"]

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
        key_words: number of 64-bit words of a key, the first the most significant.
    """

    finest: Levels
    order: tuple[int, ...]
    masks: tuple[tuple[int, ...], ...]
    word_of: tuple[int, ...]
    key_words: int

    def live(self, levels: Levels) -> tuple[int, ...]:
        """Per word, the bits that keys of a map may have set."""
        bits = [0] * self.key_words
        for masks, word, level, finest in zip(self.masks, self.word_of, levels, self.finest, strict=True):
            bits[word] |= masks[level - finest]
        return tuple(bits)

    def leading(self, levels: Levels, columns: int) -> tuple[int, ...]:
        """Per word, the bits of the first columns of the order at some levels, and of the next at its coarsest."""
        bits = [0] * self.key_words
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


_MOST_RECORDS = 1 << 42
_DENSE_CODES = 1 << 16
_AT_ONCE = 1 << 18


def prefix_keys(counts: GroupCounts, *, lattice: Lattice) -> PrefixKeys | None:
    """Recode the groups of the map `lattice.finest`; None where the path of some column needs more than 64 bits.

    The column with most levels stands last, where a roll-up needs no sorting, the others before it by the number of
    labels that occur, the most first, so that the early steps of a roll-up leave small arrays to the later ones; of
    these, the one with most levels but the first stands next to last.

    Raises:
        ValueError: more than 2**42 records, or groups of another map.
    """
    finest = lattice.finest
    generalization = lattice.map_of(finest)
    if counts.keys.shape[0] != generalization.key_words:
        raise ValueError("these groups are not of the lattice's finest map")
    if int(counts.counts.sum()) > _MOST_RECORDS:
        raise ValueError("qualities are exact up to 2**42 records, and here are more")
    present = _present(generalization, counts.keys)
    paths = [
        _paths_of(column, codes, levels=range(low, high + 1))
        for column, codes, low, high in zip(lattice.columns, present, finest, lattice.coarsest, strict=True)
    ]
    if any(path.bits > _WORD_BITS for path in paths):
        return None
    layout, shifts = _layout(paths, lattice)
    keys = np.zeros((layout.key_words, counts.counts.size), dtype=np.uint64)
    tables = [path.table << np.uint64(shift) for path, shift in zip(paths, shifts, strict=True)]
    for part in _parts(counts.counts.size):
        decoded = _decoded(generalization, counts.keys[:, part])
        for path, table, codes, word in zip(paths, tables, decoded, layout.word_of, strict=True):
            keys[word, part] |= table.take(path.places(codes))
    keys, ordered = ordered_groups(keys, counts.counts)
    return PrefixKeys(layout=layout, levels=finest, keys=keys, counts=ordered)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Paths:
    """A column's paths.

    Args:
        present: codes that occur, ascending.
        place: place of each code among them, or empty where codes are too many for a table.
        table: path of each present code.
        widths: bits of each digit, from the finest level on.
    """

    present: NDArray[np.int64]
    place: NDArray[np.int64]
    table: NDArray[np.uint64]
    widths: tuple[int, ...]

    @property
    def bits(self) -> int:
        """Bits of a path."""
        return sum(self.widths)

    def places(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each code stands among the present ones."""
        return self.place.take(codes) if self.place.size else np.searchsorted(self.present, codes)

    def masks(self, shift: int) -> tuple[int, ...]:
        """Per level from the finest, the bits that are left of a path that stands at a shift."""
        everything = (1 << self.bits) - 1
        cleared = 0
        masks: list[int] = []
        for width in (0, *self.widths[:-1]):
            cleared += width
            masks.append((everything >> cleared << cleared) << shift)
        return tuple(masks)


def _paths_of(column: LatticeColumn, present: NDArray[np.int64], *, levels: range) -> _Paths:
    place = np.empty(0, dtype=np.int64)
    if present.size and present[-1] < max(_DENSE_CODES, 4 * present.size):
        place = np.zeros(int(present[-1]) + 1, dtype=np.int64)
        place[present] = np.arange(present.size)
    table = np.zeros(present.size, dtype=np.uint64)
    parents = np.zeros(present.size, dtype=np.int64)
    widths: list[int] = []
    for level in reversed(levels):
        labels = column.hierarchy.coarser(present, level=levels[0], to=level)
        nodes, node = np.unique(np.stack((parents, labels)), axis=1, return_inverse=True)
        first = np.searchsorted(nodes[0], np.arange(present.size))
        digits = node - first.take(parents)
        widths.append(int(digits.max(initial=0)).bit_length())
        table = (table << np.uint64(widths[-1])) | digits.astype(np.uint64)
        parents = node
    return _Paths(present=present, place=place, table=table, widths=tuple(reversed(widths)))


def _layout(paths: Sequence[_Paths], lattice: Lattice) -> tuple[PrefixLayout, list[int]]:
    """The layout, and each column's shift; words are filled from the first column of the order on."""
    spans = [high - low for low, high in zip(lattice.finest, lattice.coarsest, strict=True)]
    by_labels = sorted(range(len(paths)), key=lambda column: -paths[column].present.size)
    last = max(reversed(by_labels), key=lambda column: spans[column])
    others = [column for column in by_labels if column != last]
    late = [max(reversed(others[1:]), key=lambda column: spans[column])] if len(others) > 1 else []
    order = [*(column for column in others if column not in late), *late, last]
    key_words: list[list[int]] = [[]]
    for column in order:
        if sum(paths[member].bits for member in (*key_words[-1], column)) > _WORD_BITS:
            key_words.append([])
        key_words[-1].append(column)
    word_of, shifts = [0] * len(paths), [0] * len(paths)
    for word, members in enumerate(key_words):
        shift = 0
        for column in reversed(members):
            word_of[column], shifts[column] = word, shift
            shift += paths[column].bits
    layout = PrefixLayout(
        finest=lattice.finest,
        order=tuple(order),
        masks=tuple(path.masks(shift) for path, shift in zip(paths, shifts, strict=True)),
        word_of=tuple(word_of),
        key_words=len(key_words),
    )
    return layout, shifts


def _present(generalization: GeneralizationMap, keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Per column, the codes that occur, ascending."""
    found: list[list[NDArray[np.int64]]] = [[] for _ in generalization.columns]
    for part in _parts(keys.shape[1]):
        for column, codes, seen in zip(
            generalization.columns, _decoded(generalization, keys[:, part]), found, strict=True
        ):
            seen.append(_distinct(codes, column.hierarchy, column.level))
    return [np.unique(np.concatenate([np.empty(0, dtype=np.int64), *seen])) for seen in found]


def _distinct(codes: NDArray[np.int64], hierarchy: Hierarchy, level: int) -> NDArray[np.int64]:
    if hierarchy.size(level) > max(_DENSE_CODES, 4 * codes.size):
        return np.unique(codes)
    return np.flatnonzero(np.bincount(codes))


def _decoded(generalization: GeneralizationMap, keys: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Codes column by column, by divisions alone, which are several times faster than remainders."""
    for column, place in zip(generalization.columns, generalization.placements, strict=True):
        upper = keys[place.word] // place.stride
        yield upper - upper // column.size * column.size


def _parts(size: int) -> list[slice]:
    """Pieces that fit a processor's cache."""
    return [slice(start, start + _AT_ONCE) for start in range(0, size, _AT_ONCE)]
