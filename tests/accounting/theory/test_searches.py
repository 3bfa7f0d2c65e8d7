"""The searches for the ends of monotone ranges: what they find, where they ask, and how seldom."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from functools import reduce

import numpy as np
import pytest
from crowdblend.accounting.descriptions.kind_description import Tunable
from crowdblend.accounting.kernel.prices.arithmetic import least_epsilon
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.composition import loss_distribution
from crowdblend.accounting.theory.planning import inversion
from crowdblend.accounting.theory.planning import inversion as smallest_delta
from crowdblend.accounting.theory.planning.inversion import (
    Target,
    largest_sampling_rate,
    least_delta,
    least_k,
    most_releases,
    price_of,
)
from crowdblend.accounting.theory.planning.planner import plan
from crowdblend.accounting.theory.planning.searches import _power_share, first_whole, last_real
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from scipy.stats import binom

TARGET = Target(epsilon=Decimal(1), delta=Decimal("1e-5"), releases=4)
SHORT = Target(epsilon=Decimal("0.36"), delta=Decimal("1e-6"))
FEW = Target(epsilon=Decimal(1), delta=Decimal("1e-5"), releases=2)
RELEASE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


def remembered(cost):
    asked = []

    def asking(number):
        assert number not in asked, f"{number} was asked for twice"
        asked.append(number)
        return cost(number)

    return asking, asked


def all_but(number, low, high):
    """Nearly flat from `low` to `high` and again beyond them: a power law through both sides leads nowhere."""
    return 1.0 + 1e-9 / number if number < high and number >= low else math.inf if number < low else 1e-200


@pytest.mark.parametrize("answer", [1, 2, 9, 700, 1001])
@pytest.mark.parametrize("guess", [1, 2, 600, 1000, 1001])
@pytest.mark.parametrize("power", [0.1, 1, 8])
def test_no_number_is_asked_for_twice_nor_out_of_range(answer, guess, power):
    cost, asked = remembered(lambda number: (answer / number) ** power)
    largest = int("1001")  # an object of its own
    assert first_whole(cost, 1.0, largest=largest, guess=guess) == answer
    assert all(1 <= number <= largest for number in asked)
    assert first_whole(remembered(lambda _: math.inf)[0], 1.0, largest=largest, guess=guess) is None


@pytest.mark.parametrize("answer", [5_000, 99_999, 100_001, 3_000_000])
@pytest.mark.parametrize("off", [0.999, 0.9999, 1.0, 1.0001, 1.001])
def test_from_a_good_guess_a_search_stays_near_and_is_over_soon(answer, off):
    cost, asked = remembered(lambda number: (answer / number) ** 0.7)
    assert first_whole(cost, 1.0, largest=1 << 22, guess=round(answer * off)) == answer
    assert min(asked) > 0.98 * answer
    assert max(asked) < 1.02 * answer
    assert len(asked) <= 8


def test_from_no_guess_the_steps_grow_and_a_power_law_is_seen_through():
    cost, asked = remembered(lambda number: (3_000_000 / number) ** 0.7)
    assert first_whole(cost, 1.0, largest=1 << 22) == 3_000_000
    assert asked[:4] == [1, 2, 6, 22]
    assert len(asked) <= 18


@pytest.mark.parametrize("answer", [100, 40_000, 900_000])
def test_where_the_power_law_misleads_the_range_is_halved_every_other_time(answer):
    cost, asked = remembered(lambda number: all_but(number, 1, answer))
    assert first_whole(cost, 1.0, largest=1_000_000) == answer
    assert len(asked) <= 12 + 2 * math.log2(1_000_000)
    cost, asked = remembered(lambda number: 1e200 if number < answer else 1.0 - 1e-9 * number / answer)
    assert first_whole(cost, 1.0, largest=1_000_000) == answer
    assert len(asked) <= 12 + 2 * math.log2(1_000_000)


@pytest.mark.parametrize("answer", [1.5e-9, 1e-5, 0.3, 0.999])
@pytest.mark.parametrize("precision", [1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("power", [0.3, 1.0, 5.0])
def test_the_last_number_that_fits_is_found_to_the_precision_and_soon(answer, precision, power):
    for cost, most in (
        (lambda x: (x / answer) ** power, 7),
        (lambda x: 0.0 if x <= answer else math.inf, 6 + math.log2(math.log(1e9) / precision)),
        (lambda x: 1.0 - 1e-9 * (1.0 - x) if x <= answer else 1e200, 6 + 2 * math.log2(math.log(1e9) / precision)),
        (lambda x: 1e-200 if x <= answer else 1.0 + 1e-9 * x, 6 + 2 * math.log2(math.log(1e9) / precision)),
    ):
        asking, asked = remembered(cost)
        found = last_real(asking, 1.0, low=1e-9, high=1.0, precision=precision)
        assert cost(found) <= 1.0 or found == pytest.approx(answer, rel=1e-15)
        assert found * (1.0 + precision) * (1.0 + 1e-15) >= answer
        assert len(asked) <= most
        assert asked[:2] == [1e-9, 1.0]
        assert most > 7 or asked[2] == pytest.approx(answer, rel=0.26 * precision + 1e-9)
        assert all(1e-9 <= number <= 1.0 for number in asked)


def test_a_power_law_meets_its_target_where_it_says():
    for failing, fitting, target in itertools.permutations((8.0, 2.0, 0.5, 0.0, math.inf), 3):
        if target == math.inf:
            continue  # every cost would be within it
        share = _power_share(failing, fitting, target)
        if math.inf > failing > target > fitting > 0.0:
            assert failing * (fitting / failing) ** share == pytest.approx(target)
        elif not failing > fitting > 0.0 or fitting > target or failing == math.inf:
            assert share is None
    assert _power_share(8.0, 2.0, 2.0) == 1.0
    assert _power_share(8.0, 8.0, 8.0) is None
    assert _power_share(math.inf, 2.0, 4.0) is None
    assert _power_share(8.0, 0.0, 4.0) is None


def step_at(answer):
    return lambda epsilon: 0.1 if epsilon >= answer else 0.2


@pytest.mark.parametrize("answer", [1e-3, 0.9, 1.0, 1.1, 7.9, 8.0, 15.9])
def test_the_least_epsilon_has_been_evaluated_and_is_near(answer):
    asking, asked = remembered(step_at(answer))
    found = least_epsilon(asking, 0.1, high=16.0)
    assert answer <= found <= answer + 1e-12 * max(answer, 1e-3) * 1.001
    assert found in asked
    assert len(asked) <= 62
    assert answer <= 1.0 or least_epsilon(step_at(answer), 0.1, high=answer / 2.1) is None


def test_the_least_epsilon_ends_where_it_is_told():
    assert least_epsilon(lambda _: 0.1, 0.1, high=16.0) == 0.0
    assert least_epsilon(step_at(16.0), 0.1, high=16.0) == pytest.approx(16.0)
    asking, asked = remembered(lambda _: 0.2)
    assert least_epsilon(asking, 0.1, high=16.0) is None
    assert asked == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]


CHOICE = {"selection_epsilon": Decimal("0.01")}
QUESTIONS = {
    "k": lambda: least_k(Decimal("0.3"), replace(TARGET, **CHOICE)),
    "rate": lambda: largest_sampling_rate(9, replace(FEW, **CHOICE)),
    "releases": lambda: most_releases(RELEASE, Target(epsilon=Decimal("0.7"), delta=Decimal("1e-4"), **CHOICE)),
}


@pytest.mark.slow
@pytest.mark.parametrize("twist", [0.7, 1.4])
@pytest.mark.parametrize("question", QUESTIONS)
def test_an_estimate_that_is_off_changes_no_answer(question, twist, monkeypatch):
    """The estimate starts the searches; each search still gets a range whose ends are as it needs them."""
    plain = QUESTIONS[question]()
    estimated, last = inversion.estimated_log_delta, inversion.last_real
    monkeypatch.setattr(inversion, "estimated_log_delta", lambda *a, **given: twist * estimated(*a, **given))

    def checked(cost, target, *, low, high, precision):
        assert cost(low) <= target < cost(high)
        return last(cost, target, low=low, high=high, precision=precision)

    monkeypatch.setattr(inversion, "last_real", checked)
    assert QUESTIONS[question]() == plain


def test_a_composed_delta_is_computed_anew_only_where_the_estimate_was_far_off(monkeypatch):
    monkeypatch.setattr(inversion, "_LONG_GAME", 1)  # this is about the composed price alone
    release = StronglySafeRelease(k=200, sampling_rate=Decimal("0.1"))
    target = Target(epsilon=Decimal("0.211"), delta=Decimal("1e-5"), releases=52)  # its own delta is ignored
    computed, estimated = smallest_delta.delta_composed, smallest_delta.estimated_log_delta
    resolutions = []

    def watched(parts, *, epsilon, resolution):
        resolutions.append(resolution)
        return computed(parts, epsilon=epsilon, resolution=resolution)

    monkeypatch.setattr(smallest_delta, "delta_composed", watched)
    once = least_delta(release, target)
    [near] = resolutions
    assert near == pytest.approx(float(once), rel=0.2)
    for off in (-20.0, -2.6, -2.0, 2.0, 2.6, 20.0):
        monkeypatch.setattr(smallest_delta, "estimated_log_delta", lambda *a, o=off, **g: estimated(*a, **g) + o)
        resolutions.clear()
        again = least_delta(release, target)
        assert float(again) == pytest.approx(float(once), rel=0.01)
        assert resolutions[0] == pytest.approx(min(near * math.exp(off), 0.1))
        assert len(resolutions) == (1 if abs(off) < 2.3 else 2)
        assert max(resolutions[1:], default=0.0) < 8 * float(once)


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


def test_a_search_may_begin_at_a_k_that_has_no_price():
    with pytest.raises(InputRefused, match="no epsilon is enough"):
        price_of(StronglySafeRelease(k=1, sampling_rate=Decimal("0.3")), FEW)
    assert least_k(Decimal("0.3"), FEW, near=1) == least_k(Decimal("0.3"), FEW)


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
    monkeypatch.setattr(inversion, "_found_at_charged_share", lambda *_: dear)

    def within(number):
        k, rate, target = point(number)
        release = StronglySafeRelease(k=k, sampling_rate=rate)
        return price(release, delta=target.delta, releases=target.releases).epsilon <= target.epsilon

    found = question()
    assert within(found)
    assert not within(found + unit)
    assert not within(dear)


def test_a_search_whose_share_never_settles_ends():
    shares = iter(range(100))
    last = inversion._found_at_charged_share(lambda _: next(shares), lambda _: (RELEASE, replace(FEW, releases=1)), 1.0)
    assert last == inversion._MOST_SEARCHES


def test_a_choice_beside_what_has_no_double_is_as_hard_as_can_be():
    hopeless = StronglySafeRelease(k=20, sampling_rate=Decimal("1e-400"))
    assert inversion._hardness(hopeless, replace(FEW, **CHOICE)) == math.inf
    with pytest.raises(InputRefused, match=r"no k up to 4194304 .* at sampling rate 1E-400"):
        least_k(Decimal("1e-400"), replace(FEW, **CHOICE))


@pytest.mark.slow
def test_a_search_plays_few_games(monkeypatch):
    played = []

    def counted(mechanism, target, *, games=True):
        played.extend([target.releases] * games)
        return price_of(mechanism, target, games=games)

    monkeypatch.setattr(inversion, "price_of", counted)
    found = most_releases(RELEASE, Target(epsilon=Decimal(1), delta=Decimal("1e-6")))
    assert found == 102
    assert 0 < len(set(played)) <= 4


def test_a_plan_of_a_thousand_releases_composes_few_points(monkeypatch):
    """By repeated squaring and on grids that don't grow without bound: 1,000 releases take 28 products in two ways."""
    composed, sizes = loss_distribution.compose, []

    def counted(first, second, *, cut):
        sizes.append(first.masses.size + second.masses.size)
        return composed(first, second, cut=cut)

    monkeypatch.setattr(loss_distribution, "compose", counted)
    planned = plan(k=21, sampling_rate=Decimal("0.1"), epsilon=None, delta=Decimal("1e-6"), releases=1000)
    assert 3.7 < planned.epsilon < 3.72
    assert 0 < len(sizes) <= 40
    assert sum(sizes) <= 250_000


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


