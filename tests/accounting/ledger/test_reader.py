"""Who looks is told what the ledger says now, or said when a release was charged; and how much it may cost together."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import date
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey
from crowdblend.accounting.kernel.ledger.entries import DatasetUnit
from crowdblend.accounting.kernel.ledger.transactions import keep_snapshot
from crowdblend.accounting.kernel.prices.registry import mechanism_record, price
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.kinds.microdata_prices import composed_price_fixed
from crowdblend.accounting.ledger import budget_overview as overview
from crowdblend.accounting.ledger.budget_overview import composed_estimate
from crowdblend.accounting.ledger.charge_request import RECORDS
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from support.ledger_books import DAY, DELTA, FILES, MECHANISM, costs_of, request

ANSWER = CountAnswer(epsilon=Decimal("0.1"), relation="add/remove", groups=1, sampling_rate=None)


def test_a_look_counts_for_the_data_sets_later_releases_alone(sqlite_books) -> None:
    books, days = sqlite_books, (date(2026, 3, 5), date(2026, 3, 6))
    books.add(rows_per_person=1, unit=DatasetUnit(name="record", column=None))
    books.add("other")
    receipts = [books.charge("before")]
    for number, day in enumerate(days):
        books.writer().record_look(dataset="census", what="a utility report", by="me", day=day)
        receipts += [books.charge(f"after-{number}"), books.charge(f"elsewhere-{number}", dataset="other")]
    with books.reader() as reader:
        contexts = [reader.dataset_context(receipt) for receipt in receipts]
        assert [(known.position, known.look.day) for known in reader.private_looks()] == [(4, days[0]), (7, days[1])]
        with pytest.raises(InputRefused, match="dataset 'elsewhere': the ledger has no data set of this name"):
            reader.dataset_context(dataclasses.replace(receipts[0], dataset="elsewhere"))
    assert [context.look_days for context in contexts] == [(), days[:1], (), days, ()]
    assert (contexts[0].unit, contexts[0].rows_per_person, contexts[0].registered) == (RECORDS, 1, None)
    assert books.findings() == []


def test_what_a_release_of_a_series_is_certified_by_is_what_was_registered(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.add_filter("filtered")
    books.register("free", free_columns=True)
    books.register("filtered", dataset="filtered")
    free = books.writer().charge(books.of_series("one", name="free"))
    filtered = books.writer().charge(books.of_series("two", name="filtered", dataset="filtered"))
    with books.reader() as reader:
        assert dict(reader.dataset_context(free).registered) == mechanism_record(MECHANISM)
        context = reader.dataset_context(filtered)
        assert context.filter_charge == reader.series("filtered").registered.of_filter
        assert context.filter_budget.accounting.order == Decimal(37)
        shown = [repr(known) for known in (*reader.datasets(), reader.series("free"))]
    assert shown[0].startswith("DatasetState(name='census', epsilon_spent=0.2")
    assert shown[1].startswith("DatasetState(name='filtered', spent_share=0.")
    assert shown[2] == "SeriesState(series='free', taken=1, releases=3)"


def test_a_look_at_a_series_says_what_a_charge_would(sqlite_books) -> None:
    books, mixed = sqlite_books, MixedSeries(parts="1 x k=20,rate=0.1; 1 x k=50,rate=0.05")
    books.add()
    books.register(releases=1)
    books.register("free", free_columns=True)
    year = costs_of(mixed, releases=2)
    books.register("year", free_columns=True, unit=None, **year)
    books.writer().charge(books.of_series("one", name="year", **year | {"mechanism": MECHANISM, "part": 1}))
    rarer = dataclasses.replace(MECHANISM, k=50, sampling_rate=Decimal("0.05"))
    sound = {"dataset": "census", "spec_digest": "c" * 64, "mechanism": MECHANISM, "unit": RECORDS}
    for name, changes, told in (
        ("monthly", {}, None),
        ("monthly", {"spec_digest": "d" * 64}, "this specification differs"),
        ("monthly", {"unit": DatasetUnit(name="person", column="who")}, "the unit of all its releases is 'record'"),
        ("free", {"mechanism": rarer}, None),
        ("free", {"mechanism": dataclasses.replace(MECHANISM, k=19)}, "k = 19 is below the registered 20"),
        ("free", {"dataset": "other"}, "in more than columns, hierarchies, levels"),
        ("year", {"part": 1}, "all its 1 releases of part 1"),
        ("year", {"part": 2, "mechanism": rarer}, None),
        ("year", {"part": 2, "spec_digest": "d" * 64}, "another data set, another delta or another unit"),
    ):
        with books.reader() as reader:
            found = reader.look_at_series(name=name, **sound | changes)
        assert (found is None) if told is None else (told in found.what), (name, changes)
    books.writer().charge(books.of_series("two", releases=1))
    with books.reader() as reader:
        assert "all its 1 releases are taken" in reader.look_at_series(name="monthly", **sound).what
        with pytest.raises(InputRefused, match="no series of this name"):
            reader.look_at_series(name="weekly", **sound)
        with pytest.raises(InputRefused, match="no series of this name"):
            reader.series("weekly")
    of_survey = {"dataset": "survey", "releases": 1}
    books.add("survey", survey_rate=Decimal("0.1"))
    books.register("lone", **of_survey)
    asked = sound | {"name": "lone", "dataset": "survey"}
    with books.reader() as reader:
        assert reader.look_at_series(**asked) is None
    books.writer().charge(request("three", dataset="survey"))
    with books.reader() as reader:
        assert "is itself a sample, can be released once, and has been" in reader.look_at_series(**asked).what
    with pytest.raises(InputRefused, match="dataset add"):
        books.look("unknown")
    with pytest.raises(AccountantRefused, match="3 records"):
        books.look(price=price(MECHANISM, delta=DELTA, rows_per_person=3))


def test_releases_that_are_charged_and_not_ended_are_open(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.register(releases=5)
    charges = {name: books.of_series(name, releases=5) for name in ("published", "reading", "refunded", "charged")}
    receipts = {name: books.writer().charge(charge) for name, charge in charges.items()}
    books.charge("alone")
    with books.writer() as writer:
        for name in ("published", "reading"):
            writer.mark_reading(receipts[name])
        writer.mark_published(receipts["published"], FILES)
    books.abandon("refunded")
    with books.reader() as reader:
        found = reader.open_releases(series="monthly")
        assert [(state.release_id, state.stage) for state in found] == [("reading", "reading"), ("charged", "charged")]
        assert [state.release_id for state in reader.open_releases(dataset="census")] == ["reading", "charged", "alone"]
        assert reader.open_releases(series="other") == ()
        assert reader.last_published_of_series("monthly") == "published"
        assert reader.last_published_of_series("other") is None


def test_what_a_steward_records_is_there(sqlite_books) -> None:
    books, home = sqlite_books, DatasetUnit(name="household", column="home")
    books.add(epsilon=books.price.epsilon)
    books.add_filter("homes", unit=home)
    books.charge("one")
    with books.writer() as writer, books.reader() as reader:
        raised = {"epsilon": 2 * books.price.epsilon, "delta": Decimal("0.001"), "reason": "decided by the board"}
        writer.raise_budget(name="census", **raised, by="steward", day=DAY)
        writer.record_refusal(release_id="two", dataset="census", cause="spec-changed", reason="changed.", day=DAY)
        with pytest.raises(InputRefused, match="no such release"):
            writer.abandon(release_id="two", reason="why", by="me", day=DAY)
        assert [(position, entry.reason) for position, entry in reader.budget_raises()] == [(4, "decided by the board")]
        assert (reader.dataset("homes").unit, reader.dataset("homes").filter_budget.unit) == (home, home)
    books.charge("two")
    assert books.kinds()[2:] == [
        "dataset-added/4",
        "release-charged/1",
        "budget-raised/1",
        "release-refused/1",
        "release-charged/1",
    ]
    assert books.findings() == []


def test_what_a_snapshot_says_of_a_release_is_held_against_its_entries(sqlite_books) -> None:
    """A stranger has signed that it is published; the state doesn't follow from the entries."""
    books = sqlite_books
    books.add()
    books.charge("one")
    state = books.state()
    added = books.raw(lambda one: one.exec_driver_sql("SELECT hash FROM entry WHERE position = 1").scalar())
    state.releases["one"] = state.releases["one"]._replace(stage="published", closed=1, closing=added)
    books.raw(lambda connection: keep_snapshot(connection, state, SigningKey(seed=b"\x09" * 32)))
    with books.reader() as reader, pytest.raises(AccountantRefused, match="the entries of release 'one' are not what"):
        reader.releases()


