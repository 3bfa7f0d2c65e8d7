"""Units and their members in two tables: which members are taken, and that one price pays for both, by brute force."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import combinations_with_replacement
from secrets import token_bytes
from typing import Any

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.composition.composed import delta_composed
from crowdblend.accounting.kinds.deletion_tables_prices import losses_of_tables
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, sum_counts
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kinds import deletion_protection
from crowdblend.mechanisms.kinds.deletion_noise import (
    WEIGHT_TOTAL,
    GaussianDeletion,
    GeometricDeletion,
    deletion_weights,
)
from crowdblend.mechanisms.kinds.deletion_protection import DeletionProtection, published_stages
from crowdblend.mechanisms.kinds.member_deletion import (
    MemberRows,
    MembersDeletion,
    MembersProtection,
    split_numbers,
)
from crowdblend.mechanisms.unit_records import AnyMember, CountMembers, MemberTable, UnitRule

AGE = MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=8, widths=(4,)), level=0)
SEX = MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["f", "m"]), level=0)


def at(column: MappedColumn, level: int) -> MappedColumn:
    return replace(column, level=level)


def keys_of(rule: UnitRule, published: GeneralizationMap, units: list[list[tuple[int, int]]]) -> GroupCounts:
    """The groups that counting makes of units, each a list of (age, sex) of its members."""
    records = rule.records(published, with_members=True)
    distinct = [sorted(Counter(unit).items()) for unit in units]
    values = [member for unit in distinct for member, _ in unit]
    codes = [
        AGE.hierarchy.codes_of_texts([str(age).encode() for age, _ in values], 0),
        SEX.hierarchy.codes_of_texts(["fm"[sex].encode() for _, sex in values], 0),
    ]
    times = np.array([number for unit in distinct for _, number in unit], dtype=np.int64)
    starts = np.cumsum([0, *(len(unit) for unit in distinct)])[:-1]
    keys = records.unit_keys(GroupCounts(records.member_layout.keys(codes), times), starts)
    return sum_counts(keys, np.ones(keys.shape[1], dtype=np.int64))


# --- which members are taken ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_the_members_that_are_taken_stand_at_even_distances_whatever_others_have(most):
    """All of up to `most`; of more those in the middle of as many equal parts, in the order of their labels."""
    rule = UnitRule(
        members=(AGE, SEX),
        derived={"size": CountMembers(column=None, labels=(), cap=3)},
        table=MemberTable(maps=(GeneralizationMap(columns=(at(SEX, 0), at(AGE, 1))),), most=most),
    )
    published = GeneralizationMap(
        columns=(MappedColumn(name="size", hierarchy=rule.derived["size"].hierarchy, level=0),)
    )
    coins = np.random.default_rng(most)
    units = [[(int(coins.integers(8)), int(coins.integers(2))) for _ in range(size)] for size in range(1, 40)]
    layout = rule.table.maps[0].layout
    for unit in units:
        found = keys_of(rule, published, [unit])
        whole = rule.table.layout(published.layout)
        numbers = [int(whole.codes_of(found.keys, place)[0]) for place in range(1, 1 + most)]
        ages = AGE.hierarchy.codes_of_texts([str(age).encode() for age, _ in unit], 0)
        sexes = SEX.hierarchy.codes_of_texts(["fm"[sex].encode() for _, sex in unit], 0)
        ordered = sorted(layout.keys([sexes, AGE.hierarchy.coarser(ages, level=0, to=1)])[0].tolist())
        size = len(ordered)
        taken = ordered if size <= most else [ordered[(2 * place + 1) * size // (2 * most)] for place in range(most)]
        assert numbers == [1 + key for key in taken] + [0] * (most - len(taken))
    together = keys_of(rule, published, units)
    alone = [keys_of(rule, published, [unit]).keys for unit in units]
    expected = sum_counts(np.concatenate(alone, axis=1), np.ones(len(units), dtype=np.int64))
    assert np.array_equal(together.keys, expected.keys)
    assert np.array_equal(together.counts, expected.counts)


def test_members_with_too_many_combinations_are_refused():
    wide = MappedColumn(name="wide", hierarchy=IntervalHierarchy(lower=0, upper=1 << 25, widths=()), level=0)
    with pytest.raises(ValueError, match="coarser levels"):
        MemberTable(maps=(GeneralizationMap(columns=(wide,)),), most=2)


# --- the whole mechanism on small data sets, enumerated -------------------------------------------------------------

MOST = 2
RULE = UnitRule(
    members=(AGE, SEX),
    derived={"young": AnyMember(column=AGE, labels=("[0, 4)",), every=False)},
    table=MemberTable(maps=(GeneralizationMap(columns=(SEX,)),), most=MOST),
)
PUBLISHED = GeneralizationMap(columns=(MappedColumn(name="young", hierarchy=RULE.derived["young"].hierarchy, level=0),))
RELEASE = MembersDeletion(
    stages=1,
    k=1,
    noise=GeometricDeletion(epsilon=Decimal("0.7"), width=1),
    members=MemberRows(most_members=MOST, member_stages=1, member_scale=Decimal(3), member_width=2),
)
OTHERS = [[(1, 0), (1, 0)], [(1, 1), (1, 1)], [(5, 0), (5, 0)], [(5, 1), (5, 1)]] * 3
"""So many that no group's number is cut at 0."""


