"""The ledger's rules each by itself: what a series has paid for, and which steps a release's stage allows."""

from __future__ import annotations

import dataclasses
from datetime import date
from decimal import Decimal

import pytest
from crowdblend.accounting.ledger.chain.append import standing
from crowdblend.accounting.ledger.database.store import open_store
from crowdblend.accounting.ledger.entries.kinds import DatasetAdded, ReleaseAbandoned, ReleasePublished, ReleaseReading
from crowdblend.accounting.ledger.rules.audit import Replay
from crowdblend.accounting.ledger.rules.rule import StoredState, Violation, unknown
from crowdblend.accounting.ledger.rules.series import unpaid_parts
from crowdblend.accounting.ledger.rules.violations import violations
from crowdblend.mechanisms.errors import AccountantRefused, InputRefused

CHANGES = {
    "data set": ("dataset", ["a-other", "z-other"]),
    "mechanism": ("mechanism", [(), (("kind", "zzz"),)]),
    "generalization map": ("map_digest", ["0" * 64, "f" * 64]),
}


@pytest.fixture
def paid(books):
    """A release's charge, and the series that pays for it."""
    books.add()
    books.register()
    books.writer().charge(books.of_series("one"))
    with books.reader() as reader:
        return reader.release("one").charge, reader.series("monthly").registered


def test_a_release_of_the_series_is_paid_for(paid) -> None:
    assert unpaid_parts(*paid) == ()


@pytest.mark.parametrize("part", CHANGES)
def test_whatever_differs_is_told(paid, part) -> None:
    charge, registered = paid
    field, values = CHANGES[part]
    for value in values:
        assert unpaid_parts(dataclasses.replace(charge, **{field: value}), registered) == (part,)


def test_another_price_is_told_and_an_equal_one_is_not(paid) -> None:
    charge, registered = paid
    for factor in (2, "0.5"):
        epsilon = charge.price.epsilon * type(charge.price.epsilon)(factor)
        price = dataclasses.replace(charge.price, epsilon=epsilon)
        assert unpaid_parts(dataclasses.replace(charge, price=price), registered) == ("price",)
    equal = dataclasses.replace(charge.price)
    assert unpaid_parts(dataclasses.replace(charge, price=equal), registered) == ()


def test_another_specification_is_told_and_none_at_all_too(paid) -> None:
    charge, registered = paid
    assert charge.series is not None
    for digest in ("0" * 64, "f" * 64):
        place = dataclasses.replace(charge.series, spec_digest=digest)
        assert unpaid_parts(dataclasses.replace(charge, series=place), registered) == ("specification",)
    alone = dataclasses.replace(charge, series=None, price=dataclasses.replace(charge.price, releases=1))
    assert unpaid_parts(alone, registered) == ("price", "specification")


def test_another_specification_is_what_is_told_where_nothing_else_differs(paid, books) -> None:
    charge, _ = paid
    replay, faults = replayed(books)
    assert faults == ()
    assert charge.series is not None
    place = dataclasses.replace(charge.series, number=2, spec_digest="0" * 64)
    other = dataclasses.replace(charge, release_id="two", sample_id="5" * 64, series=place)
    [told] = violations(other, replay)
    assert "this specification differs" in told.what
    [told] = violations(dataclasses.replace(other, map_digest="0" * 64), replay)
    assert "another generalization map and another specification" in told.what


STEPS = {
    "reading": ReleaseReading(release_id="one"),
    "published": ReleasePublished(release_id="one", output_hashes=(("data.csv", "c" * 64),)),
    "abandoned": ReleaseAbandoned(release_id="one", reason="why", refunded=False, by="me", day=date(2026, 3, 4)),
    "refunded": ReleaseAbandoned(release_id="one", reason="why", refunded=True, by="me", day=date(2026, 3, 4)),
}
ALLOWED = {"charged": {"reading", "refunded"}, "reading": {"published", "abandoned"}}


