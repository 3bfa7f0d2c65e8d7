"""One record for each unit (a household, or a person over waves), derived from its members' records by declared rules.

A unit's record is a function of that unit's records alone, so that whoever adds or removes a whole unit, of whatever
size, adds or removes one derived record (docs/proofs/units.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement, product
from math import comb
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .generalization_map import GeneralizationMap, MappedColumn
from .hierarchies.declare import BUCKET_LABEL, Hierarchy, IntervalHierarchy, ValueHierarchy
from .kernel.group_counts import GroupCounts
from .kernel.recoding import BUCKET_CODE, KeyLayout
from .kinds.member_deletion import layout_with_members

MOST_MEMBER_CODES = 1 << 20
"""Labels of a members' column by which sets of labels or an order are looked up."""
MOST_COMPOSED = 20_000
"""Labels of a column that is composed of several members' labels."""
MOST_MEMBER_GROUPS = 1 << 24
"""Combinations of labels of the members that are published."""
ABSENT = "absent"
ANY = "any"
_NONE = np.iinfo(np.int64).max
_RANGE = re.compile(r"\[(-?[0-9]+), (-?[0-9]+)\)")

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Members:
    """The distinct records of some units, unit after unit, each unit with at least one.

    Args:
        codes: of each members' column, at its finest level; each of shape (records,).
        times: how often the unit has such a record, at least 1; shape (records,).
        starts: where each unit's records begin; shape (units,).
    """

    codes: Mapping[str, Codes]
    times: Codes
    starts: Codes

    def counted(self, has: NDArray[np.bool_] | None = None) -> Codes:
        """Return how many records each unit has, of those that a mask of shape (records,) names; shape (units,)."""
        return np.add.reduceat(self.times if has is None else np.where(has, self.times, 0), self.starts)

    def least(self, numbers: Codes) -> Codes:
        """Return each unit's least number, of one number for each record; shape (units,)."""
        return np.minimum.reduceat(numbers, self.starts)


class Derivation(Protocol):
    """How a column of units follows from the members' records."""

    @property
    def hierarchy(self) -> Hierarchy:
        """Return the column's declared labels, and what they are merged into."""
        ...

    def codes(self, members: Members) -> Codes:
        """Return the code at the finest level of each unit; shape (units,)."""
        ...

    def description(self) -> dict[str, Any]:
        """Return the rule as it was declared, in JSON's terms."""
        ...

    @property
    def in_words(self) -> str:
        """Return what a label says, in a sentence's words."""
        ...


@dataclass(frozen=True, kw_only=True)
class CountMembers:
    """How many members a unit has, all or those with certain labels; so many or more are one label.

    Args:
        column: whose labels are asked for; None counts all members.
        labels: of any level, or ranges of whole numbers as "[0, 18)".
        cap: number from which on counts are one label, at least 1.
    """

    column: MappedColumn | None
    labels: tuple[str, ...]
    cap: int

    @cached_property
    def hierarchy(self) -> ValueHierarchy:
        """Return the numbers, then whether there are more than the least, then `*`."""
        least = 1 if self.column is None else 0
        names = [str(number) for number in range(least, self.cap)] + [f"{self.cap} or more"]
        if len(names) < 3:
            return ValueHierarchy.from_values(names)
        above = f"{least + 1} or more"
        rows = [(name, name if place == 0 else above, BUCKET_LABEL) for place, name in enumerate(names)]
        return ValueHierarchy.from_rows(rows)

    def codes(self, members: Members) -> Codes:
        """Return the code of each unit's number, cut at the cap; shape (units,)."""
        has = None if self.column is None else members_with(self.column, self.labels)[members.codes[self.column.name]]
        numbers = np.minimum(members.counted(has), self.cap)
        names = [str(number) for number in range(self.cap)] + [f"{self.cap} or more"]
        return _codes_of(self.hierarchy, names)[numbers]

    def description(self) -> dict[str, Any]:
        """Return the rule as it was declared."""
        asked = {} if self.column is None else {"column": self.column.name, "labels": list(self.labels)}
        return {"count_members": {**asked, "cap": self.cap}}

    @property
    def in_words(self) -> str:
        """Return what is counted."""
        whom = "" if self.column is None else f" whose {self.column.name} is {_either(self.labels)}"
        return f"number of members{whom}; {self.cap} stands for {self.cap} or more"


