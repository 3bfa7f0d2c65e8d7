"""A series is paid for whole and once; it has its releases, each in one place, and not one more."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.ledger import writer as ledger_writer
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState, Series
from crowdblend.accounting.kernel.ledger.transactions import Look
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease


def test_a_series_is_paid_at_registration_and_its_releases_cost_nothing_more(books) -> None:
    books.add()
    registered = books.register(releases=3)
    paid = (registered.price.epsilon, registered.price.delta)
    assert books.price.epsilon < paid[0] < 3 * books.price.epsilon
    assert books.spent() == paid
    for number in range(3):
        assert books.series().remaining == 3 - number
        books.writer().charge(books.of_series(f"r{number}"))
        assert books.number(f"r{number}") == number + 1
    assert books.spent() == paid
    with pytest.raises(AccountantRefused, match="all its 3 releases are taken"):
        books.writer().charge(books.of_series("r3"))
    assert books.kinds()[-1] == "release-refused/1"
    assert books.spent() == paid
    assert books.series().remaining == 0
    assert books.findings() == []


@pytest.mark.slow
def test_a_series_over_the_budget_is_refused_and_recorded(books) -> None:
    books.add(epsilon=2 * books.price.epsilon)
    with pytest.raises(AccountantRefused, match=r"this series of 365 releases would bring ε from 0 to 1\.938"):
        books.register(releases=365)
    assert books.kinds()[-1] == "release-refused/1"
    assert books.spent() == (0, 0)
    books.register(releases=3)
    assert books.findings() == []


def test_a_series_name_is_used_once(books) -> None:
    books.add()
    books.add("other")
    books.register()
    before = books.kinds()
    for dataset in ("census", "other"):
        with pytest.raises(InputRefused, match="already"):
            books.register(dataset=dataset)
    for name in ("", " x", "a/b", "a b", "-a", "x" * 101):
        with pytest.raises(InputRefused, match="name"):
            books.register(name)
    with pytest.raises(InputRefused, match="no data set"):
        books.register("new", dataset="unknown")
    assert books.kinds() == before


def test_a_release_of_no_series_is_the_callers_mistake(books) -> None:
    books.add()
    with pytest.raises(InputRefused, match="no series of this name"):
        books.writer().charge(books.of_series("one"))
    with books.reader() as reader, pytest.raises(InputRefused, match="no series of this name"):
        reader.series("monthly")


def test_a_series_that_is_gone_by_the_time_of_the_charge_pays_for_nothing(sqlite_books, monkeypatch) -> None:
    """Such as in a ledger that was put back between the look and the charge."""
    books = sqlite_books
    books.add()
    before = LedgerState(series={"monthly": Series(registered=books.registration().entry, position=1)})
    monkeypatch.setattr(ledger_writer, "looking", lambda _: nullcontext(Look(connection=None, state=before)))
    with pytest.raises(InputRefused, match="no series of this name"):
        books.writer().charge(books.of_series("one"))
    assert "release-charged/1" not in books.kinds()
    assert books.spent() == (0, 0)


def test_a_series_shows_its_name_and_what_is_taken_of_it(sqlite_books) -> None:
    sqlite_books.add()
    sqlite_books.register(releases=3)
    assert repr(sqlite_books.series()) == "SeriesState(series='monthly', taken=0, releases=3)"


def test_a_series_of_one_mechanism_has_no_parts(sqlite_books) -> None:
    series = Series(registered=sqlite_books.registration(releases=3).entry, position=1)
    assert list(series.places(None)) == [1, 2, 3]
    with pytest.raises(ValueError, match="no parts"):
        series.places(1)


def test_a_series_pays_for_what_was_registered_alone(books) -> None:
    books.add()
    books.add("other")
    registered = books.register()
    sound = books.of_series("one")
    more = StronglySafeRelease(k=19, sampling_rate=Decimal("0.1"))
    cheaper = dataclasses.replace(registered.price, epsilon=registered.price.epsilon / 2)
    for change in (
        {"dataset": "other"},
        {"mechanism": more},
        {"map_digest": "d" * 64},
        {"price": cheaper},
        {"price": books.price},
        {"series_digest": "d" * 64},
    ):
        with pytest.raises(AccountantRefused):
            books.writer().charge(dataclasses.replace(sound, **change))
        assert books.kinds()[-1] == "release-refused/1"
    assert books.series().taken == 0
    books.writer().charge(sound)
    assert books.findings() == []


def test_a_forged_price_or_a_survey_gets_no_series(books) -> None:
    books.add()
    books.add("survey", survey_rate=Decimal("0.05"))
    books.add("many", rows_per_person=2)
    with pytest.raises(AccountantRefused, match="its mechanism's is"):
        books.register(price=dataclasses.replace(books.price, releases=3))
    with pytest.raises(AccountantRefused, match="can have no series"):
        books.register(dataset="survey")
    with pytest.raises(
        AccountantRefused, match=r"at most 2 records of a person in a delivery, and this price covers one record\."
    ):
        books.register(dataset="many")
    assert books.kinds()[-3:] == ["release-refused/1"] * 3
    assert books.findings() == []


@pytest.mark.slow
def test_an_unread_release_gives_its_place_back_and_a_read_one_keeps_it(books) -> None:
    books.add()
    registered = books.register(releases=2)
    for release_id in ("unread", "read"):
        books.writer().charge(books.of_series(release_id, releases=2))
    with books.reader() as reader, books.writer() as writer:
        writer.mark_reading(reader.release("read").receipt)
    assert books.abandon("read") is False
    assert books.series().remaining == 0
    for turn in range(2):
        assert books.abandon("unread" if turn == 0 else f"again-{turn - 1}") is True
        assert books.series().remaining == 1
        books.writer().charge(books.of_series(f"again-{turn}", releases=2))
        assert books.number(f"again-{turn}") == 1
    with pytest.raises(AccountantRefused, match="taken"):
        books.writer().charge(books.of_series("more", releases=2))
    assert books.spent() == (registered.price.epsilon, registered.price.delta)
    assert books.findings() == []


def test_new_places_are_used_before_those_that_were_given_back(books) -> None:
    books.add()
    books.register(releases=3)
    numbers = []
    for number in range(4):
        books.writer().charge(books.of_series(f"r{number}"))
        numbers.append(books.number(f"r{number}"))
        if number == 0:
            books.abandon("r0")
    assert numbers == [1, 2, 3, 1]
    assert books.findings() == []


def test_releases_that_are_charged_and_not_ended_are_open(books) -> None:
    books.add()
    books.register(releases=5)
    for release_id in ("published", "reading", "refunded", "charged"):
        books.writer().charge(books.of_series(release_id, releases=5))
    with books.reader() as reader, books.writer() as writer:
        for release_id in ("published", "reading"):
            writer.mark_reading(reader.release(release_id).receipt)
        writer.mark_published(reader.release("published").receipt, (("data.parquet", "0" * 64),))
    books.abandon("refunded")
    with books.reader() as reader:
        found = reader.open_releases(series="monthly")
        assert [(state.release_id, state.stage) for state in found] == [("reading", "reading"), ("charged", "charged")]
        assert reader.open_releases(series="other") == ()


def test_a_series_of_one_is_a_release_that_is_paid_beforehand(books) -> None:
    books.add()
    assert books.register("once", releases=1).price == books.price
    books.writer().charge(books.of_series("one", name="once", releases=1))
    with pytest.raises(AccountantRefused, match="taken"):
        books.writer().charge(books.of_series("two", name="once", releases=1))
    assert books.findings() == []


@pytest.mark.slow
def test_ten_processes_get_the_last_places_of_a_series(books) -> None:
    books.add()
    registered = books.register(releases=3)
    books.writer().charge(books.of_series("first"))
    attempts = [
        {"release_id": f"r{number}", "sample_id": f"{number:064x}", "series": "monthly"} for number in range(10)
    ]
    outcomes = books.race(attempts, releases=3)
    assert outcomes.count("done") == 2, outcomes
    assert sum("all its 3 releases are taken" in outcome for outcome in outcomes) == 8, outcomes
    assert books.kinds().count("release-refused/1") == 8
    assert sorted(books.number(f"r{number}") for number, outcome in enumerate(outcomes) if outcome == "done") == [2, 3]
    assert books.spent() == (registered.price.epsilon, registered.price.delta)
    assert books.findings() == []


@pytest.mark.slow
def test_one_release_id_takes_one_place(books) -> None:
    books.add()
    books.register(releases=3)
    attempts = [{"release_id": "same", "sample_id": f"{number:064x}", "series": "monthly"} for number in range(10)]
    assert books.race(attempts, releases=3).count("done") == 1
    assert books.series().remaining == 2
    assert books.findings() == []