def test_no_game_is_played_for_a_delta_that_none_of_its_grids_resolves(monkeypatch):
    """Then it is the composed one, at most that of single releases added up; that of a single one is the binomial's."""
    monkeypatch.setattr(inversion, "delta_of_game", lambda *_, **__: 0.0)
    release = StronglySafeRelease(k=400, sampling_rate=Decimal("0.05"))
    found = least_delta(release, Target(epsilon=Decimal(1), delta=Decimal("0.5"), releases=3))
    one = least_delta(release, Target(epsilon=Decimal(1) / 3, delta=Decimal("0.5")))
    assert 0 < found <= 3 * one
    reach = max(blind_delta(400, 0.05, size, 1, 1 / 3, spacing=1e-6) for size in range(1250, 1260))
    assert reach <= float(one) <= 1.001 * reach
    assert 0 < reach < 1e-200


@pytest.mark.parametrize("off", [None, 1.0, 0.99, 1.01])
def test_a_rate_is_searched_to_half_a_unit_of_its_last_digit(off, monkeypatch):
    """With a choice of the map first to a thousandth by the estimate, and then within half a hundredth of that.

    Where the estimate is off, the end that it would leave out stays where it was.
    """
    target, asked, last = FEW if off is None else replace(FEW, **CHOICE), [], inversion.last_real
    monkeypatch.setattr(inversion, "_cost", lambda release, _, share: share * float(release.sampling_rate) / 0.123456)
    soft = inversion._soft(target)
    monkeypatch.setattr(
        inversion, "_hardness", lambda release, _: soft * float(release.sampling_rate) / (0.123456 * (off or 0.0))
    )

    def watched(cost, allowed, *, low, high, precision):
        assert cost(low) <= allowed < cost(high)
        asked.append((low, high, precision))
        return last(cost, allowed, low=low, high=high, precision=precision)

    monkeypatch.setattr(inversion, "last_real", watched)
    assert inversion._largest_rate(9, target, 1.0) == Decimal("0.12345")
    assert inversion._largest_rate(9, target, 100.0) == Decimal("0.0012345")
    if off is None:
        assert asked == [(1e-9, 0.99999, 0.5e-5)] * 2
    else:
        near = 0.123456 * off
        low, high = 1e-9 if off > 1.0 else 0.995 * near, 0.99999 if off < 1.0 else 1.005 * near
        assert asked[0] == (1e-9, 0.99999, 1e-3)
        assert asked[1] == (pytest.approx(low, rel=1.1e-3), pytest.approx(high, rel=1.1e-3), 0.5e-5)
        assert asked[3] == (1e-9, pytest.approx(1.005 * near, rel=1.1e-3), 0.5e-5)


