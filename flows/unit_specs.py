"""[unit]: one published record for each household or person, whose columns are derived from its members' records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ..mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ..mechanisms.hierarchies.build import DateHierarchy
from ..mechanisms.hierarchies.decimals import DecimalIntervals, WeightClasses
from ..mechanisms.hierarchies.declare import IntervalHierarchy
from ..mechanisms.kernel.amounts import counted
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.unit_records import (
    AnyMember,
    Composition,
    CountMembers,
    Derivation,
    MemberLabel,
    MemberTable,
    UnitRule,
    Waves,
    members_with,
)
from ..mechanisms.wording import refused_together
from .columns import declared_hierarchies
from .spec_tables import (
    RULES,
    ColumnTable,
    DeclaredTable,
    DerivedColumn,
    LabelsTable,
    MemberLabelTable,
    PublishedMembersTable,
    SpecTables,
    UnitWeightTable,
)


def with_units(
    path: Path, tables: SpecTables, *, base: Path, figures: Collection[str] = ()
) -> tuple[SpecTables, UnitRule | None]:
    """Return the specification with each derived column's labels in its place, and the rule; None without [unit].

    Args:
        path: of the specification.
        tables: its tables.
        base: folder that its relative paths start from.
        figures: names that no column of a published table may have.

    Raises:
        InputRefused: [unit] and other tables don't go together, or a column's rule is wrong; with file and key.
    """
    unit = tables.unit
    if unit is None:
        _refuse_rules(path, tables)
        return tables, None
    _check_tables(path, tables)
    members = {
        name: MappedColumn(name=name, hierarchy=hierarchy, level=0)
        for name, hierarchy in declared_hierarchies(path, unit.columns, base, table="unit.columns").items()
    }
    misplaced = _misplaced(tables)
    reader = _Rules(path=path, members=members, misplaced=frozenset(misplaced))
    derived, faults = {}, []
    for name, column in tables.columns.items():
        if (named_by := misplaced.get(name)) is not None:
            faults.append(_misplaced_fault(path, name, column, named_by=named_by))
            continue
        try:
            derived[name] = reader.rule(name, column)
        except _OfMisplaced:
            continue
        except InputRefused as fault:
            faults.append(fault)
    weights = None
    try:
        weights = reader.survey_weights(tables)
    except _OfMisplaced:
        pass
    except InputRefused as fault:
        faults.append(fault)
    if faults:
        raise refused_together(faults, where=str(path))
    table = None if unit.members is None else reader.table(unit.members, figures=figures)
    if not members:
        raise InputRefused(
            "records are read by one of their columns at least, and none is declared.",
            where=f"{path}: [unit]",
            remedy="Write [unit.columns.NAME] with its values, interval, dates or hierarchy.",
        )
    # A count of all members needs none of their columns, and is read by the first.
    used = reader.used or {next(iter(members))}
    asked = tuple(column for name, column in members.items() if name in used)
    if left := [name for name in members if name not in used]:
        raise InputRefused(
            "no released column is derived from this one.",
            where=f"{path}: [unit.columns.{left[0]}]",
            remedy="Remove it, or name it in a column's rule or in [unit.members].columns.",
        )
    columns = {
        name: DerivedColumn(**{**dict(column), "derived": derived[name]}) for name, column in tables.columns.items()
    }
    if weights is not None:
        asked, derived = (*asked, weights.column), {**derived, weights.column.name: weights}
    return tables.model_copy(update={"columns": columns}), UnitRule(members=asked, derived=derived, table=table)


class _OfMisplaced(InputRefused):
    """A rule names a column of the members that is declared where released columns are, which is told there."""


def _misplaced(tables: SpecTables) -> dict[str, str]:
    """Return the columns of members that are declared in [columns], each with a place that names it as a member's.

    Such a column has labels and no rule, and [unit.columns] has none of its name.
    """
    unit, found = tables.unit, dict[str, str]()
    if unit is None:
        return found
    named = {one: f"[columns.{name}].{rule}" for name, rule, one in _members_of_rules(tables.columns)}
    if unit.weight is not None:
        named |= dict.fromkeys(filter(None, (unit.weight.lowest, unit.weight.highest)), "[unit].weight")
    if unit.members is not None:
        named |= dict.fromkeys(unit.members.columns, "[unit.members].columns")
    for name, column in tables.columns.items():
        labels = (column.hierarchy, column.values, column.interval, column.dates)
        if name in named and name not in unit.columns and not column.rules and labels.count(None) < len(labels):
            found[name] = named[name]
    return found


def _members_of_rules(columns: Mapping[str, ColumnTable]) -> Iterator[tuple[str, str, str]]:
    """Yield each released column and its rule, with each column of the members that the rule names."""
    for name, column in columns.items():
        for rule in column.rules:
            given = getattr(column, rule)
            for key in ("column", "lowest", "highest", "wave"):
                if (one := getattr(given, key, None)) is not None:
                    yield name, rule, one


def _misplaced_fault(path: Path, name: str, column: ColumnTable, *, named_by: str) -> InputRefused:
    """Return that a column of the members is declared as a released one, and what moves with it."""
    beyond = sorted(column.model_fields_set - DeclaredTable.model_fields.keys())
    without = f", without {', '.join(beyond)}" if beyond else ""
    return InputRefused(
        f"this declares a column of the members, which {named_by} reads, and [columns] has columns of units alone.",
        where=f"{path}: [columns.{name}]",
        remedy=f"Move it to [unit.columns.{name}]{without}.",
    )


def _refuse_rules(path: Path, tables: SpecTables) -> None:
    """Refuse rules of derived columns where every record is published as it is."""
    for name, column in tables.columns.items():
        for rule in column.rules:
            raise InputRefused(
                "this derives a column of units from their members, and there is no [unit].",
                where=f"{path}: [columns.{name}].{rule}",
                remedy='Add [unit] with by = "COLUMN", which names the units; or remove this.',
            )


def _check_tables(path: Path, tables: SpecTables) -> None:
    """Check that nothing beside [unit] asks for single records."""
    data = tables.data
    for key in ("person", "household"):
        if getattr(data, key) is not None:
            raise InputRefused(
                f"[unit] and [data].{key} exclude each other: a unit's records make one, and none is left out.",
                where=f"{path}: [data].{key}",
                remedy="Keep [unit].by alone.",
            )
    if data.rows_per_person > 1:
        raise InputRefused(
            "this is about single records, and [unit] publishes one record for each unit.",
            where=f"{path}: [data].rows_per_person",
            remedy="Remove it.",
        )
    if tables.unit is not None and tables.unit.members is not None:
        _check_members(path, tables)
    if tables.sampling is not None and tables.sampling.rate is None:
        raise InputRefused(
            "units are sampled at one rate for all.",
            where=f"{path}: [sampling]",
            remedy="Write rate = …, or leave [sampling] out.",
        )


def _check_members(path: Path, tables: SpecTables) -> None:
    """Check that the release is of a kind that has a price for two tables."""
    where = f"{path}: [unit.members]"
    if getattr(tables, "deletion", None) is None:
        raise InputRefused(
            "a table of members beside the table of units is of deletion releases alone.",
            where=where,
            remedy="Write [deletion] instead of [sampling] or of another kind's table, or remove this one.",
        )
    for name in ("selection", "blocks"):
        if getattr(tables, name) is not None:
            raise InputRefused(
                f"a table of members and [{name}] exclude each other.", where=where, remedy="Remove one of them."
            )


@dataclass(kw_only=True)
class _Rules:
    """Reads how columns are derived; `used` has the members' columns that were named."""

    path: Path
    members: Mapping[str, MappedColumn]
    misplaced: Collection[str]

    def __post_init__(self) -> None:
        self.used: set[str] = set()

    def rule(self, name: str, column: ColumnTable) -> Derivation:
        """Return how a released column is derived.

        Raises:
            InputRefused: there is no rule or more than one, or it is wrong.
        """
        where = f"{self.path}: [columns.{name}]"
        given = column.rules
        if len(given) != 1:
            raise InputRefused(
                "a column of units has exactly one rule by which it is derived.",
                where=where if not given else f"{where}.{given[1]}",
                remedy=f"Write one of {', '.join(RULES)}.",
            )
        for own in ("values", "interval", "dates"):
            if getattr(column, own) is not None:
                raise InputRefused(
                    "the labels of this column follow from its rule.",
                    where=f"{where}.{own}",
                    remedy="Remove it; other labels above them are given by hierarchy = a file.",
                )
        try:
            return self._of(given[0], column, where=f"{where}.{given[0]}")
        except ValueError as error:
            raise InputRefused(f"{error}.", where=f"{where}.{given[0]}") from None

    def _of(self, rule: str, column: ColumnTable, *, where: str) -> Derivation:
        if (count := column.count_members) is not None:
            if (count.column is None) is not (count.labels is None):
                raise ValueError("column and labels go together: whose members are counted; or neither, for all")
            asked = None if count.column is None else self._member(count.column, where=f"{where}.column")
            labels = tuple(count.labels or ())
            if asked is not None:
                members_with(asked, labels)
            return CountMembers(column=asked, labels=labels, cap=count.cap)
        table: LabelsTable | None = column.any_member or column.all_members
        if table is not None:
            asked = self._member(table.column, where=f"{where}.column")
            members_with(asked, table.labels)
            return AnyMember(column=asked, labels=tuple(table.labels), every=rule == "all_members")
        if (one := column.member_label) is not None:
            by, highest = self._end(one, where=where)
            return MemberLabel(column=self._member(one.column, where=f"{where}.column"), by=by, highest=highest)
        if (waves := column.waves) is not None:
            own = self._member(waves.column, where=f"{where}.column", level=waves.from_level)
            wave = self._member(waves.wave, where=f"{where}.wave")
            return Waves(column=own, wave=wave, waves=tuple(waves.order))
        together = column.composition
        if together is None:
            raise TypeError(f"{rule} is no rule")
        own = self._member(together.column, where=f"{where}.column", level=together.from_level)
        return Composition(column=own, most=together.most)

    def survey_weights(self, tables: SpecTables) -> MemberLabel | None:
        """Return whose survey weight is the unit's, by the declared classes; None without weights.

        Raises:
            InputRefused: weights without a rule or a rule without weights, or the rule is wrong.
        """
        name, classes = tables.data.weight, tables.data.weight_classes
        rule = None if tables.unit is None else tables.unit.weight
        where = f"{self.path}: [unit].weight"
        if name is None or classes is None or name in tables.columns:
            if rule is not None and name is None:
                raise InputRefused(
                    "this says whose survey weight is the unit's, and [data] names no weight.",
                    where=where,
                    remedy='Write weight = "COLUMN" in [data], and [data.weight_classes]; or remove this.',
                )
            return None  # what is missing of a weight is told where weights are read
        if rule is None:
            raise InputRefused(
                "a unit has one survey weight, and nothing says which of its members'.",
                where=where,
                remedy='Write weight = { lowest = "COLUMN" } or { highest = "COLUMN" } in [unit]: the weight of the '
                "member with the lowest or highest number there.",
            )
        if name in self.members:
            raise InputRefused(
                f"the column {name!r} has the survey weights, whose classes [data.weight_classes] declares.",
                where=f"{self.path}: [unit.columns.{name}]",
                remedy="Remove it.",
            )
        try:
            weights = MappedColumn(name=name, hierarchy=WeightClasses.of(classes.bounds), level=0)
        except ValueError as error:
            raise InputRefused(f"{error}.", where=f"{self.path}: [data.weight_classes]") from None
        try:
            by, highest = self._end(rule, where=where)
            return MemberLabel(column=weights, by=by, highest=highest)
        except ValueError as error:
            raise InputRefused(f"{error}.", where=where) from None

    def _end(self, named: MemberLabelTable | UnitWeightTable, *, where: str) -> tuple[MappedColumn, bool]:
        """Return the column by whose numbers a member is meant, and whether by the highest of them."""
        end, highest = (named.lowest, False) if named.highest is None else (named.highest, True)
        if (named.lowest is None) is (named.highest is None):
            raise ValueError("name one of lowest and highest: the column that says which member is meant")
        by = self._member(str(end), where=f"{where}.{'highest' if highest else 'lowest'}")
        if not isinstance(by.hierarchy, IntervalHierarchy | DecimalIntervals | DateHierarchy):
            what = f"{by.name!r} has no numbers or days, so that no member has the lowest or highest"
            raise ValueError(what)  # noqa: TRY004 - of what was declared
        return by, highest

    def _member(self, name: str, *, where: str, level: int = 0) -> MappedColumn:
        if name not in self.members:
            refused = _OfMisplaced if name in self.misplaced else InputRefused
            raise refused(
                f"there is no column {name!r} of the members.",
                where=where,
                remedy=f"Write [unit.columns.{name}] with its values, interval, dates or hierarchy.",
            )
        self.used.add(name)
        own = self.members[name]
        return own if level == 0 else MappedColumn(name=name, hierarchy=own.hierarchy, level=level)

    def table(self, asked: PublishedMembersTable, *, figures: Collection[str]) -> MemberTable:
        """Return which members are published, and by which labels.

        Raises:
            InputRefused: a column isn't there, has a name of a figure, or its levels are none of a chain's.
        """
        where, chained = f"{self.path}: [unit.members].columns", list[list[MappedColumn]]()
        for name, levels in asked.columns.items():
            own = self._member(name, where=where)
            if name in figures:
                raise InputRefused(
                    f"a published column can't be called {name}.", where=f"{where}.{name}", remedy="Rename it."
                )
            if any(after < before for before, after in pairwise(levels)):
                raise InputRefused(
                    "a label of a stage must follow from the label of the stage before.",
                    where=f"{where}.{name}",
                    remedy="Give the levels in ascending order, the finest stage first.",
                )
            if chained and len(levels) != len(chained[0]):
                raise InputRefused(
                    f"this column has {counted(len(levels), 'stage')}, and others have {len(chained[0])}.",
                    where=f"{where}.{name}",
                    remedy="Give every column as many levels as there are stages.",
                )
            try:
                chained.append([MappedColumn(name=name, hierarchy=own.hierarchy, level=level) for level in levels])
            except ValueError as error:
                raise InputRefused(f"{error}.", where=f"{where}.{name}") from None
        try:
            maps = tuple(GeneralizationMap(columns=columns) for columns in zip(*chained, strict=True))
            return MemberTable(maps=maps, most=asked.most)
        except ValueError as error:
            raise InputRefused(f"{error}.", where=where) from None
