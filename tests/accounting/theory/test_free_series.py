"""What a release of a series with free columns may be, by an adversary with exact fractions; what breaks the price."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, pairwise
from math import comb

import pytest
from crowdblend.accounting.kernel.prices.registry import price, recorded_price
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.accounting.kinds.composition.composed import epsilon_composed
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import series_of_parts

pytestmark = pytest.mark.slow

K, RATE, SIZES = 2, Fraction(1, 2), range(1, 7)
FREER = [(k, rate) for k in (2, 3, 5) for rate in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 8))]
LOSSES = [Fraction(1), Fraction(5, 4), Fraction(2), Fraction(7, 2)]
"""Values of e^ε."""
Pair = tuple[tuple[Fraction, Fraction], ...]


@cache
def law(k, rate, n):
    """The law of the count that is published of a group of n: 0 stands for every count below k."""
    masses = [comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1)]
    return {0: sum(masses[:k], Fraction(0)), **{j: masses[j] for j in range(k, n + 1)}}


@cache
def pair(k, rate, n, adding) -> Pair:
    """What each outcome's probability is with and without one of n records."""
    present, absent = law(k, rate, n), law(k, rate, n - 1)
    both = [(present[j], absent.get(j, Fraction(0))) for j in present]
    return tuple(both if adding else [(q, p) for p, q in both])


def moves(mechanisms, *, adding):
    """What the adversary may pick: one of some mechanisms, and the size of the group."""
    return [pair(k, rate, n, adding) for k, rate in mechanisms for n in SIZES]


def reached(choices, times, factor, p=Fraction(1), q=Fraction(1)):
    """The δ at e^ε = `factor` that an adversary reaches who picks each release by the outcomes before it."""
    if times == 0:
        return max(Fraction(0), p - factor * q)
    return max(sum(reached(choices, times - 1, factor, p * a, q * b) for a, b in one if a) for one in choices)


def curve(one: Pair, factor):
    return sum(max(Fraction(0), p - factor * q) for p, q in one)


def test_a_lower_rate_is_the_registered_one_on_records_that_coins_have_thinned():
    for k, rate in FREER:
        thin = rate / RATE
        for n in SIZES:
            mixed = dict.fromkeys(law(k, RATE, n), Fraction(0))
            for left, share in law(0, thin, n).items():
                for outcome, mass in law(k, RATE, left).items():
                    mixed[outcome] += share * mass
            assert mixed == law(k, rate, n)


@pytest.mark.parametrize("adding", [True, False])
def test_no_adversary_gains_by_a_higher_k_or_a_lower_rate(adding):
    """He picks k, rate and group by what was published, and reaches exactly what he reaches without that."""
    registered, free = moves([(K, RATE)], adding=adding), moves(FREER, adding=adding)
    for factor in LOSSES:
        assert reached(registered + free, 2, factor) == reached(registered, 2, factor)
    assert reached(registered, 2, LOSSES[1]) > 0


@pytest.mark.parametrize("adding", [True, False])
def test_nor_does_one_who_has_three_releases(adding):
    registered = moves([(K, RATE)], adding=adding)[1:4]
    free = [
        pair(k, rate, n, adding) for k, rate in [(3, RATE), (2, Fraction(1, 4)), (3, Fraction(1, 4))] for n in (2, 4)
    ]
    for factor in LOSSES[1:3]:
        assert reached(registered + free, 3, factor) == reached(registered, 3, factor) > 0


def own_rates(k, rates, own, adding) -> Pair:
    """As `pair`, where the other records and the one in question have rates of their own."""
    others = {0: Fraction(1)}
    for rate in rates:
        others = _with(others, rate)
    present, absent = (_suppressed(counts, k) for counts in (_with(others, own), others))
    both = [(present.get(j, Fraction(0)), absent.get(j, Fraction(0))) for j in present | absent]
    return tuple(both if adding else [(q, p) for p, q in both])