def protection(release: MembersDeletion = RELEASE) -> MembersProtection:
    return MembersProtection(
        mechanism=release,
        units=DeletionProtection(mechanism=release, layouts=(PUBLISHED.layout,), tables=(), levels=(), margins=()),
        members=DeletionProtection(
            mechanism=release.members.release(k=release.k),
            layouts=(RULE.table.maps[0].layout,),
            tables=(),
            levels=(),
            margins=(),
        ),
    )


class Open(DeletionProtection):
    """Protects nothing."""

    __slots__ = ()

    def protect(self, exact: Any, *, randomness: Any) -> Any:
        return exact.counts


def test_a_table_that_another_class_would_protect_is_refused():
    own = protection()
    for name in ("units", "members"):
        part = getattr(own, name)
        values = {one.name: getattr(part, one.name) for one in dataclasses.fields(part)}
        with pytest.raises(ValueError, match="protected by no class of the kernel"):
            dataclasses.replace(own, **{name: Open(**values)})


def law(units: list[list[tuple[int, int]]], monkeypatch) -> dict[bytes, float]:
    """Each outcome's probability: `protect` is run once for all that its draws can be."""
    exact, own, found = keys_of(RULE, PUBLISHED, units), protection(), defaultdict[bytes, float](float)

    def run(script: list[int]) -> tuple[bytes, float, list[int]]:
        used, probability, sizes = iter(script), 1.0, list[int]()

        def drawn(noise, size, *, randomness):
            nonlocal probability
            weights = deletion_weights(noise)
            values = []
            for _ in range(size):
                values.append(next(used, 0))
                sizes.append(len(weights))
                probability *= weights[values[-1]] / WEIGHT_TOTAL
            return np.array(values, dtype=np.int64)

        monkeypatch.setattr(deletion_protection, "draw_deletions", drawn)
        return own.protect(exact, randomness=token_bytes).tobytes(), probability, sizes

    for script in scripts(run([])[2]):
        outcome, probability, _ = run(script)
        found[outcome] += probability
    return found


def scripts(sizes: list[int]) -> Iterator[list[int]]:
    for place in np.ndindex(*sizes):
        yield list(place)


def divergence(one: dict[bytes, float], other: dict[bytes, float], epsilon: float) -> float:
    growth = np.exp(epsilon)
    return sum(max(0.0, mass - growth * other.get(outcome, 0.0)) for outcome, mass in one.items())


EPSILONS = (0.0, 0.3, 0.7, 1.2, 2.0, 3.0)


