"""A certificate that its own key has signed is still held against its price, its map, its files and its form."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from crowdblend.accounting.certificate.verify import check_certificate, map_findings
from crowdblend.accounting.certificate.write import (
    DOMAIN,
    certificate_bytes,
    guarantee_statement,
    map_fields,
    signed_bytes,
)
from crowdblend.accounting.kernel.keys.signing import SigningKey
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.ledger.lookup import DatasetContext
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.mechanism import Mechanism
from crowdblend.mechanisms.kinds.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn, MapChoice

UNREADABLE = "its mechanism or its guarantee can't be read"
SEX = ValueHierarchy.from_values(["Female", "Male"])
LATTICE = Lattice(columns=(LatticeColumn(name="sex", hierarchy=SEX, min_level=0, max_level=1, weight=Decimal(1)),))
CHOICE = MapChoice(lattice=LATTICE, draw="permute-and-flip", steps=None)


def forged(path: Path, change: Callable[[dict[str, Any]], object], *, key: SigningKey) -> tuple[str, ...]:
    """The findings after a change that the publisher's own key signs."""
    document = json.loads(path.read_bytes())
    change(document)
    document["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
    path.write_bytes(certificate_bytes(document))
    return check_certificate(path, trusted=(key.public,))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda document: document["guarantee"].update(rows_per_person=True), UNREADABLE),
        (lambda document: document["guarantee"].update(rows_per_person="1"), UNREADABLE),
        (lambda document: document["guarantee"].update(epsilon=0.01), UNREADABLE),
        (lambda document: document["guarantee"].update(epsilon="1E-2"), UNREADABLE),
        (lambda document: document["guarantee"].pop("rule"), UNREADABLE),
        (lambda document: document.update(guarantee=None), UNREADABLE),
        (lambda document: document.update(mechanism=[]), UNREADABLE),
        (lambda document: document["mechanism"].update(k=[20]), UNREADABLE),
        (lambda document: document.update(series={"name": "monthly", "number": 13, "releases": 12}), UNREADABLE),
        (lambda document: document.update(series={"name": "monthly", "number": 0, "releases": 12}), UNREADABLE),
        (lambda document: document.update(series={"name": "monthly", "number": 1, "releases": 1, "of": 2}), UNREADABLE),
        (lambda document: document.update(series="monthly"), UNREADABLE),
        (lambda document: document["mechanism"].update(k=10**400), "can't be priced"),
        (lambda document: document["mechanism"].update(k=21), "ε is recorded as"),
        (lambda document: document["map"].update(sha256="0" * 64), "its map's digest"),
        (lambda document: document.update(map=None), "its map can't be read"),
        (lambda document: document.update(files=None), "it names no files"),
        (lambda document: document.update(files={}), "it names no files"),
        (lambda document: document.update(files={"data.csv": 7}), "it names no files"),
        (lambda document: document["files"].update({"more.csv": "0" * 64}), "more.csv is missing"),
    ],
)
def test_a_signed_claim_that_does_not_hold_is_found(certified, tmp_path, change, what) -> None:
    path = certified(tmp_path / "output")
    key = certified.books.anchoring.keys.current()
    assert forged(path, lambda document: None, key=key) == ()
    assert any(what in finding for finding in forged(path, change, key=key))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"weight": "heavy"}, "its map can't be read"),
        ({"weight": "NaN"}, "its map can't be read"),
        ({"weight": 1.5}, "its lattice's digest"),
        ({"weight": "-1"}, "none of the candidates"),
        ({"min_level": "0"}, "its map can't be read"),
        ({"min_level": 1}, "none of the candidates"),
        ({"name": "age"}, "none of the candidates"),
    ],
)
def test_signed_candidates_that_are_none_are_found(certified, sqlite_books, change, what) -> None:
    charge = sqlite_books.of_two_samples("one", map_digest=CHOICE.digest()).entry
    fields = map_fields(charge, generalization=LATTICE.map_of((0,)), choice=CHOICE)
    certificate = json.loads(json.dumps({"map": fields, "mechanism": dict(charge.mechanism)}))
    assert map_findings(certificate) == ()
    certificate["map"]["selection"]["lattice"]["columns"][0].update(change)
    assert any(what in finding for finding in map_findings(certificate)), map_findings(certificate)


@pytest.mark.parametrize("level", ["0", 0.0, True, None])
def test_a_level_that_is_no_whole_number_is_none_of_a_candidate(sqlite_books, level) -> None:
    charge = sqlite_books.of_two_samples("one", map_digest=CHOICE.digest()).entry
    fields = map_fields(charge, generalization=LATTICE.map_of((0,)), choice=CHOICE)
    certificate = json.loads(json.dumps({"map": fields, "mechanism": dict(charge.mechanism)}))
    certificate["map"]["columns"][0]["level"] = level
    assert "its map is none of the candidates that it names" in map_findings(certificate)


def test_a_choice_of_the_map_that_nobody_paid_for_is_not_certified(sqlite_books) -> None:
    with pytest.raises(ValueError, match="paid for no choice"):
        map_fields(sqlite_books.request().entry, generalization=LATTICE.map_of((0,)), choice=CHOICE)


ANSWER = {"epsilon": Decimal("0.5"), "relation": "add/remove", "sampling_rate": None}
NOISY = NoisyHistogram(k=20, epsilon=Decimal("0.5"), sampling_rate=Decimal("0.1"))


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (
            CountAnswer(**ANSWER, groups=1),
            ["The records were counted, and each count has two-sided geometric noise."],
        ),
        (
            SumAnswer(**ANSWER, groups=3, lower=-5, upper=9),
            ["Values clamped to -5 … 9 were added up in each of 3 declared groups, empty ones too"],
        ),
        (
            MeanAnswer(**ANSWER, groups=1, lower=0, upper=9, least_records=7),
            ["Values clamped to 0 … 9 were added up and divided", "by 7 where there are fewer", "Laplace noise"],
        ),
        (
            SyntheticPoints(dimensions=2, cells_per_side=4, counts=NOISY),
            ["two-sided geometric noise, 0 too", "(20, 0.5)-crowd-blending"],
        ),
    ],
)
def test_a_guarantee_says_what_was_done_with_the_values(sqlite_books, mechanism: Mechanism, said: list[str]) -> None:
    delta = Decimal(0) if isinstance(mechanism, CountAnswer | SumAnswer | MeanAnswer) else Decimal("1e-6")
    charge = sqlite_books.request(mechanism=mechanism, price=price(mechanism, delta=delta), epsilon_paper=None).entry
    words = guarantee_statement(charge, DatasetContext(rows_per_person=1, look_days=()))
    assert [part for part in said if part not in words] == [], words
