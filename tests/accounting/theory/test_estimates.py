"""The quick estimate of a composed δ against its formula in 30 digits, with numeric derivatives."""

from __future__ import annotations

import math
from decimal import Decimal

import mpmath
import pytest
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.accounting.kinds.composition.composed import curves_of, delta_composed, measures_of
from crowdblend.accounting.theory.planning.estimates import estimated_log_delta
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

PURE = Guarantee(epsilon=Decimal("0.3"), delta=Decimal(0))
LOOSE = Guarantee(epsilon=Decimal("0.1"), delta=Decimal("1e-4"))
RELEASE = StronglySafeRelease(k=200, sampling_rate=Decimal("0.1"))


def by_the_formula(parts, epsilon):
    """ln of e^{F(z)}/sqrt(2πF″(z)) where F′(z) = 0, and of the mass at infinity."""
    terms, infinite = [], mpmath.mpf(0)
    for part, times in parts.items():
        curves = curves_of(part, negligible=1e-14)
        measure, _ = measures_of(curves, curves.deviation / 8)
        pairs = zip(measure.losses(), measure.masses, strict=True)
        terms.append((times, [(mpmath.mpf(loss), mpmath.mpf(mass)) for loss, mass in pairs if mass > 1e-200]))
        infinite += times * mpmath.mpf(measure.infinite)

    def exponent(z):
        value = sum(times * mpmath.log(sum(m * mpmath.exp(z * x) for x, m in pairs)) for times, pairs in terms)
        return value - epsilon * z - mpmath.log(z) - mpmath.log(1 + z)

    low, high = mpmath.mpf(-8), mpmath.mpf(8)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if mpmath.diff(exponent, mpmath.exp(middle)) < 0 else (low, middle)
    at = mpmath.exp(high)
    descent = mpmath.exp(exponent(at)) / mpmath.sqrt(2 * mpmath.pi * mpmath.diff(exponent, at, 2))
    return float(min(mpmath.log(descent + infinite), 0))


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [({PURE: 1}, 0.02), ({PURE: 9}, 0.02), ({PURE: 9}, 1.7), ({LOOSE: 3}, 0.25), ({PURE: 2, LOOSE: 5}, 0.5)],
)
def test_the_estimate_is_its_formula(parts, epsilon):
    with mpmath.workdps(30):
        expected = by_the_formula(parts, epsilon)
    assert estimated_log_delta(parts, epsilon=epsilon, negligible=1e-14) == pytest.approx(expected, abs=1e-6)


def test_what_is_infinite_counts_as_often_as_it_is_used():
    at_a_far_epsilon = estimated_log_delta({LOOSE: 7}, epsilon=60.0, negligible=1e-14)
    assert at_a_far_epsilon == pytest.approx(math.log(7e-4), abs=1e-9)


@pytest.mark.parametrize(("times", "epsilon"), [(12, 0.099), (52, 0.211), (365, 0.589)])
def test_of_many_releases_the_estimate_is_right_within_a_few_per_cent(times, epsilon):
    found = estimated_log_delta({RELEASE: times}, epsilon=epsilon, negligible=1e-14)
    truth = math.log(delta_composed({RELEASE: times}, epsilon=epsilon, resolution=1e-6))
    assert found == pytest.approx(truth, abs=0.04)
