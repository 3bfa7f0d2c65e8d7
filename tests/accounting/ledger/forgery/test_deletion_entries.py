"""Every value of a deletion's charge and of its price counts: in the chain, by the rules, in the certificate.

k alone costs nothing, whatever it is, so that no price gives a forged one away: the hashes, the anchor and the
signature do.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.certificate.verify import check_certificate
from crowdblend.accounting.certificate.write import DOMAIN, certificate_bytes, signed_bytes
from crowdblend.accounting.kernel.ledger.entries import entry_of_bytes
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, GeometricDeletion, OptimalDeletion
from support.folding import faults_of, fold

DELTA = Decimal("1e-4")
OPTIMAL = DeletionRelease(stages=1, k=5, noise=OptimalDeletion(epsilon=Decimal(1), delta=DELTA))
CHAIN = DeletionRelease(stages=2, k=5, noise=GeometricDeletion(epsilon=Decimal("0.5"), width=19))
BELL = DeletionRelease(stages=1, k=1, noise=GaussianDeletion(scale=Decimal(4), width=20))
# For each release: its data set, mechanism, releases of its series, records of a person.
CHARGED = {
    "one": ("census", OPTIMAL, 1, 1),
    "chain": ("census", CHAIN, 1, 1),
    "visits": ("visits", BELL, 1, 2),
    "monthly": ("census", BELL, 3, 1),
}
FREE = ("mechanism", "k")
PARTS = ("noise", "width", "stages", "k", "epsilon")
Document = dict[str, Any]


def leaves(document: Document, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name)


def changed(document: Document, path: tuple[str, ...], value: Any) -> Document:
    made = copy.deepcopy(document)
    place = made
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return made


def others(value: Any) -> list[Any]:
    """Other values, one that fits among them."""
    match value:
        case int():
            return [value + 1, str(value)]
        case str() if value.replace(".", "", 1).isdigit():
            return [str(Decimal(value) * Decimal("1.25")), None]
        case "geometric" | "gaussian" | "optimal":
            return ["gaussian" if value != "gaussian" else "geometric", "flat"]
        case _:
            return ["x", None]


@pytest.fixture
def deletions(sqlite_books):
    """A ledger with a deletion of each shape: a chain, a series, people with several records."""
    books = sqlite_books
    books.add()
    books.add("visits", rows_per_person=2)
    for release_id, (dataset, mechanism, releases, records) in CHARGED.items():
        cost = price(mechanism, delta=DELTA, releases=releases, rows_per_person=records)
        given = {"mechanism": mechanism, "price": cost, "epsilon_paper": None}
        if releases > 1:
            books.register(release_id, releases=releases, **given)
            books.writer().charge(
                books.of_series(release_id, name=release_id, releases=releases, **given, series_digest="c" * 64)
            )
        else:
            books.charge(release_id, dataset=dataset, **given)
    assert books.findings() == []
    return books


def documents(books) -> list[Document]:
    bodies = books.raw(lambda connection: connection.exec_driver_sql("SELECT body FROM entry ORDER BY position").all())
    return [json.loads(body) for (body,) in bodies]


def fault_of(before: list[Document], last: Document) -> bool:
    """Whether the rules find something in the last entry, all hashes being made anew."""
    state, faults = fold(entry_of_bytes(body_of(document)) for document in before)
    assert faults == []
    try:
        return faults_of(entry_of_bytes(body_of(last)), state) != []
    except ValueError:
        return True


def body_of(document: Document) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def test_the_rules_find_every_forged_value_of_noise_stages_price_and_records(deletions) -> None:
    whole, tried = documents(deletions), set()
    for position, document in enumerate(whole):
        if "mechanism" not in document:
            continue
        for path in leaves({name: document[name] for name in ("mechanism", "price")}):
            value = document
            for name in path:
                value = value[name]
            for other in others(value):
                found = fault_of(whole[:position], changed(document, path, other))
                assert found or (path == FREE and type(other) is int), (position, path, other)
            tried.add(path[-1])
    assert tried >= {"kind", "noise", "epsilon", "delta", "width", "scale", "stages", "k", "rule", "releases"}, tried


def test_the_rules_find_forged_records_of_a_person(deletions) -> None:
    """M is the data set's: the charges after it have another price then."""
    whole = documents(deletions)
    for place, document in enumerate(whole):
        if "rows_per_person" in document:
            forged = changed(document, ("rows_per_person",), document["rows_per_person"] + 1)
            everything = [entry_of_bytes(body_of(one)) for one in (*whole[:place], forged, *whole[place + 1 :])]
            assert fold(everything[: place + 1])[1] == []
            assert fold(everything)[1], document


def test_the_ledgers_verification_finds_a_forged_deletion(deletions, forge_past_guards) -> None:
    [document] = [one for one in documents(deletions) if one.get("release_id") == "chain"]
    for name in PARTS:
        forged = changed(document, ("mechanism", name), others(document["mechanism"][name])[0])
        for body, sound in ((forged, False), (document, True)):
            said = body_of(body).decode().replace(":", "\\:")
            forge_past_guards(
                deletions, f"UPDATE entry SET body = '{said}' WHERE body LIKE '%\"release_id\"\\:\"chain\"%'"
            )
            assert (deletions.findings() == []) is sound, name


def test_a_certificate_whose_deletion_was_forged_is_found(certified, tmp_path) -> None:
    """Where the publisher's own key has signed it, by the price; k, which is free, by the signature alone."""
    charge = certified.books.request(
        map_digest=certified.map.digest(), mechanism=CHAIN, price=price(CHAIN, delta=DELTA), epsilon_paper=None
    ).entry
    path = certified(tmp_path / "output", charge=charge)
    key = certified.books.anchoring.keys.current()
    sound = json.loads(path.read_bytes())
    before = check_certificate(path, trusted=(key.public,))
    for name in PARTS:
        document = changed(sound, ("mechanism", name), others(sound["mechanism"][name])[0])
        path.write_bytes(certificate_bytes(document))
        assert any("signature" in what for what in check_certificate(path, trusted=(key.public,))), name
        document["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
        path.write_bytes(certificate_bytes(document))
        found = set(check_certificate(path, trusted=(key.public,))) - set(before)
        assert found or name == "k", name
