"""What a person is told who breaks a rule: what is wrong, with its numbers, and what can be done."""

from __future__ import annotations

import dataclasses
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.kernel.ledger.entries import (
    DatasetUnit,
    Entry,
    FilterAccounting,
    ReleasePublished,
    ReleaseReading,
    sorted_fields,
)
from crowdblend.accounting.kernel.ledger.filter_budget import FilterBudget, filter_charge
from crowdblend.accounting.kernel.ledger.ledger_state import Account
from crowdblend.accounting.kernel.ledger.rules import Violation, rows_violations, unit_violations, unknown, violations
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.accounting.kinds.composition.renyi_filter import RULE, FilterTerms
from crowdblend.accounting.ledger.charge_request import RECORDS
from crowdblend.accounting.ledger.refusals import WORDS, refusal_of, what_fits, what_fits_filter
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from crowdblend.mechanisms.wording import amount_left
from support.folding import abandoned, dataset, raised, sound_state, token
from support.ledger_books import (
    DAY,
    DELTA,
    FILES,
    MECHANISM,
    Books,
    costs_of,
    filter_accounting,
    of_series,
    of_two_samples,
    registration,
    request,
)

RATE, EPSILON = Decimal("0.1"), costs_of()["price"].epsilon
COUNTS = OutcomeCounts(randomizer=KRandomization(bits=2, flip_probability=Decimal("0.25")), least_people=10**5)
REPORTS = {"dataset": "phones", **costs_of(COUNTS)}
FLIPS = {"dataset": "phones", **costs_of(COUNTS.randomizer, delta=Decimal(0))}
SURVEY = BiasedSampleCounts(k=20, lowest_rate=RATE, highest_rate=RATE, largest_rate=RATE, exceptions=1)
MIXED = MixedSeries(parts="2 x k=20,rate=0.1; 1 x k=50,rate=0.05")
YEAR = registration(free_columns=True, **costs_of(MIXED, releases=3)).entry
CENSUS, SAMPLE, PHONES = dataset(), dataset("survey", survey_rate=RATE), dataset("phones", relation="replacement")
FILTER = dataset(epsilon=Decimal("0.48"), delta=DELTA, accounting=filter_accounting(Decimal("0.48")))
SERIES, FREE, ONE = registration().entry, registration(free_columns=True).entry, request("one").entry
CHEAPER = dataclasses.replace(ONE.price, epsilon=ONE.price.epsilon / 2)
RAISED = (dataset(epsilon=EPSILON), request("other").entry)
READING = ReleaseReading(release_id="one")
PUBLISHED = ReleasePublished(release_id="one", output_hashes=FILES)
RARER = costs_of(MIXED, releases=3) | {"mechanism": dataclasses.replace(MECHANISM, k=50, sampling_rate=Decimal("0.05"))}
TOO_FREQUENT = costs_of(MIXED, releases=3) | {"mechanism": MECHANISM}


def at(number: int, **changes: Any) -> Entry:
    return of_series("one", **changes).entry_at(number)