def test_the_paper_leaves_each_release_its_share_less_the_choice_rounded_down():
    each = inversion._paper_epsilon_each(replace(FEW, releases=3, **CHOICE))
    truth = Decimal(1) / 3 - Decimal("0.01")
    assert Decimal(each) < truth < Decimal(math.nextafter(each, 1.0))
    assert Decimal(inversion._paper_epsilon_each(FEW)) < Decimal("0.5") <= Decimal(math.nextafter(0.5, 1.0))
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


@pytest.mark.parametrize(
    ("composed", "played", "resolutions", "found"),
    [
        ("1e-3", [2e-5], [5e-5], "2e-5"),
        ("1e-3", [5.01e-6], [5e-5], "5.01e-6"),
        ("1e-3", [4.99e-6, 3e-6], [5e-5, 4.99e-6], "3e-6"),
        ("1e-3", [1e-7, 1e-9], [5e-5, 1e-7], "1e-9"),
        ("1e-3", [1e-7, 2e-7], [5e-5, 1e-7], "1e-7"),
        ("1e-3", [None], [5e-5], "1e-3"),
        ("1e-3", [ValueError], [5e-5], "1e-3"),
        ("1e-3", [2e-3], [5e-5], "1e-3"),
        ("1e-3", [0.0], [5e-5], "0"),
        ("1.9e-199", [], [], "1.9e-199"),
        ("2.1e-199", [1e-199], [1.05e-200], "1e-199"),
        ("30", [], [], "30"),
        ("19", [0.5], [0.95], "0.5"),
    ],
)
def test_a_game_for_a_delta_is_played_at_most_twice_and_on_grids_that_resolve_it(
    composed, played, resolutions, found, monkeypatch
):
    """First for a twentieth of the composed δ; again where what was found is below a tenth of that."""
    asked, answers = [], iter(played)

    def game(release, *, releases, epsilon, resolution):
        assert (release, releases, epsilon) == (RELEASE, 2, 1.0)
        asked.append(resolution)
        answer = next(answers)
        if answer is ValueError:
            raise ValueError("no grid")
        return answer

    monkeypatch.setattr(inversion, "delta_of_game", game)
    assert inversion._played(RELEASE, FEW, composed=Decimal(composed)) == pytest.approx(
        Decimal(found), rel=Decimal("1e-11")
    )
    assert asked == pytest.approx(resolutions)


