"""The parts of the prices of histograms: masses, splits, sums and losses, each against its definition, tightly."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache
from itertools import islice

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.arithmetic import ULP
from crowdblend.accounting.kernel.prices.registry import kind_of
from crowdblend.accounting.kinds import noisy_histogram_prices, outlier_histogram_prices
from crowdblend.accounting.kinds.noisy_histogram_prices import (
    NoisyProfile,
    _decaying_sums,
    _divergence,
    _Group,
    noisy_parts,
    price_noisy_histogram,
)
from crowdblend.accounting.kinds.outlier_histogram_prices import (
    _one_way,
    _outlier_filter_parts,
    _outlier_losses,
    _outlier_sizes,
    _ray,
    delta_for_group,
    price_outlier_histogram,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, SuppressedHistogram
from crowdblend.mechanisms.kinds.outlier_histogram import OutlierPrivateHistogram

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


def test_the_margin_of_published_masses_is_sixteen_roundings_a_place():
    """docs/proofs/noisy-histogram.md: where the sampled count is certain, nothing else separates the bounds."""
    upper, lower = (
        NoisyProfile(NoisyHistogram(k=100, epsilon=Decimal(1), sampling_rate=Decimal("0.1")))._group(0).published
    )
    assert (upper - lower) / (upper + lower) == pytest.approx((16 * 100 + 64) * ULP, rel=0.01, abs=0.0)


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


def test_sums_that_decay_and_parts_that_are_above():
    assert _decaying_sums(np.array([1.0, 2.0, 4.0]), 0.5).tolist() == [1.0, 2.5, 5.25]
    upper, lower = np.array([0.5, 0.25, 0.0]), np.array([0.125, 0.25, 0.5])
    assert 0.25 <= _divergence(upper, lower, 2.0) <= 0.25 * (1 + 68 * ULP)


def by_hand(published, sampled, rest):
    return _Group(published=(np.array(published),) * 2, sampled=(np.array(sampled),) * 2, rest=rest)


def test_what_was_cut_off_counts_in_full_and_the_search_ends_at_the_bare_counts():
    """Four sizes by hand: at ε = 0 the published laws are 0.2, 0.1 and 0.05 apart, the bare ones twice that."""
    profile = NoisyProfile(NOISY)
    profile._groups = [
        by_hand([0.8, 0.2, 0.0], [0.9, 0.1], 0.0),
        by_hand([0.6, 0.4, 0.0], [0.5, 0.5], 0.001),
        by_hand([0.5, 0.5, 0.0], [0.3, 0.7], 0.002),
        by_hand([0.45, 0.55, 0.0], [0.2, 0.8], 0.004),
        by_hand([0.45, 0.55, 0.0], [0.2, 0.8], 0.0),
    ]
    assert profile.delta(epsilon=0.0) == pytest.approx(0.201, rel=1e-11)
    assert profile.delta(0.0, enough=0.4011) == pytest.approx(0.401, rel=1e-11), "the bare counts of the first size"
    assert profile.delta(0.0, enough=0.4) == pytest.approx(0.203, rel=1e-11), "those of the second"
    (adding, removing), (bare_adding, bare_removing) = next(profile.losses())
    for losses, truth in ((adding, 0.2), (removing, 0.2), (bare_adding, 0.4), (bare_removing, 0.4)):
        assert hockey_stick(losses, 0.0) == pytest.approx(truth + 0.001, rel=1e-9)


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


def ray(first, loss, other_first, other_loss):
    terms = np.arange(20000)
    return float(np.maximum(first * np.exp(-loss * terms) - other_first * np.exp(-other_loss * terms), 0.0).sum())


@pytest.mark.parametrize(
    ("first", "loss", "other_first", "other_loss"),
    [
        (0.5, 0.2, 0.25, 0.1),
        (0.25, 0.2, 0.5, 0.1),
        (0.5, 0.1, 0.25, 0.2),
        (0.25, 0.1, 0.5, 0.2),
        (0.3, 0.05, 0.9, 0.3),
        (0.9, 0.3, 0.3, 0.05),
        (0.5, 0.25, 0.25, 0.25),
        (0.25, 0.25, 0.5, 0.25),
        (0.25, 0.25, 0.25, 0.25),
        (0.5, 0.5, 0.5 * math.exp(-1.0), 0.25),
    ],
)
def test_the_closed_form_of_two_geometric_series_is_their_sum(first, loss, other_first, other_loss):
    """A trillionth of what is added up is added for rounding."""
    terms = np.arange(20000)
    ahead, behind = first * np.exp(-loss * terms), other_first * np.exp(-other_loss * terms)
    truth, mass = ray(first, loss, other_first, other_loss), float(ahead[(ahead >= behind)].sum())
    margin = (_ray(first, loss, other_first, other_loss) - truth) / max(mass, 1e-3)
    assert -1e-15 <= margin <= 1.1e-12
    assert margin >= 0.9e-12 or mass == 0.0


def noise(count, reach):
    loss = 0.5 if count >= 6 else 1.5 / (9 - count)
    places = np.arange(-reach, reach + 1)
    return math.tanh(loss / 2) * np.exp(-loss * np.abs(places - count))


def test_what_lies_beyond_the_places_of_noise_counts_in_full():
    """Of noise with loss 1/2 what is eight and more places away on either side; nothing else tells with certainty."""
    steps = np.exp(-0.5 * np.arange(8)) * math.tanh(0.25)
    likely, other = np.concatenate([steps, steps * math.exp(-0.5)]), np.concatenate([steps * math.exp(-0.5), steps])
    found = _outlier_losses(likely, other, 0.5)
    beyond = 1.0 - float(likely.sum())
    assert beyond == pytest.approx(math.exp(-4.0), rel=1e-12)
    assert beyond <= found.infinite <= 2 * beyond * (1 + 1e-11)
    exact = np.log(likely / other)
    assert ((exact + 1e-12 <= found.losses) & (found.losses <= exact + 3e-12)).all()
    assert found.masses == pytest.approx(likely * (1 + 1e-12), rel=1e-15)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
def test_losses_of_outlier_private_counts_give_each_groups_divergence(epsilon):
    sizes = list(_outlier_sizes(OUTLIER))
    assert len(sizes) == 9 - 3 + 1
    for count, ((adding, removing), later) in enumerate(sizes, 1):
        assert later is None
        present, absent = noise(count, 800), noise(count - 1, 800)
        found = []
        for losses, ahead, behind in ((adding, present, absent), (removing, absent, present)):
            truth = float(np.maximum(ahead - math.exp(epsilon) * behind, 0.0).sum())
            assert truth - 1e-13 <= hockey_stick(losses, epsilon) <= truth + 1e-10
            found.append(truth)
        exact = delta_for_group(OUTLIER, count=count, epsilon=epsilon)
        assert max(found) - 1e-13 <= exact <= max(found) + 1e-10
        assert max(found) <= exact + 1e-13
    one, other = 0.25, 0.5
    assert _one_way(one, other, epsilon) >= ray(math.tanh(0.125), 0.25, math.exp(epsilon - 0.5) * math.tanh(0.25), 0.5)


def test_bounds_of_outlier_private_counts(monkeypatch):
    with pytest.raises(ValueError, match="epsilon is at least 0"):
        delta_for_group(OUTLIER, count=1, epsilon=-0.5)
    assert delta_for_group(mechanism=OUTLIER, count=100, epsilon=0.5) < 1e-10, (
        "what two counts with the same noise differ by"
    )
    loud = OutlierPrivateHistogram(epsilon=Decimal(900), horizon=9, margin=3)
    with pytest.raises(InputRefused, match="no epsilon is enough"):
        price_outlier_histogram(loud, delta=Decimal("0.1"))
    monkeypatch.setattr(outlier_histogram_prices, "_LARGEST_HORIZON", 9)
    assert price_outlier_histogram(OUTLIER, delta=Decimal("0.1")).releases == 1
    monkeypatch.setattr(outlier_histogram_prices, "_LARGEST_HORIZON", 8)
    with pytest.raises(InputRefused, match="at most 8"):
        price_outlier_histogram(OUTLIER, delta=Decimal("0.1"))
    places = (9 - 3 + 1) * math.ceil(60 * OUTLIER.noise(0).scale)
    monkeypatch.setattr(outlier_histogram_prices, "_MOST_PLACES", places)
    assert len(_outlier_filter_parts(OUTLIER)) == 1
    monkeypatch.setattr(outlier_histogram_prices, "_MOST_PLACES", places - 1)
    with pytest.raises(InputRefused, match="beyond the enumeration"):
        _outlier_filter_parts(OUTLIER)


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


def test_what_histograms_say_of_themselves():
    suppressed = SuppressedHistogram(k=4, sampling_rate=Decimal("0.25"))
    for event, rate in ((suppressed, Decimal("0.25")), (NOISY, Decimal("0.25")), (OUTLIER, None)):
        kind = kind_of(event)
        assert (kind.samples(event), kind.sampling_rate(event), kind.survey_rate) == (1, rate, None)
        assert not any((kind.pure, kind.exclusive))