# Cause of the rule → entries before, the entry, and what is told: what is wrong, and what to do.
TOLD: list[tuple[str, tuple[Entry, ...], Entry, str, str]] = [
    (
        "dataset-known",
        (CENSUS,),
        CENSUS,
        "a data set of this name is in the ledger already.",
        "crowdblend dataset raise",
    ),
    (
        "budget-not-raised",
        (CENSUS,),
        raised("9", "0.001"),
        "(ε, δ) = (10, 0.001) and can only be raised, not set to",
        "",
    ),
    ("filter-raised", (FILTER,), raised("9", "0.001"), "it has a filter budget, which can't be raised", "what is left"),
    ("unknown", (), request(dataset="census").entry, "no data set of this name.", "Register it and its budget with"),
    ("unknown", (CENSUS,), at(1), "the ledger has no series of this name.", "`crowdblend series add`"),
    ("unknown", (), READING, "the ledger has no such release.", "`crowdblend ledger show` lists them"),
    (
        "release-known",
        (CENSUS, ONE),
        request("one", sample_id="5" * 64).entry,
        "in the ledger already (charged).",
        "use",
    ),
    (
        "sample-used",
        (CENSUS, ONE),
        request("two", sample_id=ONE.sample_id).entry,
        "a sample serves one release",
        "fresh",
    ),
    ("samples-differ", (CENSUS,), of_two_samples("one", selection_sample_id=None).entry, "reads 2 samples", "fresh"),
    ("price-differs", (CENSUS,), request(price=CHEAPER).entry, "ε is recorded as", "Charge what the mechanism costs."),
    (
        "survey-differs",
        (CENSUS,),
        request(**costs_of(SURVEY)).entry,
        "its price leans on the data",
        "--survey-rate RATE",
    ),
    ("unit-differs", (dataset(unit=DatasetUnit(name="person", column="who")),), ONE, "be 'record'", 'person = "who"'),
    ("relation-mismatch", (PHONES,), request(dataset="phones").entry, "the neighbouring relation add/remove", "Use a"),
    ("survey-released", (SAMPLE,), registration(dataset="survey").entry, "it can have no series.", "without a series"),
    (
        "survey-released",
        (SAMPLE, request("two", dataset="survey").entry),
        request(dataset="survey").entry,
        "has been: its sampling was part of that price (release 'two').",
        "Use what was published.",
    ),
    (
        "survey-released",
        (SAMPLE, registration(dataset="survey", releases=1).entry, request("two", dataset="survey").entry),
        of_series("one", dataset="survey", releases=1).entry_at(1),
        "has been: its sampling was part of that price (release 'two').",
        "Use what was published.",
    ),
    (
        "counts-not-alone",
        (PHONES, request("two", **REPORTS).entry),
        request(**FLIPS).entry,
        "would stand beside release 'two'",
        "Use what was published.",
    ),
    (
        "counts-not-alone",
        (PHONES, request("two", **FLIPS).entry),
        request(**REPORTS).entry,
        "would stand beside release 'two'",
        "leave out [privacy]",
    ),
    (
        "over-budget",
        RAISED,
        ONE,
        "this release would bring ε from 0.182989 to 0.365978, past the budget",
        "Left are ε = 0",
    ),
    ("over-budget", RAISED, SERIES, "this series of 3 releases would bring ε", "Left are ε = 0 and δ = 0.0009"),
    ("over-budget", (dataset(delta=DELTA / 2),), ONE, "would bring δ from 0 to 1e-6", "[privacy].delta"),
    ("accounting-differs", (FILTER,), FREE, "pays for no series with free columns", "leave --free-columns out"),
    ("accounting-differs", (FILTER,), ONE, "it is charged by ε and δ to a filter budget", ""),
    (
        "no-divergence",
        (
            dataset(
                "phones",
                relation="replacement",
                epsilon=Decimal("0.48"),
                delta=DELTA,
                accounting=filter_accounting(Decimal("0.48")),
            ),
        ),
        request(**REPORTS).entry,
        "can't pay for outcome-counts/1: ",
        "prices are added up",
    ),
    ("series-known", (CENSUS, SERIES), SERIES, "a series of this name is in the ledger already.", "a new name"),
    (
        "series-changed",
        (CENSUS, SERIES),
        at(1, series_digest="d" * 64),
        "fixed then: data set, form, k, rate",
        "Restore",
    ),
    ("series-changed", (CENSUS, FREE), at(1, series_digest="d" * 64), "in more than columns, hierarchies", "Restore"),
    (
        "series-changed",
        (CENSUS, YEAR),
        at(1, **TOO_FREQUENT, series_digest="d" * 64),
        "another data set, another delta or another unit",
        "Restore",
    ),
    (
        "series-changed",
        (CENSUS, SERIES),
        at(1, series_digest="d" * 64, map_digest="d" * 64),
        "another generalization map and another specification",
        "Restore",
    ),
    (
        "series-changed",
        (CENSUS, FREE),
        at(1, mechanism=dataclasses.replace(MECHANISM, k=19)),
        "it has not paid for this mechanism: k = 19 is below the registered 20. With free columns",
        "Restore",
    ),
    (
        "series-changed",
        (CENSUS, YEAR),
        at(3, **TOO_FREQUENT),
        "k = 20 is below the registered 50, in part 2 (1 x k=50,rate=0.05)",
        "Restore",
    ),
    ("series-finished", (CENSUS, SERIES), at(4), "all its 3 releases are taken.", "Register another series"),
    (
        "series-finished",
        (CENSUS, YEAR, at(3, **RARER)),
        of_series("two", **RARER).entry_at(3),
        "all its 1 releases of part 2 (1 x k=50,rate=0.05) are taken.",
        "Register another series",
    ),
    ("stage", (CENSUS, ONE), PUBLISHED, "nothing was read for this release", ""),
    ("stage", (CENSUS, ONE, abandoned(refunded=True)), READING, "abandoned and can't change any", "another"),
    ("token-known", (token(),), token(), "is added a second time", "another id is drawn"),
]