def _with(counts, rate):
    """The law of a count with one record more."""
    outcomes = dict.fromkeys(range(max(counts) + 2), Fraction(0))
    for count, mass in counts.items():
        outcomes[count] += mass * (1 - rate)
        outcomes[count + 1] += mass * rate
    return outcomes


def _suppressed(counts, k):
    return {0: sum(m for j, m in counts.items() if j < k)} | {j: m for j, m in counts.items() if j >= k}


@pytest.mark.parametrize("adding", [True, False])
def test_no_adversary_gains_by_records_with_rates_of_their_own(adding):
    """Every design of up to four records with three rates, other ones in each release, against one rate for all."""
    rates = (Fraction(1, 2), Fraction(1, 3), Fraction(1, 8))
    designs = [
        own_rates(K, others, own, adding)
        for n in range(4)
        for others in combinations_with_replacement(rates, n)
        for own in rates
    ]
    registered = moves([(K, RATE)], adding=adding)
    assert set(own_rates(K, [RATE] * 3, RATE, adding)) == set(pair(K, RATE, 4, adding))
    for factor in LOSSES:
        assert reached(registered + designs, 2, factor) == reached(registered, 2, factor)
    for higher in (
        own_rates(K, [RATE], Fraction(3, 5), adding),
        own_rates(K, [Fraction(3, 5)], Fraction(3, 5), adding),
    ):
        gained = [reached([*registered, higher], 2, factor) > reached(registered, 2, factor) for factor in LOSSES]
        assert any(gained) or not adding, "a rate above the registered one goes unseen: this tests nothing"


def test_the_adversary_gains_by_a_lower_k_and_by_a_higher_rate():
    registered = moves([(K, RATE)], adding=True)
    for other in ((1, RATE), (K, Fraction(3, 5))):
        assert reached(registered + moves([other], adding=True), 2, Fraction(2)) > reached(registered, 2, Fraction(2))


def supremum(choices) -> Pair:
    """A pair whose curve is the largest of some curves at every ε: never above all of them, in both directions."""
    ratios = {p / q for one in choices for p, q in one if q}
    places = sorted({Fraction(0), *ratios, *_crossings(choices, sorted({Fraction(0), *ratios}))})
    heights = [max(curve(one, factor) for one in choices) for factor in places]
    slopes = [(b - a) / (y - x) for (x, a), (y, b) in pairwise(zip(places, heights, strict=True))] + [Fraction(0)]
    found = [(heights[-1], Fraction(0))]
    for place, (before, after) in zip(places[1:], pairwise(slopes), strict=True):
        found.append((place * (after - before), after - before))
    return (*found, (Fraction(0), 1 + slopes[0]))


def _crossings(choices, kinks):
    for low, high in pairwise([*kinks, kinks[-1] + 1]):
        ends = [(curve(one, low), curve(one, high)) for one in choices]
        for (a, b), (c, d) in combinations(ends, 2):
            if (a - c) * (b - d) < 0:
                yield low + (high - low) * (a - c) / ((a - c) - (b - d))


def test_a_profile_that_is_nowhere_larger_would_break_the_price():
    """Hence the rule: a release may have a higher k or a lower rate, and not "any mechanism with a smaller profile"."""
    for adding in (True, False):
        registered = [pair(3, RATE, n, adding) for n in range(1, 10)]
        smaller = supremum(registered)
        assert sum(p for p, _ in smaller) == sum(q for _, q in smaller) == 1
        assert all(p >= 0 and q >= 0 for p, q in smaller)
        for place in range(160):
            factor = Fraction(place, 40)
            assert curve(smaller, factor) == max(curve(one, factor) for one in registered)
            back = tuple((q, p) for p, q in smaller)
            assert curve(back, factor) == max(curve(tuple((q, p) for p, q in one), factor) for one in registered)
    registered = [pair(3, RATE, n, True) for n in range(1, 10)]
    factor = Fraction(5, 4)
    assert reached([*registered, supremum(registered)], 2, factor) > Fraction(108, 100) * reached(registered, 2, factor)


