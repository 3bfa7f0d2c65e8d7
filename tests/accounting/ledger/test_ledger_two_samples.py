"""A release whose map is chosen on a fresh sample takes two samples in one entry; each of them serves once, ever."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kernel.errors import AccountantRefused
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease
from sqlalchemy import text
from support.charging import ReleaseCharge

pytestmark = pytest.mark.slow

DELTA = Decimal("1e-6")
FRESH = EpsilonSafeRelease(
    k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=Decimal("0.05")
)
WHOLE = dataclasses.replace(FRESH, selection_rate=None)


def selected(books: Any, release_id: str = "one", *, mechanism: Any = FRESH, **changes: Any) -> ReleaseCharge:
    other = {} if mechanism.selection_rate is None else {"selection_sample_id": "e" * 64}
    return books.of_two_samples(release_id, mechanism=mechanism, **(other | changes))


def test_both_samples_are_taken_in_one_entry(books) -> None:
    books.add()
    receipt = books.writer().charge(selected(books))
    assert receipt.selection_sample_id == "e" * 64
    assert books.kinds() == ["ledger-created/1", "dataset-added/1", "release-charged/2"]
    with books.reader() as reader:
        state = reader.release("one")
    assert state.receipt == receipt
    assert state.charge.samples == (("release", receipt.sample_id), ("selection", "e" * 64))
    taken = "SELECT release_id, sample_id, selection_sample_id FROM entry WHERE position = 2"
    (row,) = books.raw(lambda connection: connection.execute(text(taken)).all())
    assert tuple(row) == ("one", receipt.sample_id, "e" * 64)
    with books.writer() as writer:
        writer.mark_reading(receipt)
        writer.mark_published(receipt, (("data.csv", "c" * 64),))
    assert books.findings() == []


def test_a_choice_on_the_whole_data_takes_no_other_sample(books) -> None:
    books.add()
    receipt = books.writer().charge(selected(books, mechanism=WHOLE))
    assert receipt.selection_sample_id is None
    assert books.kinds()[-1] == "release-charged/1"
    assert books.findings() == []


@pytest.mark.parametrize("purpose", ["sample_id", "selection_sample_id"])
def test_either_sample_serves_once_whatever_it_served(books, purpose) -> None:
    books.add()
    books.writer().charge(selected(books))
    for used in (books.request("one").sample_id, "e" * 64):
        again = selected(books, "two", **({"selection_sample_id": "d" * 64} | {purpose: used}))
        with pytest.raises(AccountantRefused, match="was used by release 'one'"):
            books.writer().charge(again)
    assert books.spent()[0] == price(FRESH, delta=DELTA).epsilon
    assert books.findings() == []


def test_a_map_is_never_chosen_on_the_releases_own_sample(books) -> None:
    books.add()
    one = selected(books)
    with pytest.raises(AccountantRefused, match="the release's own sample"):
        books.writer().charge(dataclasses.replace(one, selection_sample_id=one.sample_id))


@pytest.mark.parametrize(
    ("mechanism", "other"), [(FRESH, None), (WHOLE, "e" * 64)], ids=["none for a choice", "one for no choice"]
)
def test_samples_that_the_mechanism_does_not_read_are_refused(books, mechanism, other) -> None:
    books.add()
    with pytest.raises(AccountantRefused, match="its mechanism reads"):
        books.writer().charge(selected(books, mechanism=mechanism, selection_sample_id=other))
    assert books.kinds()[-1] == "release-refused/1"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"selection_sample_id": "used"}, "its sample was used by release 'zero'"),
        ({"selection_sample_id": "own"}, "the release's own sample"),
        ({"mechanism": WHOLE}, "its mechanism reads 1 samples"),
    ],
)
def test_a_forger_of_samples_is_found_by_the_rules(books, change, what) -> None:
    """What the writer refuses the rules find in a chain that somebody wrote by hand."""
    books.add()
    books.charge("zero")
    named = {"used": books.request("zero").sample_id, "own": books.request("one").sample_id}
    change = {name: named.get(value, value) if isinstance(value, str) else value for name, value in change.items()}
    faults = books.faults(dataclasses.replace(selected(books), **change).entry)
    assert any(what in fault for fault in faults), faults
