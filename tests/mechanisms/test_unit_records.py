"""One record of a unit's records: each rule says what its sentence says, for all units of a small domain."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, groupby

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.build import DateHierarchy
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.unit_records import (
    AnyMember,
    Composition,
    CountMembers,
    Derivation,
    MemberLabel,
    UnitRule,
    Waves,
    members_with,
)

AGE = MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=4, widths=(2,)), level=0)
SEX = MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["f", "m"]), level=0)
WORK = MappedColumn(
    name="work",
    hierarchy=ValueHierarchy.from_rows([("full", "some", "*"), ("none", "none", "*"), ("part", "some", "*")]),
    level=0,
)
YEAR = MappedColumn(name="year", hierarchy=ValueHierarchy.from_values(["2024", "2025"]), level=0)
COLUMNS = (AGE, SEX, WORK, YEAR)


def member(age: object, sex: str = "f", work: str = "none", year: str = "2024") -> tuple[int, ...]:
    """Codes of a member by its values; what isn't declared has the bucket's."""
    values = (age, sex, work, year)
    return tuple(
        int(column.hierarchy.codes_of_texts([str(value).encode()], 0)[0])
        for column, value in zip(COLUMNS, values, strict=True)
    )


def text(column: MappedColumn, code: int, level: int = 0) -> str:
    above = column.hierarchy.coarser(np.array([code]), level=0, to=level)
    return column.hierarchy.labels(above, level)[0]


def labels(rule: Derivation, units: list[list[tuple[int, ...]]], *, level: int = 0, hierarchy=None) -> list[str]:
    """The label that the rule gives each unit, by the keys that counting makes of its members."""
    own = hierarchy or rule.hierarchy
    published = GeneralizationMap(columns=(MappedColumn(name="derived", hierarchy=own, level=level),))
    records = UnitRule(members=COLUMNS, derived={"derived": rule}).records(published)
    distinct = [sorted(Counter(unit).items()) for unit in units]
    codes = np.array([one for unit in distinct for one, _ in unit], dtype=np.int64)
    times = np.array([number for unit in distinct for _, number in unit], dtype=np.int64)
    starts = np.cumsum([0, *(len(unit) for unit in distinct)])[:-1]
    keys = records.unit_keys(GroupCounts(records.member_layout.keys(list(codes.T)), times), starts)
    return own.labels(published.decode(keys)[0], level)


def all_units(*members: tuple[int, ...], most: int = 4) -> list[list[tuple[int, ...]]]:
    return [list(unit) for size in range(1, most + 1) for unit in combinations_with_replacement(members, size)]


UNITS = all_units(
    member(0), member(1, "m"), member(3, work="full"), member("?", "m", "part"), member(3, "?", "part", "2025")
)


def at_least(number: int, cap: int) -> str:
    return f"{cap} or more" if number >= cap else str(number)


def in_order(column: MappedColumn, codes: list[int], level: int = 0) -> list[int]:
    return sorted(int(column.hierarchy.coarser(np.array([code]), level=0, to=level)[0]) for code in codes)


def expected(rule: Derivation, unit: list[tuple[int, ...]]) -> str:  # noqa: PLR0911 - one for each rule
    """What the page of the rules says of the unit's label, in plain Python."""
    ages, sexes, works, years = (list(own) for own in zip(*unit, strict=True))
    match rule:
        case CountMembers(column=None):
            return at_least(len(unit), rule.cap)
        case CountMembers():
            return at_least(sum(text(AGE, age) in ("0", "1") for age in ages), rule.cap)
        case AnyMember(every=True):
            return "yes" if all(text(WORK, work, 1) == "some" for work in works) else "no"
        case AnyMember():
            return "yes" if any(text(WORK, work, 1) == "some" for work in works) else "no"
        case MemberLabel():
            known = [(age, sex) for age, sex in zip(ages, sexes, strict=True) if text(AGE, age) != "*"]
            if not known:
                return "*"
            end = (max if rule.highest else min)(age for age, _ in known)
            own = [sex for age, sex in known if age == end]
            return text(SEX, min([sex for sex in own if text(SEX, sex) != "*"] or own))
        case Waves():
            parts = []
            for wave in rule.waves:
                own = [work for work, year in zip(works, years, strict=True) if text(YEAR, year) == wave]
                own = [work for work in own if text(WORK, work) != "*"] or own
                parts.append(text(WORK, min(own)) if own else "absent")
            return " > ".join(parts)
        case Composition():
            ordered = in_order(AGE, ages, rule.column.level)
            named = [AGE.hierarchy.labels(np.array([code]), rule.column.level)[0] for code in ordered[: rule.most]]
            runs = ", ".join(f"{len(list(run))} {label}" for label, run in groupby(named))
            return runs + (", and more" if len(unit) > rule.most else "")
    raise AssertionError(rule)


