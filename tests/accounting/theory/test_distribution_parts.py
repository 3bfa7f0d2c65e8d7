"""Loss distributions in exact arithmetic: curves no measure may fall below, sums in blocks, cut ends, read-offs."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.arithmetic import ULP
from crowdblend.accounting.kinds.composition import composed, finite_losses, loss_distribution
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.accounting.kinds.composition.composed import (
    curves_of,
    deltas_up,
    few_bits,
    grid_spacing,
    grid_to,
    mirrored,
)
from crowdblend.accounting.kinds.composition.finite_losses import FiniteLosses, LossesInDoubles, losses_of_masses
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

USUAL = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
GUARANTEE = Guarantee(epsilon=Decimal("0.1"), delta=Decimal("1e-9"))
LOSSES = FiniteLosses(outcomes=((50, 40), (40, 50), (10, 9), (0, 1)), total=100, times=3)


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


def test_what_rounding_misses_is_counted_as_slack():
    deltas = 1e-193 * 0.9 ** np.arange(30)
    measure = from_curve(spacing=9.9, lowest=0, deltas=deltas)
    assert 1e-7 < measure.slack <= 1e-4
    bare = LossDistribution(
        spacing=9.9, lowest=0, masses=measure.masses, infinite=measure.infinite, slack=measure.slack / 2
    )
    computed = np.exp(-9.9 * np.arange(1, 30)) * bare.masses[1:]
    assert np.any(computed < 1e-308), "there was something to miss"


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


def test_the_error_of_a_sum_is_stated_by_its_shorter_side():
    assert convolution_slack(7, 900) == convolution_slack(900, 7) == 9 * ULP


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


def test_cut_ends_lose_no_mass_and_move_no_more_than_allowed():
    measure = random_measure(4, 40)
    whole = compose(measure, measure, cut=0.0)
    short = compose(measure, measure, cut=0.01)
    assert short.masses.size < whole.masses.size
    assert short.lowest > whole.lowest
    assert short.infinite - whole.infinite <= 0.01
    kept = whole.masses[short.lowest - whole.lowest :][: short.masses.size]
    assert np.array_equal(short.masses[1:], kept[1:])
    assert 0.0 < short.masses[0] - kept[0] <= 0.01
    moved_up = Fraction(float(short.infinite)) - Fraction(whole.infinite)
    beyond = whole.masses[short.lowest - whole.lowest + short.masses.size :]
    assert float(moved_up) == pytest.approx(float(beyond.sum()), rel=1e-12)
    # With one more place each end would have lost more than it may.
    assert whole.masses[: short.lowest - whole.lowest + 1].sum() > 0.01
    assert whole.masses[short.lowest - whole.lowest + short.masses.size - 1 :].sum() > 0.01
    assert compose(measure, measure, cut=5.0).masses.size == 1


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


@pytest.mark.parametrize("lowest", [-30, 300])
def test_an_epsilon_is_read_off_to_thirteen_digits_and_no_further(lowest, monkeypatch):
    measure, asked = random_measure(8, 60, lowest=lowest), []
    monkeypatch.setattr(loss_distribution, "delta_at", lambda *given: asked.append(given[1]) or delta_at(*given))
    found = epsilon_at(measure, 0.1)
    assert asked[:2] == [0.0, (lowest + 60) * 0.25]
    assert len(asked) == 2 + math.ceil(math.log2(asked[1] / (1e-13 * found)))
    assert delta_at(measure, found * (1 - 1.01e-13)) > 0.1


@pytest.mark.parametrize("deltas", [[0.5, math.nan, 0.0], [math.nan] * 3])
def test_a_curve_that_is_no_number_is_refused(deltas):
    with pytest.raises(ValueError, match="too noisy"):
        from_curve(spacing=0.125, lowest=0, deltas=np.array(deltas))


def test_the_end_of_a_curve_that_stays_above_a_level_is_the_farthest_loss():
    assert composed._end(np.zeros_like, -1.0, 0.1, 5.0) == 5.0


def test_curves_become_deltas_above_them_by_a_hundredth_of_a_billionth_of_a_thousandth():
    logs = np.array([-600.0, -30.0, -1.0, -1e-3, 3.0])
    losses, behind = np.array([-40.0, -1.0, -0.3, -1e-9]), np.array([0.5, 0.0, 1e-9, 0.2])
    with mpmath.workdps(40):
        truths = [min(mpmath.exp(mpmath.mpf(log)), 1) for log in logs]
        pairs = list(zip(deltas_up(logs), truths, strict=True))
        for found, loss, delta in zip(mirrored(losses, behind), losses, behind, strict=True):
            pairs.append((found, -mpmath.expm1(mpmath.mpf(loss)) + mpmath.exp(mpmath.mpf(loss)) * mpmath.mpf(delta)))
        for found, truth in pairs:
            assert truth <= found <= truth * (1 + mpmath.mpf("1.2e-14"))
        assert sum(truth * (1 + mpmath.mpf("8e-15")) < found for found, truth in pairs) == len(pairs) - 1


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


@pytest.mark.parametrize(
    ("parts", "spacing"),
    [
        ({USUAL: 12}, 0.000982092693),
        ({USUAL: 10_000}, 0.001092460006),
        ({USUAL: 1_000_000}, 0.010717436671),
        ({StronglySafeRelease(k=5, sampling_rate=Decimal("0.001")): 3}, 2.80686072e-05),
        ({GUARANTEE: 5}, 0.1 / 24),
        ({USUAL: 3, GUARANTEE: 100_000}, 0.014371097088),
        ({LOSSES: 2}, 0.002232275903),
        ({LOSSES: 10**9}, 0.768706321716),
    ],
)
def test_the_grid_of_a_composition_is_part_of_its_rule(parts, spacing):
    """As fine as a twenty-fourth of a deviation, unless that makes too many points, of one step or of all."""
    curves = {curves_of(part, negligible=1e-12): times for part, times in parts.items()}
    assert grid_spacing(curves, negligible=1e-12) == pytest.approx(spacing, rel=1.5e-6)


def test_what_is_beyond_the_grid_is_refused():
    far = Guarantee(epsilon=Decimal("145.1"), delta=Decimal(0))
    with pytest.raises(ValueError, match=r"a privacy loss of 290\.2 is beyond the grid"):
        grid_spacing({curves_of(far, negligible=1e-12): 1}, negligible=1e-12)
    near = Guarantee(epsilon=Decimal(145), delta=Decimal(0))
    assert grid_spacing({curves_of(near, negligible=1e-12): 1}, negligible=1e-12) == pytest.approx(145 / 24, rel=1e-6)


def test_a_grid_reaches_just_beyond_its_end():
    assert grid_to(1.0, 0.25).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert grid_to(1.1, 0.25).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
    assert few_bits(1.0 / 3.0) == round(2.0**21 / 3.0) / 2.0**21
    assert few_bits(1e-9 / 3.0) == pytest.approx(1e-9 / 3.0, rel=2.0**-20)


def test_finite_losses_are_rounded_up_by_eight_units():
    """docs/proofs/composition.md: their logarithms err by 2, and the law of a noise by 4."""
    losses = FiniteLosses(outcomes=((5, 0), (90, 4), (4, 90), (1, 1), (0, 5)), total=100, times=2)
    assert losses.infinite == Fraction(1, 20)
    by_masses = losses_of_masses(np.array([0.05, 0.9, 0.04, 0.01]), np.array([0.0, 0.04, 0.9, 0.01]), 0.001)
    assert by_masses.infinite == pytest.approx(0.051, rel=1e-14)
    ahead = [(90, 4), (4, 90), (1, 1)]
    back = [(lower, upper) for upper, lower in ahead]
    for found, weights in zip((*losses.in_doubles, by_masses), (ahead, back, ahead), strict=True):
        assert found.masses.tolist() == [upper / 100 for upper, _ in weights]
        for loss, (upper, lower) in zip(found.losses, weights, strict=True):
            with mpmath.workdps(40):
                units = (mpmath.mpf(loss) - mpmath.log(mpmath.mpf(upper) / lower)) / ((1 + abs(loss)) * ULP)
            assert abs(units - 8) < 3
    assert [side.infinite for side in losses.in_doubles] == [math.nextafter(0.05, 1.0)] * 2
    assert finite_losses._LOG_SLACK == 8.0 * ULP
    assert losses.adding_end == pytest.approx(math.log(22.5), rel=1e-14)
    one_way = replace(losses, outcomes=((90, 40), (10, 20), (0, 40)))
    assert (one_way.adding_end, one_way.removing_end) == pytest.approx((math.log(2.25), math.log(2.0)), rel=1e-14)
    square = 0.9 * math.log(2.25) ** 2 + 0.1 * math.log(2.0) ** 2
    assert one_way.deviation == pytest.approx(0.25 * math.sqrt(square), rel=1e-12)
    alike = replace(losses, outcomes=((50, 50), (50, 50)))
    assert alike.deviation == 1e-12
    lower = replace(losses, outcomes=((50, 60), (50, 0)), total=100)
    assert lower.adding_end == 0.0
