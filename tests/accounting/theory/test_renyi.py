"""Filter budgets: what a release takes of one against sums over all sizes of a group, and the terms of registration."""

from __future__ import annotations

import decimal
import math
from dataclasses import replace
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.composition import renyi_divergence, renyi_filter
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.accounting.kinds.composition.finite_losses import LossesInDoubles
from crowdblend.accounting.kinds.composition.renyi_filter import (
    FilterTerms,
    conversion_loss,
    filter_cost,
    fits,
    spent_share,
    tail_for,
    tail_of,
    tails_of,
)
from crowdblend.accounting.theory.planning.filter_terms import least_terms, propose_terms
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import (
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    deletion_weights,
)
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease
from scipy.special import logsumexp
from scipy.stats import binom

MILLIONTH = Decimal("1e-6")
USUAL = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
TERMS = FilterTerms(
    epsilon=Decimal(1), delta=MILLIONTH, order=Decimal(20), tail_delta=Decimal("3e-7"), tail_each=Decimal("1e-8")
)
ALONE = OutcomeCounts(randomizer=KRandomization(bits=1, flip_probability=Decimal("0.25")), least_people=9)
COUNT = CountAnswer(epsilon=Decimal("0.05"), groups=1, sampling_rate=None, relation="add/remove")


def cut_divergence(ahead, behind, order, tail):
    """D_α of P below λ·Q, λ such that τ of P is above; by bisection in doubles, not by the audited theory."""
    some = ahead > 0.0
    ahead, behind = ahead[some], behind[some]
    low, high = -20.0, 20.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        above = np.maximum(ahead - math.exp(middle) * behind, 0.0).sum() > tail
        low, high = (middle, high) if above else (low, middle)
    with np.errstate(divide="ignore"):
        logs = np.minimum(np.log(ahead), high + np.log(behind))
    left = behind > 0.0
    return logsumexp(order * logs[left] + (1.0 - order) * np.log(behind[left])) / (order - 1.0)


@cache
def counts(k, rate, n):
    """The laws of a suppressed count with and without the person; by SciPy, not by the audited theory."""
    laws = binom.pmf(np.arange(n + 1), n, rate), np.append(binom.pmf(np.arange(n), n - 1, rate), 0.0)
    return tuple(np.concatenate([[law[:k].sum()], law[k:]]) for law in laws)


def largest_divergence(release, order, tail, sizes):
    k, rate = release.k, float(release.sampling_rate)
    both = (sides for n in sizes for sides in (counts(k, rate, n), counts(k, rate, n)[::-1]))
    return max(0.0, *(cut_divergence(*sides, order, tail) for sides in both))


@pytest.mark.parametrize(
    ("k", "rate", "order", "tail", "sizes"),
    [
        (20, "0.1", 40, "2.5e-8", range(100, 300, 2)),
        (20, "0.1", 12, "1e-9", range(100, 400, 2)),
        (20, "0.1", 200, "1e-12", range(25, 300)),
        (50, "0.05", 80, "2e-10", range(700, 1400, 10)),
        (4, "0.2", 5, "1e-2", range(1, 80)),
        (2, "0.5", 3, "0.26", range(1, 40)),
        (6, "0.5", 30, "0.02", range(1, 60)),
        (1, "0.3", 2, "0.31", range(1, 40)),
    ],
)
def test_a_release_takes_the_largest_divergence_of_all_sizes(k, rate, order, tail, sizes):
    release = StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
    found = float(filter_cost(release, order=Decimal(order), tail=Decimal(tail)).divergence)
    true = largest_divergence(release, order, float(tail), sizes)
    assert true <= found * (1 + 1e-9)
    assert found <= 1.02 * true + 1e-9


@pytest.mark.parametrize("order", ["1.1", "2", "30", "5000"])
def test_what_is_pure_takes_what_randomized_response_does(order):
    cost = filter_cost(COUNT, order=Decimal(order), tail=Decimal(0))
    epsilon, alpha = 0.05, float(order)
    likely = math.exp(epsilon) / (1 + math.exp(epsilon))
    logs = np.log([likely, 1 - likely])
    true = logsumexp(alpha * logs + (1 - alpha) * logs[::-1]) / (alpha - 1)
    assert true <= float(cost.divergence) <= true * (1 + 1e-6)
    assert (cost.tail, cost.relation) == (0, "add/remove")
    assert tail_for(TERMS, COUNT, releases=7) == 0
    two = filter_cost(COUNT, order=Decimal(order), tail=Decimal(0), rows_per_person=2)
    twice = filter_cost(replace(COUNT, epsilon=Decimal("0.1")), order=Decimal(order), tail=Decimal(0))
    assert two.divergence == twice.divergence


