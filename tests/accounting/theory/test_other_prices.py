"""Amplification, zero-knowledge prices, robust sampling, survival."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.descriptions.zero_knowledge import (
    delta_zero_knowledge,
    epsilon_zero_knowledge,
    epsilon_zero_knowledge_robust,
)
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.accounting.kinds.composition.amplification import Guarantee, amplified
from crowdblend.accounting.kinds.composition.robust_counts import delta_robust
from crowdblend.accounting.theory.survival import survival_share
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

PURE = Guarantee(epsilon=Decimal(1), delta=Decimal(0))


def test_both_halves_of_table_1_of_the_paper(vectors):
    for row in vectors["lqs"]["table_1"]["rows"]:
        epsilon = Decimal(11).ln() if row["epsilon_at_1"] == "ln 11" else Decimal(row["epsilon_at_1"])
        guarantee = Guarantee(epsilon=epsilon, delta=Decimal(row["delta_at_1"]))
        for rate, printed, delta in zip(row["rates"], row["epsilons"], row["deltas"], strict=True):
            found = amplified(guarantee, from_rate=Decimal(1), to_rate=Decimal(rate))
            assert round(float(found.epsilon), -Decimal(printed).as_tuple().exponent) == float(printed)
            assert found.delta == Decimal(delta)


def test_fifty_releases_after_sampling_cost_one_in_all():
    """LQS, arXiv:1101.2604v2, §2.7."""
    each = Guarantee(epsilon=Decimal("0.02"), delta=Decimal(0))
    assert each.epsilon * 50 == 1
    whole = math.log1p(math.expm1(0.02) / 0.2)
    back = amplified(Guarantee(epsilon=Decimal(whole), delta=Decimal(0)), from_rate=Decimal(1), to_rate=Decimal("0.2"))
    assert float(back.epsilon) == pytest.approx(0.02, rel=1e-10)


@pytest.mark.parametrize(("first", "second"), [("0.5", "0.6"), ("1.1", "0.5"), ("0.5", "0"), ("nan", "0.1")])
def test_amplification_only_goes_down(first, second):
    with pytest.raises(InputRefused, match="amplification"):
        amplified(PURE, from_rate=Decimal(first), to_rate=Decimal(second))


@pytest.mark.parametrize(("epsilon", "delta"), [("-1", "0"), ("inf", "0"), ("1", "1"), ("1", "-0.1")])
def test_a_guarantee_out_of_range_cannot_be_made(epsilon, delta):
    with pytest.raises(ValueError, match="must be"):
        Guarantee(epsilon=Decimal(epsilon), delta=Decimal(delta))


@pytest.mark.parametrize("rate", ["0.01", "0.1", "0.5", "0.9"])
def test_without_crowd_noise_the_zero_knowledge_price_is_minus_log_of_one_minus_the_rate(rate):
    p = float(rate)
    assert float(epsilon_zero_knowledge(Decimal(0), sampling_rate=Decimal(rate))) == pytest.approx(
        -math.log1p(-p), rel=1e-11
    )
    general = math.log(p * (2 - p) / (1 - p) * math.exp(0.7) + 1 - p)
    assert float(epsilon_zero_knowledge(Decimal("0.7"), sampling_rate=Decimal(rate))) == pytest.approx(
        general, rel=1e-11
    )


def test_robust_zero_knowledge_price():
    p, q, top = 0.1, 0.15, 0.4
    found = epsilon_zero_knowledge_robust(
        Decimal("0.5"), lowest_rate=Decimal("0.1"), highest_rate=Decimal("0.15"), largest_rate=Decimal("0.4")
    )
    formula = math.log(top * q * (1 - p) * (2 - p) / (p * (1 - q) ** 2) * math.exp(0.5) + 1 - top)
    assert float(found) == pytest.approx(formula, rel=1e-11)
    with pytest.raises(InputRefused, match="rates must satisfy"):
        epsilon_zero_knowledge_robust(
            Decimal(0), lowest_rate=Decimal("0.2"), highest_rate=Decimal("0.1"), largest_rate=Decimal("0.4")
        )
    with pytest.raises(InputRefused, match="epsilon"):
        epsilon_zero_knowledge(Decimal(-1), sampling_rate=Decimal("0.1"))


@pytest.mark.parametrize(("k", "rate"), [(2, "0.1"), (20, "0.1"), (20, "0.5"), (100, "0.2"), (5, "0.9")])
def test_the_explicit_delta_covers_the_suppressed_histogram(k, rate):
    """CBP, Example 1: suppression is (k, 0)-crowd-blending, so its exact profile may not exceed this price."""
    epsilon = epsilon_zero_knowledge(Decimal(0), sampling_rate=Decimal(rate))
    exact = delta_exact(k=k, sampling_rate=float(rate), epsilon=float(epsilon))
    assert Decimal(exact) <= delta_zero_knowledge(k=k, sampling_rate=Decimal(rate)) * Decimal("1.000000001")


@pytest.mark.parametrize(("k", "p"), [(2, 0.5), (7, 0.1), (30, 0.3)])
def test_the_explicit_delta_is_the_largest_over_all_crowds(k, p):
    share = p * (2 - p)
    largest = 0.0
    for n in range(1, int(6 * k / p)):
        first = max(k - 1, math.floor((n + 1) * share + 1e-12))
        tail = math.fsum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(first, n + 1))
        largest = max(largest, p * tail)
    found = float(delta_zero_knowledge(k=k, sampling_rate=Decimal(str(p))))
    assert largest <= found <= largest * (1 + 1e-9)


@pytest.mark.parametrize(("k", "rate"), [(1, "0.1"), (20, "0"), (20, "1"), (20, "0.9999999")])
def test_zero_knowledge_refusals(k, rate):
    with pytest.raises(InputRefused):
        delta_zero_knowledge(k=k, sampling_rate=Decimal(rate))


@pytest.mark.parametrize(
    ("k", "rate", "epsilon"), [(20, 0.1, 0.25), (20, 0.2, 0.25), (20, 0.1, 1.0), (5, 0.5, 1.0), (1, 0.1, 0.5)]
)
def test_with_one_known_rate_the_robust_price_is_the_exact_profile(k, rate, epsilon):
    robust = delta_robust(k=k, lowest_rate=rate, highest_rate=rate, largest_rate=rate, exceptions=0, epsilon=epsilon)
    assert robust == pytest.approx(delta_exact(k=k, sampling_rate=rate, epsilon=epsilon), rel=1e-9)


def divergence_of_design(rates, own, k, epsilon):
    """Both directions, for a group whose other records have these rates, straight from the definition."""
    others = np.array([1.0])
    for rate in rates:
        others = np.convolve(others, [1 - rate, rate])
    with_t = np.convolve(others, [1 - own, own])
    without = np.append(others, 0.0)

    def merged(counts):
        return np.concatenate([[counts[:k].sum()], counts[k:]])

    p, q = merged(with_t), merged(without)
    growth = math.exp(epsilon)
    return max(np.maximum(p - growth * q, 0).sum(), np.maximum(q - growth * p, 0).sum())


@pytest.mark.slow
def test_no_random_design_exceeds_the_robust_price():
    draws = np.random.default_rng(2602)
    tightest = 0.0
    for _ in range(300):
        low, high = np.sort(draws.uniform(0.02, 0.4, 2))
        high = min(high, low * 1.5)
        top = float(draws.uniform(high, 0.6))
        k, exceptions = int(draws.integers(1, 10)), int(draws.integers(0, 4))
        epsilon = -math.log1p(-top) + float(draws.uniform(0.1, 1.5))
        try:
            bound = delta_robust(
                k=k,
                lowest_rate=float(low),
                highest_rate=float(high),
                largest_rate=top,
                exceptions=exceptions,
                epsilon=epsilon,
            )
        except InputRefused:
            continue
        for n in (max(k - 1, 1), int(k / high) + 1, int(k / low) + 3):
            regular = draws.choice([low, high, (low + high) / 2], n)
            odd = draws.choice([0.0, top, 0.99], draws.integers(0, exceptions + 1))
            worst = divergence_of_design([*regular, *odd], top, k, epsilon)
            assert worst <= bound * (1 + 1e-9) + 1e-15
            tightest = max(tightest, worst / bound)
    assert tightest > 0.3, "the designs never come near the bound, so that they test nothing"


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_small_design_is_covered(k):
    """Brute force: all groups of up to six others with rates from three, t at the highest, and one odd record."""
    low, high, epsilon = 0.2, 0.3, 0.6
    fields = {"k": k, "lowest_rate": low, "largest_rate": high, "epsilon": epsilon}
    bounds = [delta_robust(**fields, highest_rate=high, exceptions=odd) for odd in (0, 1)]
    worst = [0.0, 0.0]
    for n in range(7):
        for rates in itertools.combinations_with_replacement((low, 0.25, high), n):
            for odd in ((), (0.0,), (1.0,)):
                found = divergence_of_design([*rates, *odd], high, k, epsilon)
                worst[len(odd)] = max(worst[len(odd)], found)
    assert all(found <= bound * (1 + 1e-9) for found, bound in zip(worst, bounds, strict=True))
    # The control: where all rates are one rate, the price of one that is 10% lower doesn't cover it.
    own = [divergence_of_design([high] * n, high, k, epsilon) for n in range(40)]
    lower = high / 1.1
    same = {"lowest_rate": high, "highest_rate": high, "largest_rate": high}
    less = {"lowest_rate": lower, "highest_rate": lower, "largest_rate": lower}
    assert max(own) <= delta_robust(k=k, epsilon=epsilon, exceptions=0, **same) * (1 + 1e-9)
    assert max(own) > delta_robust(k=k, epsilon=epsilon, exceptions=0, **less) * 1.05


def test_a_bound_on_one_side_of_a_target_says_so():
    """With a target the search may end sooner; what it gives lies on the same side, and never below the δ."""
    fields = {"k": 9, "lowest_rate": 0.1, "highest_rate": 0.13, "largest_rate": 0.15, "exceptions": 1, "epsilon": 0.4}
    exact = delta_robust(**fields)
    for factor in (1e-3, 0.5, 0.999, 1.001, 2.0, 1e3):
        found = delta_robust(**fields, target=exact * factor)
        assert (found <= exact * factor) is (exact <= exact * factor)
        assert factor < 1 or found >= exact


def test_robust_refusals():
    fields = {
        "k": 5,
        "lowest_rate": 0.1,
        "highest_rate": 0.12,
        "largest_rate": 0.2,
        "exceptions": 1,
        "epsilon": 1.0,
    }
    delta_robust(**fields)
    for change in (
        {"k": 0},
        {"exceptions": -1},
        {"lowest_rate": 0.13},
        {"largest_rate": 0.11},
        {"epsilon": 0.1},
        {"lowest_rate": 0.01, "highest_rate": 0.2, "epsilon": 0.3},
    ):
        with pytest.raises(InputRefused):
            delta_robust(**(fields | change))


def test_survival_agrees_with_simulation():
    mechanism = StronglySafeRelease(k=4, sampling_rate=Decimal("0.2"))
    sizes = {1: 500, 10: 80, 20: 40, 60: 10}
    draws = np.random.default_rng(42)
    kept = total = 0
    for size, groups in sizes.items():
        counts = draws.binomial(size, 0.2, (4000, groups))
        total += counts.sum()
        kept += counts[counts >= 4].sum()
    # The standard error of the share is about 4e-4; the false-alarm rate is below 1e-6.
    assert survival_share(mechanism, group_sizes=sizes) == pytest.approx(kept / total, abs=2e-3)


def test_survival_edges():
    assert survival_share(StronglySafeRelease(k=1, sampling_rate=Decimal("0.2")), group_sizes={1: 3}) == 1.0
    assert survival_share(StronglySafeRelease(k=5, sampling_rate=Decimal("0.2")), group_sizes={4: 3}) == 0.0
    pair = survival_share(StronglySafeRelease(k=2, sampling_rate=Decimal("0.2")), group_sizes={3: 1})
    assert pair == pytest.approx(1 - 0.8**2)
    for sizes in ({}, {0: 1}, {3: 0}):
        with pytest.raises(InputRefused):
            survival_share(StronglySafeRelease(k=5, sampling_rate=Decimal("0.2")), group_sizes=sizes)
