"""Draws of the exponential mechanism: small designs by all pairs of qualities, composed by an adversary; faults.

With e^{ε₁} = 4 and qualities in halves all probabilities are fractions; nothing of the audited theory is used for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.accounting.kernel.prices.registry import (
    mechanism_of_record,
    mechanism_record,
    not_covered,
    price,
    recorded_price,
)
from crowdblend.accounting.kinds.composition.bounded_range import BoundedRange, range_divergence, range_log_delta
from crowdblend.accounting.kinds.composition.composed import delta_composed, epsilon_composed
from crowdblend.accounting.kinds.composition.renyi_filter import RULE, RULE_WITHOUT_LOSSES, filter_cost
from crowdblend.accounting.kinds.composition.series_game import epsilon_of_drawn_game, moves_of_draw
from crowdblend.mechanisms.kinds.deletion import (
    CalibratedDeletion,
    DeletionRelease,
    ExponentialDeletion,
    SelectedDeletion,
)
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, ExponentialSafeRelease, StronglySafeRelease
from scipy.stats import binom

MILLIONTH = Decimal("1e-6")
EPSILON = math.log(4.0)
RANGE = BoundedRange(epsilon=Decimal("1.38629436112"))  # ln 4, rounded up
ORDERS = (1.01, 1.5, 2.0, 8.0, 37.0)

Pair = tuple[tuple[Fraction, Fraction], ...]
"""Of each candidate, its probability with the person and without."""
Law = Callable[[tuple[int, ...]], list[Fraction]]


def exponential(halves: tuple[int, ...]) -> list[Fraction]:
    weights = [Fraction(2) ** quality for quality in halves]
    return [weight / sum(weights) for weight in weights]


def permute_and_flip(halves: tuple[int, ...]) -> list[Fraction]:
    """Each candidate heads its coin p at a time uniform in 0 … 1; the first that does wins: ∫ p·Π(1 − p_j·x) dx."""
    heads = [Fraction(2) ** (quality - max(halves)) for quality in halves]
    laws = []
    for place, own in enumerate(heads):
        polynomial = [own]
        for other in heads[:place] + heads[place + 1 :]:
            polynomial = [
                (polynomial[power] if power < len(polynomial) else 0) - other * (polynomial[power - 1] if power else 0)
                for power in range(len(polynomial) + 1)
            ]
        laws.append(sum(Fraction(factor) / (power + 1) for power, factor in enumerate(polynomial)))
    return laws


@cache
def pairs(law: Law, candidates: int = 3, rises: tuple[int, ...] = (0, 1, 2), most: int = 6) -> tuple[Pair, ...]:
    """All pairs of quality vectors where one record raises each quality by some of `rises` halves, both ways round."""
    found = set()
    for without in product(range(most + 1), repeat=candidates - 1):
        for rise in product(rises, repeat=candidates):
            before = (0, *without)
            after = tuple(quality + more for quality, more in zip(before, rise, strict=True))
            pair = list(zip(law(after), law(before), strict=True))
            found |= {tuple(sorted(pair)), tuple(sorted((other, own) for own, other in pair))}
    return tuple(sorted(found))


def divergence(pair: Pair, order: float) -> float:
    own, other = np.array([[float(probability) for probability in one] for one in pair]).T
    return math.log(float(own @ (own / other) ** (order - 1))) / (order - 1)


def largest_divergence(every: Iterable[Pair], order: float) -> float:
    return max(divergence(pair, order) for pair in every)


def reached(every: tuple[Pair, ...], draws: int, epsilon: float) -> float:
    """The δ of an adversary who picks each draw's pair by the outcomes of those before, over all that he may pick."""
    present = np.array([[float(own) for own, _ in pair] for pair in every])
    steps = np.array([[math.log(own / other) for own, other in pair] for pair in every])

    def best(losses: np.ndarray, left: int) -> np.ndarray:
        if left == 0:
            return np.maximum(-np.expm1(epsilon - losses), 0.0)
        after = losses[:, None, None] + steps
        if left > 1:
            return np.array(
                [(present * best(one.ravel(), left - 1).reshape(one.shape)).sum(axis=1).max() for one in after]
            )
        return (present * best(after, 0)).sum(axis=2).max(axis=1)

    return float(best(np.zeros(1), draws)[0])