def test_a_deletion_release_takes_what_its_weights_do():
    noise = GaussianDeletion(scale=Decimal(16), width=85)
    weights = np.array(deletion_weights(noise), dtype=float)
    weights /= weights.sum()
    here, there = np.append(weights, 0.0), np.append(0.0, weights)
    release = DeletionRelease(stages=3, k=5, noise=noise)
    tail = tail_for(TERMS, release)
    assert float(tail) == pytest.approx(1e-8 + 3 * weights[0], rel=1e-9)
    cost = filter_cost(release, order=TERMS.order, tail=tail)
    true = 3 * max(cut_divergence(*sides, 20.0, float(tail) / 3) for sides in ((here, there), (there, here)))
    assert true <= float(cost.divergence) <= true * (1 + 1e-6)
    with pytest.raises(InputRefused, match=r"too small for this mechanism in a filter budget.*3 steps"):
        filter_cost(release, order=TERMS.order, tail=Decimal("1e-12"))


@pytest.mark.parametrize("records", [2, 3])
def test_several_records_in_any_groups_take_no_more_than_in_one(records):
    noise = GeometricDeletion(epsilon=Decimal("0.5"), width=20)
    release = DeletionRelease(stages=1, k=2, noise=noise)
    tail = Decimal("0.02")
    found = float(filter_cost(release, order=TERMS.order, tail=tail, rows_per_person=records).divergence)
    weights = np.array(deletion_weights(noise), dtype=float)
    weights /= weights.sum()
    wide = np.append(weights, np.zeros(records))
    whole = wide, np.roll(wide, records)
    true = max(cut_divergence(*sides, 20.0, float(tail)) for sides in (whole, whole[::-1]))
    assert true <= found <= true * (1 + 1e-6)
    one, more = np.roll(wide, 1), np.roll(wide, records - 1)
    split = np.outer(wide, wide).ravel(), np.outer(one, more).ravel()
    assert max(cut_divergence(*sides, 20.0, float(tail)) for sides in (split, split[::-1])) <= found


@cache
def noisy_law(k, rate, epsilon, n):
    """The law of a noisy histogram's count on −150 … 250, term by term."""
    places, sampled = np.arange(-150, 251), binom.pmf(np.arange(251), n, rate)
    decay = math.exp(-epsilon)
    noise = (1 - decay) / (1 + decay) * decay ** np.abs(np.subtract.outer(np.arange(k), places))
    law = sampled[:k] @ noise
    law[150 + k :] += sampled[k:]
    return law


@pytest.mark.parametrize(("k", "rate", "epsilon", "tail"), [(5, 0.3, 1.0, 1e-4), (12, 0.2, 0.5, 1e-6)])
def test_a_noisy_histogram_takes_the_largest_divergence_of_all_sizes(k, rate, epsilon, tail):
    mechanism = NoisyHistogram(k=k, epsilon=Decimal(epsilon), sampling_rate=Decimal(str(rate)))
    found = float(filter_cost(mechanism, order=TERMS.order, tail=Decimal(tail)).divergence)
    true = 0.0
    for n in range(1, 200):
        sides = noisy_law(k, rate, epsilon, n), noisy_law(k, rate, epsilon, n - 1)
        true = max(true, cut_divergence(*sides, 20.0, tail), cut_divergence(*sides[::-1], 20.0, tail))
    assert true <= found * (1 + 1e-9)
    assert found <= true * (1 + 1e-6)


def test_an_outlier_private_histogram_takes_the_largest_divergence_of_all_counts():
    mechanism = OutlierPrivateHistogram(epsilon=Decimal(1), horizon=30, margin=10)
    tail, places, true = 1e-6, np.arange(-600, 650), 0.0
    for count in range(1, 22):
        sides = []
        for c in (count, count - 1):
            loss = 1.0 / mechanism.noise(c).scale
            sides.append(math.tanh(0.5 * loss) * np.exp(-loss * np.abs(places - c)))
        true = max(true, cut_divergence(*sides, 20.0, tail), cut_divergence(*sides[::-1], 20.0, tail))
    found = float(filter_cost(mechanism, order=TERMS.order, tail=Decimal(tail)).divergence)
    assert true <= found <= true * (1 + 1e-6)


