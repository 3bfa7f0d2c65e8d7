"""A series whose releases have columns of their own: what it pays for, for who writes and for who verifies."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal

import pytest
from crowdblend.accounting.certificate.verify import check_certificate
from crowdblend.accounting.certificate.write import DOMAIN, certificate_bytes, signed_bytes
from crowdblend.accounting.kernel.ledger.entries import entry_of_bytes, sorted_fields
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.accounting.ledger.charge_request import RECORDS
from crowdblend.mechanisms.kernel.errors import AccountantRefused
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease
from support.folding import fold

pytestmark = pytest.mark.slow

REGISTERED = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


def safe(k: int = 20, rate: str = "0.1") -> StronglySafeRelease:
    return StronglySafeRelease(k=k, sampling_rate=Decimal(rate))


COVERED = {
    "as-registered": safe(),
    "higher-k": safe(k=21),
    "lower-rate": safe(rate="0.02"),
    "both": safe(400, "0.0999"),
}
NOT_COVERED = {
    "k = 19 is below the registered 20": safe(k=19),
    "the sampling rate 0.11 is above the registered 0.1": safe(rate="0.11"),
    "the sampling rate 0.2 is above": safe(k=1000, rate="0.2"),  # far cheaper alone
    "k = 19 is below": safe(k=19, rate="0.001"),
    "another kind of mechanism": EpsilonSafeRelease(
        k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=None
    ),
}


def test_each_release_has_columns_k_and_rate_of_its_own_at_no_new_cost(books) -> None:
    books.add()
    registered = books.register(releases=4, free_columns=True)
    spent = books.spent()
    for number, (name, mechanism) in enumerate(COVERED.items()):
        charge = books.of_series(name, releases=4, mechanism=mechanism, map_digest=f"{number:064x}")
        receipt = books.writer().charge(charge)
        with books.reader() as reader:
            assert dict(reader.dataset_context(receipt).registered) == mechanism_record(REGISTERED)
            state = reader.release(name)
        assert dict(state.charge.mechanism) == mechanism_record(mechanism)
        assert state.charge.price.epsilon == registered.price.epsilon
    assert books.spent() == spent
    assert books.kinds()[2] == "series-registered/2"
    assert books.findings() == []
    with pytest.raises(AccountantRefused, match="all its 4 releases are taken"):
        books.writer().charge(books.of_series("more", releases=4))


def test_what_is_not_covered_is_refused_with_its_reason_and_recorded(books) -> None:
    books.add()
    books.add("other")
    registered = books.register(free_columns=True)
    for reason, mechanism in NOT_COVERED.items():
        with pytest.raises(AccountantRefused, match=f"has not paid for this mechanism: {reason}"):
            books.writer().charge(books.of_series("one", mechanism=mechanism))
    cheaper = dataclasses.replace(registered.price, epsilon=registered.price.epsilon / 2)
    for change in ({"dataset": "other"}, {"series_digest": "d" * 64}, {"price": cheaper}, {"price": books.price}):
        with pytest.raises(AccountantRefused):
            books.writer().charge(books.of_series("one", **change))
    assert books.kinds()[-9:] == ["release-refused/1"] * 9
    assert books.series().taken == 0
    books.writer().charge(books.of_series("one", mechanism=safe(k=30)))
    assert books.findings() == []


def test_a_look_beforehand_says_the_same(books) -> None:
    books.add()
    books.register(free_columns=True)
    with books.reader() as reader:
        for reason, mechanism in NOT_COVERED.items():
            found = reader.look_at_series(
                name="monthly", dataset="census", spec_digest="c" * 64, mechanism=mechanism, unit=RECORDS
            )
            assert reason in found.what
        for mechanism in COVERED.values():
            assert not reader.look_at_series(
                name="monthly", dataset="census", spec_digest="c" * 64, mechanism=mechanism, unit=RECORDS
            )
        found = reader.look_at_series(
            name="monthly", dataset="census", spec_digest="d" * 64, mechanism=safe(), unit=RECORDS
        )
        assert "in more than columns, hierarchies, levels" in found.what


def test_a_series_without_free_columns_keeps_its_rule(books) -> None:
    books.add()
    books.register()
    for change in ({"mechanism": safe(k=21)}, {"mechanism": safe(rate="0.05")}, {"map_digest": "d" * 64}):
        with pytest.raises(AccountantRefused):
            books.writer().charge(books.of_series("one", **change))
    books.writer().charge(books.of_series("one"))
    with books.reader() as reader:
        assert reader.dataset_context(reader.release("one").receipt).registered is None
    assert books.findings() == []


def test_a_forged_k_or_rate_is_found(books, forge_past_guards) -> None:
    books.add()
    books.register(free_columns=True)
    books.writer().charge(books.of_series("one", mechanism=safe(k=25, rate="0.05")))
    bodies = books.raw(lambda connection: connection.exec_driver_sql("SELECT body FROM entry ORDER BY position").all())
    documents = [json.loads(body) for (body,) in bodies]

    def faults(**mechanism) -> str:
        """What the rules say of the release where all hashes were made anew."""
        last = {**documents[-1], "mechanism": documents[-1]["mechanism"] | mechanism}
        return " ".join(fold(entry_of_bytes(_body(one).encode()) for one in [*documents[:-1], last])[1])

    assert faults() == faults(k=20) == faults(k=26) == faults(sampling_rate="0.1") == ""
    assert "k = 19 is below the registered 20" in faults(k=19)
    assert "the sampling rate 0.2 is above the registered 0.1" in faults(sampling_rate="0.2")
    forged = {**documents[-1], "mechanism": documents[-1]["mechanism"] | {"k": 19}}
    body = _body(forged).replace(":", "\\:")
    forge_past_guards(books, f"UPDATE entry SET body = '{body}' WHERE position = {len(documents) - 1}")
    assert books.findings()


def _body(document: dict) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def test_a_certificate_says_what_was_registered_and_a_forged_one_is_found(certified, tmp_path) -> None:
    books = certified.books
    charge = books.of_series("third", releases=12, mechanism=safe(k=25), map_digest=certified.map.digest()).entry_at(3)
    path = certified(tmp_path / "third", charge=charge, registered=sorted_fields(mechanism_record(REGISTERED)))
    assert check_certificate(path) == ()
    sound = json.loads(path.read_bytes())
    assert sound["series"] == {
        "name": "monthly",
        "number": 3,
        "releases": 12,
        "registered": {"kind": "strongly-safe-release/1", "k": 20, "sampling_rate": "0.1"},
    }
    assert sound["mechanism"]["k"] == 25
    assert "could be chosen by what was published before" in sound["guarantee"]["in_words"]
    key = books.anchoring.keys.current()
    for change, what in (
        (lambda document: document["mechanism"].update(k=19), "k = 19 is below the registered 20"),
        (lambda document: document["mechanism"].update(sampling_rate="0.2"), "above the registered"),
        (lambda document: document["series"]["registered"].update(k=25), "ε is recorded as"),
        (lambda document: document["series"].pop("registered"), "ε is recorded as"),
        (lambda document: document["series"].update(registered=7), "can't be read"),
        (lambda document: document["series"]["registered"].update(kind="x"), "can't be read"),
    ):
        document = json.loads(path.read_bytes())
        change(document)
        document["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
        path.write_bytes(certificate_bytes(document))
        assert any(what in finding for finding in check_certificate(path)), what
        path.write_bytes(certificate_bytes(sound))
