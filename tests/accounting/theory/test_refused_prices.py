"""What has no price, or can't be computed with, is refused in words or by type; nothing is guessed."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.accounting.kernel.prices.registry import (
    mechanism_of_record,
    mechanism_record,
    paper_price,
    price,
)
from crowdblend.accounting.kinds import outlier_histogram_prices
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.accounting.kinds.composition.composed import curves_of, delta_composed, epsilon_composed, grid_spacing
from crowdblend.accounting.kinds.composition.paper_bound import delta_paper, epsilon_paper
from crowdblend.accounting.kinds.outlier_histogram_prices import price_outlier_histogram
from crowdblend.accounting.theory.planning.inversion import (
    Target,
    largest_sampling_rate,
    least_delta,
    least_k,
    most_releases,
)
from crowdblend.accounting.theory.planning.planner import plan
from crowdblend.accounting.theory.planning.searches import epsilon_exact, last_real
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from crowdblend.mechanisms.kinds.points import SyntheticPoints

RELEASE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
NOISY = NoisyHistogram(k=10, epsilon=Decimal("0.5"), sampling_rate=Decimal("0.1"))
ANSWER = CountAnswer(epsilon=Decimal("0.1"), relation="add/remove", groups=1, sampling_rate=None)
TARGET = {"epsilon": Decimal("0.5"), "delta": Decimal("1e-6")}


@pytest.mark.parametrize(
    "call",
    [
        lambda: delta_composed({RELEASE: 1}, epsilon=-1.0),
        lambda: delta_composed({RELEASE: 1}, epsilon=math.nan),
        lambda: delta_composed({}, epsilon=1.0),
        lambda: epsilon_composed({}, delta=1e-6),
        lambda: epsilon_exact(k=20, sampling_rate=0.1, delta=0.0),
        lambda: epsilon_exact(k=20, sampling_rate=0.1, delta=1.0),
        lambda: epsilon_paper(k=20, sampling_rate=0.1, delta=0.0),
        lambda: epsilon_paper(k=20, sampling_rate=0.1, delta=1.0),
        lambda: epsilon_paper(k=0, sampling_rate=0.1, delta=0.5),
        lambda: delta_paper(k=0, sampling_rate=0.1, epsilon=1.0),
        lambda: delta_paper(k=20, sampling_rate=0.0, epsilon=1.0),
        lambda: delta_paper(k=20, sampling_rate=1.0, epsilon=1.0),
    ],
)
def test_numbers_out_of_range_are_refused(call) -> None:
    with pytest.raises(ValueError, match=r"must|needs"):
        call()


def test_the_paper_has_no_price_below_the_chance_that_all_are_sampled() -> None:
    """δ below β^k: whoever's group has k records is seen with all of them sampled."""
    assert epsilon_paper(k=2, sampling_rate=0.5, delta=1e-3) is None
    assert paper_price(StronglySafeRelease(k=2, sampling_rate=Decimal("0.5")), delta=Decimal("1e-3")) is None
    assert paper_price(RELEASE, delta=Decimal("1e-323"), releases=10**6) is None


def test_an_outlier_private_histogram_that_no_epsilon_suffices_for_is_refused(monkeypatch) -> None:
    event = OutlierPrivateHistogram(epsilon=Decimal(1), horizon=30, margin=10)
    assert price_outlier_histogram(event, delta=Decimal("1e-3")).epsilon > 0
    monkeypatch.setattr(outlier_histogram_prices, "epsilon_for_group", lambda *given, **named: None)
    with pytest.raises(InputRefused, match="Raise the margin"):
        price_outlier_histogram(event, delta=Decimal("1e-3"))


def test_a_loss_beyond_the_grid_is_refused() -> None:
    endless = curves_of(Guarantee(epsilon=Decimal(10**6), delta=Decimal(0)), negligible=1e-9)
    with pytest.raises(ValueError, match="beyond the grid"):
        grid_spacing({endless: 1}, negligible=1e-9)


@pytest.mark.parametrize("k", [0, -1])
def test_a_target_without_a_release_is_refused(k) -> None:
    with pytest.raises(InputRefused):
        largest_sampling_rate(k, Target(**TARGET))
    with pytest.raises(InputRefused):
        least_k(Decimal(k), Target(**TARGET))


def test_no_number_of_releases_is_found_where_not_one_fits() -> None:
    with pytest.raises(InputRefused, match="not even one release"):
        most_releases(RELEASE, Target(epsilon=Decimal("0.01"), delta=Decimal("1e-9")))
    assert most_releases(RELEASE, Target(epsilon=Decimal(0), delta=Decimal("0.5"))) >= 1


