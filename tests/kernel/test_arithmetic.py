"""Arithmetic to its last digits: Stirling's remainder, deviances, decimals and doubles rounded to their side."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kernel.prices import arithmetic
from crowdblend.accounting.kernel.prices.arithmetic import (
    ABOVE,
    BELOW,
    PRICE_DIGITS,
    ULP,
    add_down,
    add_up,
    bisected,
    decimal_down,
    decimal_up,
    divide_down,
    divide_up,
    exact_log_down,
    exp_up,
    float_down,
    float_up,
    least_epsilon,
    log_binomial_pmf,
    log_down,
    log_up,
    multiply_down,
    multiply_up,
    sum_margin,
)
from crowdblend.accounting.kinds.composition.robust_counts import tail_up
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(90):
        yield


def test_margins_are_the_roundings_that_they_cover():
    """Eight units in the last place: docs/proofs/floating-point.md. A sum of m terms: m, and 64 for each of them."""
    assert (ABOVE, BELOW) == (1 + 2**-49, 1 - 2**-49)
    assert (sum_margin(0), sum_margin(1000)) == (1 + 64 * ULP, 1 + 1064 * ULP)


def test_a_binomial_of_no_trials_is_0():
    (log,), (error,) = log_binomial_pmf(np.zeros(1), np.zeros(1), 0.3)
    assert log == 0.0
    assert 0.0 <= error <= 4 * ULP


@pytest.mark.parametrize("n", [*range(1, 41), 300, 10**6, 2**52 - 1])
def test_stirlings_remainder_is_right_to_2e_17_in_its_table_and_its_series(n):
    """The sixth term of the series is 5.6e-17 at 17, the first number beyond the table."""
    log_power = (n + mpmath.mpf("0.5")) * mpmath.log(n)
    truth = mpmath.loggamma(n + 1) - (log_power - n + mpmath.log(2 * mpmath.pi) / 2)
    (found,) = arithmetic._stirling_error(np.array([float(n)]))
    assert abs(mpmath.mpf(float(found)) - truth) < mpmath.mpf("2e-17")


@pytest.mark.parametrize("n", [1, 2, 16, 17, 300])
@pytest.mark.parametrize("p", [1e-9, 0.25, 0.999])
def test_a_logarithm_of_a_binomial_mass_is_within_its_error_for_every_count(n, p):
    counts = np.unique(np.append(np.arange(min(n + 1, 20)), [n - 1, n])).astype(float)
    for j, value, error in zip(counts, *log_binomial_pmf(counts, np.full(counts.shape, float(n)), p), strict=True):
        rate = mpmath.mpf(p)
        truth = mpmath.log(mpmath.binomial(n, int(j))) + j * mpmath.log(rate) + (n - j) * mpmath.log(1 - rate)
        assert abs(mpmath.mpf(float(value)) - truth) <= error <= 1e-13 * (abs(value) + 1) + 1e-13


@pytest.mark.parametrize("x", ["1.0000000001", "1.7", "12345.678", "9e99"])
def test_logarithms_and_powers_are_bounds_on_their_sides_to_58_digits(x):
    value, exact = Decimal(x), mpmath.mpf(x)
    truth, tiny = mpmath.log(exact), mpmath.mpf("1e-58")
    assert truth <= mpmath.mpf(str(log_up(value))) <= truth * (1 + tiny)
    assert truth * (1 - tiny) <= mpmath.mpf(str(exact_log_down(value))) <= truth
    part = divide_down(Decimal(1), value)
    below = mpmath.log(mpmath.mpf(str(part)))
    assert below * (1 + tiny) <= mpmath.mpf(str(exact_log_down(part))) <= below
    for exponent in (Decimal("1e-9"), Decimal("-3.3"), Decimal("44.5")):
        power = mpmath.exp(mpmath.mpf(str(exponent)))
        assert power <= mpmath.mpf(str(exp_up(exponent))) <= power * (1 + tiny)
    assert (log_up(Decimal(1)), exact_log_down(Decimal(1)), exp_up(Decimal(0))) == (0, 0, 1)
    double = log_down(value)
    assert mpmath.mpf(double) <= truth <= mpmath.mpf(math.nextafter(double, math.inf))
    assert math.nextafter(log_down(Decimal("1e-999999")), 0.0) > -999999 * math.log(10) * (1 + 1e-15)


def test_sums_products_and_quotients_beyond_60_digits_are_rounded_to_their_sides():
    third, two = divide_down(Decimal(1), Decimal(3)), Decimal(2)
    assert str(third) == "0." + 60 * "3"
    assert str(divide_up(Decimal(1), 3)) == "0." + 59 * "3" + "4"
    assert str(divide_down(two, 3)) == "0." + 60 * "6"
    assert str(divide_up(two, 3)) == "0." + 59 * "6" + "7"
    assert str(add_up(1, third)) == "1." + 58 * "3" + "4"
    assert str(add_down(1, third)) == "1." + 59 * "3"
    assert str(multiply_up(third, Decimal("0.1"))) == "0.0" + 60 * "3"
    with decimal.localcontext(prec=130):
        square = third * third
        assert multiply_down(third, third) < square < multiply_up(third, third)
        assert multiply_up(third, third) - multiply_down(third, third) == Decimal("1e-60")


def test_amounts_have_twelve_digits_rounded_to_their_sides():
    assert decimal_up(Decimal("0.1234567890121")) == Decimal("0.123456789013")
    assert decimal_down(Decimal("0.1234567890129")) == Decimal("0.123456789012")
    assert decimal_up(Decimal("1e-400000")) == Decimal("1e-400000")
    assert decimal_up(0.1) == Decimal("0.100000000001")
    assert decimal_up(Decimal(0)) == 0


@pytest.mark.parametrize(("least", "trials", "p"), [(1, 1, 0.25), (3, 5, 0.125), (40, 60, 0.25), (900, 1000, 0.5)])
def test_a_tail_is_its_geometric_series(least, trials, p):
    first = mpmath.binomial(trials, least) * mpmath.mpf(p) ** least * mpmath.mpf(1 - p) ** (trials - least)
    ratio = mpmath.mpf(trials - least) * p / ((least + 1) * (1 - mpmath.mpf(p)))
    found = tail_up(least, trials, p)
    assert first / (1 - ratio) < found <= first / (1 - ratio) * (1 + mpmath.mpf("1e-11"))


@settings(max_examples=300, derandomize=True)
@given(st.floats(0.0, 1e300))
def test_rounding_up_never_goes_down_and_by_little(amount):
    rounded = decimal_up(amount)
    assert rounded >= Decimal(amount)
    assert len(rounded.as_tuple().digits) <= PRICE_DIGITS
    assert rounded <= Decimal(amount) * Decimal("1.00000000001")


@settings(max_examples=300, derandomize=True)
@given(st.decimals("1e-300", "1e10", allow_nan=False, allow_infinity=False))
def test_conversions_to_doubles_bracket_the_decimal(amount):
    assert Decimal(float_down(amount)) <= amount <= Decimal(float_up(amount))
    assert math.nextafter(float_down(amount), math.inf) >= float_up(amount)
    if amount > 0:
        with decimal.localcontext() as context:
            context.prec = 50
            assert Decimal(log_down(amount)) <= amount.ln()


@pytest.mark.parametrize("amount", [-1.0, math.inf, math.nan])
def test_what_is_no_amount_is_refused(amount):
    with pytest.raises(ValueError, match="amount"):
        decimal_up(amount)
    with pytest.raises(ValueError, match="logarithm"):
        log_down(Decimal(0))


def test_a_search_of_no_width_ends_between_neighbouring_doubles():
    """A step for each of the 52 binary places between 1 and 2; an answer at a bound is given back as it is."""
    for answer in (1.0 + ULP, 1.1, 2.0 - ULP, 2.0):
        asked = []

        def holds(number, *, answer=answer, asked=asked):
            asked.append(number)
            return number >= answer

        assert bisected(holds, 1.0, 2.0, width=0.0) == answer
        assert len(asked) == 52


@pytest.mark.parametrize("answer", [1e-40, 1e-17, 1e-3, 0.9, 1.0, 1.1, 7.9, 8.0, 15.9, 16.0])
def test_the_least_epsilon_has_been_evaluated_and_is_near(answer):
    asked = []

    def curve(epsilon):
        asked.append(epsilon)
        return 0.1 if epsilon >= answer else 0.2

    found = least_epsilon(curve, 0.1, high=16.0)
    assert answer <= found <= answer + 1e-12 * max(answer, 1e-3) * 1.001
    assert found in asked
    assert len(asked) <= 62
    assert answer <= 1.0 or least_epsilon(curve, 0.1, high=answer / 2.1) is None
    assert least_epsilon(lambda _: 0.1, 0.1, high=16.0) == 0.0