def test_a_state_that_others_signed_is_refused_where_the_private_store_has_the_ledgers_anchor(books, tmp_path) -> None:
    books.add()
    books.charge("one")
    state = books.state()
    state.datasets["census"].account = dataclasses.replace(state.datasets["census"].account, epsilon_spent=Decimal(0))
    books.raw(lambda connection: keep_snapshot(connection, state, SigningKey(seed=b"\x09" * 32)))
    ways = (
        lambda reader: reader.datasets(),
        lambda reader: reader.releases(),
        lambda reader: reader.release("one"),
        lambda reader: reader.overview(latest=5),
        lambda reader: reader.overview(latest=None),
    )
    with open_reader(books.url, anchoring=books.anchoring) as reader:
        for look in ways:
            with pytest.raises(AccountantRefused, match=r"entry, 2, is signed by .*isn't of this private store"):
                look(reader)
    # Whoever has no anchor of the ledger knows no key that must have signed it.
    for stranger in (None, Anchoring(home=tmp_path / "other", file=None)):
        with open_reader(books.url, anchoring=stranger) as reader:
            assert [one.account.epsilon_spent for one in reader.datasets()] == [0]


def test_no_entry_is_given_of_a_chain_in_which_one_was_changed(books, forge_past_guards) -> None:
    books.add()
    books.charge("one")
    with books.reader() as reader:
        assert len(list(reader.entries())) == 3
    forge_past_guards(books, "UPDATE entry SET body = replace(body, 'census', 'Census') WHERE position = 2")
    with books.reader() as reader:
        given = reader.entries()
        with pytest.raises(AccountantRefused, match="entry 2 is not the one that the signed head binds"):
            next(given)