@pytest.mark.parametrize("order", ORDERS)
def test_no_design_has_a_larger_divergence_and_one_comes_near(order):
    bound = float(range_divergence(RANGE, order=order))
    found = max(largest_divergence(pairs(exponential), order), largest_divergence(pairs(exponential, 2), order))
    assert 0.95 * bound <= found <= bound * (1 + 1e-12)
    assert bound <= order * EPSILON**2 / 8 * (1 + 1e-10)
    assert bound <= EPSILON * (1 + 1e-10)


@pytest.mark.parametrize(
    ("epsilon", "order"), [("1e-25", 3.0), ("1e-12", 40.0), ("0.02", 60.0), ("3", 9.5), ("1e10", 2.0)]
)
def test_the_divergence_is_that_of_the_worst_pair_of_two_outcomes(epsilon, order):
    bound = range_divergence(BoundedRange(epsilon=Decimal(epsilon)), order=order)
    with mpmath.workdps(120):
        length = mpmath.mpf(epsilon)

        def of(share):
            least = mpmath.exp(-share * length)  # the lower ratio, of mean 1 with the upper one
            upper = mpmath.exp(length) * least
            likely = (1 - least) / (upper - least)
            return mpmath.log(likely * upper**order + (1 - likely) * least**order) / (order - 1)

        worst = max(of(mpmath.mpf(place) / 2000) for place in range(2001))
        assert worst * (1 - mpmath.mpf(10) ** -40) <= mpmath.mpf(str(bound)) <= worst * (1 + mpmath.mpf("1e-3"))


