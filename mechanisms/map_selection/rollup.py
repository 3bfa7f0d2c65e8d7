"""The exact quality of every candidate map, each rolled up from a finer one.

The way through all candidate maps that rolls each up from a finer one, in bounded memory, on several threads.

The quality of every candidate map, exactly: by roll-ups on prefix keys, or each map on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..suppression import GroupCounts, sum_counts
from .lattice import Lattice, Levels, MapWeights
from .prefix_keys import PrefixKeys, prefix_keys

__all__ = ["Scored", "excess", "rolled_up", "scorer", "scores"]

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

    Args:
        base: groups of the map `lattice.finest`.
        lattice: the candidates.
        threshold: k′.
        on_progress: told how many maps are done, and of how many.
        threads: how many share the work, where the arrays are large enough for it; at least 1.
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
        """The pieces of the next column's levels, finest first."""
        column = self.groups.layout.order[self.place]
        groups = self.groups
        start = 0
        while start < len(self.candidates):
            level = self.candidates[start][0][self.place]
            stop = start
            while stop < len(self.candidates) and self.candidates[stop][0][self.place] == level:
                stop += 1
            groups = groups.coarsened((*groups.levels[:column], level, *groups.levels[column + 1 :]))
            # The next level is rolled up from all groups, this branch goes on with those that still matter to it.
            matter = groups
            if groups.counts.size >= _WORTH_LEAVING_OUT:
                matter = groups.reaching(self.threshold, columns=self.place + 1)
            yield replace(self, groups=matter, place=self.place + 1, candidates=self.candidates[start:stop])
            start = stop

    def kept(self) -> Kept:
        """What every candidate of the piece keeps."""
        columns = len(self.groups.layout.order)
        numbers: list[int] = []
        values: list[int] = []
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
    """The levels of the last column: neighbours whose keys differ in no bit that is left fall together."""
    groups = piece.groups
    column = groups.layout.order[-1]
    differing = groups.keys[0, 1:] ^ groups.keys[0, :-1]
    counts = groups.counts
    running = np.cumsum(counts)
    level_now = groups.levels[column]
    values: list[int] = []
    for levels, _ in piece.candidates:
        if levels[-1] != level_now and counts.size:
            level_now = levels[-1]
            left = groups.layout.live((*groups.levels[:column], level_now, *groups.levels[column + 1 :]))[0]
            ends = np.flatnonzero((differing & np.uint64(left)) != 0)
            differing = differing.take(ends)
            running = np.append(running.take(ends), running[-1])
            counts = np.diff(running, prepend=0)
        values.append(excess(counts, piece.threshold))
    return [number for _, number in piece.candidates], values


def _depth(candidates: Sequence[Numbered], *, enough: int) -> int:
    """How many columns to fix so that there are enough pieces; never the last one."""
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
    """The quality of every candidate in units of 1/WEIGHT_UNIT, by number; shape (size,).

    The quality of g is W(g)·Σ max(0, c − k′ + 1) over the sizes c of its groups, in exact integers. Where a column
    has so many and so uneven levels that its prefix keys don't fit a word, each map is counted on its own, which takes
    longer.

    PRIVACY: scores are private; they go to the draw and nowhere else.

    Args:
        counts: groups of the map `lattice.finest` and their sizes.
        lattice: the candidates, enumerable.
        threshold: k′, as `group_threshold`.
        on_progress: told of the progress; for the steward's terminal alone.
        threads: how many share the work; they change nothing but the time.

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
    """A function that gives the qualities of a few maps, in their order, shape (maps,); for the walk.

    Args:
        counts: groups of the map `lattice.finest` and their sizes.
        lattice: the candidates, of any number.
        threshold: k′, as `group_threshold`.

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
            nearest = base.coarsened(tuple(min(levels) for levels in zip(*maps, strict=True)))
            kept = [excess(nearest.coarsened(levels).counts, threshold) for levels in maps]
        return np.array([weights.of(levels) * one for levels, one in zip(maps, kept, strict=True)], dtype=np.int64)

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
