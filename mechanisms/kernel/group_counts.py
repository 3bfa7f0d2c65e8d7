"""Groups and how many records each has: counted, merged in any order, and summed in little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from mmap import mmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_DENSE_CELLS = 1 << 16
_DENSE_CELLS_PER_KEY = 8
_DENSE_MOST_CELLS = 1 << 23
_MERGED_AT_ONCE = 1 << 20
_SAMPLED_EVERY = 1 << 10
_OWN_PAGES_GROUPS = 1 << 17
_NUMBER_BYTES = 8


class GroupCounts(NamedTuple):
    """Groups and how many records each has.

    INVARIANT: keys are distinct and ascend word by word, counts are at least 1; so equal contents are equal
    arrays, and the order says nothing about the input.

    Args:
        keys: shape (words, n), as `GeneralizationMap.keys`.
        counts: shape (n,), int64.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]


def count_keys(keys: NDArray[np.int64], *, cells: int) -> GroupCounts:
    """Count the records of each group.

    Args:
        keys: one key per record, shape (words, n).
        cells: number of possible groups; keys of one word lie below it.
    """
    key_words, records = keys.shape
    if key_words == 1 and cells <= _dense_cells(records):
        tally = np.bincount(keys[0], minlength=1)
        present = np.flatnonzero(tally)
        return GroupCounts(present.reshape(1, -1), tally[present])
    ordered = np.sort(keys) if key_words == 1 else keys[:, np.lexsort(keys[::-1])]
    starts = _starts(ordered)
    return GroupCounts(ordered[:, starts], np.diff(starts, append=records))


def merge_counts(parts: Sequence[GroupCounts]) -> GroupCounts:
    """Add up partial counts, at least one; associative and commutative. Each has ascending and distinct keys."""
    if not parts:
        raise ValueError("there are no partial counts to merge")
    if len(parts) == 1:
        return parts[0]
    return joined_counts(add_counts([], parts))


def add_counts(total: list[GroupCounts], parts: Sequence[GroupCounts]) -> list[GroupCounts]:
    """Add partial counts to a sum that is kept in blocks, a range of keys after the other.

    Little more than the sum and the parts is in memory: a block is given up as soon as the next sum has its range, and
    the system has its pages back at once, whatever threads allocated them.

    Args:
        total: blocks as this function gives them, none at first. They are used up: the list is empty afterwards.
        parts: at least one, as `merge_counts`; of any integer types.

    Returns:
        Blocks of which each has ascending keys, all above those of the one before; keys with the same first word lie
        in one. A block has at most `_MERGED_AT_ONCE` groups, or few more.
    """
    # Parts are cut where the blocks begin, by the first word alone: groups that share it stay in one block.
    edges = np.array([block.keys[0, 0] for block in total[1:]], dtype=np.int64)
    cuts = [_cut(part, edges) for part in parts]
    merged = []
    for slices in zip(*cuts, strict=True):
        own = (total.pop(0),) if total else ()
        merged += [_in_own_pages(_merge_range(some)) for some in _ranges((*own, *slices))]
    return [block for block in merged if block.counts.size] or merged[:1]


def joined_counts(total: list[GroupCounts]) -> GroupCounts:
    """Return a sum in blocks, at least one, as one; the blocks are used up: the list is empty afterwards."""
    if len(total) == 1:
        return total.pop()
    every = sum(block.counts.size for block in total)
    keys, counts = np.empty((total[0].keys.shape[0], every), dtype=np.int64), np.empty(every, dtype=np.int64)
    for end in np.cumsum([block.counts.size for block in total]).tolist():
        block = total.pop(0)
        keys[:, end - block.counts.size : end], counts[end - block.counts.size : end] = block
    return GroupCounts(keys, counts)