def test_a_drawn_map_takes_its_choice_and_its_release():
    drawn = EpsilonSafeRelease(
        k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.05"), selection_rate=None
    )
    tail = tail_for(TERMS, drawn)
    both = filter_cost(drawn, order=TERMS.order, tail=tail).divergence
    release = filter_cost(USUAL, order=TERMS.order, tail=tail).divergence
    choice = filter_cost(COUNT, order=TERMS.order, tail=tail).divergence
    assert float(both) == pytest.approx(float(release + choice))


def test_a_series_takes_its_releases_one_by_one():
    one = filter_cost(USUAL, order=TERMS.order, tail=Decimal("1e-8"))
    twelve = filter_cost(USUAL, order=TERMS.order, tail=Decimal("1.2e-7"), releases=12)
    assert float(twelve.divergence) == pytest.approx(float(12 * one.divergence))
    assert float(tail_for(TERMS, USUAL, releases=12)) == pytest.approx(float(12 * tail_for(TERMS, USUAL)))


def test_what_has_no_place_is_refused_by_name():
    survey = BiasedSampleCounts(
        k=20, lowest_rate=Decimal("0.1"), highest_rate=Decimal("0.1"), largest_rate=Decimal("0.1"), exceptions=0
    )
    for mechanism, told in ((ALONE, "stands alone"), (survey, "serves one release ever")):
        with pytest.raises(InputRefused, match=f"no place in a filter budget.*{told}"):
            filter_cost(mechanism, order=TERMS.order, tail=MILLIONTH)
    large = OutlierPrivateHistogram(epsilon=Decimal("0.001"), horizon=10**5, margin=10)
    for mechanism, told in (
        (large, "more than can be enumerated"),
        (SuppressedHistogram(k=20, sampling_rate=None), "not composed"),
    ):
        with pytest.raises(InputRefused, match=f"no place in a filter budget.*{told}") as refused:
            filter_cost(mechanism, order=TERMS.order, tail=MILLIONTH)
        assert refused.value.what.count("no place") == 1
    steep = DeletionRelease(stages=1, k=2, noise=GeometricDeletion(epsilon=Decimal(1), width=80))
    with pytest.raises(InputRefused, match="too improbable where a person has up to 2 records"):
        filter_cost(steep, order=TERMS.order, tail=MILLIONTH, rows_per_person=2)
    with pytest.raises(InputRefused, match="one record of a person, not for up to 2"):
        filter_cost(USUAL, order=TERMS.order, tail=Decimal("1e-8"), rows_per_person=2)
    with pytest.raises(InputRefused, match="too small"):
        filter_cost(USUAL, order=TERMS.order, tail=Decimal(0))


def test_costs_out_of_range_are_refused_in_words():
    for order, tail in (("1", "0.1"), ("100001", "0.1"), ("NaN", "0.1"), ("2", "1"), ("2", "-0.1"), ("2", "NaN")):
        with pytest.raises(InputRefused, match=rf"an order above 1 and a tail from 0 to below 1, not .*{tail}"):
            filter_cost(COUNT, order=Decimal(order), tail=Decimal(tail))
    with pytest.raises(InputRefused, match="releases must be at least 1, not 0"):
        tail_for(TERMS, USUAL, releases=0)


def test_terms_are_not_proposed_for_budgets_out_of_range():
    for epsilon in ("0", "-1", "NaN", "Infinity"):
        with pytest.raises(InputRefused, match=f"epsilon must be positive, not {epsilon}"):
            propose_terms(Decimal(epsilon), MILLIONTH)
    for delta in ("0", "1", "NaN"):
        with pytest.raises(InputRefused, match=f"delta must lie strictly between 0 and 1, not {delta}"):
            least_terms(Decimal(delta))


@pytest.mark.parametrize("epsilon", ["0.5", "3"])
def test_a_guarantee_with_a_delta_takes_what_the_worst_pair_does_beyond_it(epsilon):
    """Two outcomes of the ratio e^ε either way, and one on each side alone, of probability δ, which the tail takes."""
    guarantee = Guarantee(epsilon=Decimal(epsilon), delta=Decimal("1e-3"))
    assert renyi_filter._least_tail(guarantee) == guarantee.delta
    growth = math.exp(float(epsilon))
    some = 0.999 / (1 + growth)
    ahead, behind = np.array([some, some * growth, 1e-3]), np.array([some * growth, some, 0.0])
    for tail in (1e-3, 2e-3, 0.1):
        true = cut_divergence(ahead, behind, 20.0, tail)
        assert (
            true * (1 - 1e-6)
            <= renyi_divergence.step_divergence(guarantee, 20.0, tail * (1 + 1e-9))
            <= true * (1 + 1e-6)
        )
    assert renyi_divergence.step_divergence(guarantee, 20.0, 0.999e-3) is None


