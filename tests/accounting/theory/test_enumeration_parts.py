"""The enumerations' parts against 40-digit arithmetic: each bound on its side of the truth and near it."""

from __future__ import annotations

import ast
import math
from decimal import Decimal
from pathlib import Path

import mpmath
import numpy as np
import pytest
from crowdblend import accounting
from crowdblend.accounting.kinds import noisy_histogram_prices
from crowdblend.accounting.kinds.composition import paper_bound, robust_counts
from crowdblend.accounting.kinds.composition.paper_bound import delta_paper, least_epsilon_of_paper
from crowdblend.accounting.kinds.composition.robust_counts import _at_group, _at_least, delta_robust, tail_up
from crowdblend.accounting.kinds.noisy_histogram_prices import NoisyProfile
from crowdblend.accounting.kinds.outcome_counts_prices import OnesProfile
from crowdblend.accounting.kinds.outlier_histogram_prices import _one_way
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram

RATES = [(0.1, 0.1, 0.1), (0.1, 0.12, 0.2), (0.3, 0.3, 0.9), (0.45, 0.5, 0.55)]


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(40):
        yield


def binomial(n, rate):
    """Pr[Bin(n, rate) = j] for j = 0 … n."""
    odds = mpmath.mpf(rate) / (1 - mpmath.mpf(rate))
    masses = [(1 - mpmath.mpf(rate)) ** n]
    for j in range(n):
        masses.append(masses[-1] * (n - j) / (j + 1) * odds)
    return masses


def with_a_coin(n, q, top):
    """Pr[X + B = j] for j = 0 … n + 1."""
    masses, coin = binomial(n, q), mpmath.mpf(top)
    return [(1 - coin) * a + coin * b for a, b in zip([*masses, 0], [0, *masses], strict=True)]


def exact_group(n, threshold, p, q, top, epsilon):
    p, coin, total = mpmath.mpf(p), mpmath.mpf(top), mpmath.mpf(0)
    for j, mass in enumerate(with_a_coin(n, q, top)):
        if j >= threshold:
            ratio = mpmath.inf if j > n else 1 - coin + coin * j * (1 - p) / ((n - j + 1) * p)
            total += mass * max(1 - mpmath.exp(epsilon) / ratio, 0)
    return total


