"""Every kind of release in one ledger: charged by its own price, a sample for one of them, fifty after sampling."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import date
from decimal import ROUND_DOWN, Decimal
from functools import cache
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.ledger.entries import DatasetAdded
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused
from crowdblend.mechanisms.kernel.mechanism import Mechanism
from crowdblend.mechanisms.kinds.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, SuppressedHistogram
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.outlier_histogram import OutlierPrivateHistogram
from crowdblend.mechanisms.kinds.points import SyntheticPoints

RATE, HALF, DELTA = Decimal("0.1"), Decimal("0.5"), Decimal("1e-6")
SAFE = StronglySafeRelease(k=20, sampling_rate=RATE)
NOISY = NoisyHistogram(k=20, epsilon=HALF, sampling_rate=RATE)
ANSWER = {"epsilon": HALF, "groups": 3, "sampling_rate": RATE, "relation": "add/remove"}
SURVEY = BiasedSampleCounts(k=20, lowest_rate=RATE, highest_rate=RATE, largest_rate=RATE, exceptions=1)
SAMPLED: dict[str, Mechanism] = {
    "microdata": SAFE,
    "suppressed histogram": SuppressedHistogram(k=20, sampling_rate=RATE),
    "noisy histogram": NOISY,
    "unequal rates": UnequalRatesHistogram(k=20, sampling_rate=RATE, lowest_rate=Decimal("0.09")),
    "points": SyntheticPoints(dimensions=2, cells_per_side=4, counts=SAFE),
    "noisy points": SyntheticPoints(dimensions=2, cells_per_side=4, counts=NOISY),
    "count": CountAnswer(**ANSWER),
    "sum": SumAnswer(**ANSWER, lower=0, upper=9),
    "mean": MeanAnswer(**ANSWER, lower=0, upper=9, least_records=5),
}
WHOLE: dict[str, Mechanism] = {
    "outlier-private histogram": OutlierPrivateHistogram(epsilon=HALF, horizon=60, margin=40),
    "count of all": CountAnswer(**ANSWER | {"sampling_rate": None}),
}
DAY = date(2026, 3, 4)


@cache
def charged(mechanism: Mechanism) -> dict[str, object]:
    """What a charge of a mechanism has of its own."""
    pure = isinstance(mechanism, CountAnswer | SumAnswer | MeanAnswer)
    delta = Decimal(0) if pure else DELTA
    paper = paper_price(mechanism, delta=delta)
    return {
        "mechanism": mechanism,
        "price": price(mechanism, delta=delta),
        "epsilon_paper": None if paper is None else paper.epsilon,
    }


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "unequal rates" else ()) for name in (*SAMPLED, *WHOLE)],
)
def test_each_kind_is_charged_its_price_and_the_chain_verifies(sqlite_books, name) -> None:
    mechanism = (SAMPLED | WHOLE)[name]
    sqlite_books.add()
    sqlite_books.charge(**charged(mechanism))
    assert sqlite_books.spent() == (charged(mechanism)["price"].epsilon, charged(mechanism)["price"].delta)
    assert sqlite_books.findings() == []
    cheaper = replace(charged(mechanism)["price"], epsilon=charged(mechanism)["price"].epsilon * Decimal("0.99"))
    with pytest.raises(AccountantRefused, match="its mechanism's is"):
        sqlite_books.charge("two", **charged(mechanism) | {"price": cheaper})


@pytest.mark.slow
def test_a_sample_serves_one_kind_whichever_comes_first(books) -> None:
    books.add()
    for number, (first, second) in enumerate(itertools.permutations([*SAMPLED, *WHOLE], 2)):
        if number % 5:
            continue
        taken = f"{number:064x}"
        books.charge(f"first-{number}", sample_id=taken, **charged((SAMPLED | WHOLE)[first]))
        with pytest.raises(AccountantRefused, match="a sample serves one release"):
            books.charge(f"second-{number}", sample_id=taken, **charged((SAMPLED | WHOLE)[second]))
    assert books.findings() == []


@pytest.mark.slow
def test_a_survey_price_needs_a_survey(books) -> None:
    books.add()
    books.add("survey", survey_rate=RATE)
    books.add("denser", survey_rate=Decimal("0.2"))
    with pytest.raises(AccountantRefused, match="not registered as a sample"):
        books.charge(**charged(SURVEY))
    with pytest.raises(AccountantRefused, match=r"registered as sampled at 0\.2"):
        books.charge("two", dataset="denser", **charged(SURVEY))
    books.charge("three", dataset="survey", **charged(SURVEY))
    with pytest.raises(AccountantRefused, match="released once"):
        books.charge("four", dataset="survey", **charged(SAFE))
    assert books.findings() == []


@pytest.mark.slow
def test_the_verification_finds_a_survey_price_that_was_written_past_the_rules(sqlite_books) -> None:
    sqlite_books.add()
    sqlite_books.append(sqlite_books.request(**charged(SURVEY)).entry)
    [finding] = sqlite_books.findings()
    assert "entry 2: " in finding
    assert "not registered as a sample" in finding


def test_a_survey_of_people_with_several_records_is_refused(books) -> None:
    with pytest.raises(InputRefused, match="draws all of them with one coin") as refused:
        books.add("survey", survey_rate=RATE, rows_per_person=5)
    assert refused.value.where == "dataset 'survey'"
    books.add("survey", survey_rate=RATE)
    books.add("people", rows_per_person=5)
    assert books.findings() == []


def test_a_survey_charged_for_several_records_by_an_earlier_version_is_found(sqlite_books) -> None:
    """Its chain holds, and its price is told to be one that isn't proved: by the ledger and by the certificate."""
    added = DatasetAdded(
        dataset="census",
        epsilon=Decimal(10),
        delta=Decimal("0.001"),
        relation="add/remove",
        survey_rate=RATE,
        rows_per_person=5,
        by="steward",
        day=DAY,
    )
    sqlite_books.append(added)
    assert sqlite_books.findings() == []
    forged = sqlite_books.request(**charged(SURVEY)).entry
    even = replace(forged.price, epsilon=Decimal("1.169"), rule="even-group-privacy/1+robust-counts/1")
    [fault] = sqlite_books.faults(replace(forged, price=even))
    assert "no price is proved for a data set's own sampling where a person may have several records" in fault
    assert "Nothing was read" not in fault
    five = replace(charged(SURVEY)["price"], epsilon=even.epsilon, rule=even.rule, rows_per_person=5)
    with pytest.raises(AccountantRefused, match="no price is proved"):
        sqlite_books.charge(**charged(SURVEY) | {"price": five})
    assert sqlite_books.findings() == []


