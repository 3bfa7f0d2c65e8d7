"""Prices of noisy, outlier-private and biased histograms against brute force, their laws, and their refusals."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from crowdblend.accounting.descriptions.biased_sampling_description import (
    survey_statement,
    zero_knowledge_epsilon_biased,
)
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.accounting.descriptions.histogram_description import outlier_statement
from crowdblend.accounting.descriptions.zero_knowledge import delta_zero_knowledge, epsilon_zero_knowledge
from crowdblend.accounting.kernel.prices.arithmetic import decimal_up
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.accounting.kinds import noisy_histogram_prices
from crowdblend.accounting.kinds.composition.robust_counts import delta_biased, price_robust_counts
from crowdblend.accounting.kinds.noisy_histogram_prices import NoisyProfile, price_noisy_histogram
from crowdblend.accounting.kinds.outlier_histogram_prices import (
    delta_for_group,
    epsilon_for_group,
    price_outlier_histogram,
)
from crowdblend.accounting.kinds.survey_prices import price_biased_counts
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

EXAMPLES = json.loads((Path(__file__).parents[2] / "vectors" / "mechanism_examples.json").read_text(encoding="utf-8"))
FIFTEEN = OutlierPrivateHistogram(epsilon=Decimal("0.2"), horizon=15, margin=5)


def proved(event):
    return description_of(event).proved(event, "")


def noisy(k, epsilon, rate):
    return NoisyHistogram(k=k, epsilon=Decimal(epsilon), sampling_rate=None if rate is None else Decimal(rate))


def published_masses(n, *, k, loss, rate, reach):
    """Every outcome from −reach to reach, straight from the definition."""
    outcomes = np.arange(-reach, reach + 1)
    alpha = math.exp(-loss)
    masses = np.zeros(outcomes.size)
    weights = stats.binom.pmf(np.arange(min(n, reach) + 1), n, rate)
    for count, weight in enumerate(weights[:k]):
        masses += weight * (1 - alpha) / (1 + alpha) * alpha ** np.abs(outcomes - count)
    masses[reach + k : reach + weights.size] += weights[k:]
    return masses


def hockey_stick(one, other, epsilon):
    growth = math.exp(epsilon)
    return max(np.maximum(one - growth * other, 0).sum(), np.maximum(other - growth * one, 0).sum())


@pytest.mark.parametrize(
    ("k", "noise", "rate", "epsilon"),
    [
        (5, "1", "0.3", 0.5),
        (3, "0.5", "0.2", 0.3),
        (8, "0.3", "0.5", 1.0),
        (5, "1", "0.1", 0.05),
        (1, "1", "0.3", 0.4),
        (4, "2", "0.4", 3.0),
        (2, "3", "0.05", 0.7),
    ],
)
def test_the_noisy_profile_is_the_largest_over_all_groups(k, noise, rate, epsilon):
    masses = [published_masses(n, k=k, loss=float(noise), rate=float(rate), reach=300) for n in range(150)]
    largest = max(hockey_stick(a, b, epsilon) for a, b in zip(masses[1:], masses, strict=False))
    found = NoisyProfile(noisy(k, noise, rate)).delta(epsilon)
    assert largest * (1 - 1e-9) <= found <= largest * (1 + 1e-7)
    for factor in (1.1, 1 / 1.1):
        other = NoisyProfile(noisy(k, str(float(noise) * factor), rate)).delta(epsilon)
        assert not largest * (1 - 1e-9) <= other <= largest * (1 + 1e-7)


def test_tops_that_are_cut_off_change_nothing_but_upwards():
    """The sampled counts of a large group are cut far beyond their mean."""
    profile = NoisyProfile(noisy(40, "0.05", "0.1"))
    masses = [published_masses(n, k=40, loss=0.05, rate=0.1, reach=700) for n in range(600)]
    largest = max(hockey_stick(a, b, 0.003) for a, b in zip(masses[1:], masses, strict=False))
    assert largest * (1 - 1e-9) <= profile.delta(0.003) <= largest * (1 + 1e-6)
    assert profile._group(550).sampled[0].size < 550, "there was something to cut"


@pytest.mark.slow
@given(k=st.integers(1, 12), noise=st.floats(0.1, 3), rate=st.floats(0.05, 0.7), epsilon=st.floats(0.2, 3))
@settings(derandomize=True, max_examples=15)
def test_the_noisy_profile_obeys_its_laws(k, noise, rate, epsilon):
    event = noisy(k, str(noise), str(rate))
    profile = NoisyProfile(event)
    delta = profile.delta(epsilon)
    assert profile.delta(epsilon * 1.1) <= delta * (1 + 1e-6) + 1e-12
    covered = epsilon_zero_knowledge(event.epsilon, sampling_rate=event.sampling_rate)
    if k > 1:
        bound = delta_zero_knowledge(k=k, sampling_rate=event.sampling_rate)
        assert profile.delta(float(covered)) <= float(bound) * (1 + 1e-9) + 1e-15
    unsuppressed = delta_exact(k=1, sampling_rate=rate, epsilon=epsilon)
    assert delta <= unsuppressed * (1 + 1e-9) + 1e-12, "noise is a map of the sampled counts"


def test_the_price_is_the_least_epsilon():
    event = noisy(10, "0.5", "0.1")
    charged = price_noisy_histogram(event, delta=Decimal("1e-6"))
    assert charged.relation == "add/remove"
    profile = NoisyProfile(event)
    assert profile.delta(float(charged.epsilon)) <= 1e-6
    assert profile.delta(float(charged.epsilon) * 0.9999) > 1e-6


def test_without_a_sample_there_is_no_add_remove_price(monkeypatch):
    with pytest.raises(InputRefused, match="crowd-blending, but not differentially private"):
        NoisyProfile(noisy(10, "0.5", None))
    with pytest.raises(InputRefused, match="beyond the enumeration"):
        NoisyProfile(noisy(10, "0.5", "1e-10"))
    monkeypatch.setattr(noisy_histogram_prices, "_MOST_GROUPS", 100)
    with pytest.raises(InputRefused, match="too long"):
        NoisyProfile(noisy(100, "0.1", "0.00001")).delta(0.0)


def test_epsilons_of_theorem_8():
    example = EXAMPLES["outlier_epsilons"]
    event = OutlierPrivateHistogram(
        epsilon=Decimal(example["epsilon"]), horizon=example["horizon"], margin=example["margin"]
    )
    assert event.margin * event.epsilon == 1, "t = 1/epsilon"
    for count, epsilon in example["epsilons"].items():
        noise = event.noise(int(count))
        assert Fraction(noise.epsilon) / noise.sensitivity == Fraction(epsilon)


def outlier_masses(event, count, reach=4000):
    loss = float(event.epsilon)
    if count < event.horizon - event.margin:
        loss *= event.margin / (event.horizon - count)
    alpha = math.exp(-loss)
    return (1 - alpha) / (1 + alpha) * alpha ** np.abs(np.arange(-reach, reach + 1) - count)


@pytest.mark.parametrize("event", [FIFTEEN, OutlierPrivateHistogram(epsilon=Decimal(1), horizon=8, margin=4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.2, 0.5, 1.0, 1.5])
def test_each_groups_guarantee_is_its_divergence(event, epsilon):
    for count in range(1, event.horizon + 3):
        exact = hockey_stick(outlier_masses(event, count), outlier_masses(event, count - 1), epsilon)
        found = delta_for_group(event, count=count, epsilon=epsilon)
        assert exact * (1 - 1e-9) - 1e-15 <= found <= exact * (1 + 1e-7) + 1e-11


def test_the_rarer_the_group_the_better_its_guarantee():
    epsilons = [epsilon_for_group(FIFTEEN, count=count, delta=1e-3) for count in range(1, 11)]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] > 3 * epsilons[0]


def test_the_price_covers_every_group():
    charged = price_outlier_histogram(FIFTEEN, delta=Decimal("1e-4"))
    for share, covered in ((1.0, True), (0.999, False)):
        epsilon = float(charged.epsilon) * share
        worst = max(delta_for_group(FIFTEEN, count=count, epsilon=epsilon) for count in range(1, 3 * FIFTEEN.horizon))
        assert (worst <= 1e-4) is covered


def test_with_a_wide_margin_the_price_comes_near_epsilon():
    """Theorem 8: the δ falls like e^{−εt}."""
    prices = [
        float(
            price_outlier_histogram(
                OutlierPrivateHistogram(epsilon=Decimal("0.2"), horizon=5 + t, margin=t), delta=Decimal("1e-6")
            ).epsilon
        )
        for t in (5, 50, 300)
    ]
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] < 0.23


def test_outlier_refusals():
    with pytest.raises(InputRefused, match="more than can be enumerated"):
        price_outlier_histogram(
            OutlierPrivateHistogram(epsilon=Decimal(1), horizon=2_000_000, margin=3), delta=Decimal("1e-6")
        )
    with pytest.raises(ValueError, match="at least one"):
        delta_for_group(FIFTEEN, count=0, epsilon=1.0)


BIASED = BiasedSampleCounts(
    k=10,
    lowest_rate=Decimal("0.1"),
    highest_rate=Decimal("0.12"),
    largest_rate=Decimal("0.2"),
    exceptions=2,
)


def test_the_earlier_price_of_a_biased_sample_is_the_least_epsilon():
    charged = price_robust_counts(BIASED, delta=Decimal("1e-6"))
    assert charged.relation == "add/remove"
    assert delta_biased(BIASED, epsilon=float(charged.epsilon)) <= 1e-6
    assert delta_biased(BIASED, epsilon=float(charged.epsilon) * 0.999) > 1e-6
    assert charged.epsilon >= Decimal("0.2231"), "never below -ln(1 - p_max)"


def test_a_generous_delta_costs_the_least_epsilon_of_the_earlier_bound():
    one_rate = BiasedSampleCounts(
        k=30, lowest_rate=Decimal("0.1"), highest_rate=Decimal("0.1"), largest_rate=Decimal("0.1"), exceptions=0
    )
    charged = price_robust_counts(one_rate, delta=Decimal("0.01"))
    assert float(charged.epsilon) == pytest.approx(-math.log(0.9), rel=1e-9)
    for rate in map(Decimal, ("0.01", "0.02", "0.05", "0.13", "0.2", "0.35", "0.6")):
        event = BiasedSampleCounts(k=900, lowest_rate=rate, highest_rate=rate, largest_rate=rate, exceptions=0)
        least = -(1 - rate).ln()
        assert price_robust_counts(event, delta=Decimal("0.01")).epsilon == decimal_up(least), "to the last digit"


def test_zero_knowledge_epsilon_of_theorem_2():
    p, q, top = 0.1, 0.12, 0.2
    formula = math.log(top * q * (1 - p) * (2 - p) / (p * (1 - q) ** 2) + 1 - top)
    assert float(zero_knowledge_epsilon_biased(BIASED)) == pytest.approx(formula, rel=1e-11)


def test_rates_too_far_apart_have_no_price():
    wild = BiasedSampleCounts(
        k=3, lowest_rate=Decimal("1e-20"), highest_rate=Decimal("0.999"), largest_rate=Decimal("0.9999"), exceptions=0
    )
    for priced in (price_biased_counts, price_robust_counts):
        with pytest.raises(InputRefused, match="no epsilon"):
            priced(wild, delta=Decimal("1e-6"))
    for change in ({"k": 0}, {"exceptions": -1}, {"lowest_rate": Decimal(-1)}, {"largest_rate": Decimal(1)}):
        fields = {name: getattr(BIASED, name) for name in BIASED.__slots__}
        with pytest.raises(ValueError, match="must"):
            BiasedSampleCounts(**fields | change)


def test_guarantees_in_words_state_their_numbers():
    plain = proved(SuppressedHistogram(k=20, sampling_rate=None))
    assert "(20, 0)-crowd-blending" in plain
    assert "from at least 19 others" in plain
    assert "a group of 20 or more is published exactly" in plain
    assert "not differential privacy" in plain
    sampled = proved(noisy(20, "0.5", "0.1"))
    assert str(epsilon_zero_knowledge(Decimal("0.5"), sampling_rate=Decimal("0.1"))) in sampled
    assert f"{delta_zero_knowledge(k=20, sampling_rate=Decimal('0.1'))})-zero-knowledge private" in sampled
    assert "a factor of at most e^0.5" in sampled
    assert sampled.count("0.1 sample") == sampled.count("iRS(0.1)") == sampled.count("at rate 0.1 ") == 1
    assert "not differential privacy" not in sampled
    assert "zero-knowledge" not in proved(SuppressedHistogram(k=1, sampling_rate=Decimal("0.1")))
    assert "zero-knowledge" in proved(SuppressedHistogram(k=2, sampling_rate=Decimal("0.1")))
    assert "of c people below 10 the noise has loss 1.0/(15 − c) per record, in larger ones 0.2;" in outlier_statement(
        FIFTEEN
    )
    biased = survey_statement(BIASED)
    assert biased.startswith(
        f"({BIASED.k}, 0)-crowd-blending, on records with inclusion rates from 0.1 to 0.12 but for at"
    )
    assert "for at most 2 of its records, none above 0.2:" in biased
    assert f"epsilon {zero_knowledge_epsilon_biased(BIASED)} for the aggregates iRS(0.1, 0.12, 2)," in biased
    strict = BiasedSampleCounts(**{name: getattr(BIASED, name) for name in BIASED.__slots__} | {"exceptions": 0})
    assert "from 0.1 to 0.12, none above" in survey_statement(strict)
    assert "a delta that falls with k - 2 = 8 and has" in biased
    assert "a delta that falls with k and has" in survey_statement(strict)


@pytest.mark.parametrize(
    ("k", "exceptions", "holds"),
    [(1, 0, False), (2, 0, True), (2, 1, False), (5, 3, True), (5, 4, False), (5, 10, False)],
)
def test_zero_knowledge_is_claimed_only_where_its_theorem_holds(k, exceptions, holds):
    """CBP, Theorem 2 needs k of at least 2 and fewer than k - 1 exceptions."""
    rates = dict.fromkeys(("lowest_rate", "highest_rate", "largest_rate"), Decimal("0.01"))
    event = BiasedSampleCounts(k=k, exceptions=exceptions, **rates)
    words = survey_statement(event)
    assert words.startswith(f"({k}, 0)-crowd-blending")
    assert ("zero-knowledge" in words) is ("Theorem 2" in words) is holds
    if not holds:
        with pytest.raises(InputRefused, match="fewer than k - 1 exceptions"):
            zero_knowledge_epsilon_biased(event)
