"""Prices of answers, the checker of noise, and what is refused with an explanation."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.theory.answer_price import price_answer, price_coin_flip_count
from crowdblend.accounting.theory.noise_ratio import log_probability, require_pure, worst_ratio
from crowdblend.accounting.theory.refused_mechanisms import REFUSED, refuse_unsafe
from crowdblend.mechanisms.amount_format import amount_shown
from crowdblend.mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.neighbours import ADD_REMOVE, REPLACEMENT
from crowdblend.mechanisms.noise import (
    CoinFlipNoise,
    GaussianNoise,
    LaplaceNoise,
    OneSidedGeometricNoise,
    TwoSidedGeometricNoise,
)
from crowdblend.mechanisms.refusal import InputRefused

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


def test_the_coin_flip_count_costs_ln_4():
    charged = price_coin_flip_count()
    assert charged.epsilon >= Decimal(4).ln() > charged.epsilon - Decimal("1e-10")
    found = worst_ratio(CoinFlipNoise())
    assert found.epsilon == charged.epsilon
    ratios = [math.exp(log_probability(CoinFlipNoise(), x) - log_probability(CoinFlipNoise(), x + 1)) for x in range(9)]
    assert ratios[0] == pytest.approx(4)
    assert ratios[1:] == pytest.approx([2] * 8)
    assert worst_ratio(CoinFlipNoise(), sensitivity=3).epsilon >= Decimal(16).ln()


@pytest.mark.parametrize(
    ("noise", "exact"),
    [
        (TwoSidedGeometricNoise(epsilon=Decimal("0.7"), sensitivity=3), 0.7),
        (TwoSidedGeometricNoise(epsilon=Decimal("0.7")), 2.1),
        (LaplaceNoise(scale=4.0), 0.75),
        (CoinFlipNoise(), math.log(16)),
    ],
)
def test_sound_noise_has_the_largest_ratio_that_is_found_by_trying(noise, exact):
    found = worst_ratio(noise, sensitivity=3)
    outputs = np.arange(-60, 61)
    tried = max(abs(log_probability(noise, x) - log_probability(noise, x - s)) for x in outputs for s in (1, 2, 3))
    assert float(found.epsilon) == pytest.approx(exact, rel=1e-9)
    assert tried == pytest.approx(exact, rel=1e-9)
    assert max(witness.log_ratio for witness in found.witnesses) == pytest.approx(exact, rel=1e-9)
    assert require_pure(noise, sensitivity=3, epsilon=found.epsilon) == found
    with pytest.raises(InputRefused, match="it needs"):
        require_pure(noise, sensitivity=3, epsilon=Decimal(exact) / Decimal("1.1"))


def test_gaussian_noise_has_an_unbounded_ratio():
    found = worst_ratio(GaussianNoise(standard_deviation=10.0))
    assert found.epsilon is None
    losses = [witness.log_ratio for witness in found.witnesses]
    assert losses == sorted(losses)
    for witness in found.witnesses:
        assert witness.log_ratio == pytest.approx(abs(1 - 2 * witness.output) / 200)
    with pytest.raises(InputRefused, match=r"no ε is enough.*Gaussian noise is \(ε, δ\)-private"):
        require_pure(GaussianNoise(standard_deviation=1e6), sensitivity=1, epsilon=Decimal(100))


def test_one_sided_noise_betrays_for_certain():
    noise = OneSidedGeometricNoise(epsilon=Decimal("0.1"))
    found = worst_ratio(noise)
    assert found.epsilon is None
    assert found.witnesses[-1].log_ratio == math.inf
    assert found.witnesses[0].log_ratio == pytest.approx(0.1), "elsewhere it looks innocent"
    with pytest.raises(InputRefused, match="tells the neighbours apart for certain"):
        require_pure(noise, sensitivity=1, epsilon=Decimal(100))
    with pytest.raises(InputRefused, match="sensitivity must be"):
        worst_ratio(noise, sensitivity=0)


@pytest.mark.parametrize(
    ("noise", "sensitivity", "place", "loss"),
    [
        (CoinFlipNoise(), 1, "0", "1.38629"),
        (CoinFlipNoise(), 3, "0", "2.77259"),
        (TwoSidedGeometricNoise(epsilon=Decimal("0.7")), 2, "0", "1.4"),
        (LaplaceNoise(scale=4.0), 1, "0", "0.25"),
        (GaussianNoise(standard_deviation=10.0), 1, "-10000", "100.005"),
        (OneSidedGeometricNoise(epsilon=Decimal("0.1")), 2, "0", "inf"),
    ],
)
def test_a_refusal_shows_the_worst_output_that_was_tried(noise, sensitivity, place, loss):
    found = worst_ratio(noise, sensitivity=sensitivity)
    assert found.witnesses[-1].log_ratio >= max(witness.log_ratio for witness in found.witnesses) * (1 - 1e-15)
    with pytest.raises(InputRefused) as refused:
        require_pure(noise, sensitivity=sensitivity, epsilon=Decimal("0.01"))
    told = str(refused.value)
    assert f"{type(noise).__name__} is not 0.01-differentially private for sensitivity {sensitivity}: " in told
    assert f"At output {place} the loss is {loss}." in told
    assert (f"it needs ε = {amount_shown(found.epsilon)}," if found.epsilon else "no ε is enough,") in told


@pytest.mark.parametrize("name", ["gaussian", "Mondrian", "clustering", "one-sided"])
def test_unsafe_mechanisms_are_refused_with_the_reason(name):
    with pytest.raises(InputRefused) as refused:
        refuse_unsafe(name)
    assert refused.value.remedy
    assert REFUSED[name.lower()][0] in refused.value.message


def test_other_names_pass():
    refuse_unsafe("histogram")
