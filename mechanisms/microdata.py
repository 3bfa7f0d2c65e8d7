"""Truthful microdata: sample, recode with a map fixed beforehand or chosen privately, count, drop groups below k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .mechanism import Mechanism

__all__ = [
    "EpsilonSafeRelease",
    "GroupCounts",
    "Microdata",
    "StronglySafeRelease",
    "count_keys",
    "merge_counts",
    "sum_counts",
    "suppress",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class StronglySafeRelease(Mechanism):
    """One release by LQS, arXiv:1101.2604v2, Algorithm "sampling + strongly-safe k-anonymization".

    It describes the event so fully that it can be priced without its code.

    Args:
        k: suppression threshold; groups with fewer than k sampled records are dropped; at least 1.
        sampling_rate: probability of an independent coin per record, 0 < rate < 1, as declared (exact decimal).

    Raises:
        ValueError: a field outside its range.
    """

    kind = "strongly_safe"

    k: int
    sampling_rate: Decimal

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k must be at least 1, not {self.k}")
        if not 0 < self.sampling_rate < 1:
            raise ValueError(f"the sampling rate must lie strictly between 0 and 1, not {self.sampling_rate}")


@dataclass(frozen=True, kw_only=True, slots=True)
class EpsilonSafeRelease(Mechanism):
    """One release by LQS, arXiv:1101.2604v2, Theorem 3.11, whose choice the release's sample doesn't depend on.

    The map is the draw of an ε₁-private mechanism, made on the whole data with coins of its own, or on a fresh
    sample that serves nothing else; the release with that map is strongly safe, on a sample of its own.

    Args:
        k: suppression threshold; groups with fewer than k sampled records are dropped; at least 1.
        sampling_rate: probability of an independent coin per record, 0 < rate < 1, as declared (exact decimal).
        selection_epsilon: ε₁ of the choice where it is made, before any amplification; more than 0.
        selection_rate: rate of the fresh sample that the choice is made on, 0 < rate < 1; None for the whole data.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "epsilon_safe"

    k: int
    sampling_rate: Decimal
    selection_epsilon: Decimal
    selection_rate: Decimal | None

    def __post_init__(self) -> None:
        StronglySafeRelease(k=self.k, sampling_rate=self.sampling_rate)
        if not (self.selection_epsilon.is_finite() and self.selection_epsilon > 0):
            raise ValueError(f"the selection's epsilon must be positive, not {self.selection_epsilon}")
        if self.selection_rate is not None and not 0 < self.selection_rate < 1:
            raise ValueError(f"the selection's rate must lie strictly between 0 and 1, not {self.selection_rate}")

    @property
    def release(self) -> StronglySafeRelease:
        """The release that follows the choice, by itself."""
        return StronglySafeRelease(k=self.k, sampling_rate=self.sampling_rate)


Microdata = StronglySafeRelease | EpsilonSafeRelease


_DENSE_CELLS = 1 << 16
_DENSE_CELLS_PER_KEY = 8
_DENSE_MOST_CELLS = 1 << 23
_MERGED_AT_ONCE = 1 << 20
_SAMPLED_EVERY = 1 << 10


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
    """Add up partial counts; associative and commutative.

    Args:
        parts: at least one, all of the same number of words, each with ascending and distinct keys, as all here
            give them; `sum_counts` is for others.

    Raises:
        ValueError: no parts.
    """
    if not parts:
        raise ValueError("there are no partial counts to merge")
    if len(parts) == 1:
        return parts[0]
    if parts[0].keys.shape[0] == 1:
        largest = max((int(part.keys[0, -1]) for part in parts if part.counts.size), default=0)
        if largest < _dense_cells(sum(part.counts.size for part in parts)):
            return _merge_dense(parts, largest + 1)
    return _merge_by_ranges(parts)


def _merge_by_ranges(parts: Sequence[GroupCounts]) -> GroupCounts:
    """Add up a range of keys after the other, so that little more than parts and result is in memory.

    A range has `_MERGED_AT_ONCE` entries, or few more; keys with the same first word lie in one.
    """
    every = sum(part.counts.size for part in parts)
    sampled = np.sort(np.concatenate([part.keys[0, ::_SAMPLED_EVERY] for part in parts]))
    edges = np.unique(sampled[:: max(1, _MERGED_AT_ONCE // _SAMPLED_EVERY)][1:])
    cuts = [[0, *np.searchsorted(part.keys[0], edges).tolist(), part.counts.size] for part in parts]
    # What of these is never written takes no memory.
    keys, counts = np.empty((parts[0].keys.shape[0], every), dtype=np.int64), np.empty(every, dtype=np.int64)
    end = 0
    for place in range(edges.size + 1):
        bounds = [slice(*cut[place : place + 2]) for cut in cuts]
        merged = sum_counts(
            np.concatenate([part.keys[:, own] for part, own in zip(parts, bounds, strict=True)], axis=1),
            np.concatenate([part.counts[own] for part, own in zip(parts, bounds, strict=True)]),
        )
        begin, end = end, end + merged.counts.size
        keys[:, begin:end], counts[begin:end] = merged
    return GroupCounts(keys[:, :end], counts[:end])


def sum_counts(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> GroupCounts:
    """Add up the counts of equal keys, which may come in any order and repeat.

    Args:
        keys: shape (words, n).
        counts: shape (n,).
    """
    return _merge_sorted(*_sorted(keys, counts))


def _dense_cells(keys: int) -> int:
    """So many possible groups are counted faster with a place for each than by sorting, and in bounded memory."""
    return max(_DENSE_CELLS, min(_DENSE_CELLS_PER_KEY * keys, _DENSE_MOST_CELLS))


def _merge_dense(parts: Sequence[GroupCounts], cells: int) -> GroupCounts:
    """Add up by one place per possible group, where these are not many more than the groups."""
    tally = np.zeros(cells, dtype=np.int64)
    for part in parts:
        tally[part.keys[0]] += part.counts  # the keys of one part are distinct
    present = np.flatnonzero(tally)
    return GroupCounts(present.reshape(1, -1), tally[present])


def suppress(keys: NDArray[np.int64], counts: NDArray[np.int64], k: int) -> GroupCounts:
    """Keep the groups of at least k records, in the order of publication.

    PRIVACY: what is below k leaves no trace: neither its number nor its place in the order.

    The order is a function of the published groups alone: column by column in the order of the map, within
    a column `*` first, then the labels by their UTF-8 bytes, or intervals by their numbers. Codes and keys
    are numbered that way, so it is the ascending order of the keys.

    Args:
        keys: distinct groups, shape (words, n), in any order.
        counts: records of each group, shape (n,).
        k: suppression threshold, at least 1.

    Raises:
        ValueError: k below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    large = np.flatnonzero(counts >= k)
    return GroupCounts(*_sorted(keys[:, large], counts[large]))


def _sorted(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> GroupCounts:
    order = np.argsort(keys[0], kind="stable") if keys.shape[0] == 1 else np.lexsort(keys[::-1])
    return GroupCounts(keys[:, order], counts[order])


def _merge_sorted(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> GroupCounts:
    starts = _starts(keys)
    sums = np.add.reduceat(counts, starts) if starts.size else counts
    return GroupCounts(keys[:, starts], sums)


def _starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each run of equal keys begins, in sorted keys."""
    changes = np.flatnonzero(np.any(keys[:, 1:] != keys[:, :-1], axis=0)) + 1
    return np.concatenate((np.zeros(min(1, keys.shape[1]), dtype=np.int64), changes))
