"""What a mechanism can't be described by is refused where it is described, at the very bound and not before."""

from __future__ import annotations

from decimal import Decimal

import pytest
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries, series_of_parts
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch
from crowdblend.mechanisms.map_selection.choice import LARGEST_ENUMERATED, Lattice, LatticeColumn, MapChoice

ONE, RATE = Decimal(1), Decimal("0.1")
AGES = IntervalHierarchy(lower=0, upper=8, widths=(1, 2, 4))


def column(name: str) -> LatticeColumn:
    return LatticeColumn(name=name, hierarchy=AGES, min_level=0, max_level=AGES.levels - 1, weight=ONE)


def lattice(columns: int) -> Lattice:
    return Lattice(columns=tuple(column(f"age {number}") for number in range(columns)))


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


def test_a_sketch_flips_with_the_probability_that_it_names() -> None:
    """1/(e^{ε/2} + 1) at ε = 2·ln 3 is 1/4."""
    sketch = CountMeanSketch(epsilon=Decimal("2.1972245773362193828"), hashes=1, bits=8, seed=b"s")
    assert sketch.flip_probability == pytest.approx(0.25, abs=1e-15)
