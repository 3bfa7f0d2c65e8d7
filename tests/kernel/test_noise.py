"""Every noise has the distribution that its description states; one that is 10% off is rejected.

OpenDP draws by itself, so those tests have no seed: each has a false-alarm rate of one in a million.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.mechanisms.kernel.noise import TwoSidedGeometricNoise, add_two_sided_geometric

DRAWS = 40_000


def geometric_mass(noise):
    """The formula, not the code: (1−α)/(1+α)·α^|x| with α = e^{−ε/Δ}."""
    alpha = math.exp(-float(noise.epsilon) / noise.sensitivity)
    return lambda x: (1 - alpha) / (1 + alpha) * alpha ** abs(x)


@pytest.mark.parametrize(
    ("epsilon", "sensitivity"),
    [("1", 4), *(pytest.param(epsilon, 1, marks=pytest.mark.slow) for epsilon in ("1", "0.3", "2.5"))],
)
def test_two_sided_geometric_noise_has_its_formula(fit, epsilon, sensitivity):
    noise = TwoSidedGeometricNoise(epsilon=Decimal(epsilon), sensitivity=sensitivity)
    drawn = add_two_sided_geometric([0] * DRAWS, noise)
    assert fit(drawn, geometric_mass(noise))
    for factor in (Decimal("1.1"), 1 / Decimal("1.1")):
        off = TwoSidedGeometricNoise(epsilon=Decimal(epsilon) * factor, sensitivity=sensitivity)
        assert not fit(add_two_sided_geometric([0] * DRAWS, off), geometric_mass(noise))


def test_its_mean_is_0_and_its_variance_the_formulas():
    noise = TwoSidedGeometricNoise(epsilon=Decimal("0.4"))
    drawn = np.array(add_two_sided_geometric([7] * DRAWS, noise)) - 7
    alpha = math.exp(-0.4)
    assert noise.variance == pytest.approx(2 * alpha / (1 - alpha) ** 2)
    # The fourth moment of a Laplace-like law is about 6 variances squared: 6 standard errors, one in 10^8.
    assert abs(drawn.mean()) < 6 * math.sqrt(noise.variance / DRAWS)
    assert abs(drawn.var() / noise.variance - 1) < 6 * math.sqrt(5.1 / DRAWS)
    assert abs((1.1**2 * drawn.var()) / noise.variance - 1) > 6 * math.sqrt(5.1 / DRAWS)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("epsilon", ["0.05", "0.7", "3"])
def test_the_interval_is_the_shortest_with_its_confidence(confidence, epsilon):
    noise = TwoSidedGeometricNoise(epsilon=Decimal(epsilon))
    mass = geometric_mass(noise)

    def inside(width):
        return math.fsum(mass(x) for x in range(-width, width + 1))

    width = noise.half_width(confidence)
    assert inside(width) >= confidence - 1e-12
    assert width == 0 or inside(width - 1) < confidence


def test_huge_values_saturate_instead_of_wrapping():
    noise = TwoSidedGeometricNoise(epsilon=Decimal("1e-12"))
    assert all(value >= 0 for value in add_two_sided_geometric([2**63 - 1] * 20, noise))
    assert add_two_sided_geometric([], noise) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: TwoSidedGeometricNoise(epsilon=Decimal(0)),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal("nan")),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal("-1")),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal("inf")),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal("1e301")),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal("1e-301")),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal(1), sensitivity=0),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal(1)).half_width(0.0),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal(1)).half_width(1.0),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal(1)).half_width(-0.5),
        lambda: TwoSidedGeometricNoise(epsilon=Decimal(1)).half_width(1.5),
    ],
)
def test_what_is_no_noise_cannot_be_described(make):
    with pytest.raises(ValueError, match="must"):
        make()


def test_what_is_just_a_noise_can_be_described():
    for epsilon in ("1e300", "1e-300", "9.99e300"):
        assert TwoSidedGeometricNoise(epsilon=Decimal(epsilon)).scale > 0


def test_the_scale_is_the_least_double_that_is_not_below_the_exact_one():
    nearest_too_small = 0
    for epsilon in (Decimal("0.5"), Decimal(3), *(Decimal(number) / 100 for number in range(1, 40))):
        for sensitivity in (1, 3):
            exact = Fraction(sensitivity) / Fraction(epsilon)
            scale = TwoSidedGeometricNoise(epsilon=epsilon, sensitivity=sensitivity).scale
            assert Fraction(math.nextafter(scale, 0.0)) < exact <= Fraction(scale)
            nearest_too_small += Fraction(float(exact)) < exact
    assert nearest_too_small > 5
    assert TwoSidedGeometricNoise(epsilon=Decimal("0.5"), sensitivity=3).scale == 6.0


def test_no_width_is_negative():
    """Of noise so wide that its chance of 0 is lost in rounding, and of hardly any confidence."""
    assert TwoSidedGeometricNoise(epsilon=Decimal("1e-20")).half_width(1e-18) == 0
