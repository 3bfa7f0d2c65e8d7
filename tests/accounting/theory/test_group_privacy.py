"""Prices for several records of a person: never below brute force over their groups, and close to its worst case."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache, reduce

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.privacy_profile import farthest_epsilon, log_profile
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.accounting.kinds.composition.composed import epsilon_composed
from crowdblend.accounting.kinds.composition.group_privacy import best_split, even_split
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.mechanism import MOST_RECORDS
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from audit.theory.axioms import for_group

pytestmark = pytest.mark.slow

K, RATE, DELTA = 8, Decimal("0.25"), Decimal("0.01")
RELEASE = StronglySafeRelease(k=K, sampling_rate=RATE)
# How M records may fall into groups, and the sizes that are tried for each of these groups.
SPREADS = {
    2: [(2,), (1, 1)],
    3: [(3,), (2, 1), (1, 1, 1)],
    4: [(4,), (3, 1), (2, 2), (2, 1, 1)],
}


@cache
def released(n: int, k: int, rate: float, size: int) -> np.ndarray:
    """The suppressed count of n records: everything below k in one atom, then k, k + 1, … ."""
    inside = binom.pmf(np.arange(k, k + size), n, rate)
    return np.concatenate([[binom.cdf(k - 1, n, rate)], inside])


def product(parts: list[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply.outer, parts).ravel()


def divergences(spread: tuple[int, ...], sizes: tuple[int, ...], epsilon: float, *, k: int, rate: float) -> float:
    """The larger divergence between a person's presence with so many records in groups of these sizes, and absence."""
    span = max(sizes) - k + 1
    present = product([released(n, k, rate, span) for n in sizes])
    absent = product([released(n - m, k, rate, span) for n, m in zip(sizes, spread, strict=True)])
    growth = math.exp(epsilon)
    adding, removing = present - growth * absent, absent - growth * present
    return float(max(adding[adding > 0].sum(), removing[removing > 0].sum()))


def worst(
    spread: tuple[int, ...], epsilon: float, *, k: int = K, rate: float = float(RATE), largest: int = 60
) -> float:
    if len(spread) == 1:
        choices = [(n,) for n in range(max(k, spread[0]), largest)]
    else:  # equal sizes, and one group at the size that is worst by itself
        alone = max(range(max(k, spread[0]), largest), key=lambda n: divergences((1,), (n,), epsilon, k=k, rate=rate))
        choices = [(n,) * len(spread) for n in range(max(k, spread[0]), largest)]
        choices += [(n, *[alone] * (len(spread) - 1)) for n in range(max(k, spread[0]), largest)]
    return max(divergences(spread, sizes, epsilon, k=k, rate=rate) for sizes in choices)


def never_below(epsilon: float, records: int) -> bool:
    """The check of this file: whether at this ε the person is protected in every spread that is tried."""
    return all(worst(spread, epsilon) <= float(DELTA) for spread in SPREADS[records])


@pytest.mark.parametrize("records", sorted(SPREADS))
def test_the_price_is_never_below_brute_force_over_groups_and_meets_its_worst_case(records):
    charged = price(RELEASE, delta=DELTA, rows_per_person=records)
    assert never_below(float(charged.epsilon), records)
    # In the worst case all records are in one group: the price is at most a thousandth above what is needed there.
    assert worst((records,), 0.999 * float(charged.epsilon)) > float(DELTA)


@pytest.mark.parametrize("records", sorted(SPREADS))
def test_wrong_prices_are_caught(records):
    """The controls: one record's price, M times its ε without more δ, and the price of M separate groups."""
    one = float(price(RELEASE, delta=DELTA).epsilon)
    apart = epsilon_composed({RELEASE: records}, delta=float(DELTA))
    for wrong in (one, records * one, apart):
        assert not never_below(wrong, records)


@pytest.mark.parametrize(
    ("k", "rate", "delta", "records"), [(20, "0.1", "1e-6", 5), (20, "0.05", "1e-8", 3), (50, "0.2", "1e-6", 2)]
)
def test_at_common_parameters_it_meets_the_worst_group(k, rate, delta, records):
    release = StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
    epsilon = float(price(release, delta=Decimal(delta), rows_per_person=records).epsilon)
    largest = int(4 * k / float(rate))
    assert worst((records,), epsilon, k=k, rate=float(rate), largest=largest) <= float(delta)
    assert worst((records,), 0.999 * epsilon, k=k, rate=float(rate), largest=largest) > float(delta)


