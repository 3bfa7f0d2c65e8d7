"""A filter budget against an adversary who picks each k, rate, tail and size of a group by the outcomes before it.

Exactly, in fractions: every way to go on is tried, and what it reaches is compared with (E, D)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import comb

import pytest
from crowdblend.accounting.kernel.prices.arithmetic import decimal_up
from crowdblend.accounting.kinds.composition import renyi_divergence, renyi_filter
from crowdblend.accounting.kinds.composition.finite_losses import FiniteLosses
from crowdblend.accounting.kinds.composition.renyi_filter import (
    FilterCost,
    FilterTerms,
    conversion_loss,
    filter_cost,
    fits,
)
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

pytestmark = pytest.mark.slow

RELEASES = tuple(
    StronglySafeRelease(k=k, sampling_rate=Decimal(rate)) for k, rate in ((4, "0.2"), (3, "0.1"), (5, "0.25"))
)
ANSWER = CountAnswer(epsilon=Decimal("0.1"), groups=1, sampling_rate=None, relation="add/remove")
SIZES = (4, 7, 12)

SHARP = FilterTerms(
    epsilon=Decimal(1), delta=Decimal("1e-6"), order=Decimal(30), tail_delta=Decimal("3e-7"), tail_each=Decimal("3e-7")
)
UNIT = 10**18


@dataclass(frozen=True)
class Move:
    """What may be released next: its cost, and for each size of the group its outcomes' laws with and without t."""

    cost: FilterCost
    laws: tuple[tuple[tuple[Fraction, Fraction], ...], ...]


def suppressed(k, rate, n):
    """The law of a count of n records, each kept with probability `rate`, all counts below k together."""
    law = [comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1)]
    return [sum(law[:k]), *law[k:]]


@cache
def laws(mechanism):
    """For each size of the group the outcomes' probabilities with and without the person, exactly."""
    if isinstance(mechanism, CountAnswer):
        # A pure answer is at most a coin whose ratios are e^ε and e^{−ε}, here of a rational number just below.
        growth = Fraction(mechanism.epsilon.exp()) * (1 - Fraction(1, 10**12))
        likely = growth / (1 + growth)
        return (((likely, 1 - likely), (1 - likely, likely)),)
    k, rate = mechanism.k, Fraction(mechanism.sampling_rate)
    pairs = []
    for n in SIZES:
        present, absent = suppressed(k, rate, n), suppressed(k, rate, n - 1)
        absent += [Fraction(0)] * (len(present) - len(absent))
        pairs.append(tuple(zip(present, absent, strict=True)))
    return tuple(pairs)


def of_releases(terms, tails):
    return [
        Move(filter_cost(mechanism, order=terms.order, tail=Decimal(tail)), laws(mechanism))
        for mechanism in (*RELEASES, ANSWER)
        for tail in tails
    ]


def of_pair(likelier, loss, tail=0, terms=SHARP):
    """A coin that shows heads with a probability `likelier` with the person, and e^{loss} times less often without."""
    heads = round(likelier * UNIT)
    other = 0 if loss is None else round(heads / Fraction(Decimal(loss).exp()))
    part = FiniteLosses(outcomes=((heads, other), (UNIT - heads, UNIT - other)), total=UNIT, times=1)
    divergence = renyi_divergence.step_divergence(part, float(terms.order), float(tail))
    assert divergence is not None
    cost = FilterCost(
        divergence=decimal_up(divergence), tail=Decimal(tail), rule=renyi_filter.RULE, relation="add/remove"
    )
    law = tuple((Fraction(ahead, UNIT), Fraction(behind, UNIT)) for ahead, behind in part.outcomes)
    return Move(cost, (law,))


def sharp_moves():
    """Coins at which the conversion of a divergence is sharp, in one release and in two, and one that is all tail."""
    return [
        of_pair(Fraction("2.07e-5"), "1.0339"),
        of_pair(Fraction("7.26e-5"), "0.6567"),
        of_pair(Fraction("0.41"), "0.377"),
        of_pair(Fraction(SHARP.tail_delta) * (1 - Fraction(1, 10**9)), None, tail=SHARP.tail_delta),
        of_pair(Fraction("9.999e-7"), None, tail=Decimal("9.9991e-7")),
    ]


def reached(terms, moves, times, *, allowed=fits, adding=True):
    """The most that the adversary reaches of δ in so many releases, and what it had spent then."""
    growth = Fraction(terms.epsilon.exp()) * (1 - Fraction(1, 10**20))

    def best(ratio, spent, left):
        if ratio is None:
            return Fraction(1)
        most = max(Fraction(0), 1 - growth / ratio)
        if left == 0:
            return most
        for move in moves:
            costs = (*spent, move.cost)
            if not allowed(terms, costs):
                continue
            for law in move.laws:
                value = Fraction(0)
                for pair in law:
                    ahead, behind = pair if adding else pair[::-1]
                    if ahead:
                        value += ahead * best(ratio * ahead / behind if behind else None, costs, left - 1)
                most = max(most, value)
        return most

    return best(Fraction(1), (), times)