def test_a_least_delta_that_guarantees_nothing_is_refused() -> None:
    certain = StronglySafeRelease(k=1, sampling_rate=Decimal("0.999999999"))
    with pytest.raises(InputRefused, match="shows nothing of a curve"):
        least_delta(certain, Target(epsilon=Decimal("1e-9"), delta=Decimal("1e-6"), releases=1000))
    with pytest.raises(InputRefused, match="no price"):
        least_delta(StronglySafeRelease(k=20, sampling_rate=Decimal("1e-400")), Target(**TARGET))


@pytest.mark.parametrize(
    "mechanism",
    [
        NOISY,
        SuppressedHistogram(k=20, sampling_rate=Decimal("0.1")),
        OutlierPrivateHistogram(epsilon=Decimal(1), horizon=30, margin=10),
        ANSWER,
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_histograms_and_answers_are_read_back_as_they_were_recorded(mechanism) -> None:
    assert mechanism_of_record(mechanism_record(mechanism)) == mechanism


def parts_of_mechanism(mechanism):
    return description_of(mechanism).losses(mechanism)


def test_a_series_is_composed_of_what_each_mechanism_is_to_the_composition() -> None:
    assert parts_of_mechanism(RELEASE) == (RELEASE,)
    assert parts_of_mechanism(SuppressedHistogram(k=20, sampling_rate=Decimal("0.1"))) == (RELEASE,)
    assert parts_of_mechanism(ANSWER) == (Guarantee(epsilon=Decimal("0.1"), delta=Decimal(0)),)
    with pytest.raises(InputRefused):
        parts_of_mechanism(NOISY)


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize(("k", "rate"), [(20, "1e-20"), (2**50, "0.1"), (10**400, "0.1")])
def test_what_doubles_cannot_hold_has_no_price(k, rate, records) -> None:
    release = StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
    with pytest.raises(InputRefused, match=r"this release has no price: .*beyond double precision"):
        price(release, delta=Decimal("1e-6"), rows_per_person=records)


@pytest.mark.parametrize(
    ("parts", "delta", "said"),
    [
        ("1 x k=1,rate=0.5; 1 x epsilon=0.1", "0.4", "no epsilon is found for delta 0.4 with the series 1 x k=1,rate"),
        ("1 x k=20,rate=0.1; 1 x epsilon=0.1", "1e-201", "no epsilon is found for delta 1e-201 "),
        ("1 x k=20,rate=1e-20; 1 x epsilon=0.1", "1e-6", "this series has no price: .*beyond double precision"),
    ],
)
def test_a_series_of_different_mechanisms_without_a_price_is_refused_in_words(parts, delta, said) -> None:
    series = MixedSeries(parts=parts)
    with pytest.raises(InputRefused, match=said):
        price(series, delta=Decimal(delta), releases=series.releases)
    with pytest.raises(InputRefused, match="of 2 releases has no price as a series of 3"):
        price(series, delta=Decimal(delta), releases=3)


def test_points_and_unequal_rates_are_composed_as_a_release_and_surveys_are_not() -> None:
    points = SyntheticPoints(dimensions=2, cells_per_side=4, counts=RELEASE)
    assert parts_of_mechanism(points) == parts_of_mechanism(RELEASE) == (RELEASE,)
    tenth = Decimal("0.1")
    survey = BiasedSampleCounts(k=20, lowest_rate=tenth, highest_rate=tenth, largest_rate=tenth, exceptions=1)
    unequal = UnequalRatesHistogram(k=20, sampling_rate=tenth, lowest_rate=Decimal("0.09"))
    noisy_points = SyntheticPoints(dimensions=2, cells_per_side=4, counts=NOISY)
    assert parts_of_mechanism(unequal) == (StronglySafeRelease(k=20, sampling_rate=tenth),)
    for mechanism in (survey, noisy_points, NOISY):
        with pytest.raises(InputRefused, match="losses are not composed"):
            parts_of_mechanism(mechanism)


def test_a_search_for_a_real_number_ends_at_neighbouring_doubles() -> None:
    found = last_real(lambda x: x, 0.3, low=0.1, high=1.0, precision=0.0)
    assert found == 0.3


def test_a_plan_that_no_threshold_meets_says_none_of_it() -> None:
    found = plan(k=10**6, sampling_rate=Decimal("0.99"), epsilon=Decimal("0.01"), delta=Decimal("1e-12"), releases=1)
    assert found.k_exact is None
    assert found.epsilon > Decimal("0.01")


def test_the_least_delta_that_has_a_price_is_told() -> None:
    with pytest.raises(InputRefused, match=r"above rate\^k, about 1\.1e-14 "):
        price(StronglySafeRelease(k=20, sampling_rate=Decimal("0.2")), delta=Decimal("1e-15"))