PURE = ((Fraction(5, 9), Fraction(4, 9)), (Fraction(4, 9), Fraction(5, 9)))
"""The pair of an answer whose e^ε is 5/4."""


def in_any_order(remaining, factor, p=Fraction(1), q=Fraction(1)):
    """The δ of an adversary who picks by the outcomes what comes next, part and group, as long as there are any."""
    if not any(left for _, left in remaining):
        return max(Fraction(0), p - factor * q)
    best = Fraction(0)
    for place, (choices, left) in enumerate(remaining):
        if left:
            after = [*remaining]
            after[place] = (choices, left - 1)
            for one in choices:
                best = max(best, sum(in_any_order(after, factor, p * a, q * b) for a, b in one if a))
    return best


@pytest.mark.parametrize("adding", [True, False])
def test_parts_of_a_series_cost_no_more_in_any_order_and_more_where_one_is_taken_too_often(adding):
    """Composed suprema: the worst pair of each part, in one order, against every order that an adversary may pick."""
    strong = [pair(2, Fraction(1, 2), n, adding) for n in range(1, 5)]
    weak = [pair(3, Fraction(1, 3), n, adding) for n in range(2, 6)]
    freer = [pair(4, Fraction(1, 2), 4, adding), pair(2, Fraction(1, 4), 3, adding)]
    worst = [([supremum(strong)], 1), ([supremum(weak)], 1), ([PURE], 1)]
    for factor in (Fraction(6, 5), Fraction(2)):
        priced = in_any_order(worst, factor)
        assert in_any_order([(strong + freer, 1), (weak, 1), ([PURE], 1)], factor) <= priced
        assert in_any_order([(strong, 2), ([PURE], 1)], factor) > priced
    assert priced > 0


def test_the_series_of_the_design_costs_what_it_says_and_less_than_its_parts_alone():
    mixed = series_of_parts(["12 x k=20,rate=0.1", "12 x k=50,rate=0.05", "24 x epsilon=0.05"])
    delta = Decimal("1e-6")
    found = price(mixed, delta=delta, releases=48)
    assert (found.rule, found.releases, round(found.epsilon, 2)) == ("mixed-pld/1", 48, Decimal("1.07"))
    turned = series_of_parts(["24 x epsilon=0.05", "12 x k=50,rate=0.05", "12 x k=20,rate=0.1"])
    assert price(turned, delta=delta, releases=48).epsilon == found.epsilon
    parts = {
        StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")): 12,
        StronglySafeRelease(k=50, sampling_rate=Decimal("0.05")): 12,
        Guarantee(epsilon=Decimal("0.05"), delta=Decimal(0)): 24,
    }
    assert float(found.epsilon) == pytest.approx(epsilon_composed(parts, delta=1e-6), rel=1e-9)
    for rule, expected in (("series-game/1", "1.68"), ("pld/1", "1.75")):
        alone = [recorded_price(part, rule=rule, delta=delta / 2, releases=12).epsilon for part in list(parts)[:2]]
        assert round(sum(alone) + 24 * Decimal("0.05"), 2) == Decimal(expected), "two series, and the answers added up"
    with pytest.raises(InputRefused, match="no price as a series of 47"):
        price(mixed, delta=delta, releases=47)


@pytest.mark.parametrize(
    "texts",
    [
        ["12"],
        ["0 x k=20,rate=0.1"],
        ["10001 x epsilon=1"],
        ["1 x k=20"],
        ["1 x rate=0.1,k=20"],
        ["1 x k=0,rate=0.1"],
        ["1 x k=20,rate=1"],
        ["1 x k=20,rate=nan"],
        ["1 x epsilon=0"],
        ["1 x epsilon=101"],
        ["1 x epsilon=-1"],
        [""],
        ["1 x epsilon=1", "2 x epsilon=1.0"],
        [f"1 x k={k},rate=0.1" for k in range(2, 23)],
        ["1 x epsilon=1; 2 x k=1"],
    ],
)
def test_parts_of_another_form_are_refused(texts):
    with pytest.raises(InputRefused, match=r"--part|series"):
        series_of_parts(texts)
