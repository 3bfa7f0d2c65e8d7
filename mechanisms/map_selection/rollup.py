"""The exact quality of every candidate map, each rolled up from a finer one in bounded memory, or counted on its own.

Group keys are coded so that a coarser level is a mask of a finer one: a roll-up is an AND, a merge of runs, a sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ..generalization_map import GeneralizationMap
from ..hierarchies.declare import Hierarchy
from ..kernel.group_counts import GroupCounts, sum_counts
from .choice import Lattice, LatticeColumn, Levels, MapWeights

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
        """Return per word, the bits that keys of a map may have set."""
        bits = [0] * self.key_words
        for masks, word, level, finest in zip(self.masks, self.word_of, levels, self.finest, strict=True):
            bits[word] |= masks[level - finest]
        return tuple(bits)

    def leading(self, levels: Levels, columns: int) -> tuple[int, ...]:
        """Return per word the bits of the first columns of the order at some levels, and of the next at its last."""
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
        keys: shape (words, n).
        counts: shape (n,), int64.
    """

    layout: PrefixLayout
    levels: Levels
    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]

    def coarsened(self, levels: Levels) -> PrefixKeys:
        """Return the groups of a coarser map.

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
        """Return the groups that may reach a size at some coarser level of the columns after the first few in order.

        Left out are those whose first columns agree in fewer records than that, whatever the other columns do.

        Args:
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
    """Return where each run of equal keys ends, in ascending keys of shape (words, n); n at least 1."""
    changes = keys[0, 1:] != keys[0, :-1]
    for word in keys[1:]:
        changes |= word[1:] != word[:-1]
    return np.append(np.flatnonzero(changes), keys.shape[1] - 1)


