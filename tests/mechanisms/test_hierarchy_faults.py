"""All faults of a hierarchy are told at once, and there are none exactly where it can be built."""

from __future__ import annotations

import pytest
from crowdblend.mechanisms.hierarchies.check import domain_faults, domain_remarks, hierarchy_remarks
from crowdblend.mechanisms.hierarchies.declare import HierarchyError, ValueHierarchy, hierarchy_faults
from hypothesis import given, settings
from hypothesis import strategies as st

labels = st.sampled_from(["", "*", "a", "b", "c", "a ", "x\ny", "\ud7ff", "\ud800", "\udfff", "\ue000"])
rows = st.lists(st.lists(labels, max_size=4).map(tuple), max_size=6)
TOWNS = [("Lyon", "South", "*"), ("Nice", "South", "*"), ("Lille", "North", "*")]


def buildable(declared) -> bool:
    try:
        ValueHierarchy.from_rows(declared)
    except HierarchyError:
        return False
    return True


@pytest.mark.slow
@settings(derandomize=True, max_examples=1_500)
@given(rows)
def test_no_fault_exactly_where_it_can_be_built(declared) -> None:
    assert (hierarchy_faults(declared) == []) is buildable(declared)


def test_each_of_many_slips_is_told_with_its_row() -> None:
    slips = [*TOWNS, ("Lyon", "South", "*"), ("Metz", "", "*"), ("Brest", "West")]
    told = {(fault.row, fault.what.split(" ")[1]) for fault in hierarchy_faults(slips)}
    assert told == {(3, "value"), (4, "label"), (5, "row")}
    torn = [*TOWNS, ("Nancy", "North", "**")]
    assert [fault.row for fault in hierarchy_faults(torn)] == [3]


def test_half_a_character_is_a_fault_and_its_neighbours_are_not() -> None:
    for mark, faulty in (("\ud7ff", 0), ("\ud800", 1), ("\udc00", 1), ("\udfff", 1), ("\ue000", 0)):
        assert len(hierarchy_faults([("a", "*"), (f"b{mark}", "*")])) == faulty


def test_rows_written_root_first_are_named_as_what_they_are() -> None:
    fault, *others = hierarchy_faults([row[::-1] for row in TOWNS])
    assert (fault.row, "root first" in fault.what) == (None, True)
    assert others
    for declared in (TOWNS, [("Lyon", "*")], [("Lyon", "*"), ("Lyon", "*")], [("a", "b"), ("c",)], [(), ()]):
        assert not any("root first" in one.what for one in [*hierarchy_faults(declared), *hierarchy_remarks(TOWNS)])


def told(found) -> list[tuple[int | None, int | None, str]]:
    return [(fault.row, fault.first, fault.what) for fault in found]


def test_the_majority_is_taken_for_right() -> None:
    torn = [("a", "x", "1"), ("b", "x", "2"), ("c", "x", "2"), ("d", "x", "2")]
    assert [fault.row for fault in hierarchy_faults(torn)] == [0]


def test_what_is_seldom_meant_is_remarked() -> None:
    assert hierarchy_remarks(TOWNS) == []
    for declared, word in (
        ([("Lyon ", "South", "*"), ("Nice", "South", "*")], "space"),
        ([("Lyon", "*"), ("lyon", "*")], "composition"),
        ([("é", "*"), ("e\u0301", "*")], "composition"),
        ([("01", "*"), ("02", "*")], "'01'"),
        ([("a", "A", "*"), ("b", "B", "*")], "merges nothing"),
        ([("a", "A"), ("b", "B")], "left blank"),
        ([("*", "South", "Lyon")], "left blank"),
        ([("town", "region", "all"), ("Lyon", "South", "*"), ("Nice", "South", "*")], "it is a header"),
    ):
        assert any(word in remark.what for remark in hierarchy_remarks(declared)), declared


def test_the_domain_is_compared_both_ways() -> None:
    assert domain_faults(TOWNS, ["Lyon", "Lille"]) == []
    assert domain_remarks(TOWNS, ["Lyon", "Nice", "Lille"]) == []
    (missing,) = domain_faults(TOWNS, ["Lyon", "Metz", "Brest", "Metz"])
    assert "2 values" in missing.what
    assert "'Metz', 'Brest'" in missing.what
    (more,) = domain_remarks(TOWNS, ["Lyon", "Lille"])
    assert more.row == 1