@pytest.mark.parametrize(
    ("epsilon", "delta", "order", "tail_delta", "tails", "times", "near"),
    [
        ("0.5", "0.02", "6", "0.01", ("0.003", "0.005"), 2, "0.5"),
        ("0.4", "0.02", "8", "0.006", ("0.003",), 2, "0.5"),
        ("0.4", "0.012", "8", "0.006", ("0.003",), 3, "0.3"),
    ],
)
def test_an_adversary_among_releases_never_gets_above_the_budget(epsilon, delta, order, tail_delta, tails, times, near):
    terms = FilterTerms(
        epsilon=Decimal(epsilon),
        delta=Decimal(delta),
        order=Decimal(order),
        tail_delta=Decimal(tail_delta),
        tail_each=Decimal(tail_delta),
    )
    moves = of_releases(terms, tails)
    both = [reached(terms, moves, times, adding=adding) for adding in (True, False)]
    assert max(both) <= Fraction(terms.delta)
    assert max(both) >= Fraction(near) * Fraction(terms.delta)


def test_the_budget_is_sharp_and_never_passed():
    moves = sharp_moves()
    for adding in (True, False):
        assert reached(SHARP, moves, 3, adding=adding) <= Fraction(SHARP.delta)
    assert reached(SHARP, moves, 3) >= Fraction("0.97e-6")


def moment_after_cut(pairs, order, tail):
    """Σ P′^α·Q^{1−α} with P′ = min(P, λ·Q) and λ such that exactly τ is cut off; all in fractions."""
    above, other = sum(ahead for ahead, behind in pairs if not behind) - tail, Fraction(0)
    assert above <= 0
    rest = sorted(((ahead / behind, ahead, behind) for ahead, behind in pairs if behind), reverse=True)
    while rest and above + rest[0][1] - rest[0][0] * (other + rest[0][2]) <= 0:
        _, ahead, behind = rest.pop(0)
        above, other = above + ahead, other + behind
    cap = rest[0][0] if rest else Fraction(0)
    if other:
        cap = max(cap, above / other)
    return sum(((min(ratio, cap)) ** order * behind for ratio, _, behind in rest), Fraction(0)) + cap**order * other


@pytest.mark.parametrize(("k", "rate", "order", "tail"), [(4, "0.2", 5, "0.01"), (6, "0.25", 12, "0.001")])
def test_a_divergence_is_above_the_exact_one_of_every_size_and_near_the_largest(k, rate, order, tail):
    release = StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
    found = filter_cost(release, order=Decimal(order), tail=Decimal(tail)).divergence
    largest = Decimal(0)
    for n in range(1, 70):
        present, absent = suppressed(k, Fraction(rate), n), suppressed(k, Fraction(rate), n - 1)
        absent += [Fraction(0)] * (len(present) - len(absent))
        for sides in ((present, absent), (absent, present)):
            moment = moment_after_cut([pair for pair in zip(*sides, strict=True) if any(pair)], order, Fraction(tail))
            exact = (Decimal(moment.numerator) / Decimal(moment.denominator)).ln() / (order - 1)
            largest = max(largest, exact)
    assert largest <= found <= Decimal("1.02") * largest


def running(terms, costs):
    """The allowance by what the tails have spent so far: what must not be done."""
    tails = sum(cost.tail for cost in costs)
    left = terms.delta - tails
    return left > 0 and sum(cost.divergence for cost in costs) <= terms.epsilon - conversion_loss(terms.order, left)


def test_a_bound_that_follows_the_tails_spent_so_far_is_passed():
    assert reached(SHARP, sharp_moves(), 2, allowed=running) >= Fraction("1.9e-6")


def test_tails_that_are_not_counted_are_found():
    free = [replace(move, cost=replace(move.cost, tail=Decimal(0))) for move in sharp_moves()]
    assert reached(SHARP, free, 3) > Fraction(SHARP.delta)


def test_one_direction_alone_is_found(monkeypatch):
    both = renyi_divergence._covers
    monkeypatch.setattr(renyi_divergence, "_covers", lambda part, negligible: both(part, negligible)[-1:])
    renyi_divergence.step_divergence.cache_clear()
    moves = sharp_moves()
    renyi_divergence.step_divergence.cache_clear()
    assert reached(SHARP, moves, 3) > Fraction(SHARP.delta)


def test_infinite_losses_that_are_left_out_are_found(monkeypatch):
    whole = renyi_divergence._covers
    monkeypatch.setattr(
        renyi_divergence,
        "_covers",
        lambda part, negligible: tuple(one._replace(infinite=0 * one.infinite) for one in whole(part, negligible)),
    )
    renyi_divergence.step_divergence.cache_clear()
    sure = of_pair(Fraction("9e-7"), None)
    renyi_divergence.step_divergence.cache_clear()
    assert reached(SHARP, [sure], 3) > Fraction(SHARP.delta)


def test_an_order_that_is_chosen_afterwards_is_found():
    """Two orders at each of which the budget would have held; what fits at one of them is released."""
    lower = replace(SHARP, order=Decimal(15))
    coins = [("7.26e-5", "0.6567"), ("0.285", "0.377"), ("5.4e-6", "1.069")]
    here, there = ([of_pair(Fraction(heads), loss, terms=terms) for heads, loss in coins] for terms in (SHARP, lower))
    tail = sharp_moves()[3]
    at_lower = {one.cost: other.cost for one, other in zip(here, there, strict=True)} | {tail.cost: tail.cost}

    def either(terms, costs):
        return fits(terms, costs) or fits(lower, [at_lower[cost] for cost in costs])

    for terms, moves in ((SHARP, here), (lower, there)):
        assert reached(terms, [*moves, tail], 3) <= Fraction(terms.delta)
    assert reached(SHARP, [*here, tail], 3, allowed=either) > Fraction("1.3e-6")
