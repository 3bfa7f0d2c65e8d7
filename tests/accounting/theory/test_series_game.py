"""The tight price of a series against a brute-force adversary who picks each group's size by the outputs so far."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from crowdblend.accounting.kernel.ledger.entries import ChargedPrice
from crowdblend.accounting.kernel.ledger.rules import price_faults
from crowdblend.accounting.kernel.prices.privacy_profile import log_adding, log_removing
from crowdblend.accounting.kernel.prices.registry import mechanism_record, paper_price, price, recorded_price
from crowdblend.accounting.kinds import microdata_prices
from crowdblend.accounting.kinds.composition import series_game
from crowdblend.accounting.kinds.composition.composed import epsilon_composed
from crowdblend.accounting.kinds.composition.profile_of_sizes import log_adding_within, log_removing_within
from crowdblend.accounting.kinds.composition.series_game import MOST_RELEASES, delta_of_game, epsilon_of_game
from crowdblend.accounting.kinds.microdata_prices import composed_price_fixed
from crowdblend.accounting.theory.planning.searches import epsilon_exact
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from scipy.stats import binom

MILLIONTH = Decimal("1e-6")
REFERENCE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
SMALL = StronglySafeRelease(k=4, sampling_rate=Decimal("0.2"))


@cache
def outcomes(k, rate, n, adding):
    """The masses and likelihood ratios of one release's suppressed count; by SciPy, not by the audited theory."""
    present = binom.pmf(np.arange(n + 1), n, rate)
    absent = np.append(binom.pmf(np.arange(n), n - 1, rate), 0.0)
    present, absent = (np.concatenate([[side[:k].sum()], side[k:]]) for side in (present, absent))
    ahead, behind = (present, absent) if adding else (absent, present)
    some = ahead > 0.0
    with np.errstate(divide="ignore"):
        return ahead[some], ahead[some] / behind[some]


def reached(release, times, epsilon, sizes, *, adding, ratios=None):
    """The δ that the adversary reaches from each of some likelihood ratios, over all ways to go on."""
    ratios = np.ones(1) if ratios is None else ratios
    if times == 0:
        return np.maximum(1.0 - math.exp(epsilon) / ratios, 0.0)
    best = np.zeros(ratios.shape)
    for n in sizes:
        masses, steps = outcomes(release.k, float(release.sampling_rate), n, adding)
        after = np.multiply.outer(ratios, steps)
        flat = reached(release, times - 1, epsilon, sizes, adding=adding, ratios=after.ravel())
        best = np.maximum(best, flat.reshape(after.shape) @ masses)
    return best


def game_of(release, times, delta):
    composed = epsilon_composed({release: times}, delta=delta)
    return epsilon_of_game(release, releases=times, delta=delta, composed=composed)


@pytest.mark.parametrize(
    ("release", "times", "delta", "sizes"),
    [
        (SMALL, 2, 0.02, range(4, 44)),
        (StronglySafeRelease(k=2, sampling_rate=Decimal("0.1")), 2, 0.03, range(2, 44)),
        (StronglySafeRelease(k=6, sampling_rate=Decimal("0.5")), 2, 0.09, range(6, 30)),
        (SMALL, 3, 0.03, range(8, 24, 2)),
    ],
)
def test_no_adversary_gets_above_the_price_and_one_comes_near(release, times, delta, sizes):
    found = game_of(release, times, delta)
    near = 0.0
    for adding in (True, False):
        assert reached(release, times, found, sizes, adding=adding)[0] <= delta * (1 + 1e-9)
        near = max(near, reached(release, times, 0.92 * found, sizes, adding=adding)[0])
    assert near > delta, "the adversary comes nowhere near the price, so that it tests nothing"


def test_the_series_of_the_design_cost_what_the_game_does():
    for releases, reference in ((12, 0.36), (52, 0.71)):
        found = price(REFERENCE, delta=MILLIONTH, releases=releases)
        composed = composed_price_fixed(REFERENCE, delta=MILLIONTH, releases=releases)
        assert (found.rule, composed.rule) == ("series-game/1", "pld/1")
        assert reference * 0.995 <= float(found.epsilon) <= reference * 1.02
        assert found.epsilon < composed.epsilon * Decimal("0.9")


@pytest.mark.slow
def test_a_year_of_days_costs_less_than_composed():
    found = price(REFERENCE, delta=MILLIONTH, releases=365)
    assert float(found.epsilon) == pytest.approx(1.938, rel=2e-3)
    assert price(REFERENCE, delta=MILLIONTH, releases=MOST_RELEASES + 1).rule == "pld/1"