def _ranges(parts: Sequence[GroupCounts]) -> Iterator[Sequence[GroupCounts]]:
    """Yield ranges of keys of some parts, ascending, of about the same number of entries, at most `_MERGED_AT_ONCE`."""
    pieces = -(-sum(part.counts.size for part in parts) // _MERGED_AT_ONCE)
    if pieces < 2:
        yield parts
        return
    # Quantiles of every thousandth key: ranges of nearly equal sizes, without sorting all keys first.
    sampled = np.sort(np.concatenate([part.keys[0, ::_SAMPLED_EVERY] for part in parts]))
    edges = np.unique(sampled[np.arange(1, pieces) * sampled.size // pieces])
    yield from zip(*(_cut(part, edges) for part in parts), strict=True)


def _cut(part: GroupCounts, edges: NDArray[np.int64]) -> list[GroupCounts]:
    """Return the groups below the first edge of the keys' first word, those from there to the next, and so on."""
    bounds = [0, *np.searchsorted(part.keys[0], edges).tolist(), part.counts.size]
    return [GroupCounts(part.keys[:, begin:end], part.counts[begin:end]) for begin, end in pairwise(bounds)]


def _merge_range(parts: Sequence[GroupCounts]) -> GroupCounts:
    if parts[0].keys.shape[0] == 1:
        there = [part for part in parts if part.counts.size]
        least = min((int(part.keys[0, 0]) for part in there), default=0)
        cells = max((int(part.keys[0, -1]) for part in there), default=-1) + 1 - least
        if cells <= _dense_cells(sum(part.counts.size for part in there)):
            return _merge_dense(there, least, cells)
    keys = np.concatenate([part.keys for part in parts], axis=1, dtype=np.int64)
    # In the type of the parts, which may be narrower, sums could wrap around.
    return sum_counts(keys, np.concatenate([part.counts for part in parts], dtype=np.int64))


def _in_own_pages(block: GroupCounts) -> GroupCounts:
    """Return a copy in pages of its own, unless small: what a C library frees it often keeps for a thread."""
    if block.counts.size < _OWN_PAGES_GROUPS:
        return block
    height = block.keys.shape[0] + 1
    rows = np.frombuffer(mmap(-1, _NUMBER_BYTES * height * block.counts.size), dtype=np.int64).reshape(height, -1)
    rows[:-1], rows[-1] = block
    return GroupCounts(rows[:-1], rows[-1])


def sum_counts(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> GroupCounts:
    """Add up the counts, shape (n,), of equal keys, shape (words, n), which may come in any order and repeat."""
    return _merge_sorted(*sorted_counts(keys, counts))


def _dense_cells(keys: int) -> int:
    """Return how many possible groups are counted faster by a place for each than by sorting, in bounded memory."""
    return max(_DENSE_CELLS, min(_DENSE_CELLS_PER_KEY * keys, _DENSE_MOST_CELLS))


def _merge_dense(parts: Sequence[GroupCounts], least: int, cells: int) -> GroupCounts:
    """Add up by one place per possible group from the least key on, where these are not many more than the groups."""
    tally = np.zeros(cells, dtype=np.int64)
    for part in parts:
        tally[part.keys[0] - least] += part.counts  # numpy adds once to each place: the keys of a part are distinct
    present = np.flatnonzero(tally)
    return GroupCounts((present + least).reshape(1, -1), tally[present])


def sorted_counts(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> GroupCounts:
    """Return groups in the ascending order of their keys, word by word; shapes (words, n) and (n,)."""
    # The stable sort is timsort, which merges ascending runs in linear time; each part of a sum is such a run.
    order = np.argsort(keys[0], kind="stable") if keys.shape[0] == 1 else np.lexsort(keys[::-1])
    return GroupCounts(keys[:, order], counts[order])


def _merge_sorted(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> GroupCounts:
    starts = _starts(keys)
    sums = np.add.reduceat(counts, starts) if starts.size else counts
    return GroupCounts(keys[:, starts], sums)


def _starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each run of equal keys begins, in sorted keys."""
    changes = np.flatnonzero(np.any(keys[:, 1:] != keys[:, :-1], axis=0)) + 1
    return np.concatenate((np.zeros(min(1, keys.shape[1]), dtype=np.int64), changes))
