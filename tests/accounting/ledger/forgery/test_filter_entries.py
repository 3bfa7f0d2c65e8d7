"""Every figure of a filter budget counts: forged, it is found by the rules, by `ledger verify`, in the certificate."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.certificate.verify import check_certificate
from crowdblend.accounting.certificate.write import DOMAIN, certificate_bytes, signed_bytes
from crowdblend.accounting.kernel.ledger.entries import FilterDatasetAdded, amount_text, entry_of_bytes
from crowdblend.accounting.kernel.ledger.filter_budget import FilterBudget, filter_charge
from crowdblend.mechanisms.kernel.errors import AccountantRefused
from support.folding import fold

pytestmark = pytest.mark.slow

Document = dict[str, Any]


@pytest.fixture
def filtered(sqlite_books):
    """A ledger with a filter data set, a release that it paid for, and an additive one beside it."""
    books = sqlite_books
    books.add_filter()
    books.add("plain")
    books.charge("one")
    books.charge("beside", dataset="plain")
    assert books.findings() == []
    return books


def documents(books) -> list[Document]:
    bodies = books.raw(lambda connection: connection.exec_driver_sql("SELECT body FROM entry ORDER BY position").all())
    return [json.loads(body) for (body,) in bodies]


def faults_of(whole: list[Document]) -> list[str]:
    """What the rules find, all hashes and the state being made anew."""
    bodies = [json.dumps(document, sort_keys=True, separators=(",", ":")).encode() for document in whole]
    try:
        return fold(map(entry_of_bytes, bodies))[1]
    except ValueError as error:
        return [f"{error}"]


def smaller(value: str, factor: str = "0.9") -> str:
    return amount_text(Decimal(value) * Decimal(factor))


FORGERIES = {
    "divergence": (2, ("filter_charge", "divergence"), smaller, "its divergence is recorded as"),
    "tail": (2, ("filter_charge", "tail"), smaller, "its tail is recorded as"),
    "no tail": (2, ("filter_charge", "tail"), lambda _: "0", "its tail is recorded as"),
    "order of a charge": (2, ("filter_charge", "order"), lambda _: "30", "its order is recorded as 30"),
    "rule": (2, ("filter_charge", "rule"), lambda _: "renyi-filter/0", "its divergence's rule"),
    "order": (0, ("accounting", "order"), lambda _: "30", "the allowance of its filter budget is recorded as"),
    "allowance": (0, ("accounting", "allowance"), lambda one: smaller(one, "1.1"), "the allowance of its filter"),
    "share for tails": (0, ("accounting", "tail_delta"), smaller, "the allowance of its filter budget"),
    "tail of a release": (0, ("accounting", "tail_each"), smaller, "its tail is recorded as"),
    "budget": (0, ("epsilon",), lambda one: smaller(one, "1.1"), "the allowance of its filter budget"),
    "accounting": (0, ("accounting", "rule"), lambda _: "a sum", "its accounting is recorded as 'a sum'"),
    "mechanism": (2, ("mechanism", "k"), lambda _: 40, "its divergence is recorded as"),
}


@pytest.mark.parametrize(("place", "path", "forge", "told"), FORGERIES.values(), ids=FORGERIES)
def test_a_forged_figure_is_found_though_all_hashes_fit(filtered, place, path, forge, told) -> None:
    whole = documents(filtered)[1:]  # after the ledger's own entry
    head = documents(filtered)[:1]
    assert faults_of(head + whole) == []
    forged = copy.deepcopy(whole)
    held = forged[place]
    for name in path[:-1]:
        held = held[name]
    held[path[-1]] = forge(held[path[-1]])
    assert any(told in fault for fault in faults_of(head + forged)), faults_of(head + forged)


def test_an_order_chosen_after_the_fact_is_found_with_every_figure_made_to_fit(filtered) -> None:
    """The charge is right by an order of its own, which would take less; its data set has fixed another."""
    whole = documents(filtered)
    added = entry_of_bytes(json.dumps(whole[1], sort_keys=True, separators=(",", ":")).encode())
    assert isinstance(added, FilterDatasetAdded)
    charged = whole[3]
    budget = FilterBudget.of(added)
    lower = FilterBudget(
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        accounting=type(added.accounting)(
            rule=added.accounting.rule,
            order=Decimal(30),
            tail_delta=added.accounting.tail_delta,
            tail_each=added.accounting.tail_each,
            allowance=added.accounting.allowance,
        ),
    )
    taken = filter_charge(tuple(sorted(charged["mechanism"].items())), budget=lower, releases=1, rows_per_person=1)
    forged = {
        "order": amount_text(taken.order),
        "divergence": amount_text(taken.divergence),
        "tail": amount_text(taken.tail),
        "rule": taken.rule,
    }
    assert taken.divergence < Decimal(charged["filter_charge"]["divergence"])
    faults = faults_of([*whole[:3], charged | {"filter_charge": forged}])
    assert any("its order is recorded as 30, but its data set's was fixed at 37" in fault for fault in faults)


def test_an_accounting_never_pays_by_the_other(filtered) -> None:
    whole = documents(filtered)
    of_filter, plain = whole[3], whole[4]
    as_plain = {
        name: value for name, value in of_filter.items() if name not in ("filter_charge", "selection_sample_id")
    }
    as_plain |= {"kind": "release-charged/1"}
    assert any("by ε and δ to a filter budget" in fault for fault in faults_of([*whole[:3], as_plain]))
    as_filter = plain | {
        "kind": "release-charged/3",
        "selection_sample_id": None,
        "filter_charge": of_filter["filter_charge"],
    }
    assert any("a budget that adds up ε and δ" in fault for fault in faults_of([*whole[:4], as_filter]))
    raised = {
        "kind": "budget-raised/1",
        "dataset": "census",
        "epsilon": "1",
        "delta": "0.00001",
        "reason": "more",
        "by": "me",
        "day": "2026-03-04",
    }
    assert "a filter budget is raised" in faults_of([*whole, raised])


def charge_many(books) -> None:
    for number in range(40):
        books.charge(f"release-{number}")


def test_tails_are_added_up_beside_divergences(sqlite_books) -> None:
    """Divergences would allow hundreds of releases, and the tails of δ fewer, though each takes the least it may."""
    books = sqlite_books
    books.add_room_for(Decimal(400), tails=Decimal("0.01"))
    with pytest.raises(AccountantRefused, match=r"would bring the tails from .* past the budget"):
        charge_many(books)
    charged = [document for document in documents(books) if document["kind"] != "release-refused/1"]
    assert faults_of(charged) == []
    again = charged[-1] | {"release_id": "again", "sample_id": "7" * 64}
    assert "the budget of dataset 'census' is exceeded" in faults_of([*charged, again])


CERTIFIED = {
    "divergence": (("charge", "divergence"), smaller, "its divergence is recorded as"),
    "tail": (("charge", "tail"), smaller, "its tail is recorded as"),
    "share": (("charge", "share"), smaller, "the share of its filter budget"),
    "rule": (("charge", "rule"), lambda _: "x", "its divergence's rule"),
    "order": (("order",), lambda _: "30", "the allowance of its filter budget"),
    "allowance": (("allowance",), lambda one: smaller(one, "1.1"), "the allowance of its filter budget"),
    "share for tails": (("tail_delta",), smaller, "the allowance of its filter budget"),
    "tail of a release": (("tail_each",), smaller, "its tail is recorded as"),
    "epsilon": (("epsilon",), smaller, "the allowance of its filter budget"),
    "another spelling": (("epsilon",), lambda _: "4.8E-1", "its filter budget can't be read"),
    "a field more": (("charge", "more"), lambda _: "x", "its filter budget can't be read"),
}


@pytest.mark.parametrize(("path", "forge", "told"), CERTIFIED.values(), ids=CERTIFIED)
def test_a_forged_figure_of_a_certificate_is_found_though_its_own_key_signs_it(
    filtered, certified, tmp_path, path, forge, told
) -> None:
    with filtered.reader() as reader:
        known = reader.release("one")
        context = reader.dataset_context(known.receipt)
    certificate = certified(tmp_path / "output", charge=known.charge, context=context)
    key = filtered.anchoring.keys.current()
    assert check_certificate(certificate, trusted=(key.public,)) == ()
    document = json.loads(certificate.read_bytes())
    assert document["filter_budget"]["charge"]["share"] == "0.0531585"
    assert "took 5.32 % of it" in document["filter_budget"]["in_words"]
    held = document["filter_budget"]
    for name in path[:-1]:
        held = held[name]
    held[path[-1]] = forge(held.get(path[-1]))
    document["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
    certificate.write_bytes(certificate_bytes(document))
    assert any(told in finding for finding in check_certificate(certificate, trusted=(key.public,)))
