"""How much records tell, held against rows that are written out one by one."""

from __future__ import annotations

from statistics import median_high

import numpy as np
from crowdblend.mechanisms.generalization_map import columns_told, told_sentences
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from hypothesis import given
from hypothesis import strategies as st

GROUPS = st.lists(st.tuples(st.tuples(*[st.booleans()] * 3), st.integers(0, 4)), max_size=12)
TOWN, INCOME = ValueHierarchy.from_values(["Lyon", "Lille"]), IntervalHierarchy(lower=0, upper=9, widths=())
NAMES = ("age", "town", "income")


@given(groups=GROUPS)
def test_the_counts_are_those_of_the_rows(groups: list[tuple[tuple[bool, bool, bool], int]]) -> None:
    stars = {name: np.array([group[0][place] for group in groups], dtype=bool) for place, name in enumerate(NAMES)}
    found = columns_told(stars, np.array([times for _, times in groups], dtype=np.int64))
    rows = [starred for starred, times in groups for _ in range(times)]
    told = [sum(not one for one in row) for row in rows]
    assert found.facts == {
        "informative_records": sum(one > 0 for one in told),
        "median_columns_told": median_high(told) if told else 0,
        "columns_at_star": [name for place, name in enumerate(NAMES) if rows and all(row[place] for row in rows)],
    }
    assert (found.records, found.labels) == (len(rows), sum(told))


def test_expected_records_need_not_be_whole() -> None:
    found = columns_told({"age": np.array([True, False]), "sex": np.array([False, False])}, np.array([0.25, 0.5]))
    assert (found.records, found.informative, found.labels, found.median) == (0.75, 0.75, 1.25, 2)


def said(levels: dict[str, int] | None = None, **published: object) -> str:
    facts = {"records": 10, "informative_records": 8, "median_columns_told": 1, "columns_at_star": [], **published}
    hierarchies = {"town": TOWN, "income": INCOME}
    return " ".join(told_sentences(facts, levels=levels or {"town": 0, "income": 0}, hierarchies=hierarchies))


def test_a_column_is_told_by_its_cause() -> None:
    assert said() == (
        "Informative, with a label that isn't *: 8 of 10 records; at least half of all tell 1 of 2 columns or more."
    )
    assert "Every published income is *. Check, on a public file" in said(columns_at_star=["income"])
    by_level = said(columns_at_star=["income"], levels={"town": 0, "income": 1})
    assert "Every published income is *: its level in this release has no other label." in by_level
    assert "Check" not in by_level
    nothing = said(informative_records=0, columns_at_star=["town", "income"])
    assert nothing.startswith("Of 10 records none tells anything: every label is *. Every published town and income is")


def test_only_stages_that_published_count_as_levels() -> None:
    stages = [
        {"levels": {"town": 0, "income": 0}, "published_groups": 0},
        {"levels": {"town": 0, "income": 1}, "published_groups": 3},
    ]
    assert "has no other label" in said(columns_at_star=["income"], stages=stages)
    stages[0]["published_groups"] = 1
    assert "Check" in said(columns_at_star=["income"], stages=stages)


def test_nothing_is_said_of_no_records_and_of_a_certificate_that_does_not_say_it() -> None:
    assert said(records=0) == said(records=None) == ""
    assert told_sentences({"records": 10}, levels={"town": 0}, hierarchies={"town": TOWN}) == ()
