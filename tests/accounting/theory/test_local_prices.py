"""Prices of local reports and of their counts: ratios and divergences against the two binomials and brute force."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.descriptions.local_report_description import local_statement
from crowdblend.accounting.kinds import outcome_counts_prices
from crowdblend.accounting.kinds.local_report_prices import local_epsilon, price_of_report
from crowdblend.accounting.kinds.outcome_counts_prices import (
    EXACT_PEOPLE,
    OnesProfile,
    epsilon_shuffled,
    price_outcome_counts,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.krandomization import KRandomization
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.theory.report_ratios import ones_distribution, privacy_ratios

pytestmark = pytest.mark.slow


def two_binomials(n, m, q):
    """Bin(m, 1−q) + Bin(n−m, q) by convolution, 50 digits."""
    with mpmath.workdps(50):
        q = mpmath.mpf(q)

        def pmf(trials, p):
            return [mpmath.binomial(trials, j) * p**j * (1 - p) ** (trials - j) for j in range(trials + 1)]

        one, other = pmf(m, 1 - q), pmf(n - m, q)
        return [
            mpmath.fsum(one[j] * other[s - j] for j in range(max(0, s - n + m), min(m, s) + 1)) for s in range(n + 1)
        ]


@pytest.mark.parametrize(("n", "q"), [(1, 0.25), (2, 0.1), (7, 0.4), (40, 0.25), (40, 0.01), (60, 0.49)])
def test_recursions_3_2_and_3_3_give_the_two_binomials(n, q):
    for m in range(0, n + 1, max(1, n // 8)):
        found = ones_distribution(people=n, ones=m, flip_probability=q)
        exact = two_binomials(n, m, q)
        assert max(abs(float(a / b - 1)) for a, b in zip(found, exact, strict=True)) < 1e-12


@pytest.mark.parametrize(("n", "q"), [(1, 0.25), (5, 0.25), (30, 0.1), (40, 0.45)])
def test_the_privacy_ratio_is_that_of_the_two_binomials(n, q):
    found = privacy_ratios(people=n, flip_probability=q)
    for m in range(0, n, max(1, n // 6)):
        before, after = two_binomials(n, m, q), two_binomials(n, m + 1, q)
        ratios = [float(a / b) for a, b in zip(before, after, strict=True)]
        assert np.allclose(found[m], ratios, rtol=1e-12, atol=0)
    assert found.max() == pytest.approx((1 - q) / q, rel=1e-12), "never beyond the local ratio, which is met"
    assert found.min() == pytest.approx(q / (1 - q), rel=1e-12)
    assert (np.diff(found, axis=1) < 0).all() or n == 1, "the more ones reported, the less likely fewer were there"


def divergence(one, other, epsilon):
    growth = math.exp(epsilon)
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    return max(np.maximum(one - growth * other, 0).sum(), np.maximum(other - growth * one, 0).sum())


@given(n=st.integers(1, 60), q=st.floats(0.05, 0.45), epsilon=st.floats(0, 2))
@settings(derandomize=True, max_examples=60)
def test_the_exact_delta_is_the_largest_over_all_neighbours(n, q, epsilon):
    rows = [ones_distribution(people=n, ones=m, flip_probability=q) for m in range(n + 1)]
    exact = max(divergence(a, b, epsilon) for a, b in itertools.pairwise(rows))
    found = OnesProfile(people=n, flip_probability=q).delta(epsilon)
    assert exact * (1 - 1e-9) - 1e-15 <= found <= exact + 1e-9


def test_flips_that_are_10_percent_off_have_another_price():
    rows = [ones_distribution(people=30, ones=m, flip_probability=0.25) for m in range(31)]
    exact = max(divergence(a, b, 0.3) for a, b in itertools.pairwise(rows))
    assert OnesProfile(people=30, flip_probability=0.25).delta(0.3) == pytest.approx(exact, rel=1e-9)
    assert OnesProfile(people=30, flip_probability=0.25 / 1.1).delta(0.3) > 1.1 * exact
    assert OnesProfile(people=30, flip_probability=0.25 * 1.1).delta(0.3) < exact / 1.1


def test_more_people_never_cost_more():
    for epsilon in (0.05, 0.3, 0.8):
        deltas = [OnesProfile(people=n, flip_probability=0.3).delta(epsilon) for n in (1, 2, 3, 5, 9, 40, 200)]
        assert all(b <= a * (1 + 1e-9) + 1e-15 for a, b in itertools.pairwise(deltas))
    beyond = OnesProfile(people=10**9, flip_probability=0.3).delta(0.1)
    assert beyond == OnesProfile(people=EXACT_PEOPLE, flip_probability=0.3).delta(0.1)


def test_at_the_local_epsilon_delta_is_0():
    profile = OnesProfile(people=50, flip_probability=0.25)
    assert profile.delta(math.log(3) + 1e-9) == 0.0
    assert profile.delta(math.log(3) - 1e-3) > 0.0


@pytest.mark.parametrize(("bits", "q", "exact"), [(1, "0.25", math.log(3)), (16, "0.1", 16 * math.log(9))])
def test_the_local_price_of_k_randomization(bits, q, exact):
    charged = price_of_report(KRandomization(bits=bits, flip_probability=Decimal(q)))
    assert float(charged.epsilon) == pytest.approx(exact, rel=1e-11)
    assert float(charged.epsilon) >= exact
    assert (charged.relation, charged.delta) == ("replacement", 0)


def test_the_local_price_is_the_largest_ratio_of_any_two_vectors():
    mechanism = KRandomization(bits=3, flip_probability=Decimal("0.2"))
    q = 0.2
    masses = [[q ** bin(a ^ b).count("1") * (1 - q) ** (3 - bin(a ^ b).count("1")) for a in range(8)] for b in range(8)]
    worst = max(x / y for one, other in itertools.permutations(masses, 2) for x, y in zip(one, other, strict=True))
    assert float(local_epsilon(mechanism)) == pytest.approx(math.log(worst), rel=1e-11)


def test_the_local_price_of_a_sketch_covers_its_real_flips():
    sketch = CountMeanSketch(epsilon=Decimal(4), hashes=8, bits=64, seed=b"x")
    q = sketch.flip_probability
    assert 2 * math.log((1 - q) / q) <= float(local_epsilon(sketch)) * (1 + 1e-15)
    assert 2 * math.log((1 - q) / q) == pytest.approx(4, rel=1e-12)
    assert "nobody, the collector included, need be trusted" in local_statement(sketch)


def shuffled_outcomes(mechanism, vectors):
    """The exact distribution of the outcome counts of a few people."""
    q, size = float(mechanism.flip_probability), 1 << mechanism.bits
    masses = Counter({(0,) * size: 1.0})
    for vector in vectors:
        longer = Counter()
        for counts, mass in masses.items():
            for outcome in range(size):
                apart = bin(vector ^ outcome).count("1")
                more = (*counts[:outcome], counts[outcome] + 1, *counts[outcome + 1 :])
                longer[more] += mass * q**apart * (1 - q) ** (mechanism.bits - apart)
        masses = longer
    return masses


def test_published_counts_of_small_crowds_are_within_their_price():
    mechanism = KRandomization(bits=2, flip_probability=Decimal("0.3"))
    charged = price_outcome_counts(mechanism=mechanism, people=5, delta=Decimal("0.01"))
    assert charged.rule == "local/1", "the shuffle bound's condition fails for five people"
    for others in itertools.combinations_with_replacement(range(4), 4):
        for mine, yours in itertools.permutations(range(4), 2):
            one, other = shuffled_outcomes(mechanism, [*others, mine]), shuffled_outcomes(mechanism, [*others, yours])
            keys = list(one)
            found = divergence([one[key] for key in keys], [other[key] for key in keys], float(charged.epsilon))
            assert found <= float(charged.delta) + 1e-12


@pytest.mark.parametrize(("people", "delta"), [(2000, "1e-2"), (20_000, "1e-6"), (10**6, "1e-8")])
def test_the_shuffle_bound_is_its_formula_and_covers_the_exact_price(people, delta):
    local = local_epsilon(KRandomization(bits=1, flip_probability=Decimal("0.25")))
    found = epsilon_shuffled(local=local, people=people, delta=Decimal(delta))
    growth = 3.0
    spread = 8 * math.sqrt(growth * math.log(4 / float(delta)) / people) + 8 * growth / people
    assert float(found) == pytest.approx(math.log(1 + (growth - 1) / (growth + 1) * spread), rel=1e-10)
    if people <= 2000:
        profile = OnesProfile(people=1000, flip_probability=0.25)
        assert profile.delta(float(epsilon_shuffled(local=local, people=1000, delta=Decimal(delta)))) <= float(delta)


def test_the_shuffle_bound_covers_its_own_dominating_pair():
    """The pair of the theorem's proof: C ~ Bin(n−1, e^{−ε₀}) clones, half of them on either side."""
    people, local, delta = 600, 1.0, 1e-4
    found = float(epsilon_shuffled(local=Decimal(1), people=people, delta=Decimal("1e-4")))
    rate, share = math.exp(-local), math.exp(local) / (1 + math.exp(local))
    total = 0.0
    for clones in range(people):
        with mpmath.workdps(30):
            weight = float(
                mpmath.binomial(people - 1, clones)
                * mpmath.mpf(rate) ** clones
                * (1 - mpmath.mpf(rate)) ** (people - 1 - clones)
            )
        if weight < 1e-18:
            continue
        half = ones_half(clones)
        with_one, without = np.append(0, half), np.append(half, 0)
        first, second = share * with_one + (1 - share) * without, (1 - share) * with_one + share * without
        total += weight * np.maximum(first - math.exp(found) * second, 0).sum()
    assert total <= delta