@pytest.mark.parametrize(
    ("releases", "epsilon", "composes", "plays"),
    [
        (1, "1", False, False),
        (2, "1", True, True),
        (100, "1", True, True),
        (101, "1", True, False),
        (2, "0", True, False),
    ],
)
def test_a_delta_is_the_least_of_what_is_proved(releases, epsilon, composes, plays, monkeypatch):
    asked = []
    monkeypatch.setattr(inversion, "_composed", lambda *_: asked.append("composed") or Decimal("1e-20"))
    monkeypatch.setattr(inversion, "_played", lambda *_, composed: asked.append(composed) or Decimal("1e-30"))
    found = least_delta(RELEASE, replace(FEW, releases=releases, epsilon=Decimal(epsilon)))
    assert asked == ["composed"] * composes + [Decimal("1e-20")] * plays
    assert found == Decimal("1e-30" if plays else "1e-20") or not composes
    for target, may in ((replace(FEW, releases=400), True), (replace(FEW, releases=401), False), (SHORT, False)):
        assert inversion._may_be_played(target) is may
    for draws, rounds, may in ((1, 50, True), (1, 51, False), (3, 25, True), (3, 26, False), (None, 2, False)):
        drawn = replace(FEW, releases=rounds, selection_draws=draws, **CHOICE)
        assert inversion._may_be_played(drawn) is may


