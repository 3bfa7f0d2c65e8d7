"""All faults of a hierarchy are told at once, and there are none exactly where it can be built."""

from __future__ import annotations

import pytest
from crowdblend.mechanisms.hierarchies.check import domain_faults, domain_remarks, hierarchy_faults, hierarchy_remarks
from crowdblend.mechanisms.hierarchies.declare import HierarchyError, ValueHierarchy
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


def test_the_law_would_find_a_checker_that_overlooks_something() -> None:
    """Control: the shape alone is not enough for the law above."""
    torn = [("a", "South"), ("b", "North"), ("*", "South")]
    assert not buildable(torn)
    assert [fault.row for fault in hierarchy_faults(torn)] == [2]


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


def test_faults_are_told_by_row_and_those_of_the_whole_first() -> None:
    assert told(hierarchy_faults([])) == [(None, None, "the hierarchy declares no value")]
    rows = [("*", "x"), ("*", ""), ("*", "a\rb"), ("*", "y", "z")]
    assert told(hierarchy_faults(rows)) == [
        (None, None, "every row begins with the same label, as if the rows were written root first"),
        (1, None, "the label at level 1 is empty"),
        (1, 0, "the value '*' is declared twice"),
        (2, None, "the label at level 1 has a line break, a NUL or a character outside Unicode"),
        (2, 0, "the value '*' is declared twice"),
        (3, None, "this row has 3 levels where the first has 2"),
        (3, 0, "the value '*' is declared twice"),
    ]
    assert told(hierarchy_faults([("a", "*"), ()])) == [(1, None, "this row is empty")]
    twice = hierarchy_faults([("a", ""), ("b", "*"), ("a", "")])
    assert told(twice) == [
        (0, None, "the label at level 1 is empty"),
        (2, None, "the label at level 1 is empty"),
        (2, 0, "the value 'a' is declared twice"),
    ]
    torn = [*TOWNS, ("Lens", "North", "all"), ("*", "South", "*")]
    same = "equal labels must stay equal at the levels above"
    assert told(hierarchy_faults(torn)) == [
        (3, None, f"'North' at level 1 becomes 'all' at level 2, but '*' elsewhere: {same}"),
        (4, None, f"'*' at level 0 becomes 'South' at level 1, but '*' elsewhere: {same}"),
    ]


def test_remarks_say_what_and_where() -> None:
    rows = [("Lyon", "South", "all"), (" Nice", "South", "*"), ("LYON", "SOUTH ", "*"), ("lyon", "So", "*")]
    spelled = "differ in case, spaces or composition alone"
    spaces = "labels that begin or end with a space; values are compared as they are written"
    assert told(hierarchy_remarks(rows)) == [
        (0, None, "no other row ends as the first does: if it names the levels, it is a header"),
        (1, None, f"2 rows have {spaces}"),
        (2, None, f"'LYON' and 'Lyon' at level 0 {spelled}"),
        (2, None, f"'SOUTH ' and 'South' at level 1 {spelled}"),
        (None, None, "the last level has 2 labels and not `*` alone, so the column can't be left blank"),
    ]
    numbers = [("7", "a", "*"), ("+07", "b", "*"), ("-0", "c", "*")]
    form = "in another form than 7, 0 or -7, such as '+07'"
    assert told(hierarchy_remarks(numbers)) == [
        (1, None, f"2 values are numbers {form}: texts match them, integers of a Parquet column don't"),
        (None, None, "level 1 merges nothing: it has as many labels as level 0"),
    ]
    for one, other in (("A", "a"), ("a", "A")):
        assert told(hierarchy_remarks([(one, "*"), (other, "*"), ("b", "*")])) == [
            (1, None, f"{other!r} and {one!r} at level 0 {spelled}")
        ]
    assert told(hierarchy_remarks([("a", "*"), ("b ", "*")])) == [(1, None, f"1 row has {spaces}")]
    assert told(hierarchy_remarks([("a", "x"), ("b", "*")]))[0][0] is None  # two rows tell nothing of a header


def test_at_most_five_values_are_named() -> None:
    for many, named in (
        (2, "'v0', 'v1'"),
        (5, "'v0', 'v1', 'v2', 'v3', 'v4'"),
        (8, "'v0', 'v1', 'v2', 'v3', 'v4' and 3 more"),
    ):
        values = [f"v{number}" for number in range(many)]
        (missing,) = domain_faults(TOWNS, ["Lyon", *values])
        are = "values of the domain are not in the hierarchy and would be published as `*`"
        assert (missing.row, missing.what) == (None, f"{many} {are}: {named}")
        rows = [("*", "*"), ("Lyon", "*"), *((value, "*") for value in values)]
        (unused,) = domain_remarks(rows, ["Lyon"])
        assert (unused.row, unused.what) == (2, f"{many} values of the hierarchy are not in the domain: {named}")


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
