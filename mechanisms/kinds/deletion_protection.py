"""What a deletion release publishes of exact counts: what each stage leaves of its groups, and noisy margins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import CodeTable, KeyLayout, coarsened
from .deletion import CalibratedDeletion, DeletionRelease, delete_records
from .deletion_noise import draw_deletions
from .margins import Margin, margin_sizes, noisy_margins, split_margins

_GROUPS_AT_ONCE = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DeletionProtection:
    """What each stage publishes, in the numbers that `published_stages` reads.

    Args:
        mechanism: the release.
        layouts: of each stage's groups, the finest first.
        tables: for each stage but the last, per column the code at the next stage of each code; None where codes stay.
        levels: those that were drawn, to be given in front; none where they were fixed beforehand.
        margins: the columns of each margin, by their numbers from 0; none where the mechanism has none.

    Raises:
        ValueError: they don't go together.
    """

    mechanism: DeletionRelease
    layouts: tuple[KeyLayout, ...]
    tables: tuple[tuple[CodeTable | None, ...], ...]
    levels: tuple[int, ...]
    margins: tuple[Margin, ...]
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not len(self.layouts) == len(self.tables) + 1 == self.mechanism.stages:
            raise ValueError(f"{self.mechanism.stages} stages need as many layouts, and the tables between them")
        margins = self.mechanism.margins if isinstance(self.mechanism, CalibratedDeletion) else 0
        if len(self.margins) != margins:
            raise ValueError(f"{margins} margins are paid for, not {len(self.margins)}")
        for (finer, coarser), tables in zip(pairwise(self.layouts), self.tables, strict=True):
            for size, above, table in zip(finer.sizes, coarser.sizes, tables, strict=True):
                codes = np.arange(size) if table is None else table
                if codes.shape != (size,) or codes.min() < 0 or codes.max() >= above:
                    raise ValueError("a table lacks a code, or gives one that the next stage doesn't have")

    @property
    def layout(self) -> KeyLayout:
        """Of the groups of the first stage, which are counted."""
        return self.layouts[0]

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> NDArray[np.int64]:
        """Return the numbers of `published_stages`.

        PRIVACY: Z is drawn once for each group of each stage, here and nowhere else. What is stored is what is
        published after it, never Z by itself, which would tell how many records a published group has.
        """
        keys: list[NDArray[np.int64]] = [exact.keys]
        parents: list[NDArray[np.integer]] = []
        for (finer, coarser), tables in zip(pairwise(self.layouts), self.tables, strict=True):
            above, places = coarsened(keys[-1], finer=finer, coarser=coarser, tables=tables)
            keys.append(above)
            # There may be millions of groups: places have the narrowest type, and one stage's draws are there.
            parents.append(places.astype(np.min_scalar_type(above.shape[1])))
        deletions = (draw_deletions(self.mechanism.noise, one.shape[1], randomness=randomness) for one in keys)
        kept = delete_records(exact.counts, release=self.mechanism, parents=parents, deletions=deletions)
        noisy = np.empty(0, dtype=np.int64)
        if isinstance(self.mechanism, CalibratedDeletion):
            noisy = noisy_margins(
                exact, layout=self.layout, margins=self.margins, release=self.mechanism, randomness=randomness
            )
        del exact, parents  # the caller has given the counts up, so that the numbers can take their place in memory
        sizes = [int(np.count_nonzero(records)) for records in kept]
        heights = [groups.shape[0] + 1 for groups in keys]
        end = len(self.levels)
        numbers = np.empty(end + sum(1 + n * m for n, m in zip(sizes, heights, strict=True)) + noisy.size, np.int64)
        numbers[:end] = self.levels
        for groups, records, size, height in zip(keys, kept, sizes, heights, strict=True):
            numbers[end], begin, end = size, end + 1, end + 1 + size * height
            _put_published(groups, records, into=numbers[begin:end].reshape(height, size))
        numbers[end:] = noisy
        return numbers

    def fits(self, numbers: Numbers) -> bool:
        """Return whether the numbers can be what these stages and margins publish."""
        try:
            published_stages(
                numbers, k=self.mechanism.k, layouts=self.layouts, levels=self.levels, margins=self.margins
            )
        except (ValueError, OverflowError):
            return False
        return True


def published_stages(
    numbers: Numbers,
    *,
    k: int,
    layouts: Sequence[KeyLayout],
    levels: Sequence[int],
    margins: Sequence[Margin],
) -> tuple[list[GroupCounts], list[NDArray[np.int64]]]:
    """Return what each stage publishes, and the noisy cells of each margin, arrays of shape (cells,).

    The numbers are the drawn levels, where they are drawn, and for each stage the number of its groups, their keys word
    by word, and their records; then all cells.

    Args:
        numbers: a result of `DeletionProtection.protect`.
        k: the smallest number of records that a stage publishes of a group.
        layouts: of each stage's groups, the finest first.
        levels: those that were drawn.
        margins: the columns of each margin.

    Raises:
        ValueError: the numbers are nothing that this release can publish.
        OverflowError: one has more than 64 bits.
    """
    stages, left = read_stages(np.asarray(numbers, dtype=np.int64), k=k, layouts=layouts, levels=levels)
    if left.size != sum(margin_sizes(layouts[0], margins)):
        raise ValueError("there are more numbers than groups and cells, or fewer")
    return stages, split_margins(left, layout=layouts[0], margins=margins)


def read_stages(
    numbers: NDArray[np.int64], *, k: int, layouts: Sequence[KeyLayout], levels: Sequence[int]
) -> tuple[list[GroupCounts], NDArray[np.int64]]:
    """Return what each stage of a chain publishes, and the numbers that are left; as `published_stages`."""
    if numbers[: len(levels)].tolist() != list(levels):
        raise ValueError("these are other levels than were drawn")
    left = numbers[len(levels) :]
    stages = []
    for layout in layouts:
        height = layout.key_words + 1
        if not left.size or not 0 <= int(left[0]) * height < left.size:
            raise ValueError("groups are missing")
        end = 1 + int(left[0]) * height
        rows, left = left[1:end].reshape(height, -1), left[end:]
        if rows.size and int(rows[-1].min()) < k:
            raise ValueError("a group is below k")
        if not layout.holds(rows[:-1]):
            raise ValueError("a key is of no group")
        stages.append(GroupCounts(rows[:-1], rows[-1]))
    return stages, left


def _put_published(keys: NDArray[np.int64], records: NDArray[np.int64], *, into: NDArray[np.int64]) -> None:
    """Put the keys of groups with records, word by word, and the records; shape (words + 1, groups with records)."""
    end = 0
    for first in range(0, records.size, _GROUPS_AT_ONCE):
        block = slice(first, first + _GROUPS_AT_ONCE)
        there = np.flatnonzero(records[block])
        begin, end = end, end + there.size
        into[:-1, begin:end] = keys[:, block][:, there]
        into[-1, begin:end] = records[block][there]
