"""What is charged for local reports: their own price, or that of their counts where nothing else is published."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.accounting.descriptions.local_report_description import outcome_statement
from crowdblend.accounting.kernel.prices.arithmetic import log_binomial_pmf
from crowdblend.accounting.kernel.prices.registry import (
    kind_of,
    mechanism_of_record,
    mechanism_record,
    paper_price,
    price,
)
from crowdblend.accounting.kinds.outcome_counts_prices import price_outcome_counts
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch

pytestmark = pytest.mark.slow

DELTA = Decimal("1e-6")
SKETCH = CountMeanSketch(epsilon=Decimal(4), hashes=8, bits=64, seed=b"seed")
FLIPS = KRandomization(bits=2, flip_probability=Decimal("0.25"))
ONE = KRandomization(bits=1, flip_probability=Decimal("0.25"))
ALMOST_NEVER = KRandomization(bits=1, flip_probability=Decimal("0.075"))
COUNTS = OutcomeCounts(randomizer=FLIPS, least_people=10**5)
ONES = OutcomeCounts(randomizer=ONE, least_people=900)


@pytest.mark.parametrize("mechanism", [SKETCH, FLIPS, COUNTS, ONES], ids=lambda one: type(one).__name__)
def test_the_price_is_that_of_the_event_and_its_record_is_read_back(mechanism):
    delta = DELTA if isinstance(mechanism, OutcomeCounts) else Decimal(0)
    found = price(mechanism, delta=delta)
    assert (found.relation, found.delta, found.releases) == ("replacement", delta, 1)
    assert mechanism_of_record(mechanism_record(mechanism)) == mechanism
    assert paper_price(mechanism, delta=delta) is None
    assert kind_of(mechanism).exclusive is isinstance(mechanism, OutcomeCounts)
    with pytest.raises(InputRefused, match="as a series"):
        price(mechanism, delta=delta, releases=2)


def test_reports_have_no_delta_and_several_of_a_person_add_up():
    for mechanism in (SKETCH, FLIPS):
        for delta in (DELTA, -DELTA):
            with pytest.raises(InputRefused, match="delta 0"):
                price(mechanism, delta=delta)
        one, three = price(mechanism, delta=Decimal(0)), price(mechanism, delta=Decimal(0), rows_per_person=3)
        assert 3 * one.epsilon <= three.epsilon <= 3 * one.epsilon * (1 + Decimal("1e-11"))
        [part] = description_of(mechanism).losses(mechanism)
        assert part.epsilon == one.epsilon
    with pytest.raises(InputRefused, match="several"):
        price(COUNTS, delta=DELTA, rows_per_person=3)
    with pytest.raises(InputRefused, match="not composed"):
        description_of(COUNTS).losses(COUNTS)


def test_counts_that_cost_no_less_than_their_reports_are_refused():
    """Their record would be priced again at a δ that the price doesn't have."""
    few = OutcomeCounts(randomizer=FLIPS, least_people=100)
    assert price_outcome_counts(FLIPS, people=100, delta=DELTA).rule == "local/1"
    with pytest.raises(InputRefused, match="nothing below the price of the reports"):
        price(few, delta=DELTA)


def test_the_words_name_what_the_price_rests_on():
    shuffled, exact = price(COUNTS, delta=DELTA), price(ONES, delta=DELTA)
    assert (shuffled.rule, exact.rule) == ("shuffle-fmt-3.1/1", "outcome-counts-exact/1")
    words = outcome_statement(COUNTS, shuffled.rule)
    for said in ("Theorem 3.1", "n = 100000", "nothing else is ever published", "Each report is 2.19722"):
        assert said in words
    words = outcome_statement(ONES, exact.rule)
    for said in ("exact distribution", "900 people", "(1 − 0.25)/0.25 exactly"):
        assert said in words


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def others(people, q):
    """The law of the ones among n − 1 people who all have a zero."""
    counts = np.arange(people, dtype=float)
    logs, _ = log_binomial_pmf(counts, np.full_like(counts, float(people - 1)), q)
    return np.exp(logs)


def test_two_counts_of_the_same_reports_cost_more_than_their_prices_added_up():
    """With and without one person, two counts tell that person's report: this is why such a price holds alone.

    The control: either count by itself is within its price.
    """
    both = price(ONES, delta=DELTA), price(OutcomeCounts(randomizer=ONE, least_people=899), delta=DELTA)
    epsilon, delta = float(sum(one.epsilon for one in both)), float(sum(one.delta for one in both))
    local = price(ONE, delta=Decimal(0)).epsilon
    assert epsilon < float(local)
    law = others(900, 0.25)
    has, has_not = np.outer([0.25, 0.75], law), np.outer([0.75, 0.25], law)  # by the person's report, the others' count
    assert hockey_stick(has, has_not, epsilon) > 1000 * delta
    assert hockey_stick(has, has_not, float(local)) == pytest.approx(0.0, abs=1e-12)
    edge = np.zeros(1)
    alone = [
        0.25 * np.append(law, edge) + 0.75 * np.append(edge, law),
        0.75 * np.append(law, edge) + 0.25 * np.append(edge, law),
    ]
    assert hockey_stick(*alone, float(both[0].epsilon)) <= float(DELTA)


def test_noise_of_its_own_does_not_make_a_second_publication_add_up():
    """Beside the exact count, two noisy sums of the same reports, each ε-private in any report, give more than ε away.

    One sum is of the person's report, the other of everybody else's: a report is in one of them, so that both together
    are ε-private under replacement. The exact count less the noisy sum of the others is the person's report with that
    sum's noise: a second look at it. The control: with either look alone the prices do add up.
    """
    flips = KRandomization(bits=1, flip_probability=Decimal("0.05"))
    counts, noisy = price(OutcomeCounts(randomizer=flips, least_people=10**7), delta=DELTA), 0.35
    noise = np.exp(-noisy * np.abs(np.arange(-60, 61)))
    noise /= noise.sum()
    looks = [np.roll(noise, report) for report in (0, 1)]

    def told(views):
        """δ at the prices added up, of a person who has a one against a person who has a zero."""
        has, has_not = 0.95 * views[1] + 0.05 * views[0], 0.05 * views[1] + 0.95 * views[0]
        return hockey_stick(has, has_not, float(counts.epsilon) + noisy)

    assert told([np.outer(look, look) for look in looks]) > 1000 * float(DELTA)
    assert told(looks) <= float(DELTA)


@pytest.mark.parametrize(("flips", "delta"), [(ONE, "1e-100"), (ALMOST_NEVER, "1e-9")])
def test_where_no_smaller_epsilon_is_found_the_price_is_that_of_the_reports(flips, delta):
    found = price_outcome_counts(flips, people=5, delta=Decimal(delta))
    assert (found.rule, found.epsilon, found.delta) == ("local/1", price(flips, delta=Decimal(0)).epsilon, 0)
