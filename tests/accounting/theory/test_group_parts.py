"""The parts of a group's price: splits on the grid, the chord between its points, its ends, and the even split."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.mechanism_kind import check_records
from crowdblend.accounting.kinds.composition import group_privacy
from crowdblend.accounting.kinds.composition.group_privacy import (
    _first_epsilon,
    _growth,
    _of_group,
    _on_chord,
    _ratios,
    best_split,
    even_split,
    rule_for_group,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.mechanism import MOST_RECORDS


def step_at(place, below=-30.0):
    return lambda epsilons: np.where(epsilons >= place, below, 0.0)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(40):
        yield


@pytest.mark.parametrize("records", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_groups_curve_is_the_least_over_all_splits_rounded_up(records, seed):
    draws = np.random.default_rng(seed)
    epsilons = 0.125 * np.arange(14)
    one = np.sort(np.exp(draws.uniform(-20, 3, epsilons.size)))[::-1]
    curve = [mpmath.mpf(value) for value in one]
    least = list(curve)
    for _ in range(records - 1):
        least = [
            min(curve[e] + mpmath.exp(0.125 * mpmath.mpf(e)) * least[last - e] for e in range(last + 1))
            for last in range(epsilons.size)
        ]
    for found, truth in zip(_of_group(one, epsilons, records), least, strict=True):
        assert truth <= found <= truth * (1 + 1e-10)


def test_a_curve_that_is_cut_off_stays_far_above_1():
    found = _ratios(np.array([-math.inf, -9000.0, -11.0, -10.0, -1.0, 0.0]), -10.0)
    assert found[0] == found[1] == 1e-290
    for value, log in zip(found[2:], (-1, 0, 9, 10), strict=True):
        assert mpmath.exp(log) <= value <= mpmath.exp(log) * (1 + 1e-11)
    assert 4e289 < _ratios(np.array([0.0]), -5000.0)[0] < 1e290
    joined = _of_group(np.array([1e289, 1e289]), np.array([0.0, 600.0]), 64)
    assert np.all((joined > 1e289) & (joined <= 1e290))


@pytest.mark.parametrize("share", [1e-9, 0.2, 0.999])
@pytest.mark.parametrize("spacing", [2.0**-30, 0.25, 4.0])
def test_the_chord_meets_the_target_where_it_says_and_not_before(share, spacing):
    epsilons = np.array([0.0, 3.0, 3.0 + spacing, 3.0 + 2 * spacing])
    ratios = np.array([9.0, 1.0 + 2.0 * share, 2.0 * share - 1.0 + 1e-3, 1e-9])
    found = _on_chord(epsilons, ratios, 2)
    left, right = mpmath.exp(3.0), mpmath.exp(3.0 + mpmath.mpf(spacing))
    above, below = mpmath.mpf(ratios[1]), mpmath.mpf(ratios[2])
    truth = mpmath.log(left + (right - left) * (above - 1) / (above - below))
    assert truth <= found <= min(truth * (1 + mpmath.mpf("1e-11")), 3.0 + spacing)


def test_without_a_chord_the_grid_point_itself_is_taken():
    epsilons = np.array([0.0, 1.0, 2.0])
    assert _on_chord(epsilons, np.array([0.5, 0.2, 0.1]), 0) == 0.0
    assert _on_chord(epsilons, np.array([1e290, 1e290, 0.1]), 2) == 2.0
    assert 1.0 < _on_chord(epsilons, np.array([1e290, 1e289, 0.1]), 2) <= 2.0


@pytest.mark.parametrize("place", [1e-6, 0.1, 1.0, 3.9, 4.0])
def test_the_search_starts_within_a_factor_of_2(place):
    assert place <= _first_epsilon(step_at(place), -10.0, 4.0) <= min(2 * place, 4.0)
    assert _first_epsilon(lambda epsilons: 0.0 * epsilons, -10.0, 4.0) == 4.0


@pytest.mark.parametrize("records", [1, 2, 4])
@pytest.mark.parametrize("largest", [0.25, 1.0, 2.0])
def test_the_farthest_epsilon_is_on_the_grid(largest, records):
    """A curve that falls at its very end: all of it is needed for every record."""
    found = best_split(step_at(largest, below=-100.0), delta=Decimal("1e-6"), records=records, largest_epsilon=largest)
    assert largest * records * (1 - 2**-9) < found <= largest * records
    never = best_split(step_at(largest * 1.001), delta=Decimal("1e-6"), records=records, largest_epsilon=largest)
    assert never is None


@pytest.mark.parametrize("points", [64, 1000, 1024])
@pytest.mark.parametrize("records", [1, 2, 5])
def test_a_split_of_a_power_law_is_no_less_than_the_best_and_near_it(records, points, monkeypatch):
    """δ(ε) = e^{−1−8ε} for each record: by the sum of a geometric series with equal terms the best split is known."""
    monkeypatch.setattr(group_privacy, "_POINTS", points)
    delta = Decimal("1e-4")
    found = best_split(lambda e: -1.0 - 8.0 * e, delta=delta, records=records, largest_epsilon=10.0)

    def least_delta(total, left):
        # ln of the least Σ, by ternary search for the first part.
        if left == 1:
            return math.exp(-1.0 - 8.0 * total)
        low, high = 0.0, total
        for _ in range(40):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            of_a = math.exp(-1.0 - 8.0 * a) + math.exp(a) * least_delta_cached(total - a, left - 1)
            of_b = math.exp(-1.0 - 8.0 * b) + math.exp(b) * least_delta_cached(total - b, left - 1)
            low, high = (low, b) if of_a < of_b else (a, high)
        return of_a

    # least_delta(total, m) = c_m·e^{−r_m·total}: read off twice, so that the recursion stays shallow.
    rates = {1: (-1.0, 8.0)}

    def least_delta_cached(total, left):
        constant, rate = rates[left]
        return math.exp(constant - rate * total)

    for m in range(2, records + 1):
        near, far = math.log(least_delta(5.0, m)), math.log(least_delta(6.0, m))
        rates[m] = (near + 5.0 * (near - far), near - far)
    constant, rate = rates[records]
    truth = (constant - math.log(float(delta))) / rate
    assert truth * (1 - 1e-7) <= found <= truth * (1 + 200.0 / points**2 + 1e-7)


@pytest.mark.parametrize("records", [1, 2, 9, 300])
@pytest.mark.parametrize("epsilon", ["0", "0.001", "0.7", "3"])
def test_the_growth_of_a_group_is_summed_up_from_above(records, epsilon):
    with localcontext(prec=60):
        ratio = Decimal(epsilon).exp()
        truth = sum((ratio**place for place in range(records)), Decimal(0))
        assert truth <= _growth(Decimal(epsilon), records) <= truth * (1 + Decimal("1e-15"))


@pytest.mark.parametrize("records", [1, 2, 6])
@pytest.mark.parametrize("constant", ["0", "0.3"])
def test_an_even_split_is_affordable_and_uses_nearly_all(records, constant):
    """With δ' ↦ ε' = c − ln(δ')/40 the group's δ is its definition at the share that was asked for last."""
    asked = []

    def inner(share):
        asked.append(share)
        return Decimal(constant) - share.ln() / 40

    delta = Decimal("1e-5")
    found, epsilon = even_split(inner, lambda price: price, delta=delta, records=records)
    assert asked[0] == pytest.approx(delta / records)
    assert records > 1 or asked == [delta]
    with localcontext(prec=60):
        used = asked[-1] * sum((found * place).exp() for place in range(records))
        assert found * records <= epsilon <= found * records * (1 + Decimal("1e-15"))
        assert delta * (1 - Decimal("3e-6")) <= used <= delta


def test_an_even_split_that_never_settles_is_refused():
    """Each smaller share costs a larger ε, without end."""
    shares = []

    def inner(share):
        shares.append(share)
        return Decimal(len(shares))

    with pytest.raises(InputRefused, match="up to 2 records"):
        even_split(inner, lambda price: price, delta=Decimal("1e-5"), records=2)


def test_the_records_of_a_person_are_1_to_ten_thousand():
    for records in (1, 2, MOST_RECORDS):
        check_records(records)
    for records in (0, -1, MOST_RECORDS + 1):
        with pytest.raises(InputRefused, match=f"must be 1 to 10000, not {records}"):
            check_records(records)
    assert rule_for_group("x/1", even=False) == "group-privacy/1+x/1"
    assert rule_for_group("x/1", even=True) == "even-group-privacy/1+x/1"
