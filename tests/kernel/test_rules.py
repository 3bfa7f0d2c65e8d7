"""The ledger's rules each by itself: what a series has paid for, and which steps a release's stage allows."""

from __future__ import annotations

import dataclasses
import os
from datetime import date
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.ledger.entries import (
    DatasetAdded,
    ReleaseAbandoned,
    ReleasePublished,
    ReleaseReading,
    TokenRevoked,
)
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState
from crowdblend.accounting.kernel.ledger.rules import (
    RuleBroken,
    Violation,
    price_faults,
    unknown,
    unpaid_parts,
    violations,
)
from crowdblend.accounting.ledger.refusals import refusal_of
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused
from support.folding import faults_of, fold

DAY = date(2026, 3, 4)
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
    state = books.state()
    assert charge.series is not None
    place = dataclasses.replace(charge.series, number=2, spec_digest="0" * 64)
    other = dataclasses.replace(charge, release_id="two", sample_id="5" * 64, series=place)
    [told] = violations(other, state)
    assert "this specification differs" in refusal_of(told).what
    [told] = violations(dataclasses.replace(other, map_digest="0" * 64), state)
    assert "another generalization map and another specification" in refusal_of(told).what


STEPS = {
    "reading": ReleaseReading(release_id="one"),
    "published": ReleasePublished(release_id="one", output_hashes=(("data.csv", "c" * 64),)),
    "abandoned": ReleaseAbandoned(release_id="one", reason="why", refunded=False, by="me", day=DAY),
    "refunded": ReleaseAbandoned(release_id="one", reason="why", refunded=True, by="me", day=DAY),
}
ALLOWED = {"charged": {"reading", "refunded"}, "reading": {"published", "abandoned"}}


@pytest.mark.parametrize("stage", ["charged", "reading", "published", "abandoned", "refunded"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_a_stage_does_not_allow_is_refused_and_what_can_be_done_is_said(books, stage, step) -> None:
    books.add()
    books.charge("one")
    before = {"charged": (), "refunded": ("refunded",)}.get(stage, ("reading", stage)[: 1 + (stage != "reading")])
    state, faults = fold([*books.entries(), *(STEPS[passed] for passed in before)])
    assert faults == []
    refusals = [refusal_of(violation) for violation in violations(STEPS[step], state)]
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


FOLDED = {
    "another relation": (
        lambda books: [dataclasses.replace(one, relation="replacement") for one in added(books)],
        ["the price and the budget hold for different neighbouring relations"],
    ),
    "a sample that has a series": (
        lambda books: [dataclasses.replace(one, survey_rate=Decimal("0.05")) for one in added(books)],
        ["dataset 'census' is itself a sample and has a series"],
    ),
    "no data set": (lambda books: [], ["dataset 'census' is not in the ledger"]),
}


def added(books) -> list[DatasetAdded]:
    return [entry for entry in books.entries() if isinstance(entry, DatasetAdded)]


@pytest.mark.parametrize("case", FOLDED)
def test_a_registration_that_was_another_makes_faults_of_what_follows(books, case) -> None:
    books.add()
    books.register()
    first, sound, series = books.entries()
    assert fold([first, sound, series])[1] == []
    before, faults = FOLDED[case]
    assert fold([first, *before(books), series])[1] == faults


def test_a_sample_or_a_place_serves_one_release(paid, books) -> None:
    charge, _ = paid
    second = books.request("two", sample_id=charge.samples[0][1]).entry
    assert books.faults(second) == ["its sample was used by release 'one'"]
    assert books.faults(books.request("three").entry) == []
    second = dataclasses.replace(charge, release_id="two", sample_id="5" * 64)
    assert books.faults(second) == ["release 'one' has this place in series 'monthly'"]


def test_what_happens_once_is_found_where_it_happens_twice(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.register()
    with books.writer() as writer:
        writer.add_token(name="alice", expires=date(2026, 6, 2), by="b", day=DAY, randomness=os.urandom)
        token_id = writer.revoke_token(name="alice", by="b", day=DAY)
    created, _, registered, token_added, _ = books.entries()
    state = books.state()
    for entry, what in (
        (created, "a ledger is created once, by its first entry"),
        (registered, "series 'monthly' is registered a second time"),
        (token_added, f"token {token_id} is added a second time"),
        (TokenRevoked(token_id="9" * 16, by="b", day=DAY), f"token {'9' * 16} was never added"),
        (TokenRevoked(token_id=token_id, by="b", day=DAY), f"token {token_id} is revoked a second time"),
    ):
        assert faults_of(entry, state) == [what]
    assert faults_of(registered, LedgerState())[0] == "the first entry does not create the ledger"


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
    assert (found.fault, found.where, found.mistake) == (fault, f"{of} 'x'", True)
    refusal = refusal_of(found)
    assert type(refusal) is InputRefused
    assert (refusal.what, refusal.where, refusal.cause) == (what, f"{of} 'x'", "input")
    assert refusal.remedy


def test_a_broken_rule_without_words_of_its_own_is_told_by_its_fault() -> None:
    broken = Violation(cause="other-rule", fault="no", where="here")
    refusal = refusal_of(broken)
    assert type(refusal) is AccountantRefused
    assert (refusal.what, refusal.where, refusal.remedy, refusal.cause) == ("no.", "here", "", "other-rule")
    raised = RuleBroken(broken)
    assert (raised.what, raised.where, raised.cause, raised.violation) == ("no.", "here", "other-rule", broken)


ENORMOUS = {
    "k": {"kind": "strongly-safe-release/1", "k": 10**400, "sampling_rate": "0.1"},
    "choice": {
        "kind": "epsilon-safe-release/1",
        "k": 20,
        "sampling_rate": "0.1",
        "selection_epsilon": "1E+400",
        "selection_rate": "0.05",
    },
    "noise": {"kind": "noisy-histogram/1", "k": 20, "epsilon": "1E-400", "sampling_rate": "0.1"},
    "k of noise": {"kind": "noisy-histogram/1", "k": 10**400, "epsilon": "0.5", "sampling_rate": "0.1"},
    "large noise": {"kind": "noisy-histogram/1", "k": 20, "epsilon": "1E+400", "sampling_rate": "0.1"},
    "larger noise": {"kind": "noisy-histogram/1", "k": 20, "epsilon": "1E+999999999", "sampling_rate": "0.1"},
    "smaller noise": {"kind": "noisy-histogram/1", "k": 20, "epsilon": "1E-999999999", "sampling_rate": "0.1"},
    "margin": {"kind": "outlier-private-histogram/1", "epsilon": "1E+999999999", "horizon": 60, "margin": 40},
}


@pytest.mark.parametrize("name", ENORMOUS)
def test_a_mechanism_with_numbers_beyond_computation_is_a_finding(sqlite_books, name) -> None:
    charge = sqlite_books.request().entry
    record = tuple(sorted(ENORMOUS[name].items()))
    [fault] = price_faults(mechanism=record, price=charge.price, epsilon_paper=None, rows_per_person=1)
    assert fault.startswith("the mechanism can't be priced")
    sqlite_books.add()
    assert any(
        "can't be priced" in fault for fault in sqlite_books.faults(dataclasses.replace(charge, mechanism=record))
    )


def test_more_releases_than_can_be_computed_with_are_a_finding(sqlite_books) -> None:
    charge = sqlite_books.request().entry
    price = dataclasses.replace(charge.price, releases=10**400)
    [fault] = price_faults(mechanism=charge.mechanism, price=price, epsilon_paper=None, rows_per_person=1)
    assert "numbers are too large or too small to compute with" in fault
