"""Deletion releases of units that also publish some members of each unit, in a table of their own."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts, merge_counts, sum_counts
from ..kernel.mechanism import MOST_RECORDS, Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import KeyLayout
from .deletion import CalibratedDeletion, DeletionRelease
from .deletion_noise import GaussianDeletion
from .deletion_protection import DeletionProtection
from .paired_deletion import PairedDeletion, PairedProtection

_GROUPS_AT_ONCE = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberRows:
    """The table of members beside a table of units: a chain of stages with noise of its own.

    Args:
        most_members: how many members of a unit may be in it, at least 1.
        member_stages: maps in its chain, at least 1.
        member_scale: σ of its noise.
        member_width: m of its noise.

    Raises:
        ValueError: a field outside its range.
    """

    most_members: int
    member_stages: int
    member_scale: Decimal
    member_width: int

    def __post_init__(self) -> None:
        if not 1 <= self.most_members <= MOST_RECORDS:
            raise ValueError(f"there must be 1 to {MOST_RECORDS} members of a unit, not {self.most_members}")
        if self.member_stages < 1:
            raise ValueError(f"there must be at least one stage of members, not {self.member_stages}")
        GaussianDeletion(scale=self.member_scale, width=self.member_width)

    @property
    def noise(self) -> GaussianDeletion:
        """The law of Z for each group of each stage."""
        return GaussianDeletion(scale=self.member_scale, width=self.member_width)

    def release(self, *, k: int) -> DeletionRelease:
        """Return the release of the table of members by itself."""
        return DeletionRelease(stages=self.member_stages, k=k, noise=self.noise)


@dataclass(frozen=True, kw_only=True)  # without slots: classes that have different ones have no class in common
class MembersDeletion(DeletionRelease):
    """A deletion release of units with a table of members beside it.

    A unit that is added adds one record to what the table of units is made of, and up to `most_members` records to
    what the table of members is made of (docs/proofs/units.md). Its k is that of both tables.

    Args:
        members: the table of members.
    """

    kind = "members_deletion"

    members: MemberRows


@dataclass(frozen=True, kw_only=True)
class CalibratedMembersDeletion(MembersDeletion, CalibratedDeletion):
    """The same with noisy margins of the units."""


@dataclass(frozen=True, kw_only=True)
class PairedMembersDeletion(MembersDeletion, PairedDeletion):
    """The same with margins of the units and pairs of their columns."""


def members_of(release: DeletionRelease) -> MemberRows | None:
    """Return the table of members of a release; None where it has none."""
    return release.members if isinstance(release, MembersDeletion) else None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MembersProtection:
    """What both tables publish of exact counts of units, each of which has its members' codes in its key.

    A key has the codes of the unit's own columns, then `most_members` numbers: 0 for no member, else 1 and a member's
    key by the members' layout. So the counts of members follow from the counts of units.

    Args:
        mechanism: the release.
        units: what is published of the units, by their own columns alone.
        members: what is published of the members.

    Raises:
        ValueError: they don't go together.
    """

    mechanism: MembersDeletion
    units: DeletionProtection | PairedProtection
    members: DeletionProtection
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rows = self.mechanism.members.release(k=self.mechanism.k)
        # A class below one of them, or another one of the same form, would be handed exact counts.
        if (
            type(self.units) not in {DeletionProtection, PairedProtection}
            or type(self.members) is not DeletionProtection
        ):
            raise ValueError("a table is protected by no class of the kernel")
        if self.units.mechanism != self.mechanism or self.members.mechanism != rows:
            raise ValueError("a table is of another mechanism")
        if self.members.layout.key_words > 1 or self.members.levels or self.members.margins:
            raise ValueError("members have keys of one word, fixed levels and no margins")

    @property
    def layout(self) -> KeyLayout:
        """Of the groups of units that are counted."""
        return layout_with_members(self.units.layout, self.members.layout, most=self.mechanism.members.most_members)

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> NDArray[np.int64]:
        """Return the numbers of both tables, those of the units after how many they are.

        PRIVACY: both tables are drawn from exact counts with draws of their own, for which one price pays.
        """
        units, members = counts_of_tables(
            exact, layout=self.layout, units=self.units.layout, members=self.members.layout
        )
        drawn = self.units.protect(units, randomness=randomness)
        return np.concatenate(([drawn.size], drawn, self.members.protect(members, randomness=randomness)))

    def fits(self, numbers: Numbers) -> bool:
        """Return whether the numbers can be what this release publishes."""
        try:
            units, members = split_numbers(numbers)
        except (ValueError, OverflowError):
            return False
        return self.units.fits(units) and self.members.fits(members)


def counts_of_tables(
    exact: GroupCounts, *, layout: KeyLayout, units: KeyLayout, members: KeyLayout
) -> tuple[GroupCounts, GroupCounts]:
    """Return the groups of units by their own columns, and the groups of their members.

    INVARIANT: a unit adds 1 to one group of units, and 1 to a group of members for each number that isn't 0, of which
    its key has `most_members`.

    Args:
        exact: groups of units that have their members' codes in their keys.
        layout: of these keys.
        units: of the units' own columns.
        members: of the members.
    """
    own, places = range(len(units.sizes)), range(len(units.sizes), len(layout.sizes))
    of_units, of_members = [_no_groups(units)], [_no_groups(members)]
    for begin in range(0, exact.counts.size, _GROUPS_AT_ONCE):
        block = slice(begin, begin + _GROUPS_AT_ONCE)
        keys, counts = exact.keys[:, block], exact.counts[block]
        of_units.append(sum_counts(units.keys([layout.codes_of(keys, place) for place in own]), counts))
        for place in places:
            number = layout.codes_of(keys, place)
            there = number > 0
            of_members.append(sum_counts(number[there].reshape(1, -1) - 1, counts[there]))
    return merge_counts(of_units), merge_counts(of_members)


def layout_with_members(units: KeyLayout, members: KeyLayout, *, most: int) -> KeyLayout:
    """Return how the keys of units are made that have their members' codes in them, as `MembersProtection` says."""
    return KeyLayout(sizes=(*units.sizes, *(members.cells + 1,) * most))


def split_numbers(numbers: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the units' tables, and those of the table of members.

    Raises:
        ValueError: there are fewer than the first of them says.
        OverflowError: one has more than 64 bits.
    """
    every = np.asarray(numbers, dtype=np.int64)
    if not every.size or not 0 <= int(every[0]) < every.size:
        raise ValueError("numbers are missing")
    return every[1 : 1 + int(every[0])], every[1 + int(every[0]) :]


def _no_groups(layout: KeyLayout) -> GroupCounts:
    return GroupCounts(np.empty((layout.key_words, 0), dtype=np.int64), np.empty(0, dtype=np.int64))
