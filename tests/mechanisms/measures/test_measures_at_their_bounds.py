"""Measures at the bounds of their intervals and domains: sizes, orders of magnitude, labels, records trained on."""

from __future__ import annotations

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import sum_counts
from crowdblend.mechanisms.measures.classification import Classification, classification, default_target
from crowdblend.mechanisms.measures.counted_records import CountedRecords, counting_query_errors
from crowdblend.mechanisms.measures.risk import reidentification_risk
from crowdblend.mechanisms.measures.utility import (
    ambiguity_log10,
    association,
    entropy_loss,
    granularity_loss,
    total_variation,
    utility_of,
)

SIDES = ValueHierarchy.from_values(["left", "right"])


def table(columns: dict[str, tuple[object, int, list[int]]], counts: list[int]) -> CountedRecords:
    """Columns as name → hierarchy, level, and codes at level 0."""
    made = GeneralizationMap(
        columns=tuple(MappedColumn(name=name, hierarchy=one, level=level) for name, (one, level, _) in columns.items())
    )
    codes = [one.coarser(np.array(own, dtype=np.int64), level=0, to=level) for one, level, own in columns.values()]
    return CountedRecords(map=made, groups=sum_counts(made.keys(codes), np.array(counts, dtype=np.int64)))


def numbers(counts: list[int], *, upper: int = 2**40) -> CountedRecords:
    """One column, a class for each count that is not 0."""
    codes = [2 + 1000 * place for place, count in enumerate(counts) if count]
    return table({"number": (IntervalHierarchy(lower=0, upper=upper, widths=()), 0, codes)}, [c for c in counts if c])


def test_a_domain_of_one_value_has_nothing_to_lose_and_one_of_two_has() -> None:
    for values, loss in ((["a"], 0.0), (["a", "b"], 1.0)):
        blank = table({"one": (ValueHierarchy.from_values(values), 1, [1])}, [3])
        assert granularity_loss(blank, 0) == loss
    assert granularity_loss(table({"one": (ValueHierarchy.from_rows([("*", "*")]), 1, [0])}, [3]), 0) == 0.0
    nothing = table({"one": (SIDES, 1, [])}, [])
    assert granularity_loss(nothing, 0) == ambiguity_log10(nothing) == 0.0
    told = entropy_loss(nothing, 0, level=1)
    assert (told.lost, told.had, told.share) == (0.0, 0.0, 0.0)


def test_a_record_is_at_risk_above_the_threshold_and_not_at_it() -> None:
    risk = reidentification_risk(np.array([4, 5]), np.array([5, 8]), threshold=0.2)
    assert (risk.prosecutor_at_risk, risk.journalist_at_risk) == (pytest.approx(4 / 9), 0.0)
    assert reidentification_risk(np.array([4, 5]), np.array([4, 8]), threshold=0.2).journalist_at_risk > 0


def test_tables_without_records_are_alike_and_a_single_label_is_associated_with_nothing() -> None:
    assert total_variation(np.array([0]), np.array([0])) == 0.0
    assert total_variation(np.array([3]), np.array([0])) == 1.0
    one_label = table({"one": (SIDES, 0, [1, 1]), "other": (SIDES, 0, [1, 2])}, [3, 4])
    assert association(one_label) == 0.0


def test_nothing_asked_has_no_errors_and_tables_of_many_columns_are_asked_by_pairs() -> None:
    empty = counting_query_errors(numbers([]), numbers([]), sampling_rate=None, ways=1)
    assert (empty.queries, empty.median, empty.high, empty.by_size) == (0, 0.0, 0.0, ())
    for columns, ways in ((2, 2), (4, 3), (10, 3), (11, 2)):
        made = table({f"column {number}": (SIDES, 0, [1]) for number in range(columns)}, [2])
        assert utility_of(made, made, k=1, sampling_rate=None).queries.ways == ways


def test_the_column_with_the_fewest_labels_is_told_but_not_one_of_a_single_label() -> None:
    letters = ValueHierarchy.from_values(["a", "b", "c"])

    def told(**columns: list[int]) -> str | None:
        return default_target(table({name: (letters, 0, own) for name, own in columns.items()}, [1, 1, 1]))

    assert told(one=[1, 1, 2], other=[1, 2, 3]) == "one"
    assert told(one=[1, 2, 3], other=[1, 2, 2], third=[2, 2, 2]) == "other"
    assert told(one=[1, 1, 2], other=[1, 2, 2], third=[1, 2, 3]) == "other", "the last of several"
    assert told(one=[1, 1, 1], other=[2, 2, 2]) is None


def test_what_has_no_classes_to_tell_is_not_classified() -> None:
    many = ValueHierarchy.from_values([f"v{value:02}" for value in range(51)])

    def asked(labels: int) -> Classification | None:
        own = list(range(1, labels + 1))
        made = table({"one": (SIDES, 0, [1] * labels), "many": (many, 0, own)}, [6] * labels)
        return classification(made, made, target="many")

    assert [asked(labels) is None for labels in (1, 2, 50, 51)] == [True, False, False, True]
    with pytest.raises(ValueError, match="no column 'age'"):
        classification(numbers([1, 2]), numbers([1, 2]), target="age")
    assert classification(numbers([1, 2]), numbers([1, 2]), target="number") is None