def test_no_unit_of_any_size_costs_more_than_the_price_of_both_tables(monkeypatch):
    """Changed are units of one to five members: also of more than may be in the table. The bound is met, to 1%."""
    without = law(OTHERS, monkeypatch)
    members = [(1, 0), (5, 0), (5, 1)]
    worst = dict.fromkeys(EPSILONS, 0.0)
    for size in range(1, 6):
        for unit in combinations_with_replacement(members, size):
            one = law([*OTHERS, list(unit)], monkeypatch)
            assert sum(one.values()) == pytest.approx(1.0)
            for epsilon in EPSILONS:
                found = max(divergence(one, without, epsilon), divergence(without, one, epsilon))
                worst[epsilon] = max(worst[epsilon], found)
    parts = Counter(losses_of_tables(RELEASE))
    as_one = Counter(losses_of_tables(replace(RELEASE, members=replace(RELEASE.members, most_members=1))))
    for epsilon, found in worst.items():
        bound = delta_composed(parts, epsilon=epsilon)
        assert found <= bound * (1 + 1e-9)
        assert found >= 0.99 * bound
    # The same check finds a price that pays for one member of a unit.
    assert any(found > 1.05 * delta_composed(as_one, epsilon=epsilon) for epsilon, found in worst.items())


def test_both_tables_together_cost_less_than_two_charges():
    """Two releases would be charged one after the other, each at half of δ; composed it is a third less at least."""
    release = MembersDeletion(
        stages=2,
        k=1,
        noise=GaussianDeletion(scale=Decimal("8.541"), width=43),
        members=MemberRows(most_members=3, member_stages=2, member_scale=Decimal("26.19"), member_width=142),
    )
    delta = Decimal("1e-6")
    together = price(release, delta=delta)
    assert together.rule == "members-deletion-composed/1"
    rows = deletion_alone(release)
    two = price(rows, delta=delta / 2).epsilon
    two += price(release.members.release(k=1), delta=delta / 2, rows_per_person=3).epsilon
    assert together.epsilon < Decimal("0.7") * two
    assert together.epsilon > price(rows, delta=delta).epsilon


def deletion_alone(release: MembersDeletion):
    from crowdblend.mechanisms.kinds.deletion import DeletionRelease

    return DeletionRelease(stages=release.stages, k=release.k, noise=release.noise)


# --- what is published, and refused ---------------------------------------------------------------------------------


def test_what_is_published_of_both_tables_is_read_back_and_nothing_else():
    own = protection()
    numbers = own.protect(keys_of(RULE, PUBLISHED, OTHERS), randomness=token_bytes)
    assert own.fits(numbers)
    units, members = split_numbers(numbers)
    [rows], _ = published_stages(units, k=1, layouts=[PUBLISHED.layout], levels=(), margins=())
    assert rows.counts.max() <= 6
    [people], _ = published_stages(members, k=1, layouts=[RULE.table.maps[0].layout], levels=(), margins=())
    assert people.counts.sum() <= 2 * len(OTHERS)
    for wrong in (numbers[:-1], np.append(numbers, 1), np.empty(0, np.int64), numbers[:1], [1 << 70], [-1, 0]):
        assert not own.fits(wrong)
    nobody = KeyLayout(sizes=own.layout.sizes)
    empty = GroupCounts(np.empty((nobody.key_words, 0), np.int64), np.empty(0, np.int64))
    assert own.fits(own.protect(empty, randomness=token_bytes))


def test_tables_of_other_mechanisms_are_refused():
    own = protection()
    with pytest.raises(ValueError, match="another mechanism"):
        replace(own, mechanism=replace(RELEASE, k=2))
    with pytest.raises(ValueError, match="another mechanism"):
        replace(own, members=replace(own.members, mechanism=replace(own.members.mechanism, k=2)))
    wide = KeyLayout(sizes=(1 << 40, 1 << 40))
    with pytest.raises(ValueError, match="one word"):
        replace(own, members=replace(own.members, layouts=(wide,)))


@pytest.mark.parametrize(
    "changed", [{"most_members": 0}, {"most_members": 10_001}, {"member_stages": 0}, {"member_scale": Decimal(0)}]
)
def test_a_table_of_members_out_of_range_is_refused(changed):
    with pytest.raises(ValueError, match=r"must|scale"):
        replace(RELEASE.members, **changed)
