"""Prices stay what they are: a rule has a version, and what it charged once is computed again by whoever verifies it.

The prices below were found once. Their grids, blocks and cuts are free to choose, but then belong to the rule. Margins
of rounding are far below the digits of a price: here they are seen by a unit of rounding that is made much larger.
"""

from __future__ import annotations

import inspect
import math
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from crowdblend.accounting.descriptions.zero_knowledge import delta_zero_knowledge, epsilon_zero_knowledge_robust
from crowdblend.accounting.kernel.ledger.entry_values import TOLERANCE
from crowdblend.accounting.kernel.prices import arithmetic
from crowdblend.accounting.kernel.prices.registry import kind_of, price
from crowdblend.accounting.kinds.composition import (
    amplification,
    finite_losses,
    loss_distribution,
    renyi_divergence,
    robust_counts,
    series_game,
)
from crowdblend.accounting.kinds.composition.amplification import Guarantee, amplified
from crowdblend.accounting.kinds.composition.composed import delta_composed, epsilon_composed
from crowdblend.accounting.kinds.composition.finite_losses import LossesInDoubles, losses_of_masses
from crowdblend.accounting.kinds.composition.loss_distribution import (
    LossDistribution,
    compose,
    delta_at,
    from_atoms,
    from_curve,
)
from crowdblend.accounting.kinds.composition.renyi_filter import FilterTerms, conversion_loss, filter_cost
from crowdblend.accounting.kinds.composition.series_game import delta_of_game, epsilon_of_game
from crowdblend.accounting.theory.planning import filter_terms, inversion
from crowdblend.accounting.theory.planning.estimates import estimated_log_delta
from crowdblend.accounting.theory.planning.filter_terms import least_terms, propose_terms
from crowdblend.accounting.theory.planning.inversion import (
    Target,
    delta_of_paper,
    frontier,
    largest_sampling_rate,
    least_delta,
    least_k,
    least_k_of_paper,
    most_releases,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, OptimalDeletion
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease


def release(k, rate):
    return StronglySafeRelease(k=k, sampling_rate=Decimal(rate))


USUAL, SMALL, RARE = release(20, "0.1"), release(4, "0.2"), release(5, "0.01")
ANSWER = Guarantee(epsilon=Decimal("0.1"), delta=Decimal("1e-9"))
COUNT = CountAnswer(epsilon=Decimal("0.05"), groups=1, sampling_rate=None, relation="add/remove")
WIDE = DeletionRelease(stages=3, k=5, noise=GaussianDeletion(scale=Decimal(16), width=85))
OPTIMAL = DeletionRelease(stages=1, k=5, noise=OptimalDeletion(epsilon=Decimal("0.5"), delta=Decimal("1e-6")))
NOISY = NoisyHistogram(k=5, epsilon=Decimal(1), sampling_rate=Decimal("0.3"))
MILLIONTH = Decimal("1e-6")


def all_by_name(module):
    """Whether every argument of a module's functions can be given by its name, so that none is taken for another."""
    functions = [one for _, one in inspect.getmembers(module, inspect.isfunction) if one.__module__ == module.__name__]
    parameters = [one for function in functions for one in inspect.signature(function).parameters.values()]
    return bool(parameters) and all(one.kind is not one.POSITIONAL_ONLY for one in parameters)


def part_of(mechanism):
    return kind_of(mechanism).filter_parts(mechanism, 1)[0]


def game(mechanism, releases, delta):
    composed = epsilon_composed({mechanism: releases}, delta=delta)
    return epsilon_of_game(mechanism, releases=releases, delta=delta, composed=composed)


def filtered(mechanism, order, tail):
    return float(filter_cost(mechanism, order=Decimal(order), tail=Decimal(tail)).divergence)


PRICES = [
    (lambda: epsilon_composed({USUAL: 2}, delta=1e-6), 0.22070210539793825),
    (lambda: epsilon_composed({USUAL: 12}, delta=1e-6), 0.4216461961698772),
    (lambda: epsilon_composed({USUAL: 365}, delta=1e-6), 2.225155969608447),
    (lambda: epsilon_composed({SMALL: 2}, delta=0.02), 0.3420494458042912),
    (lambda: epsilon_composed({RARE: 3}, delta=1e-5), 0.07645178196263686),
    (lambda: epsilon_composed({release(100, "0.5"): 40}, delta=1e-8), 2.6032251039565804),
    (lambda: epsilon_composed({ANSWER: 5}, delta=1e-6), 0.4999754620087704),
    (lambda: epsilon_composed({USUAL: 3, ANSWER: 4}, delta=1e-6), 0.5890737475457392),
    (lambda: delta_composed({USUAL: 12}, epsilon=0.5), 7.324268848274423e-08),
    (lambda: delta_composed({release(50, "0.1"): 20}, epsilon=0.8), 4.314244283179079e-20),
    (lambda: estimated_log_delta({USUAL: 12}, epsilon=0.5, negligible=1e-12), -16.371828284135983),
    (lambda: game(USUAL, 2, 1e-6), 0.2081549999880423),
    (lambda: game(SMALL, 2, 0.02), 0.3103949970245813),
    (lambda: game(release(6, "0.5"), 2, 0.1), 0.3306595724478204),
    (lambda: game(RARE, 5, 1e-6), 0.17020050071840948),
    (lambda: delta_of_game(USUAL, releases=12, epsilon=0.4216461961698772, resolution=1e-6), 8.976264408056416e-08),
    (lambda: filtered(USUAL, 20, "1e-8"), 0.00551394385646),
    (lambda: filtered(SMALL, 5, "0.01"), 0.0157437957640),
    (lambda: filtered(release(6, "0.5"), 30, "0.02"), 0.891726666410),
    (lambda: filtered(release(2, "1e-6"), 3000, "1e-9"), 4.52571790529e-9),
    (lambda: filtered(release(20_000, "0.3"), 12, "1e-9"), 0.0000386492250219),
    (lambda: filtered(WIDE, 20, "1e-3"), 0.105986075529),
    (lambda: filtered(OPTIMAL, 20, "1e-5"), 0.471888002643),
    (lambda: price(USUAL, delta=MILLIONTH, rows_per_person=2).epsilon, 0.402713889092),
    (lambda: price(USUAL, delta=MILLIONTH, rows_per_person=5).epsilon, 1.16103812120),
]


@pytest.mark.parametrize("place", range(len(PRICES)))
def test_a_price_is_found_again_to_what_a_ledger_tolerates(place):
    found, before = PRICES[place]
    assert float(found()) == pytest.approx(before, rel=float(TOLERANCE))


ONE_LOSS = LossesInDoubles(losses=np.array([0.3]), masses=np.array([0.5]), infinite=0.5)
FEW = LossDistribution(spacing=0.25, lowest=-1, masses=np.array([0.2, 0.3, 0.4]), infinite=0.1, slack=0.0)
STEEP = DeletionRelease(stages=1, k=2, noise=GaussianDeletion(scale=Decimal(3), width=12))
PURE = Guarantee(epsilon=Decimal("0.5"), delta=Decimal(0))


def divergence(part, order, tail):
    return renyi_divergence.step_divergence.__wrapped__(part, order, tail)


def error_of_log(successes):
    return arithmetic.log_binomial_pmf(np.array([successes]), np.array([20.0]), 0.3)[1][0]


MARGINS = [
    (loss_distribution, lambda: 1.0 + from_curve(spacing=0.5, lowest=-1, deltas=np.array([0.6, 0.4, 0.2])).slack, 74),
    (loss_distribution, lambda: 1.0 + compose(FEW, FEW, cut=0.0).slack, 39),
    (loss_distribution, lambda: 1.0 + from_atoms(0.25, ONE_LOSS).slack, 17),
    (loss_distribution, lambda: from_atoms(0.25, ONE_LOSS).masses[1], 8),
    (loss_distribution, lambda: delta_at(FEW, 0.125), 19.595233),
    (loss_distribution, lambda: delta_at(FEW, 0.25 - 2.0**-40), 20.75),
    (loss_distribution, lambda: delta_at(FEW, 0.25), 20),
    (loss_distribution, lambda: delta_at(FEW, 0.0), 19),
    (loss_distribution, lambda: delta_composed({USUAL: 3}, epsilon=0.2, resolution=1e-6), 21858.4593),
    (loss_distribution, lambda: delta_composed({part_of(STEEP): 2}, epsilon=1.0, resolution=1e-6), 11038.5084),
    (renyi_divergence, lambda: divergence(PURE, 5.0, 0.0), 231.330786),
    (renyi_divergence, lambda: divergence(ANSWER, 5.0, 1e-3), 3395.40595),
    (renyi_divergence, lambda: divergence(part_of(STEEP), 20.0, 1e-3), 177.077628),
    (renyi_divergence, lambda: divergence(part_of(NOISY), 20.0, 1e-4), 184.041781),
    (renyi_divergence, lambda: divergence(SMALL, 5.0, 1e-2), 16284.9286),
    (renyi_divergence, lambda: divergence(USUAL, 20.0, 1e-8), 17057.1341),
    (series_game, lambda: series_game._table([[FEW]], 1, 0.3)[1][5], 21.7644697),
    (series_game, lambda: delta_of_game(SMALL, releases=2, epsilon=0.4, resolution=0.01), 330.162835),
    (
        finite_losses,
        lambda: losses_of_masses(np.array([0.2, 0.3, 0.5]), np.array([0.4, 0.6, 0.0]), 0.1).infinite,
        11,
    ),
    (robust_counts, lambda: robust_counts.tail_up(8, 20, 0.1), 34.7826134),
    (arithmetic, lambda: 1.0 + error_of_log(3.0), 99.3184391),
    (arithmetic, lambda: 1.0 + error_of_log(0.0), 61.0679901),
    (arithmetic, lambda: 1.0 + error_of_log(20.0), 196.635646),
    (loss_distribution, lambda: 1.0 + loss_distribution.convolution_slack(3, 5), 5),
]


@pytest.mark.parametrize("place", range(len(MARGINS)))
def test_a_result_is_raised_by_as_many_units_of_rounding_as_before(place, monkeypatch):
    """The counts belong to the proofs (docs/proofs/floating-point.md): whoever changes one proves it anew."""
    module, result, units = MARGINS[place]
    usual = result()
    unit = 2.0**-26
    renyi_divergence._covers.cache_clear()
    monkeypatch.setattr(module, "ULP", unit)
    larger = result()
    renyi_divergence._covers.cache_clear()
    assert (larger / usual - 1.0) / unit == pytest.approx(units, rel=1e-5)
    assert all_by_name(module)


def target(epsilon, delta, releases=1, choice=None):
    return Target(
        epsilon=Decimal(epsilon),
        delta=Decimal(delta),
        releases=releases,
        selection_epsilon=None if choice is None else Decimal(choice),
    )


ONE, TWO, CHOSEN = target("1", "1e-5"), target("1", "1e-5", 2), target("1", "1e-5", 3, "0.01")
PLANS = [
    (lambda: least_k(Decimal("0.001"), ONE), 2),
    (lambda: least_k(Decimal("0.5"), ONE), 28),
    (lambda: least_k(Decimal("0.9"), ONE), 235),
    (lambda: least_k(Decimal("0.9"), TWO), 333),
    (lambda: least_k(Decimal("0.9"), CHOSEN), 438),
    (lambda: largest_sampling_rate(2, ONE), Decimal("0.0031622")),
    (lambda: largest_sampling_rate(9, ONE), Decimal("0.19815")),
    (lambda: largest_sampling_rate(50, ONE), Decimal("0.65508")),
    (lambda: most_releases(USUAL, target("0.36", "1e-6")), 11),
    (lambda: delta_of_paper(USUAL, CHOSEN), Decimal("9.11733385365E-7")),
    (lambda: delta_of_paper(release(400, "0.1"), TWO), Decimal("1.43121986141E-160")),
    (lambda: delta_of_paper(USUAL, target("1", "1e-6", 12)), None),
    (lambda: [least_k_of_paper(Decimal("0.1"), one) for one in (ONE, TWO, CHOSEN)], [7, 12, 17]),
    (lambda: least_delta(USUAL, target("0.5", "0.5")), Decimal("2.63178346623E-11")),
    (lambda: least_delta(USUAL, target("0.5", "0.5", 12)), Decimal("3.67265292118E-9")),
    (
        lambda: [
            (point.k_exact, point.k_paper)
            for point in frontier(ONE, sampling_rates=[Decimal(rate) for rate in ("0.01", "0.1", "0.5", "0.999999")])
        ],
        [(3, 3), (6, 7), (28, 37), (None, None)],
    ),
]


@pytest.mark.parametrize("place", range(len(PLANS)))
def test_a_plan_is_found_again(place):
    found, before = PLANS[place]
    now = found()
    assert now == (pytest.approx(before, rel=TOLERANCE) if isinstance(before, Decimal) else before)
    assert all_by_name(inversion)


@pytest.mark.parametrize(
    ("delta", "expected", "least", "proposed"),
    [
        (
            "1e-6",
            [(USUAL, 12)],
            ("0.390391333979", "41.5", "1E-8", "8.33333332490E-10"),
            ("12", "2E-7", "7.45278953305E-10"),
        ),
        (
            "1e-6",
            [(USUAL, 12), (COUNT, 24)],
            ("1.09949574638", "23.5", "1E-8", "8.33333332490E-10"),
            ("13.1", "2E-7", "6.44647713968E-9"),
        ),
        (
            "1e-6",
            [(DeletionRelease(stages=1, k=2, noise=GaussianDeletion(scale=Decimal(20), width=110)), 4)],
            ("0.430502407323", "46", "3E-8", "2.11511979976E-9"),
            ("12", "3E-8", "2.11511979976E-9"),
        ),
    ],
)
def test_terms_are_proposed_again(delta, expected, least, proposed):
    terms = least_terms(Decimal(delta), expected)
    found = [terms.epsilon, terms.order, terms.tail_delta, terms.tail_each]
    assert found == pytest.approx([Decimal(one) for one in least], rel=TOLERANCE)
    terms = propose_terms(Decimal(2), Decimal(delta), expected)
    assert terms.epsilon == 2
    found = [terms.order, terms.tail_delta, terms.tail_each]
    assert found == pytest.approx([Decimal(one) for one in proposed], rel=TOLERANCE)
    assert all_by_name(filter_terms)


def counting(epsilon):
    return CountAnswer(epsilon=Decimal(epsilon), groups=1, sampling_rate=None, relation="add/remove")


def sure_of(delta):
    return DeletionRelease(stages=1, k=2, noise=OptimalDeletion(epsilon=Decimal(1), delta=Decimal(delta)))


@pytest.mark.parametrize(
    ("expected", "least", "proposed"),
    [
        (
            [(counting("1e-5"), 1)],
            ("0.000171604776346", "17800", "1e-8", "9.99999999e-9"),
            ("1.66", "5e-7", "4.54923644092e-18"),
        ),
        (
            [(counting("30"), 2)],
            ("60.0001707797", "17800", "1e-8", "9.99999999e-9"),
            ("17800", "9.7e-7", "8.39481740255e-7"),
        ),
        (
            [(sure_of("3e-7"), 3)],
            ("3.00027252015", "17800", "9.7e-7", "2.33333333099e-8"),
            ("1.95", "9.7e-7", "2.33333333099e-8"),
        ),
        (
            [(sure_of("1e-7"), 3), (counting("0.1"), 5)],
            ("3.50024115303", "8710", "4e-7", "3.33333332999e-8"),
            ("1.83", "7e-7", "1.33333333199e-7"),
        ),
    ],
)
def test_terms_at_the_ends_of_orders_and_shares_are_proposed_again(expected, least, proposed):
    """Tiny and huge divergences, and noise whose ends take nearly all of delta."""
    terms = least_terms(MILLIONTH, expected)
    found = [terms.epsilon, terms.order, terms.tail_delta, terms.tail_each]
    assert found == pytest.approx([Decimal(one) for one in least], rel=TOLERANCE)
    terms = propose_terms(Decimal(70), MILLIONTH, expected)
    found = [terms.order, terms.tail_delta, terms.tail_each]
    assert found == pytest.approx([Decimal(one) for one in proposed], rel=TOLERANCE)


def rounded_up(found, truth, digits):
    """Whether a decimal is the least one of so many digits that is not below the truth, or within two of it."""
    unit = Decimal(1).scaleb(found.adjusted() - digits + 1)
    return 0 <= mpmath.mpf(str(found)) - truth < 2 * mpmath.mpf(str(unit))


@pytest.mark.parametrize("order", ["1.7", "12.5", "3000"])
@pytest.mark.parametrize("delta", ["1e-9", "0.3"])
def test_the_conversion_of_a_divergence_is_rounded_up_at_its_last_digits(order, delta):
    with mpmath.workdps(90):
        alpha, rest = mpmath.mpf(order), mpmath.mpf(delta)
        truth = mpmath.log((alpha - 1) / alpha) - (mpmath.log(rest) + mpmath.log(alpha)) / (alpha - 1)
        assert rounded_up(conversion_loss(Decimal(order), Decimal(delta)), truth, 57)
        terms = FilterTerms(
            epsilon=Decimal(40),
            delta=2 * Decimal(delta),
            order=Decimal(order),
            tail_delta=Decimal(delta),
            tail_each=Decimal(delta),
        )
        assert rounded_up(terms.allowance.copy_negate(), truth - 40, 12)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.7", "1e-6"), ("1e-9", "0"), ("5", "0.7")])
@pytest.mark.parametrize(("before", "after"), [("1", "0.3"), ("0.3", "0.07"), ("0.3", "1e-15")])
def test_amplification_is_rounded_up_at_its_last_digit(epsilon, delta, before, after):
    found = amplified(
        Guarantee(epsilon=Decimal(epsilon), delta=Decimal(delta)), from_rate=Decimal(before), to_rate=Decimal(after)
    )
    with mpmath.workdps(90):
        share = mpmath.mpf(after) / mpmath.mpf(before)
        assert rounded_up(found.epsilon, mpmath.log1p(share * mpmath.expm1(mpmath.mpf(epsilon))), 12)
        assert found.delta == 0 if delta == "0" else rounded_up(found.delta, share * mpmath.mpf(delta), 12)
    assert all_by_name(amplification)


@pytest.mark.parametrize(("epsilon", "rates"), [("0", ("0.1", "0.1", "0.1")), ("0.5", ("0.1", "0.15", "0.4"))])
def test_a_zero_knowledge_price_is_rounded_up_at_its_last_digit(epsilon, rates):
    low, high, top = rates
    found = epsilon_zero_knowledge_robust(
        Decimal(epsilon), lowest_rate=Decimal(low), highest_rate=Decimal(high), largest_rate=Decimal(top)
    )
    with mpmath.workdps(90):
        p, q, most = (mpmath.mpf(rate) for rate in rates)
        growth = most * q * (1 - p) * (2 - p) / (p * (1 - q) ** 2) * mpmath.exp(mpmath.mpf(epsilon))
        assert rounded_up(found, mpmath.log(growth + 1 - most), 12)


@pytest.mark.parametrize(("k", "p"), [(2, 0.25), (7, 0.125), (12, 0.3125), (4, 0.9375)])
def test_the_delta_of_a_crowd_is_raised_by_the_error_of_the_library_and_no_more(k, p):
    """SciPy's tails are assumed to err by less than 1e-10 (docs/proofs/floating-point.md)."""
    found = delta_zero_knowledge(k=k, sampling_rate=Decimal(p))
    with mpmath.workdps(40):
        rate, largest = mpmath.mpf(p), mpmath.mpf(0)
        for n in range(k - 1, 8 * k):
            masses = [mpmath.binomial(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1)]
            largest = max(largest, rate * mpmath.fsum(masses[max(k - 1, math.floor((n + 1) * rate * (2 - rate))) :]))
        assert largest < mpmath.mpf(str(found)) <= largest * (1 + mpmath.mpf("1.1e-10"))


def test_where_a_crowd_is_at_a_tie_the_larger_one_is_taken():
    """Three quarters of four records are three: in doubles, the crowd at which that is the threshold is not sure."""
    assert delta_zero_knowledge(k=3, sampling_rate=Decimal("0.5")) == pytest.approx(
        Decimal("0.25"), rel=Decimal("1e-9")
    )


@pytest.mark.parametrize(("k", "p"), [(2, 0.1), (300, 0.99), (20, 0.9985), (2, 0.9997)])
def test_the_search_for_the_delta_of_a_crowd_ends_where_the_rest_is_bounded_by_what_was_found(k, p, monkeypatch):
    """Chernoff's bound of the tail from a share p(2 − p) of n + 1 records on, a batch of thresholds after the other."""
    from scipy import special

    tails, last = [], []

    def watched(thresholds, rest, rate):
        last.append(float(thresholds[-1] + rest[-1]) - 1.0)
        tails.append(special_betainc(thresholds, rest, rate))
        return tails[-1]

    special_betainc = special.betainc
    monkeypatch.setattr(special, "betainc", watched)
    delta_zero_knowledge(k=k, sampling_rate=Decimal(str(p)))
    share = p * (2.0 - p)
    rest = share * math.log(share / p) + (1.0 - share) * math.log((1.0 - share) / (1.0 - p))
    best = [p * max(float(some.max()) for some in tails[: batch + 1]) for batch in range(len(tails))]
    over = [math.exp(-(n + 1.0) * rest) <= found for n, found in zip(last, best, strict=True)]
    assert over == [False] * (len(over) - 1) + [True]
    assert all(tail.size == 512 for tail in tails)


def test_a_delta_that_no_double_holds_is_rounded_up_to_one_and_a_search_too_long_is_refused():
    assert delta_zero_knowledge(k=5_000, sampling_rate=Decimal("0.1")) == Decimal("4.94065645842E-324")
    with pytest.raises(InputRefused, match=r"with k = 16777217 at sampling rate 0\.1 is too long"):
        delta_zero_knowledge(k=(1 << 24) + 1, sampling_rate=Decimal("0.1"))
    assert delta_zero_knowledge(k=1 << 24, sampling_rate=Decimal("0.1")) > 0
    with pytest.raises(InputRefused, match="leaves no crowd outside the sample"):
        delta_zero_knowledge(k=2, sampling_rate=Decimal("0.9999991"))
