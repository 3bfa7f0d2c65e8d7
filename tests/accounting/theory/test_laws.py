"""The laws that every price obeys."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.kinds.composition.amplification import Guarantee, amplified
from crowdblend.accounting.kinds.composition.paper_bound import delta_paper, epsilon_paper, least_epsilon_of_paper
from crowdblend.accounting.theory.planning.searches import epsilon_exact
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from hypothesis import example, given, settings
from hypothesis import strategies as st

ROUNDING = 1 + 1e-11

ks = st.integers(1, 2000)
rates = st.floats(1e-6, 0.99)
epsilons = st.floats(0.0, 12.0)
deltas = st.floats(-30.0, -1.0).map(lambda exponent: 10.0**exponent)
law = settings(max_examples=150, derandomize=True)


@law
@given(k=ks, rate=rates, epsilon=epsilons, more=st.floats(0.0, 3.0))
def test_delta_falls_with_epsilon(k, rate, epsilon, more):
    less = delta_exact(k=k, sampling_rate=rate, epsilon=epsilon + more)
    assert less <= delta_exact(k=k, sampling_rate=rate, epsilon=epsilon) * ROUNDING


@law
@given(k=ks, rate=rates, epsilon=epsilons, more=st.integers(1, 500))
def test_delta_falls_with_k(k, rate, epsilon, more):
    less = delta_exact(k=k + more, sampling_rate=rate, epsilon=epsilon)
    assert less <= delta_exact(k=k, sampling_rate=rate, epsilon=epsilon) * ROUNDING


@law
@given(k=ks, rate=rates, epsilon=epsilons, share=st.floats(0.01, 1.0))
def test_delta_rises_with_the_sampling_rate(k, rate, epsilon, share):
    less = delta_exact(k=k, sampling_rate=max(rate * share, 1e-8), epsilon=epsilon)
    assert less <= delta_exact(k=k, sampling_rate=rate, epsilon=epsilon) * ROUNDING


@law
@example(k=1914, rate=0.6875, above=2.0)  # SciPy has 0 for the paper's tail there, which is about 1e-268
@given(k=ks, rate=rates, above=st.floats(0.0, 5.0))
def test_exact_is_at_most_the_paper_wherever_the_paper_is_valid(k, rate, above):
    epsilon = least_epsilon_of_paper(rate) + above
    assert delta_exact(k=k, sampling_rate=rate, epsilon=epsilon) <= max(
        delta_paper(k=k, sampling_rate=rate, epsilon=epsilon) * ROUNDING, 1e-240
    )


@pytest.mark.slow
@law
@given(k=ks, rate=rates, delta=deltas)
def test_epsilon_is_the_least_that_reaches_delta(k, rate, delta):
    found = epsilon_exact(k=k, sampling_rate=rate, delta=delta)
    if found is None:
        assert rate**k > delta * (1 - 1e-9)
        return
    assert delta_exact(k=k, sampling_rate=rate, epsilon=found) <= delta * (1 + 1e-12)
    if found > 0:
        assert delta_exact(k=k, sampling_rate=rate, epsilon=found * (1 - 1e-9)) >= delta * (1 - 1e-6)


@pytest.mark.slow
@law
@given(k=ks, rate=rates, delta=deltas)
def test_exact_epsilon_is_at_most_the_paper(k, rate, delta):
    paper, exact = (
        epsilon_paper(k=k, sampling_rate=rate, delta=delta),
        epsilon_exact(k=k, sampling_rate=rate, delta=delta),
    )
    assert paper is None or (exact is not None and exact <= paper * ROUNDING)


@pytest.mark.slow
@settings(max_examples=40, derandomize=True)
@given(
    k=st.integers(1, 400),
    rate=st.decimals("0.0001", "0.95", places=4),
    delta=st.sampled_from([Decimal("1e-3"), Decimal("1e-6"), Decimal("1e-15")]),
    releases=st.integers(1, 60),
)
def test_the_charge_is_at_most_basic_composition_and_the_paper_and_rises_with_releases(k, rate, delta, releases):
    mechanism = StronglySafeRelease(k=k, sampling_rate=rate)
    try:
        charged = price(mechanism, delta=delta, releases=releases)
    except InputRefused:
        assert releases * float(rate) ** k > float(delta) * (1 - 1e-3)
        return
    assert charged.epsilon.as_tuple().digits.__len__() <= 12
    paper = paper_price(mechanism, delta=delta, releases=releases)
    assert paper is None or charged.epsilon <= paper.epsilon * Decimal("1.000001")
    share = epsilon_exact(k=k, sampling_rate=float(rate), delta=float(delta) / releases * (1 - 1e-12))
    if share is not None:
        assert charged.epsilon <= Decimal(share * releases * (1 + 1e-9)) + Decimal("1e-12")
    single = price(mechanism, delta=delta)
    assert single.epsilon <= charged.epsilon * Decimal("1.001")


@law
@given(
    epsilon=st.decimals("0", "20", places=3),
    delta=st.decimals("0", "0.1", places=6),
    rate=st.decimals("0.0001", "1", places=4),
)
def test_the_amplified_price_at_the_same_rate_is_the_price_itself(epsilon, delta, rate):
    guarantee = Guarantee(epsilon=epsilon, delta=delta)
    assert amplified(guarantee, from_rate=rate, to_rate=rate) == guarantee
    at_lower = amplified(guarantee, from_rate=Decimal(1), to_rate=rate)
    assert at_lower.epsilon <= epsilon
    assert float(at_lower.epsilon) >= math.log1p(float(rate) * math.expm1(float(epsilon))) * (1 - 1e-12)
    assert at_lower.delta == pytest.approx(delta * rate, rel=Decimal("1e-9"))


@law
@given(
    epsilon=st.decimals("0.001", "10", places=3),
    first=st.decimals("0.01", "1", places=2),
    second=st.decimals("0.01", "1", places=2),
)
def test_amplifying_twice_is_amplifying_once(epsilon, first, second):
    guarantee = Guarantee(epsilon=epsilon, delta=Decimal("1e-6"))
    middle, low = max(first, second), min(first, second)
    twice = amplified(amplified(guarantee, from_rate=Decimal(1), to_rate=middle), from_rate=middle, to_rate=low)
    once = amplified(guarantee, from_rate=Decimal(1), to_rate=low)
    assert once.epsilon <= twice.epsilon <= once.epsilon * Decimal("1.0000000001")
