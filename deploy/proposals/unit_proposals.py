"""Which columns of households, or of persons over waves, are proposed to be derived from the members' columns."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from math import comb
from pathlib import Path
from textwrap import wrap
from typing import Literal

import numpy as np

from ...mechanisms.hierarchies.build import DateHierarchy
from ...mechanisms.hierarchies.decimals import DecimalIntervals
from ...mechanisms.hierarchies.declare import BUCKET_LABEL, Hierarchy, IntervalHierarchy
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.wording import FILL_IN
from ...tasks.readers.file_formats import ColumnKind, NamedColumn
from .column_roles import LINE, NOT_RELEASED, REGION, SEX, WAVE, Role, parts_of_name

UnitKind = Literal["household", "person"]

CHILD, PENSIONER = 18, 65
CAPS = {"members": 6, "children": 3, "adults": 4, "pensioners": 2}
"""From which number on members are counted as so many or more; few households have more."""
COMPOSED = 4
"""Members that a composition names."""
MOST_COMPOSED = 1_000
"""Labels of a composed column: as many as a column is counted by whose level isn't given."""
MOST_WAVES = 20
FEW_LABELS = 8
MOST_LINES = 30
LINE_WIDTH = 116
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}")
_DWELLING = frozenset(["tenure", "rent", "rooms", "bedrooms", "dwelling", "building", "housing", "heating", "mortgage"])
_YES = frozenset(["yes", "y", "true", "1", "ja", "oui", "si", "t"])


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberColumn:
    """A column of the members' records.

    Args:
        name: as the source has it.
        kind: of its type.
        role: what it seems to be.
        sizes: labels of each level, `*` included; empty where nobody knows them.
        labels: of the finest level without `*`; empty where there are many or nobody knows them.
        ordered: whether its labels are numbers or days, of which a member can have the highest.
        bounds: of whole numbers, the upper one excluded; None of others.
        min_level: the finest level that is proposed.
    """

    name: str
    kind: ColumnKind
    role: Role
    sizes: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    ordered: bool = False
    bounds: tuple[int, int] | None = None
    min_level: int = 0

    @property
    def ready(self) -> bool:
        """Tell whether its labels are declared."""
        return bool(self.sizes)

    @property
    def parts(self) -> frozenset[str]:
        """Return the words of its name."""
        return frozenset(parts_of_name(self.name))


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivedProposal:
    """A column of units that is proposed.

    Args:
        name: of the column.
        rule: the line of TOML that derives it.
        said: what its labels tell, for somebody who reads the specification.
        members: columns of the members that the rule reads.
        released: whether it is proposed, or stands there as a question.
        min_level: the finest level to be counted.
    """

    name: str
    rule: str
    said: str
    members: tuple[str, ...] = ()
    released: bool = True
    min_level: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedUnit:
    """The column that names households, or persons over waves, whose records are put together.

    Args:
        name: of the column.
        kind: what it names.
    """

    name: str
    kind: UnitKind


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberText:
    """A members' column, and the lines that declare it.

    Args:
        column: as it is known.
        lines: of its table, from the second on.
        remarks: what to know of it, or why it isn't read.
    """

    column: MemberColumn
    lines: Sequence[str]
    remarks: Sequence[str]


def member_column(
    name: str,
    kind: ColumnKind,
    role: Role,
    *,
    hierarchy: Hierarchy | None,
    labels: Sequence[int] | None = None,
    min_level: int = 0,
) -> MemberColumn:
    """Return what is known of a members' column.

    Args:
        name: as the source has it.
        kind: of its type.
        role: what it seems to be.
        hierarchy: that declares its labels; None where nobody knows them, or a file that isn't read does.
        labels: how many each level of such a file has; None where there is none.
        min_level: the finest level that is proposed.
    """
    plain = MemberColumn(name=name, kind=kind, role=role, min_level=min_level)
    if hierarchy is None:
        # A file's labels are counted without `*` for values that it doesn't have.
        return plain if labels is None else replace(plain, sizes=tuple(size + (size > 1) for size in labels))
    return replace(
        plain,
        sizes=tuple(hierarchy.size(level) for level in range(hierarchy.levels)),
        labels=listed_values(hierarchy),
        ordered=isinstance(hierarchy, IntervalHierarchy | DecimalIntervals | DateHierarchy),
        bounds=(hierarchy.lower, hierarchy.upper) if isinstance(hierarchy, IntervalHierarchy) else None,
    )


