"""Entries that were changed with all hashes made anew are found by the rules; a ledger without its guards is found."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import date
from decimal import Decimal
from typing import Any, get_args

import pytest
from crowdblend.accounting.kernel.ledger.entries import DatasetUnit, Entry, bytes_of_entry, entry_of_bytes
from crowdblend.accounting.ledger.schema import OBJECTS
from support.folding import fold

DAY = date(2026, 3, 4)
FILES = (("data.csv", "c" * 64),)


@pytest.fixture(scope="module")
def made() -> list[Entry]:
    """The entries, once they are made."""
    return []


@pytest.fixture
def entries(sqlite_books, made) -> list[Entry]:
    """A ledger with every kind of entry that this version writes."""
    if not made:
        fill(sqlite_books)
        assert sqlite_books.findings() == []
        made.extend(sqlite_books.entries())
    return made


def fill(books) -> None:
    books.add()
    books.add("survey", survey_rate=Decimal("0.05"))
    for release_id, dataset in (("one", "census"), ("of-survey", "survey")):
        receipt = books.charge(release_id, dataset=dataset)
        with books.writer() as writer:
            writer.mark_reading(receipt)
            writer.mark_published(receipt, FILES)
    books.charge("refunded")
    books.abandon("refunded")
    with books.writer() as writer:
        raised = {"epsilon": Decimal(11), "delta": Decimal("0.001"), "reason": "r"}
        writer.raise_budget(name="census", **raised, by="b", day=DAY)
        writer.record_look(dataset="census", what="a report", by="b", day=DAY)
        writer.record_refusal(release_id=None, dataset="census", cause="x", reason="y", day=DAY)
    books.register()
    books.writer().charge(books.of_series("given-back"))
    books.abandon("given-back")
    for number in range(3):
        books.writer().charge(books.of_series(f"of-series-{number}"))
    with books.writer() as writer:
        for name in ("alice", "bob"):
            writer.add_token(name=name, expires=date(2026, 6, 2), by="b", day=DAY, randomness=os.urandom)
        writer.revoke_token(name="bob", by="b", day=DAY)
    books.writer().charge(books.of_two_samples("chosen"))
    books.register("free", free_columns=True)
    books.add_filter("filtered")
    books.charge("of-filter", dataset="filtered")
    books.register("of-filter", releases=2, dataset="filtered")
    books.add("visits", unit=DatasetUnit(name="person", column="who"))
    books.add_filter("homes", unit=DatasetUnit(name="household", column="home"))
    books.charge("last")


def faults_where(entries: list[Entry], kind: str, where: dict[str, Any], fields: dict[str, Any]) -> list[str]:
    """What the rules say where the first entry of a kind with some fields has others."""
    documents = [json.loads(bytes_of_entry(entry)) for entry in entries]
    position = next(at for at, one in enumerate(documents) if (where | {"kind": kind}).items() <= one.items())
    changed = json.dumps(documents[position] | fields, sort_keys=True, separators=(",", ":"))
    try:
        other = entry_of_bytes(changed.encode())
    except ValueError as unreadable:
        return [str(unreadable)]
    return fold([*entries[:position], other, *entries[position + 1 :]])[1]


def test_the_control_ledger_has_every_kind(entries) -> None:
    assert {entry.KIND for entry in entries} == {kind.KIND for kind in get_args(Entry)}
    assert fold(entries)[1] == []


def place(name: str, number: int, digit: str = "c") -> dict[str, Any]:
    return {"name": name, "number": number, "spec_digest": digit * 64}


@pytest.mark.parametrize(
    ("kind", "where", "fields", "what"),
    [
        (
            "release-charged/1",
            {"release_id": "last"},
            {"mechanism": {"k": 19, "kind": "strongly-safe-release/1", "sampling_rate": "0.1"}},
            "ε is recorded as",
        ),
        (
            "release-charged/1",
            {"release_id": "last"},
            {"mechanism": {"k": 20, "kind": "strongly-safe-release/9", "sampling_rate": "0.1"}},
            "can't be priced",
        ),
        ("release-charged/1", {"release_id": "last"}, {"epsilon_paper": "0.1"}, "the paper's ε"),
        ("release-charged/1", {"release_id": "last"}, {"release_id": "one"}, "charged a second time"),
        ("release-charged/1", {"release_id": "last"}, {"dataset": "elsewhere"}, "not in the ledger"),
        ("release-charged/1", {"release_id": "last"}, {"dataset": "survey"}, "released a second time"),
        ("release-charged/1", {"release_id": "last"}, {"series": place("s", 1)}, "has not paid"),
        ("release-charged/1", {"release_id": "of-series-1"}, {"series": None}, "the price of one release"),
        ("release-charged/1", {"release_id": "of-series-1"}, {"series": place("monthly", 4)}, "this is one more"),
        (
            "release-charged/1",
            {"release_id": "of-series-1"},
            {"series": place("monthly", 2)},
            "release 'of-series-0' has this place",
        ),
        (
            "release-charged/1",
            {"release_id": "of-series-1"},
            {"series": place("monthly", 3, "d")},
            "has not paid for this release: specification",
        ),
        ("release-charged/1", {"release_id": "of-series-1"}, {"map_digest": "d" * 64}, "generalization map"),
        ("series-registered/1", {}, {"dataset": "survey"}, "is itself a sample and has a series"),
        ("series-registered/1", {}, {"map_digest": "d" * 64}, "generalization map"),
        (
            "dataset-added/1",
            {"dataset": "census"},
            {"epsilon": "0.01"},
            "budget of dataset 'census' is exceeded",
        ),
        ("dataset-added/1", {"dataset": "census"}, {"relation": "replacement"}, "neighbouring relations"),
        ("dataset-added/1", {"dataset": "census"}, {"rows_per_person": 2}, "the rule is recorded as"),
        ("dataset-added/1", {"dataset": "survey"}, {"dataset": "census"}, "added a second time"),
        ("budget-raised/1", {}, {"epsilon": "9"}, "lowered"),
        ("private-look/1", {}, {"dataset": "unknown"}, "not in the ledger"),
        ("release-abandoned/1", {}, {"refunded": False}, "given back"),
        ("release-abandoned/1", {}, {"release_id": "one"}, "closed before"),
        ("release-reading/1", {"release_id": "one"}, {"release_id": "never"}, "never charged"),
        ("release-reading/1", {"release_id": "one"}, {"release_id": "last"}, "without reading"),
        ("release-reading/1", {"release_id": "of-survey"}, {"release_id": "one"}, "begins to read a second time"),
        (
            "release-charged/1",
            {"release_id": "last"},
            {"sample_id": hashlib.sha256(b"one").hexdigest()},
            "its sample was used by release 'one'",
        ),
    ],
)
def test_a_forger_who_computes_every_hash_again_is_found_by_the_rules(entries, kind, where, fields, what) -> None:
    found = faults_where(entries, kind, where, fields)
    assert any(what in fault for fault in found), found


PRICES: dict[str, tuple[str, dict[str, str]]] = {
    "of a release": ("release-charged/1", {"release_id": "last"}),
    "of a series": ("series-registered/1", {}),
}


@pytest.mark.parametrize(("kind", "where"), PRICES.values(), ids=PRICES)
def test_a_forged_price_is_found_wherever_it_is_changed(entries, kind, where) -> None:
    """A release or a series that is said to be cheaper or dearer, or to have more releases for its price."""
    sound = next(
        json.loads(bytes_of_entry(entry))["price"]
        for entry in entries
        if kind == entry.KIND and getattr(entry, "release_id", None) == where.get("release_id")
    )
    for name, value in (
        ("epsilon", "0.05"),
        ("epsilon", "5"),
        ("delta", "0.0000001"),
        ("rule", "guess/1"),
        ("relation", "replacement"),
        ("releases", sound["releases"] + 1),
    ):
        assert faults_where(entries, kind, where, {"price": sound | {name: value}}), name


@pytest.mark.parametrize(
    "guard", [name.removeprefix("guard ") for name in json.loads(OBJECTS.read_bytes())["sqlite"] if "guard" in name]
)
def test_a_missing_guard_is_found(sqlite_books, guard) -> None:
    sqlite_books.sql(f"DROP TRIGGER {guard}")
    assert sqlite_books.findings() == [f"the database's guard {guard} is missing"]


@pytest.mark.parametrize("change", ["DROP TRIGGER {0} ON entry", "ALTER TABLE entry DISABLE TRIGGER {0}"])
def test_a_missing_or_disabled_guard_is_found_on_postgresql(postgresql_books, change) -> None:
    for guard in ("entry_append_only", "entry_in_order"):
        postgresql_books.sql(change.format(guard))
        assert f"the database's guard {guard} is missing" in postgresql_books.findings()
