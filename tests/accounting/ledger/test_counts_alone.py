"""Local reports in the ledger: their own price adds up, that of their counts stands alone, and both by replacement."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from functools import cache

import pytest
from crowdblend.accounting.kernel.ledger.entries import sorted_fields
from crowdblend.accounting.kernel.ledger.ledger_state import released_once
from crowdblend.accounting.kernel.prices.registry import mechanism_record, price
from crowdblend.mechanisms.kernel.errors import AccountantRefused
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch
from support.folding import fold

DELTA = Decimal("1e-6")
SKETCH = CountMeanSketch(epsilon=Decimal(2), hashes=8, bits=64, seed=b"seed")
FLIPS = KRandomization(bits=2, flip_probability=Decimal("0.25"))
COUNTS = OutcomeCounts(randomizer=FLIPS, least_people=10**5)
ONES = OutcomeCounts(randomizer=KRandomization(bits=1, flip_probability=Decimal("0.25")), least_people=10**3)
ASKED = CountAnswer(epsilon=Decimal("0.1"), relation="replacement", groups=3, sampling_rate=None)


@cache
def cost(mechanism):
    return price(mechanism, delta=DELTA if isinstance(mechanism, OutcomeCounts) else Decimal(0))


def charge(books, release_id, mechanism, **changes):
    values = {"dataset": "phones", "mechanism": mechanism, "price": cost(mechanism), "epsilon_paper": None}
    return books.charge(release_id, **(values | changes))


@pytest.fixture
def phones(books):
    books.add("phones", relation="replacement")
    return books


def test_reports_are_charged_each_time_and_add_up(phones) -> None:
    for number, mechanism in enumerate((SKETCH, FLIPS, SKETCH)):
        charge(phones, f"r{number}", mechanism)
    charge(phones, "asked", ASKED)
    assert phones.spent("phones") == (2 * cost(SKETCH).epsilon + cost(FLIPS).epsilon + ASKED.epsilon, 0)
    charge(phones, "one-more", FLIPS)
    with pytest.raises(AccountantRefused, match="past the budget"):
        charge(phones, "too-many", FLIPS)
    assert phones.findings() == []


@pytest.mark.slow
def test_nothing_is_released_beside_counts(phones) -> None:
    charge(phones, "counts", COUNTS)
    for number, other in enumerate((COUNTS, ONES, SKETCH, FLIPS, ASKED)):
        with pytest.raises(AccountantRefused, match="stand beside release 'counts'"):
            phones.look("phones", mechanism=other, price=cost(other))
        with pytest.raises(AccountantRefused, match="nothing else is published of their reports"):
            charge(phones, f"other-{number}", other)
    assert phones.spent("phones") == (cost(COUNTS).epsilon, DELTA)
    assert phones.findings() == []


def test_counts_are_not_released_beside_anything(phones) -> None:
    charge(phones, "reports", FLIPS)
    for counts in (COUNTS, ONES):
        with pytest.raises(AccountantRefused, match="stand beside release 'reports'") as refused:
            charge(phones, "counts", counts)
        assert "leave out [privacy]" in refused.value.remedy
    phones.abandon("reports")
    charge(phones, "counts", ONES)
    assert phones.findings() == []


def test_counts_that_were_never_read_are_in_nobodys_way_and_once_read_for_ever(phones) -> None:
    charge(phones, "refunded", COUNTS)
    phones.abandon("refunded")
    receipt = charge(phones, "given-up", COUNTS)
    with phones.writer() as writer:
        writer.mark_reading(receipt)
    assert phones.abandon("given-up") is False
    for other in (COUNTS, SKETCH):
        with pytest.raises(AccountantRefused, match="release 'given-up'"):
            charge(phones, "after", other)
    assert phones.findings() == []


def test_reports_of_another_data_set_are_another_matter(phones) -> None:
    phones.add("watches", relation="replacement")
    charge(phones, "counts", COUNTS)
    charge(phones, "also-counts", COUNTS, dataset="watches")
    assert phones.findings() == []


@pytest.mark.parametrize("mechanism", [SKETCH, FLIPS, COUNTS, ONES], ids=lambda one: type(one).__name__)
def test_a_price_of_reports_never_enters_an_add_remove_budget(books, mechanism) -> None:
    books.add()
    with pytest.raises(AccountantRefused, match="neighbouring relation"):
        charge(books, "one", mechanism, dataset="census")
    forged = dataclasses.replace(cost(mechanism), relation="add/remove")
    with pytest.raises(AccountantRefused, match="its mechanism's is 'replacement'"):
        charge(books, "two", mechanism, dataset="census", price=forged)
    assert books.spent() == (0, 0)


def test_a_price_that_is_not_the_mechanisms_is_refused(phones) -> None:
    for mechanism in (FLIPS, COUNTS):
        found = cost(mechanism)
        for factor in ("0.9", "1.1"):
            forged = dataclasses.replace(found, epsilon=found.epsilon * Decimal(factor))
            with pytest.raises(AccountantRefused, match="ε is recorded as"):
                charge(phones, "forged", mechanism, price=forged)
    fewer = OutcomeCounts(randomizer=FLIPS, least_people=COUNTS.least_people // 2)
    with pytest.raises(AccountantRefused, match="ε is recorded as"):
        charge(phones, "forged", fewer, price=cost(COUNTS))


@pytest.mark.parametrize("order", [(COUNTS, SKETCH), (SKETCH, COUNTS), (COUNTS, ONES)])
def test_verifying_finds_counts_that_are_not_alone(sqlite_books, order) -> None:
    """Entries of two data sets, written again as if they were of one: each by itself is as it should be."""
    for name in ("phones", "watches"):
        sqlite_books.add(name, relation="replacement")
    charge(sqlite_books, "first", order[0])
    charge(sqlite_books, "second", order[1], dataset="watches")
    *entries, last = sqlite_books.entries()
    _, found = fold([*entries, dataclasses.replace(last, dataset="phones")])
    assert found == ["a price of dataset 'phones' holds for outcome counts alone, and something else is released"]


@pytest.mark.slow
def test_counts_win_or_lose_a_race_against_everything_else(books) -> None:
    """Either the counts are charged and nothing else, or the others are and not the counts."""
    books.add("phones", relation="replacement", epsilon=Decimal(100))
    kinds = ["counts", "reports"] * 5
    attempts = [
        {"release_id": f"r{number}", "sample_id": f"{number:064x}", "dataset": "phones", "kind": kind}
        for number, kind in enumerate(kinds)
    ]
    outcomes = books.race(attempts)
    done = {kind for kind, outcome in zip(kinds, outcomes, strict=True) if outcome == "done"}
    assert len(done) == 1, outcomes
    assert outcomes.count("done") == (1 if done == {"counts"} else 5), outcomes
    assert books.findings() == []


def test_which_prices_stand_alone(phones) -> None:
    dataset = phones.state().datasets["phones"].added
    records = [sorted_fields(mechanism_record(one)) for one in (COUNTS, ONES, SKETCH, FLIPS, ASKED)]
    alone = [released_once(dataset, record) for record in records]
    assert alone == [True, True, False, False, False]
