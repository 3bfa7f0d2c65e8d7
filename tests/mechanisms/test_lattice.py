"""Candidate maps: numbered without gaps, within their bounds, and described by a digest that knows every change."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from decimal import Decimal

import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals, NumberSteps
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.map_selection.choice import LARGEST_ENUMERATED, Lattice, LatticeColumn

COLOURS = ValueHierarchy.from_rows([("red", "warm", "*"), ("pink", "warm", "*"), ("blue", "cold", "*")])
AGES = IntervalHierarchy(lower=0, upper=100, widths=(5, 20))


def column(name: str, *, low: int = 0, high: int | None = None, weight: str = "1") -> LatticeColumn:
    hierarchy = COLOURS if name.startswith("colour") else AGES
    top = hierarchy.levels - 1 if high is None else high
    return LatticeColumn(name=name, hierarchy=hierarchy, min_level=low, max_level=top, weight=Decimal(weight))


LATTICE = Lattice(columns=(column("colour"), column("age", low=1)))


@pytest.mark.parametrize("lattice", [LATTICE, replace(LATTICE, candidates=((0, 3), (1, 2), (2, 1)))])
def test_every_number_names_one_map_and_every_map_its_number(lattice):
    levels = [lattice.levels_of(number) for number in range(lattice.size)]
    assert levels == sorted(set(levels))
    assert [lattice.index_of(list(map_)) for map_ in levels] == list(range(lattice.size))
    assert lattice.finest == tuple(map(min, zip(*levels, strict=True)))
    assert lattice.coarsest == tuple(map(max, zip(*levels, strict=True)))
    for number in (-1, lattice.size):
        with pytest.raises(IndexError):
            lattice.levels_of(number)
    for outside in [(0, 0), (3, 1), (0,), (0, 1, 2)]:
        with pytest.raises(ValueError, match="levels"):
            lattice.index_of(outside)


def test_all_combinations_are_counted_without_being_written_down():
    assert LATTICE.size == 3 * 3
    wide = Lattice(columns=tuple(column(f"age{number}") for number in range(40)))
    assert wide.size == 4**40
    assert not wide.enumerable
    assert wide.index_of(wide.levels_of(4**39 + 17)) == 4**39 + 17
    assert LARGEST_ENUMERATED >= 12_960


def test_bounds_are_refused_with_the_levels_that_there_are():
    assert column("age", low=3, high=3).span == 1
    with pytest.raises(ValueError, match=r"'age' has levels 0 … 3, which leave none from 2 to 4$"):
        column("age", low=2, high=4)


def test_a_weight_may_be_0_and_a_million_and_has_twelve_decimals():
    for weight in ("0", "1e6", "0.000000000001", "999999.999999999999"):
        assert column("age", weight=weight).weight == Decimal(weight)
    for weight in ("1000000.000000000001", "0.0000000000001", "-0.000000000001", "Infinity"):
        with pytest.raises(ValueError, match="weight"):
            column("age", weight=weight)


def test_the_map_of_a_candidate_has_its_levels():
    map_ = LATTICE.map_of((1, 2))
    assert [(column.name, column.level) for column in map_.columns] == [("colour", 1), ("age", 2)]


@pytest.mark.parametrize(
    "broken",
    [
        lambda: column("age", low=3, high=2),
        lambda: column("age", high=4),
        lambda: column("age", low=-1),
        lambda: column("age", weight="-1"),
        lambda: column("age", weight="NaN"),
        lambda: column("age", weight="1e7"),
        lambda: column("age", weight="1e-13"),
        lambda: Lattice(columns=()),
        lambda: Lattice(columns=(column("age"), column("age"))),
        lambda: replace(LATTICE, candidates=()),
        lambda: replace(LATTICE, candidates=((1, 2), (0, 3))),
        lambda: replace(LATTICE, candidates=((1, 2), (1, 2))),
        lambda: replace(LATTICE, candidates=((0, 0),)),
        lambda: replace(LATTICE, candidates=((0, 1, 1),)),
    ],
)
def test_what_leaves_no_lattice_is_refused(broken):
    with pytest.raises(ValueError, match=r"level|weight|column|candidate"):
        broken()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_digests_are_those_of_one_text_that_never_changes():
    """Ledgers and certificates hold them: whoever reads one of another version must find the same."""
    towns = ValueHierarchy.from_rows([("Nîmes", "Süd"), ("Arles", "Süd")])
    rows = '"rows":[["Arles","S\\u00fcd"],["N\\u00eemes","S\\u00fcd"]]'
    assert towns.digest() == sha256('{"kind":"values/1","levels":2,' + rows + "}")
    assert towns.folded().digest() == sha256('{"fold_case":true,"kind":"values/1","levels":2,' + rows + "}")
    ages = IntervalHierarchy(lower=-5, upper=100, widths=(5, 20))
    assert ages.digest() == sha256('{"kind":"interval/1","lower":-5,"upper":100,"widths":[5,20]}')
    money = DecimalIntervals.of(lower=Decimal(0), upper=Decimal("2.5"), widths=(Decimal("0.5"),))
    assert money.digest() == sha256('{"kind":"decimal-interval/1","lower":"0.0","upper":"2.5","widths":["0.5"]}')
    cuts = NumberSteps(cuts=(0.5, 2.0))
    assert cuts.digest() == sha256('{"cuts":["0x1.0000000000000p-1","0x1.0000000000000p+1"],"kind":"number-steps/1"}')
    map_ = GeneralizationMap(columns=(MappedColumn(name="âge", hierarchy=ages, level=2),))
    assert map_.digest() == sha256('{"columns":[["\\u00e2ge","' + ages.digest() + '",2]],"kind":"map/1"}')
    one = LatticeColumn(name="âge", hierarchy=ages, min_level=0, max_level=2, weight=Decimal("1.50"))
    told = (
        '"columns":[{"hierarchy":"'
        + ages.digest()
        + '","max_level":2,"min_level":0,"name":"\\u00e2ge","weight":"1.5"}]'
    )
    assert Lattice(columns=(one,)).digest() == sha256('{"candidates":null,' + told + ',"kind":"lattice/1"}')
    listed = Lattice(columns=(one,), candidates=((0,), (2,)))
    assert listed.digest() == sha256('{"candidates":[[0],[2]],' + told + ',"kind":"lattice/1"}')
    chains = Lattice(columns=(one,), candidates=((0, 1), (1, 2)), stages=2)
    assert chains.digest() == sha256('{"candidates":[[[0],[1]],[[1],[2]]],' + told + ',"kind":"chains/1"}')
