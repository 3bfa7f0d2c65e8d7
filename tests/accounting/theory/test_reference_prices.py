"""Prices stay what they are: a rule has a version, and what it charged once is computed again by whoever verifies it.

The prices below were found once. Their grids, blocks and cuts are free to choose, but then belong to the rule. Margins
of rounding are far below the digits of a price: here they are seen by a unit of rounding that is made much larger.
"""

from __future__ import annotations

import inspect
import math
from decimal import Decimal

import mpmath
import pytest
from crowdblend.accounting.descriptions.zero_knowledge import delta_zero_knowledge, epsilon_zero_knowledge_robust
from crowdblend.accounting.kernel.field_forms import TOLERANCE
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.composition import (
    amplification,
)
from crowdblend.accounting.kinds.composition.amplification import Guarantee, amplified
from crowdblend.accounting.kinds.composition.composed import delta_composed, epsilon_composed
from crowdblend.accounting.kinds.composition.renyi_filter import FilterTerms, conversion_loss, filter_cost
from crowdblend.accounting.kinds.composition.series_game import delta_of_game, epsilon_of_game
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, OptimalDeletion
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease


def release(k, rate):
    return StronglySafeRelease(k=k, sampling_rate=Decimal(rate))


USUAL, SMALL, RARE = release(20, "0.1"), release(4, "0.2"), release(5, "0.01")
ANSWER = Guarantee(epsilon=Decimal("0.1"), delta=Decimal("1e-9"))
WIDE = DeletionRelease(stages=3, k=5, noise=GaussianDeletion(scale=Decimal(16), width=85))
OPTIMAL = DeletionRelease(stages=1, k=5, noise=OptimalDeletion(epsilon=Decimal("0.5"), delta=Decimal("1e-6")))
MILLIONTH = Decimal("1e-6")


def all_by_name(module):
    """Whether every argument of a module's functions can be given by its name, so that none is taken for another."""
    functions = [one for _, one in inspect.getmembers(module, inspect.isfunction) if one.__module__ == module.__name__]
    parameters = [one for function in functions for one in inspect.signature(function).parameters.values()]
    return bool(parameters) and all(one.kind is not one.POSITIONAL_ONLY for one in parameters)


def game(mechanism, releases, delta):
    composed = epsilon_composed({mechanism: releases}, delta=delta)
    return epsilon_of_game(mechanism, releases=releases, delta=delta, composed=composed)


def filtered(mechanism, order, tail):
    return float(filter_cost(mechanism, order=Decimal(order), tail=Decimal(tail)).divergence)


PRICES = [
    (lambda: epsilon_composed({USUAL: 2}, delta=1e-6), 0.22070210539793825),
    (lambda: epsilon_composed({USUAL: 12}, delta=1e-6), 0.4216461961698772),
    (lambda: epsilon_composed({USUAL: 365}, delta=1e-6), 2.225155969608447),
    (lambda: epsilon_composed({SMALL: 2}, delta=0.02), 0.3420494458042912),
    (lambda: epsilon_composed({RARE: 3}, delta=1e-5), 0.07645178196263686),
    (lambda: epsilon_composed({release(100, "0.5"): 40}, delta=1e-8), 2.6032251039565804),
    (lambda: epsilon_composed({ANSWER: 5}, delta=1e-6), 0.4999754620087704),
    (lambda: epsilon_composed({USUAL: 3, ANSWER: 4}, delta=1e-6), 0.5890737475457392),
    (lambda: delta_composed({USUAL: 12}, epsilon=0.5), 7.324268848274423e-08),
    (lambda: delta_composed({release(50, "0.1"): 20}, epsilon=0.8), 4.314244283179079e-20),
    (lambda: game(USUAL, 2, 1e-6), 0.2081549999880423),
    (lambda: game(SMALL, 2, 0.02), 0.3103949970245813),
    (lambda: game(release(6, "0.5"), 2, 0.1), 0.3306595724478204),
    (lambda: game(RARE, 5, 1e-6), 0.17020050071840948),
    (lambda: delta_of_game(USUAL, releases=12, epsilon=0.4216461961698772, resolution=1e-6), 8.976264408056416e-08),
    (lambda: filtered(USUAL, 20, "1e-8"), 0.00551394385646),
    (lambda: filtered(SMALL, 5, "0.01"), 0.0157437957640),
    (lambda: filtered(release(6, "0.5"), 30, "0.02"), 0.891726666410),
    (lambda: filtered(release(2, "1e-6"), 3000, "1e-9"), 4.52571790529e-9),
    (lambda: filtered(release(20_000, "0.3"), 12, "1e-9"), 0.0000386492250219),
    (lambda: filtered(WIDE, 20, "1e-3"), 0.105986075529),
    (lambda: filtered(OPTIMAL, 20, "1e-5"), 0.471888002643),
    (lambda: price(USUAL, delta=MILLIONTH, rows_per_person=2).epsilon, 0.402713889092),
    (lambda: price(USUAL, delta=MILLIONTH, rows_per_person=5).epsilon, 1.16103812120),
]


