"""The checker of noise: its largest ratio is the one that is found by trying, and a false claim is refused."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.noise import TwoSidedGeometricNoise

from audit.theory.noise_ratio import (
    CoinFlipNoise,
    GaussianNoise,
    LaplaceNoise,
    OneSidedGeometricNoise,
    log_probability,
    require_pure,
    worst_ratio,
)


def test_the_coin_flip_count_costs_ln_4():
    found = worst_ratio(CoinFlipNoise()).epsilon
    assert found >= Decimal(4).ln() > found - Decimal("1e-10")
    ratios = [math.exp(log_probability(CoinFlipNoise(), x) - log_probability(CoinFlipNoise(), x + 1)) for x in range(9)]
    assert ratios[0] == pytest.approx(4)
    assert ratios[1:] == pytest.approx([2] * 8)
    assert worst_ratio(CoinFlipNoise(), sensitivity=3).epsilon >= Decimal(16).ln()


@pytest.mark.parametrize(
    ("noise", "exact"),
    [
        (TwoSidedGeometricNoise(epsilon=Decimal("0.7"), sensitivity=3), 0.7),
        (TwoSidedGeometricNoise(epsilon=Decimal("0.7")), 2.1),
        (LaplaceNoise(scale=4.0), 0.75),
        (CoinFlipNoise(), math.log(16)),
    ],
)
def test_sound_noise_has_the_largest_ratio_that_is_found_by_trying(noise, exact):
    found = worst_ratio(noise, sensitivity=3)
    outputs = np.arange(-60, 61)
    tried = max(abs(log_probability(noise, x) - log_probability(noise, x - s)) for x in outputs for s in (1, 2, 3))
    assert float(found.epsilon) == pytest.approx(exact, rel=1e-9)
    assert tried == pytest.approx(exact, rel=1e-9)
    assert max(witness.log_ratio for witness in found.witnesses) == pytest.approx(exact, rel=1e-9)
    assert require_pure(noise, sensitivity=3, epsilon=found.epsilon) == found
    with pytest.raises(InputRefused, match="it needs"):
        require_pure(noise, sensitivity=3, epsilon=Decimal(exact) / Decimal("1.1"))


def test_gaussian_noise_has_an_unbounded_ratio():
    found = worst_ratio(GaussianNoise(standard_deviation=10.0))
    assert found.epsilon is None
    losses = [witness.log_ratio for witness in found.witnesses]
    assert losses == sorted(losses)
    for witness in found.witnesses:
        assert witness.log_ratio == pytest.approx(abs(1 - 2 * witness.output) / 200)
    with pytest.raises(InputRefused, match=r"no ε is enough.*Gaussian noise is \(ε, δ\)-private"):
        require_pure(GaussianNoise(standard_deviation=1e6), sensitivity=1, epsilon=Decimal(100))


def test_one_sided_noise_betrays_for_certain():
    noise = OneSidedGeometricNoise(epsilon=Decimal("0.1"))
    found = worst_ratio(noise)
    assert found.epsilon is None
    assert found.witnesses[-1].log_ratio == math.inf
    assert found.witnesses[0].log_ratio == pytest.approx(0.1), "elsewhere it looks innocent"
    with pytest.raises(InputRefused, match="tells the neighbours apart for certain"):
        require_pure(noise, sensitivity=1, epsilon=Decimal(100))
    with pytest.raises(InputRefused, match="sensitivity must be"):
        worst_ratio(noise, sensitivity=0)
