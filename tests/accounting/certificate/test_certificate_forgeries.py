"""A certificate that its own key has signed is still held against its price, its map, its files and its form."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crowdblend.accounting.certificate.verify import check_certificate, map_findings, verify_certificate
from crowdblend.accounting.certificate.write_certificate import (
    DOMAIN,
    certificate_bytes,
    guarantee_statement,
    map_fields,
    signed_bytes,
)
from crowdblend.accounting.kernel.field_forms import amount_text
from crowdblend.accounting.kernel.keys.signing import SigningKey, SigningKeys
from crowdblend.accounting.kernel.ledger.entries import sorted_fields
from crowdblend.accounting.kernel.prices.registry import mechanism_record, price
from crowdblend.accounting.keys.signing_upkeep import rotate_key
from crowdblend.accounting.ledger.lookup import DatasetContext
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.mechanism import Mechanism
from crowdblend.mechanisms.kinds.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import GeometricDeletion
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn, MapChoice
from support.ledger_books import costs_of

UNREADABLE = "its mechanism or its guarantee can't be read"
SEX = ValueHierarchy.from_values(["Female", "Male"])
LATTICE = Lattice(columns=(LatticeColumn(name="sex", hierarchy=SEX, min_level=0, max_level=1, weight=Decimal(1)),))
CHOICE = MapChoice(lattice=LATTICE, draw="permute-and-flip", steps=None)


@pytest.fixture
def certificate(certified, tmp_path) -> Path:
    return certified(tmp_path / "output")


@pytest.fixture
def keys(certified) -> SigningKeys:
    return certified.books.anchoring.keys


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


def test_a_certificate_is_a_function_of_public_facts_and_its_key(certified, tmp_path) -> None:
    one, two = (certified(tmp_path / name).read_bytes() for name in ("one", "two"))
    assert one == two


def test_the_signature_says_whose_it_is_only_with_a_key(certificate, keys) -> None:
    public = keys.current().public
    open_question = verify_certificate(certificate, trusted=None)
    assert (open_question.findings, open_question.signed_by) == ((), public.key_id)
    assert "whose key" in open_question.unchecked[0]
    answered = verify_certificate(certificate, trusted=(public,))
    assert (answered.findings, answered.unchecked) == ((), ())
    other = SigningKey(seed=bytes(32)).public
    assert "none of those that were given" in check_certificate(certificate, trusted=(other,))[0]
    rotate_key(keys, os.urandom)
    assert check_certificate(certificate, trusted=keys.public_keys()) == ()
    assert check_certificate(certificate, trusted=keys.public_keys()[:1]) != ()


def test_it_verifies_on_a_copy_with_nothing_else(certificate, certified, keys, tmp_path) -> None:
    public = keys.current().public
    shutil.copytree(certificate.parent, tmp_path / "copy")
    shutil.rmtree(certificate.parent)
    shutil.rmtree(keys.home)
    Path(certified.books.url.removeprefix("sqlite:///")).unlink()
    assert check_certificate(tmp_path / "copy" / "certificate.json", trusted=(public,)) == ()


@pytest.mark.slow
def test_every_byte_of_a_certificate_counts(certificate, keys) -> None:
    """Each byte replaced by another, removed, and doubled; fixed seed."""
    sound = certificate.read_bytes()
    trusted = (keys.current().public,)
    randomness = np.random.default_rng(20260304)
    for place in range(len(sound)):
        other = bytes([(sound[place] + int(randomness.integers(1, 256))) % 256])
        flipped = bytes([sound[place] ^ (1 << int(randomness.integers(8)))])
        for middle in (other, flipped, b"", sound[place : place + 1] + b" "):
            certificate.write_bytes(sound[:place] + middle + sound[place + 1 :])
            assert check_certificate(certificate, trusted=trusted), (place, middle)
            assert check_certificate(certificate), (place, middle)
    certificate.write_bytes(sound)
    assert check_certificate(certificate, trusted=trusted) == ()


def leaves(value, path: tuple = ()):
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, member in pairs:
            yield from leaves(member, (*path, name))
    else:
        yield path, value


def test_every_field_of_a_certificate_counts(certificate) -> None:
    """Each value changed, in the form in which certificates are written."""
    sound = json.loads(certificate.read_bytes())
    found = list(leaves(sound))
    assert len(found) > 30
    for path, value in found:
        document = json.loads(certificate.read_bytes())
        inner = document
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value + 1 if isinstance(value, int) else "0" + str(value)[1:] + "1"
        forged = certificate.with_name("certificate.json.forged")
        forged.write_bytes(certificate_bytes(document))
        assert any("signature" in what or "not a certificate" in what for what in check_certificate(forged)), path
        forged.unlink()


def test_another_form_of_the_same_fields_is_not_the_certificate(certificate) -> None:
    """The control: the signature itself still holds, since it is over the fields."""
    document = json.loads(certificate.read_bytes())
    certificate.write_text(json.dumps(document))
    assert check_certificate(certificate) == ("its bytes are not those that were written, though its fields are",)


def test_who_signs_a_forgery_with_a_key_of_his_own_is_found_with_the_publishers(certificate, keys) -> None:
    forger = SigningKey(seed=bytes(range(32)))
    document = json.loads(certificate.read_bytes())
    document["published"]["records"] += 1
    document["signature"] |= {"key_id": forger.public.key_id, "public_key": forger.public.raw.hex()}
    document["signature"]["value"] = forger.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
    certificate.write_bytes(certificate_bytes(document))
    assert check_certificate(certificate) == ()
    assert check_certificate(certificate, trusted=keys.public_keys()) != ()
    document["signature"]["key_id"] = keys.current().public.key_id
    document["signature"]["value"] = forger.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
    certificate.write_bytes(certificate_bytes(document))
    assert check_certificate(certificate) != ()


SAFE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
RARE = StronglySafeRelease(k=50, sampling_rate=Decimal("0.05"))
MIXED = MixedSeries(parts="2 x k=20,rate=0.1; 1 x k=50,rate=0.05; 2 x epsilon=0.05")
CHAIN = DeletionRelease(stages=2, k=5, noise=GeometricDeletion(epsilon=Decimal("0.5"), width=19))


def certified_series(certified, folder: Path) -> Path:
    """The third of twelve releases of one mechanism."""
    charge = certified.books.of_series("third", releases=12, map_digest=certified.map.digest()).entry_at(3)
    return certified(folder, charge=charge)


def certified_free(certified, folder: Path) -> Path:
    """A release of a series with free columns, with a higher k than was registered."""
    free = certified.books.of_series("third", releases=12, mechanism=replace(SAFE, k=25))
    charge = replace(free, map_digest=certified.map.digest()).entry_at(3)
    path = certified(folder, charge=charge, registered=sorted_fields(mechanism_record(SAFE)))
    sound = json.loads(path.read_bytes())
    assert sound["series"]["registered"] == {"kind": "strongly-safe-release/1", "k": 20, "sampling_rate": "0.1"}
    assert (sound["series"]["number"], sound["mechanism"]["k"]) == (3, 25)
    assert "could be chosen by what was published before" in sound["guarantee"]["in_words"]
    return path


def certified_mixed(certified, folder: Path) -> Path:
    """A release of the second part of a series of different mechanisms."""
    of_part = certified.books.of_series("third", name="year", **costs_of(MIXED, releases=5) | {"mechanism": RARE})
    charge = replace(of_part, map_digest=certified.map.digest()).entry_at(3)
    path = certified(folder, charge=charge, registered=sorted_fields(mechanism_record(MIXED)))
    sound = json.loads(path.read_bytes())
    registered = {"kind": "mixed-series/1", "parts": MIXED.parts}
    assert sound["series"] == {"name": "year", "number": 3, "releases": 5, "part": 2, "registered": registered}
    assert sound["guarantee"]["theorem"].startswith("proved in docs/proofs/composition.md")
    assert "parts, which are named in this certificate, were fixed" in sound["guarantee"]["in_words"]
    return path


def certified_deletion(certified, folder: Path) -> Path:
    """A chain of two deletions; its k costs nothing, so that of it the signature alone is held against a forger."""
    costs = costs_of(CHAIN, delta=Decimal("1e-4"))
    return certified(folder, charge=certified.books.request(map_digest=certified.map.digest(), **costs).entry)


def certified_filter(certified, folder: Path) -> Path:
    """A release that a filter budget paid for."""
    certified.books.add_filter()
    receipt = certified.books.charge("one", map_digest=certified.map.digest())
    with certified.books.reader() as reader:
        path = certified(folder, charge=reader.release("one").charge, context=reader.dataset_context(receipt))
    document = json.loads(path.read_bytes())
    assert document["filter_budget"]["charge"]["share"] == "0.0531585"
    assert "took 5.32 % of it" in document["filter_budget"]["in_words"]
    return path


def as_release_of_the_whole(document: dict[str, Any]) -> None:
    """The mechanism of a release as a series that has the price itself."""
    document["mechanism"] = document["series"].pop("registered")
    del document["series"]["part"]


def smaller(value: str, factor: str = "0.9") -> str:
    return amount_text(Decimal(value) * Decimal(factor))


def put(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    """Put a value at a path, or what a function makes of the one that is there."""

    def change(document: dict[str, Any]) -> None:
        for name in path[:-1]:
            document = document[name]
        document[path[-1]] = to(document[path[-1]]) if callable(to) else to

    return change


OF_A_KIND: list[tuple[Callable[..., Path], Callable[[dict[str, Any]], object], str]] = [
    (certified_series, put("series", to=None), "is recorded as"),
    (certified_series, put("series", "releases", to=6), "is recorded as"),
    (certified_series, put("guarantee", "epsilon", to="0.183"), "ε is recorded as"),
    (certified_series, put("guarantee", "neighbours", to="replacement"), "neighbouring relation"),
    (certified_series, put("guarantee", "delta", to="0.0000000001"), "ε is recorded as"),
    (certified_series, put("series", "number", to=13), "can't be read"),
    (certified_free, put("mechanism", "k", to=19), "k = 19 is below the registered 20"),
    (certified_free, put("mechanism", "sampling_rate", to="0.2"), "above the registered"),
    (certified_free, put("series", "registered", "k", to=25), "ε is recorded as"),
    (certified_free, lambda document: document["series"].pop("registered"), "ε is recorded as"),
    (certified_free, put("series", "registered", to=7), "can't be read"),
    (certified_free, put("series", "registered", "kind", to="x"), "can't be read"),
    (certified_mixed, put("series", "number", to=1), "can't be read"),  # of part 1
    (certified_mixed, put("series", "part", to=1), "can't be read"),
    (certified_mixed, lambda document: document["series"].pop("part"), "can't be read"),
    (certified_mixed, lambda one: one["series"].update(number=5, part=3), "no answer whose price has no delta"),
    (certified_mixed, put("mechanism", "k", to=49), "k = 49 is below the registered 50"),
    (certified_mixed, as_release_of_the_whole, "can't be read"),
    (certified_mixed, put("series", "registered", "parts", to=MIXED.parts.replace("k=50", "k=40")), "ε is recorded as"),
    (certified_mixed, put("series", "registered", "parts", to="1 x k=50,rate=0.05"), "can't be read"),
    (certified_deletion, put("mechanism", "noise", to="gaussian"), ""),
    (certified_deletion, put("mechanism", "width", to=20), "is recorded as"),
    (certified_deletion, put("mechanism", "stages", to=3), "is recorded as"),
    (certified_deletion, put("mechanism", "epsilon", to="0.625"), "is recorded as"),
    (certified_filter, put("filter_budget", "charge", "divergence", to=smaller), "its divergence is recorded as"),
    (certified_filter, put("filter_budget", "charge", "tail", to=smaller), "its tail is recorded as"),
    (certified_filter, put("filter_budget", "charge", "share", to=smaller), "the share of its filter budget"),
    (certified_filter, put("filter_budget", "charge", "rule", to="x"), "its divergence's rule"),
    (certified_filter, put("filter_budget", "charge", "more", to="x"), "its filter budget can't be read"),
    (certified_filter, put("filter_budget", "order", to="30"), "the allowance of its filter budget"),
    (certified_filter, put("filter_budget", "allowance", to=smaller), "the allowance of its filter budget"),
    (certified_filter, put("filter_budget", "tail_delta", to=smaller), "the allowance of its filter budget"),
    (certified_filter, put("filter_budget", "tail_each", to=smaller), "its tail is recorded as"),
    (certified_filter, put("filter_budget", "epsilon", to=smaller), "the allowance of its filter budget"),
    (certified_filter, put("filter_budget", "epsilon", to="4.8E-1"), "its filter budget can't be read"),
]


@pytest.mark.parametrize(("make", "change", "what"), OF_A_KIND)
def test_a_signed_claim_of_a_series_a_deletion_or_a_filter_budget_is_found(
    certified, tmp_path, keys, make, change, what
) -> None:
    path = make(certified, tmp_path / "made")
    assert check_certificate(path, trusted=keys.public_keys()) == ()
    findings = forged(path, change, key=keys.current())
    assert any(what in finding for finding in findings), findings
