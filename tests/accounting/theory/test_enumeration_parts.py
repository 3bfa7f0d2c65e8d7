"""The enumerations' parts against 40-digit arithmetic: each bound on its side of the truth and near it."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import mpmath
import pytest
from crowdblend import accounting
from crowdblend.accounting.kinds.composition.robust_counts import delta_robust, tail_up
from crowdblend.accounting.kinds.outcome_counts_prices import OnesProfile

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
