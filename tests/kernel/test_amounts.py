"""Amounts add up exactly, whatever their sizes; what is shown to people never understates a cost."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from crowdblend.accounting.kernel.field_forms import amount_of_text, amount_text, require_amount
from crowdblend.accounting.kernel.ledger.ledger_state import Account
from hypothesis import given, settings
from hypothesis import strategies as st

quick = settings(derandomize=True, max_examples=150)
few, many = (
    st.builds(lambda digits, places: Decimal(f"{digits}e-{places}"), st.integers(0, digits), st.integers(least, 92))
    for digits, least in ((10**8, 0), (10**60, 60))
)
amounts = st.one_of(few, many)


def account(epsilon: Decimal, delta: Decimal) -> Account:
    return Account(epsilon_spent=Decimal(0), delta_spent=Decimal(0), epsilon_budget=epsilon, delta_budget=delta)


@quick
@given(st.lists(st.tuples(amounts, amounts), max_size=20))
def test_sums_are_exact(charges) -> None:
    spent = account(Decimal(1), Decimal(1))
    for epsilon, delta in charges:
        spent = spent.charged(epsilon=epsilon, delta=delta)
    assert Fraction(spent.epsilon_spent) == sum(Fraction(epsilon) for epsilon, _ in charges)
    assert Fraction(spent.delta_spent) == sum(Fraction(delta) for _, delta in charges)


@quick
@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_refunds_undo_charges_in_any_order(charges, shuffler) -> None:
    spent = account(Decimal(1), Decimal(1))
    for epsilon, delta in charges:
        spent = spent.charged(epsilon=epsilon, delta=delta)
    shuffler.shuffle(charges)
    for epsilon, delta in charges:
        spent = spent.refunded(epsilon=epsilon, delta=delta)
    assert (spent.epsilon_spent, spent.delta_spent) == (0, 0)


@quick
@given(amounts, amounts)
def test_the_boundary_is_within_and_one_step_more_is_not(epsilon, delta) -> None:
    step = Decimal(1).scaleb(-100)
    full = account(epsilon, delta).charged(epsilon=epsilon, delta=delta)
    assert full.within_budget
    assert (full.epsilon_left, full.delta_left) == (0, 0)
    assert full.spent_share == bool(epsilon or delta)
    assert account(Decimal(0), delta).charged(epsilon=step, delta=Decimal(0)).spent_share == 2
    assert Fraction(account(epsilon, delta).charged(epsilon=step, delta=step).epsilon_left) == max(
        Fraction(epsilon) - Fraction(step), 0
    )
    assert not full.charged(epsilon=step, delta=Decimal(0)).within_budget
    assert not full.charged(epsilon=Decimal(0), delta=step).within_budget
    over = full.charged(epsilon=step, delta=step)
    assert (over.epsilon_left, over.delta_left) == (0, 0)


def test_no_more_is_refunded_than_was_spent() -> None:
    with pytest.raises(ValueError, match="refunded"):
        account(Decimal(1), Decimal(1)).refunded(epsilon=Decimal("1e-9"), delta=Decimal(0))
    with pytest.raises(ValueError, match="refunded"):
        account(Decimal(1), Decimal(1)).refunded(epsilon=Decimal(0), delta=Decimal("1e-9"))


@quick
@given(amounts)
def test_an_amount_has_one_text(amount) -> None:
    text = amount_text(amount)
    assert amount_of_text(text) == amount
    assert text == amount_text(amount_of_text(text))
    assert "e" not in text.lower()


def test_of_what_is_no_amount_forty_characters_are_told() -> None:
    text = "1e" + "5" * 60
    with pytest.raises(ValueError, match=f"notation, not '{text[:40]}'$"):
        amount_of_text(text)


def test_amounts_go_up_to_a_billion() -> None:
    require_amount(Decimal(10) ** 9, "an amount")
    for amount in (Decimal("1000000000.1"), Decimal(9) ** 10):
        with pytest.raises(ValueError, match="from 0 to 10"):
            require_amount(amount, "an amount")


def test_amounts_have_up_to_a_hundred_decimal_places() -> None:
    require_amount(Decimal("1e-100"), "an amount")
    with pytest.raises(ValueError, match="at most 100 decimal places"):
        require_amount(Decimal("1e-101"), "an amount")