@pytest.mark.slow
def test_fifty_answers_after_sampling_cost_one_in_all(sqlite_books) -> None:
    """LQS, arXiv:1101.2604v2, §2.7: at β = 0.2, each (0.02, 0) after sampling; the next one is over the budget of 1."""
    vectors = json.loads((Path(__file__).parents[2] / "vectors" / "mechanism_examples.json").read_text("utf-8"))
    example = vectors["fifty_releases"]
    rate, each = Decimal(example["sampling_rate"]), Decimal(example["epsilon_after_sampling"])
    before = (1 + (each.exp() - 1) / rate).ln().quantize(Decimal("1e-9"), rounding=ROUND_DOWN)
    answer = CountAnswer(epsilon=before, relation="add/remove", groups=1, sampling_rate=rate)
    assert each * (1 - Decimal("1e-6")) < charged(answer)["price"].epsilon <= each
    sqlite_books.add(epsilon=Decimal(example["epsilon_in_all"]))
    for number in range(example["releases"]):
        sqlite_books.charge(f"answer-{number}", **charged(answer))
    spent, delta = sqlite_books.spent()
    assert float(spent) == pytest.approx(float(example["epsilon_in_all"]), rel=1e-6)
    assert spent <= Decimal(example["epsilon_in_all"])
    assert delta == 0
    with pytest.raises(AccountantRefused, match="past the budget"):
        sqlite_books.charge("one-more", **charged(answer))
    assert sqlite_books.findings() == []
