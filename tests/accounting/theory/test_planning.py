"""The planner: any one parameter from the others, consistent with what is charged, and fast."""

from __future__ import annotations

import math
import time
from dataclasses import astuple
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.theory.planning import planner
from crowdblend.accounting.theory.planning.inversion import Target, frontier, price_of
from crowdblend.accounting.theory.planning.planner import Plan, largest_sampling_rate, least_k, plan, plan_for_groups
from crowdblend.accounting.theory.planning.searches import first_whole, last_real
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from scipy.stats import binom

FULL = {
    "k": 20,
    "sampling_rate": Decimal("0.1"),
    "epsilon": Decimal("0.5"),
    "delta": Decimal("1e-6"),
    "releases": 12,
}


def without(name, **changes):
    return plan(**(FULL | changes | {name: None}))


def test_table_2_through_the_planner(vectors):
    table = vectors["lqs"]["table_2"]
    for rate, printed in table["rows"].items():
        for epsilon, delta in zip(table["epsilons"], printed, strict=True):
            found = plan(k=table["k"], sampling_rate=Decimal(rate), epsilon=Decimal(epsilon))
            assert f"{float(found.delta_paper):.2e}" == delta
            assert found.delta_exact == found.delta <= found.delta_paper


@pytest.mark.slow
@pytest.mark.parametrize("releases", [1, 12])
@pytest.mark.parametrize("selection", [None, Decimal("0.02")])
def test_each_filled_parameter_is_charged_within_the_target_and_the_next_one_is_not(releases, selection):
    changes = {"releases": releases, "selection_epsilon": selection}
    target = FULL | changes

    def charged(**other):
        return plan(**(target | other | {"epsilon": None})).epsilon

    k = without("k", **changes).k
    assert k is not None
    assert charged(k=k) <= FULL["epsilon"]
    assert k == 1 or charged(k=k - 1) > FULL["epsilon"]
    rate = without("sampling_rate", **changes).sampling_rate
    assert charged(sampling_rate=rate) <= FULL["epsilon"] < charged(sampling_rate=rate * Decimal("1.0002"))
    delta = without("delta", **changes).delta
    assert charged(delta=delta * Decimal("1.01")) <= FULL["epsilon"] * Decimal("1.0001")
    # The least delta of a series is that of the composed price, which is above the charged one.
    less = delta * Decimal("0.97")
    one = StronglySafeRelease(k=FULL["k"], sampling_rate=FULL["sampling_rate"])
    asked = Target(epsilon=FULL["epsilon"], delta=less, releases=releases, selection_epsilon=selection)
    dearer = price_of(one, asked, games=False).epsilon
    assert dearer > FULL["epsilon"] * Decimal("0.9999")
    most = without("releases", **(changes | {"releases": None})).releases
    assert charged(releases=most) <= FULL["epsilon"] < charged(releases=most + 1)


