"""Composed prices against brute force, against another implementation, and the laws of composition."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.accounting.kinds.composition.composed import (
    COMPOSED_FLOOR,
    curves_of,
    delta_composed,
    epsilon_composed,
    grid_spacing,
    measures_of,
)
from crowdblend.accounting.kinds.composition.loss_distribution import (
    compose,
    convolution_slack,
    convolve_direct,
    delta_at,
    epsilon_at,
    from_curve,
    power,
)
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from hypothesis import given, settings
from hypothesis import strategies as st

SPACING = 2.0**-11


def release(k, rate):
    return StronglySafeRelease(k=k, sampling_rate=Decimal(rate))


def curve_of_pair(upper, lower, epsilons):
    return np.array(
        [math.fsum(max(0.0, p - math.exp(e) * q) for p, q in zip(upper, lower, strict=True)) for e in epsilons]
    )


def measure_of_pair(upper, lower):
    upper, lower = [float(p) for p in upper], [float(q) for q in lower]
    finite = [math.log(p / q) for p, q in zip(upper, lower, strict=True) if p > 0 and q > 0]
    lowest, highest = math.floor(min(finite) / SPACING) - 1, math.ceil(max(finite) / SPACING) + 1
    losses = np.arange(lowest, highest + 1) * SPACING
    deltas = np.minimum(curve_of_pair(upper, lower, losses) * (1 + 1e-13) + 1e-300, 1.0)
    return from_curve(spacing=SPACING, lowest=lowest, deltas=deltas)


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize(
    ("k", "rate", "n", "delta"),
    [(2, 0.0625, 6, 0.02), (3, 0.125, 9, 0.01), (4, 0.5, 8, 0.05), (5, 0.25, 11, 0.01), (12, 0.5, 18, 0.003)],
)
def test_one_group_size_composed_is_never_below_brute_force_and_within_a_hundredth(oracle, times, k, rate, n, delta):
    with_t, without = oracle.pair(n=n, k=k, sampling_rate=rate)
    truths = []
    for upper, lower in ((with_t, without), (without, with_t)):
        truth = oracle.least_epsilon(*oracle.product([(upper, lower)] * times), delta)
        found = epsilon_at(power(measure_of_pair(upper, lower), times, cut=delta * 1e-6), delta)
        assert found is not None
        assert found >= truth * (1 - 1e-9)
        assert found <= truth * 1.01 + 1e-9
        truths.append(truth)
    assert max(truths) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "k", "rate", "delta"), [(2, 2, 0.25, 0.2), (3, 3, 0.125, 0.01), (2, 5, 0.25, 0.01), (3, 5, 0.5, 0.12)]
)
def test_the_supremum_is_at_least_the_largest_over_group_sizes(oracle, times, k, rate, delta):
    largest = 0.0
    for n in range(k, math.ceil(1.6 * k / rate)):
        if n - k > 18 and times == 3:
            break
        with_t, without = oracle.pair(n=n, k=k, sampling_rate=rate)
        for upper, lower in ((with_t, without), (without, with_t)):
            truth = oracle.least_epsilon(*oracle.product([(upper, lower)] * times), delta)
            assert truth is not None
            largest = max(largest, truth)
    found = epsilon_composed({release(k, rate): times}, delta=delta)
    assert found is not None
    assert largest <= found <= 1.5 * largest


@pytest.mark.long
@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("rate", [0.125, 0.5, 0.875])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 12])
def test_every_group_size_composed_against_brute_force(oracle, k, rate, times):
    for n in range(k, min(math.ceil(2.5 * k / rate) + 4, k + 30 // times + 1)):
        with_t, without = oracle.pair(n=n, k=k, sampling_rate=rate)
        for upper, lower in ((with_t, without), (without, with_t)):
            whole = oracle.product([(upper, lower)] * times)
            one = measure_of_pair(upper, lower)
            for delta in (0.05, 0.001, 1e-7):
                truth = oracle.least_epsilon(*whole, delta)
                found = epsilon_at(power(one, times, cut=delta * 1e-6), delta)
                if truth is None:
                    assert found is None
                elif found is None:
                    # Masses moved to infinity at the cut: only where brute force has next to nothing left.
                    assert oracle.least_epsilon(*whole, delta * (1 - 1e-5)) is None
                else:
                    assert truth * (1 - 1e-9) <= found <= max(truth * 1.01, truth + 3 * SPACING)


def test_reference_values(vectors):
    composed = vectors["exact"]["composed"]
    mechanism = release(composed["k"], composed["sampling_rate"])
    for times, printed in zip(composed["releases"], composed["epsilons"], strict=True):
        found = epsilon_composed({mechanism: times}, delta=float(composed["delta"]))
        assert found == pytest.approx(float(printed), rel=0.01)


def reference(part, times, delta, spacing):
    """The same curves through dp_accounting's own discretisation and Fourier convolution."""
    from dp_accounting.pld import pld_pmf  # a second of imports, which no process pays that has only collected this

    curves = curves_of(part, negligible=1e-14 / times)
    found = []
    for ahead, behind, ahead_end, behind_end in (
        (curves.adding, curves.removing, curves.adding_end, curves.removing_end),
        (curves.removing, curves.adding, curves.removing_end, curves.adding_end),
    ):
        lowest, highest = -math.ceil(behind_end / spacing) - 1, math.ceil(ahead_end / spacing) + 1
        losses = np.arange(lowest, highest + 1) * spacing
        negative = np.minimum(losses, 0.0)
        mirrored = -np.expm1(negative) + np.exp(negative + behind(-negative))
        deltas = np.where(losses >= 0, np.exp(ahead(np.maximum(losses, 0.0))), mirrored)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(spacing, range(lowest, highest + 1), np.minimum(deltas, 1.0))
        found.append(pmf.self_compose(times, 1e-13).get_epsilon_for_delta(delta))
    return max(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "rate", "times", "spacing"),
    [
        (20, "0.1", 2, 1e-4),
        (20, "0.1", 12, 2e-4),
        (20, "0.1", 365, 5e-4),
        (100, "0.5", 100, 1e-3),
        (4, "0.001", 30, 2e-5),
    ],
)
def test_agrees_with_dp_accounting(k, rate, times, spacing):
    mechanism = release(k, rate)
    ours = epsilon_composed({mechanism: times}, delta=1e-6)
    assert ours == pytest.approx(reference(mechanism, times, 1e-6, spacing), rel=2e-3)


