"""The quality: its weights by entropy, its threshold exact, and one record moves it by at most 1, only upward."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import count_keys
from crowdblend.mechanisms.map_selection.choice import (
    WEIGHT_UNIT,
    Lattice,
    LatticeColumn,
    MapWeights,
    group_threshold,
    information_kept,
)
from crowdblend.mechanisms.map_selection.rollup import scores
from hypothesis import given, settings
from hypothesis import strategies as st

PLACES = ValueHierarchy.from_rows(
    [("a", "north", "N", "*"), ("b", "north", "N", "*"), ("c", "west", "N", "*"), ("d", "*", "*", "*")]
)
AGES = IntervalHierarchy(lower=0, upper=50, widths=(5, 20))


def entropy_share(labels: list[str]) -> float:
    """Entropy of the label of an evenly drawn value over that of the value; in floating point, by counting."""
    total = len(labels)
    shares = [labels.count(label) / total for label in set(labels)]
    return -sum(share * math.log(share) for share in shares) / math.log(total)


@pytest.mark.parametrize("level", range(4))
def test_a_level_keeps_the_entropy_of_its_labels(level):
    by_rows = [row[level] for row in PLACES.rows()]
    assert float(information_kept(PLACES, level)) == pytest.approx(entropy_share(by_rows), abs=1e-11)
    codes = AGES.codes_of_integers(np.arange(50), level)
    by_codes = AGES.labels(codes, level)
    assert float(information_kept(AGES, level)) == pytest.approx(entropy_share(by_codes), abs=1e-11)


def test_a_domain_of_no_value_or_of_one_has_no_information():
    for rows in ([("*", "*")], [("a", "*")], [("a", "b")]):
        nothing = ValueHierarchy.from_rows(rows)
        assert [information_kept(nothing, level) for level in range(2)] == [0, 0]


def test_the_value_keeps_all_one_label_nothing_and_coarser_levels_no_more():
    for hierarchy in (PLACES, AGES, IntervalHierarchy(lower=0, upper=2**60, widths=(10, 1000))):
        kept = [information_kept(hierarchy, level) for level in range(hierarchy.levels)]
        assert kept[0] == 1
        assert kept[-1] == 0
        assert kept == sorted(kept, reverse=True)
    single = ValueHierarchy.from_values(["only"])
    assert [information_kept(single, level) for level in (0, 1)] == [0, 0]
    # The integers are the same on every machine.
    assert information_kept(AGES, 1) * 2**40 == 647163649134


@pytest.mark.parametrize(
    ("k", "rate", "selection_rate", "threshold"),
    [
        (20, "0.1", None, 200),
        (20, "0.3", None, 67),
        (1, "0.9999", None, 2),
        (20, "0.1", "0.1", 20),
        (20, "0.3", "0.1", 7),
        (7, "0.7", None, 10),
        (3, "0.3", None, 10),
    ],
)
def test_the_threshold_is_exact(k, rate, selection_rate, threshold):
    selection = None if selection_rate is None else Decimal(selection_rate)
    assert group_threshold(k, Decimal(rate), selection) == threshold


def test_a_threshold_needs_rates():
    for arguments in [(0, "0.1", None), (5, "0", None), (5, "1", None), (5, "0.1", "1")]:
        with pytest.raises(ValueError, match=r"k|rate"):
            group_threshold(arguments[0], Decimal(arguments[1]), arguments[2] and Decimal(arguments[2]))


def lattice_of(*weights: str, low: int = 0, candidates=None) -> Lattice:
    columns = tuple(
        LatticeColumn(name=name, hierarchy=tree, min_level=low, max_level=tree.levels - 1, weight=Decimal(weight))
        for name, tree, weight in zip(("place", "age"), (PLACES, AGES), weights, strict=True)
    )
    return Lattice(columns=columns, candidates=candidates)


@pytest.mark.parametrize("lattice", [lattice_of("1", "1"), lattice_of("3", "0.5", low=1), lattice_of("0", "2")])
def test_weights_follow_the_columns_and_the_best_candidate_has_the_unit(lattice):
    weights = MapWeights(lattice=lattice)
    exact = [
        sum(
            (
                Fraction(column.weight) * information_kept(column.hierarchy, level)
                for column, level in zip(lattice.columns, lattice.levels_of(number), strict=True)
            ),
            Fraction(0),
        )
        for number in range(lattice.size)
    ]
    expected = [int(WEIGHT_UNIT * share / max(exact)) for share in exact]
    assert weights.of_all().tolist() == expected
    assert max(expected) == WEIGHT_UNIT == weights.of(lattice.finest)


def test_without_any_weight_every_map_is_worth_nothing():
    assert not MapWeights(lattice=lattice_of("0", "0")).of_all().any()
    top = lattice_of("1", "1", candidates=((3, 3),))
    assert MapWeights(lattice=top).of_all().tolist() == [0]


LATTICE = lattice_of("2", "1")
RECORDS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=60)


def qualities(records: list[tuple[int, int]], threshold: int) -> np.ndarray:
    map_ = LATTICE.map_of(LATTICE.finest)
    codes = np.array(records, dtype=np.int64).reshape(-1, 2).T
    return scores(count_keys(map_.keys(list(codes)), cells=map_.cells), lattice=LATTICE, threshold=threshold)


@settings(derandomize=True, max_examples=150)
@given(RECORDS, st.tuples(st.integers(0, 4), st.integers(0, 5)), st.integers(1, 8))
def test_adding_a_record_moves_no_quality_by_more_than_one_and_none_downward(records, one_more, threshold):
    moved = qualities([*records, one_more], threshold) - qualities(records, threshold)
    assert moved.min() >= 0
    assert moved.max() <= WEIGHT_UNIT