def test_searches_with_a_choice_start_by_how_hard_a_target_is():
    """The estimate of ln δ turned over, which follows a power law; floors where there is no double."""
    target = Target(epsilon=Decimal(1), delta=Decimal("1e-5"), releases=3, **CHOICE)
    assert inversion._soft(target) == pytest.approx(1 / math.log(1e5))
    for change, expected in (
        ({}, 0.047477689530401435),
        ({"delta": Decimal("1e-300")}, 0.048884145270912664),
        ({"epsilon": Decimal(0)}, 0.2389090637514502),
    ):
        assert inversion._hardness(RELEASE, replace(target, **change)) == pytest.approx(expected, rel=1e-9)
    assert inversion._hardness(RELEASE, replace(target, delta=Decimal("1e-999"))) == pytest.approx(
        inversion._hardness(RELEASE, replace(target, delta=Decimal("1e-270"))), rel=0.01
    )


@pytest.mark.parametrize("twist", [0.9, 1.0, 1.1])
@pytest.mark.parametrize("choice", [{}, CHOICE])
def test_most_releases_are_found_by_few_prices(choice, twist, monkeypatch):
    """Here ε is a hundredth of the root of their number, and nine tenths of that are charged up to a year of days."""
    priced = []

    def composed(_release, target, share):
        priced.append(target.releases)
        return share * 0.01 * math.sqrt(target.releases)

    def charged(_release, target):
        return 0.01 * math.sqrt(target.releases) * (0.9 if target.releases < 365 else 1.0) <= target.epsilon

    monkeypatch.setattr(inversion, "_priced", composed)
    monkeypatch.setattr(inversion, "_within", charged)
    monkeypatch.setattr(inversion, "_charged_share", lambda _, target: 0.9 if target.releases < 365 else 1.0)
    monkeypatch.setattr(
        inversion, "_hardness", lambda _, target: inversion._soft(target) * target.releases * twist / 1_000
    )
    for epsilon, expected in (("0.0901", 100), ("0.0905", 101), ("0.0091", 1), ("0.316227", 999), ("20", 1_000_000)):
        priced.clear()
        assert most_releases(RELEASE, replace(FEW, epsilon=Decimal(epsilon), **choice)) == expected
        assert priced[0] == (math.ceil(1_000 / twist) if choice else 1)
        assert len(priced) <= (28 if expected < 1_000 else 40)
    priced.clear()
    assert most_releases(RELEASE, replace(FEW, epsilon=Decimal("0.0901"), **choice), longest_game=5) == 100
    assert most_releases(RELEASE, replace(FEW, epsilon=Decimal("0.316227"), **choice), longest_game=365) == 999


