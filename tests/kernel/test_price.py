"""What is charged: rules, rounding, records of mechanisms, and refusals."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.kinds.composition.paper_bound import (
    delta_paper,
    epsilon_paper,
    least_epsilon_of_paper,
)
from crowdblend.accounting.kinds.microdata_prices import composed_price_fixed
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

SMALL = Decimal("1e-6")
EXAMPLE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


def test_table_2_of_the_paper_to_all_printed_digits(vectors):
    table = vectors["lqs"]["table_2"]
    cells = 0
    for rate, printed in table["rows"].items():
        for epsilon, delta in zip(table["epsilons"], printed, strict=True):
            found = delta_paper(k=table["k"], sampling_rate=float(rate), epsilon=float(epsilon))
            assert f"{found:.2e}" == delta
            cells += 1
    assert cells == 18


def test_reference_values_of_the_exact_profile(vectors):
    for row in vectors["exact"]["delta"]:
        found = delta_exact(k=row["k"], sampling_rate=float(row["sampling_rate"]), epsilon=float(row["epsilon"]))
        assert f"{found:.2e}" == row["delta"]


def test_prices_of_series(vectors):
    composed = vectors["exact"]["composed"]
    for releases, ours, theirs in zip(composed["releases"], composed["epsilons"], composed["paper"], strict=True):
        charged = composed_price_fixed(EXAMPLE, delta=SMALL, releases=releases)
        assert float(charged.epsilon) == pytest.approx(float(ours), rel=0.01)
        assert charged.rule == ("exact-profile/1" if releases == 1 else "pld/1")
        assert price(EXAMPLE, delta=SMALL, releases=releases).epsilon <= charged.epsilon
        assert (charged.delta, charged.releases, charged.relation) == (SMALL, releases, "add/remove")
        paper = paper_price(EXAMPLE, delta=SMALL, releases=releases)
        assert paper is not None
        assert float(paper.epsilon) == pytest.approx(float(theirs), rel=0.01)


def test_the_paper_has_no_price_below_its_least_epsilon():
    with pytest.raises(InputRefused, match="needs epsilon of at least"):
        delta_paper(k=20, sampling_rate=0.1, epsilon=0.1)
    found = epsilon_paper(k=2000, sampling_rate=0.1, delta=1e-6)
    assert found == least_epsilon_of_paper(0.1)
    assert epsilon_paper(k=2, sampling_rate=0.1, delta=1e-3) is None
    assert paper_price(StronglySafeRelease(k=2, sampling_rate=Decimal("0.1")), delta=SMALL) is None


@pytest.mark.parametrize("delta", ["0", "1", "-1e-6", "nan", "inf"])
def test_a_delta_out_of_range_is_refused(delta):
    for function in (price, paper_price):
        with pytest.raises(InputRefused, match="delta must lie"):
            function(EXAMPLE, delta=Decimal(delta))


def test_other_refusals_say_what_to_do():
    with pytest.raises(InputRefused, match="number of releases"):
        price(EXAMPLE, delta=SMALL, releases=0)
    for releases in (1, 4):
        with pytest.raises(InputRefused, match="Raise k or delta, or lower the rate"):
            price(StronglySafeRelease(k=2, sampling_rate=Decimal("0.1")), delta=SMALL, releases=releases)
    with pytest.raises(InputRefused, match="no price"):
        price(StronglySafeRelease(k=10**6, sampling_rate=Decimal("1e-14")), delta=SMALL)
    with pytest.raises(InputRefused, match="no price"):
        price(StronglySafeRelease(k=10, sampling_rate=Decimal("0.99999999999999")), delta=SMALL)


def test_a_price_is_the_same_whatever_the_callers_decimal_context():
    usual = (price(EXAMPLE, delta=SMALL, releases=3), paper_price(EXAMPLE, delta=SMALL, releases=3))
    with decimal.localcontext() as context:
        context.prec = 3
        context.rounding = decimal.ROUND_FLOOR
        assert (price(EXAMPLE, delta=SMALL, releases=3), paper_price(EXAMPLE, delta=SMALL, releases=3)) == usual


def test_a_series_is_composed_down_to_the_least_delta_that_doubles_bear_and_summed_up_below_it():
    release = StronglySafeRelease(k=300, sampling_rate=Decimal("0.1"))
    assert price(release, delta=Decimal("1e-200"), releases=3).rule == "series-game/1"
    charged, each = (
        price(release, delta=delta, releases=releases)
        for delta, releases in ((Decimal("9e-201"), 3), (Decimal("3e-201"), 1))
    )
    assert charged.rule == "basic-exact/1"
    assert charged.epsilon == pytest.approx(each.epsilon * 3, rel=Decimal("1e-9"))