def listed_values(hierarchy: Hierarchy) -> tuple[str, ...]:
    """Return the finest labels but `*` and those beyond bounds; none where there are many, or they are ranges."""
    if isinstance(hierarchy, IntervalHierarchy):
        numbers = range(hierarchy.lower, hierarchy.upper)
        return tuple(map(str, numbers)) if len(numbers) <= MOST_WAVES else ()
    if isinstance(hierarchy, DecimalIntervals | DateHierarchy) or hierarchy.size(0) > MOST_COMPOSED:
        return ()
    labels = hierarchy.labels(np.arange(hierarchy.size(0), dtype=np.int64), 0)
    return tuple(label for label in labels if label != BUCKET_LABEL)


def hierarchy_of_line(line: str) -> Hierarchy | None:
    """Return the hierarchy that a line of TOML declares; None where it declares none that a specification may have."""
    from ...flows.columns import declared_hierarchies
    from ...flows.spec_tables import DeclaredTable

    try:
        table = DeclaredTable.model_validate(tomllib.loads(line, parse_float=Decimal))
        return declared_hierarchies(Path("new"), {"own": table}, Path(), table="columns")["own"]
    except (ValueError, InputRefused):
        return None


def domain_in_units(name: str, kind: ColumnKind, values: Sequence[str], *, unit: UnitKind) -> str | None:
    """Return the line that declares a column which says who comes first or when; None for other columns.

    Args:
        name: as the source has it.
        kind: of its type.
        values: that are listed for it.
        unit: what is released.
    """
    if _is_line(name, kind, unit=unit):
        return f"interval = {{ lower = 1, upper = {MOST_LINES + 1}, widths = [] }}"
    if _is_wave(name, unit=unit) and values and all(map(_WHOLE_NUMBER.fullmatch, values)):
        numbers = sorted(map(int, values))
        return f"interval = {{ lower = {numbers[0]}, upper = {numbers[-1] + 1}, widths = [] }}"
    return None


def _is_line(name: str, kind: ColumnKind, *, unit: UnitKind) -> bool:
    """Return whether a column seems to number the members of a household, so that the first is the reference person."""
    return unit == "household" and kind in ("integer", "unknown") and _whole(name) in LINE


def _is_wave(name: str, *, unit: UnitKind) -> bool:
    """Return whether a column seems to name a person's waves."""
    return unit == "person" and _whole(name) in WAVE


def _whole(name: str) -> str:
    """Return a name's words without what is between them, and without numbers."""
    return "".join(part for part in parts_of_name(name) if not part.isdigit())


UNITS = (
    "One record is published for each {kind}, made of all its records by the rules below ([unit], "
    "docs/mechanisms/units.md). It costs as much as one record, however many the {kind} has. What is hidden is a whole "
    "{kind}: whether its records are in the file, and all that they say. The ledger must know the same: "
    "crowdblend dataset add with --unit {kind}:{name}"
)
MEMBERS = (
    "The columns of the records, from which the released ones are derived. They are read, and not published as they "
    "are. To read one that stands behind a #, remove the single # before its lines, write what is marked FILL_IN, and "
    "do the same below for a column that is derived from it: a column from which none is derived is refused."
)
COLUMNS = (
    "The released columns. A comment says what each tells; its rule names the columns above from which it follows. Put "
    "a # before the lines of what must not leave, and of a column above that is then needed no more. To release one "
    "behind a #, remove the single # before its lines and before those of the columns above that it names."
)


