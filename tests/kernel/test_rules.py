"""What the ledger's rules say of an entry, given the entries before it: one table, without a database."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from crowdblend.accounting.kernel.ledger.entries import (
    DataAccess,
    DatasetUnit,
    Entry,
    LedgerCreated,
    ReleasePublished,
    ReleaseReading,
    bytes_of_entry,
    entry_of_bytes,
)
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState, Series
from crowdblend.accounting.kernel.ledger.rules import (
    RuleBroken,
    Violation,
    known_by_name,
    price_faults,
    rows_violations,
    unit_violations,
    unknown,
    violations,
)
from crowdblend.accounting.kernel.prices.registry import kind_of
from crowdblend.mechanisms.kernel.contributions import LAYOUTS
from crowdblend.mechanisms.kinds.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, GeometricDeletion, OptimalDeletion
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from support.charging import ReleaseCharge
from support.folding import abandoned, dataset, faults_of, raised, revoked, sound_state, token
from support.ledger_books import CHOSEN, DAY, DELTA, FILES, costs_of, of_series, of_two_samples, registration, request

RATE = Decimal("0.1")
EPSILON = costs_of()["price"].epsilon
RECORDS, WHO = DatasetUnit(name="record", column=None), DatasetUnit(name="person", column="who")
HOME = DatasetUnit(name="household", column="home")
FLIPS = KRandomization(bits=2, flip_probability=Decimal("0.25"))
COUNTS = OutcomeCounts(randomizer=FLIPS, least_people=10**5)
SURVEY = BiasedSampleCounts(k=20, lowest_rate=RATE, highest_rate=RATE, largest_rate=RATE, exceptions=1)
MIXED = MixedSeries(parts="2 x k=20,rate=0.1; 1 x k=50,rate=0.05; 2 x epsilon=0.05")
SAFE = StronglySafeRelease(k=20, sampling_rate=RATE)
RARE = StronglySafeRelease(k=50, sampling_rate=Decimal("0.05"))
ANSWER = CountAnswer(epsilon=Decimal("0.05"), relation="add/remove", groups=1, sampling_rate=None)

CENSUS, OTHER, SAMPLE = dataset(), dataset("other"), dataset("survey", survey_rate=RATE)
PHONES = dataset("phones", relation="replacement")
ONE, SERIES = request("one").entry, registration().entry
FREE = registration(free_columns=True).entry
YEAR = registration(releases=5, free_columns=True, **costs_of(MIXED, releases=5)).entry
READING = ReleaseReading(release_id="one")
PUBLISHED = ReleasePublished(release_id="one", output_hashes=FILES)


def reports(release_id: str, mechanism: Any, **changes: Any) -> Entry:
    delta = DELTA if isinstance(mechanism, OutcomeCounts) else Decimal(0)
    return request(release_id, **costs_of(mechanism, delta=delta) | {"dataset": "phones"} | changes).entry


def at(number: int, release_id: str = "one", **changes: Any) -> Entry:
    """A release at a place of the series."""
    return of_series(release_id, **changes).entry_at(number)


def of_year(number: int, mechanism: Any, release_id: str = "one") -> Entry:
    """A release at a place of the series of different mechanisms."""
    return at(number, release_id, **costs_of(MIXED, releases=5) | {"mechanism": mechanism})


COUNTED = costs_of(COUNTS) | {"dataset": "phones"}
FLIPPED = costs_of(FLIPS, delta=Decimal(0)) | {"dataset": "phones"}


def lone_series(*names: str, **changes: Any) -> tuple[Entry, ...]:
    """Return registrations of series of one release each, of the survey unless it is said otherwise."""
    return tuple(registration(name, releases=1, **{"dataset": "survey"} | changes).entry for name in names)


def of_lone(release_id: str, series: str, **changes: Any) -> Entry:
    return of_series(release_id, name=series, releases=1, **{"dataset": "survey"} | changes).entry_at(1)


def of_unit(unit: str, release_id: str = "one") -> Entry:
    return request(release_id, sampler_layout=f"{LAYOUTS[unit]} csv-records/2").entry


def cheaper(charge: ReleaseCharge, factor: str = "0.999") -> Entry:
    less = dataclasses.replace(charge.price, epsilon=charge.price.epsilon * Decimal(factor))
    return dataclasses.replace(charge, price=less).entry_at(None if charge.series is None else 1)


class Case(NamedTuple):
    """Entries that break no rule, the next entry, and what the rules say of it, the weightiest first."""

    before: tuple[Entry, ...]
    entry: Entry
    told: tuple[str, ...]


def case(before: tuple[Entry, ...], entry: Entry, *told: str) -> Case:
    return Case(before, entry, told)


NO_DATASET, OVER_BUDGET = "dataset 'census' is not in the ledger", "the budget of dataset 'census' is exceeded"
ID_TWICE, SAMPLE_TWICE = "release id 'one' is charged a second time", "its sample was used by release 'one'"
ALONE = "a price of dataset 'phones' holds for outcome counts alone, and something else is released"
SURVEYED = "dataset 'survey' is itself a sample and is released a second time"
GIVEN_BACK, TWO, ONE_AGAIN = abandoned(refunded=True), request("two").entry, request("one", sample_id="5" * 64).entry
LOOK, JUST_ONE = DataAccess(dataset="census", what="a report", by="me", day=DAY), dataset(epsilon=EPSILON)
UNPAID = "series 'monthly' has not paid for this release: "
CASES: dict[str, Case] = {
    "a second creation": case((), LedgerCreated(ledger_id="2" * 64), "a ledger is created once, by its first"),
    "a data set": case((CENSUS,), OTHER),
    "a data set twice": case((CENSUS,), dataset(epsilon=Decimal(99)), "dataset 'census' is added a second time"),
    "a raise": case((CENSUS,), raised("11", "0.001")),
    "a lower ε": case((CENSUS,), raised("9", "0.01"), "a budget is lowered"),
    "a lower δ": case((CENSUS,), raised("11", "0.0009"), "a budget is lowered"),
    "the same budget": case((CENSUS,), raised("10", "0.001"), "a budget is raised to what it was"),
    "a raise of nothing": case((), raised("1", "0"), NO_DATASET),
    "a look": case((CENSUS,), LOOK),
    "a look at nothing": case((), LOOK, NO_DATASET),
    # A release's id and its samples serve once, whatever became of it.
    "a charge": case((CENSUS,), ONE),
    "a charge to nothing": case((), ONE, NO_DATASET),
    "an id twice": case((CENSUS, ONE), ONE_AGAIN, ID_TWICE),
    "an id that was given back": case((CENSUS, ONE, GIVEN_BACK), ONE_AGAIN, ID_TWICE),
    "a sample twice": case((CENSUS, ONE), request("two", sample_id=ONE.sample_id).entry, SAMPLE_TWICE),
    "a sample that was given back": case(
        (CENSUS, ONE, GIVEN_BACK), request("two", sample_id=ONE.sample_id).entry, SAMPLE_TWICE
    ),
    "two samples": case((CENSUS,), of_two_samples("one").entry),
    "a choice on the whole data": case(
        (CENSUS,), of_two_samples("one", mechanism=dataclasses.replace(CHOSEN, selection_rate=None)).entry
    ),
    "a sample for a choice after a release": case(
        (CENSUS, ONE), of_two_samples("two", selection_sample_id=ONE.sample_id).entry, SAMPLE_TWICE
    ),
    "a sample for a release after a choice": case(
        (CENSUS, of_two_samples("one", selection_sample_id="e" * 64).entry),
        request("two", sample_id="e" * 64).entry,
        SAMPLE_TWICE,
    ),
    "a map chosen on the release's own sample": case(
        (CENSUS,),
        of_two_samples("one", selection_sample_id=ONE.sample_id).entry,
        "its map would be chosen on the release's own sample",
    ),
    "no sample for a choice": case(
        (CENSUS,),
        of_two_samples("one", selection_sample_id=None).entry,
        "its mechanism reads 2 samples, and 1 are taken",
    ),
    "a sample for no choice": case(
        (CENSUS,), request("one", selection_sample_id="e" * 64).entry, "its mechanism reads 1 samples, and 2 are taken"
    ),
    "a release of a whole series": case(
        (CENSUS,),
        request("one", **costs_of(MixedSeries(parts="1 x k=20,rate=0.1"))).entry,
        "its mechanism is a series of several, and a release runs one of them",
    ),
    # A charge has its mechanism's price.
    "a lower price": case((CENSUS,), cheaper(request()), "ε is recorded as 0.1828"),
    "a higher price": case((CENSUS,), cheaper(request(), "1.001"), "ε is recorded as 0.1831"),
    "another bound of the paper": case(
        (CENSUS,), request(epsilon_paper=RATE).entry, "the paper's ε is recorded as 0.1, but its mechanism's is 0."
    ),
    "no bound of the paper": case(
        (CENSUS,), request(epsilon_paper=None).entry, "the paper's ε is recorded as None, but its mechanism's is"
    ),
    "a bound that the paper hasn't": case(
        (PHONES,), reports("one", FLIPS, epsilon_paper=RATE), "the paper's ε is recorded as 0.1, but its mechanism"
    ),
    "another rule": case(
        (CENSUS,),
        request(price=dataclasses.replace(costs_of()["price"], rule="guess/1")).entry,
        "the rule is recorded as 'guess/1', but its mechanism's is 'exact-profile/1'",
    ),
    "a kind without a price": case(
        (CENSUS,),
        dataclasses.replace(ONE, mechanism=(("kind", "strongly-safe-release/9"),)),
        "the mechanism can't be priced",
    ),
    "a survey's price without a survey": case(
        (CENSUS,), request(**costs_of(SURVEY)).entry, "its price leans on the data having been sampled"
    ),
    "a survey's price in a denser one": case(
        (dataset(survey_rate=Decimal("0.2")),),
        request(**costs_of(SURVEY)).entry,
        "it says that no record was sampled at a rate above 0.1, and the data set is registered as sampled at 0.2",
    ),
    "a survey's price in a sparser one": case(
        (dataset(survey_rate=Decimal("0.05")),), request(**costs_of(SURVEY)).entry
    ),
    "a survey of several records a person": case(
        (dataset(survey_rate=RATE, rows_per_person=5),),
        request(**costs_of(SURVEY)).entry,
        "the mechanism can't be priced: no price is proved for a data set's own sampling where a person may have",
    ),
    "a survey's price": case((SAMPLE,), request(dataset="survey", **costs_of(SURVEY)).entry),
    # A budget pays for its own relation and unit, once where that is all that is proved, and as far as it goes.
    "another relation": case(
        (PHONES,), request(dataset="phones").entry, "the price and the budget hold for different neighbouring relations"
    ),
    "a survey once": case((SAMPLE,), request(dataset="survey").entry),
    "a survey again once it was given back": case(
        (SAMPLE, request("two", dataset="survey").entry, abandoned("two", refunded=True)),
        request(dataset="survey").entry,
    ),
    "a survey twice": case(
        (SAMPLE, request("two", dataset="survey").entry),
        request(dataset="survey").entry,
        SURVEYED,
    ),
    "a survey once, by a series of one": case((SAMPLE, *lone_series("a")), of_lone("one", "a")),
    "a survey twice, by two series of one": case(
        (SAMPLE, *lone_series("a", "b"), of_lone("two", "a")), of_lone("one", "b"), SURVEYED
    ),
    "a survey after a series of one": case(
        (SAMPLE, *lone_series("a"), of_lone("two", "a")), request(dataset="survey").entry, SURVEYED
    ),
    "a survey's series of one after a release": case(
        (SAMPLE, *lone_series("a"), request("two", dataset="survey").entry), of_lone("one", "a"), SURVEYED
    ),
    "a survey's series of one after one that was given back": case(
        (SAMPLE, *lone_series("a", "b"), of_lone("two", "a"), abandoned("two", refunded=True)), of_lone("one", "b")
    ),
    "a survey's series": case(
        (SAMPLE,), registration(dataset="survey").entry, "dataset 'survey' is itself a sample and has a series"
    ),
    "a survey's series of two": case(
        (SAMPLE,),
        registration(releases=2, dataset="survey").entry,
        "dataset 'survey' is itself a sample and has a series",
    ),
    "reports beside reports": case((PHONES, reports("two", FLIPS)), reports("one", FLIPS)),
    "reports after counts": case((PHONES, reports("two", COUNTS)), reports("one", FLIPS), ALONE),
    "counts after reports": case((PHONES, reports("two", FLIPS)), reports("one", COUNTS), ALONE),
    "counts after counts that were read": case(
        (PHONES, reports("one", COUNTS), READING, abandoned(refunded=False)), reports("two", COUNTS), ALONE
    ),
    "counts after counts that were not": case((PHONES, reports("one", COUNTS), GIVEN_BACK), reports("two", COUNTS)),
    "counts twice, by two series of one": case(
        (PHONES, *lone_series("a", "b", **COUNTED), of_lone("two", "a", **COUNTED)),
        of_lone("one", "b", **COUNTED),
        ALONE,
    ),
    "reports of a series of one after counts": case(
        (PHONES, *lone_series("a", **FLIPPED), reports("two", COUNTS)), of_lone("one", "a", **FLIPPED), ALONE
    ),
    "counts of a series of one after reports": case(
        (PHONES, *lone_series("a", **COUNTED), reports("two", FLIPS)), of_lone("one", "a", **COUNTED), ALONE
    ),
    "counts of another data set": case(
        (PHONES, dataset("watches", relation="replacement"), reports("one", COUNTS)),
        reports("two", COUNTS, dataset="watches"),
    ),
    "the last digit of a budget": case((dataset(epsilon=EPSILON, delta=DELTA),), ONE),
    "a digit of ε too much": case((dataset(epsilon=EPSILON - Decimal("1e-25")),), ONE, OVER_BUDGET),
    "a digit of δ too much": case((dataset(delta=DELTA - Decimal("1e-25")),), ONE, OVER_BUDGET),
    "a budget that was raised": case((JUST_ONE, TWO, raised(str(2 * EPSILON), "0.001")), ONE),
    "a budget that was given back": case((JUST_ONE, TWO, abandoned("two", refunded=True)), ONE),
    "a budget that was read": case((JUST_ONE, ONE, READING, abandoned(refunded=False)), TWO, OVER_BUDGET),
    "a unit": case((dataset(unit=WHO),), of_unit("person")),
    "another unit": case(
        (dataset(unit=WHO),),
        of_unit("household"),
        "its unit is 'household', and that of dataset 'census' is 'person:who'",
    ),
    "no unit": case((dataset(unit=WHO),), ONE, "its unit is 'record', and that of dataset 'census' is"),
    # A series pays for the releases that it was registered for, each at a place of its own.
    "a series": case((CENSUS,), SERIES),
    "a series twice": case((CENSUS, SERIES), SERIES, "series 'monthly' is registered a second time"),
    "a series of nothing": case((), SERIES, NO_DATASET),
    "a series past its budget": case((JUST_ONE,), SERIES, OVER_BUDGET),
    "a series at the price of one": case(
        (CENSUS,),
        registration(price=dataclasses.replace(costs_of()["price"], releases=3)).entry,
        "the rule is recorded as 'exact-profile/1', but",
        "ε is recorded as 0.18",
    ),
    "a place": case((CENSUS, SERIES, at(1, "two")), at(2)),
    "a place twice": case((CENSUS, SERIES, at(1, "two")), at(1), "release 'two' has this place in series 'monthly'"),
    "a place that was given back": case((CENSUS, SERIES, at(1, "two"), abandoned("two", refunded=True)), at(1)),
    "a place that was given back and taken": case(
        (CENSUS, SERIES, at(1, "two"), abandoned("two", refunded=True), at(1, "three")),
        at(1),
        "release 'three' has this place in series 'monthly'",
    ),
    "a place too much": case((CENSUS, SERIES), at(4), "series 'monthly' has paid for 3 releases, and this is one more"),
    "a place in no series": case((CENSUS,), at(1), f"{UNPAID}nothing of that name"),
    "a place at another data set": case((CENSUS, OTHER, SERIES), at(1, dataset="other"), f"{UNPAID}data set"),
    "a place with another map": case((CENSUS, SERIES), at(1, map_digest="d" * 64), f"{UNPAID}generalization map"),
    "a place with another specification": case(
        (CENSUS, SERIES), at(1, series_digest="d" * 64), f"{UNPAID}specification"
    ),
    "a place at the price of one": case((CENSUS, SERIES), at(1, **costs_of()), f"{UNPAID}price"),
    "a place with another mechanism": case(
        (CENSUS, SERIES), at(1, **costs_of(RARE, releases=3)), f"{UNPAID}mechanism, price"
    ),
    "a place with columns, k and rate of its own": case(
        (CENSUS, FREE), at(1, map_digest="d" * 64, mechanism=dataclasses.replace(RARE, k=20))
    ),
    "a place with a lower k": case(
        (CENSUS, FREE),
        at(1, mechanism=StronglySafeRelease(k=19, sampling_rate=Decimal("0.001"))),
        f"{UNPAID}mechanism: k = 19 is below the registered 20",
    ),
    "a place with a higher rate": case(
        (CENSUS, FREE),
        at(1, mechanism=StronglySafeRelease(k=1000, sampling_rate=Decimal("0.2"))),
        f"{UNPAID}mechanism: the sampling rate 0.2 is above the registered 0.1",
    ),
    "a place with another kind": case(
        (CENSUS, FREE),
        at(1, mechanism=dataclasses.replace(CHOSEN, selection_rate=None)),
        f"{UNPAID}mechanism: another kind of mechanism",
    ),
    "a place in each part": case(
        (CENSUS, YEAR, of_year(4, ANSWER, "two"), of_year(3, RARE, "three")), of_year(1, RARE)
    ),
    "a place of another part": case((CENSUS, YEAR), of_year(3, SAFE), f"{UNPAID}mechanism: k = 20 is"),
    "a dearer answer": case(
        (CENSUS, YEAR),
        of_year(4, dataclasses.replace(ANSWER, epsilon=Decimal("0.06"))),
        f"{UNPAID}mechanism: its epsilon 0.06 is above the registered 0.05",
    ),
    "a place of a record of a later version": case(
        (CENSUS, FREE),
        dataclasses.replace(at(1), mechanism=(("kind", "later/9"),)),
        f"{UNPAID}mechanism: another mechanism",
    ),
    # Tokens.
    "a token": case((), token()),
    "a token twice": case((token(),), token(), f"token {'7' * 16} is added a second time"),
    "a revocation": case((token(),), revoked()),
    "a revocation of nothing": case((token(),), revoked("9" * 16), f"token {'9' * 16} was never added"),
    "a revocation twice": case((token(), revoked()), revoked(), f"token {'7' * 16} is revoked a second time"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_entry_breaks_these_rules_and_no_others(name: str) -> None:
    before, entry, told = CASES[name]
    found = faults_of(entry, sound_state(*before))
    assert len(found) == len(told), found
    for fault, words in zip(found, told, strict=True):
        assert fault.startswith(words)


@pytest.mark.parametrize("name", ["a data set twice", "a series twice", "a token twice", "a lower ε"])
def test_what_is_entered_wrongly_is_the_callers_mistake_and_no_refusal_that_is_recorded(name: str) -> None:
    before, entry, _ = CASES[name]
    assert [found.mistake for found in violations(entry, sound_state(*before))] == [True]


STEPS = {
    "reading": READING,
    "published": PUBLISHED,
    "abandoned": abandoned(refunded=False),
    "refunded": abandoned(refunded=True),
}
STAGES: dict[str, tuple[Entry, ...]] = {
    "charged": (),
    "reading": (READING,),
    "published": (READING, PUBLISHED),
    "abandoned": (READING, abandoned(refunded=False)),
    "refunded": (abandoned(refunded=True),),
}
ALLOWED = {"charged": {"reading", "refunded"}, "reading": {"published", "abandoned"}}


def test_a_release_is_read_once_published_after_that_and_closed_once() -> None:
    for stage, before in STAGES.items():
        state = sound_state(CENSUS, ONE, *before)
        for step, entry in STEPS.items():
            found = list(violations(entry, state))
            assert (found == []) is (step in ALLOWED.get(stage, ())), (stage, step)
            assert all((one.cause, one.where) == ("stage", "release 'one'") for one in found)
            stranger = dataclasses.replace(entry, release_id="two")
            assert faults_of(stranger, state) == ["release 'two' was never charged"]


def test_a_ledger_begins_with_its_creation() -> None:
    assert faults_of(CENSUS, LedgerState()) == ["the first entry does not create the ledger"]


def test_a_data_set_of_an_earlier_version_has_the_unit_of_its_first_release() -> None:
    """What was given back binds none; a data set that fixes one has no other, and an unknown one is asked for none."""
    for before, unit, broken in (
        ((CENSUS,), HOME, False),
        ((CENSUS, of_unit("person")), WHO, False),
        ((CENSUS, of_unit("person")), HOME, True),
        ((CENSUS, of_unit("person")), RECORDS, True),
        ((CENSUS, of_unit("person"), abandoned(refunded=True)), RECORDS, False),
        ((dataset(unit=WHO),), WHO, False),
        ((dataset(unit=WHO),), DatasetUnit(name="person", column="email"), True),
        ((), WHO, False),
    ):
        found = [one.cause for one in unit_violations("census", unit, sound_state(*before))]
        assert found == ["unit-differs"] * broken, (before, unit)


def test_a_price_is_for_the_records_of_a_person_that_a_data_set_was_added_with() -> None:
    known = sound_state(dataset(rows_per_person=2)).datasets["census"]
    assert list(rows_violations(known, 2)) == []
    [found] = rows_violations(known, 3)
    assert (found.cause, found.numbers) == ("rows-per-person", {"asked": 3, "registered": 2})
    for records, fault in ((1, "the rule is recorded as 'exact-profile/1'"), (2, "")):
        cost = costs_of(rows_per_person=records)
        faults = faults_of(request(**cost).entry, sound_state(dataset(rows_per_person=2)))
        assert faults == [] if not fault else faults[0].startswith(fault)


def test_a_name_that_the_ledger_does_not_have_is_the_callers_mistake() -> None:
    assert known_by_name("dataset", "census", {"census": 7}) == 7
    with pytest.raises(RuleBroken, match="dataset 'x' is not in the ledger") as broken:
        known_by_name("dataset", "x", {"census": 7})
    assert broken.value.violation == unknown("dataset", "x", known={"census": 7})
    assert broken.value.violation.mistake
    assert broken.value.violation.numbers["known"] == ["census"]
    own = Violation(cause="other-rule", fault="no", where="here")
    assert (RuleBroken(own).what, RuleBroken(own).where, RuleBroken(own).cause) == ("no.", "here", "other-rule")


ENORMOUS: dict[str, dict[str, str | int]] = {
    "k": {"kind": "strongly-safe-release/1", "k": 10**400, "sampling_rate": "0.1"},
    "choice": {
        "kind": "epsilon-safe-release/1",
        "k": 20,
        "sampling_rate": "0.1",
        "selection_epsilon": "1E+400",
        "selection_rate": "0.05",
    },
    "noise": {"kind": "noisy-histogram/1", "k": 20, "epsilon": "1E-400", "sampling_rate": "0.1"},
    "larger noise": {"kind": "noisy-histogram/1", "k": 20, "epsilon": "1E+999999999", "sampling_rate": "0.1"},
    "margin": {"kind": "outlier-private-histogram/1", "epsilon": "1E+999999999", "horizon": 60, "margin": 40},
}


@pytest.mark.parametrize("name", ENORMOUS)
def test_a_mechanism_with_numbers_beyond_computation_is_a_finding(name: str) -> None:
    record = tuple(sorted(ENORMOUS[name].items()))
    [fault] = price_faults(mechanism=record, price=ONE.price, epsilon_paper=None, rows_per_person=1)
    assert fault.startswith("the mechanism can't be priced")
    faults = faults_of(dataclasses.replace(ONE, mechanism=record), sound_state(CENSUS))
    assert any("can't be priced" in one for one in faults)


def test_more_releases_than_can_be_computed_with_are_a_finding() -> None:
    price = dataclasses.replace(ONE.price, releases=10**400)
    [fault] = price_faults(mechanism=ONE.mechanism, price=price, epsilon_paper=None, rows_per_person=1)
    assert "numbers are too large or too small to compute with" in fault


def test_places_are_taken_in_their_order_and_those_given_back_when_all_were_used() -> None:
    series = Series(registered=YEAR, position=2)
    assert [list(series.places(part)) for part in (None, 1, 2, 3)] == [[1, 2, 3, 4, 5], [1, 2], [3], [4, 5]]
    assert [series.free_number(part) for part in (None, 1, 2, 3)] == [1, 1, 3, 4]
    state = sound_state(CENSUS, YEAR, of_year(1, SAFE, "a"), abandoned("a", refunded=True))
    series = state.series["monthly"]
    assert (series.free_number(1), series.held) == (2, set())
    state = sound_state(CENSUS, YEAR, of_year(1, SAFE, "a"), of_year(2, SAFE, "b"))
    assert (state.series["monthly"].free_number(1), state.series["monthly"].free_number(2)) == (None, 3)
    with pytest.raises(ValueError, match="no parts"):
        Series(registered=SERIES, position=1).places(1)


GRID = {"dimensions": 2, "cells_per_side": 4}
NOISE = {"epsilon": Decimal("0.5"), "sampling_rate": RATE}
ASKED = {**NOISE, "groups": 3, "relation": "add/remove"}
# Kind → a mechanism, and its fields that cost nothing, whatever they hold: the hashes alone bind those.
KINDS: dict[str, tuple[Any, set[str]]] = {
    "suppressed histogram": (SuppressedHistogram(k=20, sampling_rate=RATE), set()),
    "noisy histogram": (NoisyHistogram(k=20, **NOISE), {"k"}),
    "points": (SyntheticPoints(**GRID, counts=SAFE), {*GRID}),
    "noisy points": (SyntheticPoints(**GRID, counts=NoisyHistogram(k=20, **NOISE)), {*GRID, "k"}),
    "count": (CountAnswer(**ASKED), {"groups"}),
    "count of all": (CountAnswer(**ASKED | {"sampling_rate": None}), {"groups"}),
    "sum": (SumAnswer(**ASKED, lower=0, upper=9), {"groups", "lower", "upper"}),
    "mean": (MeanAnswer(**ASKED, lower=0, upper=9, least_records=5), {"groups", "least_records", "lower", "upper"}),
    "outlier-private histogram": (
        OutlierPrivateHistogram(epsilon=Decimal("0.5"), horizon=60, margin=40),
        {"horizon"},
    ),
    "deletion": (DeletionRelease(stages=1, k=5, noise=OptimalDeletion(epsilon=Decimal(1), delta=DELTA)), {"k"}),
    "chain of deletions": (
        DeletionRelease(stages=2, k=5, noise=GeometricDeletion(epsilon=Decimal("0.5"), width=19)),
        {"k"},
    ),
    "bell of deletions": (DeletionRelease(stages=1, k=1, noise=GaussianDeletion(scale=Decimal(4), width=20)), {"k"}),
}


def leaves(document: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path of every value inside a document, and the value."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def changed(document: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The document with one value changed."""
    name, *rest = path
    return document | {name: changed(document[name], tuple(rest), value) if rest else value}