@settings(derandomize=True, max_examples=15)
@given(
    k=st.integers(2, 40),
    rate=st.decimals("0.01", "0.4", places=2),
    power=st.integers(2, 12),
    records=st.integers(1, 6),
    more=st.integers(1, 4),
)
def test_it_grows_with_the_records_and_is_at_most_the_even_split(k, rate, power, records, more):
    release, delta = StronglySafeRelease(k=k, sampling_rate=rate), Decimal(10) ** -power
    try:
        many = price(release, delta=delta, rows_per_person=records + more)
    except InputRefused:
        return
    few = price(release, delta=delta, rows_per_person=records)
    assert few.epsilon <= many.epsilon * (1 + Decimal("1e-9"))
    assert (many.rows_per_person, many.rule) == (records + more, "group-privacy/1+exact-profile/1")
    try:
        _, even = even_split(
            lambda share: price(release, delta=share), lambda cost: cost.epsilon, delta=delta, records=records + more
        )
    except InputRefused:
        return
    # The grid may lose a ten-thousandth of what the best split gains.
    assert many.epsilon <= even * (1 + Decimal("1e-4"))


def test_one_record_has_its_own_price():
    assert price(RELEASE, delta=DELTA, rows_per_person=1) == price(RELEASE, delta=DELTA)
    rate = float(RATE)
    by_split = best_split(
        lambda epsilons: log_profile(k=K, sampling_rate=rate, epsilons=epsilons),
        delta=DELTA,
        records=1,
        largest_epsilon=farthest_epsilon(k=K, sampling_rate=rate),
    )
    exact = float(price(RELEASE, delta=DELTA).epsilon)
    assert exact * (1 - 1e-9) <= by_split <= exact * 1.001


def test_a_series_is_carried_over_evenly_by_the_group_axiom():
    """The inner price, put through the group axiom, gives back the price and no more δ than was asked for."""
    delta, releases, records = Decimal("1e-6"), 12, 3
    release = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    charged = price(release, delta=delta, releases=releases, rows_per_person=records)
    assert charged.rule == "even-group-privacy/1+series-game/1"
    assert charged.releases == releases
    inner, total = even_split(
        lambda share: price(release, delta=share, releases=releases),
        lambda cost: cost.epsilon,
        delta=delta,
        records=records,
    )
    group = for_group(Guarantee(epsilon=inner.epsilon, delta=inner.delta), records=records)
    assert group.delta <= delta
    assert group.delta > delta * Decimal("0.999")
    assert abs(group.epsilon - charged.epsilon) < Decimal("1e-11")
    assert total <= charged.epsilon
    # A release alone with the same records costs less than twelve.
    assert price(release, delta=delta, rows_per_person=records).epsilon < charged.epsilon


@pytest.mark.parametrize("selection_rate", [None, Decimal("0.2")])
def test_a_private_choice_of_the_map_is_paid_for_every_record(selection_rate):
    release = EpsilonSafeRelease(
        k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=selection_rate
    )
    one = price(release, delta=Decimal("1e-6"))
    three = price(release, delta=Decimal("1e-6"), rows_per_person=3)
    assert three.rule == f"even-group-privacy/1+{one.rule}"
    assert three.epsilon > 3 * one.epsilon
    assert for_group(Guarantee(epsilon=one.epsilon, delta=one.delta), records=3).delta > three.delta


def test_an_answer_without_delta_costs_as_much_for_each_record():
    answer = CountAnswer(epsilon=Decimal("0.5"), relation="add/remove", groups=1, sampling_rate=None)
    one = price(answer, delta=Decimal(0))
    three = price(answer, delta=Decimal(0), rows_per_person=3)
    assert (three.epsilon, three.delta, three.rows_per_person) == (3 * one.epsilon, 0, 3)
    assert three.rule == f"even-group-privacy/1+{one.rule}"


def test_what_protects_nobody_has_no_price():
    """A hundred records of one person lift their own group over k, whoever else is in it."""
    for records, releases in ((100, 1), (100, 12)):
        with pytest.raises(InputRefused, match="delta"):
            price(
                StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")),
                delta=Decimal("1e-6"),
                releases=releases,
                rows_per_person=records,
            )
    for records in (0, -1, MOST_RECORDS + 1):
        with pytest.raises(InputRefused, match="records of a person"):
            price(RELEASE, delta=DELTA, rows_per_person=records)


def test_the_papers_bound_says_nothing_of_several_records():
    release = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    assert paper_price(release, delta=Decimal("1e-6")) is not None
    assert paper_price(release, delta=Decimal("1e-6"), rows_per_person=2) is None
