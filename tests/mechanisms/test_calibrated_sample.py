"""Margins beside a sample: what is published of exact counts, and that its price is enough, by brute force."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from itertools import pairwise, product
from secrets import token_bytes
from typing import Any

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.calibrated_sample_prices import calibrated_sample_parts
from crowdblend.accounting.kinds.composition.composed import delta_composed
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kinds import calibrated_sample
from crowdblend.mechanisms.kinds.calibrated_sample import (
    CalibratedSample,
    CalibratedSampleProtection,
    sampled_counts,
)
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import WEIGHT_TOTAL, deletion_weights
from crowdblend.mechanisms.kinds.margins import TOTAL

RELEASE = CalibratedSample(k=3, sampling_rate=Decimal("0.25"), margins=2, margin_scale=Decimal(2), margin_width=5)
LAYOUT = KeyLayout(sizes=(2, 2))
MARGINS = ((0,), TOTAL)
PROTECTION = CalibratedSampleProtection(mechanism=RELEASE, layout=LAYOUT, margins=MARGINS)
KEYS = LAYOUT.keys([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])])


def test_each_record_has_a_coin_whatever_the_blocks_of_records(monkeypatch):
    """By bytes that fall 0, 255, 0, 255 …: every second record is sampled, the first one included."""
    monkeypatch.setattr(calibrated_sample, "_RECORDS_AT_ONCE", 4)
    drawn = 0

    def alternating(size: int) -> bytes:
        nonlocal drawn
        found = bytes(0 if (drawn + place) % 2 == 0 else 255 for place in range(size))
        drawn += size
        return found

    counts = np.array([3, 0, 1, 9, 0, 2])
    found = sampled_counts(counts, rate=Decimal("0.3"), randomness=alternating)
    ends = np.cumsum(counts)
    assert found.tolist() == [
        sum(1 for record in range(end - size, end) if record % 2 == 0) for size, end in zip(counts, ends, strict=True)
    ]
    assert drawn == counts.sum()
    assert sampled_counts(counts[:0], rate=Decimal("0.3"), randomness=token_bytes).size == 0


@pytest.mark.parametrize(("last", "sampled"), [(0x54, 1), (0x55, 0)])
def test_the_rate_is_rounded_down_to_the_word(last, sampled):
    """A third is 0x5555…55 and a third of 2⁻⁶⁴: the word 0x5555…55 itself is not below it."""
    words = iter([b"\x55", b"\x55" * 6 + bytes([last])])
    third = Decimal("0." + 40 * "3")
    assert sampled_counts(np.array([1]), rate=third, randomness=lambda _: next(words)).tolist() == [sampled]


def test_rows_are_of_a_sample_and_margins_of_all_records():
    counts = np.array([40_000, 3, 1, 20_000])
    numbers = PROTECTION.protect(GroupCounts(KEYS, counts), randomness=token_bytes)
    rows, (singles, total) = PROTECTION.published(numbers)
    assert PROTECTION.fits(numbers)
    found = dict(zip(map(tuple, np.array(LAYOUT.decode(rows.keys)).T.tolist()), rows.counts.tolist(), strict=True))
    # A sampled count is within 6 of its deviations but for 2e-9.
    assert abs(found[0, 0] - 10_000) < 6 * 87
    assert abs(found[1, 1] - 5_000) < 6 * 62
    assert (1, 0) not in found, "a group of one record is never published at k = 3"
    assert found.get((0, 1), 3) == 3
    assert np.abs(singles - [40_003, 20_001]).max() <= 5
    assert abs(int(total[0]) - 60_004) <= 5
    assert not PROTECTION.fits(numbers[:-1])
    assert not PROTECTION.fits([1, 0, 2, *singles.tolist(), *total.tolist()]), "a group below k"
    with pytest.raises(ValueError, match="2 margins are paid for"):
        replace(PROTECTION, margins=(TOTAL,))


Law = dict[Any, float]
NOISE = [weight / WEIGHT_TOTAL for weight in deletion_weights(RELEASE.margin_noise)]
FAULTS = ("", "margins of the sample, scaled up", "one number decides coins and noise")


def binomial(size: int, rate: float) -> list[float]:
    return [math.comb(size, one) * rate**one * (1 - rate) ** (size - one) for one in range(size + 1)]


def together(first: list[float], second: list[float]) -> Iterator[tuple[int, int, float]]:
    """Both by one uniform number: how probable each pair is."""
    ends = sorted({0.0, *np.cumsum(first).tolist(), *np.cumsum(second).tolist()})
    for low, high in pairwise(ends):
        middle = (low + high) / 2
        places = [min(int(np.searchsorted(np.cumsum(law), middle)), len(law) - 1) for law in (first, second)]
        yield *places, high - low


@cache
def law_of(counts: tuple[int, ...], fault: str) -> Law:
    """What is published of four groups, with its probability: rows of at least k, and the cells of both margins."""
    rate, k, law = float(RELEASE.sampling_rate), RELEASE.k, defaultdict(float)
    if fault == "one number decides coins and noise":  # of the first group and its column's cell
        begin = [
            ((own, *rest), noise, chance * others)
            for own, noise, chance in together(binomial(counts[0], rate), NOISE)
            for rest, others in samples(counts[1:], rate)
        ]
    else:
        begin = [
            (own, noise, chance * NOISE[noise]) for own, chance in samples(counts, rate) for noise in range(len(NOISE))
        ]
    for own, noise, chance in begin:
        rows = tuple(one if one >= k else 0 for one in own)
        of = tuple(round(one / rate) for one in own) if fault == FAULTS[1] else counts
        for second, third in product(range(len(NOISE)), repeat=2):
            cells = of[0] + of[1] + noise, of[2] + of[3] + second, sum(of) + third
            law[rows, cells] += chance * NOISE[second] * NOISE[third]
    return dict(law)


def samples(counts: tuple[int, ...], rate: float) -> Iterator[tuple[tuple[int, ...], float]]:
    laws = [binomial(size, rate) for size in counts]
    for own in product(*(range(size + 1) for size in counts)):
        yield own, math.prod(law[one] for law, one in zip(laws, own, strict=True))


def delta_between(first: Law, second: Law, epsilon: float) -> float:
    growth = math.exp(epsilon)
    return max(
        math.fsum(max(0.0, chance - growth * other.get(outcome, 0.0)) for outcome, chance in law.items())
        for law, other in ((first, second), (second, first))
    )


DESIGNS = [
    (counts, (counts[0] + 1, *counts[1:]))
    for counts in ((0, 0, 0, 0), (1, 0, 0, 0), (2, 1, 0, 0), (3, 0, 0, 0), (4, 0, 0, 0), (5, 0, 0, 0), (7, 0, 0, 0))
]
EPSILONS = (0.1, 0.4, 0.8, 1.2, 1.8, 2.5)
PARTS = Counter(calibrated_sample_parts(RELEASE))


def worst(epsilon: float, fault: str = "") -> float:
    return max(delta_between(law_of(one, fault), law_of(two, fault), epsilon) for one, two in DESIGNS)


def bounds(parts: Counter[Any]) -> list[float]:
    return [delta_composed(parts, epsilon=epsilon) for epsilon in EPSILONS]


def test_no_neighbours_are_told_apart_better_than_the_composed_losses_say():
    """A record that is added meets its own coin, its column's cell and the total's."""
    found = [worst(epsilon) for epsilon in EPSILONS]
    assert all(one <= most * (1 + 1e-9) for one, most in zip(found, bounds(PARTS), strict=True))
    assert max(one / most for one, most in zip(found, bounds(PARTS), strict=True)) > 0.9


@pytest.mark.parametrize("fault", FAULTS[1:])
def test_the_oracle_catches(fault):
    found = [worst(epsilon, fault) for epsilon in EPSILONS]
    assert any(one > most for one, most in zip(found, bounds(PARTS), strict=True))


def test_the_oracle_catches_a_margin_that_is_not_charged():
    without = Counter(calibrated_sample_parts(replace(RELEASE, margins=1)))
    found = [worst(epsilon) for epsilon in EPSILONS]
    assert any(one > most for one, most in zip(found, bounds(without), strict=True))


def test_the_oracle_finds_the_published_law():
    """Of 20,000 draws each outcome's share is within 6 of its deviations."""
    counts, draws = (4, 1, 0, 0), 20_000
    law, found = law_of(counts, ""), Counter()
    there = np.flatnonzero(counts)
    exact = GroupCounts(KEYS[:, there], np.array(counts)[there])
    for _ in range(draws):
        rows, (singles, total) = PROTECTION.published(PROTECTION.protect(exact, randomness=token_bytes))
        shown = [0] * 4
        for first, second, size in zip(*LAYOUT.decode(rows.keys), rows.counts, strict=True):
            shown[2 * first + second] = int(size)
        cells = *(singles + RELEASE.margin_width).tolist(), int(total[0]) + RELEASE.margin_width
        found[tuple(shown), cells] += 1
    assert set(found) <= set(law)
    for outcome, chance in law.items():
        assert abs(found[outcome] - draws * chance) <= 6 * (draws * chance) ** 0.5 + 6, outcome