def test_a_fully_given_point_is_priced():
    found = plan(**FULL)
    assert found.filled is None
    assert (
        found.epsilon
        == price(StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")), delta=FULL["delta"], releases=12).epsilon
    )
    assert found.epsilon_composed == found.epsilon
    assert (
        found.epsilon_exact
        == price(StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")), delta=FULL["delta"]).epsilon
    )
    assert float(found.epsilon_paper) == pytest.approx(4.287, abs=1e-3)
    assert found.k_exact is not None
    assert found.k_exact <= 20
    assert found.k_paper is None
    assert found.delta_exact < FULL["delta"]


def test_the_known_least_k_at_the_other_tools_rate():
    """ARX's rate is 1 − e^−ε; least k by the paper and exactly, as measured with that tool and by brute force."""
    for epsilon, delta, paper, exact in (
        (0.5, "1e-5", 51, 35),
        (1, "1e-5", 61, 46),
        (1, "1e-6", 74, 58),
        (2, "1e-6", 131, 114),
    ):
        rate = Decimal(f"{-math.expm1(-epsilon):.12f}")
        found = plan(sampling_rate=rate, epsilon=Decimal(str(epsilon)) + Decimal("1e-9"), delta=Decimal(delta))
        assert found.k == found.k_exact == exact
        assert found.k_paper in (paper, paper - 1)


def test_amplification_through_the_planner():
    found = plan(sampling_rate=Decimal("0.1"), epsilon=Decimal(11).ln(), delta=Decimal("1e-5"), amplify_from=Decimal(1))
    assert round(float(found.epsilon), 2) == 0.69
    assert found.delta == Decimal("1e-6")
    assert found.k is None
    many = plan(sampling_rate=Decimal("0.1"), epsilon=Decimal(1), releases=5, amplify_from=Decimal(1))
    assert many.epsilon == many.epsilon_exact * 5
    assert many.delta == 0


@pytest.mark.parametrize(
    "change",
    [
        {"k": None, "epsilon": None},
        {"k": 0},
        {"sampling_rate": Decimal(1)},
        {"sampling_rate": Decimal(0)},
        {"epsilon": Decimal(-1)},
        {"epsilon": Decimal("nan")},
        {"delta": Decimal(0)},
        {"delta": Decimal(2)},
        {"releases": 0},
        {"selection_epsilon": Decimal(0)},
        {"amplify_from": Decimal(1)},
        {"k": 2, "releases": None},
        {"k": None, "epsilon": Decimal(0), "delta": Decimal("1e-12")},
        {"k": 2, "sampling_rate": None, "epsilon": Decimal("1e-12"), "delta": Decimal("1e-100")},
        {"k": 1, "delta": None, "sampling_rate": Decimal("0.99"), "epsilon": Decimal("0.01"), "releases": 400},
    ],
)
def test_what_cannot_be_planned_is_refused(change):
    with pytest.raises(InputRefused):
        plan(**(FULL | change))


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (("k", "sampling_rate"), "k, sampling_rate; .* not 2"),
        (("sampling_rate", "delta"), "sampling_rate, delta; .* not 2"),
        (("k", "epsilon", "releases"), "k, epsilon, releases; .* not 3"),
        (("epsilon", "delta"), "epsilon, delta; .* not 2"),
    ],
)
def test_of_several_missing_parameters_none_is_filled_in_and_each_is_named(missing, told):
    with pytest.raises(InputRefused, match=rf"missing: {told}.*Give all but one of k"):
        plan(**(FULL | dict.fromkeys(missing)))


def test_a_plan_is_shown_by_its_point_and_its_charge():
    found = plan(**(FULL | {"releases": 1}))
    assert 0.1829886 < found.epsilon < 0.1829887
    assert repr(found) == "Plan(k=20, sampling_rate=0.1, releases=1, epsilon=0.182989, delta=1e-6)"


def test_where_the_epsilon_asked_for_guarantees_nothing_a_plan_has_no_delta():
    """A choice at ε₁ = 50 alone has δ = (e^50 − e^ε)/(e^50 + 1) at ε = 0.01, which no double tells from 1."""
    found = plan(**(FULL | {"releases": 1, "epsilon": Decimal("0.01"), "selection_epsilon": Decimal(50)}))
    assert (found.delta_exact, found.k_exact) == (None, None)
    assert found.epsilon > 50


def test_amplification_needs_its_numbers():
    with pytest.raises(InputRefused, match="amplification needs"):
        plan(epsilon=Decimal(1), amplify_from=Decimal(1))
    with pytest.raises(InputRefused, match="delta must be"):
        plan(epsilon=Decimal(1), delta=Decimal(1), sampling_rate=Decimal("0.1"), amplify_from=Decimal(1))


def test_the_helpers_of_a_specification():
    assert least_k(sampling_rate=Decimal("0.1"), epsilon=Decimal("0.25"), delta=Decimal("1e-6")) == 16
    rate = largest_sampling_rate(k=20, epsilon=Decimal("0.25"), delta=Decimal("1e-6"))
    assert rate == Decimal("0.1292")
    assert largest_sampling_rate(k=10**6, epsilon=Decimal(8), delta=Decimal("0.5")) > Decimal("0.999")