@pytest.mark.parametrize(("cause", "before", "entry", "what", "remedy"), TOLD, ids=[one[0] for one in TOLD])
def test_a_broken_rule_is_told_with_its_numbers_and_what_can_be_done(cause, before, entry, what, remedy) -> None:
    found = next(one for one in violations(entry, sound_state(*before)) if one.cause == cause)
    refusal = refusal_of(found)
    assert type(refusal) is (InputRefused if found.mistake else AccountantRefused)
    assert (refusal.where, what in refusal.what, remedy in refusal.remedy) == (found.where, True, True), refusal
    assert refusal.cause == ("input" if found.mistake else "accountant" if cause == "stage" else cause)


def test_every_cause_that_has_words_is_told_here() -> None:
    assert {cause for cause, *_ in TOLD} == WORDS.keys() - {"rows-per-person", "divergence-differs"}
    plain = refusal_of(Violation(cause="other-rule", fault="no", where="here"))
    assert (plain.what, plain.where, plain.remedy, plain.cause) == ("no.", "here", "", "other-rule")
    for of in ("dataset", "series", "release", "token"):
        refusal = refusal_of(unknown(of, "x"))
        assert (type(refusal), refusal.where) == (InputRefused, f"{of} 'x'")
        assert refusal.remedy
    similar = refusal_of(unknown("dataset", "cencus", known={"census": 1}))
    assert "census" in similar.remedy
    assert "If it is another one: register it and its budget" in similar.remedy


def test_what_is_asked_before_a_charge_is_told_too() -> None:
    state = sound_state(dataset(rows_per_person=2), dataset("homes", unit=DatasetUnit(name="household", column="home")))
    [rows] = rows_violations(state.datasets["census"], 1)
    said = "at most 2 records of a person in a delivery, and this price covers one record."
    assert refusal_of(rows).what.endswith(said)
    assert refusal_of(rows).remedy == "Write rows_per_person = 2 below [data]."
    [unit] = unit_violations("homes", RECORDS, state)
    assert refusal_of(unit).remedy == 'Write household = "home" below [data].'
    who = DatasetUnit(name="person", column="who")
    [unit] = unit_violations("plain", who, sound_state(dataset("plain", unit=RECORDS)))
    assert "--unit person:COLUMN" in refusal_of(unit).remedy
    [unit] = unit_violations("census", who, sound_state(CENSUS, ONE))
    assert "at most what is left of this budget" in refusal_of(unit).remedy


BUDGET = {"name": "census", "epsilon": Decimal(11), "delta": Decimal("0.001"), "reason": "why", "by": "b", "day": DAY}
REFUSAL = {"release_id": None, "dataset": "census", "cause": "x", "reason": "y", "day": DAY}
LOOK = {"dataset": "census", "what": "a report", "by": "b", "day": DAY}


