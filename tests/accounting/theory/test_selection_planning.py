"""The ε-safe release as an event: one price by either name, its record, and plans that know how the map is chosen."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.accounting.kernel.prices.registry import (
    mechanism_of_record,
    mechanism_record,
    paper_price,
    price,
)
from crowdblend.accounting.kinds.composition.private_choice import selection_cost
from crowdblend.accounting.kinds.selected_microdata_prices import price_selected
from crowdblend.accounting.theory.planning.inversion import Target, largest_sampling_rate, least_k
from crowdblend.accounting.theory.planning.planner import plan
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, ExponentialSafeRelease, StronglySafeRelease

pytestmark = pytest.mark.slow

DELTA = Decimal("1e-6")
WHOLE = EpsilonSafeRelease(k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=None)
FRESH = replace(WHOLE, selection_rate=Decimal("0.05"))
drawn = partial(ExponentialSafeRelease, selection_draws=1)


@pytest.mark.parametrize("mechanism", [WHOLE, FRESH])
@pytest.mark.parametrize("releases", [1, 12])
def test_the_event_costs_what_its_parts_cost(mechanism, releases):
    by_parts = price_selected(
        StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")),
        selection_epsilon=Decimal("0.1"),
        selection_rate=mechanism.selection_rate,
        delta=DELTA,
        releases=releases,
    )
    assert price(mechanism, delta=DELTA, releases=releases) == by_parts
    assert by_parts.epsilon > price(mechanism.release, delta=DELTA, releases=releases).epsilon
    paper = paper_price(mechanism, delta=DELTA, releases=releases)
    assert paper is not None
    assert paper.epsilon > by_parts.epsilon
    cost = selection_cost(Decimal("0.1"), selection_rate=mechanism.selection_rate)
    assert description_of(mechanism).losses(mechanism) == (mechanism.release, cost)


@pytest.mark.parametrize("mechanism", [WHOLE, FRESH])
def test_the_event_survives_its_record(mechanism):
    record = mechanism_record(mechanism)
    assert record["kind"] == "epsilon-safe-release/1"
    assert all(type(value) in (int, str) for value in record.values())
    assert mechanism_of_record(record) == mechanism


@pytest.mark.parametrize("selection_rate", [None, Decimal("0.05")])
def test_what_the_planner_fills_in_is_charged_at_most_what_was_asked(selection_rate):
    asked = {"epsilon": Decimal("0.5"), "delta": DELTA}
    choice = {"selection_epsilon": Decimal("0.2"), "selection_rate": selection_rate}
    k = least_k(Decimal("0.1"), Target(**asked, **choice))
    charged = [price(drawn(k=each, sampling_rate=Decimal("0.1"), **choice), delta=DELTA).epsilon for each in (k, k - 1)]
    assert charged[0] <= Decimal("0.5") < charged[1]
    rate = largest_sampling_rate(k, Target(**asked, **choice))
    assert rate >= Decimal("0.1")
    assert price(drawn(k=k, sampling_rate=rate, **choice), delta=DELTA).epsilon <= Decimal("0.5")


def test_a_plan_says_what_a_choice_on_a_fresh_sample_saves():
    asked = {"k": 20, "sampling_rate": Decimal("0.1"), "delta": DELTA, "releases": 12}
    whole = plan(**asked, selection_epsilon=Decimal("0.1"))
    fresh = plan(**asked, selection_epsilon=Decimal("0.1"), selection_rate=Decimal("0.05"))
    alone = plan(**asked)
    assert alone.epsilon < fresh.epsilon < whole.epsilon
    one = drawn(k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=Decimal("0.05"))
    assert (
        fresh.epsilon == price(one, delta=DELTA, releases=12).epsilon < price(FRESH, delta=DELTA, releases=12).epsilon
    )
    assert whole.epsilon_paper is not None
    assert fresh.epsilon_paper is not None
    assert fresh.epsilon_paper < whole.epsilon_paper
    assert (whole.selection_rate, fresh.selection_rate) == (None, Decimal("0.05"))


def test_a_plan_with_a_rate_but_no_choice_is_refused():
    with pytest.raises(InputRefused, match="goes with"):
        plan(k=20, sampling_rate=Decimal("0.1"), delta=DELTA, selection_rate=Decimal("0.1"))