@dataclass(frozen=True, kw_only=True)
class ProposedUnits:
    """What is proposed of units.

    Args:
        unit: whose records are put together.
        members: columns of the records.
        derived: columns of the units.
        weighed: whether a column of the records seems to have survey weights.
    """

    unit: NamedUnit
    members: Sequence[MemberText]
    derived: Sequence[DerivedProposal]
    weighed: bool

    @staticmethod
    def of(members: Sequence[MemberText], unit: NamedUnit, *, weighed: bool) -> ProposedUnits:
        """Return the columns that follow from these of the members."""
        derived = proposed_derivations([one.column for one in members], kind=unit.kind)
        return ProposedUnits(unit=unit, members=members, derived=derived, weighed=weighed)

    @cached_property
    def released(self) -> list[NamedColumn]:
        """Return the columns that are proposed to be released."""
        return [NamedColumn(name=one.name, kind="unknown") for one in self.derived if one.released]

    def members_text(self) -> Iterator[str]:
        """Yield [unit] and the columns of its members."""
        kind, name = self.unit.kind, self.unit.name
        yield from _comment(UNITS.format(kind=kind, name=name))
        yield "[unit]"
        yield f"by = {_text(name)}"
        if kind != "household":
            yield f"kind = {_text(kind)}"
        yield from self._weight()
        yield ""
        yield from _comment(MEMBERS.replace("FILL_IN", FILL_IN))
        read = {name for one in self.derived if one.released for name in one.members}
        for member in self.members:
            mark = "" if member.column.name in read else "# "
            yield from (f"## {remark}" for remark in member.remarks)
            yield f"{mark}[unit.columns.{_key(member.column.name)}]"
            yield from (f"{mark}{line}" for line in member.lines)
            yield ""

    def _weight(self) -> Iterator[str]:
        """Yield whose survey weight is the unit's, where a column seems to have weights."""
        if not self.weighed:
            return
        by = next((one for one in self.derived if one.rule.startswith("member_label") and one.released), None)
        end = f'lowest = "{FILL_IN}"' if by is None else by.rule.partition(", ")[2].removesuffix(" }")
        yield "## whose survey weight is the unit's, if the weights of [data] are used: the member's with the lowest or"
        yield "## highest number in a column"
        yield f"# weight = {{ {end} }}"

    def columns_text(self, *, automatic: bool) -> Iterator[str]:
        """Yield the released columns, and those that might be.

        Args:
            automatic: whether the release finds its levels.
        """
        yield from _comment(COLUMNS)
        yield ""
        for one in self.derived:
            mark = "" if one.released else "# "
            yield from _comment(one.said)
            yield f"{mark}[columns.{_key(one.name)}]"
            yield f"{mark}{one.rule}"
            yield f'{mark}levels = "auto"' if automatic else f"{mark}level = {one.min_level}"
            if automatic and one.min_level:
                yield f"{mark}min_level = {one.min_level}"
            yield ""


def proposed_derivations(columns: Sequence[MemberColumn], *, kind: UnitKind) -> list[DerivedProposal]:
    """Return the columns that are proposed for units, by the members' columns alone.

    Args:
        columns: of the members, but the one that names the unit.
        kind: of the unit.
    """
    known = [one for one in columns if one.role not in NOT_RELEASED or _is_line(one.name, one.kind, unit=kind)]
    found = [*(_of_persons(known) if kind == "person" else _of_households(known))]
    taken, named = set[str](), []
    for one in found:
        name = one.name
        while name in taken:
            name += "_"
        taken.add(name)
        named.append(replace(one, name=name))
    return named


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reference:
    """The member whose label is a household's: of the lowest line, or the oldest."""

    by: MemberColumn
    end: str
    suffix: str
    who: str


