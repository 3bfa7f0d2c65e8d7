"""Choosing the map privately: the exact mixture against brute force, and the amplified fresh-sample choice."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds import selected_microdata_prices
from crowdblend.accounting.kinds.composition.paper_bound import paper_price_selected
from crowdblend.accounting.kinds.composition.private_choice import log_profile_selected, selection_cost
from crowdblend.accounting.kinds.selected_microdata_prices import price_selected
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

EXAMPLE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
SMALL = Decimal("1e-6")


@pytest.mark.parametrize(("k", "rate"), [(2, 0.25), (5, 0.5), (3, 0.125)])
@pytest.mark.parametrize("selection_epsilon", [0.1, 0.8])
def test_the_mixture_is_the_largest_over_group_sizes_of_the_product_with_randomised_response(
    oracle, k, rate, selection_epsilon
):
    odds = math.exp(selection_epsilon)
    choice = ([odds / (1 + odds), 1 / (1 + odds)], [1 / (1 + odds), odds / (1 + odds)])
    epsilons = np.array([0.0, 0.05, 0.3, 0.9, 2.0])
    ours = np.exp(log_profile_selected(k=k, sampling_rate=rate, selection_epsilon=selection_epsilon, epsilons=epsilons))
    largest = np.zeros_like(epsilons)
    for n in range(k, math.ceil(3 * k / rate)):
        with_t, without = oracle.pair(n=n, k=k, sampling_rate=rate)
        for pair in ((with_t, without), (without, with_t)):
            joint = oracle.product([choice, pair])
            largest = np.maximum(largest, [float(oracle.hockey_stick(*joint, float(e))) for e in epsilons])
    assert np.all(ours >= largest * (1 - 1e-14))
    # The supremum of the sum is at most the sum of the suprema, which two group sizes may attain.
    assert np.all(ours <= largest * 1.5)


def test_the_price_of_one_choice_and_release_is_below_the_sum_and_above_either():
    charged = price_selected(EXAMPLE, selection_epsilon=Decimal("0.1"), selection_rate=None, delta=SMALL)
    alone = price(EXAMPLE, delta=SMALL).epsilon
    assert charged.rule == "exact-profile-selection/1"
    assert alone < charged.epsilon <= alone + Decimal("0.1")


def test_a_choice_on_a_fresh_sample_is_amplified():
    cost = selection_cost(Decimal("0.1"), selection_rate=Decimal("0.1"))
    assert float(cost.epsilon) == pytest.approx(math.log1p(0.1 * math.expm1(0.1)), rel=1e-11)
    whole, fresh = (
        price_selected(EXAMPLE, selection_epsilon=Decimal("0.1"), selection_rate=rate, delta=SMALL)
        for rate in (None, Decimal("0.1"))
    )
    assert fresh.epsilon < whole.epsilon


def test_many_rounds_cost_no_more_than_their_sum_and_less_than_the_paper():
    charged = price_selected(EXAMPLE, selection_epsilon=Decimal("0.1"), selection_rate=None, delta=SMALL, releases=12)
    assert charged.rule == "pld-selection/1"
    assert charged.epsilon < price(EXAMPLE, delta=SMALL, releases=12).epsilon + Decimal("1.2")
    paper = paper_price_selected(
        EXAMPLE, selection_epsilon=Decimal("0.1"), selection_rate=None, delta=SMALL, releases=12
    )
    assert paper is not None
    assert float(paper.epsilon) == pytest.approx(4.287156 + 1.2, abs=1e-5)
    assert charged.epsilon < paper.epsilon


def test_below_the_floor_the_parts_are_added():
    mechanism = StronglySafeRelease(k=5000, sampling_rate=Decimal("0.1"))
    tiny = Decimal("1e-300")
    charged = price_selected(mechanism, selection_epsilon=Decimal("0.1"), selection_rate=None, delta=tiny, releases=2)
    assert charged.rule == "basic-selection/1"
    assert charged.epsilon == price(mechanism, delta=tiny, releases=2).epsilon + Decimal("0.2")


def test_no_paper_price_without_one_of_the_release():
    mechanism = StronglySafeRelease(k=2, sampling_rate=Decimal("0.1"))
    assert paper_price_selected(mechanism, selection_epsilon=Decimal("0.1"), selection_rate=None, delta=SMALL) is None


@pytest.mark.parametrize(("selection_epsilon", "rate"), [("0", None), ("-1", None), ("inf", None), ("0.1", "2")])
def test_a_selection_out_of_range_is_refused(selection_epsilon, rate):
    with pytest.raises(InputRefused):
        selection_cost(Decimal(selection_epsilon), selection_rate=None if rate is None else Decimal(rate))


def test_a_choice_beyond_the_grid_is_charged_by_the_sum():
    charged = price_selected(EXAMPLE, selection_epsilon=Decimal(10**6), selection_rate=None, delta=SMALL, releases=2)
    assert charged.rule == "basic-selection/1"
    assert charged.epsilon > 2 * 10**6


def test_what_a_delta_bounds_alone_costs_next_to_no_epsilon():
    """The choice moves less than δ, and so does a release of such large groups: an ε of 0 would do."""
    release = StronglySafeRelease(k=200, sampling_rate=Decimal("0.01"))
    charged = price_selected(release, selection_epsilon=Decimal("1e-9"), selection_rate=None, delta=Decimal("0.01"))
    assert 0 < charged.epsilon < Decimal("1e-50")


def test_no_epsilon_of_one_release_is_found_where_the_largest_does_not_do():
    assert selected_microdata_prices._epsilon_of_one(EXAMPLE, 0.1, -1e6, 1.0) is None