def test_the_measure_is_dp_accountings_own():
    from dp_accounting.pld import pld_pmf

    curves = curves_of(release(20, "0.1"), negligible=1e-12)
    spacing = grid_spacing({curves: 1}, negligible=1e-12)
    adding, _ = measures_of(curves, spacing)
    losses = adding.losses()
    deltas = np.array([delta_at(adding, float(loss)) for loss in losses if loss >= 0])
    theirs = pld_pmf.create_pmf_pessimistic_connect_dots(spacing, range(len(deltas)), deltas).to_dense_pmf()
    assert np.allclose(theirs._probs[1:-1], adding.masses[-len(deltas) + 1 : -1], rtol=1e-4, atol=1e-12)


@pytest.mark.slow
@settings(max_examples=15, derandomize=True)
@given(
    k=st.integers(2, 300),
    rate=st.decimals("0.001", "0.9", places=4),
    first=st.integers(1, 20),
    second=st.integers(1, 20),
    delta=st.sampled_from([1e-3, 1e-6, 1e-12, 1e-40]),
)
def test_payments_in_two_parts_cost_no_less_than_one_payment_of_the_sum(k, rate, first, second, delta):
    mechanism = release(k, rate)
    whole = epsilon_composed({mechanism: first + second}, delta=delta)
    if whole is None:
        return
    each = [epsilon_composed({mechanism: times}, delta=delta) for times in (first, second)]
    assert whole >= max(each) * (1 - 1e-3)
    halves = [epsilon_composed({mechanism: times}, delta=delta / 2) for times in (first, second)]
    if None not in halves:
        assert whole <= sum(halves) * (1 + 1e-3)


@pytest.mark.parametrize("times", [2, 5, 12, 31])
def test_paying_one_at_a_time_equals_one_payment(times):
    curves = curves_of(release(20, "0.1"), negligible=1e-12)
    one, _ = measures_of(curves, grid_spacing({curves: times}, negligible=1e-12))
    step_by_step = one
    for _ in range(times - 1):
        step_by_step = compose(step_by_step, one, cut=1e-14)
    at_once = power(one, times, cut=1e-13)
    assert epsilon_at(step_by_step, 1e-6) == pytest.approx(epsilon_at(at_once, 1e-6), rel=1e-6)


def test_any_order_costs_the_same():
    parts = [
        (release(20, "0.1"), 3),
        (release(50, "0.2"), 3),
        (Guarantee(epsilon=Decimal("0.05"), delta=Decimal("1e-9")), 3),
    ]
    prices = {epsilon_composed(dict(order), delta=1e-6) for order in (parts, parts[::-1], parts[1:] + parts[:1])}
    assert len(prices) == 1