def test_a_rare_large_loss_makes_no_game_long():
    """A small k at a low rate has losses far beyond its deviation: the grid is coarser, the price hardly higher."""
    release = StronglySafeRelease(k=5, sampling_rate=Decimal("0.01"))
    _, spacing = series_game._grid(release, 12, 1e-6)
    moves, _ = series_game.moves_of(release, series_game._grid(release, 12, 1e-6)[0], spacing)
    assert 900 < moves[0].masses.size <= 1032
    assert game_of(release, 12, 1e-6) == pytest.approx(0.218101, rel=2e-4)  # with four times as many points


def test_a_game_of_wide_blocks_is_above_that_of_their_parts():
    curves, spacing = series_game._grid(REFERENCE, 6, 1e-6)
    narrow = series_game.moves_of(REFERENCE, curves, spacing)
    for together in (2, series_game._TOGETHER, 1000):
        wide = series_game.moves_of(REFERENCE, curves, spacing, together=together)
        for few, many in zip(wide, narrow, strict=True):
            assert len(few) == -(-len(many) // together)
            assert series_game._delta([few], 6, 0.25) >= series_game._delta([many], 6, 0.25) * (1 - 1e-9)


def test_delta_and_epsilon_of_a_game_are_read_from_one_curve():
    for release, times, delta in ((SMALL, 2, 0.02), (REFERENCE, 5, 1e-7)):
        found = game_of(release, times, delta)
        again = delta_of_game(release, releases=times, epsilon=found, resolution=delta)
        assert again == pytest.approx(delta, rel=1e-3)
    found = delta_of_game(SMALL, releases=2, epsilon=0.5, resolution=0.02)
    reach = max(reached(SMALL, 2, 0.5, range(4, 44), adding=adding)[0] for adding in (True, False))
    assert reach <= found <= reach * 1.2
    assert delta_of_game(REFERENCE, releases=MOST_RELEASES + 1, epsilon=1.0, resolution=1e-6) is None


def test_one_release_costs_what_its_exact_profile_says():
    exact = epsilon_exact(k=20, sampling_rate=0.1, delta=1e-6)
    found = epsilon_of_game(REFERENCE, releases=1, delta=1e-6, composed=exact)
    assert exact * (1 - 1e-9) <= found <= exact * 1.005


def test_more_releases_a_lower_delta_a_lower_k_and_a_higher_rate_cost_more():
    base = price(REFERENCE, delta=MILLIONTH, releases=6).epsilon
    assert base < price(REFERENCE, delta=MILLIONTH, releases=7).epsilon
    assert base < price(REFERENCE, delta=MILLIONTH / 2, releases=6).epsilon
    assert base < price(replace(REFERENCE, k=19), delta=MILLIONTH, releases=6).epsilon
    assert base < price(replace(REFERENCE, sampling_rate=Decimal("0.102")), delta=MILLIONTH, releases=6).epsilon


@pytest.mark.parametrize(("k", "rate"), [(1, 0.2), (4, 0.2), (20, 0.1), (7, 0.7)])
def test_a_range_of_sizes_has_the_largest_of_its_curves(k, rate):
    epsilons = np.array([0.0, 0.01, 0.1, 0.19, 0.5, 1.5])
    first, last = np.array([1.0, 5.0, 30.0, 200.0]), np.array([4.0, 29.0, 199.0, 400.0])
    for curve, adding in ((log_adding_within, True), (log_removing_within, False)):
        found = np.exp(curve(k=k, sampling_rate=rate, epsilons=epsilons, first=first, last=last))
        for row, (low, high) in enumerate(zip(first, last, strict=True)):
            for place, epsilon in enumerate(epsilons):
                worst = 0.0
                for n in range(int(low), int(high) + 1):
                    masses, ratios = outcomes(k, rate, n, adding)
                    worst = max(worst, float(masses @ np.maximum(1.0 - math.exp(epsilon) / ratios, 0.0)))
                assert worst <= found[row, place] * (1 + 1e-9) + 1e-13
                assert found[row, place] <= worst * (1 + 1e-6) + 1e-12
        whole = log_adding if adding else log_removing
        everything = curve(
            k=k, sampling_rate=rate, epsilons=epsilons, first=np.array([1.0]), last=np.array([math.inf])
        )[0]
        assert np.exp(everything) == pytest.approx(np.exp(whole(k=k, sampling_rate=rate, epsilons=epsilons)), rel=1e-9)


def faulty(monkeypatch, change):
    """Moves with a fault planted in them."""
    true = series_game.moves_of

    def moves(*given, **more):
        return tuple([change(move) for move in side] for side in true(*given, **more))

    monkeypatch.setattr(series_game, "moves_of", moves)


def rejected(release=SMALL, times=2, delta=0.02, sizes=range(4, 44)):
    """Whether the adversary gets above the price."""
    found = game_of(release, times, delta)
    return any(reached(release, times, found, sizes, adding=way)[0] > delta * (1 + 1e-9) for way in (True, False))


def test_the_adversary_rejects_a_game_that_leaves_infinite_losses_out(monkeypatch):
    assert not rejected()
    faulty(monkeypatch, lambda move: replace(move, infinite=0.0))
    assert rejected()


def test_the_adversary_rejects_a_game_without_the_worst_sizes(monkeypatch):
    true = series_game.moves_of

    def moves(*given, **more):
        adding, removing = true(*given, **more)
        return adding[-2:], removing[-2:]

    monkeypatch.setattr(series_game, "moves_of", moves)
    assert rejected()


def test_the_adversary_who_looks_reaches_more_than_one_who_does_not():
    """One size for both releases, whatever the first gave: a price for that would be too low."""
    release, sizes, epsilon = StronglySafeRelease(k=6, sampling_rate=Decimal("0.5")), range(6, 30), 0.5
    for adding in (True, False):
        blind = max(reached(release, 2, epsilon, [n], adding=adding)[0] for n in sizes)
        assert reached(release, 2, epsilon, sizes, adding=adding)[0] > blind * 1.05


def test_delta_between_two_states_is_read_outward():
    """V is concave somewhere: along a line in the loss between two states, it would be read below its true value."""
    sizes, states = range(4, 44), np.arange(-4.0, 4.01, 0.4)
    for adding in (True, False):
        values = np.array([reached(SMALL, 1, -state, sizes, adding=adding)[0] for state in states])
        along_lines = []
        for epsilon in np.arange(-3.9, 4.0, 0.13):
            truth = reached(SMALL, 1, epsilon, sizes, adding=adding)[0]
            assert series_game._delta_there(states, values, epsilon) >= truth * (1 - 1e-12)
            along_lines.append(np.interp(-epsilon, states, values) >= truth * (1 - 1e-12))
        assert not all(along_lines), "a line would do as well, so that this tests nothing"


def test_a_series_whose_outputs_hardly_differ_costs_nothing():
    """δ at least what the adversary reaches at ε = 0; at a δ below that there is a price above 0."""
    reach = max(reached(SMALL, 2, 0.0, range(4, 44), adding=adding)[0] for adding in (True, False))
    assert epsilon_of_game(SMALL, releases=2, delta=1.5 * reach, composed=0.1) == 0.0
    assert 0.0 < epsilon_of_game(SMALL, releases=2, delta=0.99 * reach, composed=0.1) < 0.1


def test_what_earlier_versions_charged_for_a_series_is_still_right():
    record = tuple(sorted(mechanism_record(REFERENCE).items()))
    paper = paper_price(REFERENCE, delta=MILLIONTH, releases=12).epsilon

    def faults(rule, epsilon, rows_per_person=1, epsilon_paper=paper):
        charged = ChargedPrice(epsilon=epsilon, delta=MILLIONTH, relation="add/remove", rule=rule, releases=12)
        return price_faults(
            mechanism=record, price=charged, epsilon_paper=epsilon_paper, rows_per_person=rows_per_person
        )

    before = recorded_price(REFERENCE, rule="pld/1", delta=MILLIONTH, releases=12)
    now = price(REFERENCE, delta=MILLIONTH, releases=12)
    assert round(before.epsilon, 4) == Decimal("0.4216")
    assert faults("pld/1", before.epsilon) == faults("series-game/1", now.epsilon) == ()
    assert faults("pld/1", now.epsilon)
    assert faults("series-game/1", before.epsilon)
    assert faults("basic-exact/1", before.epsilon)
    assert faults("series-game/1", now.epsilon * Decimal("0.999"))
    group = recorded_price(
        REFERENCE, rule="even-group-privacy/1+pld/1", delta=MILLIONTH, releases=12, rows_per_person=2
    )
    assert faults(group.rule, group.epsilon, 2, None) == ()
    assert price(REFERENCE, delta=MILLIONTH, releases=12, rows_per_person=2).epsilon < group.epsilon


def test_where_the_game_has_no_grid_the_series_has_its_composed_price(monkeypatch):
    def no_grid(*_given, **_more):
        raise ValueError("no grid")

    monkeypatch.setattr(microdata_prices, "epsilon_of_game", no_grid)
    microdata_prices._epsilon_of_game.cache_clear()
    found = price(SMALL, delta=Decimal("0.02"), releases=3)
    microdata_prices._epsilon_of_game.cache_clear()
    assert found.rule == "pld/1"
    assert epsilon_of_game(replace(SMALL, k=10_001), releases=3, delta=1e-6, composed=1.0) is None
