"""Ten processes at one moment: exactly one wins what there is once, and the others are told why."""

from __future__ import annotations

from decimal import Decimal

import pytest


def sample(number: int) -> str:
    return f"{number:064x}"


def one_winner(outcomes: list[str], reason: str) -> None:
    losers = [outcome for outcome in outcomes if outcome != "done"]
    assert len(losers) == len(outcomes) - 1, outcomes
    assert all(loser.startswith("AccountantRefused") and reason in loser for loser in losers), outcomes


def test_one_release_id_is_charged_once(books) -> None:
    books.add()
    attempts = [{"release_id": "same", "sample_id": sample(number)} for number in range(10)]
    one_winner(books.race(attempts), "in the ledger already")
    assert books.spent() == (books.price.epsilon, books.price.delta)
    assert books.kinds().count("release-refused/1") == 9
    assert books.findings() == []


def test_one_sample_serves_one_release(books) -> None:
    books.add()
    attempts = [{"release_id": f"r{number}", "sample_id": sample(7)} for number in range(10)]
    one_winner(books.race(attempts), "a sample serves one release")
    assert books.spent() == (books.price.epsilon, books.price.delta)
    assert books.findings() == []


def test_the_last_of_a_budget_is_spent_once(books) -> None:
    books.add(epsilon=books.price.epsilon + Decimal("0.01"))
    attempts = [{"release_id": f"r{number}", "sample_id": sample(number)} for number in range(10)]
    one_winner(books.race(attempts), "past the budget")
    assert books.spent() == (books.price.epsilon, books.price.delta)
    assert books.findings() == []


def test_a_survey_is_released_once_under_a_race(sqlite_books) -> None:
    sqlite_books.add(survey_rate=Decimal("0.05"))
    attempts = [{"release_id": f"r{number}", "sample_id": sample(number)} for number in range(10)]
    one_winner(sqlite_books.race(attempts), "can be released once")
    assert sqlite_books.findings() == []


def test_whole_releases_side_by_side_are_all_counted(books) -> None:
    books.add()
    attempts = [{"release_id": f"r{number}", "sample_id": sample(number)} for number in range(10)]
    assert books.race(attempts, steps=("charge", "reading", "publish")) == ["done"] * 10
    assert books.spent() == (10 * books.price.epsilon, 10 * books.price.delta)
    kinds = books.kinds()
    assert [kinds.count(f"release-{step}/1") for step in ("charged", "reading", "published")] == [10, 10, 10]
    assert books.findings() == []


def test_a_release_is_given_up_once_and_refunded_once(sqlite_books) -> None:
    sqlite_books.add()
    sqlite_books.charge("one")
    attempts = [{"release_id": "one", "sample_id": sample(1)}] * 10
    one_winner(sqlite_books.race(attempts, steps=("abandon",)), "abandoned")
    assert sqlite_books.spent() == (0, 0)
    assert sqlite_books.findings() == []


DEATHS = {
    "in-the-charge": (("die-in-charge",), None),
    "after-the-charge": (("charge", "die"), "charged"),
    "after-reading": (("charge", "reading", "die"), "reading"),
    "after-publication": (("charge", "reading", "publish", "die"), "published"),
    "after-giving-up": (("charge", "abandon", "die"), "abandoned"),
}


def test_killed_processes_leave_what_they_had_finished(books) -> None:
    """One process for each point of death, all at once; the next writer waits for none of them."""
    books.add()
    attempts = [
        {"release_id": name, "sample_id": sample(number), "steps": steps}
        for number, (name, (steps, _)) in enumerate(DEATHS.items())
    ]
    assert books.race(attempts) == ["killed"] * len(DEATHS)
    with books.reader() as reader:
        states = {name: reader.release(name) for name in DEATHS}
    for name, (_, stage) in DEATHS.items():
        assert (states[name].stage if states[name] else None) == stage
    assert books.spent() == (3 * books.price.epsilon, 3 * books.price.delta)
    with books.writer() as writer, books.reader() as reader:
        for name in ("after-the-charge", "after-reading"):
            receipt = reader.release(name).receipt
            writer.mark_reading(receipt)
            writer.mark_published(receipt, (("data.csv", "c" * 64),))
            assert reader.release(name).stage == "published"
    books.charge("in-the-charge")
    assert books.spent() == (4 * books.price.epsilon, 4 * books.price.delta)
    assert books.findings() == []


@pytest.mark.long
def test_many_attempts_over_shared_budgets(books) -> None:
    """16 processes, 50 times, over 40 ids and 40 samples: totals are exact and no refusal is lost."""
    books.add(epsilon=25 * books.price.epsilon)
    rounds = 50
    won = refused = 0
    for turn in range(rounds):
        attempts = [
            {"release_id": f"r{(turn + number) % 40}", "sample_id": sample((turn * 3 + number) % 40)}
            for number in range(16)
        ]
        outcomes = books.race(attempts)
        won += outcomes.count("done")
        refused += sum(outcome.startswith("AccountantRefused") for outcome in outcomes)
    assert won + refused == 16 * rounds
    assert books.spent()[0] == won * books.price.epsilon <= 25 * books.price.epsilon
    assert books.kinds().count("release-refused/1") == refused
    assert books.findings() == []
