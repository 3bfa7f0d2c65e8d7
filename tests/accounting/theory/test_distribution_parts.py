"""Loss distributions in exact arithmetic: curves no measure may fall below, sums in blocks, cut ends, read-offs."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kinds.composition import loss_distribution
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.accounting.kinds.composition.composed import (
    curves_of,
    grid_spacing,
)
from crowdblend.accounting.kinds.composition.finite_losses import LossesInDoubles
from crowdblend.accounting.kinds.composition.loss_distribution import (
    LossDistribution,
    compose,
    convolution_slack,
    convolve_direct,
    delta_at,
    epsilon_at,
    from_atoms,
    from_curve,
    power,
)
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease


def exact_delta(measure, epsilon):
    """The δ at ε that a measure stands for, its slack included, in 50 digits."""
    with mpmath.workdps(50):
        total = mpmath.mpf(measure.infinite)
        for place, mass in enumerate(measure.masses):
            loss = (measure.lowest + place) * mpmath.mpf(measure.spacing)
            if loss > epsilon:
                total -= mpmath.mpf(float(mass)) * mpmath.expm1(mpmath.mpf(epsilon) - loss)
        return total * (1 + mpmath.mpf(measure.slack))


def exact_total(measure):
    return (Fraction(measure.infinite) + sum(map(Fraction, measure.masses.tolist()))) * (1 + Fraction(measure.slack))


def random_measure(seed, size, *, lowest=-3, infinite=1e-5, slack=0.0):
    masses = np.random.default_rng(seed).dirichlet(np.ones(size)) * (1 - infinite)
    return LossDistribution(spacing=0.25, lowest=lowest, masses=masses, infinite=infinite, slack=slack)


@pytest.mark.parametrize("spacing", [2.0**-20, 0.125, 3.0, 9.0])
@pytest.mark.parametrize("lowest", [-25, -7, 0])
@pytest.mark.parametrize("kind", ["step", "smooth", "random"])
def test_a_measure_lies_above_its_curve_and_is_no_heavier_than_it_must_be(spacing, lowest, kind):
    size = 26
    losses = (lowest + np.arange(size)) * spacing
    deltas = {
        "step": np.where(np.arange(size) < 20, 0.3, 0.1),
        "smooth": 1e-3 + 0.9 * np.maximum(-np.expm1(losses - losses[-2]), 0.0),
        "random": np.sort(np.random.default_rng(3).uniform(size=size))[::-1],
    }[kind]
    deltas = np.maximum(deltas, np.maximum(-np.expm1(losses), 0.0))
    measure = from_curve(spacing=spacing, lowest=lowest, deltas=deltas)
    assert measure.slack < 1e-9
    assert exact_total(measure) >= 1
    for loss, delta in zip(losses, deltas, strict=True):
        found = exact_delta(measure, float(loss))
        assert found >= delta
        assert kind != "smooth" or found <= delta * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("weight", [1e-185, 1e-194, 1e-196, 1e-205, 1e-220])
def test_a_curve_that_rounding_makes_too_low_is_made_up_for_or_refused(weight):
    """Masses that doubles can hardly hold: what is missed is made up for up to a ten-thousandth, and else refused."""
    deltas = weight * 0.9 ** np.arange(30)
    if weight < 1e-190:
        with pytest.raises(ValueError, match="too noisy"):
            from_curve(spacing=9.9, lowest=0, deltas=deltas)
    else:
        measure = from_curve(spacing=9.9, lowest=0, deltas=deltas)
        assert measure.slack <= 1e-4
        assert all(exact_delta(measure, 9.9 * place) >= delta for place, delta in enumerate(deltas))


@pytest.mark.parametrize("spacing", [0.0, -1.0, 300.0, math.inf, math.nan])
def test_a_grid_that_shows_nothing_is_refused(spacing):
    with pytest.raises(ValueError, match="shows nothing"):
        from_curve(spacing=spacing, lowest=0, deltas=np.array([0.5, 0.1]))
    losses = LossesInDoubles(losses=np.array([0.1]), masses=np.array([1.0]), infinite=0.0)
    with pytest.raises(ValueError, match="shows nothing"):
        from_atoms(spacing, losses)
    with pytest.raises(ValueError, match="no finite loss"):
        from_atoms(0.1, LossesInDoubles(losses=np.array([]), masses=np.array([]), infinite=1.0))


@pytest.mark.parametrize("way", ["whole", "blocks"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 9), (5, 128), (127, 3), (128, 129), (129, 300), (256, 257), (257, 256)])
def test_both_ways_to_sum_keep_to_their_error_in_every_entry(sizes, way, monkeypatch):
    monkeypatch.setattr(loss_distribution, "_SMALL", {"whole": 1 << 20, "blocks": 0}[way])
    draws = np.random.default_rng(5)
    first, second = (np.exp(-60 * draws.random(size)) for size in sizes)
    found = convolve_direct(first, second)
    assert found.shape == (sum(sizes) - 1,)
    unit = Fraction(2) ** -140
    whole = [np.array([int(Fraction(x) / unit) for x in side.tolist()], dtype=object) for side in (first, second)]
    assert all(Fraction(x) % unit == 0 for side in (first, second) for x in side.tolist())
    exact = np.zeros(sum(sizes) - 1, dtype=object)
    for place, factor in enumerate(whole[0]):
        exact[place : place + sizes[1]] += factor * whole[1]
    slack = Fraction(convolution_slack(*sizes))
    for ours, truth in zip(found.tolist(), exact, strict=True):
        truth *= unit * unit
        assert abs(Fraction(ours) - truth) <= slack * truth


@pytest.mark.parametrize("cut", [0.0, 1e-4, 0.05, 0.4])
def test_composed_measures_lie_above_the_composition_and_near_it(cut):
    first, second = random_measure(1, 6, slack=1e-3), random_measure(2, 9, lowest=-5, infinite=1e-3, slack=2e-3)
    found = compose(first, second, cut=cut)
    masses = np.zeros(14, dtype=object)
    for i, p in enumerate(first.masses.tolist()):
        for j, q in enumerate(second.masses.tolist()):
            masses[i + j] += Fraction(p) * Fraction(q)
    slack = (1 + Fraction(first.slack)) * (1 + Fraction(second.slack))
    assert found.masses.size >= (14 if cut == 0.0 else 1)
    infinite = Fraction(second.infinite) + sum(map(Fraction, second.masses.tolist())) * Fraction(first.infinite)
    with mpmath.workdps(40):
        for place in range(-30, 40):
            epsilon = place / 8
            truth = mpmath.mpf(infinite.numerator) / infinite.denominator
            for index, mass in enumerate(masses):
                gap = epsilon - (first.lowest + second.lowest + index) * 0.25
                truth -= mpmath.mpf(mass.numerator) / mass.denominator * min(mpmath.expm1(gap), 0)
            truth *= mpmath.mpf(slack.numerator) / slack.denominator
            assert truth <= exact_delta(found, epsilon) <= (truth + 2 * cut) * (1 + 1e-12)
    assert exact_total(found) >= slack * (infinite + sum(masses))


@pytest.mark.parametrize("times", [1, 2, 3, 6, 7, 13])
def test_a_power_is_so_many_and_loses_no_more_than_its_cut(times):
    one = random_measure(6, 5)
    step_by_step = one
    for _ in range(times - 1):
        step_by_step = compose(step_by_step, one, cut=0.0)
    for cut in (0.0, 1e-3):
        found = power(one, times, cut=cut)
        for epsilon in np.arange(0.0, 6.0, 0.5):
            exactly = delta_at(step_by_step, epsilon)
            assert exactly * (1 - 1e-13) <= delta_at(found, epsilon) <= (exactly + cut) * (1 + 1e-12)


def test_measures_of_other_grids_are_not_composed():
    other = LossDistribution(spacing=0.5, lowest=0, masses=np.array([1.0]), infinite=0.0, slack=0.0)
    with pytest.raises(ValueError, match="spacings differ"):
        compose(random_measure(1, 6), other, cut=0.0)


def test_delta_is_read_off_from_above_and_is_a_probability():
    for seed in range(5):
        measure = random_measure(seed, 60, lowest=-10, infinite=1e-9 * seed, slack=1e-6 * seed)
        for epsilon in (0.0, 0.1, 0.25, np.nextafter(0.25, 1.0), 1.0, 7.3, 12.0, 12.2, 20.0):
            truth = exact_delta(measure, float(epsilon))
            found = delta_at(measure, float(epsilon))
            assert min(truth, 1) <= found <= truth * (1 + 1e-12) + 1e-14
    assert delta_at(random_measure(0, 6, lowest=400, slack=0.5), 0.0) == 1.0


def test_the_epsilon_read_off_is_the_least():
    measure = random_measure(8, 60, lowest=-10)
    for delta in (0.9, 0.3, 0.01, 1.1e-5):
        found = epsilon_at(measure, delta)
        assert delta_at(measure, found) <= delta
        assert found == 0.0 or delta_at(measure, found * (1 - 1e-12)) > delta
    assert epsilon_at(measure, 0.9) == 0.0
    assert epsilon_at(measure, 0.9e-5) is None
    assert epsilon_at(LossDistribution(spacing=1.0, lowest=-5, masses=np.ones(1), infinite=0.0, slack=0.0), 0.0) == 0.0


@pytest.mark.parametrize("spacing", [0.1, 0.3, 1 / 3])
def test_losses_next_to_a_grid_point_get_no_negative_mass(spacing):
    """A quotient may round to the next whole number, and a share to more than 1."""
    points = np.arange(-9, 10) * spacing
    losses = np.concatenate([points + few * np.spacing(points) for few in range(-4, 5)])
    found = from_atoms(spacing, LossesInDoubles(losses=losses, masses=np.full(losses.size, 1e-3), infinite=0.0))
    assert np.all(found.masses >= 0.0)
    assert found.masses.sum() == pytest.approx(1e-3 * losses.size, rel=1e-13)
    assert found.lowest in (-10, -9)


def test_what_is_lost_below_the_smallest_double_is_added_at_infinity():
    """docs/proofs/composition.md, 5: less than 1e-280 in all."""
    sure = from_curve(spacing=0.5, lowest=-2, deltas=np.array([0.7, 0.4, 0.1, 0.0]))
    assert sure.infinite == 1e-280
    assert compose(sure, sure, cut=0.0).infinite == pytest.approx(3e-280, rel=1e-9)


@pytest.mark.parametrize("deltas", [[0.5, math.nan, 0.0], [math.nan] * 3])
def test_a_curve_that_is_no_number_is_refused(deltas):
    with pytest.raises(ValueError, match="too noisy"):
        from_curve(spacing=0.125, lowest=0, deltas=np.array(deltas))


def test_the_curve_of_a_guarantee_is_above_that_of_its_worst_pair_by_as_little():
    for epsilon, delta in (("0.5", "1e-9"), ("3", "0.25"), ("0.01", "0")):
        guarantee = Guarantee(epsilon=Decimal(epsilon), delta=Decimal(delta))
        curves = curves_of(guarantee, negligible=1e-12)
        end = curves.adding_end
        assert curves.removing_end == curves.deviation == end == pytest.approx(float(epsilon), rel=1e-15)
        with mpmath.workdps(40):
            for share in (0.0, 0.3, 0.9):
                rest = mpmath.mpf(float(guarantee.delta))
                gain = -mpmath.expm1(mpmath.mpf(share * end) - mpmath.mpf(end)) / (1 + mpmath.exp(-mpmath.mpf(end)))
                truth = mpmath.log(rest + (1 - rest) * gain)
                for curve in (curves.adding, curves.removing):
                    found = float(curve(np.array([share * end]))[0])
                    assert mpmath.mpf("8e-15") < found - truth < mpmath.mpf("1.2e-14")
            beyond = curves.adding(np.array([1.5 * end]))[0]
            assert beyond == pytest.approx(math.log(float(delta)) if float(delta) else -math.inf, rel=1e-12)


@pytest.mark.parametrize(("k", "rate"), [(20, "0.1"), (1, "0.5"), (2, "0.5"), (3, "0.01"), (500, "0.9")])
@pytest.mark.parametrize("negligible", [1e-7, 1e-15])
def test_curves_are_negligible_from_their_ends_on_and_not_long_before(k, rate, negligible):
    """Negligible, or for the adding of a record at its plateau: all sampled records of the smallest group."""
    curves = curves_of(StronglySafeRelease(k=k, sampling_rate=Decimal(rate)), negligible=negligible)
    plateau = k * math.log(float(rate))
    for curve, end, level in (
        (curves.adding, curves.adding_end, max(math.log(negligible), plateau + 2e-9)),
        (curves.removing, curves.removing_end, math.log(negligible)),
    ):
        at, before = curve(np.array([end, 0.89 * end]))
        assert at <= level
        assert before > level - 1e-8
    assert curves.removing_end <= -math.log1p(-float(rate)) * (1 + 2e-9)


def test_what_is_beyond_the_grid_is_refused():
    far = Guarantee(epsilon=Decimal("145.1"), delta=Decimal(0))
    with pytest.raises(ValueError, match=r"a privacy loss of 290\.2 is beyond the grid"):
        grid_spacing({curves_of(far, negligible=1e-12): 1}, negligible=1e-12)
    near = Guarantee(epsilon=Decimal(145), delta=Decimal(0))
    assert grid_spacing({curves_of(near, negligible=1e-12): 1}, negligible=1e-12) == pytest.approx(145 / 24, rel=1e-6)