@pytest.mark.parametrize("rates", RATES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 40, 250])
def test_a_groups_expectation_is_bounded_from_above_and_nearly(n, rates):
    p, q, top = rates
    least = -math.log1p(-top)
    for threshold in {1, 2, max(1, n // 5), max(1, n // 2), n + 1}:
        for epsilon in (least, least + 0.2, least + 2.0):
            truth = exact_group(n, threshold, p, q, top, epsilon)
            found = _at_group(n, threshold, p, q, top, epsilon)
            assert truth <= found <= truth * (1 + 1e-9) + 2e-14, (threshold, epsilon)


@pytest.mark.parametrize(("deviations", "more"), [(0.5, 2.0), (2.0, 3.0), (4.0, 8.0)])
@pytest.mark.parametrize("rates", RATES, ids=str)
@pytest.mark.parametrize("n", [12, 80, 500])
def test_what_a_group_leaves_out_is_made_up_for(n, rates, deviations, more, monkeypatch):
    """With the sum cut off much too early the bound stays a bound, and comes near again as less is cut off."""
    p, q, top = rates
    epsilon = -math.log1p(-top) + 0.1
    threshold = max(1, math.floor(n * q))
    monkeypatch.setattr(robust_counts, "_DEVIATIONS", deviations)
    monkeypatch.setattr(robust_counts, "_MORE_TERMS", more)
    used = robust_counts.log_binomial_pmf
    asked = []

    def watched(values, trials, rate):
        asked.append(values.max())
        return used(values, trials, rate)

    monkeypatch.setattr(robust_counts, "log_binomial_pmf", watched)
    found = _at_group(n, threshold, p, q, top, epsilon)
    last = math.floor(n * q) + math.ceil(deviations * math.sqrt(n * q * (1 - q) + 1) + more)
    assert max(asked) == min(last, n)
    masses = with_a_coin(n, q, top)
    truth = exact_group(n, threshold, p, q, top, epsilon)
    if last > n:
        assert truth <= found <= truth * (1 + 1e-9) + 2e-14
        return
    summed = truth - exact_group(n, last + 1, p, q, top, epsilon)
    rest = sum(masses[last + 1 :])
    ratio = (n - last + 1) * mpmath.mpf(q) / (last * (1 - mpmath.mpf(q)))
    assert summed + rest <= found
    assert found <= (summed + masses[last] * ratio / (1 - ratio)) * (1 + 1e-8) + 2e-14


@pytest.mark.parametrize("rates", RATES, ids=str)
def test_tails_of_sums_are_bounded_from_above_and_nearly(rates):
    _, q, top = rates
    for trials in (1, 2, 30, 200):
        masses = with_a_coin(trials, q, top)
        for least in (-1, 0, 1, 2, 20, trials, trials + 1, trials + 2, trials + 3):
            truth = mpmath.fsum(masses[max(least, 0) :])
            found = _at_least(least, trials, q=q, top=top)
            assert truth <= found <= 1 + 1e-14
            if truth < 1e-6 or least <= 0 or least > trials + 1:
                assert found <= truth * 2 + mpmath.mpf("1e-299")


def test_a_tail_is_bounded_from_above_and_closely_where_it_is_small():
    for trials, p in ((1, 0.5), (30, 0.02), (200, 0.1), (1000, 0.3), (1000, 0.9)):
        with mpmath.workdps(40):
            rate = mpmath.mpf(p)
            masses = [mpmath.binomial(trials, j) * rate**j * (1 - rate) ** (trials - j) for j in range(trials + 1)]
            for least in range(-1, trials + 3):
                truth = mpmath.fsum(masses[max(least, 0) :])
                found = tail_up(least, trials, p)
                assert truth <= found <= 1
                if truth < 1e-6:
                    assert found <= truth * mpmath.mpf("1.4") + mpmath.mpf("1e-320")


def test_no_charged_price_rests_on_an_incomplete_beta_function():
    users = set()
    for path in Path(accounting.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and "betainc" in ast.unparse(function):
                users.add(function.name)
    assert users == {"delta_paper", "delta_zero_knowledge", "record_survival"}


@pytest.mark.parametrize(("k", "exceptions"), [(1, 0), (2, 0), (6, 0), (6, 4), (6, 9)])
@pytest.mark.parametrize("rates", RATES[:2], ids=str)
def test_the_robust_delta_is_the_largest_over_groups(k, exceptions, rates):
    p, q, top = rates
    epsilon = -math.log1p(-top) + 0.3
    threshold = max(1, k - exceptions)
    largest = max(exact_group(n, threshold, p, q, top, epsilon) for n in range(threshold - 1, 90))
    given = {"k": k, "lowest_rate": p, "highest_rate": q, "largest_rate": top, "exceptions": exceptions}
    found = delta_robust(**given, epsilon=epsilon)
    assert largest <= found <= largest * (1 + 1e-9) + 2e-14
    for target in (found * 0.999, found * 1.001):
        decided = delta_robust(**given, epsilon=epsilon, target=target)
        assert (decided > target) == (found > target)
        assert decided > target or decided >= largest


def exact_published(sampled, k, loss):
    """Everything up to 0, 1 … top, everything above: counts below k with noise, the others as they are."""
    top = len(sampled) - 1
    decay = mpmath.exp(-mpmath.mpf(loss))
    norm = (1 - decay) / (1 + decay)
    powers = [decay**distance for distance in range(top + 2)]
    masses = [sum(m * powers[c] for c, m in enumerate(sampled[:k])) / (1 + decay)]
    masses += [norm * sum(m * powers[abs(o - c)] for c, m in enumerate(sampled[:k])) for o in range(1, top + 1)]
    masses += [sum(m * powers[top + 1 - c] for c, m in enumerate(sampled[:k])) / (1 + decay)]
    for count in range(k, top + 1):
        masses[max(count, 0)] += sampled[count]
    return masses


def profile_of(k, epsilon, rate):
    return NoisyProfile(NoisyHistogram(k=k, epsilon=Decimal(epsilon), sampling_rate=Decimal(rate)))


@pytest.mark.parametrize(
    ("k", "epsilon", "rate", "n"),
    [
        (1, "0.5", "0.3", 1),
        (3, "0.5", "0.3", 2),
        (3, "2", "0.5", 3),
        (8, "0.01", "0.3", 30),
        (60, "0.3", "0.2", 280),
        (200, "0.05", "0.6", 230),
    ],
)
def test_masses_of_a_noisy_group_are_bounds_on_their_sides(k, epsilon, rate, n):
    profile = profile_of(k, epsilon, rate)
    group = profile._computed(n)
    sampled = binomial(n, profile._rate)[: group.sampled[0].size]
    published = exact_published(sampled, k, profile._loss)
    assert group.published[0].size == len(published)
    for (upper, lower), exact in ((group.sampled, sampled), (group.published, published)):
        for above, truth, below in zip(upper, exact, lower, strict=True):
            assert truth * (1 - mpmath.mpf("2e-11")) <= below <= truth <= above <= truth * (1 + mpmath.mpf("2e-11"))


def test_powers_of_noisy_masses_are_rounded_to_their_sides(monkeypatch):
    logs = -np.random.default_rng(5).uniform(0.0, 30.0, 400)
    monkeypatch.setattr(noisy_histogram_prices, "log_binomial_pmf", lambda counts, *_: (logs, np.zeros_like(logs)))
    group = profile_of(3, "0.5", "0.9")._computed(399)
    for upper, log, lower in zip(group.sampled[0], logs, group.sampled[1], strict=True):
        truth = mpmath.exp(mpmath.mpf(log))
        assert truth * (1 - mpmath.mpf("1e-14")) <= lower <= truth <= upper <= truth * (1 + mpmath.mpf("1e-14"))


@pytest.mark.parametrize(("rate", "n"), [("0.1", 19_000), ("0.05", 19_000), ("0.2", 6_000)])
def test_the_rest_of_a_noisy_group_covers_what_is_cut_off(rate, n):
    profile = profile_of(2, "1", rate)
    group = profile._computed(n)
    top = group.sampled[0].size - 1
    assert top < n
    p = mpmath.mpf(profile._rate)
    first = mpmath.binomial(n, top + 1) * p ** (top + 1) * (1 - p) ** (n - top - 1)
    tail, term = mpmath.mpf(0), first
    for j in range(top + 1, min(top + 400, n) + 1):
        tail += term
        term *= (n - j) * p / ((j + 1) * (1 - p))
    assert mpmath.mpf("1e-300") < tail <= group.rest <= tail * mpmath.mpf("1.05")


def test_an_open_end_is_taken_apart_without_loss():
    profile = profile_of(3, "0.7", "0.3")
    group = profile._computed(9)
    whole = group.published[0]
    for more in (0, 1, 4):
        apart = profile._split(whole, more)
        assert np.array_equal(apart[: whole.size - 1], whole[:-1])
        assert apart[whole.size - 1 :].sum() == pytest.approx(whole[-1], rel=1e-14)
        decay = math.exp(-profile._loss)
        expected = [whole[-1] * (1 - decay) * decay**place for place in range(more)] + [whole[-1] * decay**more]
        assert apart[whole.size - 1 :] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("people", [1, 2, 3, 9, 30])
@pytest.mark.parametrize("q", [1e-3, 0.25, 0.49])
def test_the_delta_of_outcome_counts_is_bounded_from_above_and_nearly(people, q):
    profile = OnesProfile(people=people, flip_probability=q)
    exact_q = mpmath.mpf(q)
    exact_p = 1 - exact_q
    rows = []
    for m in range(people):
        ones, zeros = binomial(m, exact_p), binomial(people - 1 - m, exact_q)
        row = [mpmath.mpf(0)] * people
        for i, a in enumerate(ones):
            for j, b in enumerate(zeros):
                row[i + j] += a * b
        rows.append(row)
    local = math.log1p(-q) - math.log(q)
    for epsilon in (0.0, 1e-9, 0.01, 0.3 * local, 0.8 * local, local * (1 - 1e-12)):
        growth = mpmath.exp(mpmath.mpf(epsilon))
        gain, loss = exact_p - growth * exact_q, growth * exact_p - exact_q
        truth = max(sum(max(gain * a - loss * b, 0) for a, b in zip([0, *row], [*row, 0], strict=True)) for row in rows)
        assert truth <= profile.delta(epsilon) <= truth * (1 + mpmath.mpf("1e-8")) + mpmath.mpf("1e-10")
    assert profile.delta(local * (1 + 1e-12)) == 0.0


@pytest.mark.parametrize("upper", [1e-3, 0.3, 2.0, 9.0, 40.0])
@pytest.mark.parametrize("lower", [1e-6, 3e-6, 1e-3, 0.299, 0.3, 0.301, 2.0, 40.0])
def test_the_sum_of_two_geometric_noises_is_bounded_from_above_and_nearly(upper, lower):
    for epsilon in (0.0, 0.1, 0.3, 2.5):
        loss, other, growth = mpmath.mpf(upper), mpmath.mpf(lower), mpmath.exp(mpmath.mpf(epsilon))
        one, two = mpmath.tanh(loss / 2), growth * mpmath.tanh(other / 2)
        truth = mpmath.mpf(0)
        # Where P falls slower than Q, the terms beyond the crossing go on for ever: they are summed as two series.
        reach = 1 + math.ceil(abs(math.log(one / two) - upper - lower) / abs(upper - lower)) if upper != lower else 1
        reach = min(reach, 8_000)
        ahead, behind = mpmath.exp(-loss), mpmath.exp(-other)
        for p, q in ((one, two * behind), (one * ahead, two)):
            for _ in range(reach):
                truth += max(p - q, 0)
                p, q = p * ahead, q * behind
            if p > q and upper <= lower:
                truth += p / (1 - ahead) - q / (1 - behind)
        found = _one_way(upper, lower, epsilon)
        assert truth <= found <= truth * (1 + mpmath.mpf("1e-11")) + mpmath.mpf("5e-12")


@pytest.mark.parametrize("rate", [1e-300, 1e-17, 1e-15, 1e-9, 0.1, 0.5, 0.999])
def test_the_papers_divergence_is_bounded_from_below_and_nearly(rate, monkeypatch):
    """It decides where the walk over group sizes may stop."""
    least = math.nextafter(least_epsilon_of_paper(rate), math.inf)
    handed = []
    bounded = paper_bound._relative_entropy
    monkeypatch.setattr(paper_bound, "_relative_entropy", lambda *given: handed.append(bounded(*given)) or handed[-1])
    for epsilon in (least, 1.001 * least, 3 * least, least + 1e-9, least + 0.1, least + 1.0, least + 30.0, 1e4, 1e300):
        delta_paper(k=2, sampling_rate=rate, epsilon=epsilon)
        beta = mpmath.mpf(rate)
        with mpmath.workdps(340):  # so that 1 − β differs from 1
            kappa = (1 - beta) * mpmath.exp(-mpmath.mpf(min(epsilon, 1e4)))
            gamma = 1 - kappa
            ahead = gamma * mpmath.log(gamma / beta)
            truth = ahead + kappa * mpmath.log(kappa / (1 - beta))
        assert truth - (gamma + ahead) * mpmath.mpf("3e-14") <= handed.pop() <= truth
    assert delta_paper(k=2, sampling_rate=rate, epsilon=math.inf) == pytest.approx(rate**2, rel=1e-9)
