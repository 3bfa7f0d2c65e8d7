"""Every mechanism of the sources has a lasting record, and a price with its relation or a reason why there is none."""

from __future__ import annotations

import typing
from dataclasses import fields
from decimal import Decimal

import pytest
from crowdblend.accounting.theory.event_price import price_event
from crowdblend.accounting.theory.event_records import KINDS, event_of_record, event_record
from crowdblend.accounting.theory.strongly_safe_price import price_fixed
from crowdblend.mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from crowdblend.mechanisms.count_sketch import CountMeanSketch
from crowdblend.mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from crowdblend.mechanisms.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.neighbours import ADD_REMOVE, REPLACEMENT
from crowdblend.mechanisms.points import SyntheticPoints
from crowdblend.mechanisms.refusal import InputRefused
from crowdblend.mechanisms.source_event import SourceEvent, fresh_sample_rate, spends_own_sample
from crowdblend.mechanisms.strongly_safe import StronglySafeRelease

RATE, HALF, DELTA = Decimal("0.1"), Decimal("0.5"), Decimal("1e-6")
NOISY = NoisyHistogram(k=20, epsilon=HALF, sampling_rate=RATE)
SAFE = StronglySafeRelease(k=20, sampling_rate=RATE)
FLIPS = KRandomization(bits=2, flip_probability=Decimal("0.25"))
ANSWER = {"epsilon": HALF, "groups": 3, "sampling_rate": RATE, "relation": ADD_REMOVE}

EVENTS = [
    SuppressedHistogram(k=20, sampling_rate=RATE),
    NOISY,
    OutlierPrivateHistogram(epsilon=HALF, horizon=60, margin=40),
    CountAnswer(**ANSWER),
    CountAnswer(**ANSWER | {"sampling_rate": None, "relation": REPLACEMENT}),
    SumAnswer(**ANSWER, lower=-3, upper=9),
    MeanAnswer(**ANSWER | {"sampling_rate": None}, lower=0, upper=9, least_records=4),
    SyntheticPoints(dimensions=2, cells_per_side=4, counts=SAFE),
    SyntheticPoints(dimensions=1, cells_per_side=9, counts=NOISY),
    BiasedSampleCounts(k=20, lowest_rate=RATE, highest_rate=RATE, largest_rate=RATE, exceptions=0),
    UnequalRatesHistogram(k=20, sampling_rate=RATE, lowest_rate=RATE),
    CountMeanSketch(epsilon=Decimal(4), hashes=8, bits=64, seed=b"seed"),
    FLIPS,
    OutcomeCounts(randomizer=FLIPS, least_people=10**6),
]


def test_every_member_of_the_union_is_here():
    assert {type(event) for event in EVENTS} == set(typing.get_args(SourceEvent))
    assert {event_record(event)["kind"] for event in EVENTS} == set(KINDS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_record_says_everything_and_is_read_back(event):
    record = event_record(event)
    assert all(type(value) in (str, int) for value in record.values())
    assert event_of_record(record) == event
    stated = {field.name for field in fields(event)} - {"counts", "randomizer"}
    assert stated < set(record)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_record_that_is_not_whole_is_refused(event):
    record = event_record(event)
    for name in record:
        with pytest.raises(InputRefused):
            event_of_record({key: value for key, value in record.items() if key != name})
        with pytest.raises(InputRefused):
            event_of_record(record | {name: [1]})
    with pytest.raises(InputRefused, match="has the fields"):
        event_of_record(record | {"more": 1})
    with pytest.raises(InputRefused, match="unknown kind"):
        event_of_record(record | {"kind": record["kind"].replace("/1", "/2")})


def test_records_never_change():
    assert event_record(NOISY) == {"kind": "noisy-histogram/1", "k": 20, "epsilon": "0.5", "sampling_rate": "0.1"}
    assert event_record(EVENTS[4]) == {
        "kind": "count-answer/1",
        "epsilon": "0.5",
        "relation": "replacement",
        "groups": 3,
        "sampling_rate": "whole",
    }
    assert event_record(EVENTS[-1]) == {
        "kind": "outcome-counts/1",
        "least_people": 1_000_000,
        "bits": 2,
        "flip_probability": "0.25",
    }


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_has_a_price_with_its_relation(event):
    found = price_event(event, delta=DELTA)
    local = isinstance(event, CountMeanSketch | KRandomization | OutcomeCounts)
    relation = REPLACEMENT if local else getattr(event, "relation", ADD_REMOVE)
    assert found.relation == relation
    assert found.epsilon > 0
    assert found.delta in (0, DELTA)


def test_the_price_of_points_is_that_of_their_counts():
    assert price_event(EVENTS[7], delta=DELTA) == price_fixed(SAFE, delta=DELTA, releases=1)
    assert price_event(EVENTS[8], delta=DELTA) == price_event(NOISY, delta=DELTA)
    assert price_event(EVENTS[0], delta=DELTA) == price_fixed(SAFE, delta=DELTA, releases=1)


@pytest.mark.parametrize(
    "event", [SuppressedHistogram(k=20, sampling_rate=None), NoisyHistogram(k=20, epsilon=HALF, sampling_rate=None)]
)
def test_crowd_blending_alone_has_no_price(event):
    with pytest.raises(InputRefused, match="not differentially private without sampling"):
        price_event(event, delta=DELTA)


def test_which_sample_an_event_spends():
    assert [fresh_sample_rate(event) for event in EVENTS] == [
        RATE, RATE, None, RATE, None, RATE, None, RATE, RATE, None, RATE, None, None, None,
    ]  # fmt: skip
    assert [type(event) for event in EVENTS if spends_own_sample(event)] == [BiasedSampleCounts]


def test_outcome_counts_need_somebody():
    with pytest.raises(ValueError, match="at least one person"):
        OutcomeCounts(randomizer=FLIPS, least_people=0)