def test_a_noise_whose_search_is_too_long_has_no_place_and_its_tail_is_told_all_the_same(monkeypatch):
    """The tail of such a charge is the largest, with which it is then refused."""
    mechanism = NoisyHistogram(k=2, epsilon=Decimal(1), sampling_rate=Decimal("0.8"))
    with pytest.raises(InputRefused, match=r"a tail of 0 is too small .* in each of 1 step"):
        filter_cost(mechanism, order=TERMS.order, tail=Decimal(0))
    monkeypatch.setattr(renyi_divergence, "_MOST_SIZES", 3)
    tail = tail_for(TERMS, mechanism)
    assert tail == TERMS.tail_each
    with pytest.raises(InputRefused, match=r"no place in a filter budget: the search over the sizes .* is too long"):
        filter_cost(mechanism, order=TERMS.order, tail=tail)


def test_tails_are_that_of_each_release_and_its_halves_beside_what_is_sure():
    tails = tails_of(TERMS, USUAL, releases=3)
    sure = tail_of(USUAL, Decimal(0))
    assert sure == pytest.approx(Decimal("1e-20"), rel=Decimal("1e-11"))
    assert len(tails) == 21
    for halvings, tail in enumerate(tails):
        assert tail == pytest.approx(3 * (TERMS.tail_each / 2**halvings + sure), rel=Decimal("1e-11"))
        assert tail >= 3 * (TERMS.tail_each / 2**halvings + sure)
    assert tails_of(TERMS, COUNT) == (Decimal(0),) * 21


@pytest.mark.parametrize("tail", ["0.9", "0.99999999999999999999"])
def test_where_nearly_all_is_cut_off_nothing_is_left_to_pay(tail):
    release = StronglySafeRelease(k=3, sampling_rate=Decimal("0.5"))
    assert filter_cost(release, order=TERMS.order, tail=Decimal(tail)).divergence == 0
    half = LossesInDoubles(losses=np.array([-0.5, 0.5]), masses=np.array([0.2, 0.3]), infinite=0.0)
    assert renyi_divergence._after_cut(renyi_divergence._of_atoms(half), 20.0, 0.6) == 0.0
    assert renyi_divergence._after_cut(renyi_divergence._of_atoms(half), 20.0, 1e-9) > 0.4


def test_terms_that_can_hold_nothing_are_refused():
    with pytest.raises(InputRefused, match="nothing would fit"):
        replace(TERMS, epsilon=Decimal("0.1"))


@pytest.mark.parametrize(
    ("field", "values", "told"),
    [
        ("epsilon", ("0", "-1", "nan", "inf"), "epsilon must be positive"),
        ("delta", ("0", "1", "nan", "-1"), "delta must lie strictly between 0 and 1"),
        ("order", ("1", "100001", "nan", "inf"), "the order must be above 1 and at most 100000"),
        ("order", ("1.000000000001", "20.00000000001"), "the order has at most 12 digits"),
        ("tail_delta", ("0", "1e-6", "nan"), "the tails' share must lie strictly between 0 and delta"),
        ("tail_each", ("0", "3.1e-7", "nan"), "a release's tail must be positive and at most all tails'"),
    ],
)
def test_terms_out_of_range_are_refused_by_name(field, values, told):
    for value in values:
        with pytest.raises(ValueError, match=told):
            replace(TERMS, **{field: Decimal(value)})


def test_terms_at_the_ends_of_their_ranges_are_taken():
    for change in ({"order": "100000"}, {"order": "20.0000000001"}, {"tail_each": "3e-7"}, {"tail_delta": "1e-8"}):
        [(field, value)] = change.items()
        assert getattr(replace(TERMS, **{field: Decimal(value)}), field) == Decimal(value)
    loss = conversion_loss(Decimal(20), TERMS.delta - TERMS.tail_delta)
    with pytest.raises(InputRefused, match="nothing would fit"):
        replace(TERMS, epsilon=loss)
    assert 0 < replace(TERMS, epsilon=loss * Decimal("1.00001")).allowance < Decimal("1e-4")
    assert filter_cost(COUNT, order=Decimal(100_000), tail=Decimal("0.999")).divergence <= COUNT.epsilon


