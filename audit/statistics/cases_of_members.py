"""Audits of two tables under one charge: units, and members of an oversized unit of which a few may be published."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, sum_counts
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, largest_deletion
from crowdblend.mechanisms.kinds.deletion_protection import DeletionProtection, read_stages
from crowdblend.mechanisms.kinds.member_deletion import MemberRows, MembersDeletion, MembersProtection, split_numbers
from crowdblend.mechanisms.unit_records import AnyMember, MemberTable, UnitRule
from numpy.typing import NDArray

from .cases import Case, Draw, Pair
from .cases_of_deletion import log_ratios

__all__ = ["RELEASE", "member_cases"]

DELTA = Decimal("0.02")
MOST, PLANTED = 3, 50
RELEASE = MembersDeletion(
    stages=1,
    k=1,
    noise=GaussianDeletion(scale=Decimal(1), width=5),
    members=MemberRows(most_members=MOST, member_stages=1, member_scale=Decimal(3), member_width=16),
)
SEX = MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["f", "m"]), level=0)
PUBLISHED = GeneralizationMap(
    columns=(MappedColumn(name="woman", hierarchy=ValueHierarchy.from_values(["no", "yes"]), level=0),)
)
_MIDDLE, _UNITS = 4_000, 200

Counts = NDArray[np.int64]


def member_cases(scale: float) -> list[Case]:
    """Every case of this module."""
    charged = price(RELEASE, delta=DELTA)
    sizes = (1, largest_deletion(RELEASE.members.noise) + 10)
    return [
        Case(
            name="oversized-household-members",
            mechanism=f"deletion release of households, of whose {PLANTED} members {MOST} may be in a table beside it",
            claim=float(charged.epsilon),
            delta=float(DELTA),
            rule=charged.rule,
            exact=None,
            pairs=tuple(Pair(name=f"{n} households against {n - 1}", draw=_draw(n)) for n in sizes),
            draws=max(4_000, round(200_000 * scale)),
            scouts=max(2_000, round(20_000 * scale)),
            block=4_000,
            coins="the audit's bytes",
        )
    ]


def exact_units(others: int, *, planted: bool) -> GroupCounts:
    """Return what counting makes of households of one woman each, and of one of fifty where it is planted."""
    table = MemberTable(maps=(GeneralizationMap(columns=(SEX,)),), most=MOST)
    derived = {"woman": AnyMember(column=SEX, labels=("f",), every=False)}
    records = UnitRule(members=(SEX,), derived=derived, table=table).records(PUBLISHED, with_members=True)
    times = np.array([1] * others + [PLANTED] * planted, dtype=np.int64)
    women = SEX.hierarchy.codes_of_texts([b"f"] * times.size, 0)
    starts = np.arange(times.size, dtype=np.int64)
    keys = records.unit_keys(GroupCounts(records.member_layout.keys([women]), times), starts)
    return sum_counts(keys, np.ones(times.size, dtype=np.int64))


def _draw(size: int) -> Draw:
    """Outcomes are sums of the losses of both tables, of which 200 make 1."""
    rows = RELEASE.members.release(k=RELEASE.k)
    members = GeneralizationMap(columns=(SEX,)).layout
    alone = {"tables": (), "levels": (), "margins": ()}
    protection = MembersProtection(
        mechanism=RELEASE,
        units=DeletionProtection(mechanism=RELEASE, layouts=(PUBLISHED.layout,), **alone),
        members=DeletionProtection(mechanism=rows, layouts=(members,), **alone),
    )
    laws = log_ratios(RELEASE.noise, 1), log_ratios(rows.noise, MOST)

    def outcomes(side: int, count: int, rng: np.random.Generator) -> Counts:
        exact = exact_units(size - 1, planted=side == 0)
        found = np.zeros(count)
        for number in range(count):
            parts = split_numbers(protection.protect(exact, randomness=rng.bytes))
            for own, layout, law, most in zip(
                parts, (PUBLISHED.layout, members), laws, (size, size - 1 + MOST), strict=True
            ):
                [stage], _ = read_stages(own, k=RELEASE.k, layouts=[layout], levels=())
                lost = most - int(stage.counts.sum())
                found[number] += float(law[min(max(lost, 0), law.size - 1)])
        return np.clip(np.rint(found * _UNITS) + _MIDDLE, 0, 2 * _MIDDLE).astype(np.int64)

    return outcomes