@dataclass(frozen=True, kw_only=True)
class AnyMember:
    """Whether some member, or every one, has one of certain labels.

    Args:
        every: whether all members must.
    """

    column: MappedColumn
    labels: tuple[str, ...]
    every: bool

    @cached_property
    def hierarchy(self) -> ValueHierarchy:
        """Return yes and no, then `*`."""
        return ValueHierarchy.from_values(["no", "yes"])

    def codes(self, members: Members) -> Codes:
        """Return the code of yes or no of each unit; shape (units,)."""
        found = members.counted(members_with(self.column, self.labels)[members.codes[self.column.name]])
        yes = found == members.counted() if self.every else found > 0
        return _codes_of(self.hierarchy, ["no", "yes"])[yes.astype(np.int64)]

    def description(self) -> dict[str, Any]:
        """Return the rule as it was declared."""
        name = "all_members" if self.every else "any_member"
        return {name: {"column": self.column.name, "labels": list(self.labels)}}

    @property
    def in_words(self) -> str:
        """Return who is asked for what."""
        whose = "every member's" if self.every else "some member's"
        return f"whether {whose} {self.column.name} is {_either(self.labels)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberLabel:
    """The label of one member: of the one whose number in another column is the lowest or highest.

    Of several such members the label counts that comes first in the order of the column's labels. Where no member has
    a number there, it is `*`.

    Args:
        column: whose label is taken.
        by: the column of numbers or days; the column itself for the least or greatest label.
        highest: whether the member with the highest number is meant.

    Raises:
        ValueError: both have so many labels that a pair of them doesn't fit 63 bits.
    """

    column: MappedColumn
    by: MappedColumn
    highest: bool

    def __post_init__(self) -> None:
        if (self.by.size + 1) * (self.column.size + 1) > _NONE:
            raise ValueError(f"{self.column.name!r} and {self.by.name!r} have too many labels together")

    @property
    def hierarchy(self) -> Hierarchy:
        """Return the hierarchy of the column."""
        return self.column.hierarchy

    def codes(self, members: Members) -> Codes:
        """Return the code of that member's label of each unit; shape (units,)."""
        size, place = self.column.size, members.codes[self.by.name]
        # A known label comes before `*`.
        label = np.where(members.codes[self.column.name] == BUCKET_CODE, size, members.codes[self.column.name])
        number = (self.by.size - place if self.highest else place) * (size + 1) + label
        first = members.least(np.where(place == BUCKET_CODE, _NONE, number))
        return np.where((first == _NONE) | (first % (size + 1) == size), BUCKET_CODE, first % (size + 1))

    def description(self) -> dict[str, Any]:
        """Return the rule as it was declared."""
        end = "highest" if self.highest else "lowest"
        return {"member_label": {"column": self.column.name, end: self.by.name}}

    @property
    def in_words(self) -> str:
        """Return whose label it is."""
        end = "highest" if self.highest else "lowest"
        if self.by is self.column:
            return f"{end} {self.column.name} of a member"
        return f"{self.column.name} of the member with the {end} {self.by.name}"