def others(value: Any) -> list[Any]:
    """Other values, one that fits among them."""
    match value:
        case int():
            return [value + 1, str(value)]
        case str() if value.replace(".", "", 1).isdigit():
            return [str(Decimal(value) * Decimal("1.25")), None]
        case None:
            return ["0.5"]
        case _:
            return [other for other in ("gaussian", "geometric", "x") if other != value]


@pytest.mark.parametrize("name", KINDS)
def test_every_value_of_a_mechanism_and_of_its_price_counts(name: str) -> None:
    """Forged with all hashes made anew."""
    (mechanism, free), before, unfound = KINDS[name], sound_state(CENSUS), set()
    charge = request(**costs_of(mechanism, delta=Decimal(0) if kind_of(mechanism).pure else Decimal("0.0001"))).entry
    assert faults_of(charge, before) == []
    document = json.loads(bytes_of_entry(charge))
    for path, value in leaves({part: document[part] for part in ("mechanism", "price")}):
        for other in others(value):
            body = json.dumps(changed(document, path, other), sort_keys=True, separators=(",", ":")).encode()
            with suppress(ValueError):  # it is no entry any more
                unfound |= set() if faults_of(entry_of_bytes(body), before) else {path[-1]}
    assert unfound == free


def test_fifty_answers_after_sampling_cost_one_in_all() -> None:
    """LQS, arXiv:1101.2604v2, §2.7: at β = 0.2, each (0.02, 0) after sampling; the next one is over the budget of 1."""
    vectors = json.loads((Path(__file__).parents[1] / "vectors" / "mechanism_examples.json").read_text("utf-8"))
    example = vectors["fifty_releases"]
    rate, each = Decimal(example["sampling_rate"]), Decimal(example["epsilon_after_sampling"])
    before = (1 + (each.exp() - 1) / rate).ln().quantize(Decimal("1e-9"), rounding=ROUND_DOWN)
    answer = CountAnswer(epsilon=before, relation="add/remove", groups=1, sampling_rate=rate)
    costs = costs_of(answer, delta=Decimal(0))
    assert each * (1 - Decimal("1e-6")) < costs["price"].epsilon <= each
    charges = [request(f"answer-{number}", **costs).entry for number in range(example["releases"] + 1)]
    state = sound_state(dataset(epsilon=Decimal(example["epsilon_in_all"])), *charges[:-1])
    spent = state.datasets["census"].account.epsilon_spent
    assert float(spent) == pytest.approx(float(example["epsilon_in_all"]), rel=1e-6)
    assert spent <= Decimal(example["epsilon_in_all"])
    assert faults_of(charges[-1], state) == ["the budget of dataset 'census' is exceeded"]