def group_sums(counts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of each run; by differences of running sums, since most runs are short."""
    return np.diff(np.cumsum(counts).take(ends), prepend=0)


def _keeps_order(before: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether clearing bits leaves ascending keys ascending: no bit that is left stands below a cleared one."""
    cleared = False
    for old, new in zip(before, after, strict=True):
        gone = old & ~new
        if (cleared and new) or new & ((1 << gone.bit_length()) - 1):
            return False
        cleared = cleared or bool(gone)
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
        """Return bits of a path."""
        return sum(self.widths)

    def places(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where each code stands among the present ones."""
        return self.place.take(codes) if self.place.size else np.searchsorted(self.present, codes)

    def masks(self, shift: int) -> tuple[int, ...]:
        """Return per level from the finest, the bits that are left of a path that stands at a shift."""
        everything = (1 << self.bits) - 1
        cleared = 0
        masks: list[int] = []
        for width in (0, *self.widths[:-1]):
            cleared += width
            masks.append((everything >> cleared << cleared) << shift)
        return tuple(masks)


def _paths_of(column: LatticeColumn, present: NDArray[np.int64], *, levels: range) -> _Paths:
    place = np.empty(0, dtype=np.int64)
    if present.size and _worth_a_table(int(present[-1]) + 1, present.size):
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
    """Return the layout, and each column's shift; words are filled from the first column of the order on."""
    spans = [high - low for low, high in zip(lattice.finest, lattice.coarsest, strict=True)]
    by_labels = sorted(range(len(paths)), key=lambda column: -paths[column].present.size)
    # The column with most levels comes last: along it nothing need be sorted (`_along_last`).
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
    """Return per column, the codes that occur, ascending."""
    found: list[list[NDArray[np.int64]]] = [[] for _ in generalization.columns]
    for part in _parts(keys.shape[1]):
        for column, codes, seen in zip(
            generalization.columns, _decoded(generalization, keys[:, part]), found, strict=True
        ):
            seen.append(_distinct(codes, column.hierarchy, column.level))
    return [np.unique(np.concatenate([np.empty(0, dtype=np.int64), *seen])) for seen in found]


def _distinct(codes: NDArray[np.int64], hierarchy: Hierarchy, level: int) -> NDArray[np.int64]:
    if _worth_a_table(hierarchy.size(level), codes.size):
        return np.flatnonzero(np.bincount(codes))
    return np.unique(codes)


def _worth_a_table(cells: int, values: int) -> bool:
    """Return whether some values are found faster by a table with a cell for each possible one than by sorting."""
    return cells <= max(_DENSE_CODES, 4 * values)


def _decoded(generalization: GeneralizationMap, keys: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield codes column by column, by divisions alone, which are several times faster than remainders."""
    for column, place in zip(generalization.columns, generalization.placements, strict=True):
        upper = keys[place.word] // place.stride
        yield upper - upper // column.size * column.size


def _parts(size: int) -> list[slice]:
    """Return pieces that fit a processor's cache."""
    return [slice(start, start + _AT_ONCE) for start in range(0, size, _AT_ONCE)]


_PIECES_PER_THREAD = 16
_WORTH_THREADS = 1 << 17
_WORTH_LEAVING_OUT = 1 << 11


def excess(counts: NDArray[np.int64], threshold: int) -> int:
    """Σ max(0, c − k′ + 1) over the sizes c of a map's groups, counts of shape (groups,)."""
    large = counts[counts >= threshold]
    return int(large.sum()) - (threshold - 1) * large.size


def rolled_up(
    base: PrefixKeys,
    *,
    lattice: Lattice,
    threshold: int,
    on_progress: Callable[[int, int], None] | None,
    threads: int,
) -> NDArray[np.int64]:
    """Σ max(0, c − k′ + 1) of every candidate, by number; shape (size,).

    The candidates are a tree: below the root a branch for each level of the first column of the layout's order, below
    each of those one for each level of the second, and so on. Every branch is rolled up from its finer neighbour, so
    that at any time a thread holds one array per column. Along the last column nothing need be sorted.
    """
    order = base.layout.order
    candidates = [lattice.levels_of(number) for number in range(lattice.size)]
    numbered = [(tuple(levels[column] for column in order), number) for number, levels in enumerate(candidates)]
    root = _Piece(groups=base, place=0, candidates=sorted(numbered), threshold=threshold)
    found = np.zeros(lattice.size, dtype=np.int64)
    done = 0
    if base.counts.size < _WORTH_THREADS:  # small arrays keep the interpreter busy, which threads cannot share
        threads = 1
    depth = _depth(root.candidates, enough=_PIECES_PER_THREAD * threads)
    for numbers, values in _worked(_pieces(root, depth), threads=threads):
        found[numbers] = values
        done += len(numbers)
        if on_progress is not None:
            on_progress(done, lattice.size)
    return found


Numbered = tuple[Levels, int]
"""A candidate's levels in the order of the layout, and its number."""

Kept = tuple[list[int], list[int]]
"""Numbers of candidates, and what each keeps."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Piece:
    """The candidates below one branch.

    Args:
        groups: groups of the map with the branch's levels, and the finest ones of the columns that follow.
        place: how many columns of the order the branch has fixed.
        candidates: ascending; equal in the fixed columns.
        threshold: k′; groups that cannot reach it anywhere below the branch may be missing.
    """

    groups: PrefixKeys
    place: int
    candidates: Sequence[Numbered]
    threshold: int

    def branches(self) -> Iterator[_Piece]:
        """Yield the pieces of the next column's levels, finest first."""
        column = self.groups.layout.order[self.place]
        groups = self.groups
        for level, own in groupby(self.candidates, key=lambda candidate: candidate[0][self.place]):
            groups = groups.coarsened((*groups.levels[:column], level, *groups.levels[column + 1 :]))
            # The next level is rolled up from all groups, this branch goes on with those that still matter to it.
            matter = groups
            if groups.counts.size >= _WORTH_LEAVING_OUT:
                matter = groups.reaching(self.threshold, columns=self.place + 1)
            yield replace(self, groups=matter, place=self.place + 1, candidates=tuple(own))

    def kept(self) -> Kept:
        """Return what every candidate of the piece keeps."""
        columns = len(self.groups.layout.order)
        numbers: list[int] = []
        values: list[int] = []
        # All levels of the last column are read off one sorted array of one word.
        if self.place == columns - 1 and self.groups.layout.key_words == 1:
            return _along_last(self)
        if self.place == columns:
            return [self.candidates[0][1]], [excess(self.groups.counts, self.threshold)]
        for piece in self.branches():
            more_numbers, more_values = piece.kept()
            numbers += more_numbers
            values += more_values
        return numbers, values


def _along_last(piece: _Piece) -> Kept:
    """Return the levels of the last column: neighbours whose keys differ in no bit that is left fall together."""
    groups = piece.groups
    column = groups.layout.order[-1]
    # Sorted neighbours that differ only in bits that a level clears fall into one group, so no level is sorted again.
    differing = groups.keys[0, 1:] ^ groups.keys[0, :-1]
    counts = groups.counts
    running = np.cumsum(counts)
    level_now = groups.levels[column]
    values: list[int] = []
    for levels, _ in piece.candidates:
        if levels[-1] != level_now:
            level_now = levels[-1]
            left = groups.layout.live((*groups.levels[:column], level_now, *groups.levels[column + 1 :]))[0]
            ends = np.flatnonzero(differing & np.uint64(left))
            differing = differing.take(ends)
            running = np.append(running.take(ends), running[-1:])
            counts = np.diff(running, prepend=0)
        values.append(excess(counts, piece.threshold))
    return [number for _, number in piece.candidates], values


def _depth(candidates: Sequence[Numbered], *, enough: int) -> int:
    """Return how many columns to fix so that there are enough pieces; never the last one."""
    columns = len(candidates[0][0])
    for depth in range(columns - 1):
        if len({levels[:depth] for levels, _ in candidates}) >= enough:
            return depth
    return columns - 1


def _pieces(piece: _Piece, depth: int) -> Iterator[_Piece]:
    if piece.place == depth:
        yield piece
        return
    for branch in piece.branches():
        yield from _pieces(branch, depth)


def _worked(pieces: Iterator[_Piece], *, threads: int) -> Iterator[Kept]:
    """Work the pieces off; no more of them exist at a time than there are threads, and one."""
    if threads == 1:
        for piece in pieces:
            yield piece.kept()
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        running: set[Future[Kept]] = set()
        for piece in pieces:
            # Pieces are made as threads become free: each holds arrays as large as the groups.
            running.add(pool.submit(piece.kept))
            if len(running) > threads:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in finished)
        yield from (future.result() for future in running)


Scored = Callable[[int, int], None]
"""Told how many maps are scored, and of how many."""


def scores(
    counts: GroupCounts,
    *,
    lattice: Lattice,
    threshold: int,
    on_progress: Scored | None = None,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Return the quality of every candidate in units of 1/WEIGHT_UNIT, by number; shape (size,).

    The quality of g is W(g)·Σ max(0, c − k′ + 1) over the sizes c of its groups, in exact integers. Where a column
    has so many and so uneven levels that its prefix keys don't fit a word, each map is counted on its own, which takes
    longer.

    PRIVACY: scores are private; they go to the draw and nowhere else.

    Args:
        counts: groups of the map `lattice.finest` and their sizes.

    Raises:
        ValueError: a lattice too large to enumerate, a threshold or a number of threads below 1, more than 2**42
            records, or groups of another map.
    """
    if not lattice.enumerable:
        raise ValueError(f"{lattice.size} maps are too many to score them all")
    _check(threshold)
    if threads < 1:
        raise ValueError(f"the work needs at least one thread, not {threads}")
    base = prefix_keys(counts, lattice=lattice)
    if base is None:
        kept = _one_by_one(counts, lattice=lattice, threshold=threshold, on_progress=on_progress)
    else:
        kept = rolled_up(base, lattice=lattice, threshold=threshold, on_progress=on_progress, threads=threads)
    return kept * MapWeights(lattice=lattice).of_all()


def scorer(counts: GroupCounts, *, lattice: Lattice, threshold: int) -> Callable[[Sequence[Levels]], NDArray[np.int64]]:
    """Return a function that gives the qualities of a few maps, in their order, shape (maps,); for the walk.

    Raises:
        ValueError: as `scores`.
    """
    _check(threshold)
    base = prefix_keys(counts, lattice=lattice)
    weights = MapWeights(lattice=lattice)

    def qualities(maps: Sequence[Levels]) -> NDArray[np.int64]:
        if base is None:
            kept = [_kept(counts, lattice=lattice, levels=levels, threshold=threshold) for levels in maps]
        else:
            # The maps of a walk's step are neighbours, so they are rolled up from the finest map that covers them all.
            nearest = base.coarsened(tuple(min(levels) for levels in zip(*maps, strict=True)))
            kept = [excess(nearest.coarsened(levels).counts, threshold) for levels in maps]
        return np.array([weights.of(levels) for levels in maps], dtype=np.int64) * np.array(kept, dtype=np.int64)

    return qualities


def _one_by_one(
    counts: GroupCounts, *, lattice: Lattice, threshold: int, on_progress: Scored | None
) -> NDArray[np.int64]:
    found = np.zeros(lattice.size, dtype=np.int64)
    for number in range(lattice.size):
        found[number] = _kept(counts, lattice=lattice, levels=lattice.levels_of(number), threshold=threshold)
        if on_progress is not None:
            on_progress(number + 1, lattice.size)
    return found


def _kept(counts: GroupCounts, *, lattice: Lattice, levels: Levels, threshold: int) -> int:
    """Σ max(0, c − k′ + 1) of one map, from the groups of the finest."""
    fine, coarse = lattice.map_of(lattice.finest), lattice.map_of(levels)
    codes = [
        source.hierarchy.coarser(own, level=source.level, to=target.level)
        for source, target, own in zip(fine.columns, coarse.columns, fine.decode(counts.keys), strict=True)
    ]
    return excess(sum_counts(coarse.keys(codes), counts.counts).counts, threshold)


def _check(threshold: int) -> None:
    if threshold < 1:
        raise ValueError(f"the threshold must be at least 1, not {threshold}")
