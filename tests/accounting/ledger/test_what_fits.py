"""A refusal for a budget that would be passed says what is left and what would fit; that fits, and no more does."""

from __future__ import annotations

import dataclasses
import re
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.ledger.ledger_state import Account
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.ledger.charge_request import RECORDS
from crowdblend.accounting.ledger.refusals import what_fits
from crowdblend.mechanisms.kernel.amounts import amount_left
from crowdblend.mechanisms.kernel.errors import AccountantRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

DELTA = Decimal("1e-6")


def asked(books, release_id: str, mechanism: StronglySafeRelease):
    """The charge of a release of a mechanism, at the tests' δ."""
    paper = paper_price(mechanism, delta=DELTA)
    return books.request(
        release_id,
        mechanism=mechanism,
        price=price(mechanism, delta=DELTA),
        epsilon_paper=None if paper is None else paper.epsilon,
    )


def refused(books, mechanism: StronglySafeRelease) -> str:
    with books.reader() as reader:
        cost = price(mechanism, delta=DELTA)
        refusal = reader.check_charge(dataset="census", mechanism=mechanism, price=cost, unit=RECORDS)
    assert refusal is not None
    with pytest.raises(AccountantRefused) as charged:
        books.writer().charge(asked(books, "too-much", mechanism))
    assert charged.value.message == refusal.message, "a look tells what a charge would"
    return charged.value.message


def test_the_rate_and_the_k_that_are_named_fit_and_the_next_do_not(sqlite_books) -> None:
    books = sqlite_books
    books.add(epsilon=Decimal("0.3"), delta=Decimal("1e-5"))
    books.charge("one")
    mechanism = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    said = refused(books, mechanism)
    left = Decimal("0.3") - books.price.epsilon
    assert f"Left are ε = {amount_left(left)} and δ = 9e-6. With all else as it is, a sampling rate" in said
    rate = Decimal(re.search(r"sampling rate of at most ([0-9.]+[0-9])", said)[1])
    k = int(re.search(r"k of at least ([0-9]+)", said)[1])
    step = Decimal(1).scaleb(rate.adjusted() - 4)
    for fits, not_any_more in (
        (dataclasses.replace(mechanism, sampling_rate=rate), dataclasses.replace(mechanism, sampling_rate=rate + step)),
        (dataclasses.replace(mechanism, k=k), dataclasses.replace(mechanism, k=k - 1)),
    ):
        assert price(fits, delta=DELTA).epsilon <= left < price(not_any_more, delta=DELTA).epsilon
        with books.reader() as reader:
            cost = price(fits, delta=DELTA)
            assert reader.check_charge(dataset="census", mechanism=fits, price=cost, unit=RECORDS) is None
    books.writer().charge(asked(books, "two", dataclasses.replace(mechanism, sampling_rate=rate)))


def test_where_delta_is_short_or_nothing_is_left_that_is_said(sqlite_books) -> None:
    mechanism = (("k", 20), ("kind", "strongly-safe-release/1"), ("sampling_rate", "0.1"))
    cost = sqlite_books.request().entry.price
    short = Account(
        epsilon_spent=Decimal(0), delta_spent=Decimal("5e-7"), epsilon_budget=Decimal(1), delta_budget=DELTA
    )
    said = what_fits(short, cost, mechanism=mechanism, rows_per_person=1)
    assert "[privacy].delta = 5e-7 and a sampling rate of at most" in said
    nothing = dataclasses.replace(short, epsilon_spent=Decimal(1), delta_spent=DELTA)
    assert "Left are ε = 0 and δ = 0. No rate and no k would fit." in what_fits(
        nothing, cost, mechanism=mechanism, rows_per_person=1
    )
    several = what_fits(short, cost, mechanism=mechanism, rows_per_person=2)
    assert several == "Left are ε = 1 and δ = 5e-7. Lower the rate, raise k, or ask the data owner."


def test_what_is_left_is_never_overstated() -> None:
    assert amount_left(Decimal("0.12345678")) == "0.123456"
    assert amount_left(Decimal("9.9999999e-7")) == "9.99999e-7"
    assert amount_left(Decimal(0)) == "0"