@pytest.mark.parametrize("stage", ["charged", "reading", "published", "abandoned", "refunded"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_a_stage_does_not_allow_is_refused_and_what_can_be_done_is_said(books, stage, step) -> None:
    books.add()
    books.charge("one")
    replay, _ = replayed(books)
    before = {"charged": (), "refunded": ("refunded",)}.get(stage, ("reading", stage)[: 1 + (stage != "reading")])
    for passed in before:
        assert replay.apply(STEPS[passed], position=replay.position + 1) == ()
    replay.position += 1
    refusals = [violation.refusal for violation in violations(STEPS[step], replay)]
    assert (refusals == []) is (step in ALLOWED.get(stage, ()))
    for refusal in refusals:
        assert isinstance(refusal, AccountantRefused)
        assert refusal.where == "release 'one'"
        told = "nothing was read" if stage == "charged" else "can't change any more"
        assert told in refusal.what


@pytest.mark.parametrize(("used_up", "told"), [("epsilon", "δ"), ("delta", "ε")])
def test_of_two_budgets_only_the_one_that_is_exceeded_is_told(books, used_up, told) -> None:
    """The other one would be used up to its last digit, which is allowed."""
    part = {"epsilon": books.price.delta, "delta": books.price.epsilon}[used_up] / 2
    exact = {name: getattr(books.price, name) for name in ("epsilon", "delta")}
    other = "delta" if used_up == "epsilon" else "epsilon"
    books.add(**{used_up: exact[used_up], other: part})
    with pytest.raises(AccountantRefused) as refused:
        books.charge("one")
    assert f"would bring {told} from 0 to" in refused.value.message
    assert " and " not in refused.value.message.split("would bring")[1].split(".")[0]


def test_a_replay_finds_a_price_that_holds_for_another_relation(books) -> None:
    books.add()
    books.charge("one")
    with books.reader() as reader:
        entries = [(recorded.position, recorded.entry) for recorded in reader.entries()]
    for relation, told in (("add/remove", ()), ("replacement", ("different neighbouring relations",))):
        replay = Replay()
        faults = [
            fault
            for place, entry in entries
            for fault in replay.apply(
                dataclasses.replace(entry, relation=relation) if isinstance(entry, DatasetAdded) else entry,
                position=place,
            )
        ]
        assert len(faults) == len(told)
        assert all(expected in fault for expected, fault in zip(told, faults, strict=True))


def replayed(books, *, changed=lambda entry: entry) -> tuple[Replay, tuple[str, ...]]:
    """A replay of the whole ledger, its entries changed before, and the faults found on the way."""
    replay = Replay()
    with books.reader() as reader:
        entries = [(recorded.position, changed(recorded.entry)) for recorded in reader.entries()]
    return replay, tuple(fault for place, entry in entries for fault in replay.apply(entry, position=place))


def test_a_replay_finds_a_sample_that_serves_a_second_release(books) -> None:
    books.add()
    books.charge("one")
    replay, faults = replayed(books)
    assert faults == ()
    second = books.request("two", sample_id=books.request("one").sample_id).entry
    assert replay.apply(second, position=3) == ("its sample was used by release 'one'",)
    third = books.request("three").entry
    assert replay.apply(third, position=4) == ()


def test_a_replay_finds_a_place_in_a_series_that_is_taken_twice(paid, books) -> None:
    charge, _ = paid
    replay, faults = replayed(books)
    assert faults == ()
    second = dataclasses.replace(charge, release_id="two", sample_id="5" * 64)
    assert replay.apply(second, position=5) == ("release 'one' has this place in series 'monthly'",)


@pytest.mark.parametrize("releases", [2, 3])
def test_a_replay_finds_a_series_over_what_is_itself_a_sample(books, releases) -> None:
    books.add()
    books.register(releases=releases)

    def sampled(entry):
        return dataclasses.replace(entry, survey_rate=Decimal("0.05")) if isinstance(entry, DatasetAdded) else entry

    assert replayed(books)[1] == ()
    assert "dataset 'census' is itself a sample and has a series" in replayed(books, changed=sampled)[1]


def test_a_replay_finds_a_charge_to_a_data_set_that_is_not_there_and_nothing_else(books) -> None:
    books.add()
    replay = Replay()
    with books.reader() as reader:
        [first, _] = reader.entries()
    assert replay.apply(first.entry, position=0) == ()
    faults = replay.apply(books.request("one").entry, position=1)
    assert faults == ("dataset 'census' is not in the ledger", "the entry follows from none before it")


def test_a_receipt_names_one_sample_for_good(books) -> None:
    books.add()
    receipt = books.charge("one")
    with pytest.raises(dataclasses.FrozenInstanceError):
        receipt.sample_id = "5" * 64


@pytest.mark.parametrize(
    ("of", "fault", "what"),
    [
        ("dataset", "dataset 'x' is not in the ledger", "the ledger has no data set of this name."),
        (
            "series",
            "series 'x' has not paid for this release: nothing of that name",
            "the ledger has no series of this name.",
        ),
        ("release", "release 'x' was never charged", "the ledger has no such release."),
        ("token", "token x was never added", "there is no such token, or it was revoked before."),
    ],
)
def test_what_a_ledger_lacks_is_the_callers_mistake(of, fault, what) -> None:
    found = unknown(of, "x")
    assert (found.fault, found.what, found.where) == (fault, what, f"{of} 'x'")
    assert (found.mistake, found.lacking, found.cause) == (True, True, "")
    assert type(found.refusal) is InputRefused
    assert (found.refusal.what, found.refusal.where, found.refusal.remedy) == (what, f"{of} 'x'", found.remedy)


def test_a_broken_rule_is_a_refusal_by_the_accountant_whose_remedy_is_computed_when_asked_for() -> None:
    asked = []
    broken = Violation(what="No.", where="here", remedy=lambda: asked.append(1) or "Wait.", cause="over-budget")
    assert (broken.fault, broken.mistake, broken.lacking, asked) == ("", False, False, [])
    refusal = broken.refusal
    assert type(refusal) is AccountantRefused
    assert (refusal.what, refusal.where, refusal.remedy, refusal.cause) == ("No.", "here", "Wait.", "over-budget")
    assert asked == [1]


def test_what_is_asked_of_a_stored_ledger_in_one_transaction(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.register()
    first = books.writer().charge(books.of_series("first"))
    books.charge("alone")
    assert books.abandon("first")
    books.writer().charge(books.of_series("second"))
    store = open_store(books.url, anchoring=None)
    with store.looking() as connection:
        state = StoredState(connection)
        assert state.position == len(books.kinds())
        assert (state.dataset("none"), state.account("none"), state.series("none")) == (None,) * 3
        assert state.dataset("census") is state.dataset("census")
        assert state.account("census").sequence == 2
        assert state.series("monthly").series == "monthly"
        places = [(state.turn("monthly", number), state.holder("monthly", number)) for number in (1, 2, 3)]
        assert places == [(1, None), (1, "second"), (0, None)]
        assert state.release("alone") is state.release("alone")
        paid = state.payment("alone")
        assert (paid.dataset, paid.series, paid.of_filter) == ("census", None, None)
        assert (paid.price, paid.mechanism) == (state.release("alone").charge.price, state.series("monthly").mechanism)
        assert state.payment("second").series == "monthly"
        assert standing(paid, 1) == {("released", "census"): 1}
        assert standing(state.payment("second"), -1) == {("released", "census"): -1, ("held", "monthly"): -1}
        assert (state.payment("none"), state.outcomes("none"), state.release_of_sample("0" * 64)) == (None, set(), None)
        assert state.outcomes("first") == {"charged", "refunded"}
        assert state.outcomes("alone") == {"charged"}
        assert state.release_of_sample(first.sample_id) == "first"
        assert state.standing("census", exclusive=False) in {"alone", "second"}
        assert state.standing("census", exclusive=True) is None
        assert state.revoked("0" * 16) is None
    for release_id in ("third", "fourth"):
        books.writer().charge(books.of_series(release_id))
    with store.looking() as connection:
        state = StoredState(connection)
        assert (state.turn("monthly", 1), state.holder("monthly", 1)) == (2, "fourth")
    store.close()
