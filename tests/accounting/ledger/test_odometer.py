"""The composed estimate counts what was charged, never more than the sum, and gives up rather than work long."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from crowdblend.accounting.kinds.microdata_prices import composed_price_fixed
from crowdblend.accounting.ledger import overview as odometer
from crowdblend.accounting.ledger.overview import composed_estimate

pytestmark = pytest.mark.slow

TOO_LARGE = (
    ("epsilon", "1E+400"),
    ("groups", 1),
    ("kind", "count-answer/1"),
    ("relation", "add/remove"),
    ("sampling_rate", "0.1"),
)


def estimate(books, name: str = "census") -> Decimal | None:
    with books.reader() as reader:
        [estimated] = [one.epsilon_estimate for one in reader.overview(latest=None).datasets if one.state.name == name]
        return estimated


def test_it_composes_what_was_charged_and_not_given_back(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.add("other")
    assert estimate(books) == 0
    books.charge("one")
    assert estimate(books) == books.spent()[0]
    for number in range(11):
        books.charge(f"more-{number}")
    books.charge("given-back")
    books.abandon("given-back")
    books.charge("of-another", dataset="other")
    books.register("of-another", dataset="other")
    mechanism = books.request().mechanism
    together = composed_price_fixed(mechanism, delta=12 * books.price.delta, releases=12)
    assert abs(estimate(books) - together.epsilon) < Decimal("1e-6")
    assert estimate(books) < books.spent()[0] / 4


def test_a_series_counts_whole_from_its_registration_and_its_releases_not_again(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    registered = books.register(releases=12)
    before = estimate(books)
    assert abs(before - registered.price.epsilon) < Decimal("1e-6")
    books.writer().charge(books.of_series("one", releases=12))
    assert estimate(books) == before
    books.charge("ad-hoc")
    together = composed_price_fixed(books.request().mechanism, delta=2 * books.price.delta, releases=13)
    assert abs(estimate(books) - together.epsilon) < Decimal("1e-6")
    assert estimate(books) < books.spent()[0]


def test_it_is_no_obstacle_where_it_can_not_be_had(sqlite_books, monkeypatch) -> None:
    books = sqlite_books
    books.add()
    books.charge("one")
    with books.reader() as reader:
        [dataset] = reader.datasets()
    known = books.request().entry.mechanism
    for mechanism in ((("kind", "something-else/7"),), TOO_LARGE):
        assert composed_estimate(Counter([mechanism]), account=dataset.account, rows_per_person=1) is None
    assert composed_estimate(Counter([known]), account=dataset.account, rows_per_person=2) is None
    assert composed_estimate(Counter([known]), account=dataset.account, rows_per_person=1) is not None
    monkeypatch.setattr(odometer, "MOST_WORK", 0)
    assert composed_estimate(Counter([known]), account=dataset.account, rows_per_person=1) is None
