"""Many processes at one moment: exactly one wins what there is once, and the others are told why."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

PROCESSES = 16


def sample(number: int) -> str:
    return f"{number:064x}"


def one_winner(outcomes: list[str], reason: str) -> None:
    losers = [outcome for outcome in outcomes if outcome != "done"]
    assert len(losers) == len(outcomes) - 1, outcomes
    assert all(loser.startswith("AccountantRefused") and reason in loser for loser in losers), outcomes


@pytest.mark.slow
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


@pytest.mark.slow
def test_one_sample_serves_one_release_of_whatever_kind(books) -> None:
    """Microdata, histograms and answers race for one sample; whichever wins, the others are refused."""
    books.add()
    kinds = [{}, {"kind": "histogram"}, {"kind": "answer"}] * 3
    attempts = [{"release_id": f"r{number}", "sample_id": sample(7)} | kind for number, kind in enumerate(kinds)]
    one_winner(books.race(attempts), "a sample serves one release")
    assert books.findings() == []


def test_the_last_of_a_budget_is_spent_once(books) -> None:
    books.add(epsilon=books.price.epsilon + Decimal("0.01"))
    attempts = [{"release_id": f"r{number}", "sample_id": sample(number)} for number in range(PROCESSES)]
    one_winner(books.race(attempts), "past the budget")
    assert books.spent() == (books.price.epsilon, books.price.delta)
    assert books.findings() == []


@pytest.mark.slow
def test_the_last_of_a_filter_budget_is_spent_once(books) -> None:
    """A budget in which one release has room and a half; and then in which none has."""
    books.add_room_for(Decimal("1.5"))
    attempts = [{"release_id": f"r{number}", "sample_id": sample(number)} for number in range(PROCESSES)]
    one_winner(books.race(attempts), "past the budget")
    with books.reader() as reader:
        account = reader.dataset("census").account
        [charged] = [release.charge for release in reader.releases()]
    assert (account.epsilon_spent, account.delta_spent) == books.spent()
    assert books.spent() == (charged.of_filter.divergence, charged.of_filter.tail)
    assert account.within_budget
    assert books.kinds().count("release-refused/1") == PROCESSES - 1
    later = [{"release_id": f"later{number}", "sample_id": sample(100 + number)} for number in range(2)]
    outcomes = books.race(later)
    assert all("past the budget" in outcome for outcome in outcomes), outcomes
    assert books.findings() == []


@pytest.mark.slow
def test_a_survey_is_released_once_under_a_race(sqlite_books) -> None:
    sqlite_books.add(survey_rate=Decimal("0.05"))
    attempts = [{"release_id": f"r{number}", "sample_id": sample(number)} for number in range(10)]
    one_winner(sqlite_books.race(attempts), "can be released once")
    assert sqlite_books.findings() == []


@pytest.mark.slow
def test_ten_processes_get_the_last_places_of_a_series(books) -> None:
    books.add()
    registered = books.register(releases=3)
    books.writer().charge(books.of_series("first"))
    attempts = [{"release_id": f"r{number}", "sample_id": sample(number), "series": "monthly"} for number in range(10)]
    outcomes = books.race(attempts, releases=3)
    assert outcomes.count("done") == 2, outcomes
    assert sum("all its 3 releases are taken" in outcome for outcome in outcomes) == 8, outcomes
    assert books.kinds().count("release-refused/1") == 8
    assert sorted(books.number(f"r{number}") for number, outcome in enumerate(outcomes) if outcome == "done") == [2, 3]
    assert books.spent() == (registered.price.epsilon, registered.price.delta)
    assert books.findings() == []


@pytest.mark.slow
def test_counts_win_or_lose_a_race_against_everything_else(books) -> None:
    """Either the counts are charged and nothing else, or the others are and not the counts."""
    books.add("phones", relation="replacement", epsilon=Decimal(100))
    kinds = ["counts", "reports"] * 5
    attempts = [
        {"release_id": f"r{number}", "sample_id": sample(number), "dataset": "phones", "kind": kind}
        for number, kind in enumerate(kinds)
    ]
    outcomes = books.race(attempts)
    done = {kind for kind, outcome in zip(kinds, outcomes, strict=True) if outcome == "done"}
    assert len(done) == 1, outcomes
    assert outcomes.count("done") == (1 if done == {"counts"} else 5), outcomes
    assert books.findings() == []


@pytest.mark.slow
def test_whole_releases_side_by_side_are_all_counted(books) -> None:
    books.add()
    attempts = [{"release_id": f"r{number}", "sample_id": sample(number)} for number in range(10)]
    assert books.race(attempts, steps=("charge", "reading", "publish")) == ["done"] * 10
    assert books.spent() == (10 * books.price.epsilon, 10 * books.price.delta)
    kinds = books.kinds()
    assert [kinds.count(f"release-{step}/1") for step in ("charged", "reading", "published")] == [10, 10, 10]
    assert books.findings() == []


@pytest.mark.slow
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


@pytest.mark.slow
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


def crowd(count: int) -> list[dict[str, str]]:
    """Attempts that share ids, samples, budgets and places: no two of them agree on everything."""
    attempts = []
    for number in range(count):
        attempt = {
            "release_id": f"r{number * 7 % (count // 4)}",
            "sample_id": sample(number * 11 % (count // 3)),
            "dataset": ("census", "other", "third")[number % 3],
        }
        if number % 9 == 0:
            attempt["series"] = "monthly"
        attempts.append(attempt)
    return attempts


def check_totals(books, attempts: list[dict[str, str]], outcomes: list[str]) -> None:
    """What the processes were told is what the ledger holds, to the last refusal."""
    done = [attempt for attempt, outcome in zip(attempts, outcomes, strict=True) if outcome == "done"]
    refused = [outcome for outcome in outcomes if outcome != "done"]
    assert all(outcome.startswith("AccountantRefused") for outcome in refused)
    assert not any("other writers held" in outcome for outcome in refused)
    assert {"release id is in the ledger", "a sample serves one", "past the budget", "releases are taken"} == {
        reason
        for reason in ("release id is in the ledger", "a sample serves one", "past the budget", "releases are taken")
        if any(reason in outcome for outcome in refused)
    }
    kinds = books.kinds()
    assert kinds.count("release-charged/1") == len(done)
    assert kinds.count("release-refused/1") == len(refused)
    assert len(done) == len({attempt["release_id"] for attempt in done}) == len({one["sample_id"] for one in done})
    reserved = books.series().registered.price
    for name in ("census", "other", "third"):
        alone = sum(attempt["dataset"] == name and "series" not in attempt for attempt in done)
        first = name == "census"
        assert books.spent(name) == (
            alone * books.price.epsilon + first * reserved.epsilon,
            alone * books.price.delta + first * reserved.delta,
        )
        with books.reader() as reader:
            assert all(state.account.within_budget for state in reader.datasets())
    assert books.series().taken == sum("series" in attempt for attempt in done) == reserved.releases
    assert books.findings() == []
    with books.reader() as reader:
        anchor = books.anchoring.anchor_of(reader.ledger_id).path
        check = reader.verify_anchor(anchor, trusted=books.anchoring.keys.public_keys())
    assert check.findings == ()
    assert not any("not anchored" in what for what in check.unchecked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("books", "each"),
    [
        pytest.param(database, each, marks=() if (database, each) == ("sqlite", 20) else pytest.mark.long)
        for database in ("sqlite", "postgresql")
        for each in (20, 200)
    ],
    indirect=["books"],
)
def test_sixteen_processes_over_shared_budgets_samples_and_ids(books, each) -> None:
    """Totals are exact, no budget is passed, no refusal is lost, and nobody waits for ever."""
    attempts = crowd(PROCESSES * each)
    for name in ("census", "other", "third"):
        books.add(name, epsilon=(each // 2) * books.price.epsilon + Decimal(3))
    books.register(releases=each // 4)
    begun = time.perf_counter()
    outcomes = books.race(attempts, releases=each // 4, processes=PROCESSES)
    seconds = time.perf_counter() - begun
    print(
        f"{len(attempts)} attempts by {PROCESSES} processes in {seconds:.1f} s: {len(attempts) / seconds:.0f} a second"
    )
    check_totals(books, attempts, outcomes)