def test_what_can_not_be_read_is_told_by_its_place(sqlite_books, forge_past_guards) -> None:
    books = sqlite_books
    books.add()
    forge_past_guards(books, "UPDATE entry SET body = 'ü' WHERE position = 1")
    with books.reader() as reader, pytest.raises(AccountantRefused, match=r"entry 1 is not the one.*ledger verify"):
        list(reader.entries())
    forge_past_guards(books, "UPDATE entry SET body = '{}' WHERE position = 0")
    with books.reader() as reader, pytest.raises(ReleaseFailed, match=r"first entry is damaged.*ledger verify"):
        _ = reader.ledger_id


def test_an_address_is_shown_without_its_password(postgresql_books) -> None:
    with open_reader(postgresql_books.url.replace("postgres@", "postgres:sesame-7@")) as reader:
        assert "sesame-7" not in reader.shown
        assert reader.shown.startswith("postgresql")


def estimate(books, name: str = "census") -> Decimal | None:
    with books.reader() as reader:
        [estimated] = [one.epsilon_estimate for one in reader.overview(latest=None).datasets if one.state.name == name]
        return estimated


@pytest.mark.slow
def test_the_estimate_composes_what_was_charged_and_not_given_back(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.add("other")
    assert estimate(books) == 0
    books.charge("one")
    assert estimate(books) == books.spent()[0]
    for number in range(11):
        books.charge(f"more-{number}")
    books.charge("given-back")
    books.abandon("given-back")
    books.charge("of-another", dataset="other")
    books.register("of-another", dataset="other", releases=12)
    together = composed_price_fixed(MECHANISM, delta=12 * DELTA, releases=12)
    assert abs(estimate(books) - together.epsilon) < Decimal("1e-6")
    assert estimate(books) < books.spent()[0] / 4
    before = estimate(books, "other")
    books.writer().charge(books.of_series("place", name="of-another", releases=12, dataset="other"))
    assert estimate(books, "other") == before  # a series counts whole, from its registration
    together = composed_price_fixed(MECHANISM, delta=2 * DELTA, releases=13)
    assert abs(before - together.epsilon) < Decimal("1e-6")


TOO_LARGE = (("epsilon", "1E+400"), ("groups", 1), ("kind", "count-answer/1"), ("relation", "add/remove"))


def test_the_estimate_is_no_obstacle_where_it_can_not_be_had(sqlite_books, monkeypatch) -> None:
    books = sqlite_books
    books.add()
    books.charge("one")
    with books.reader() as reader:
        account = reader.dataset("census").account
    known = books.request().entry.mechanism
    for mechanism in ((("kind", "something-else/7"),), (*TOO_LARGE, ("sampling_rate", "0.1"))):
        assert composed_estimate(Counter([mechanism]), account=account, rows_per_person=1) is None
    assert composed_estimate(Counter([known]), account=account, rows_per_person=2) is None
    assert composed_estimate(Counter([known]), account=account, rows_per_person=1) is not None
    monkeypatch.setattr(overview, "MOST_WORK", 0)
    assert composed_estimate(Counter([known]), account=account, rows_per_person=1) is None


@pytest.mark.slow
def test_the_work_at_a_glance_goes_to_the_smallest_first(sqlite_books, monkeypatch) -> None:
    """Work is different mechanisms times their runs; asked for all, all have their estimates."""
    books = sqlite_books
    for name, count in (("a-large", 5), ("b-small", 2), ("c-empty", 0), ("d-mixed", 1)):
        books.add(name)
        for number in range(count):
            books.charge(f"{name}-{number}", dataset=name)
    books.charge("two", dataset="d-mixed", **costs_of(ANSWER, delta=Decimal(0)))
    every = ["a-large", "b-small", "c-empty", "d-mixed"]
    for work, names in (
        (0, every[2:3]),
        (1, every[2:3]),
        (2, every[1:3]),
        (5, every[1:3]),
        (6, every[1:]),
        (11, every),
    ):
        monkeypatch.setattr(overview, "MOST_WORK_AT_A_GLANCE", work)
        for latest, expected in ((3, names), (None, every)):
            with books.reader() as reader:
                seen = reader.overview(latest=latest)
            assert [known.state.name for known in seen.datasets] == every
            estimates = {known.state.name: known.epsilon_estimate for known in seen.datasets}
            assert [name for name, found in estimates.items() if found is not None] == expected, work
            assert len(seen.releases) == (9 if latest is None else 3)
