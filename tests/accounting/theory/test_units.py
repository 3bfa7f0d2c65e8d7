"""What releases of different units cost, by exact enumeration: the reason why a budget covers one unit.

Under a limit of one record a household, whoever is missing may make another member's record count: of two members in
two groups each counts with probability 1/2, and the one who is left for sure. Each group has noise of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kinds.deletion_noise import WEIGHT_TOTAL, OptimalDeletion, deletion_weights
from crowdblend.mechanisms.kinds.mixed_series import series_of_parts

Law = Mapping[int, float]
FAR = 50


def geometric(epsilon: float) -> Law:
    """Two-sided geometric noise; both ends hold all that lies beyond."""
    alpha = math.exp(-epsilon)
    law = {z: (1 - alpha) / (1 + alpha) * alpha ** abs(z) for z in range(-FAR, FAR + 1)}
    law[-FAR] = law[FAR] = alpha**FAR / (1 + alpha)
    return law


def counts_of(noise: Law, *first: tuple[float, tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    """The law of the published counts of some groups: a mixture, by weights, of counts with noise each."""
    law: dict[tuple[int, ...], float] = {}
    for weight, counts in first:
        for drawn in product(noise.items(), repeat=len(counts)):
            outcome = tuple(count + z for count, (z, _) in zip(counts, drawn, strict=True))
            law[outcome] = law.get(outcome, 0.0) + weight * math.prod(mass for _, mass in drawn)
    return law


def delta_at(epsilon: float, here: Mapping, there: Mapping) -> float:
    """The larger of both directions' hockey-stick divergences."""
    growth, every = math.exp(epsilon), here.keys() | there.keys()
    return max(
        math.fsum(max(0.0, p.get(o, 0.0) - growth * q.get(o, 0.0)) for o in every)
        for p, q in ((here, there), (there, here))
    )


def epsilon_at(delta: float, here: Mapping, there: Mapping) -> float:
    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle, here, there) > delta else (low, middle)
    return high


def member_gone(noise: Law) -> tuple[dict, dict]:
    """A household of two in two groups, limit one; and the same without its first member."""
    with_both = counts_of(noise, (0.5, (1, 0)), (0.5, (0, 1)))
    return with_both, counts_of(noise, (1.0, (0, 1)))


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_a_member_under_a_households_limit_costs_more_than_the_pure_price(epsilon) -> None:
    """ln((1 + e^{2ε})/2), attained: neither a member nor anybody but the household is hidden at ε."""
    pair = member_gone(geometric(epsilon))
    true_cost = math.log((1 + math.exp(2 * epsilon)) / 2)
    assert epsilon_at(1e-9, *pair) == pytest.approx(true_cost, abs=1e-5)
    assert true_cost > 1.2 * epsilon
    household_gone = pair[0], counts_of(geometric(epsilon), (1.0, (0, 0)))
    assert epsilon_at(1e-9, *household_gone) < epsilon, "the household itself is hidden at its price"


def test_a_member_under_a_households_limit_costs_more_than_deletion_is_priced() -> None:
    noise = OptimalDeletion(epsilon=Decimal(1), delta=Decimal("1e-6"))
    law = {-z: float(Fraction(weight, WEIGHT_TOTAL)) for z, weight in enumerate(deletion_weights(noise))}
    pair = member_gone(law)
    assert delta_at(1.0, *pair) == pytest.approx(0.088, abs=5e-4)
    assert epsilon_at(1e-6, *pair) == pytest.approx(1.434, abs=5e-4)
    household_gone = pair[0], counts_of(law, (1.0, (0, 0)))
    assert delta_at(1.0, *household_gone) <= 1e-6 * (1 + 1e-9)


def both(first: Mapping, second: Mapping) -> dict:
    return {(a, b): p * q for (a, p), (b, q) in product(first.items(), second.items())}


def losses(here: Mapping, there: Mapping) -> Iterator[tuple[float, float]]:
    """The masses of both worlds where the likelihood ratio is the same: what a series' cost depends on."""
    alike: dict[float, list[float]] = {}
    for outcome in here.keys() | there.keys():
        p, q = here.get(outcome, 0.0), there.get(outcome, 0.0)
        if p > 1e-15 or q > 1e-15:
            masses = alike.setdefault(round(math.log(p / q), 9) if p > 0 and q > 0 else math.inf, [0.0, 0.0])
            masses[0] += p
            masses[1] += q
    return ((p, q) for p, q in alike.values())


def series_pair(*pairs: tuple[Mapping, Mapping]) -> tuple[dict, dict]:
    here, there = {(): 1.0}, {(): 1.0}
    for own, other in pairs:
        classes = dict(enumerate(losses(own, other)))
        here = both(here, {name: p for name, (p, _) in classes.items()})
        there = both(there, {name: q for name, (_, q) in classes.items()})
    return here, there


def test_two_releases_of_a_series_of_parts_with_different_units_cost_more_than_the_series() -> None:
    """ε = 0.5 each: one believes that each person has one record, one counts one record of each household."""
    charged = price(series_of_parts(["2 x epsilon=0.5"]), delta=Decimal("1e-6"), releases=2)
    assert float(charged.epsilon) == pytest.approx(0.999998, abs=1e-6)
    noise = geometric(0.5)
    believed = counts_of(noise, (1.0, (1,))), counts_of(noise, (1.0, (0,)))
    pair = series_pair(believed, member_gone(noise))
    assert epsilon_at(1e-6, *pair) == pytest.approx(0.5 + math.log((1 + math.e) / 2), abs=1e-3)  # 1.12
    assert delta_at(float(charged.epsilon), *pair) == pytest.approx(0.019, abs=5e-4)
    household = counts_of(noise, (1.0, (5,))), counts_of(noise, (1.0, (0,)))
    assert epsilon_at(1e-9, *series_pair(household, believed)) == pytest.approx(3.0, abs=1e-3)
    alike = series_pair(believed, believed)
    assert delta_at(float(charged.epsilon), *alike) <= 1e-6 * (1 + 1e-9), "of one unit the price holds"