def _of_households(columns: Sequence[MemberColumn]) -> Iterator[DerivedProposal]:
    yield _counted("members", "How many members a household has", CAPS["members"])
    ages = [one for one in columns if one.role == "age"]
    lines = [one for one in columns if _is_line(one.name, one.kind, unit="household")]
    for age in ages[:1]:
        yield from _by_age(age)
    reference = None
    if lines:
        reference = _Reference(
            by=lines[0], end="lowest", suffix="of_first", who=f"the member with the lowest {lines[0].name}"
        )
    elif ages and (ages[0].ordered or not ages[0].ready):
        reference = _Reference(by=ages[0], end="highest", suffix="of_oldest", who="the oldest member")
    for column in columns:
        if column not in lines[:1]:
            yield from _of_member(column, reference)


def _by_age(age: MemberColumn) -> Iterator[DerivedProposal]:
    """Yield who lives together by age: children, adults, pensioners, and all members at coarse ages."""
    if age.bounds is None:
        return
    low, high = age.bounds
    for name, first, end, said in (
        ("children", low, CHILD, f"under {CHILD}"),
        ("adults", CHILD, PENSIONER, f"from {CHILD} to {PENSIONER - 1}"),
        ("pensioners", PENSIONER, high, f"{PENSIONER} or older"),
    ):
        if low <= first < end <= high:
            labels = [f"[{first}, {end})", *([f">= {high}"] if end == high else [])]
            yield _counted(name, f"How many members are {said}", CAPS[name], column=age.name, labels=labels)
    level = next((at for at in range(len(age.sizes) - 1) if _compositions(age.sizes[at]) <= MOST_COMPOSED), None)
    if level is not None:
        yield DerivedProposal(
            name="composition",
            rule=f"composition = {{ column = {_text(age.name)}, from_level = {level}, most = {COMPOSED} }}",
            said="Who lives together: how many members there are of each coarse age, as one label such as 2 [20, 40), "
            f"1 [0, 20). Of more than {COMPOSED} members the youngest {COMPOSED} are named, and that there are more.",
            members=(age.name,),
        )


def _compositions(size: int) -> int:
    return comb(size + COMPOSED, COMPOSED) - 1 + comb(size + COMPOSED - 1, COMPOSED)


def _of_member(column: MemberColumn, reference: _Reference | None) -> Iterator[DerivedProposal]:
    """Yield what a household has of a column: the reference person's label, and whether some or all have a label."""
    whole = bool(column.parts & (REGION | _DWELLING))
    ready = column.ready and (reference is None or reference.by.ready)
    if reference is not None and column.kind != "unmapped":
        name = column.name if whole else f"{column.name}_{reference.suffix}"
        same = " Where all members have the same, as of a dwelling, it is the household's." if whole else ""
        yield _label(
            name, column, reference.by, reference.end, f"Of {reference.who}: {column.name}.{same}", released=ready
        )
    if whole or column.role == "age" or column.parts & SEX:
        return
    if column.ordered:
        yield _label(
            f"highest_{column.name}",
            column,
            column,
            "highest",
            f"The highest {column.name} of a member.",
            released=column.ready,
        )
        return
    yes = [label for label in column.labels if label.casefold() in _YES]
    if not 2 <= len(column.labels) <= FEW_LABELS:
        return
    of_two = len(column.labels) == 2 and bool(yes)
    asked = yes[:1] if of_two else list(column.labels[:1])
    for rule, word in (("any_member", "some"), ("all_members", "every")):
        yield DerivedProposal(
            name=f"{'any' if rule == 'any_member' else 'all'}_{column.name}",
            rule=f"{rule} = {{ column = {_text(column.name)}, labels = {_list(asked)} }}",
            said=f"Whether {word} member has one of these labels of {column.name}: yes or no."
            + ("" if of_two else " Write the labels that are asked for."),
            members=(column.name,),
            released=of_two and rule == "any_member",
        )


