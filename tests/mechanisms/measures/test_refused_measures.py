"""A measure of what it isn't defined for is refused, at the very bound."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from crowdblend.mechanisms.kernel.group_counts import sum_counts
from crowdblend.mechanisms.measures.counted_records import CountedRecords, counting_query_errors
from crowdblend.mechanisms.measures.risk import discernibility, normalised_class_size, reidentification_risk
from crowdblend.mechanisms.measures.utility import association

WIDE = IntervalHierarchy(lower=0, upper=300_000, widths=(1,))


def table(values: list[int], *, name: str = "number") -> CountedRecords:
    """One column of many possible values, each record a class of its own or more."""
    made = GeneralizationMap(columns=(MappedColumn(name=name, hierarchy=WIDE, level=0),))
    codes = [WIDE.codes_of_integers(np.array(values, dtype=np.int64), 0)]
    return CountedRecords(map=made, groups=sum_counts(made.keys(codes), np.ones(len(values), dtype=np.int64)))


def test_classes_are_measured_by_a_k() -> None:
    sizes = np.array([2, 4])
    assert normalised_class_size(sizes, k=1) == 3.0
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        normalised_class_size(sizes, k=0)
    assert discernibility(sizes, suppressed=1) == 2 * 2 + 4 * 4 + 7
    with pytest.raises(ValueError, match="suppressed records can't be -1"):
        discernibility(sizes, suppressed=-1)


def test_a_query_fixes_a_column_and_an_association_has_two() -> None:
    records = table([1, 1, 2])
    with pytest.raises(ValueError, match="at least one column, not 0"):
        counting_query_errors(records, records, sampling_rate=Decimal("0.5"), ways=0)
    with pytest.raises(ValueError, match="of two columns"):
        association(records)


def test_records_are_recoded_to_their_own_columns() -> None:
    records = table([1, 1, 2])
    assert records.recoded(records.map).groups.counts.tolist() == [2, 1]
    with pytest.raises(ValueError, match="can't be recoded"):
        records.recoded(table([1], name="other").map)


def test_a_column_of_very_many_values_is_counted_too() -> None:
    codes, counts = table([299_999, 7, 299_999, 100_000]).marginal(0)
    assert counts.tolist() == [1, 1, 2]
    assert codes.tolist() == sorted(codes.tolist())
    assert WIDE.codes_of_integers(np.array([7, 100_000, 299_999]), 0).tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("classes", "population", "threshold", "words"),
    [
        ([1, 2], [3], 0.2, "needs its size"),
        ([1], [3, 4], 0.2, "needs its size"),
        ([0], [3], 0.2, "at least one record"),
        ([4], [3], 0.2, "no more in the table"),
        ([1], [3], -0.01, "between 0 and 1"),
        ([1], [3], 1.01, "between 0 and 1"),
    ],
)
def test_a_risk_is_of_a_table_within_its_population(classes, population, threshold, words) -> None:
    with pytest.raises(ValueError, match=words):
        reidentification_risk(np.array(classes), np.array(population), threshold=threshold)
    for bound in (0.0, 1.0):
        assert reidentification_risk(np.array([3]), np.array([3]), threshold=bound).threshold == bound
