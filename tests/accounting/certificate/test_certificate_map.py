"""A certificate's map is one of the candidates that it names, whoever has written it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.certificate.verify import check_certificate, map_findings
from crowdblend.accounting.certificate.write_certificate import map_fields, write_certificate
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.accounting.ledger.lookup import DatasetContext
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kinds.deletion import SelectedDeletion
from crowdblend.mechanisms.kinds.deletion_noise import OptimalDeletion
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, ExponentialSafeRelease
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn, MapChoice

SEX = ValueHierarchy.from_values(["Female", "Male"])
AGE = ValueHierarchy.from_rows([("1", "young", "*"), ("2", "young", "*"), ("3", "old", "*")])
COLUMNS = (
    LatticeColumn(name="sex", hierarchy=SEX, min_level=0, max_level=1, weight=Decimal(1)),
    LatticeColumn(name="age", hierarchy=AGE, min_level=1, max_level=2, weight=Decimal("0.5")),
)
FRESH = EpsilonSafeRelease(
    k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=Decimal("0.05")
)
CHOICES = {
    "bounds": MapChoice(lattice=Lattice(columns=COLUMNS), draw="permute-and-flip", steps=None),
    "list": MapChoice(lattice=Lattice(columns=COLUMNS, candidates=((0, 2), (1, 1))), draw="exponential", steps=None),
    "walk": MapChoice(lattice=Lattice(columns=COLUMNS), draw="walk", steps=3),
}


def stated(books: Any, *, choice: MapChoice, mechanism: EpsilonSafeRelease = FRESH) -> dict[str, Any]:
    """The parts of a certificate that its map is checked by."""
    charge = books.of_two_samples("one", mechanism=mechanism, map_digest=choice.digest()).entry
    fields = map_fields(charge, generalization=choice.lattice.map_of((0, 2)), choice=choice)
    return json.loads(json.dumps({"map": fields, "mechanism": mechanism_record(mechanism)}))


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("mechanism", [FRESH, replace(FRESH, selection_rate=None)], ids=["fresh sample", "whole"])
def test_what_is_written_holds(sqlite_books, name, mechanism) -> None:
    certificate = stated(sqlite_books, choice=CHOICES[name], mechanism=mechanism)
    assert map_findings(certificate) == ()
    chosen = certificate["map"]["selection"]
    assert chosen["maps"] == CHOICES[name].lattice.size
    assert (chosen["sample_id"] is None) is (mechanism.selection_rate is None)
    assert chosen["threshold"] == (200 if mechanism.selection_rate is None else 10)


def leaves(part: Any, path: tuple = ()) -> list[tuple]:
    match part:
        case dict():
            return [place for name, inner in part.items() for place in leaves(inner, (*path, name))]
        case list():
            return [place for number, inner in enumerate(part) for place in leaves(inner, (*path, number))]
        case _:
            return [path]


@pytest.mark.parametrize("name", CHOICES)
def test_whatever_is_changed_is_found(sqlite_books, name) -> None:
    """Also by one who can sign: what it states must fit together. The price holds the mechanism."""
    sound = stated(sqlite_books, choice=CHOICES[name])
    free = {("map", "selection", "in_words"), ("map", "selection", "sample_id")}
    places = [place for place in leaves(sound) if place[0] == "map" and place not in free]
    places = [place for place in places if place[-1] not in ("draw", "steps")]
    assert len(places) > 15
    for place in places:
        certificate = copy.deepcopy(sound)
        part: Any = certificate
        for step in place[:-1]:
            part = part[step]
        value = part[place[-1]]
        part[place[-1]] = f"{value}1" if isinstance(value, str) else 7 if value is None else value + 1
        assert map_findings(certificate), place


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda m: m["selection"].update(draw="argmax"), "its draw is none"),
        (lambda m: m["selection"].update(steps=4), "its draw is none"),
        (lambda m: m["selection"].update(sample_id=None), "names a sample for the choice exactly where"),
        (lambda m: m["selection"].update(scores=[1]), "other fields"),
        (lambda m: m.pop("selection"), "names a choice of the map exactly where"),
        (lambda m: m.update(selection=None), "can't be read"),
        (lambda m: m.update(columns=[]), "none of the candidates"),
    ],
)
def test_a_choice_that_is_none_is_found(sqlite_books, change, what) -> None:
    certificate = stated(sqlite_books, choice=CHOICES["list"])
    change(certificate["map"])
    assert any(what in finding for finding in map_findings(certificate)), map_findings(certificate)


RANGED = {"k": 20, "sampling_rate": Decimal("0.1"), "selection_epsilon": Decimal("0.1")}
ONE_DRAW = ExponentialSafeRelease(**RANGED, selection_rate=Decimal("0.05"), selection_draws=1)
THREE_DRAWS = ExponentialSafeRelease(**RANGED, selection_rate=None, selection_draws=3)


@pytest.mark.parametrize(
    ("mechanism", "name", "sound"),
    [
        (ONE_DRAW, "list", True),
        (ONE_DRAW, "bounds", False),
        (ONE_DRAW, "walk", False),
        (THREE_DRAWS, "walk", True),
        (THREE_DRAWS, "list", False),
    ],
)
def test_the_price_of_a_bounded_range_is_for_the_draws_that_have_it(sqlite_books, mechanism, name, sound) -> None:
    """Permute-and-flip has no bounded range, and more draws have a wider one together."""
    choice = CHOICES[name]
    charge = sqlite_books.of_two_samples("one", mechanism=mechanism, map_digest=choice.digest()).entry
    generalization = choice.lattice.map_of((0, 2))
    if sound:
        fields = map_fields(charge, generalization=generalization, choice=choice)
        certificate = json.loads(json.dumps({"map": fields, "mechanism": mechanism_record(mechanism)}))
        assert map_findings(certificate) == ()
        return
    with pytest.raises(ValueError, match="another draw"):
        map_fields(charge, generalization=generalization, choice=choice)
    any_draw = stated(sqlite_books, choice=choice, mechanism=replace(FRESH, selection_rate=mechanism.selection_rate))
    forged = any_draw | {"mechanism": mechanism_record(mechanism)}
    assert map_findings(forged) == ("its map was drawn otherwise than its mechanism was priced for",)


def test_a_map_that_is_no_candidate_is_found_though_all_digests_fit(sqlite_books) -> None:
    lattice = CHOICES["list"].lattice
    charge = sqlite_books.of_two_samples("one", map_digest=lattice.digest()).entry
    for levels, sound in (((0, 2), True), ((1, 1), True), ((0, 1), False), ((1, 2), False)):
        fields = map_fields(charge, generalization=lattice.map_of(levels), choice=CHOICES["list"])
        certificate = json.loads(json.dumps({"map": fields, "mechanism": mechanism_record(FRESH)}))
        found = map_findings(certificate)
        assert found == (() if sound else ("its map is none of the candidates that it names",))


CHAINS = MapChoice(
    lattice=Lattice(columns=COLUMNS, candidates=((0, 1, 0, 2), (0, 1, 1, 2)), stages=2),
    draw="permute-and-flip",
    steps=None,
)
CHAINED = SelectedDeletion(
    stages=2,
    k=5,
    noise=OptimalDeletion(epsilon=Decimal("0.5"), delta=Decimal("1e-6")),
    selection_epsilon=Decimal("0.1"),
)


@pytest.mark.parametrize(
    ("levels", "published", "sound"),
    [
        ((0, 1), ((0, 1), (1, 2)), True),
        ((0, 1), ((0, 1), (0, 2)), True),
        ((0, 1), ((0, 1), (1, 1)), False),
        ((0, 1), ((0, 1),), False),
        ((0, 2), ((0, 1), (0, 2)), False),
        ((0, 2), ((0, 2), (1, 2)), False),
    ],
)
def test_a_chain_is_a_candidate_as_a_whole_and_begins_with_the_map(sqlite_books, levels, published, sound) -> None:
    charge = sqlite_books.request(mechanism=CHAINED, map_digest=CHAINS.digest()).entry
    fields = map_fields(charge, generalization=GeneralizationMap(columns=mapped(levels)), choice=CHAINS)
    stages = [{"levels": dict(zip(("sex", "age"), stage, strict=True))} for stage in published]
    record = {"map": fields, "mechanism": mechanism_record(CHAINED), "published": {"stages": stages}}
    told = () if sound else ("its map is none of the candidates that it names",)
    assert map_findings(json.loads(json.dumps(record))) == told


def mapped(levels: tuple[int, ...]) -> tuple[MappedColumn, ...]:
    named = zip(COLUMNS, levels, strict=True)
    return tuple(MappedColumn(name=one.name, hierarchy=one.hierarchy, level=level) for one, level in named)


def test_a_signed_certificate_that_names_no_candidate_fails_its_verification(sqlite_books, tmp_path) -> None:
    """Signed by the right key over a map that the choice could not have drawn."""
    lattice, key = CHOICES["list"].lattice, sqlite_books.anchoring.keys.current()
    for levels, findings in (((0, 2), ()), ((0, 1), ("its map is none of the candidates that it names",))):
        folder = tmp_path / f"out-{levels[1]}"
        folder.mkdir()
        (folder / "data.csv").write_text("sex,age,count\nFemale,*,21\n")
        write_certificate(
            folder,
            charge=sqlite_books.of_two_samples("one", map_digest=lattice.digest()).entry,
            context=DatasetContext(rows_per_person=1, look_days=()),
            position=2,
            chain_hash="f" * 64,
            generalization=lattice.map_of(levels),
            choice=CHOICES["list"],
            published={"form": "counts", "groups": 1, "records": 21},
            code_sources="c" * 64,
            key=key,
        )
        assert check_certificate(folder / "certificate.json", trusted=(key.public,)) == findings
