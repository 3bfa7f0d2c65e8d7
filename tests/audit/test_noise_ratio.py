"""The checker of noise: its largest ratio is the one that is found by trying, and a false claim is refused."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.kernel.amounts import amount_shown
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


@pytest.mark.parametrize(
    ("noise", "sensitivity", "place", "loss"),
    [
        (CoinFlipNoise(), 1, "0", "1.38629"),
        (CoinFlipNoise(), 3, "0", "2.77259"),
        (TwoSidedGeometricNoise(epsilon=Decimal("0.7")), 2, "0", "1.4"),
        (LaplaceNoise(scale=4.0), 1, "0", "0.25"),
        (GaussianNoise(standard_deviation=10.0), 1, "-10000", "100.005"),
        (OneSidedGeometricNoise(epsilon=Decimal("0.1")), 2, "0", "inf"),
    ],
)
def test_a_refusal_shows_the_worst_output_that_was_tried(noise, sensitivity, place, loss):
    found = worst_ratio(noise, sensitivity=sensitivity)
    assert found.witnesses[-1].log_ratio >= max(witness.log_ratio for witness in found.witnesses) * (1 - 1e-15)
    with pytest.raises(InputRefused) as refused:
        require_pure(noise, sensitivity=sensitivity, epsilon=Decimal("0.01"))
    told = str(refused.value)
    assert f"{type(noise).__name__} is not 0.01-differentially private for sensitivity {sensitivity}: " in told
    assert f"At output {place} the loss is {loss}." in told
    assert (f"it needs ε = {amount_shown(found.epsilon)}," if found.epsilon else "no ε is enough,") in told


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianNoise(standard_deviation=math.inf),
        lambda: OneSidedGeometricNoise(epsilon=Decimal(-1)),
        lambda: OneSidedGeometricNoise(epsilon=Decimal(0)),
        lambda: OneSidedGeometricNoise(epsilon=Decimal("inf")),
    ],
)
def test_what_is_no_noise_cannot_be_described(make):
    with pytest.raises(ValueError, match="must"):
        make()
    assert GaussianNoise(standard_deviation=5e-324).standard_deviation > 0
