"""The parts of the prices of histograms: masses, splits, sums and losses, each against its definition, tightly."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from itertools import islice

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kinds import noisy_histogram_prices
from crowdblend.accounting.kinds.noisy_histogram_prices import (
    NoisyProfile,
    noisy_parts,
    price_noisy_histogram,
)
from crowdblend.accounting.kinds.outlier_histogram_prices import (
    delta_for_group,
    price_outlier_histogram,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram

NOISY = NoisyHistogram(k=4, epsilon=Decimal("0.5"), sampling_rate=Decimal("0.25"))
OUTLIER = OutlierPrivateHistogram(epsilon=Decimal("0.5"), horizon=9, margin=3)


@cache
def sampled(n, rate):
    """Pr[Bin(n, rate) = j] in forty digits."""
    with mpmath.workdps(40):
        rate = mpmath.mpf(rate)
        return [mpmath.binomial(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1)]


def published(n, rate, k, loss, top):
    """Outcomes up to 0, 1 … top, and all above: two-sided geometric noise on counts below k, the others as they are."""
    with mpmath.workdps(40):
        counts, decay = sampled(n, rate), mpmath.exp(-mpmath.mpf(loss))
        norm = (1 - decay) / (1 + decay)
        small = list(enumerate(counts[:k]))
        below = mpmath.fsum(mass * decay**count for count, mass in small) / (1 + decay)
        above = mpmath.fsum(mass * decay ** (top + 1 - count) for count, mass in small) / (1 + decay)
        inner = [
            mpmath.fsum(mass * norm * decay ** abs(place - count) for count, mass in small)
            + (counts[place] if k <= place <= n else 0)
            for place in range(1, top + 1)
        ]
        return [below, *inner, above]


@pytest.mark.parametrize("size", range(1, 9))
def test_losses_of_noisy_counts_give_the_divergence_of_their_laws(size):
    """Each size's pair of laws, published and as bare counts, in both directions and at several ε."""
    both = next(islice(NoisyProfile(NOISY).losses(), size - 1, size))
    wide = [[published(n, 0.25, 4, 0.5, 60) for n in (size, size - 1)], [[*sampled(n, 0.25)] for n in (size, size - 1)]]
    wide[1][1].append(mpmath.mpf(0))
    for found, (present, absent) in zip(both, wide, strict=True):
        for losses, ahead, behind in ((found[0], present, absent), (found[1], absent, present)):
            for epsilon in (0.0, 0.02, 0.2, 0.5):
                growth = mpmath.exp(epsilon)
                truth = mpmath.fsum(max(0, one - growth * other) for one, other in zip(ahead, behind, strict=True))
                assert truth - 1e-13 <= hockey_stick(losses, epsilon) <= truth + 1e-12


def hockey_stick(losses, epsilon):
    return losses.infinite + float((losses.masses * np.maximum(-np.expm1(epsilon - losses.losses), 0.0)).sum())


def test_what_a_noisy_histogram_is_refused_for(monkeypatch):
    for rate in ("1e-9", "0.999999999", "0.9999999999"):
        with pytest.raises(InputRefused, match="beyond the enumeration"):
            noisy_parts(NoisyHistogram(k=4, epsilon=Decimal(1), sampling_rate=Decimal(rate)))
    for rate in ("1.1e-9", "0.99999999"):
        assert len(noisy_parts(NoisyHistogram(k=4, epsilon=Decimal(1), sampling_rate=Decimal(rate)))) == 1
    monkeypatch.setattr(noisy_histogram_prices, "_MOST_GROUPS", 4)
    slow = NoisyProfile(NOISY)
    with pytest.raises(InputRefused, match="too long"):
        slow.delta(0.0)
    assert len(slow._groups) == 4, "sizes 1 to 3"
    assert NoisyProfile(NOISY).epsilon(1e-6) is None
    with pytest.raises(InputRefused, match="no epsilon is enough"):
        price_noisy_histogram(mechanism=NOISY, delta=Decimal("1e-7"))


def test_the_outlier_price_is_that_of_the_worst_group_up_to_the_edge():
    """Beyond K − t + 1 nothing differs any more; the last groups are the dearest."""
    few = OutlierPrivateHistogram(epsilon=Decimal("0.2"), horizon=15, margin=1)
    edge = OutlierPrivateHistogram(epsilon=Decimal(5), horizon=3, margin=1)  # here the last is dearest by itself
    for event, delta in ((OUTLIER, Decimal("0.01")), (few, Decimal("0.01")), (edge, Decimal("0.1"))):
        found = price_outlier_histogram(mechanism=event, delta=delta)
        assert (found.releases, found.delta, found.rule) == (1, delta, "outlier-exact/1")
        sizes = range(1, event.horizon + 3)
        for share, covered in ((1.0, True), (1 - 1e-9, False)):
            worst = max(delta_for_group(event, count=count, epsilon=float(found.epsilon) * share) for count in sizes)
            assert (worst <= delta) is covered