def test_a_budget_is_full_when_its_divergences_or_its_tails_are():
    cost = filter_cost(USUAL, order=TERMS.order, tail=Decimal("1e-8"))
    most = int(TERMS.allowance / cost.divergence)
    cheap = replace(cost, tail=Decimal(0))
    assert fits(TERMS, [cheap] * most)
    assert not fits(TERMS, [cheap] * (most + 1))
    tails = replace(cost, divergence=Decimal(0), tail=Decimal("3e-8"))
    assert fits(TERMS, [tails] * 10)
    assert not fits(TERMS, [tails] * 10 + [replace(tails, tail=Decimal("1e-30"))])
    assert spent_share(TERMS, [tails] * 5) == Decimal("0.5")
    assert spent_share(TERMS, []) == 0


def test_a_filter_pays_the_same_whatever_the_callers_decimal_context():
    noise = GaussianDeletion(scale=Decimal(20), width=110)

    def found():
        terms = replace(TERMS, order=Decimal("12.3456789"))
        several = filter_cost(DeletionRelease(stages=1, k=2, noise=noise), order=Decimal(9), tail=MILLIONTH)
        tail = tail_for(terms, USUAL)
        return terms.allowance, conversion_loss(Decimal("1.7"), MILLIONTH), several, tail, least_terms(MILLIONTH)

    usual = found()
    for rounding in (decimal.ROUND_FLOOR, decimal.ROUND_CEILING):
        with decimal.localcontext() as context:
            context.prec, context.rounding = 3, rounding
            assert found() == usual


@pytest.mark.parametrize(
    ("k", "rate", "releases", "stated"),
    [(20, "0.1", 12, 0.399), (20, "0.1", 52, 0.797), (20, "0.1", 365, 2.40), (50, "0.05", 52, 0.236)],
)
def test_the_least_budgets_are_no_larger_than_stated(k, rate, releases, stated):
    release = StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
    terms = least_terms(MILLIONTH, [(release, releases)])
    assert terms.epsilon <= stated
    cost = filter_cost(release, order=terms.order, tail=tail_for(terms, release))
    assert fits(terms, [cost] * releases)
    assert not fits(terms, [cost] * (releases + 1))
    # The same rule without rounding: the true divergence at these terms, over sizes around the worst.
    k_over_rate = k / float(rate)
    sizes = range(int(0.6 * k_over_rate), int(1.4 * k_over_rate), max(1, int(k_over_rate / 80)))
    true = releases * largest_divergence(release, float(terms.order), float(cost.tail), sizes)
    loss = float(terms.epsilon - terms.allowance)
    assert true + loss <= float(terms.epsilon) <= 1.02 * (true + loss)


@pytest.mark.slow
def test_proposed_terms_hold_what_is_expected_and_more():
    expected = [
        (USUAL, 12),
        (COUNT, 24),
        (DeletionRelease(stages=1, k=2, noise=GaussianDeletion(scale=Decimal(20), width=110)), 2),
    ]
    terms = propose_terms(Decimal(2), MILLIONTH, expected)
    costs = [
        filter_cost(mechanism, order=terms.order, tail=tail_for(terms, mechanism))
        for mechanism, times in expected
        for _ in range(times)
    ]
    assert fits(terms, costs)
    usual = propose_terms(Decimal(1), MILLIONTH)
    cost = filter_cost(USUAL, order=usual.order, tail=tail_for(usual, USUAL))
    assert fits(usual, [cost] * 70)
    least = least_terms(MILLIONTH)
    enough = propose_terms(least.epsilon, MILLIONTH)
    assert fits(enough, [filter_cost(USUAL, order=enough.order, tail=tail_for(enough, USUAL))] * 12)
    with pytest.raises(InputRefused, match=r"12 releases would not fit.*takes epsilon 0.39"):
        propose_terms(Decimal("0.3"), MILLIONTH)
    narrow = DeletionRelease(stages=1, k=2, noise=OptimalDeletion(epsilon=Decimal(1), delta=MILLIONTH))
    with pytest.raises(InputRefused, match=r"no epsilon is enough for the expected 3 releases.*probability 3e-6"):
        propose_terms(Decimal(3), MILLIONTH, [(narrow, 3)])
    halved = DeletionRelease(stages=1, k=2, noise=OptimalDeletion(epsilon=Decimal(1), delta=MILLIONTH / 6))
    wide = propose_terms(Decimal(4), MILLIONTH, [(halved, 3)])
    assert wide.tail_delta > MILLIONTH / 2
    assert wide.order > 5
    with pytest.raises(InputRefused, match="stands alone"):
        propose_terms(Decimal(3), MILLIONTH, [(ALONE, 1)])
    with pytest.raises(InputRefused, match="at least one release"):
        propose_terms(Decimal(3), MILLIONTH, [])


