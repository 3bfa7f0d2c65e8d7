"""The planner: any one parameter from the others, consistent with what is charged, and fast."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.theory.planning.inversion import Target, frontier, least_k, price_of
from crowdblend.accounting.theory.planning.planner import plan, plan_for_groups
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
    best = max(published(least_k(rate, Target(**price)), float(rate)) for rate in rates)
    assert published(found.k, float(found.sampling_rate)) >= 0.95 * best
    habit = published(least_k(Decimal("0.1"), Target(**price)), 0.1)
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
