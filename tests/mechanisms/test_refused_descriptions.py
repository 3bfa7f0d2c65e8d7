"""What a mechanism can't be described by is refused where it is described, at the very bound and not before."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.answer_errors import standard_errors
from crowdblend.mechanisms.hierarchies.build import interval_rows
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kinds.answers import SumAnswer
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries, series_of_parts
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch
from crowdblend.mechanisms.map_selection.choice import LARGEST_ENUMERATED, Lattice, LatticeColumn, MapChoice

ONE, RATE = Decimal(1), Decimal("0.1")
AGES = IntervalHierarchy(lower=0, upper=8, widths=(1, 2, 4))
TOWNS = ValueHierarchy.from_rows([("Lille", "North", "*"), ("Lyon", "South", "*"), ("Nice", "South", "*")])


def column(name: str) -> LatticeColumn:
    return LatticeColumn(name=name, hierarchy=AGES, min_level=0, max_level=AGES.levels - 1, weight=ONE)


def lattice(columns: int) -> Lattice:
    return Lattice(columns=tuple(column(f"age {number}") for number in range(columns)))


def test_a_strongly_safe_release_has_a_k_and_a_rate() -> None:
    assert StronglySafeRelease(k=1, sampling_rate=RATE).k == 1
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"k must be at least 1, not {k}"):
            StronglySafeRelease(k=k, sampling_rate=RATE)
    assert StronglySafeRelease(k=2, sampling_rate=Decimal("1e-30")).sampling_rate > 0
    for rate in ("0", "1", "-0.1", "1.1"):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            StronglySafeRelease(k=2, sampling_rate=Decimal(rate))


def test_an_epsilon_safe_release_has_the_same_and_a_choice() -> None:
    sound = EpsilonSafeRelease(k=2, sampling_rate=RATE, selection_epsilon=Decimal("0.5"), selection_rate=None)
    assert sound.release == StronglySafeRelease(k=2, sampling_rate=RATE)
    assert replace(sound, selection_epsilon=Decimal("1e-9"), selection_rate=RATE).release == sound.release
    for epsilon in ("0", "-1", "Infinity", "NaN"):
        with pytest.raises(ValueError, match="selection's epsilon must be positive"):
            replace(sound, selection_epsilon=Decimal(epsilon))
    for rate in ("0", "1", "-0.5", "1.5"):
        with pytest.raises(ValueError, match="selection's rate"):
            replace(sound, selection_rate=Decimal(rate))
    with pytest.raises(ValueError, match="k must be at least 1"):
        replace(sound, k=0)
    with pytest.raises(ValueError, match="the sampling rate"):
        replace(sound, sampling_rate=ONE)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ("12 x k=20,rate=0.10", "not in their one form"),
        ("12 x k=20,rate=0.1;24 x epsilon=0.05", "not in their one form"),
        ("12 x epsilon=1; 24 x epsilon=1", "two parts of a series are alike"),
        ("; ".join(f"1 x epsilon={number}" for number in range(1, 22)), "at most 20 parts, not 21"),
        ("0 x epsilon=1", "1 to 10000 releases, not 0"),
        ("10001 x epsilon=1", "1 to 10000 releases, not 10001"),
        ("1 x k=0,rate=0.1", "k must be at least 1, not 0"),
        ("1 x k=2,rate=1e99", "strictly between 0 and 1"),
        ("1 x epsilon=9e99", "at most 100, not 9E"),
        ("1 x epsilon=0e-99", "above 0"),
        ("1 x epsilon=nan", "not NUMBER x k=K,rate=RATE"),
        ("1 x epsilon=1e999", "not NUMBER x k=K,rate=RATE"),
    ],
)
def test_a_series_of_parts_has_one_form_so_that_two_that_differ_are_not_one(parts, said) -> None:
    sound = "12 x k=20,rate=0.1; 10000 x epsilon=100"
    assert str(series_of_parts(["12xk=20, rate=.10", " 10000 x epsilon=1e2 "]).parts) == MixedSeries(parts=sound).parts
    with pytest.raises(ValueError, match=said):
        MixedSeries(parts=parts)


def test_a_walk_alone_has_steps_and_goes_through_all_combinations() -> None:
    small = lattice(2)
    assert MapChoice(lattice=small, draw="walk", steps=1).names == ("age 0", "age 1")
    assert MapChoice(lattice=small, draw="walk", steps=1).columns == small.columns
    assert MapChoice(lattice=small, draw="exponential", steps=None).digest() == small.digest()
    with pytest.raises(ValueError, match="at least one step, not 0"):
        MapChoice(lattice=small, draw="walk", steps=0)
    for draw, steps in (("walk", None), ("exponential", 3), ("permute-and-flip", 3)):
        with pytest.raises(ValueError, match="a walk, and nothing else"):
            MapChoice(lattice=small, draw=draw, steps=steps)
    listed = Lattice(columns=small.columns, candidates=((0, 0), (1, 2)))
    assert MapChoice(lattice=listed, draw="permute-and-flip", steps=None).lattice is listed
    with pytest.raises(ValueError, match="list of candidates"):
        MapChoice(lattice=listed, draw="walk", steps=3)


def test_more_maps_than_are_scored_can_only_be_walked() -> None:
    columns = 1
    while lattice(columns).size <= LARGEST_ENUMERATED:
        columns += 1
    assert lattice(columns - 1).enumerable
    assert MapChoice(lattice=lattice(columns), draw="walk", steps=2).steps == 2
    with pytest.raises(ValueError, match="too many to score"):
        MapChoice(lattice=lattice(columns), draw="exponential", steps=None)


def test_a_lattice_has_columns_each_of_its_own_name() -> None:
    with pytest.raises(ValueError, match="at least one column"):
        Lattice(columns=())
    with pytest.raises(ValueError, match="each column once"):
        Lattice(columns=(column("age"), column("age")))


def test_no_code_becomes_finer() -> None:
    codes = np.zeros(1, dtype=np.int64)
    for hierarchy in (AGES, TOWNS):
        assert hierarchy.coarser(codes, level=1, to=1).tolist() == [0]
        with pytest.raises(ValueError, match="level 0 is finer than level 1"):
            hierarchy.coarser(codes, level=1, to=0)


def test_intervals_are_built_over_numbers() -> None:
    assert interval_rows(0, 1, [])
    for lower, upper in ((1, 1), (2, 1)):
        with pytest.raises(ValueError, match="must be below the end"):
            interval_rows(lower, upper, [])


def test_a_sketch_flips_with_the_probability_that_it_names() -> None:
    """1/(e^{ε/2} + 1) at ε = 2·ln 3 is 1/4."""
    sketch = CountMeanSketch(epsilon=Decimal("2.1972245773362193828"), hashes=1, bits=8, seed=b"s")
    assert sketch.flip_probability == pytest.approx(0.25, abs=1e-15)


def test_the_error_of_a_sampled_sum_needs_one_sign() -> None:
    given = {"epsilon": ONE, "groups": 1, "relation": "add/remove", "sampling_rate": Decimal("0.5")}
    with pytest.raises(ValueError, match="bounds of one sign"):
        standard_errors(SumAnswer(**given, lower=-1, upper=2), [5])
    for lower, upper in ((0, 2), (-2, 0)):
        assert standard_errors(SumAnswer(**given, lower=lower, upper=upper), [5])[0] > 0
