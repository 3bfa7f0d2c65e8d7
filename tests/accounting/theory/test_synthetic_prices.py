"""The price of a synthetic table: OpenDP's own conversion, the exact profile of Gaussian noise, and ρ found again."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import combinations, product

import mpmath
import opendp.prelude as dp
import pytest
from crowdblend.accounting.kernel.prices.arithmetic import decimal_up
from crowdblend.accounting.kernel.prices.registry import kind_of, price
from crowdblend.accounting.kinds.composition.renyi_filter import (
    RULE_WITHOUT_LOSSES,
    FilterTerms,
    filter_cost,
    fits,
    tail_for,
)
from crowdblend.accounting.kinds.synthetic_table_prices import concentrated_epsilon
from crowdblend.accounting.theory.planning.synthetic_planning import largest_rho
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.synthetic_table import METHODS, SyntheticTable, counted_cells, library_rho
from scipy.special import log_ndtr

RHOS = [Decimal(text) for text in ("1e-4", "0.0243559703582", "0.5", "7", "400")]
DELTAS = [Decimal(text) for text in ("0.1", "1e-3", "1e-6", "1e-12")]


def gaussian_delta(epsilon: float, *, rho: float, records: int = 1) -> float:
    """δ of a count with Gaussian noise of ρ, for `records` more records. Source: Balle, Wang, arXiv:1805.06530."""
    scale, shift = 1.0 / math.sqrt(2.0 * rho), float(records)
    first, second = shift / (2.0 * scale), epsilon * scale / shift
    return math.exp(log_ndtr(first - second)) - math.exp(epsilon + log_ndtr(-first - second))


def of_opendp(rho: float, delta: float) -> float:
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    noise = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=1.0 / math.sqrt(2.0 * rho)))
    return float(noise.map(1).epsilon(delta))


@pytest.mark.parametrize(("rho", "delta"), [*product(RHOS, DELTAS)])
def test_the_price_is_the_librarys_own_and_above_that_of_gaussian_noise(rho, delta) -> None:
    dp.enable_features("contrib")
    found = concentrated_epsilon(rho, delta=delta)
    assert len(found.as_tuple().digits) <= 12
    # Their search for the order ends a little above the least ε.
    assert float(found) == pytest.approx(of_opendp(float(rho), float(delta)), rel=1e-7, abs=1e-12)
    assert gaussian_delta(float(found), rho=float(rho)) <= float(delta)


@pytest.mark.parametrize(("rho", "delta"), [*product(RHOS, DELTAS)])
def test_the_order_is_that_of_the_least_epsilon(rho, delta) -> None:
    with mpmath.workdps(40):

        def epsilon(place: mpmath.mpf) -> mpmath.mpf:
            order = 1 + mpmath.exp(place)
            of_delta = mpmath.log(mpmath.mpf(str(delta))) + mpmath.log(order)
            return order * mpmath.mpf(str(rho)) + mpmath.log((order - 1) / order) - of_delta / (order - 1)

        low, high = mpmath.mpf(-20), mpmath.mpf(20)
        for _ in range(80):
            first, second = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, second) if epsilon(first) <= epsilon(second) else (first, high)
        least = max(epsilon(low), mpmath.mpf(0))
        found = mpmath.mpf(str(concentrated_epsilon(rho=rho, delta=delta)))
        assert least <= found <= least * (1 + mpmath.mpf("2e-11")) + mpmath.mpf("1e-13")


def test_what_a_table_says_of_itself() -> None:
    table = SyntheticTable(method="aim", rho=Decimal("0.5"))
    kind = kind_of(table)
    assert (kind.samples(table), kind.sampling_rate(table), kind.survey_rate) == (1, None, None)
    assert not any((kind.pure, kind.exclusive))
    assert price(table, delta=Decimal("1e-6")).rule == "zero-concentrated/1"
    for rho in ("1e-12", "1000000"):
        costs = concentrated_epsilon(Decimal(rho), delta=Decimal("1e-6"))
        assert largest_rho(costs, delta=Decimal("1e-6")) == pytest.approx(Decimal(rho), rel=Decimal("1e-5"))
    assert largest_rho(epsilon=Decimal(10**8), delta=Decimal("1e-6")) == pytest.approx(10**6, rel=Decimal("1e-9"))


@pytest.mark.parametrize("records", [2, 30])
def test_several_records_cost_what_so_many_times_the_shift_does(records) -> None:
    mechanism, delta = SyntheticTable(method="aim", rho=Decimal("0.01")), Decimal("1e-6")
    found = price(mechanism, delta=delta, rows_per_person=records)
    assert gaussian_delta(float(found.epsilon), rho=0.01, records=records) <= 1e-6
    assert gaussian_delta(0.7 * float(found.epsilon), rho=0.01, records=records) > 1e-6
    assert found.rule == "group-privacy/1+zero-concentrated/1"


@pytest.mark.parametrize("records", [1, 7])
def test_the_largest_rho_costs_the_epsilon_that_is_asked_for(records) -> None:
    for epsilon, delta in product((Decimal("0.01"), Decimal(1), Decimal(20)), DELTAS[1:]):
        rho = largest_rho(epsilon, delta=delta, records=records)
        costs = price(SyntheticTable(method="mst", rho=rho), delta=delta, rows_per_person=records).epsilon
        assert epsilon * (1 - Decimal("1e-9")) < costs <= epsilon
    with pytest.raises(InputRefused, match="too little"):
        largest_rho(Decimal("1e-30"), delta=Decimal("1e-9"))


def test_tables_of_a_series_add_their_rho_and_a_filter_takes_each_at_its_order() -> None:
    """Four tables of (1, 1e-6) each: added up (4, 4e-6), in a series and in a filter of their order ε is 1.98."""
    delta, rho = Decimal("4e-6"), largest_rho(Decimal(1), delta=Decimal("1e-6"))
    table = SyntheticTable(method="mst", rho=rho)
    series = price(table, delta=delta, releases=4)
    assert series.rule == "zero-concentrated-series/1"
    assert series.epsilon == concentrated_epsilon(4 * rho, delta=delta)
    assert float(series.epsilon) == pytest.approx(1.9793, abs=1e-4)
    # The exact profile of four Gaussian counts of ρ each is that of one of 4ρ.
    assert gaussian_delta(float(series.epsilon), rho=4 * float(rho)) <= 4e-6
    assert gaussian_delta(float(concentrated_epsilon(3 * rho, delta=delta)), rho=4 * float(rho)) > 4e-6
    assert price(table, delta=delta, releases=4, rows_per_person=3).rule == "group-privacy/1+zero-concentrated-series/1"
    terms = FilterTerms(
        epsilon=Decimal("1.981"), delta=delta, order=Decimal(11), tail_delta=Decimal("1e-9"), tail_each=Decimal("1e-9")
    )
    one = filter_cost(table, order=terms.order, tail=Decimal(0))
    assert (one.divergence, one.tail, one.rule) == (decimal_up(11 * rho), 0, RULE_WITHOUT_LOSSES)
    assert fits(terms, [one] * 4)
    assert not fits(terms, [one] * 5)
    assert tail_for(terms, table) == 0
    two = filter_cost(table, order=terms.order, tail=Decimal(0), rows_per_person=2)
    assert two.divergence == pytest.approx(4 * one.divergence, rel=Decimal("1e-9"))


def test_each_of_a_series_gets_what_the_epsilon_of_all_allows() -> None:
    delta = Decimal("1e-6")
    rho = largest_rho(Decimal(1), delta=delta, records=2, releases=5)
    costs = price(SyntheticTable(method="mst", rho=rho), delta=delta, rows_per_person=2, releases=5).epsilon
    assert Decimal("0.999999") < costs <= 1


def test_a_table_is_described_by_its_method_and_rho() -> None:
    for method, rho in (("MST", "1"), ("mst", "0"), ("mst", "-1"), ("aim", "NaN"), ("aim", "1000001")):
        with pytest.raises(ValueError, match="must be"):
            SyntheticTable(method=method, rho=Decimal(rho))
    assert 0.999 < library_rho(SyntheticTable(method="mst", rho=Decimal(1))) < 1.0


def test_cells_are_those_of_all_pairs_and_triples() -> None:
    sizes = [3, 1, 7, 20]
    for method, most in METHODS.items():
        together = [math.prod(some) for number in range(2, most + 1) for some in combinations(sizes, number)]
        assert counted_cells(sizes, method=method) == sum(together)