@pytest.mark.parametrize(
    ("attempt", "what"),
    [
        (lambda writer: writer.raise_budget(**BUDGET | {"reason": ""}), "reason"),
        (lambda writer: writer.raise_budget(**BUDGET | {"epsilon": Decimal("NaN")}), "ε"),
        (lambda writer: writer.record_refusal(**REFUSAL | {"cause": "two\nlines"}), "cause"),
        (lambda writer: writer.record_refusal(**REFUSAL | {"release_id": "../x"}), "release"),
        (lambda writer: writer.record_look(**LOOK | {"what": ""}), "what"),
        (lambda writer: writer.charge(request("two", label="two\nlines")), "label|name"),
        (lambda writer: writer.charge(request("two", spec_digest="A" * 64)), "digest"),
        (lambda writer: writer.register_series(registration("a/b")), "name"),
        (lambda writer: writer.abandon(release_id="one", reason="", by="b", day=DAY), "reason"),
        (lambda writer: writer.abandon(release_id="one", reason="why", by="\n", day=DAY), "by|who|name"),
        (lambda writer: writer.revoke_token(name="auditor", by="", day=DAY), "by|who|name"),
    ],
)
def test_what_the_ledger_can_not_hold_is_the_callers_mistake_and_leaves_nothing(sqlite_books, attempt, what) -> None:
    books = sqlite_books
    books.add()
    books.charge("one")
    with books.writer() as writer:
        writer.add_token(name="auditor", expires=date(2026, 6, 2), by="b", day=DAY, randomness=lambda size: b"1" * size)
        before, spent = books.kinds(), books.spent()
        with pytest.raises(InputRefused, match=rf"^ledger: .*({what}).*Nothing was read, written or charged"):
            attempt(writer)
    assert (books.kinds(), books.spent()) == (before, spent)
    assert books.findings() == []


def test_a_survey_of_people_with_several_records_is_not_added(sqlite_books) -> None:
    with pytest.raises(InputRefused, match="draws all of them with one coin") as refused:
        sqlite_books.add("survey", survey_rate=RATE, rows_per_person=5)
    assert refused.value.where == "dataset 'survey'"
    with pytest.raises(InputRefused, match="can be released once"):
        sqlite_books.add_filter("survey", survey_rate=RATE)
    assert sqlite_books.kinds() == ["ledger-created/1"]


def test_what_is_said_to_fit_fits_and_the_next_does_not(sqlite_books) -> None:
    """Of an additive budget: the rate and the k that are named; a look tells what a charge would."""
    books = sqlite_books
    books.add(epsilon=Decimal("0.3"), delta=Decimal("1e-5"))
    books.charge("one")
    said = refused(books)
    left = Decimal("0.3") - books.price.epsilon
    assert f"Left are ε = {amount_left(left)} and δ = 9e-6. With all else as it is, a sampling rate" in said
    rate = Decimal(re.search(r"sampling rate of at most ([0-9.]+[0-9])", said)[1])
    k = int(re.search(r"k of at least ([0-9]+)", said)[1])
    step = Decimal(1).scaleb(rate.adjusted() - 4)
    for fits, more in (({"sampling_rate": rate}, {"sampling_rate": rate + step}), ({"k": k}, {"k": k - 1})):
        fitting, too_much = (costs_of(dataclasses.replace(MECHANISM, **changes)) for changes in (fits, more))
        assert fitting["price"].epsilon <= left < too_much["price"].epsilon
        books.look(mechanism=fitting["mechanism"], price=fitting["price"])
    books.charge("two", **costs_of(dataclasses.replace(MECHANISM, sampling_rate=rate)))


def refused(books: Books) -> str:
    """What a look and a charge say of one more release."""
    with pytest.raises(AccountantRefused) as looked:
        books.look()
    before = books.kinds()
    with pytest.raises(AccountantRefused) as charged:
        books.charge("too-much")
    assert charged.value.message == looked.value.message
    assert books.kinds() == [*before, "release-refused/1"]
    return charged.value.message


