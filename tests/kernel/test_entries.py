"""An entry has one byte string, which never changes its meaning."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any, get_args

import pytest
from crowdblend.accounting.descriptions.description_registry import published_text
from crowdblend.accounting.kernel.ledger.entries import (
    MIXED,
    BudgetRaised,
    ChargedPrice,
    DataAccess,
    DatasetAdded,
    DatasetUnit,
    Entry,
    FilterAccounting,
    FilterCharge,
    FilterDatasetAdded,
    FilterUnitDatasetAdded,
    FreeSeriesRegistered,
    LedgerCreated,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleaseChargedToFilter,
    ReleaseChargedTwoSamples,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesPlace,
    SeriesRegistered,
    SeriesRegisteredToFilter,
    TokenAdded,
    TokenRevoked,
    UnitDatasetAdded,
    bytes_of_entry,
    entry_of_bytes,
    sorted_fields,
)
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from hypothesis import given, settings
from hypothesis import strategies as st

DAY = date(2026, 3, 4)
PRICE = ChargedPrice(
    epsilon=Decimal("0.25"), delta=Decimal("1E-6"), rule="exact-profile/1", relation="add/remove", releases=1
)
TAKEN = FilterCharge(order=Decimal(37), divergence=Decimal("0.03"), tail=Decimal("1E-8"), rule="renyi-filter/1")
MECHANISM = (("k", 20), ("kind", "strongly-safe-release/1"), ("sampling_rate", "0.1"))
SERIES: dict[str, Any] = {
    "series": "s",
    "dataset": "d",
    "mechanism": MECHANISM,
    "price": PRICE,
    "epsilon_paper": None,
    "spec_digest": "1" * 64,
    "map_digest": "2" * 64,
    "day": DAY,
}

# Written by hand once: if one of these changes, entries of existing ledgers would be read otherwise.
PINNED = {
    b'{"kind":"ledger-created/1","ledger_id":"' + b"0" * 64 + b'"}': LedgerCreated(ledger_id="0" * 64),
    b'{"by":"me","dataset":"V\\u00f6lker","day":"2026-03-04","delta":"0.00001","epsilon":"10",'
    b'"kind":"dataset-added/1","relation":"add/remove","rows_per_person":1,"survey_rate":null}': DatasetAdded(
        dataset="Völker",
        epsilon=Decimal("1E+1"),
        delta=Decimal("0.0000100"),
        relation="add/remove",
        survey_rate=None,
        rows_per_person=1,
        by="me",
        day=DAY,
    ),
    b'{"accounting":{"allowance":"0.221","order":"37","rule":"renyi-filter/1","tail_delta":"0.0000001",'
    b'"tail_each":"0.000000005"},"by":"me","dataset":"d","day":"2026-03-04","delta":"0.000001","epsilon":"0.48",'
    b'"kind":"dataset-added/2","relation":"add/remove","rows_per_person":1,"survey_rate":null}': FilterDatasetAdded(
        dataset="d",
        epsilon=Decimal("0.48"),
        delta=Decimal("1E-6"),
        relation="add/remove",
        survey_rate=None,
        rows_per_person=1,
        by="me",
        day=DAY,
        accounting=FilterAccounting(
            rule="renyi-filter/1",
            order=Decimal(37),
            tail_delta=Decimal("1E-7"),
            tail_each=Decimal("5E-9"),
            allowance=Decimal("0.2210"),
        ),
    ),
    b'{"by":"me","dataset":"d","day":"2026-03-04","delta":"0","epsilon":"2","kind":"dataset-added/3",'
    b'"relation":"add/remove","rows_per_person":3,"survey_rate":null,"unit":{"column":"who","name":"person"}}': (
        UnitDatasetAdded(
            dataset="d",
            epsilon=Decimal(2),
            delta=Decimal(0),
            relation="add/remove",
            survey_rate=None,
            rows_per_person=3,
            by="me",
            day=DAY,
            unit=DatasetUnit(name="person", column="who"),
        )
    ),
    b'{"accounting":{"allowance":"0.221","order":"37","rule":"renyi-filter/1","tail_delta":"0.0000001",'
    b'"tail_each":"0.000000005"},"by":"me","dataset":"d","day":"2026-03-04","delta":"0.000001","epsilon":"0.48",'
    b'"kind":"dataset-added/4","relation":"add/remove","rows_per_person":1,"survey_rate":null,'
    b'"unit":{"column":null,"name":"record"}}': FilterUnitDatasetAdded(
        dataset="d",
        epsilon=Decimal("0.48"),
        delta=Decimal("1E-6"),
        relation="add/remove",
        survey_rate=None,
        rows_per_person=1,
        by="me",
        day=DAY,
        accounting=FilterAccounting(
            rule="renyi-filter/1",
            order=Decimal(37),
            tail_delta=Decimal("1E-7"),
            tail_each=Decimal("5E-9"),
            allowance=Decimal("0.221"),
        ),
        unit=DatasetUnit(name="record", column=None),
    ),
    b'{"by":"me","dataset":"d","day":"2026-03-04","delta":"0","epsilon":"2","kind":"budget-raised/1",'
    b'"reason":"why"}': BudgetRaised(dataset="d", epsilon=Decimal(2), delta=Decimal(0), reason="why", by="me", day=DAY),
    b'{"by":"me","dataset":"d","day":"2026-03-04","kind":"private-look/1","what":"a report"}': DataAccess(
        dataset="d", what="a report", by="me", day=DAY
    ),
    b'{"dataset":"d","day":"2026-03-04","epsilon_paper":null,"kind":"series-registered/1",'
    b'"map_digest":"' + b"2" * 64 + b'",'
    b'"mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},'
    b'"price":{"delta":"0.000001","epsilon":"0.25","relation":"add/remove","releases":1,'
    b'"rule":"exact-profile/1"},"series":"s","spec_digest":"' + b"1" * 64 + b'"}': SeriesRegistered(**SERIES),
    b'{"dataset":"d","day":"2026-03-04","epsilon_paper":null,"kind":"series-registered/2",'
    b'"map_digest":"' + b"2" * 64 + b'",'
    b'"mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},'
    b'"price":{"delta":"0.000001","epsilon":"0.25","relation":"add/remove","releases":1,'
    b'"rule":"exact-profile/1"},"series":"s","spec_digest":"' + b"1" * 64 + b'"}': FreeSeriesRegistered(**SERIES),
    b'{"dataset":"d","day":"2026-03-04","epsilon_paper":null,'
    b'"filter_charge":{"divergence":"0.03","order":"37","rule":"renyi-filter/1","tail":"0.00000001"},'
    b'"kind":"series-registered/3","map_digest":"' + b"2" * 64 + b'",'
    b'"mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},'
    b'"price":{"delta":"0.000001","epsilon":"0.25","relation":"add/remove","releases":1,'
    b'"rule":"exact-profile/1"},"series":"s","spec_digest":"' + b"1" * 64 + b'"}': SeriesRegisteredToFilter(
        **SERIES, filter_charge=TAKEN
    ),
    b'{"code_version":"0.1.0","dataset":"d","day":"2026-03-04","epsilon_paper":"0.3",'
    b'"filter_charge":{"divergence":"0.03","order":"37","rule":"renyi-filter/1","tail":"0.00000001"},'
    b'"kind":"release-charged/3","label":"l","map_digest":"' + b"2" * 64 + b'",'
    b'"mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},'
    b'"price":{"delta":"0.000001","epsilon":"0.25","relation":"add/remove","releases":1,'
    b'"rule":"exact-profile/1"},"release_id":"r","sample_id":"' + b"3" * 64 + b'",'
    b'"sampler_layout":"x/1","selection_sample_id":null,"series":null,'
    b'"spec_digest":"' + b"1" * 64 + b'"}': ReleaseChargedToFilter(
        release_id="r",
        label="l",
        dataset="d",
        sample_id="3" * 64,
        mechanism=MECHANISM,
        price=PRICE,
        epsilon_paper=Decimal("0.300"),
        spec_digest="1" * 64,
        map_digest="2" * 64,
        code_version="0.1.0",
        sampler_layout="x/1",
        series=None,
        day=DAY,
        selection_sample_id=None,
        filter_charge=TAKEN,
    ),
    b'{"code_version":"0.1.0","dataset":"d","day":"2026-03-04","epsilon_paper":"0.3",'
    b'"kind":"release-charged/1","label":"l","map_digest":"' + b"2" * 64 + b'",'
    b'"mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},'
    b'"price":{"delta":"0.000001","epsilon":"0.25","relation":"add/remove","releases":1,'
    b'"rule":"exact-profile/1"},"release_id":"r","sample_id":"' + b"3" * 64 + b'",'
    b'"sampler_layout":"x/1","series":{"name":"s","number":7,"spec_digest":"' + b"5" * 64 + b'"},'
    b'"spec_digest":"' + b"1" * 64 + b'"}': ReleaseCharged(
        release_id="r",
        label="l",
        dataset="d",
        sample_id="3" * 64,
        mechanism=MECHANISM,
        price=PRICE,
        epsilon_paper=Decimal("0.300"),
        spec_digest="1" * 64,
        map_digest="2" * 64,
        code_version="0.1.0",
        sampler_layout="x/1",
        series=SeriesPlace(name="s", number=7, spec_digest="5" * 64),
        day=DAY,
    ),
    b'{"code_version":"0.1.0","dataset":"d","day":"2026-03-04","epsilon_paper":"0.3",'
    b'"kind":"release-charged/1","label":"l","map_digest":"' + b"2" * 64 + b'",'
    b'"mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},'
    b'"price":{"delta":"0.000001","epsilon":"0.25","relation":"add/remove","releases":1,'
    b'"rule":"exact-profile/1"},"release_id":"r","sample_id":"' + b"3" * 64 + b'",'
    b'"sampler_layout":"x/1","series":null,"spec_digest":"' + b"1" * 64 + b'"}': ReleaseCharged(
        release_id="r",
        label="l",
        dataset="d",
        sample_id="3" * 64,
        mechanism=MECHANISM,
        price=PRICE,
        epsilon_paper=Decimal("0.300"),
        spec_digest="1" * 64,
        map_digest="2" * 64,
        code_version="0.1.0",
        sampler_layout="x/1",
        series=None,
        day=DAY,
    ),
    b'{"code_version":"0.1.0","dataset":"d","day":"2026-03-04","epsilon_paper":"0.3",'
    b'"kind":"release-charged/2","label":"l","map_digest":"' + b"2" * 64 + b'",'
    b'"mechanism":{"k":20,"kind":"epsilon-safe-release/1","sampling_rate":"0.1","selection_epsilon":"0.2",'
    b'"selection_rate":"0.05"},'
    b'"price":{"delta":"0.000001","epsilon":"0.25","relation":"add/remove","releases":1,'
    b'"rule":"exact-profile/1"},"release_id":"r","sample_id":"' + b"3" * 64 + b'",'
    b'"sampler_layout":"x/1","selection_sample_id":"' + b"6" * 64 + b'","series":null,'
    b'"spec_digest":"' + b"1" * 64 + b'"}': ReleaseChargedTwoSamples(
        release_id="r",
        label="l",
        dataset="d",
        sample_id="3" * 64,
        mechanism=(
            ("k", 20),
            ("kind", "epsilon-safe-release/1"),
            ("sampling_rate", "0.1"),
            ("selection_epsilon", "0.2"),
            ("selection_rate", "0.05"),
        ),
        price=PRICE,
        epsilon_paper=Decimal("0.300"),
        spec_digest="1" * 64,
        map_digest="2" * 64,
        code_version="0.1.0",
        sampler_layout="x/1",
        series=None,
        day=DAY,
        selection_sample_id="6" * 64,
    ),
    b'{"kind":"release-reading/1","release_id":"r"}': ReleaseReading(release_id="r"),
    b'{"kind":"release-published/1","output_hashes":{"a.csv":"' + b"4" * 64 + b'"},"release_id":"r"}': (
        ReleasePublished(release_id="r", output_hashes=(("a.csv", "4" * 64),))
    ),
    b'{"by":"me","day":"2026-03-04","kind":"release-abandoned/1","reason":"why","refunded":true,'
    b'"release_id":"r"}': ReleaseAbandoned(release_id="r", reason="why", refunded=True, by="me", day=DAY),
    b'{"cause":"over-budget","dataset":"d","day":"2026-03-04","kind":"release-refused/1","reason":"no",'
    b'"release_id":null}': ReleaseRefused(release_id=None, dataset="d", cause="over-budget", reason="no", day=DAY),
    b'{"by":"me","day":"2026-03-04","expires":"2026-06-02","kind":"token-added/1","name":"auditor",'
    b'"secret_digest":"' + b"6" * 64 + b'","token_id":"' + b"7" * 16 + b'"}': TokenAdded(
        token_id="7" * 16, name="auditor", secret_digest="6" * 64, expires=date(2026, 6, 2), by="me", day=DAY
    ),
    b'{"by":"me","day":"2026-03-04","kind":"token-revoked/1","token_id":"' + b"7" * 16 + b'"}': TokenRevoked(
        token_id="7" * 16, by="me", day=DAY
    ),
}


def test_every_kind_is_pinned() -> None:
    assert {type(entry) for entry in PINNED.values()} == set(get_args(Entry))


@pytest.mark.parametrize(("body", "entry"), PINNED.items(), ids=[entry.KIND for entry in PINNED.values()])
def test_bytes_of_each_kind_never_change(body, entry) -> None:
    assert bytes_of_entry(entry) == body
    assert entry_of_bytes(body) == entry


@pytest.mark.parametrize("body", PINNED, ids=[entry.KIND for entry in PINNED.values()])
def test_an_unknown_a_missing_and_a_mistyped_field_are_refused(body) -> None:
    document = json.loads(body)
    wrong = [document | {"extra": "1"}]
    for name, value in document.items():
        wrong.append({other: kept for other, kept in document.items() if other != name})
        wrong.extend(document | {name: other} for other in (1.5, [], {"a": 1.5}, [value]))
        if isinstance(value, bool):
            wrong.append(document | {name: 1})
        elif isinstance(value, int):
            wrong.append(document | {name: True})
    for changed in wrong:
        with pytest.raises(ValueError):  # noqa: PT011 - each field has a message of its own
            entry_of_bytes(json.dumps(changed, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"kind":"release-reading/2","release_id":"r"}',
        b'{"kind":"release-burnt/1","release_id":"r"}',
        b'{"kind":["release-reading/1"],"release_id":"r"}',
        b'{"kind":"release-reading/1", "release_id":"r"}',
        b'{"release_id":"r","kind":"release-reading/1"}',
        b'{"kind":"release-reading/1","release_id":"r"}\n',
        b'{"kind":"release-reading/1","release_id":"q","release_id":"r"}',
        b'{"kind":"release-reading/1","release_id":"\\u0072"}',
        '{"kind":"release-reading/1","release_id":"ü"}'.encode(),
        b"[" * 100_000,
    ],
)
def test_other_kinds_and_other_spellings_are_refused(body) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has a message of its own
        entry_of_bytes(body)


@pytest.mark.parametrize(
    ("body", "change", "told"),
    [
        (b"[]", {}, "an entry must be a JSON object"),
        (b"[" * 100_000, {}, "an entry has no deep nesting"),
        (b'{"release_id":"r"}', {}, "this version knows no entry of kind 'None'"),
        (b'{"kind":"x"}', {"kind": "k" * 99}, f"this version knows no entry of kind '{'k' * 60}'"),
        (b'{"kind":"release-reading/1"}', {}, "ReleaseReading needs the field 'release_id'"),
        (b'{"kind":"token-revoked/1"}', {}, "TokenRevoked needs the field 'by'"),
        (b'{"kind":"x"}', {"kind": "token-revoked/1", "z": 1, "y" * 99: 1}, f"TokenRevoked has no field '{'y' * 60}'"),
        (b'{"kind":"release-reading/1"}', {"release_id": 1}, "a text field holds something else"),
        (b'{"kind":"release-reading/1", "release_id":"r"}', None, "the entry is not in its canonical form"),
    ],
)
def test_what_is_no_entry_of_this_version_is_told(body, change, told) -> None:
    changed = json.dumps(json.loads(body) | change, sort_keys=True, separators=(",", ":")).encode() if change else body
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared below
        entry_of_bytes(changed)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("label", "text"),
        ("epsilon_paper", "text"),
        ("day", "text"),
        ("price", "field of named values"),
        ("price.releases", "whole-number"),
        ("mechanism", "field of named values"),
        ("mechanism.k", "whole-number"),
        ("series", "field of named values"),
    ],
)
def test_a_field_of_another_type_is_told_by_what_it_should_be(place, told) -> None:
    document = json.loads(next(body for body, entry in PINNED.items() if type(entry) is ReleaseCharged))
    *outer, name = place.split(".")
    (document[outer[0]] if outer else document)[name] = 1.5
    with pytest.raises(ValueError, match=rf"^a {told}( field)? holds something else$"):
        entry_of_bytes(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
    abandoned = (
        b'{"by":"me","day":"2026-03-04","kind":"release-abandoned/1","reason":"why","refunded":1,"release_id":"r"}'
    )
    with pytest.raises(ValueError, match=r"^a true-or-false field holds something else$"):
        entry_of_bytes(abandoned)


OF_FILTER, FILTERED = (
    next(body for body, entry in PINNED.items() if type(entry) is kind)
    for kind in (ReleaseChargedToFilter, FilterDatasetAdded)
)


@pytest.mark.parametrize(
    ("body", "changed", "why"),
    [
        (
            OF_FILTER,
            {"series": {"name": "s", "number": 1, "spec_digest": "5" * 64}},
            "takes nothing of a budget itself",
        ),
        (OF_FILTER, {"filter_charge": {"order": "1"}}, "an order must be above 1, not 1"),
        (FILTERED, {"accounting": {"order": "0.5"}}, "an order must be above 1, not 0.5"),
        (FILTERED, {"accounting": {"allowance": "0"}}, "the allowance must be more than 0"),
        (FILTERED, {"delta": "0.0000000001"}, "the share of δ for tails must be below the budget's δ"),
        (FILTERED, {"survey_rate": "0.1"}, "can be released once, so it has no filter budget"),
    ],
)
def test_what_no_filter_budget_can_be_or_pay_is_not_read(body, changed, why) -> None:
    document = json.loads(body)
    for name, value in changed.items():
        merged = {**document[name], **value} if isinstance(document[name], dict) else value
        document[name] = merged
    with pytest.raises(ValueError, match=why):
        entry_of_bytes(json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode())


BUDGET, CHARGE, TOKEN, RAISED, PLACE = (
    next(body for body, entry in PINNED.items() if chosen(entry))
    for chosen in (
        lambda entry: type(entry) is DatasetAdded,
        lambda entry: type(entry) is ReleaseCharged and entry.series is None,
        lambda entry: type(entry) is TokenAdded,
        lambda entry: type(entry) is BudgetRaised,
        lambda entry: type(entry) is ReleaseCharged and entry.series is not None,
    )
)


@pytest.mark.parametrize(
    ("body", "place", "sound", "wrong"),
    [
        (BUDGET, "epsilon", ["0.000001", "1"], ["0", "-1"]),
        (BUDGET, "delta", ["0", "0.999999"], ["1", "1.5"]),
        (BUDGET, "survey_rate", [None, "0.000001", "0.999999"], ["0", "1", "2"]),
        (BUDGET, "rows_per_person", [1, 2], [0, -1]),
        (RAISED, "epsilon", ["0"], ["-1"]),
        (RAISED, "delta", ["0.999999"], ["1"]),
        (FILTERED, "accounting.order", ["1.000001", "100"], ["1", "0"]),
        (FILTERED, "accounting.allowance", ["0.000001"], ["0"]),
        (FILTERED, "accounting.tail_delta", ["0", "0.000000999"], ["0.000001", "0.1"]),
        (OF_FILTER, "filter_charge.order", ["1.000001"], ["1"]),
        (OF_FILTER, "selection_sample_id", [None, "8" * 64], ["8" * 63]),
        (CHARGE, "price.releases", [1], [0, 2, -1]),
        (CHARGE, "epsilon_paper", [None, "0"], ["-1"]),
        (PLACE, "series.number", [1, 2], [0, -1]),
        (PLACE, "price.releases", [1, 2], [0]),
        (TOKEN, "expires", ["2026-03-05"], ["2026-03-04", "2026-03-03"]),
    ],
)
def test_a_field_is_taken_up_to_its_bounds(body, place, sound, wrong) -> None:
    def changed(value: object) -> bytes:
        document = json.loads(body)
        *outer, name = place.split(".")
        (document[outer[0]] if outer else document)[name] = value
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

    for value in sound:
        assert bytes_of_entry(entry_of_bytes(changed(value))) == changed(value)
    for value in wrong:
        with pytest.raises(ValueError):  # noqa: PT011 - each has a message of its own
            entry_of_bytes(changed(value))


def test_a_publication_has_a_file() -> None:
    with pytest.raises(ValueError, match="at least one file"):
        ReleasePublished(release_id="r", output_hashes=())


def test_what_takes_of_a_filter_budget_says_so_and_nothing_else_does() -> None:
    taking = {type(entry): entry.of_filter for entry in PINNED.values() if hasattr(entry, "of_filter")}
    assert {kind for kind, taken in taking.items() if taken == TAKEN} == {
        SeriesRegisteredToFilter,
        ReleaseChargedToFilter,
    }
    assert set(taking.values()) == {TAKEN, None}
    samples = {entry.KIND: entry.samples for entry in PINNED.values() if isinstance(entry, ReleaseCharged)}
    assert samples == {
        "release-charged/1": (("release", "3" * 64),),
        "release-charged/2": (("release", "3" * 64), ("selection", "6" * 64)),
        "release-charged/3": (("release", "3" * 64),),
    }


def test_a_series_has_parts_only_where_its_record_is_of_different_mechanisms() -> None:
    assert FreeSeriesRegistered(**SERIES).mixed is None
    assert FreeSeriesRegistered(**SERIES | {"mechanism": (("kind", MIXED),)}).mixed is None
    year = MixedSeries(parts="2 x k=20,rate=0.1; 1 x k=50,rate=0.05")
    read = entry_of_bytes(
        bytes_of_entry(FreeSeriesRegistered(**SERIES | {"mechanism": sorted_fields(mechanism_record(year))}))
    )
    assert read.mixed == year


@pytest.mark.parametrize(
    ("kind", "records", "told"),
    [
        ("strongly-safe-release/1", 875, "875 records in 1 group"),
        ("strongly-safe-release/1", 1, "1 record in 1 group"),
        ("strongly-safe-release/1", None, "1 group"),
        ("noisy-histogram/1", 7, "1 noisy count"),
    ],
)
def test_what_was_published_is_told_in_the_words_of_its_kind(kind, records, told) -> None:
    assert published_text(kind, groups=1, records=records) == told


@pytest.mark.parametrize(("records", "told"), [(875, "875 records in 2 rows"), (None, "2 rows")])
def test_what_a_kind_of_a_later_version_published_is_told_in_rows(records, told) -> None:
    assert published_text("later-kind/9", groups=2, records=records) == told


@pytest.mark.parametrize("text", ["1E-6", "0.10", "01", "+1", "-1", ".5", "1.", "NaN", "١", "1e400", ""])
def test_an_amount_has_one_spelling(text) -> None:
    body = bytes_of_entry(
        BudgetRaised(dataset="d", epsilon=Decimal(2), delta=Decimal(0), reason="why", by="me", day=DAY)
    )
    changed = json.dumps(json.loads(body) | {"epsilon": text}, sort_keys=True, separators=(",", ":"))
    with pytest.raises(ValueError):  # noqa: PT011 - the message depends on the text
        entry_of_bytes(changed.encode())


amounts = st.decimals(min_value=0, max_value=10**6, places=20)
names = st.text(min_size=1, max_size=40).filter(lambda name: name.isprintable() and name == name.strip() != "")


@settings(derandomize=True, max_examples=100)
@given(name=names, reason=names, epsilon=amounts, day=st.dates())
def test_what_is_written_is_read_back(name, reason, epsilon, day) -> None:
    entry = BudgetRaised(dataset=name, epsilon=epsilon, delta=Decimal("0.5"), reason=reason, by="me", day=day)
    body = bytes_of_entry(entry)
    assert entry_of_bytes(body) == entry
    assert body.isascii()
    assert b"\n" not in body