def test_bare_guarantees_compose_as_randomised_response(oracle):
    pure = Guarantee(epsilon=Decimal("0.5"), delta=Decimal(0))
    odds = math.exp(0.5)
    pair = ([odds / (1 + odds), 1 / (1 + odds)], [1 / (1 + odds), odds / (1 + odds)])
    truth = oracle.least_epsilon(*oracle.product([pair] * 6), 0.01)
    found = epsilon_composed({pure: 6}, delta=0.01)
    assert truth * (1 - 1e-12) <= found <= truth * 1.01
    assert epsilon_composed({pure: 1}, delta=1e-9) == pytest.approx(0.5, rel=1e-2)


def test_a_guarantee_without_any_cost_adds_nothing():
    mechanism = release(20, "0.1")
    free = Guarantee(epsilon=Decimal(0), delta=Decimal(0))
    alone = epsilon_composed({mechanism: 3}, delta=1e-6)
    assert epsilon_composed({mechanism: 3, free: 5}, delta=1e-6) == pytest.approx(alone, rel=1e-2)
    assert epsilon_composed({free: 5}, delta=1e-6) == 0.0


def test_mixed_with_a_pure_selection_costs_at_most_the_sum():
    mechanism, pure = release(20, "0.1"), Guarantee(epsilon=Decimal("0.1"), delta=Decimal(0))
    alone = epsilon_composed({mechanism: 12}, delta=1e-6)
    mixed = epsilon_composed({mechanism: 12, pure: 12}, delta=1e-6)
    assert alone < mixed < alone + 1.2


@pytest.mark.parametrize("delta", [1e-30, 1e-100, 1e-190])
def test_no_floor_of_round_off(delta):
    mechanism = release(2000, "0.1")
    found = epsilon_composed({mechanism: 12}, delta=delta)
    assert delta_composed({mechanism: 12}, epsilon=found, resolution=delta) == pytest.approx(delta, rel=1e-6)
    assert epsilon_composed({mechanism: 12}, delta=delta * 10) < found


def test_delta_at_epsilon_and_epsilon_at_delta_are_inverse():
    mechanism = release(20, "0.1")
    found = epsilon_composed({mechanism: 52}, delta=1e-6)
    assert delta_composed({mechanism: 52}, epsilon=found, resolution=1e-6) == pytest.approx(1e-6, rel=1e-6)


def test_where_nothing_finite_exists_there_is_none():
    assert epsilon_composed({release(5, "0.05"): 7}, delta=1e-6) is None


@pytest.mark.parametrize(
    ("parts", "delta"),
    [
        ({}, 1e-6),
        ({release(5, "0.1"): 0}, 1e-6),
        ({release(5, "0.1"): 2}, 0.0),
        ({release(5, "0.1"): 2}, 1e-300),
        ({release(5, "0.1"): 2}, 1.0),
    ],
)
def test_what_cannot_be_composed_is_refused(parts, delta):
    assert delta < float(COMPOSED_FLOOR) or delta >= 1 or not all(parts.values()) or not parts
    with pytest.raises(ValueError, match=r"composed price|composition"):
        epsilon_composed(parts, delta=delta)


@pytest.mark.parametrize("sizes", [(1, 1), (7, 900), (129, 40_000), (3000, 3001), (5000, 70)])
def test_direct_convolution_has_small_relative_error_in_every_entry(sizes):
    draws = np.random.default_rng(7)
    first, second = (np.exp(-60 * draws.random(size)) for size in sizes)
    ours = convolve_direct(first, second)
    for index in np.unique(draws.integers(0, sum(sizes) - 1, 25)):
        low, high = max(0, index - second.size + 1), min(index, first.size - 1)
        truth = math.fsum(float(first[i]) * float(second[index - i]) for i in range(low, high + 1))
        assert ours[index] == pytest.approx(truth, rel=convolution_slack(*sizes))


def test_a_curve_summed_up_too_low_by_rounding_is_scaled_up():
    losses = np.arange(-50, 51) * SPACING
    deltas = np.clip(0.5 - losses * 10, 0.0, 1.0)
    measure = from_curve(spacing=SPACING, lowest=-50, deltas=deltas)
    reached = np.array([delta_at(measure, float(loss)) for loss in losses if loss >= 0])
    assert np.all(reached >= deltas[losses >= 0] * (1 - 1e-15))


def test_ten_thousand_releases_take_seconds_and_little_memory():
    import time

    start = time.process_time()
    assert epsilon_composed({release(20, "0.1"): 10_000}, delta=1e-6) == pytest.approx(14.52, rel=0.01)
    assert time.process_time() - start < 10