@pytest.mark.parametrize("place", range(len(PRICES)))
def test_a_price_is_found_again_to_what_a_ledger_tolerates(place):
    found, before = PRICES[place]
    assert float(found()) == pytest.approx(before, rel=float(TOLERANCE))


def rounded_up(found, truth, digits):
    """Whether a decimal is the least one of so many digits that is not below the truth, or within two of it."""
    unit = Decimal(1).scaleb(found.adjusted() - digits + 1)
    return 0 <= mpmath.mpf(str(found)) - truth < 2 * mpmath.mpf(str(unit))


@pytest.mark.parametrize("order", ["1.7", "12.5", "3000"])
@pytest.mark.parametrize("delta", ["1e-9", "0.3"])
def test_the_conversion_of_a_divergence_is_rounded_up_at_its_last_digits(order, delta):
    with mpmath.workdps(90):
        alpha, rest = mpmath.mpf(order), mpmath.mpf(delta)
        truth = mpmath.log((alpha - 1) / alpha) - (mpmath.log(rest) + mpmath.log(alpha)) / (alpha - 1)
        assert rounded_up(conversion_loss(Decimal(order), Decimal(delta)), truth, 57)
        terms = FilterTerms(
            epsilon=Decimal(40),
            delta=2 * Decimal(delta),
            order=Decimal(order),
            tail_delta=Decimal(delta),
            tail_each=Decimal(delta),
        )
        assert rounded_up(terms.allowance.copy_negate(), truth - 40, 12)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.7", "1e-6"), ("1e-9", "0"), ("5", "0.7")])
@pytest.mark.parametrize(("before", "after"), [("1", "0.3"), ("0.3", "0.07"), ("0.3", "1e-15")])
def test_amplification_is_rounded_up_at_its_last_digit(epsilon, delta, before, after):
    found = amplified(
        Guarantee(epsilon=Decimal(epsilon), delta=Decimal(delta)), from_rate=Decimal(before), to_rate=Decimal(after)
    )
    with mpmath.workdps(90):
        share = mpmath.mpf(after) / mpmath.mpf(before)
        assert rounded_up(found.epsilon, mpmath.log1p(share * mpmath.expm1(mpmath.mpf(epsilon))), 12)
        assert found.delta == 0 if delta == "0" else rounded_up(found.delta, share * mpmath.mpf(delta), 12)
    assert all_by_name(amplification)


@pytest.mark.parametrize(("epsilon", "rates"), [("0", ("0.1", "0.1", "0.1")), ("0.5", ("0.1", "0.15", "0.4"))])
def test_a_zero_knowledge_price_is_rounded_up_at_its_last_digit(epsilon, rates):
    low, high, top = rates
    found = epsilon_zero_knowledge_robust(
        Decimal(epsilon), lowest_rate=Decimal(low), highest_rate=Decimal(high), largest_rate=Decimal(top)
    )
    with mpmath.workdps(90):
        p, q, most = (mpmath.mpf(rate) for rate in rates)
        growth = most * q * (1 - p) * (2 - p) / (p * (1 - q) ** 2) * mpmath.exp(mpmath.mpf(epsilon))
        assert rounded_up(found, mpmath.log(growth + 1 - most), 12)


@pytest.mark.parametrize(("k", "p"), [(2, 0.25), (7, 0.125), (12, 0.3125), (4, 0.9375)])
def test_the_delta_of_a_crowd_is_raised_by_the_error_of_the_library_and_no_more(k, p):
    """SciPy's tails are assumed to err by less than 1e-10 (docs/proofs/floating-point.md)."""
    found = delta_zero_knowledge(k=k, sampling_rate=Decimal(p))
    with mpmath.workdps(40):
        rate, largest = mpmath.mpf(p), mpmath.mpf(0)
        for n in range(k - 1, 8 * k):
            masses = [mpmath.binomial(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1)]
            largest = max(largest, rate * mpmath.fsum(masses[max(k - 1, math.floor((n + 1) * rate * (2 - rate))) :]))
        assert largest < mpmath.mpf(str(found)) <= largest * (1 + mpmath.mpf("1.1e-10"))


def test_where_a_crowd_is_at_a_tie_the_larger_one_is_taken():
    """Three quarters of four records are three: in doubles, the crowd at which that is the threshold is not sure."""
    assert delta_zero_knowledge(k=3, sampling_rate=Decimal("0.5")) == pytest.approx(
        Decimal("0.25"), rel=Decimal("1e-9")
    )


def test_a_delta_that_no_double_holds_is_rounded_up_to_one_and_a_search_too_long_is_refused():
    assert delta_zero_knowledge(k=5_000, sampling_rate=Decimal("0.1")) == Decimal("4.94065645842E-324")
    with pytest.raises(InputRefused, match=r"with k = 16777217 at sampling rate 0\.1 is too long"):
        delta_zero_knowledge(k=(1 << 24) + 1, sampling_rate=Decimal("0.1"))
    assert delta_zero_knowledge(k=1 << 24, sampling_rate=Decimal("0.1")) > 0
    with pytest.raises(InputRefused, match="leaves no crowd outside the sample"):
        delta_zero_knowledge(k=2, sampling_rate=Decimal("0.9999991"))