FAULTS = {
    "permute-and-flip is priced so": (permute_and_flip, (0, 1, 2), RANGE),
    "a quality that a record can lower is priced so": (exponential, (-2, 0, 2), RANGE),
    "one record moves the quality by 2": (exponential, (0, 4), RANGE),
    "half the range": (exponential, (0, 1, 2), BoundedRange(epsilon=RANGE.epsilon / 2)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_oracle_catches(fault):
    law, rises, priced = FAULTS[fault]
    every = pairs(law, 3, rises)
    assert any(largest_divergence(every, order) > float(range_divergence(priced, order=order)) for order in ORDERS)
    assert any(
        reached(every, 1, epsilon) > delta_composed({priced: 1}, epsilon=epsilon) * (1 + 1e-9)
        for epsilon in (0.0, 0.3, 0.7, 1.1)
    )


def test_an_eighth_is_not_enough_for_permute_and_flip():
    order = 1.5
    assert largest_divergence(pairs(permute_and_flip, 2), order) > order * EPSILON**2 / 8


@pytest.mark.parametrize(("draws", "most"), [(1, 6), (2, 6), (3, 3)])
def test_no_adversary_who_picks_the_draws_gets_above_the_composed_price(draws, most):
    every = pairs(exponential, 3, (0, 1, 2), most)
    for epsilon in (0.1, 0.5, 1.0, 1.5) if draws < 3 else (0.5, 1.5):
        bound, found = delta_composed({RANGE: draws}, epsilon=epsilon), reached(every, draws, epsilon)
        assert found <= bound * (1 + 1e-9)
        assert bound == 0.0 or draws > 1 or found >= 0.9 * bound or epsilon > EPSILON


def test_the_order_of_draws_of_two_ranges_does_not_matter():
    half = BoundedRange(epsilon=RANGE.epsilon / 2)
    for epsilon in (0.2, 0.9):
        bound = delta_composed({RANGE: 1, half: 1}, epsilon=epsilon)
        wide, narrow = pairs(exponential, 3, (0, 1, 2), 4), pairs(exponential, 3, (0, 1), 4)
        for first, second in ((wide, narrow), (narrow, wide)):
            best = max(
                sum(
                    float(own) * max(0.0, after)
                    for own, after in (
                        (own, reached(second, 1, epsilon - math.log(own / other))) for own, other in pair
                    )
                )
                for pair in first[::7]
            )
            assert best <= bound * (1 + 1e-9)


def releases_of(k: int, rate: float, sizes: Iterable[int], *, adding: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """The suppressed counts' masses and losses, by SciPy."""
    found = []
    for n in sizes:
        present, absent = binom.pmf(np.arange(n + 1), n, rate), np.append(binom.pmf(np.arange(n), n - 1, rate), 0.0)
        present, absent = (np.concatenate([[side[:k].sum()], side[k:]]) for side in (present, absent))
        ahead, behind = (present, absent) if adding else (absent, present)
        with np.errstate(divide="ignore"):
            found.append((ahead[ahead > 0], np.log(ahead[ahead > 0] / behind[ahead > 0])))
    return found


def test_no_adversary_of_draws_and_releases_gets_above_the_game_and_one_comes_near():
    release, length, delta = StronglySafeRelease(k=4, sampling_rate=Decimal("0.2")), 0.3, 0.02
    draw = BoundedRange(epsilon=Decimal("0.3"))
    parts = {release: 2, draw: 2}
    composed = epsilon_composed(parts, delta=delta)
    found = epsilon_of_drawn_game(release, draw, draws=1, releases=2, delta=delta, composed=composed)
    assert found < composed
    drawn = []
    for largest in np.linspace(0.02, 0.28, 9):
        likely = -math.expm1(largest - length) / -math.expm1(-length)
        drawn.append((np.array([likely, 1.0 - likely]), np.array([largest, largest - length])))

    def best(losses, steps, epsilon):
        if not steps:
            return np.maximum(-np.expm1(np.minimum(epsilon - losses, 700.0)), 0.0)
        values = [
            best(np.add.outer(losses, own).ravel(), steps[1:], epsilon).reshape(losses.size, own.size) @ masses
            for masses, own in steps[0]
        ]
        return np.max(values, axis=0)

    near = 0.0
    for adding in (True, False):
        steps = [drawn, releases_of(4, 0.2, range(8, 26, 3), adding=adding)] * 2
        assert best(np.zeros(1), steps, found)[0] <= delta * (1 + 1e-9)
        near = max(near, best(np.zeros(1), steps, 0.92 * found)[0])
    assert near > delta, "the adversary comes nowhere near the price, so that it tests nothing"


def test_each_block_of_a_draws_moves_is_above_its_pairs_in_both_directions():
    length = float(RANGE.epsilon)
    moves = moves_of_draw(RANGE, 2.0**-7)
    for place, move in enumerate(moves):
        losses, masses = move.losses(), move.masses * (1 + move.slack)
        for largest in np.linspace(place, place + 1, 4) * length / len(moves):
            likely = -math.expm1(largest - length) / -math.expm1(-length)
            for epsilon in np.linspace(-1.3, 1.3, 27):
                own = likely * max(0.0, -math.expm1(epsilon - largest)) + (1 - likely) * max(
                    0.0, -math.expm1(epsilon - largest + length)
                )
                curve = float((masses * np.maximum(-np.expm1(epsilon - losses), 0.0)).sum()) + move.infinite
                assert own <= curve * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("rate", [Fraction(1, 5), Fraction(3, 4)])
def test_a_draw_on_a_fresh_sample_has_the_amplified_range(rate):
    """Every sample of the other records, with the person's coin: three candidates, of which each record raises some."""
    raises = [(2, 0, 1), (0, 2, 2), (1, 1, 0)]
    amplified = math.log1p(float(rate) * 3.0)
    priced = BoundedRange(epsilon=Decimal(amplified) + Decimal("1e-12"))
    for person in product((0, 1, 2), repeat=3):
        absent, present = [Fraction(0)] * 3, [Fraction(0)] * 3
        for sampled in product((0, 1), repeat=len(raises)):
            chance = math.prod(rate if one else 1 - rate for one in sampled)
            before = tuple(sum(one * own[g] for one, own in zip(sampled, raises, strict=True)) for g in range(3))
            after = tuple(quality + more for quality, more in zip(before, person, strict=True))
            without, with_person = exponential(before), exponential(after)
            for g in range(3):
                absent[g] += chance * without[g]
                present[g] += chance * (rate * with_person[g] + (1 - rate) * without[g])
        one = tuple(zip(present, absent, strict=True))
        for every in ((one,), (tuple((other, own) for own, other in one),)):
            for epsilon in (0.0, 0.1, 0.3):
                assert reached(every, 1, epsilon) <= delta_composed({priced: 1}, epsilon=epsilon) * (1 + 1e-9)
            assert all(divergence(every[0], order) <= float(range_divergence(priced, order=order)) for order in ORDERS)


CHOICE = {"k": 20, "sampling_rate": Decimal("0.1"), "selection_epsilon": Decimal("0.1"), "selection_rate": None}
ANY_DRAW = EpsilonSafeRelease(**CHOICE)
DRAWN = ExponentialSafeRelease(**CHOICE, selection_draws=1)
NOISE = GaussianDeletion(scale=Decimal("15.6"), width=80)
ANY_DELETION = SelectedDeletion(stages=1, k=2, noise=NOISE, selection_epsilon=Decimal("0.05"))
DRAWN_DELETION = ExponentialDeletion(stages=1, k=2, noise=NOISE, selection_epsilon=Decimal("0.05"), selection_draws=1)


def test_a_series_with_exponential_draws_costs_what_its_game_does():
    before, now = (price(one, delta=MILLIONTH, releases=12) for one in (ANY_DRAW, DRAWN))
    assert (before.rule, now.rule) == ("pld-selection/1", "bounded-range-game/1")
    assert float(before.epsilon) == pytest.approx(1.3514, rel=1e-3)
    assert float(now.epsilon) == pytest.approx(0.799, rel=5e-3)
    assert float(price(DRAWN, delta=MILLIONTH).epsilon) == pytest.approx(0.2311, rel=5e-3)


def test_a_walk_costs_the_composition_of_its_steps():
    walk = BoundedRange(epsilon=Decimal("0.02"))
    assert float(epsilon_composed({walk: 50}, delta=1e-7)) == pytest.approx(0.354, rel=5e-3)
    own = ExponentialSafeRelease(**(CHOICE | {"selection_epsilon": Decimal(1)}), selection_draws=50)
    assert float(price(own, delta=MILLIONTH).epsilon) < 0.5 < float(price(ANY_DRAW, delta=MILLIONTH).epsilon) + 0.3


def test_many_draws_and_a_small_delta_have_the_rules_that_remain():
    many = ExponentialSafeRelease(**CHOICE, selection_draws=500)
    assert price(many, delta=MILLIONTH).rule == "bounded-range-pld/1"
    assert price(DRAWN, delta=Decimal("1e-15"), releases=1).epsilon <= price(ANY_DRAW, delta=Decimal("1e-15")).epsilon
    high = ExponentialSafeRelease(**(CHOICE | {"k": 400}), selection_draws=1)
    assert price(high, delta=Decimal("1e-210")).rule == "exact-profile-selection/1"


def test_a_deletion_release_with_exponential_draws_costs_less():
    before, now = (price(one, delta=MILLIONTH, releases=12) for one in (ANY_DELETION, DRAWN_DELETION))
    assert (before.rule, now.rule) == ("selected-deletion-composed/1", "selected-deletion-bounded-range/1")
    assert float(now.epsilon) == pytest.approx(1.0767, rel=5e-3)
    assert float(before.epsilon) == pytest.approx(1.2373, rel=5e-3)


@pytest.mark.parametrize(("any_draw", "drawn"), [(ANY_DRAW, DRAWN), (ANY_DELETION, DRAWN_DELETION)])
def test_a_filter_takes_the_divergence_of_the_range(any_draw, drawn):
    terms = {"order": Decimal(37), "tail": Decimal("3e-7")}
    before, now = filter_cost(any_draw, **terms), filter_cost(drawn, **terms)
    alone = filter_cost(any_draw.release, **terms)
    assert (before.rule, now.rule, alone.rule) == (RULE, RULE_WITHOUT_LOSSES, RULE)
    epsilon = float(drawn.selection_epsilon)
    took = float(now.divergence - alone.divergence)
    assert took == pytest.approx(float(range_divergence(BoundedRange(epsilon=drawn.selection_epsilon), order=37.0)))
    assert took < 37 * epsilon**2 / 8 < float(before.divergence - alone.divergence)


def test_several_records_of_a_person_widen_the_range():
    terms = {"order": Decimal(4), "tail": Decimal("3e-7")}
    one, two = (
        filter_cost(DRAWN_DELETION, **terms, rows_per_person=records).divergence
        - filter_cost(DRAWN_DELETION.release, **terms, rows_per_person=records).divergence
        for records in (1, 2)
    )
    assert float(two) == pytest.approx(4 * float(one), rel=1e-2)


@pytest.mark.parametrize("mechanism", [ANY_DRAW, DRAWN, ANY_DELETION, DRAWN_DELETION])
def test_what_was_charged_keeps_its_record_and_its_rule(mechanism):
    record = mechanism_record(mechanism)
    assert record["kind"].endswith("/2" if hasattr(mechanism, "selection_draws") else "/1")
    assert mechanism_of_record(record) == mechanism
    charged = price(mechanism, delta=MILLIONTH, releases=3)
    assert recorded_price(mechanism, rule=charged.rule, delta=MILLIONTH, releases=3) == charged


def test_several_draws_from_one_fresh_sample_are_refused():
    with pytest.raises(ValueError, match="one fresh sample"):
        ExponentialSafeRelease(**(CHOICE | {"selection_rate": Decimal("0.2")}), selection_draws=2)
    for made in (
        lambda: ExponentialSafeRelease(**CHOICE, selection_draws=0),
        lambda: ExponentialDeletion(stages=1, k=2, noise=NOISE, selection_epsilon=Decimal("0.05"), selection_draws=0),
    ):
        with pytest.raises(ValueError, match="at least one draw"):
            made()
    with pytest.raises(ValueError, match="a range"):
        BoundedRange(epsilon=Decimal(0))


def test_a_series_of_any_draws_pays_for_exponential_ones_and_not_the_other_way_round():
    assert not_covered(DRAWN, ANY_DRAW) is None
    assert not_covered(DRAWN_DELETION, ANY_DELETION) is None
    assert not_covered(ANY_DRAW, DRAWN) == not_covered(ANY_DELETION, DRAWN_DELETION) == "another kind of mechanism"
    plain = DeletionRelease(stages=1, k=2, noise=NOISE)
    beside = CalibratedDeletion(stages=1, k=2, noise=NOISE, margins=1, margin_scale=Decimal("15.6"), margin_width=80)
    assert not_covered(beside, plain) == "another kind of mechanism"


@pytest.mark.parametrize("rate", [None, Decimal("0.05")])
def test_the_pictured_curve_is_that_of_what_is_charged(rate):
    one = ExponentialSafeRelease(
        k=20,
        sampling_rate=Decimal("0.1"),
        selection_epsilon=Decimal("0.1"),
        selection_rate=rate,
        selection_draws=1,
    )
    curves = description_of(one).curves
    assert curves is not None
    for delta in ("1e-4", "1e-8"):
        charged = float(price(one, delta=Decimal(delta)).epsilon)
        [value] = curves.of(one).log_delta(np.array([charged]))
        assert value == pytest.approx(math.log(float(delta)), abs=0.01)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_near_the_end_of_a_range_the_bound_is_above_the_truth_too(epsilon: float) -> None:
    """Where ε − x is a few units in the last place, a rounded largest loss would lie beside the largest one."""
    whole = np.array([epsilon])
    for units in (1, 2, 3, 5, 9, 100, 10**4, 10**9):
        x = epsilon - units * math.ulp(epsilon)
        found = range_log_delta(epsilon, np.array([x]), low=0 * whole, high=whole)[0]
        with mpmath.workdps(60):
            end, near = mpmath.mpf(epsilon), mpmath.mpf(x)
            true = 2 * mpmath.log(1 - mpmath.exp((near - end) / 2)) - mpmath.log(1 - mpmath.exp(-end))
            assert true <= found <= true + mpmath.mpf("1e-12"), units
    beyond = range_log_delta(epsilon, np.array([epsilon, 2 * epsilon]), low=np.zeros(2), high=np.full(2, epsilon))
    assert list(beyond) == [-math.inf, -math.inf]