def shares(terms, mechanism, tail, **more):
    """The shares of the allowance and of D_τ that a charge with this tail takes."""
    cost = filter_cost(mechanism, order=terms.order, tail=tail, **more)
    return cost.divergence / terms.allowance, cost.tail / terms.tail_delta


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "rate", "least"),
    [(50, "0.05", 160), (30, "0.1", 20), (40, "0.02", 800), (10, "0.02", 190), (5, "0.001", 30_000)],
)
def test_a_weak_release_takes_as_small_a_share_of_the_tails_as_of_the_divergences(k, rate, least):
    release, terms = StronglySafeRelease(k=k, sampling_rate=Decimal(rate)), least_terms(MILLIONTH)
    tail = tail_for(terms, release)
    of_divergences, of_tails = shares(terms, release, tail)
    assert of_divergences / 2 < of_tails <= of_divergences
    assert of_divergences <= Decimal("1.001") * shares(terms, release, tail_of(release, terms.tail_each))[0]
    assert int(1 / max(of_divergences, of_tails)) >= least
    sizes = range(k, int(4 * k / float(rate)), max(1, int(k / float(rate) / 40)))
    true = largest_divergence(release, float(terms.order), float(tail), sizes)
    assert true <= float(of_divergences * terms.allowance) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.391", "0.48", "2"])
def test_no_charge_takes_a_larger_share_than_at_the_largest_tail(epsilon):
    terms = propose_terms(Decimal(epsilon), MILLIONTH)
    sure = DeletionRelease(stages=2, k=2, noise=OptimalDeletion(epsilon=Decimal("0.002"), delta=Decimal("1e-10")))
    points = [(20, "0.1"), (20, "0.09"), (20, "0.08"), (10, "0.03"), (10, "0.02"), (3, "1e-4"), (10_000, "1e-9")]
    weak = [StronglySafeRelease(k=k, sampling_rate=Decimal(rate)) for k, rate in points]
    for mechanism in (*weak, sure):
        for releases in (1, 3):
            largest = tails_of(terms, mechanism, releases=releases)[0]
            tail = tail_for(terms, mechanism, releases=releases)
            assert tail <= largest
            before = shares(terms, mechanism, largest, releases=releases)
            assert max(shares(terms, mechanism, tail, releases=releases)) <= max(before), (mechanism, releases)


def test_several_mechanisms_that_are_expected_together_fit_with_the_tails_that_they_take():
    weak = [(StronglySafeRelease(k=k, sampling_rate=Decimal(rate)), 40) for k, rate in ((20, "0.08"), (50, "0.05"))]
    for expected in ([(USUAL, 12), *weak], [(USUAL, 12), (COUNT, 24)]):
        terms = least_terms(MILLIONTH, expected)
        costs = [
            filter_cost(mechanism, order=terms.order, tail=tail_for(terms, mechanism))
            for mechanism, times in expected
            for _ in range(times)
        ]
        assert fits(terms, costs)
        assert not fits(terms, [*costs, costs[0]])


def test_a_filter_takes_less_than_a_sum():
    terms = least_terms(MILLIONTH, [(USUAL, 12)])
    assert 5 * terms.epsilon < 12 * price(USUAL, delta=MILLIONTH / 12).epsilon


def test_what_may_fail_with_some_probability_has_a_tail_of_that():
    """A guarantee with a δ is infinite on it, so that a charge takes at least so much of the tails."""
    sure, nearly = (Guarantee(epsilon=Decimal(1), delta=Decimal(delta)) for delta in ("0", "1e-6"))
    assert [renyi_filter._has_tail(part) for part in (sure, nearly)] == [False, True]
    assert renyi_filter._tails([(sure, 3), (nearly, 2)], [Decimal("1e-9")], 5) == (Decimal("2.005e-6"),)
