"""Measures at the bounds of their intervals and domains: sizes, orders of magnitude, labels, records trained on."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import sum_counts
from crowdblend.mechanisms.measures.classification import Classification, classification, default_target
from crowdblend.mechanisms.measures.counting import CountedRecords, counting_query_errors
from crowdblend.mechanisms.measures.risk import reidentification_risk
from crowdblend.mechanisms.measures.utility import (
    ambiguity_log10,
    association,
    entropy_loss,
    granularity_loss,
    total_variation,
    utility_of,
)
from crowdblend.mechanisms.recoding import GeneralizationMap, MappedColumn

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


def test_a_column_takes_the_memory_of_its_records_however_many_values_it_may_have() -> None:
    codes, counts = numbers([3, 1, 2], upper=2**59).marginal(0)
    assert (codes.tolist(), counts.tolist()) == ([2, 1002, 2002], [3, 1, 2])


def test_a_class_is_told_in_the_interval_that_begins_at_or_below_its_size() -> None:
    sizes = [1, 2, 4, 5, 9, 10, 19, 20, 49, 50, 99, 100, 999, 1000, 5000]
    records = numbers(sizes)
    told = utility_of(records, records, k=1, sampling_rate=Decimal("0.5")).before.shares
    by_hand = [1, 2 + 4, 5 + 9, 10 + 19, 20 + 49, 50 + 99, 100 + 999, 1000 + 5000]
    assert told == pytest.approx([size / sum(sizes) for size in by_hand])


def test_queries_are_told_by_the_digits_of_their_true_answers() -> None:
    before, after = numbers([1, 9, 10, 99, 0, 1000, 9999]), numbers([0, 5, 0, 40, 0, 500, 9000])
    found = counting_query_errors(before, after, sampling_rate=Decimal("0.5"), ways=1)
    assert [(one.least, one.below, one.queries, one.lost) for one in found.by_size] == [
        (1, 10, 2, 0.5), (10, 100, 2, 0.5), (1000, 10000, 2, 0.0),
    ]  # fmt: skip
    assert found.floor == pytest.approx(11.118)
    errors = [[1 / 11.118, 1 / 11.118], [10 / 11.118, 19 / 99], [0, 8001 / 9999]]
    assert [one.median for one in found.by_size] == pytest.approx([float(np.median(order)) for order in errors])
    assert [one.high for one in found.by_size] == pytest.approx([float(np.quantile(order, 0.95)) for order in errors])
    # At a rate of a half, a count's estimate has the standard deviation √c, and a normal law's median is 0.67449 of it.
    alone = [(1 + 3) / 11.118, math.sqrt(10) / 11.118 + 1 / math.sqrt(99), 1 / math.sqrt(1000) + 1 / math.sqrt(9999)]
    halves = [one.sampling_alone / 0.6744897501960817 for one in found.by_size]
    assert halves == pytest.approx([both / 2 for both in alone])


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


def learnt(decides, *, upper: int) -> Classification:
    """Numbers below `upper` decide the side; they may be told in fives, and are published not at all."""
    tree = IntervalHierarchy(lower=0, upper=upper, widths=(5,))
    side = [1 + int(decides(number)) for number in range(upper)]
    codes = [2 + number for number in range(upper)]
    before = table({"number": (tree, 0, codes), "side": (SIDES, 0, side)}, [30] * upper)
    released = before.recoded(table({"number": (tree, 2, codes), "side": (SIDES, 0, side)}, [1] * upper).map)
    found = classification(before, released, target="side")
    assert found is not None
    return found


def odd(number: int) -> bool:
    return number % 2 == 1


def odd_five(number: int) -> bool:
    return number // 5 % 2 == 1


@pytest.mark.parametrize(
    ("decides", "upper", "right"), [(odd, 97, True), (odd, 98, False), (odd_five, 98, True), (odd_five, 485, True),
                                    (odd_five, 490, False)]
)  # fmt: skip
def test_a_classifier_learns_from_the_finest_level_of_at_most_a_hundred_labels(decides, upper, right) -> None:
    """Three labels are of what is no number of the domain."""
    majority, records, coarsened, release = learnt(decides, upper=upper).scores
    assert (records.accuracy == 1.0) is right
    assert coarsened.accuracy == release.accuracy == majority.accuracy < 0.6


@pytest.mark.parametrize(("records", "thin"), [(90_000, 1), (90_001, 2), (180_001, 3), (400_000, 5)])
def test_two_thirds_are_trained_on_and_at_most_60000(records, thin) -> None:
    codes = {"one": (SIDES, 0, [1, 2, 1, 2]), "other": (SIDES, 0, [1, 1, 2, 2])}
    before = table(codes, [records - 30_000, 10_000, 10_000, 10_000])
    found = classification(before, before, target="other")
    assert found is not None
    _, fine, coarse, release = found.scores
    assert found.held_out == -(-records // (3 * thin))
    assert fine.trained_records == coarse.trained_records == -(-records // thin) - found.held_out <= 60_000
    assert release.trained_records == -(-records // -(-records // 60_000)) <= 60_000


def test_the_most_frequent_class_is_told_with_the_shares_that_were_trained_on() -> None:
    """Of the records 0 … 9 in their order, 0, 3, 6 and 9 are held out: two of a, one of b, and the only c there is."""
    letters = ValueHierarchy.from_values(["a", "b", "c"])
    before = table({"one": (letters, 0, [1, 2, 3]), "other": (letters, 0, [1, 2, 3])}, [6, 3, 1])
    found = classification(before, before, target="other")
    assert found is not None
    assert (found.classes, found.held_out) == (3, 4)
    majority = found.scores[0]
    assert (majority.trained_records, majority.accuracy) == (6, 0.5)
    unseen = 1 / (2 * 6)
    assert majority.log_loss == pytest.approx(-(2 * math.log(4 / 6) + math.log(2 / 6) + math.log(unseen)) / 4)


def test_a_classifier_that_knows_the_shares_alone_has_the_entropy_for_its_loss() -> None:
    """A quarter to three: H(1/4) nats. The ridge moves the shares of 10,000 records by less than a thousandth."""
    tree = IntervalHierarchy(lower=0, upper=8, widths=())
    codes = {"number": (tree, 1, [2 + n for n in range(8)]), "side": (SIDES, 0, [1, 1, 2, 1, 1, 1, 2, 1])}
    before = table(codes, [1_500] * 8)
    found = classification(before, before, target="side")
    assert found is not None
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert [score.log_loss for score in found.scores] == pytest.approx([entropy] * 4, rel=1e-3)


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