def test_where_delta_is_short_or_nothing_is_left_that_is_said() -> None:
    record, cost = ONE.mechanism, ONE.price
    short = Account(epsilon_spent=Decimal(0), delta_spent=DELTA / 2, epsilon_budget=Decimal(1), delta_budget=DELTA)
    said = what_fits(short, cost, mechanism=record, rows_per_person=1)
    assert "[privacy].delta = 5e-7 and a sampling rate of at most" in said
    nothing = dataclasses.replace(short, epsilon_spent=Decimal(1), delta_spent=DELTA)
    said = what_fits(nothing, cost, mechanism=record, rows_per_person=1)
    assert "Left are ε = 0 and δ = 0. No rate and no k would fit." in said
    several = what_fits(short, cost, mechanism=record, rows_per_person=2)
    assert several == "Left are ε = 1 and δ = 5e-7. Lower the rate, raise k, or ask the data owner."


TERMS = FilterTerms(
    epsilon=Decimal("0.48"), delta=DELTA, order=Decimal(37), tail_delta=Decimal("1e-7"), tail_each=Decimal("5e-9")
)
ACCOUNTING = FilterAccounting(
    rule=RULE, order=TERMS.order, tail_delta=TERMS.tail_delta, tail_each=TERMS.tail_each, allowance=TERMS.allowance
)
OF_FILTER = FilterBudget(epsilon=TERMS.epsilon, delta=DELTA, relation="add/remove", accounting=ACCOUNTING)


def test_of_a_filter_budget_what_is_said_to_fit_does_and_a_little_more_does_not() -> None:
    account = Account(
        epsilon_spent=Decimal(0), delta_spent=Decimal(0), epsilon_budget=TERMS.allowance, delta_budget=TERMS.tail_delta
    )
    large = request(**costs_of(StronglySafeRelease(k=20, sampling_rate=Decimal("0.4")))).entry.mechanism
    said = what_fits_filter(account, mechanism=large, budget=OF_FILTER, releases=1, rows_per_person=1)
    told = re.search(r"a sampling rate of at most (\S+) or k of at least (\S+) would fit", said)
    assert told is not None, said

    def fits(**changes: Any) -> bool:
        record = tuple(sorted((dict(large) | changes).items()))
        taken = filter_charge(record, budget=OF_FILTER, releases=1, rows_per_person=1)
        return taken.divergence <= TERMS.allowance and taken.tail <= TERMS.tail_delta

    assert fits(k=int(told[2]))
    assert not fits(k=int(told[2]) - 1)
    assert fits(sampling_rate=told[1])
    assert not fits(sampling_rate=str(Decimal(told[1]) * Decimal("1.02")))


@pytest.mark.parametrize(
    ("mechanism", "told"),
    [
        (
            CountAnswer(epsilon=Decimal(3), relation="add/remove", groups=3, sampling_rate=None),
            "Choose parameters that take less, or ask the data owner.",
        ),
        (
            StronglySafeRelease(k=1, sampling_rate=Decimal("0.9999999")),
            "No rate and no k would fit. Ask the data owner.",
        ),
    ],
    ids=["nothing to search", "nothing that is tried has a divergence"],
)
def test_where_nothing_else_would_fit_that_is_said_with_what_is_left(mechanism, told) -> None:
    account = Account(
        epsilon_spent=TERMS.allowance / 2,
        delta_spent=Decimal("9e-8"),
        epsilon_budget=TERMS.allowance,
        delta_budget=TERMS.tail_delta,
    )
    record = sorted_fields(mechanism_record(mechanism))
    said = what_fits_filter(account, mechanism=record, budget=OF_FILTER, releases=1, rows_per_person=1)
    assert said == f"Left are 0.110505 of divergence at order 37 and 1e-8 of tails. {told}"
