"""Prices of answers, and what is refused with an explanation."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.kinds.answer_prices import price_answer
from crowdblend.flows.spec_tables import REFUSED, refuse_unsafe
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, REPLACEMENT
from crowdblend.mechanisms.kinds.answers import CountAnswer, MeanAnswer, SumAnswer

FIELDS = {"epsilon": Decimal("0.5"), "groups": 3, "sampling_rate": None}


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACEMENT])
@pytest.mark.parametrize(
    "more",
    [
        (CountAnswer, {}),
        (SumAnswer, {"lower": -2, "upper": 9}),
        (MeanAnswer, {"lower": 0, "upper": 1, "least_records": 5}),
    ],
)
def test_an_answer_costs_exactly_epsilon_under_its_relation(relation, more):
    kind, fields = more
    charged = price_answer(kind(**FIELDS, relation=relation, **fields))
    assert (charged.epsilon, charged.delta, charged.relation) == (Decimal("0.5"), 0, relation)


def test_a_fresh_sample_amplifies():
    charged = price_answer(CountAnswer(**FIELDS | {"sampling_rate": Decimal("0.1")}, relation=ADD_REMOVE))
    assert float(charged.epsilon) == pytest.approx(math.log1p(0.1 * math.expm1(0.5)), rel=1e-11)
    assert charged.rule == "pure-noise-amplified/1"


def test_the_amplified_price_covers_brute_force():
    """A count of n people on a sample: Bin(n, β) + noise against Bin(n−1, β) + noise, every outcome."""
    rate, loss, reach = 0.3, 0.8, 200
    alpha = math.exp(-loss)
    noise = (1 - alpha) / (1 + alpha) * alpha ** np.abs(np.arange(-reach, reach + 1))
    answer = CountAnswer(epsilon=Decimal("0.8"), relation=ADD_REMOVE, groups=1, sampling_rate=Decimal("0.3"))
    priced = float(price_answer(answer).epsilon)
    worst = 0.0
    counts = np.array([1.0])
    for _ in range(12):
        more = np.convolve(counts, [1 - rate, rate])
        with_t, without = np.convolve(more, noise), np.convolve(np.append(counts, 0), noise)
        inner = slice(20, -20)
        worst = max(worst, float(np.abs(np.log(with_t[inner] / without[inner])).max()))
        counts = more
    assert worst <= priced + 1e-9
    assert worst > 0.99 * priced, "and one person alone meets it"


@pytest.mark.parametrize("name", ["gaussian", "Mondrian", "clustering", "one-sided"])
def test_unsafe_mechanisms_are_refused_with_the_reason(name):
    with pytest.raises(InputRefused) as refused:
        refuse_unsafe(name)
    assert refused.value.remedy
    assert REFUSED[name.lower()][0] in refused.value.message


def test_other_names_pass():
    refuse_unsafe("histogram")