def test_what_would_fit_is_told_as_far_as_there_is_such():
    tunable = Tunable(release=RELEASE, selection_epsilon=None, selection_rate=None, selection_draws=None)
    target = Target(epsilon=Decimal("0.1"), delta=Decimal("1e-6"))
    told = inversion.changes_that_fit(tunable, epsilon=target.epsilon, delta=target.delta, releases=1)
    rate, k = largest_sampling_rate(20, target), least_k(Decimal("0.1"), target)
    assert told == (f"a sampling rate of at most {rate}", f"k of at least {k}")
    assert rate < RELEASE.sampling_rate
    assert k > RELEASE.k
    for wrong in ({"delta": Decimal(1)}, {"releases": 0}, {"epsilon": Decimal(-1)}):
        asked = {"epsilon": target.epsilon, "delta": target.delta, "releases": 1} | wrong
        assert inversion.changes_that_fit(tunable, **asked) == ()
    chosen = tunable._replace(selection_epsilon=Decimal("0.2"))
    assert inversion.changes_that_fit(chosen, epsilon=target.epsilon, delta=target.delta, releases=1) == ()


def test_the_share_that_is_charged_is_1_where_nothing_is_played_or_charged():
    half = Target(epsilon=Decimal(1), delta=Decimal("0.5"), releases=2)
    assert inversion._charged_share(RELEASE, half) == 1.0
    assert inversion._charged_share(RELEASE, replace(FEW, releases=1)) == 1.0
    assert inversion._charged_share(RELEASE, replace(FEW, selection_draws=None, **CHOICE)) == 1.0
    assert inversion._charged_share(RELEASE, replace(FEW, releases=51, **CHOICE)) == 1.0
    assert 0.9 < inversion._charged_share(RELEASE, replace(FEW, **CHOICE)) < 0.95
    assert inversion._charged_share(StronglySafeRelease(k=1, sampling_rate=Decimal("0.3")), FEW) == 1.0
    assert 0.5 < inversion._charged_share(RELEASE, FEW) < 0.99