@dataclass(frozen=True, kw_only=True)
class Waves:
    """The labels of a unit's records in several waves, in the waves' order; absent where it has none.

    Of several records in a wave the label counts that comes first in the order of the column's labels.

    Args:
        column: whose labels are taken, at its level.
        wave: the column that names the wave.
        waves: its labels, in order.

    Raises:
        ValueError: too many sequences.
    """

    column: MappedColumn
    wave: MappedColumn
    waves: tuple[str, ...]

    def __post_init__(self) -> None:
        number = (self.column.size + 1) ** len(self.waves)
        if number > MOST_COMPOSED:
            raise ValueError(f"there are {number:,} such sequences, more than {MOST_COMPOSED:,}: take a coarser level")
        for wave in self.waves:
            members_with(self.wave, (wave,))

    @cached_property
    def hierarchy(self) -> ValueHierarchy:
        """Return the sequences, at the column's level and at each coarser one; then of ever fewer last waves; then `*`.

        Of a sequence whose early waves are left out each of these is `any`.
        """
        number, kept = len(self.waves), [len(self.waves)]
        while kept[-1] > 1:
            kept.append(kept[-1] // 2)
        rows = [
            [
                *(" > ".join(parts) for parts in zip(*one, strict=True)),
                *(" > ".join([ANY] * (number - last) + [own[-1] for own in one[-last:]]) for last in kept[1:]),
            ]
            for one in product(self._parts, repeat=number)
        ]
        return _composed(rows)

    @property
    def _parts(self) -> list[list[str]]:
        """Return the label of each code at each level that tells something, and of who is absent as the last."""
        labels = _labels_above(self.column)
        return [*labels, [ABSENT] * len(labels[0])]

    def codes(self, members: Members) -> Codes:
        """Return the code of each unit's sequence; shape (units,)."""
        label, wave, size = self._labels(members), members.codes[self.wave.name], self.column.size
        number = np.zeros(members.starts.size, dtype=np.int64)
        for name in self.waves:
            inside = members_with(self.wave, (name,))[wave]
            # A known label comes before `*`, which says of the wave only that there was a record.
            known = np.where(label == BUCKET_CODE, size, label)
            first = members.least(np.where(inside, known, _NONE))
            number = number * (size + 1) + np.where(first == _NONE, size, np.where(first == size, BUCKET_CODE, first))
        names = [" > ".join(one) for one in product([parts[0] for parts in self._parts], repeat=len(self.waves))]
        return _codes_of(self.hierarchy, names)[number]

    def _labels(self, members: Members) -> Codes:
        return self.column.hierarchy.coarser(members.codes[self.column.name], level=0, to=self.column.level)

    def description(self) -> dict[str, Any]:
        """Return the rule as it was declared."""
        return {
            "waves": {
                "column": self.column.name,
                "from_level": self.column.level,
                "wave": self.wave.name,
                "in": list(self.waves),
            }
        }

    @property
    def in_words(self) -> str:
        """Return what follows what."""
        return f"{self.column.name} in {self.wave.name} {', '.join(self.waves)}, in this order; {ABSENT} where none is"


@dataclass(frozen=True, kw_only=True)
class Composition:
    """How many members have each label, as one label: who lives together.

    Of more than so many members the first in the order of the labels are named, and that there are more.

    Args:
        column: whose labels are composed, at its level.
        most: members that are named, at least 1.

    Raises:
        ValueError: too many compositions.
    """

    column: MappedColumn
    most: int

    def __post_init__(self) -> None:
        size = self.column.size
        number = comb(size + self.most, self.most) - 1 + comb(size + self.most - 1, self.most)
        if number > MOST_COMPOSED or (self.most + 1) ** size * 2 > _NONE:
            raise ValueError(
                f"there are {number:,} such compositions, more than {MOST_COMPOSED:,}: take a coarser level or name "
                "fewer members"
            )

    @cached_property
    def _compositions(self) -> dict[int, tuple[tuple[int, ...], bool]]:
        """Return each composition by its number: the codes of the named members, and whether there are more."""
        found = {}
        for members in range(1, self.most + 1):
            for one in combinations_with_replacement(range(self.column.size), members):
                for more in {False, members == self.most}:
                    taken = np.bincount(one, minlength=self.column.size)
                    found[self._number(taken, more)] = (one, more)
        return found

    def _number(self, taken: Any, more: Any) -> Any:  # noqa: ANN401 - of one composition, or of many at once
        number = 0
        for own in taken:
            number = number * (self.most + 1) + own
        return number * 2 + more

    @cached_property
    def _rows(self) -> list[list[str]]:
        """Return the labels of each composition at each level, in the order of `_compositions`."""
        labels = _labels_above(self.column)
        levels = range(len(labels[0]))
        # Coarser labels in the order in which finer ones come first, whoever is there: one text for one composition.
        order = [{name: place for place, name in enumerate(dict.fromkeys(own[at] for own in labels))} for at in levels]
        return [
            [
                ", ".join(_numbered(sorted((labels[code][at] for code in one), key=order[at].__getitem__)))
                + (", and more" if more else "")
                for at in levels
            ]
            for one, more in self._compositions.values()
        ]

    @cached_property
    def hierarchy(self) -> ValueHierarchy:
        """Return the compositions, at the column's level and at each coarser one, then `*`."""
        return _composed(self._rows)

    def codes(self, members: Members) -> Codes:
        """Return the code of each unit's composition; shape (units,)."""
        label = self.column.hierarchy.coarser(members.codes[self.column.name], level=0, to=self.column.level)
        left, taken = np.full(members.starts.size, self.most, dtype=np.int64), []
        for code in range(self.column.size):
            taken.append(np.minimum(members.counted(label == code), left))
            left = left - taken[-1]
        number = self._number(taken, (members.counted() > self.most).astype(np.int64))
        every = np.array(list(self._compositions), dtype=np.int64)
        order = np.argsort(every)
        places: Codes = order[np.searchsorted(every[order], number)]
        return _codes_of(self.hierarchy, [row[0] for row in self._rows])[places]

    def description(self) -> dict[str, Any]:
        """Return the rule as it was declared."""
        return {"composition": {"column": self.column.name, "from_level": self.column.level, "most": self.most}}

    @property
    def in_words(self) -> str:
        """Return of whom it is composed."""
        return (
            f"how many members have each {self.column.name}; of more than {self.most} the first {self.most} are named"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberTable:
    """Which members of each unit are published in a table of their own, and by which labels.

    Of a unit with more members than may be there those are taken that stand at even distances when all of the unit's
    members are sorted by their labels of the first map, so that the ones taken are composed nearly as all are.

    Args:
        maps: of each stage, the finest first, each a coarsening of the one before.
        most: members of a unit that are published, at least 1.

    Raises:
        ValueError: the first map has too many combinations of labels.
    """

    maps: tuple[GeneralizationMap, ...]
    most: int

    def __post_init__(self) -> None:
        if self.maps[0].cells > MOST_MEMBER_GROUPS:
            raise ValueError(
                f"members have {self.maps[0].cells:,} combinations of labels, more than {MOST_MEMBER_GROUPS:,}: take "
                "coarser levels or fewer columns"
            )

    def layout(self, units: KeyLayout) -> KeyLayout:
        """Return how keys of units are made that have their members' codes in them."""
        return layout_with_members(units, self.maps[0].layout, most=self.most)

    def codes(self, members: Members, *, places: int) -> list[Codes]:
        """Return the number of each member that is published: 1 and its key by the first map, in ascending order.

        It is 0 where a unit has fewer members.

        Args:
            members: of all units.
            places: how many members a key has place for.

        Returns:
            One array of shape (units,) for each place.
        """
        columns = self.maps[0].columns
        [keys] = self.maps[0].keys(
            [column.hierarchy.coarser(members.codes[column.name], level=0, to=column.level) for column in columns]
        )
        units = np.zeros(keys.size, dtype=np.int64)
        units[members.starts[1:]] = 1
        order = np.lexsort((keys, np.cumsum(units)))
        # Records of one unit are together in this order too, so that sums of their times say whose turn is which.
        reached = np.cumsum(members.times[order])
        sizes = members.counted()
        before = np.cumsum(sizes) - sizes
        found = []
        for place in range(places):
            rank = np.where(sizes > places, (2 * place + 1) * sizes // (2 * places), place)
            there = rank < sizes
            at = np.searchsorted(reached, before + np.where(there, rank, 0), side="right")
            found.append(np.where(there, 1 + keys[order[at]], 0))
        return found

    def description(self) -> dict[str, Any]:
        """Return how many members are published, and the levels of their columns, in JSON's terms."""
        levels = ([one.columns[place].level for one in self.maps] for place in range(len(self.maps[0].columns)))
        return {"most": self.most, "columns": dict(zip(self.maps[0].names, levels, strict=True))}

    @property
    def in_words(self) -> str:
        """Return which members are published, in a sentence's words."""
        return (
            f"the members of each unit, with {', '.join(self.maps[0].names)}; of more than {self.most} those that "
            "stand at even distances in the order of their labels"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitRule:
    """The members' columns that are read, and how each released column is derived from them.

    Args:
        members: at their finest levels; they are not published, unless in a table of their own.
        derived: released column → its rule.
        table: the table of members; None where there is none.
    """

    members: tuple[MappedColumn, ...]
    derived: Mapping[str, Derivation] = field(hash=False)
    table: MemberTable | None = None

    def records(self, published: GeneralizationMap, *, with_members: bool = False) -> UnitRecords:
        """Return what makes records by this rule, for a map of the released columns.

        Args:
            published: the columns of units.
            with_members: whether a unit's record has the codes of its published members besides.
        """
        return UnitRecords(
            members=self.members,
            columns=published.columns,
            derivations=tuple(self.derived[name] for name in published.names),
            table=self.table if with_members else None,
        )

    def description(self) -> dict[str, Any]:
        """Return the members' columns with the digests of their hierarchies, and the rules, in JSON's terms."""
        return {
            "members": {column.name: column.hierarchy.digest() for column in self.members},
            "columns": {name: one.description() for name, one in self.derived.items()},
            **({} if self.table is None else {"table": self.table.description()}),
        }

    def facts(self) -> dict[str, Any]:
        """Return what a certificate says: the description, and the same in words."""
        said = self.description() | {"in_words": self.in_words()}
        if self.table is not None:
            said["table"] |= {"in_words": self.table.in_words}
        return said

    def in_words(self) -> dict[str, str]:
        """Return what each released column says, in a sentence's words."""
        return {name: one.in_words for name, one in self.derived.items()}


@dataclass(frozen=True, kw_only=True)
class UnitRecords:
    """Makes the key of each unit's record of the keys of its members' records.

    Args:
        members: the members' columns, at their finest levels, in the order of the members' keys.
        columns: the released ones, with the levels of the keys that are made.
        derivations: of each released column.
        table: whose members' codes the keys have besides; None where there are none.
    """

    members: tuple[MappedColumn, ...]
    columns: tuple[MappedColumn, ...]
    derivations: tuple[Derivation, ...]
    table: MemberTable | None = None

    @cached_property
    def member_layout(self) -> KeyLayout:
        """Return how the members' codes make keys."""
        return KeyLayout(sizes=tuple(column.size for column in self.members))

    @cached_property
    def layout(self) -> KeyLayout:
        """Return how a unit's codes make its key."""
        own = KeyLayout(sizes=tuple(column.size for column in self.columns))
        return own if self.table is None else self.table.layout(own)

    def unit_keys(self, records: GroupCounts, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the key of each unit's record; shape (words, units).

        Args:
            records: keys of the members' distinct records, unit after unit, and how often each is there.
            starts: where each unit's begin; shape (units,).
        """
        codes = {
            column.name: self.member_layout.codes_of(records.keys, place) for place, column in enumerate(self.members)
        }
        members = Members(codes=codes, times=records.counts, starts=starts)
        own = [
            column.hierarchy.coarser(_in(column.hierarchy, rule, members), level=0, to=column.level)
            for column, rule in zip(self.columns, self.derivations, strict=True)
        ]
        if self.table is not None:
            own += self.table.codes(members, places=len(self.layout.sizes) - len(own))
        return self.layout.keys(own)


def _in(hierarchy: Hierarchy, rule: Derivation, members: Members) -> Codes:
    """Return the codes of derived labels in the column's own hierarchy, where a steward has declared another one."""
    codes, own = rule.codes(members), rule.hierarchy
    if hierarchy is own or hierarchy.digest() == own.digest():
        return codes
    labels = own.labels(np.arange(own.size(0), dtype=np.int64), 0)
    return _codes_of(hierarchy, labels)[codes]


def _codes_of(hierarchy: Hierarchy, labels: Sequence[str]) -> Codes:
    """Return the code of each label at the finest level; that of `*` for others."""
    return hierarchy.codes_of_texts([label.encode() for label in labels], 0)


def members_with(column: MappedColumn, labels: Sequence[str]) -> NDArray[np.bool_]:
    """Return which codes of a column, at its finest level, have one of some labels of any level; shape (codes,).

    Raises:
        ValueError: a label that the column doesn't have, `*`, or a column of too many labels.
    """
    if column.hierarchy.size(0) > MOST_MEMBER_CODES:
        raise ValueError(f"{column.name!r} has more than {MOST_MEMBER_CODES:,} labels")
    every = np.arange(column.hierarchy.size(0), dtype=np.int64)
    left, has = set(labels), np.zeros(every.size, dtype=np.bool_)
    for level in range(column.hierarchy.levels):
        above = column.hierarchy.coarser(every, level=0, to=level)
        names = column.hierarchy.labels(np.arange(column.hierarchy.size(level), dtype=np.int64), level)
        wanted = np.array([name in left and name != BUCKET_LABEL for name in names])
        found = {name for name, is_wanted in zip(names, wanted.tolist(), strict=True) if is_wanted}
        has |= wanted[above]
        left -= found
    for label in list(left):
        inside = _RANGE.fullmatch(label)
        own = column.hierarchy
        if inside is not None and isinstance(own, IntervalHierarchy) and int(inside[1]) < int(inside[2]):
            low, high = max(int(inside[1]), own.lower), min(int(inside[2]), own.upper)
            if (low, high) == (int(inside[1]), int(inside[2])):
                has[own.codes_of_integers(np.arange(low, high, dtype=np.int64), 0)] = True
                left.remove(label)
    if left:
        raise ValueError(f"{column.name!r} has no label {min(left)!r} that can be asked for")
    return has


def _labels_above(column: MappedColumn) -> list[list[str]]:
    """Return the labels of each code at the column's level: at that level and at each coarser one that tells more."""
    hierarchy, codes = column.hierarchy, np.arange(column.size, dtype=np.int64)
    levels = [
        level for level in range(column.level, hierarchy.levels) if level == column.level or hierarchy.size(level) > 1
    ]
    by_level = [hierarchy.labels(hierarchy.coarser(codes, level=column.level, to=level), level) for level in levels]
    return [list(one) for one in zip(*by_level, strict=True)]


def _composed(rows: Sequence[Sequence[str]]) -> ValueHierarchy:
    """Return the hierarchy of composed labels, with `*` above all."""
    return ValueHierarchy.from_rows([(*row, BUCKET_LABEL) for row in rows])


def _numbered(labels: Sequence[str]) -> Iterator[str]:
    """Yield how often each label is there, in the order in which they come first."""
    for label in dict.fromkeys(labels):
        yield f"{labels.count(label)} {label}"


def _either(labels: Sequence[str]) -> str:
    """Return labels in a sentence's words."""
    *first, last = labels
    return f"{', '.join(first)} or {last}" if first else last