def ones_half(n):
    row = np.array([1.0])
    for _ in range(n):
        row = 0.5 * (np.append(row, 0) + np.append(0, row))
    return row


def test_where_its_condition_fails_there_is_no_shuffle_bound():
    assert epsilon_shuffled(local=Decimal(3), people=1000, delta=Decimal("1e-6")) is None
    assert epsilon_shuffled(local=Decimal(3), people=10_000, delta=Decimal("1e-6")) is not None
    charged = price_outcome_counts(
        KRandomization(bits=4, flip_probability=Decimal("0.3")), people=100, delta=Decimal("1e-6")
    )
    assert (charged.rule, charged.delta) == ("local/1", 0)


@pytest.mark.parametrize(
    ("bits", "people", "rule"),
    [(1, 500, "outcome-counts-exact/1"), (1, 10**7, "shuffle-fmt-3.1/1"), (3, 10**6, "shuffle-fmt-3.1/1")],
)
def test_the_smallest_proved_price_is_charged_under_replacement(bits, people, rule):
    mechanism = KRandomization(bits=bits, flip_probability=Decimal("0.3"))
    charged = price_outcome_counts(mechanism, people=people, delta=Decimal("1e-6"))
    assert charged.rule == rule
    assert charged.relation == "replacement"
    assert charged.epsilon < local_epsilon(mechanism)
    fewer = price_outcome_counts(mechanism, people=people // 2, delta=Decimal("1e-6"))
    assert fewer.epsilon >= charged.epsilon


@pytest.mark.parametrize(
    ("local", "people", "delta"),
    [("0.5", 500, "0.3"), ("1", 3000, "1e-3"), ("2.5", 10**5, "1e-9"), ("0.01", 50, "0.1")],
)
def test_the_shuffle_bound_is_rounded_up_in_its_last_digit_only(local, people, delta):
    found = epsilon_shuffled(local=Decimal(local), people=people, delta=Decimal(delta))
    with mpmath.workdps(40):
        growth, logs = mpmath.exp(mpmath.mpf(local)), mpmath.log(4 / mpmath.mpf(delta))
        spread = 8 * mpmath.sqrt(growth * logs / people) + 8 * growth / people
        truth = min(mpmath.log(1 + (growth - 1) / (growth + 1) * spread), mpmath.mpf(local))
        assert truth <= mpmath.mpf(str(found)) <= truth * (1 + mpmath.mpf("1e-11"))
    assert found == Decimal("0.01") or local != "0.01", "never more than the reports themselves"


def test_the_shuffle_bound_begins_at_the_people_of_its_condition():
    """ε₀ ≤ ln(n/(16·ln(2/δ))): so many people, and not one fewer."""
    least = math.ceil(16 * math.log(2 / 1e-3) * math.exp(1.0))
    assert epsilon_shuffled(local=Decimal(1), people=least, delta=Decimal("1e-3")) is not None
    assert epsilon_shuffled(local=Decimal(1), people=least - 1, delta=Decimal("1e-3")) is None


def test_beyond_the_exact_people_the_profile_is_that_of_so_many(monkeypatch):
    assert EXACT_PEOPLE == 1024
    monkeypatch.setattr(outcome_counts_prices, "EXACT_PEOPLE", 12)
    deltas = [OnesProfile(people=people, flip_probability=0.3).delta(0.2) for people in (11, 12, 13, 10**6)]
    assert deltas[0] > deltas[1] == deltas[2] == deltas[3]


def test_refusals():
    for local in ("0", "-1", "inf", "nan"):
        with pytest.raises(InputRefused, match="a positive epsilon"):
            epsilon_shuffled(local=Decimal(local), people=10, delta=Decimal("0.1"))
    for flips in (0.0, -0.5, math.nan):
        with pytest.raises(InputRefused, match="flip probability"):
            OnesProfile(people=3, flip_probability=flips)
    with pytest.raises(InputRefused, match="at least one person"):
        epsilon_shuffled(local=Decimal(1), people=0, delta=Decimal("0.1"))
    with pytest.raises(InputRefused, match="delta"):
        epsilon_shuffled(local=Decimal(1), people=10, delta=Decimal(1))
    with pytest.raises(InputRefused, match="at least one person"):
        OnesProfile(people=0, flip_probability=0.3)
    with pytest.raises(InputRefused, match="flip probability"):
        OnesProfile(people=3, flip_probability=0.5)
    with pytest.raises(ValueError, match="0 ≤ m ≤ n"):
        ones_distribution(people=3, ones=4, flip_probability=0.3)
    with pytest.raises(ValueError, match="at least one person"):
        privacy_ratios(people=0, flip_probability=0.3)