def test_each_part_is_charged_and_several_records_have_no_price():
    def epsilon(mechanism: CalibratedSample, **more: Any) -> Decimal:
        return price(mechanism, delta=Decimal("1e-6"), **more).epsilon

    own = CalibratedSample(k=30, sampling_rate=Decimal("0.1"), margins=3, margin_scale=Decimal(20), margin_width=110)
    assert epsilon(own) > max(epsilon(own.rows), epsilon(replace(own, margins=2)))
    assert epsilon(replace(own, sampling_rate=Decimal("0.2"))) > epsilon(own) > epsilon(replace(own, k=60))
    assert epsilon(own) > epsilon(replace(own, margin_scale=Decimal(25), margin_width=140))
    assert epsilon(own, releases=3) > epsilon(own, releases=2) > epsilon(own)
    assert price(own, delta=Decimal("1e-6")).rule == "calibrated-sample-composed/1"
    with pytest.raises(InputRefused, match="several records"):
        epsilon(own, rows_per_person=2)
    with pytest.raises(InputRefused, match=r"rows of each release need a delta of about 0\.01"):
        epsilon(replace(own, k=2))


def test_what_no_grid_holds_costs_the_sum_of_exact_prices(monkeypatch):
    """The rows' exact price at a third of δ, and that of the noise of each of two margins at another."""
    from crowdblend.accounting.kinds import calibrated_sample_prices

    def no_grid(*_: Any, **__: Any) -> None:
        raise ValueError("a privacy loss is beyond the grid")

    own = CalibratedSample(k=31, sampling_rate=Decimal("0.1"), margins=2, margin_scale=Decimal(20), margin_width=110)
    delta, third = Decimal("3e-6"), Decimal("1e-6")
    composed = price(own, delta=delta)
    monkeypatch.setattr(calibrated_sample_prices, "epsilon_composed", no_grid)
    calibrated_sample_prices._epsilon.cache_clear()
    summed = price(own, delta=delta)
    calibrated_sample_prices._epsilon.cache_clear()
    assert summed.rule == "calibrated-sample-sum/1"
    single = DeletionRelease(stages=1, k=1, noise=own.margin_noise)
    parts = price(own.rows, delta=third).epsilon + 2 * price(single, delta=third).epsilon
    assert float(summed.epsilon) == pytest.approx(float(parts), rel=1e-9)
    assert composed.epsilon < summed.epsilon
