"""The parts of a group's price: splits on the grid, the chord between its points, its ends, and the even split."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kinds.composition import group_privacy
from crowdblend.accounting.kinds.composition.group_privacy import (
    best_split,
    even_split,
)
from crowdblend.mechanisms.kernel.errors import InputRefused


def step_at(place, below=-30.0):
    return lambda epsilons: np.where(epsilons >= place, below, 0.0)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(40):
        yield


@pytest.mark.parametrize("records", [1, 2, 4])
@pytest.mark.parametrize("largest", [0.25, 1.0, 2.0])
def test_the_farthest_epsilon_is_on_the_grid(largest, records):
    """A curve that falls at its very end: all of it is needed for every record."""
    found = best_split(step_at(largest, below=-100.0), delta=Decimal("1e-6"), records=records, largest_epsilon=largest)
    assert largest * records * (1 - 2**-9) < found <= largest * records
    never = best_split(step_at(largest * 1.001), delta=Decimal("1e-6"), records=records, largest_epsilon=largest)
    assert never is None


@pytest.mark.parametrize("points", [64, 1000, 1024])
@pytest.mark.parametrize("records", [1, 2, 5])
def test_a_split_of_a_power_law_is_no_less_than_the_best_and_near_it(records, points, monkeypatch):
    """δ(ε) = e^{−1−8ε} for each record: by the sum of a geometric series with equal terms the best split is known."""
    monkeypatch.setattr(group_privacy, "_POINTS", points)
    delta = Decimal("1e-4")
    found = best_split(lambda e: -1.0 - 8.0 * e, delta=delta, records=records, largest_epsilon=10.0)

    def least_delta(total, left):
        # ln of the least Σ, by ternary search for the first part.
        if left == 1:
            return math.exp(-1.0 - 8.0 * total)
        low, high = 0.0, total
        for _ in range(40):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            of_a = math.exp(-1.0 - 8.0 * a) + math.exp(a) * least_delta_cached(total - a, left - 1)
            of_b = math.exp(-1.0 - 8.0 * b) + math.exp(b) * least_delta_cached(total - b, left - 1)
            low, high = (low, b) if of_a < of_b else (a, high)
        return of_a

    # least_delta(total, m) = c_m·e^{−r_m·total}: read off twice, so that the recursion stays shallow.
    rates = {1: (-1.0, 8.0)}

    def least_delta_cached(total, left):
        constant, rate = rates[left]
        return math.exp(constant - rate * total)

    for m in range(2, records + 1):
        near, far = math.log(least_delta(5.0, m)), math.log(least_delta(6.0, m))
        rates[m] = (near + 5.0 * (near - far), near - far)
    constant, rate = rates[records]
    truth = (constant - math.log(float(delta))) / rate
    assert truth * (1 - 1e-7) <= found <= truth * (1 + 200.0 / points**2 + 1e-7)


@pytest.mark.parametrize("records", [1, 2, 6])
@pytest.mark.parametrize("constant", ["0", "0.3"])
def test_an_even_split_is_affordable_and_uses_nearly_all(records, constant):
    """With δ' ↦ ε' = c − ln(δ')/40 the group's δ is its definition at the share that was asked for last."""
    asked = []

    def inner(share):
        asked.append(share)
        return Decimal(constant) - share.ln() / 40

    delta = Decimal("1e-5")
    found, epsilon = even_split(inner, lambda price: price, delta=delta, records=records)
    assert asked[0] == pytest.approx(delta / records)
    assert records > 1 or asked == [delta]
    with localcontext(prec=60):
        used = asked[-1] * sum((found * place).exp() for place in range(records))
        assert found * records <= epsilon <= found * records * (1 + Decimal("1e-15"))
        assert delta * (1 - Decimal("3e-6")) <= used <= delta


def test_an_even_split_that_never_settles_is_refused():
    """Each smaller share costs a larger ε, without end."""
    shares = []

    def inner(share):
        shares.append(share)
        return Decimal(len(shares))

    with pytest.raises(InputRefused, match="up to 2 records"):
        even_split(inner, lambda price: price, delta=Decimal("1e-5"), records=2)