RULES = (
    CountMembers(column=None, labels=(), cap=3),
    CountMembers(column=AGE, labels=("[0, 2)",), cap=2),
    CountMembers(column=AGE, labels=("0", "1"), cap=1),
    AnyMember(column=WORK, labels=("some",), every=False),
    AnyMember(column=WORK, labels=("full", "part"), every=True),
    MemberLabel(column=SEX, by=AGE, highest=True),
    MemberLabel(column=SEX, by=AGE, highest=False),
    Waves(column=WORK, wave=YEAR, waves=("2024", "2025")),
    Composition(column=AGE, most=3),
    Composition(column=MappedColumn(name="age", hierarchy=AGE.hierarchy, level=1), most=2),
)


@pytest.mark.parametrize("rule", RULES, ids=[f"{type(rule).__name__}-{place}" for place, rule in enumerate(RULES)])
def test_each_rule_says_what_its_words_say_of_every_unit(rule) -> None:
    found = labels(rule, UNITS)
    assert found == [expected(rule, unit) for unit in UNITS]
    assert len(set(found)) > 1
    # The order of the units, and who else is there, change nothing.
    assert labels(rule, UNITS[::-1]) == found[::-1]
    assert labels(rule, UNITS[7:8]) == found[7:8]


def test_coarser_labels_of_a_composition_are_those_of_the_members_coarser_labels() -> None:
    """A composition at its second level is that of the members' second level, whatever the first said."""
    rule = Composition(column=AGE, most=4)
    coarse = Composition(column=MappedColumn(name="age", hierarchy=AGE.hierarchy, level=1), most=4)
    fine, rough = labels(rule, UNITS, level=1), labels(coarse, UNITS)
    assert len(set(fine)) == len(set(rough))
    assert len(set(zip(fine, rough, strict=True))) == len(set(fine))


def test_early_waves_are_left_out_before_all_are() -> None:
    year = MappedColumn(name="year", hierarchy=IntervalHierarchy(lower=1, upper=6, widths=()), level=0)
    rule = Waves(column=WORK, wave=year, waves=("1", "2", "3", "4", "5"))
    own = rule.hierarchy
    [code] = own.codes_of_texts([b"full > none > part > absent > none"], 0)
    above = [own.labels(own.coarser(np.array([code]), level=0, to=level), level)[0] for level in range(own.levels)]
    assert above == [
        "full > none > part > absent > none",
        "some > none > some > absent > none",
        "any > any > any > absent > none",
        "any > any > any > any > none",
        "*",
    ]


def test_waves_merge_as_their_labels_do() -> None:
    rule = Waves(column=WORK, wave=YEAR, waves=("2024", "2025"))
    unit = [member(1, work="full"), member(1, work="part", year="2025")]
    assert labels(rule, [unit]) == ["full > part"]
    assert labels(rule, [unit], level=1) == ["some > some"]
    assert labels(rule, [unit], level=2) == ["any > some"]
    assert labels(rule, [unit], level=3) == ["*"]


def test_a_stewards_own_hierarchy_stands_above_a_rules_labels() -> None:
    rule = CountMembers(column=None, labels=(), cap=3)
    own = ValueHierarchy.from_rows([("1", "alone", "*"), ("2", "together", "*"), ("3 or more", "together", "*")])
    units = [[member(1)], [member(1)] * 2, [member(1)] * 9]
    assert labels(rule, units, hierarchy=own) == ["1", "2", "3 or more"]
    assert labels(rule, units, level=1, hierarchy=own) == ["alone", "together", "together"]


def test_a_member_may_be_there_very_often() -> None:
    times = 10**12
    records = UnitRule(members=COLUMNS, derived={"derived": RULES[0]}).records(
        GeneralizationMap(columns=(MappedColumn(name="derived", hierarchy=RULES[0].hierarchy, level=0),))
    )
    keys = records.member_layout.keys([np.array([code]) for code in member(1)])
    [found] = records.unit_keys(GroupCounts(keys, np.array([times])), np.array([0]))
    assert RULES[0].hierarchy.labels(found, 0) == ["3 or more"]


def test_labels_that_cannot_be_asked_for_are_refused() -> None:
    for wrong in ("[0, 9)", "[2, 1)", "*", "old", "5"):
        with pytest.raises(ValueError, match="no label"):
            members_with(AGE, (wrong,))
    with pytest.raises(ValueError, match="coarser level"):
        Waves(column=AGE, wave=YEAR, waves=("2024", "2025") * 10)
    with pytest.raises(ValueError, match="fewer"):
        Composition(column=AGE, most=20)
    days = MappedColumn(
        name="born", hierarchy=DateHierarchy.of(first="2000-01-01", last="2000-01-31", merged=["month"]), level=0
    )
    assert members_with(days, ("2000-01",)).sum() == 31
