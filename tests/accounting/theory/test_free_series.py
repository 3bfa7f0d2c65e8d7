"""What a release of a series with free columns may be, by an adversary with exact fractions; what breaks the price."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise
from math import comb

import pytest
from crowdblend.accounting.theory.kinds.registry import not_covered
from crowdblend.mechanisms.deletion import CalibratedDeletion, DeletionRelease, GeometricDeletion, SelectedDeletion
from crowdblend.mechanisms.microdata import EpsilonSafeRelease, StronglySafeRelease

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


SAFE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
CHOSEN = EpsilonSafeRelease(
    k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=Decimal("0.05")
)
NOISE = GeometricDeletion(epsilon=Decimal("0.5"), width=19)
KEPT = DeletionRelease(stages=2, k=5, noise=NOISE)
DRAWN = SelectedDeletion(stages=2, k=5, noise=NOISE, selection_epsilon=Decimal("0.1"))
WEIGHED = CalibratedDeletion(stages=2, k=5, noise=NOISE, margins=3, margin_scale=Decimal(9), margin_width=60)


@pytest.mark.parametrize("registered", [SAFE, CHOSEN, KEPT, DRAWN, WEIGHED], ids=lambda one: type(one).__name__)
def test_what_is_covered(registered):
    assert not_covered(registered, registered) is None
    assert not_covered(replace(registered, k=registered.k + 1), registered) is None
    assert "below the registered" in not_covered(replace(registered, k=registered.k - 1), registered)
    if isinstance(registered, StronglySafeRelease | EpsilonSafeRelease):
        less, more = (replace(registered, sampling_rate=Decimal(rate)) for rate in ("0.0999", "0.1001"))
        assert not_covered(less, registered) is None
        assert not_covered(replace(less, k=40), registered) is None
        assert "above the registered" in not_covered(more, registered)
        # Whose profile is far below is not covered either.
        assert not_covered(replace(more, k=80), registered) is not None
        assert not_covered(replace(less, k=19), registered) is not None


def test_what_else_differs_is_not_covered():
    for mechanism, registered in (
        (replace(CHOSEN, selection_epsilon=Decimal("0.09")), CHOSEN),
        (replace(CHOSEN, selection_rate=Decimal("0.04")), CHOSEN),
        (replace(CHOSEN, selection_rate=None), CHOSEN),
        (replace(KEPT, stages=1), KEPT),
        (replace(KEPT, noise=GeometricDeletion(epsilon=Decimal("0.4"), width=19)), KEPT),
        (replace(WEIGHED, margins=2), WEIGHED),
        (replace(DRAWN, selection_epsilon=Decimal("0.05")), DRAWN),
    ):
        assert "differs from what was registered" in not_covered(mechanism, registered)
    for mechanism, registered in ((SAFE, CHOSEN), (CHOSEN, SAFE), (KEPT, SAFE), (KEPT, WEIGHED), (WEIGHED, KEPT)):
        assert not_covered(mechanism, registered) == "another kind of mechanism"
