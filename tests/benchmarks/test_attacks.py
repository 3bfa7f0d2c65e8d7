"""The attacks on ways of releasing: they find what is there, and prove no more than the price allows."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from benchmarks.utility import attackers, attacks
from benchmarks.utility.attackers import KNOWN, OnPeople, attack_known, gain, power
from benchmarks.utility.measures import Truth
from benchmarks.utility.tables import census
from benchmarks.utility.ways import planned_deletion


@pytest.fixture(scope="module")
def table():
    return census()


@pytest.mark.slow
def test_a_quick_run_tells_of_every_way(capsys):
    attacks.main(["--quick"])
    told = capsys.readouterr().out
    for way in KNOWN:
        assert len([line for line in told.splitlines() if line.startswith(f"| {way} |")]) == 3


def test_what_is_published_unprotected_is_found_and_what_costs_little_is_not(table):
    records = table.resized(3_000)
    bare, costly, cheap = (
        attack_known(table, records, Decimal(epsilon), way, np.random.default_rng(1), quick=True)
        for way, epsilon in (("the table itself", "1"), ("deletion", "4"), ("deletion", "0.5"))
    )
    assert (bare["power"], bare["auc"]) == (1, 1)
    assert bare["bound"] > 5
    assert 1 < costly["bound"] <= 4  # so a release that claimed 1 and was drawn like this would be convicted
    assert cheap["bound"] <= 0.5
    assert cheap["auc"] < 0.7


def test_what_others_leave_to_her_group_is_what_a_release_without_her_leaves(table):
    """Her chain in the attack and in a release: all others' records go to the same places."""
    records = table.resized(3_000)
    mechanism = planned_deletion(Decimal(1), 3, 0).mechanism
    levels = (0, 1, 2)
    left = attackers._left_by_others(table, records, 7, mechanism, levels, np.random.default_rng(1))
    same = [attackers._same(table, records, 7, level) for level in levels]
    assert left[0] == same[0].sum() - 1
    assert all(0 <= part <= whole.sum() - 1 - left[0] for part, whole in zip(left[1:], same[1:], strict=True))
    assert sum(left) <= same[2].sum() - 1
    assert sum(left) > 0


def test_people_in_the_table_are_told_from_others_where_it_is_published(table):
    people = OnPeople(
        table=table,
        records=table.records[:, :2_000],
        members=table.records[:, :500],
        controls=table.records[:, -500:],
        secret=3,
    )
    found = people.measured(Truth(table=table, records=people.records).whole)
    _, counts = np.unique(people.records, axis=1, return_counts=True)
    assert found["groups of one"] == pytest.approx((counts == 1).mean())
    assert found["presence: auc"] > 0.7
    assert found["inference: in"] > found["inference: control"] + 0.1


def test_hits_at_a_share_of_false_alarms_are_read_off_the_curve():
    alarms = np.arange(100.0)
    assert power(np.array([99.5, 98.5, 3.0, 3.0]), alarms) == pytest.approx(0.5)
    assert power(np.full(5, 99.0), alarms) == 1
    assert power(np.zeros(4), np.zeros(4)) == pytest.approx(0.01)


def test_a_difference_has_newcombes_interval():
    """His example 1 (Statistics in Medicine 17, 1998, Table II): 56 of 70 against 48 of 80, 0.0524 to 0.3339."""
    found = gain(56 / 70, 70, 48 / 80, 80)
    assert found == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)
