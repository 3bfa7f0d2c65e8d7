"""A private look is recorded for ever, and is a circumstance of the releases that are charged after it, no others."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

pytestmark = pytest.mark.slow

DAY = date(2026, 3, 5)
MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


def look(books, dataset: str = "census", **changes) -> None:
    books.writer().record_look(**({"dataset": dataset, "what": "a utility report", "by": "me", "day": DAY} | changes))


def days(books, receipt) -> tuple[date, ...]:
    with books.reader() as reader:
        return reader.dataset_context(receipt).look_days


def test_a_look_counts_for_the_data_sets_later_releases_alone(books) -> None:
    books.add()
    books.add("other")
    before = books.charge("before")
    look(books)
    after = books.charge("after")
    elsewhere = books.charge("elsewhere", dataset="other")
    look(books, day=date(2026, 3, 6))
    last = books.charge("last")
    assert days(books, before) == ()
    assert days(books, after) == (DAY,)  # whatever was recorded since
    assert days(books, elsewhere) == ()
    assert days(books, last) == (DAY, date(2026, 3, 6))
    with books.reader() as reader:
        assert [(known.position, known.look.what) for known in reader.private_looks()] == [
            (4, "a utility report"),
            (7, "a utility report"),
        ]
    assert books.findings() == []
    assert books.spent() == (3 * books.price.epsilon, 3 * books.price.delta)


def test_a_look_at_an_unknown_data_set_or_without_words_is_the_callers_mistake(books) -> None:
    books.add()
    for dataset, changes in (
        ("unknown", {}),
        ("census", {"what": ""}),
        ("census", {"what": "two\nlines"}),
        ("census", {"by": ""}),
    ):
        with pytest.raises(InputRefused):
            look(books, dataset, **changes)
    assert books.kinds() == ["ledger-created/1", "dataset-added/1"]


@pytest.mark.parametrize("declared", [1, 2, 5])
def test_a_data_sets_prices_are_for_the_unit_that_it_was_added_with(books, declared) -> None:
    books.add(rows_per_person=declared)
    receipts = {}
    for records in (1, 2, 5):
        cost = price(MECHANISM, delta=Decimal("1e-6"), rows_per_person=records)
        changes = {"price": cost, "epsilon_paper": books.request().epsilon_paper if records == 1 else None}
        if records == declared:
            receipts[records] = books.charge(f"r{records}", **changes)
        else:
            with pytest.raises(AccountantRefused, match="of a person in a delivery"):
                books.charge(f"r{records}", **changes)
    assert books.findings() == []
    with books.reader() as reader:
        assert reader.dataset_context(receipts[declared]).rows_per_person == declared
        [estimate_of] = reader.datasets()
        assert estimate_of.rows_per_person == declared


def test_a_cheaper_units_price_is_not_the_declared_units(books) -> None:
    """Somebody who says that one record's price covers three is found by computing it again."""
    books.add(rows_per_person=3)
    for claim in (1, 3):
        cost = price(MECHANISM, delta=Decimal("1e-6"), rows_per_person=claim)
        forged = type(cost)(
            epsilon=books.price.epsilon,
            delta=cost.delta,
            relation=cost.relation,
            rule=cost.rule,
            releases=1,
            rows_per_person=3,
        )
        with pytest.raises(AccountantRefused, match="is recorded as"):
            books.charge(f"claim-{claim}", price=forged, epsilon_paper=None)
    assert books.spent() == (0, 0)


def test_a_series_for_several_records_is_paid_and_its_releases_are_its_own(books) -> None:
    books.add(rows_per_person=2)
    cost = price(MECHANISM, delta=Decimal("1e-6"), releases=3, rows_per_person=2)
    books.register(price=cost, epsilon_paper=None)
    receipt = books.writer().charge(books.of_series("one", price=cost, epsilon_paper=None))
    with books.reader() as reader:
        assert reader.dataset_context(receipt).rows_per_person == 2
    assert books.spent() == (cost.epsilon, cost.delta)
    assert books.findings() == []
