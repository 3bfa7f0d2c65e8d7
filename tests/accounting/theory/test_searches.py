"""The searches for the ends of monotone ranges: what they find, where they ask, and how seldom."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import reduce

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.theory.planning import inversion
from crowdblend.accounting.theory.planning.inversion import (
    Target,
    largest_sampling_rate,
    least_delta,
    least_k,
    most_releases,
)
from crowdblend.accounting.theory.planning.planner import plan
from crowdblend.accounting.theory.planning.searches import first_whole, last_real
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from scipy.stats import binom

TARGET = Target(epsilon=Decimal(1), delta=Decimal("1e-5"), releases=4)
SHORT = Target(epsilon=Decimal("0.36"), delta=Decimal("1e-6"))
FEW = Target(epsilon=Decimal(1), delta=Decimal("1e-5"), releases=2)
RELEASE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


@pytest.mark.parametrize("answer", [1, 2, 9, 700, 1001])
@pytest.mark.parametrize("guess", [1, 2, 600, 1000, 1001])
@pytest.mark.parametrize("power", [0.1, 1, 8])
def test_the_first_whole_number_that_fits_is_found_whatever_the_guess(answer, guess, power):
    """No number is asked for twice, since each is a price, nor one out of range."""
    asked = []

    def cost(number):
        asked.append(number)
        return (answer / number) ** power

    assert first_whole(cost, 1.0, largest=1001, guess=guess) == answer
    assert len(asked) == len(set(asked))
    assert all(1 <= number <= 1001 for number in asked)
    assert first_whole(lambda _: math.inf, 1.0, largest=1001, guess=guess) is None


@pytest.mark.parametrize("answer", [1.5e-9, 1e-5, 0.3, 0.999])
@pytest.mark.parametrize("precision", [1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("power", [0.3, 1.0, 5.0])
def test_the_last_number_that_fits_is_found_to_the_precision_and_soon(answer, precision, power):
    steps = math.log2(math.log(1e9) / precision)
    for shape, most in (
        (lambda x: (x / answer) ** power, 7),
        (lambda x: 0.0 if x <= answer else math.inf, 6 + steps),
        (lambda x: 1.0 - 1e-9 * (1.0 - x) if x <= answer else 1e200, 6 + 2 * steps),
        (lambda x: 1e-200 if x <= answer else 1.0 + 1e-9 * x, 6 + 2 * steps),
    ):
        asked = []

        def cost(number, shape=shape, asked=asked):
            asked.append(number)
            return shape(number)

        found = last_real(cost, 1.0, low=1e-9, high=1.0, precision=precision)
        assert shape(found) <= 1.0 or found == pytest.approx(answer, rel=1e-15)
        assert found * (1.0 + precision) * (1.0 + 1e-15) >= answer
        assert len(asked) <= most
        assert all(1e-9 <= number <= 1.0 for number in asked)


def test_searches_go_by_the_price_that_is_charged():
    """Most releases, least k and largest rate: one further costs too much, and one found costs little enough."""
    few = Target(epsilon=Decimal("0.36"), delta=Decimal("1e-6"))
    assert most_releases(RELEASE, few) == 11
    for releases, fits in ((11, True), (12, False)):
        assert (price(RELEASE, delta=few.delta, releases=releases).epsilon <= few.epsilon) is fits
    k = least_k(Decimal("0.3"), TARGET)
    rate = largest_sampling_rate(20, TARGET)
    for release, fits in (
        (StronglySafeRelease(k=k, sampling_rate=Decimal("0.3")), True),
        (StronglySafeRelease(k=k - 1, sampling_rate=Decimal("0.3")), False),
        (StronglySafeRelease(k=20, sampling_rate=rate), True),
        (StronglySafeRelease(k=20, sampling_rate=rate + Decimal("1e-4")), False),
    ):
        assert (price(release, delta=TARGET.delta, releases=TARGET.releases).epsilon <= TARGET.epsilon) is fits


@pytest.mark.parametrize(
    ("question", "dear", "point", "unit"),
    [
        (lambda: least_k(Decimal("0.3"), FEW), 13, lambda k: (k, Decimal("0.3"), FEW), -1),
        (
            lambda: largest_sampling_rate(9, FEW),
            Decimal("0.1806"),
            lambda rate: (9, rate, FEW),
            Decimal("0.00001"),
        ),
        (
            lambda: most_releases(RELEASE, SHORT),
            12,
            lambda times: (20, Decimal("0.1"), replace(SHORT, releases=times)),
            1,
        ),
    ],
    ids=["k", "rate", "releases"],
)
def test_what_a_search_finds_is_given_out_only_where_it_is_charged_within_the_target(
    question, dear, point, unit, monkeypatch
):
    """A search by shares of composed prices may end beyond the target: from there it goes back by single steps."""
    monkeypatch.setattr(inversion, "_search_by_charged_share", lambda *_: dear)

    def within(number):
        k, rate, target = point(number)
        release = StronglySafeRelease(k=k, sampling_rate=rate)
        return price(release, delta=target.delta, releases=target.releases).epsilon <= target.epsilon

    found = question()
    assert within(found)
    assert not within(found + unit)
    assert not within(dear)


def test_the_least_delta_of_a_series_is_that_of_its_game():
    target = Target(epsilon=Decimal("0.361835383177"), delta=Decimal("0.5"), releases=12)  # the price at 1e-6
    assert float(least_delta(RELEASE, target)) == pytest.approx(1e-6, rel=2e-3)
    planned = plan(k=20, sampling_rate=Decimal("0.1"), epsilon=Decimal("0.5"), delta=None, releases=12)
    assert planned.epsilon <= Decimal("0.5")
    assert float(planned.epsilon) == pytest.approx(0.5, rel=1e-4)


def blind_delta(k, rate, size, times, epsilon, spacing=1e-3):
    """At most the δ of releases in which the person's group has one size, whatever the outputs: losses rounded down.

    By SciPy's binomial masses when the record is added; masses of infinite losses, and of large ones, are left out.
    """
    present = binom.pmf(np.arange(size + 1), size, rate)
    absent = np.append(binom.pmf(np.arange(size), size - 1, rate), 0.0)
    present, absent = (np.concatenate([[side[:k].sum()], side[k:]]) for side in (present, absent))
    some = (absent > 0.0) & (present < absent * math.exp(epsilon + 0.5))
    steps = np.floor(np.log(present[some] / absent[some]) / spacing).astype(int)
    one = np.bincount(steps - steps.min(), weights=present[some])
    whole = reduce(np.convolve, [one] * times)
    losses = (times * steps.min() + np.arange(whole.size)) * spacing
    return float(whole[losses > epsilon] @ -np.expm1(epsilon - losses[losses > epsilon]))


def test_the_least_delta_of_a_series_is_above_a_blind_adversarys_and_near_it():
    """The composed δ is above that of the game by four orders here: on its grid the game would be read too high."""
    release = StronglySafeRelease(k=50, sampling_rate=Decimal("0.1"))
    found = least_delta(release, Target(epsilon=Decimal("0.8"), delta=Decimal("0.5"), releases=20))
    reach = blind_delta(50, 0.1, 400, 20, 0.8)
    assert reach <= float(found) <= 30 * reach


def test_the_paper_proves_something_above_its_least_epsilon_alone():
    for target, rate, some in (
        (FEW, "0.3", True),
        (FEW, "0.4", False),
        (replace(FEW, epsilon=Decimal(0)), "0.1", False),
    ):
        release = StronglySafeRelease(k=20, sampling_rate=Decimal(rate))
        assert (inversion.delta_of_paper(release, target) is not None) is some
        assert (inversion.least_k_of_paper(Decimal(rate), target) is not None) is some
    nothing = inversion.delta_of_paper(StronglySafeRelease(k=1, sampling_rate=Decimal("0.3")), replace(FEW, releases=2))
    assert nothing is not None
    assert 0 < nothing <= 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epsilon": "-1"}, "epsilon must be finite and at least 0, not -1"),
        ({"epsilon": "inf"}, "epsilon must be finite"),
        ({"delta": "0"}, "delta must lie strictly between 0 and 1, not 0"),
        ({"delta": "1"}, "delta must lie strictly between 0 and 1, not 1"),
        ({"delta": "nan"}, "delta must lie"),
        ({"selection_rate": "0.5"}, "a selection's rate goes with a selection's epsilon"),
        ({"selection_epsilon": "0"}, "epsilon"),
    ],
)
def test_targets_out_of_range_are_refused(change, told):
    with pytest.raises(InputRefused, match=told):
        replace(TARGET, **{field: Decimal(value) for field, value in change.items()})
    with pytest.raises(InputRefused, match="releases must be at least 1, not 0"):
        replace(TARGET, releases=0)
    assert replace(TARGET, epsilon=Decimal(0), releases=1).choice is None


def test_the_ends_of_the_ranges_are_found():
    wide = Target(epsilon=Decimal(20), delta=Decimal("0.9"))
    assert largest_sampling_rate(400_000, wide) == Decimal("0.99999")
    with pytest.raises(InputRefused, match=r"no sampling rate of at least 1e-9 gives epsilon 0 and delta 1e-300"):
        largest_sampling_rate(2, Target(epsilon=Decimal(0), delta=Decimal("1e-300")))
    assert largest_sampling_rate(1, Target(epsilon=Decimal(1), delta=Decimal("1.00001e-9"))) == Decimal("1e-9")
    assert least_k(Decimal("0.1"), wide) == 1
    assert most_releases(StronglySafeRelease(k=400, sampling_rate=Decimal("1e-9")), wide, longest_game=2) == 1_000_000
    tight = Target(epsilon=Decimal(0), delta=Decimal("0.1"))
    assert most_releases(StronglySafeRelease(k=4, sampling_rate=Decimal("0.01")), tight, longest_game=2) >= 1
    with pytest.raises(
        InputRefused, match=r"not even one release with k = 1 at sampling rate 0\.1 fits into epsilon 0"
    ):
        most_releases(StronglySafeRelease(k=1, sampling_rate=Decimal("0.1")), replace(tight, delta=Decimal("0.01")))


def test_what_would_fit_is_told_as_far_as_there_is_such():
    target = Target(epsilon=Decimal("0.1"), delta=Decimal("1e-6"))
    rate, k = largest_sampling_rate(20, target), least_k(Decimal("0.1"), target)
    assert rate < RELEASE.sampling_rate
    assert k > RELEASE.k

    def advice(**change):
        asked = {"epsilon": target.epsilon, "delta": target.delta, "stated_delta": target.delta, "releases": 1}
        return inversion.advice_for_price(RELEASE, **(asked | {"rows_per_person": 1} | change))

    assert f"a sampling rate of at most {rate} or k of at least {k} would fit" in advice()
    assert "[privacy].delta = 1e-6 and a sampling rate" in advice(stated_delta=Decimal("1e-5"))
    for wrong in ({"delta": Decimal(0)}, {"epsilon": Decimal(-1)}):
        assert "No rate and no k would fit" in advice(**wrong)
    assert "Lower the rate, raise k" in advice(rows_per_person=2)
