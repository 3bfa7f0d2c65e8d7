"""A codebook says of each column how labels come of values, from the certificate's hierarchies alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from crowdblend.mechanisms.hierarchies.codebook import CodebookLabel, codebook, published_levels
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals, NumberSteps
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy

TOWNS = ValueHierarchy.from_rows([("Lyon", "South", "*"), ("Lille", "North", "*"), ("Nice", "South", "*")])
AGES = IntervalHierarchy(lower=0, upper=95, widths=(5, 10))
MONEY = DecimalIntervals.of(lower=Decimal(0), upper=Decimal("2.5"), widths=(Decimal("0.5"), Decimal("1.0")))
CUTS = NumberSteps(cuts=(0.5, 2.0))


def certificate(hierarchy: Hierarchy, level: int, *, stages: tuple[int, ...] = ()) -> dict[str, Any]:
    column = {"column": "one", "level": level, "hierarchy_sha256": hierarchy.digest()}
    stated: dict[str, Any] = {"map": {"columns": [column | {"hierarchy": hierarchy.description()}]}}
    if stages:
        stated["published"] = {"stages": [{"levels": {"one": own}} for own in stages]}
    return stated


@pytest.mark.parametrize(
    ("hierarchy", "level", "rule"),
    [
        (TOWNS, 0, "Each declared value is its own label: Lille, Lyon, Nice; what was not declared is *."),
        (TOWNS, 1, "Of 3 declared values; what was not declared is *."),
        (TOWNS, 2, "Every value is *."),
        (TOWNS.folded(), 1, "Of 3 declared values; what was not declared is *. Upper and lower case are read alike."),
        (
            AGES,
            0,
            "Each whole number from 0 to 94 is its own label; smaller numbers are < 0, larger ones >= 95; all else is"
            " *.",
        ),
        (
            AGES,
            2,
            "Intervals of width 10 from 0 to below 95: [a, b) has the whole numbers from a to below b; smaller numbers"
            " are < 0, larger ones >= 95; all else is *.",
        ),
        (
            MONEY,
            0,
            "Intervals of width 0.1 from 0.0 to below 2.5: [a, b) has the numbers from a to below b; smaller numbers"
            " are < 0.0, larger ones >= 2.5; what is no number is *.",
        ),
        (
            MONEY,
            1,
            "Intervals of width 0.5 from 0.0 to below 2.5: [a, b) has the numbers from a to below b; smaller numbers"
            " are < 0.0, larger ones >= 2.5; what is no number is *.",
        ),
        (CUTS, 0, "Numbers between declared cuts: [a, b) has those from a to below b; what is no number is *."),
        (CUTS, 1, "Every value is *."),
    ],
)
def test_each_kind_of_hierarchy_has_its_rule(hierarchy: Hierarchy, level: int, rule: str) -> None:
    [column] = codebook(certificate(hierarchy, level), names=["one"])
    assert (column.name, column.level, column.stages, column.rule) == ("one", level, (), rule)
    assert (column.more, column.digest) == (0, hierarchy.digest())
    if level != 1 or not isinstance(hierarchy, ValueHierarchy):
        assert column.labels == ()


def test_labels_are_told_with_their_values_and_the_bucket_first() -> None:
    rows = [("b", "X"), ("a", "X"), ("c", "*"), ("d", "A")]
    [column] = codebook(certificate(ValueHierarchy.from_rows(rows), 1), names=["one"])
    assert column.labels == (
        CodebookLabel(label="*", values=("c",), more=0),
        CodebookLabel(label="A", values=("d",), more=0),
        CodebookLabel(label="X", values=("a", "b"), more=0),
    )


@pytest.mark.parametrize(("groups", "each"), [(40, 24), (41, 25), (45, 30)])
def test_at_most_forty_labels_and_twenty_four_values_are_told(groups: int, each: int) -> None:
    rows = [(f"{group:02}-{value:02}", f"g{group:02}") for group in range(groups) for value in range(each)]
    hierarchy = ValueHierarchy.from_rows(rows)
    [column] = codebook(certificate(hierarchy, 1), names=["one"])
    assert (len(column.labels), column.more) == (40, groups - 40)
    assert {(len(label.values), label.more) for label in column.labels} == {(24, each - 24)}
    assert column.labels[0].values[:2] == ("00-00", "00-01")
    [plain] = codebook(certificate(ValueHierarchy.from_values([row[0] for row in rows[:each]]), 0), names=["one"])
    more = f" and {each - 24} more" if each > 24 else ""
    assert plain.rule.endswith(f", 00-23{more}; what was not declared is *.")


def test_a_column_is_told_at_each_level_that_a_stage_publishes_it_at() -> None:
    stated = certificate(TOWNS, 1, stages=(1, 2, 1))
    assert published_levels(stated, stated["map"]["columns"][0]) == {1: (1, 3), 2: (2,)}
    assert [(one.level, one.stages) for one in codebook(stated, names=["one"])] == [(1, (1, 3)), (2, (2,))]
    for stages in ((), (1,)):
        alone = certificate(TOWNS, 1, stages=stages)
        assert published_levels(alone, alone["map"]["columns"][0]) == {1: ()}


def test_a_hierarchy_that_the_certificate_does_not_carry_is_told_by_its_digest() -> None:
    stated = certificate(TOWNS, 1)
    del stated["map"]["columns"][0]["hierarchy"]
    [column] = codebook(stated, names=["one"])
    carried = f"only its SHA-256, {TOWNS.digest()}: ask the publisher for it."
    assert column.rule == f"The certificate doesn't carry this hierarchy, {carried}"
    assert (column.labels, column.more, column.digest) == ((), 0, TOWNS.digest())
