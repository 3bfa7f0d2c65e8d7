"""Every measure against a table small enough to be computed on paper."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, sum_counts
from crowdblend.mechanisms.measures.counted_records import (
    CountedRecords,
    aligned_counts,
    counting_query_errors,
    relative_errors,
)
from crowdblend.mechanisms.measures.risk import (
    average_class_size,
    discernibility,
    normalised_class_size,
    reidentification_risk,
    size_shares,
)
from crowdblend.mechanisms.measures.utility import (
    NotOfTheseRecordsError,
    StageUtility,
    ambiguity_log10,
    association,
    entropy_loss,
    granularity_loss,
    pair_distances,
    utility_of,
)

TOWNS = ValueHierarchy.from_rows(
    [("Lille", "North", "*"), ("Lyon", "South", "*"), ("Nice", "South", "*"), ("Toulon", "South", "*")]
)
AGES = IntervalHierarchy(lower=0, upper=100, widths=(10, 50))


def table(rows: dict[tuple[str, int], int], levels=(0, 0)) -> CountedRecords:
    made = GeneralizationMap(
        columns=(
            MappedColumn(name="town", hierarchy=TOWNS, level=levels[0]),
            MappedColumn(name="age", hierarchy=AGES, level=levels[1]),
        )
    )
    codes = [
        TOWNS.codes_of_texts([town.encode() for town, _ in rows], levels[0]),
        AGES.codes_of_integers(np.array([age for _, age in rows], dtype=np.int64), levels[1]),
    ]
    return CountedRecords(map=made, groups=sum_counts(made.keys(codes), np.array(list(rows.values()), dtype=np.int64)))


PEOPLE = {("Lille", 31): 4, ("Lyon", 32): 2, ("Nice", 35): 1, ("Toulon", 71): 1}


def test_class_measures() -> None:
    sizes = np.array([4, 2, 1, 1])
    assert average_class_size(sizes) == 2.0
    assert normalised_class_size(sizes, k=4) == 0.5
    assert discernibility(sizes) == 16 + 4 + 1 + 1
    assert discernibility(sizes, suppressed=2) == 22 + 2 * 10
    assert discernibility(np.array([3_000_000_000] * 3)) == 27 * 10**18  # past 64 bits: exact all the same
    assert size_shares(sizes, edges=(1, 2, 4)) == (0.25, 0.25, 0.5)
    assert average_class_size(np.array([], dtype=np.int64)) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_risks_are_those_of_each_record(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1 + seed % 3, 9, 12)
    population = sizes + rng.integers(seed % 2, 12, 12)
    own = [(int(f), int(whole)) for f, whole in zip(sizes, population, strict=True) for _ in range(f)]
    n = len(own)
    threshold = (0.2, 0.25, 1 / 3, 0.5)[seed]
    risk = reidentification_risk(sizes, population, threshold=threshold)
    marketer = sum(1 / whole for _, whole in own) / n
    expected = {
        "prosecutor_highest": max(1 / f for f, _ in own),
        "prosecutor_average": sum(1 / f for f, _ in own) / n,
        "prosecutor_at_risk": sum(1 / f > threshold for f, _ in own) / n,
        "journalist_highest": max(1 / whole for _, whole in own),
        "journalist_average": max(12 / population.sum(), marketer),
        "journalist_at_risk": sum(1 / whole > threshold for _, whole in own) / n,
        "marketer": marketer,
        "unique": sum(f == 1 for f, _ in own) / n,
        "threshold": threshold,
    }
    assert {name: getattr(risk, name) for name in expected} == pytest.approx(expected)
    nothing = reidentification_risk(sizes[:0], population[:0], threshold=threshold)
    assert {getattr(nothing, name) for name in expected if name != "threshold"} == {0.0}
    assert nothing.threshold == threshold


@pytest.mark.parametrize("seed", range(4))
def test_measures_of_columns_are_those_of_each_record(seed: int) -> None:
    """A table of two columns, record by record; what a label covers is counted over the declared values."""
    rng = np.random.default_rng(seed)
    towns, ages = ("Lille", "Lyon", "Nice", "Toulon"), (5, 31, 33, 62, 78)
    people = {(town, age): int(rng.integers(1, 9)) for town in towns for age in ages if rng.random() < 0.6}
    before, levels = table(people), (1, 1 + seed % 2)
    coarse = before.recoded(table(people, levels=levels).map)
    label = {town: TOWNS.labels(TOWNS.codes_of_texts([town.encode()], 1), 1)[0] for town in towns}
    width = (10, 50)[seed % 2]
    covers = {town: sum(label[other] == label[town] for other in towns) for town in towns}
    records = [row for row, count in people.items() for _ in range(count)]
    n = len(records)
    assert granularity_loss(coarse, 0) == pytest.approx(sum((covers[town] - 1) / 3 for town, _ in records) / n)
    assert granularity_loss(coarse, 1) == pytest.approx((width - 1) / 99)
    told = Counter(town for town, _ in records), Counter(label[town] for town, _ in records)
    loss = entropy_loss(before, 0, level=1)
    assert loss.had == pytest.approx(sum(math.log2(n / told[0][town]) for town, _ in records))
    assert loss.lost == pytest.approx(sum(math.log2(told[1][label[town]] / told[0][town]) for town, _ in records))
    assert loss.share == pytest.approx(loss.lost / loss.had)
    combinations = sum(covers[town] * width for town, _ in records) / n
    assert ambiguity_log10(coarse) == pytest.approx(math.log10(combinations))
    rows, columns = Counter(town for town, _ in records), Counter(age for _, age in records)
    expected = {(town, age): rows[town] * columns[age] / n for town in rows for age in columns}
    chi_squared = sum((people.get(cell, 0) - aim) ** 2 / aim for cell, aim in expected.items())
    assert association(before) == pytest.approx(math.sqrt(chi_squared / (n * (min(len(rows), len(columns)) - 1))))
    fewer = {row: count // 2 for row, count in people.items()}
    half = sum(fewer.values())
    apart = sum(abs(count / n - fewer[row] / half) for row, count in people.items()) / 2
    assert pair_distances(before, table(fewer))[0].distance == pytest.approx(apart)


def test_counting_queries() -> None:
    errors = relative_errors(np.array([10, 1]), np.array([2, 0]), sampling_rate=0.1, floor=5.0)
    assert errors.tolist() == pytest.approx([1.0, 0.2])
    before = table({("Lille", 31): 90, ("Lyon", 31): 9})
    after = table({("Lille", 31): 10})
    found = counting_query_errors(before, after, sampling_rate=Decimal("0.1"), ways=5)
    # Two towns, one age, two combinations: errors 10/90, 1 (Lyon) by town and pair, and 1/99 by age.
    assert (found.queries, found.ways, found.floor) == (5, 2, 1.0)
    assert found.median == pytest.approx(10 / 90)
    small, large = found.by_size
    assert (small.least, small.below, small.queries, small.lost) == (1, 10, 2, 1.0)
    assert (large.least, large.queries, large.lost) == (10, 3, 0.0)
    assert large.median == pytest.approx(10 / 90)
    assert small.sampling_alone == pytest.approx(math.sqrt(9 / 9) * 0.6744897501960817)


def test_recoding_and_aligning_keep_every_record() -> None:
    before = table(PEOPLE)
    coarse = before.recoded(table(PEOPLE, levels=(1, 1)).map)
    assert coarse.records == before.records == 8
    assert coarse.groups.keys.tolist() == table(PEOPLE, levels=(1, 1)).groups.keys.tolist()
    assert coarse.groups.counts.tolist() == table(PEOPLE, levels=(1, 1)).groups.counts.tolist()
    keys, one, other = aligned_counts(before, table({("Lille", 31): 1, ("Lille", 99): 2}))
    assert (keys.shape[1], one.sum(), other.sum()) == (5, 8, 3)
    for one, other in ((before, coarse), (coarse, before)):
        with pytest.raises(ValueError, match="different columns or levels"):
            aligned_counts(one, other)


def test_a_release_of_other_records_is_refused() -> None:
    before = table(PEOPLE)
    with pytest.raises(NotOfTheseRecordsError):
        utility_of(before, table({("Lille", 31): 5}), k=2, sampling_rate=Decimal("0.5"))
    measures = utility_of(before, table({("Lille", 31): 3}), k=2, sampling_rate=Decimal("0.5"))
    assert measures.suppressed == 1
    assert measures.classification is None  # one label a column is left
    assert measures.after.risk.marketer == 0.25


def test_an_empty_release_and_empty_records_have_measures() -> None:
    nothing = CountedRecords(
        map=table(PEOPLE).map, groups=GroupCounts(np.empty((1, 0), dtype=np.int64), np.empty(0, dtype=np.int64))
    )
    for before in (table(PEOPLE), nothing):
        measures = utility_of(before, nothing, k=2, sampling_rate=Decimal("0.1"))
        assert measures.after.records == 0
        assert measures.after.risk.prosecutor_highest == 0.0


@pytest.mark.parametrize("hierarchy", [TOWNS, AGES])
def test_covered_values_of_a_level_add_up_to_the_domain(hierarchy) -> None:
    for level in range(hierarchy.levels - 1):
        first = 2 if hierarchy is AGES else 1
        last = hierarchy.size(level) - (1 if hierarchy is AGES else 0)
        inside = hierarchy.values_covered(np.arange(first, last), level)
        assert inside.sum() == sum(size * labels for size, labels in hierarchy.label_sizes(0).items())
        sizes, labels = np.unique(inside, return_counts=True)
        assert dict(zip(sizes.tolist(), labels.tolist(), strict=True)) == hierarchy.label_sizes(level)
    everything = hierarchy.values_covered(np.array([0]), hierarchy.levels - 1)
    assert everything.tolist() == [4 if hierarchy is TOWNS else 100]


def test_all_measures_of_one_release_are_those_of_its_tables() -> None:
    """Of 8 records, 4 in the North and 4 in the South, 3 and 2 are published of the larger two of three groups."""
    before = table(PEOPLE)
    released = table({("Lille", 31): 3, ("Lyon", 35): 2}, levels=(1, 1))
    stage = StageUtility(levels=(1, 1), found=8, published=5, groups=3, published_groups=2)
    found = utility_of(before, released, k=2, sampling_rate=Decimal("0.75"), stages=(stage,))
    assert (found.k, found.sampling_rate, found.stages, found.left_out) == (2, Decimal("0.75"), (stage,), None)
    assert found.suppressed == 1  # six of eight were to be expected in the sample
    expected = {
        "before": (8, 4, 2.0, 1.0, 16 + 4 + 1 + 1, 0.0),
        "coarsened": (8, 3, 8 / 3, 4 / 3, 16 + 9 + 1, math.log10(20)),
        "after": (5, 2, 2.5, 1.25, 9 + 4 + 1 * (5 + 1), math.log10((3 * 10 + 2 * 30) / 5)),
    }
    for name, numbers in expected.items():
        one = getattr(found, name)
        told = (one.records, one.classes, one.average, one.normalised, one.discernibility, one.ambiguity_log10)
        assert told == pytest.approx(numbers), name
    assert found.before.shares == (0.25, 0.75, 0, 0, 0, 0, 0, 0)
    assert found.coarsened.shares == (0.125, 0.875, 0, 0, 0, 0, 0, 0)
    sizes = np.array([4, 2, 1, 1]), np.array([4, 3, 1])
    assert found.before.risk == reidentification_risk(sizes[0], sizes[0], threshold=0.2)
    assert found.coarsened.risk == reidentification_risk(sizes[1], sizes[1], threshold=0.2)
    assert found.after.risk == reidentification_risk(np.array([3, 2]), np.array([4, 3]), threshold=0.2)
    town, age = found.columns
    assert (town.name, town.level, town.labels, town.before, town.after) == (
        "town", 1, ("North", "South"), (4, 4), (3, 2),
    )  # fmt: skip
    assert (age.name, age.level, age.labels, age.before, age.after) == (
        "age", 1, ("[30, 40)", "[70, 80)"), (7, 1), (5, 0),
    )  # fmt: skip
    assert (town.granularity, town.distance, age.distance) == pytest.approx((1 / 3, 0.1, 0.125))
    assert town.entropy == entropy_loss(before, 0, level=1)
    assert [pair.columns for pair in found.pairs] == [("town", "age")]
    assert found.pairs[0].distance == pytest.approx((abs(0.5 - 0.6) + abs(0.375 - 0.4) + 0.125) / 2)
    coarse = before.recoded(released.map)
    assert found.queries == counting_query_errors(coarse, released, sampling_rate=Decimal("0.75"), ways=2)
    assert found.classification is not None
    assert found.classification.target == "town"


def test_what_did_not_count_was_not_suppressed_and_weights_answer_the_queries() -> None:
    before = table(PEOPLE)
    released = table({("Lille", 31): 3, ("Lyon", 32): 2})
    heavy = table({("Lille", 31): 4, ("Lyon", 32): 2})
    found = utility_of(
        before, released, k=2, sampling_rate=None, weighted=heavy, left_out=1, target="age", threshold=0.4
    )
    assert (found.suppressed, found.left_out, found.sampling_rate) == (2, 1, None)
    assert found.queries == counting_query_errors(before, heavy, sampling_rate=None, ways=2)
    assert found.queries != counting_query_errors(before, released, sampling_rate=None, ways=2)
    assert [one.risk.threshold for one in (found.before, found.coarsened, found.after)] == [0.4] * 3
    assert found.classification is not None
    assert found.classification.target == "age"
    with pytest.raises(NotOfTheseRecordsError):
        utility_of(before, table({("Lille", 30): 1}), k=2, sampling_rate=None)
    assert utility_of(before, before, k=2, sampling_rate=None).suppressed == 0
    assert utility_of(before, before, k=2, sampling_rate=Decimal("0.5")).suppressed == 0