def _of_persons(columns: Sequence[MemberColumn]) -> Iterator[DerivedProposal]:
    wave = next((one for one in columns if _is_wave(one.name, unit="person")), None)
    order = () if wave is None else wave.labels
    if wave is None or (wave.ready and not 2 <= len(order) <= MOST_WAVES):
        yield _counted("records", "How many records a person has", CAPS["members"])
        return
    yield _counted("waves", f"In how many records, one for each {wave.name}, a person is", len(order) or MOST_WAVES)
    for column in columns:
        if column is not wave and column.kind != "unmapped":
            yield from _over_waves(column, wave)


def _over_waves(column: MemberColumn, wave: MemberColumn) -> Iterator[DerivedProposal]:
    """Yield a column's labels in the first wave, in the last, and in one wave after another."""
    path, whole = (None, True) if column.role == "age" or column.parts & SEX else _path(column, wave)
    if wave.ordered or not wave.ready:
        ends = [("lowest", "first")]
        # What all waves tell one after another says the last of them too.
        if not whole:
            ends.append(("highest", "last"))
        for end, word in ends:
            said = f"In the {word} {wave.name} of a person: {column.name}."
            ready = column.ready and wave.ready
            yield _label(f"{column.name}_at_{word}", column, wave, end, said, released=ready)
    if path is not None:
        yield path


def _path(column: MemberColumn, wave: MemberColumn) -> tuple[DerivedProposal | None, bool]:
    """Return a column's labels in as many of the last waves as there is room for, and whether it is proposed of all.

    The first is None where two waves are too many.
    """
    asked, named = f"column = {_text(column.name)}", f"wave = {_text(wave.name)}"
    path = DerivedProposal(
        name=f"{column.name}_path",
        rule=f"waves = {{ {asked}, {named}, order = {_list([FILL_IN, FILL_IN])} }}",
        said=f"In one {wave.name} after another: {column.name}, such as a > b > absent.",
        members=(column.name, wave.name),
        released=False,
    )
    order = wave.labels
    if not column.ready or not order:
        return path, False
    for level, size in enumerate(column.sizes[:-1]):
        fit = max((many for many in range(2, len(order) + 1) if (size + 1) ** many <= MOST_COMPOSED), default=0)
        if fit:
            left = "" if fit == len(order) else f" There is room for the last {fit} alone."
            rule = f"waves = {{ {asked}, from_level = {level}, {named}, order = {_list(order[-fit:])} }}"
            # Of numbers two waves at coarse labels tell less than the first and the last at finer ones.
            path = replace(path, rule=rule, said=path.said + left, released=not column.ordered)
            return path, path.released and fit == len(order)
    return None, False


def _counted(name: str, said: str, cap: int, *, column: str = "", labels: Sequence[str] = ()) -> DerivedProposal:
    asked = f"column = {_text(column)}, labels = {_list(labels)}, " if column else ""
    return DerivedProposal(
        name=name,
        rule=f"count_members = {{ {asked}cap = {cap} }}",
        said=f"{said}. The last label says {cap} or more: how many more isn't told.",
        members=(column,) if column else (),
    )


def _label(
    name: str, column: MemberColumn, by: MemberColumn, end: str, said: str, released: bool = True
) -> DerivedProposal:
    return DerivedProposal(
        name=name,
        rule=f"member_label = {{ column = {_text(column.name)}, {end} = {_text(by.name)} }}",
        said=said,
        members=(column.name, by.name),
        released=released,
        min_level=column.min_level,
    )


def _comment(text: str) -> Iterator[str]:
    yield from wrap(text, LINE_WIDTH, initial_indent="## ", subsequent_indent="## ", break_on_hyphens=False)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _list(labels: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, labels))}]"


def _text(value: str) -> str:
    """Return a basic string of TOML: JSON's, but that DEL must be escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
