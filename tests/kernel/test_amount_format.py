"""Amounts are written in one way, and never better than they are."""

from __future__ import annotations

from decimal import Decimal

import pytest
from crowdblend.mechanisms.kernel.amounts import amount_exact, amount_of_log10, amount_shown, counted
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.wording import (
    amount_left,
    double_left,
    exact_number,
    grouped,
    share_left_shown,
    share_shown,
    times_in,
)
from hypothesis import given
from hypothesis import strategies as st

AMOUNTS = st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("write", "shown"),
    [
        (
            amount_shown,
            "0=0 1=1 0.000001=1e-6 1E-7=1e-7 0.00010=0.0001 0.18298860992=0.182989 12345678=12345700 "
            "0.00000123456701=1.23457e-6 0.1234561=0.123457 0.9999991=1",
        ),
        (
            amount_exact,
            "0.0001=0.0001 0.00009999=9.999e-5 -0.00005=-5e-5 -0.5=-0.5 -2=-2 100=100 1E+3=1000 0E-20=0 10.50=10.5 "
            "0.000010=1e-5",
        ),
        (amount_left, "0.1234569=0.123456 1234567=1234560 0.3=0.3"),
        (
            lambda amount: amount_of_log10(float(amount)),
            "-1=0.1 -20=1e-20 -20.5=3.2e-21 -4000000=1e-4000000 0=1 2.5=320 -0.5=0.32",
        ),
    ],
    ids=["shown", "exact", "left", "of a power of ten"],
)
def test_an_amount_for_people(write, shown: str) -> None:
    for pair in shown.split():
        amount, _, text = pair.partition("=")
        assert write(Decimal(amount)) == text, pair
    assert amount_shown(0.00001) == "1e-5"


@given(AMOUNTS)
def test_costs_are_rounded_up_and_remainders_down(amount: Decimal) -> None:
    assert Decimal(amount_shown(amount)) >= amount >= Decimal(amount_left(amount))
    assert Decimal(amount_shown(amount)) <= amount * Decimal("1.00001")
    assert Decimal(amount_left(amount)) >= amount * Decimal("0.99999")
    assert Decimal(amount_exact(amount)) == amount
    assert Decimal(repr(double_left(amount))) <= amount


def test_a_double_is_rounded_down_where_the_nearest_one_lies_above() -> None:
    assert double_left(Decimal("0.5")) == double_left(Decimal("0.50")) == 0.5
    third = Decimal("0.33333333333333333")
    assert Decimal(repr(float(third))) <= third
    seventh = Decimal("0.14285714285714284921")
    assert Decimal(repr(float(seventh))) > seventh
    assert Decimal(repr(double_left(seventh))) < seventh


def test_numbers_are_taken_as_they_are_written() -> None:
    for number in (0.1, "0.1", Decimal("0.1")):
        assert exact_number("epsilon", number) == Decimal("0.1")
    assert exact_number("epsilon", 3) == 3
    for wrong in ("a tenth", "", True, float("nan"), float("inf"), Decimal("NaN")):
        with pytest.raises(InputRefused, match="epsilon is no number") as refused:
            exact_number("epsilon", wrong)
        assert refused.value.where == "epsilon"


@pytest.mark.parametrize(
    ("share", "spent", "left"),
    [
        ("0", "0 %", "0 %"),
        ("1", "100 %", "100 %"),
        ("0.0833333", "8.34 %", "8.33 %"),
        ("0.5", "50 %", "50 %"),
        ("0.0000000123456", "1.24e-6 %", "1.23e-6 %"),
        ("0.99999", "100 %", "99.9 %"),
        ("12.3456", "1240 %", "1230 %"),
    ],
)
def test_shares_are_rounded_as_costs_and_as_remainders(share: str, spent: str, left: str) -> None:
    assert (share_shown(Decimal(share)), share_left_shown(Decimal(share))) == (spent, left)
    assert (share_shown(float(share)), share_left_shown(float(share))) == (spent, left)


def test_how_often_an_amount_fits_into_what_is_left() -> None:
    for left, each, times in (
        ("1", "0.1", 10),
        ("0.99999999999999999999", "0.1", 9),
        ("0.3", "0.1", 3),
        ("0", "0.1", 0),
        ("-1", "0.1", 0),
        ("0.1", "0.2", 0),
        ("100", "1", 50),
        ("51", "1", 50),
        ("50", "1", 50),
        ("49.9", "1", 49),
        ("1", "0", 50),
        ("1", "-1", 50),
        ("1e-400", "1e-401", 10),
        ("1", "1e-999999", 50),
    ):
        assert times_in(Decimal(left), Decimal(each), most=50) == times, (left, each)


def test_plurals() -> None:
    assert counted(1, "release") == "1 release"
    assert counted(1200, "record") == "1,200 records"
    assert counted(0, "entry", "entries") == "0 entries"
    assert grouped(1234567.4) == "1\u202f234\u202f567"