@pytest.mark.slow
def test_the_pair_for_public_groups_publishes_within_a_twentieth_of_the_best_of_another_grid():
    sizes = {size: 4000 // size for size in (1, 7, 30, 120, 400)}
    price = {"epsilon": Decimal(1), "delta": Decimal("1e-6")}
    found = plan_for_groups(group_sizes=sizes, **price)
    assert found.epsilon <= price["epsilon"]

    def published(k, rate):
        kept = {size: np.arange(min(k, size + 1), size + 1) for size in sizes}
        return sum(number * float(kept[size] @ binom.pmf(kept[size], size, rate)) for size, number in sizes.items())

    rates = [Decimal(hundredths) / 100 for hundredths in range(3, 100, 8)]
    best = max(published(least_k(sampling_rate=rate, **price), float(rate)) for rate in rates)
    assert published(found.k, float(found.sampling_rate)) >= 0.95 * best
    habit = published(least_k(sampling_rate=Decimal("0.1"), **price), 0.1)
    assert published(found.k, float(found.sampling_rate)) > 2 * habit


def test_no_pair_for_public_groups_is_found_where_none_is_cheap_enough():
    with pytest.raises(InputRefused, match="no k and sampling rate"):
        plan_for_groups(group_sizes={100: 1}, epsilon=Decimal(0), delta=Decimal("1e-12"))


def test_the_frontier_rises_with_the_rate_and_ours_is_at_most_the_papers():
    rates = [Decimal(rate) for rate in ("0.01", "0.05", "0.1", "0.3", "0.6")]
    points = frontier(Target(epsilon=Decimal(1), delta=Decimal("1e-6")), sampling_rates=rates)
    ks = [point.k_exact for point in points]
    assert ks == sorted(ks)
    assert all(point.k_paper is None or point.k_exact <= point.k_paper for point in points)
    none = frontier(Target(epsilon=Decimal(0), delta=Decimal("1e-12")), sampling_rates=rates[-1:])
    assert none[0].k_exact is None


@pytest.mark.parametrize("answer", [1, 2, 3, 77, 5000, 99_999])
@pytest.mark.parametrize("guess", [1, 70, 5100, 100_000])
def test_a_search_finds_the_first_whole_number(answer, guess):
    calls = []

    def cost(number):
        calls.append(number)
        return (answer / number) ** 0.7

    assert first_whole(cost, 1.0, largest=100_000, guess=guess) == answer
    assert len(calls) < 60
    assert (
        first_whole(lambda number: 0.0 if number >= answer else math.inf, 1.0, largest=100_000, guess=guess) == answer
    )
    assert first_whole(lambda number: math.inf, 1.0, largest=100_000, guess=guess) is None


def test_a_search_finds_the_last_number_that_fits():
    for answer in (1e-8, 0.003, 0.7):
        for cost in (lambda x: x**1.3, lambda x, answer=answer: 0.0 if x <= answer else math.inf):
            target = cost(answer)
            found = last_real(cost, target, low=1e-9, high=1.0, precision=1e-6)
            assert answer * (1 - 2e-6) <= found <= answer * (1 + 1e-12)


QUICK = [
    {"k": 10_000, "sampling_rate": "0.95", "delta": "1e-15"},
    {"k": 10_000, "sampling_rate": "1e-6", "delta": "1e-15"},
    {"k": 20, "sampling_rate": "0.1", "epsilon": "10"},
    {"sampling_rate": "0.95", "epsilon": "10", "delta": "1e-15"},
    {"sampling_rate": "0.9502", "epsilon": "3", "delta": "1e-9"},
    {"sampling_rate": "0.9816", "epsilon": "4", "delta": "1e-9"},
    {"k": 10_000, "epsilon": "10", "delta": "1e-15"},
    {"k": 20, "sampling_rate": "0.1", "delta": "1e-6", "releases": 365},
    {"k": 10_000, "sampling_rate": "0.95", "delta": "1e-15", "releases": 100},
    {"sampling_rate": "0.1", "epsilon": "1", "delta": "1e-6", "releases": 52},
    {"k": 20, "epsilon": "1", "delta": "1e-6", "releases": 52},
]


def quickly(asked):
    values = {name: value if isinstance(value, int) else Decimal(value) for name, value in asked.items()}
    plan(**values)
    start = time.process_time()
    found = plan(**values)
    return found, time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("asked", QUICK, ids=str)
def test_a_plan_takes_less_than_a_second(asked):
    found, seconds = quickly(asked)
    assert isinstance(found, Plan)
    assert seconds < 1.0


@pytest.mark.long
@pytest.mark.parametrize("k", [1, 20, 400, 10_000])
@pytest.mark.parametrize("rate", ["1e-6", "0.001", "0.1", "0.5", "0.95"])
def test_every_corner_takes_less_than_a_second(k, rate):
    for delta in ("1e-15", "1e-9", "1e-5"):
        for asked in (
            {"k": k, "sampling_rate": rate, "delta": delta},
            {"k": k, "sampling_rate": rate, "epsilon": "10"},
            {"k": k, "epsilon": "10", "delta": delta},
            {"sampling_rate": rate, "epsilon": "10", "delta": delta},
            {"k": k, "sampling_rate": rate, "delta": delta, "releases": 100},
        ):
            try:
                _, seconds = quickly(asked)
            except InputRefused:
                continue
            assert seconds < 1.0, asked


def test_a_delta_is_raised_by_some_ten_thousandths_at_most():
    """Where no such δ brings the price within ε, the plan is charged more, and says so."""
    target = Target(epsilon=Decimal("0.01"), delta=Decimal("1e-6"), releases=2)
    found = planner._charged_within(StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")), target)
    steps = [Decimal(f"1.000{part}") for part in (1, 2, 4, 8)]
    assert float(found.delta) == pytest.approx(float(math.prod(steps) * target.delta), rel=1e-10)
    one = Target(epsilon=target.epsilon, delta=target.delta)
    assert planner._charged_within(StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")), one) == one


N = None
POINTS = [  # as asked: k, β, ε, δ, T, ε₁ and its rate; k, β, ε, δ, T; by the paper, exactly, composed: ε, δ, k; filled
    ((N, 0.1, 0.5, 1e-6, 1, N, N), (10, 0.1, 0.468273362203, 1e-6, 1),
     (0.705569700560, 0.468273362203, 0.468273362203, 2.07231181609e-5, 6.71623437e-7, 13, 10, "k")),
    ((20, N, 0.5, 1e-6, 1, N, N), (20, 0.22133, 0.499981470062, 1e-6, 1),
     (0.730661310125, 0.499981470062, 0.499981470062, 2.31920559289e-5, 9.99588778761e-7, 29, 20, "sampling_rate")),
    ((20, 0.1, N, 1e-6, 1, N, N), (20, 0.1, 0.182988609920, 1e-6, 1),
     (0.291941281812, 0.182988609920, 0.182988609920, N, N, N, N, "epsilon")),
    ((20, 0.1, 0.2, N, 1, N, N), (20, 0.1, 0.2, 4.78550533454e-7, 1),
     (0.308615282119, 0.2, 0.2, 4.20022681066e-5, 4.78550533454e-7, 31, 20, "delta")),
    ((20, 0.1, 0.05, N, 2, N, N), (20, 0.1, 0.0499977951393, 1.75871072077e-3, 2),
     (0.267738346818, 0.0340606426427, 0.0499977951393, N, 1.75871072077e-3, N, 20, "delta")),
    ((20, 0.1, 0.25, 1e-6, N, N, N), (20, 0.1, 0.243568108826, 1e-6, 4),
     (1.30709135814, 0.182988609920, 0.243568108826, N, 7.49633487174e-7, N, 20, "releases")),
    ((20, 0.1, N, 1e-6, 1, 0.05, 0.1), (20, 0.1, 0.183192019234, 1e-6, 1),
     (0.297055292577, 0.182988609920, 0.183192019234, N, N, N, N, "epsilon")),
    ((20, 0.1, 0.3, 1e-6, 1, 0.05, N), (20, 0.1, 0.197257548832, 1e-6, 1),
     (0.341941281812, 0.182988609920, 0.197257548832, 4.19477390218e-6, 1.67882697664e-8, 23, 14, N)),
    ((20, 0.1, N, 1e-6, 2, 0.05, 0.1), (20, 0.1, 0.208453695824, 1e-6, 2),
     (0.627458585768, 0.182988609920, 0.208453695824, N, N, N, N, "epsilon")),
    ((30, 0.5, 0.1, 1e-6, 1, N, N), (30, 0.5, 1.19477661983, 1e-6, 1),
     (1.47590651982, 1.19477661983, 1.19477661983, N, 0.0217312629102, N, 797, N)),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "point", "prices"), POINTS, ids=str)
def test_a_plan_is_the_same_whenever_it_is_made_again(asked, point, prices):
    names = ("k", "sampling_rate", "epsilon", "delta", "releases", "selection_epsilon", "selection_rate")
    values = [Decimal(str(value)) if isinstance(value, float) else value for value in asked]
    told = astuple(plan(**dict(zip(names, values, strict=True))))
    found = [float(one) if isinstance(one, Decimal) else one for one in told]
    expected = [*point, *asked[5:], None, *prices]
    assert found == [pytest.approx(one, rel=1e-8) if isinstance(one, float) else one for one in expected]


@pytest.mark.parametrize(
    ("sizes", "epsilon", "delta", "k", "rate"),
    [
        ({7: 3, 30: 100, 120: 9}, "0.5", "1e-6", 38, "0.35"),
        ({1000: 3, 400: 9}, "2", "1e-6", 334, "0.95"),
    ],
)
def test_the_pair_for_public_groups_is_the_same_whenever_it_is_looked_for_again(sizes, epsilon, delta, k, rate):
    found = plan_for_groups(group_sizes=sizes, epsilon=Decimal(epsilon), delta=Decimal(delta))
    assert (found.k, found.sampling_rate, found.filled) == (k, Decimal(rate), None)
    assert found == plan(k, Decimal(rate), Decimal(epsilon), Decimal(delta))


def test_an_amplified_plan_adds_up_its_releases():
    """ln(1 + (e − 1)/5) = 0.295394529120…, each of δ a fifth."""
    found = plan(
        sampling_rate=Decimal("0.1"), epsilon=Decimal(1), delta=Decimal("1e-5"), releases=3, amplify_from=Decimal("0.5")
    )
    each = math.log1p((math.e - 1) / 5)
    assert each <= found.epsilon_exact <= each * (1 + 1e-10)
    assert found.epsilon == found.epsilon_paper == found.epsilon_composed == 3 * found.epsilon_exact
    assert (found.delta, found.releases, found.sampling_rate) == (Decimal("6e-6"), 3, Decimal("0.1"))
    assert found.amplify_from == Decimal("0.5")
    others = (found.k, found.selection_epsilon, found.selection_rate, found.delta_paper, found.delta_exact)
    assert (*others, found.k_paper, found.k_exact, found.filled) == (None,) * 8


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"k": 3}, "takes neither k nor a selection"),
        ({"selection_epsilon": Decimal(1)}, "takes neither k nor a selection"),
        ({"selection_rate": Decimal("0.1")}, "takes neither k nor a selection"),
        ({"sampling_rate": None}, "amplification needs"),
        ({"epsilon": None}, "amplification needs"),
        ({"releases": None}, "amplification needs"),
        ({"releases": 0}, "amplification needs"),
        ({"epsilon": Decimal(-1)}, "epsilon"),
    ],
)
def test_what_can_not_be_amplified_is_refused(changes, told):
    usual = {"sampling_rate": Decimal("0.1"), "epsilon": Decimal(1), "amplify_from": Decimal("0.5")}
    assert plan(**usual).delta == 0
    with pytest.raises(InputRefused, match=told):
        plan(**usual | changes)


def test_the_rates_that_are_tried_are_two_hundredths_and_every_twentieth():
    twentieths = [Decimal(hundredths) / 100 for hundredths in range(5, 100, 5)]
    assert list(planner.RATES_TRIED) == [Decimal("0.01"), Decimal("0.02"), *twentieths]
