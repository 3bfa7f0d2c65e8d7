"""An entry has one byte string, which never changes its meaning."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from decimal import Decimal
from typing import Any, get_args

import pytest
from crowdblend.accounting.kernel.ledger.entries import (
    ENTRY_TYPES,
    GENESIS,
    MIXED,
    BudgetRaised,
    DatasetUnit,
    Entry,
    FreeSeriesRegistered,
    Head,
    bytes_of_entry,
    entry_of_bytes,
    link_hash,
    sorted_fields,
)
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden_ledger import GOLDEN
from support.ledger_books import of_series, request

BODIES: dict[str, bytes] = {}
"""Kind → the first entry of it in the committed ledger, which is never written anew."""
for line in reversed((GOLDEN / "entries.jsonl").read_bytes().splitlines()):
    BODIES[json.loads(line)["kind"]] = line


def body_of(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def changed(kind: str, place: str, value: object) -> bytes:
    """The committed entry of a kind with one value changed, in canonical form."""
    document = json.loads(BODIES[kind])
    *outer, name = place.split(".")
    held = document
    for part in outer:
        held = held[part]
    held[name] = value
    return body_of(document)


def test_every_kind_is_read_and_written_as_it_is_in_the_committed_ledger() -> None:
    assert BODIES.keys() == ENTRY_TYPES.keys() == {kind.KIND for kind in get_args(Entry)}
    for kind, body in BODIES.items():
        entry = entry_of_bytes(body)
        assert type(entry) is ENTRY_TYPES[kind]
        assert bytes_of_entry(entry) == body


@pytest.mark.parametrize("kind", BODIES)
def test_an_unknown_a_missing_and_a_mistyped_field_are_refused(kind: str) -> None:
    document = json.loads(BODIES[kind])
    wrong = [document | {"extra": "1"}]
    for name, value in document.items():
        wrong.append({other: kept for other, kept in document.items() if other != name})
        wrong.extend(document | {name: other} for other in (1.5, [], {"a": 1.5}, [value]))
        if isinstance(value, int):
            wrong.append(document | {name: 1 if isinstance(value, bool) else True})
    for other in wrong:
        with pytest.raises(ValueError):  # noqa: PT011 - each field has a message of its own
            entry_of_bytes(body_of(other))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"[]", "an entry must be a JSON object"),
        (b"null", "an entry must be a JSON object"),
        (b"[" * 100_000, "an entry has no deep nesting"),
        (b'{"release_id":"r"}', "this version knows no entry of kind 'None'"),
        (b'{"kind":"' + b"k" * 99 + b'"}', f"this version knows no entry of kind '{'k' * 60}'"),
        (b'{"kind":["release-reading/1"],"release_id":"r"}', "this version knows no entry of kind"),
        (b'{"kind":"release-reading/1"}', "ReleaseReading needs the field 'release_id'"),
        (b'{"kind":"token-revoked/1"}', "TokenRevoked needs the field 'by'"),
        (body_of({"kind": "token-revoked/1", "z": 1, "y" * 99: 1}), f"TokenRevoked has no field '{'y' * 60}'"),
        (b'{"kind":"release-reading/1","release_id":1}', "a text field holds something else"),
        (b'{"kind":"release-reading/1", "release_id":"r"}', "the entry is not in its canonical form"),
        (b'{"release_id":"r","kind":"release-reading/1"}', "the entry is not in its canonical form"),
        (b'{"kind":"release-reading/1","release_id":"r"}\n', "the entry is not in its canonical form"),
        (b'{"kind":"release-reading/1","release_id":"q","release_id":"r"}', "the entry is not in its canonical form"),
        (b'{"kind":"release-reading/1","release_id":"\\u0072"}', "the entry is not in its canonical form"),
        ('{"kind":"release-reading/1","release_id":"ü"}'.encode(), "'ascii' codec can't decode"),
        (changed("release-charged/1", "price", 1.5), "a field of named values holds something else"),
        (changed("release-charged/1", "mechanism.k", 1.5), "a whole-number field holds something else"),
        (changed("release-charged/1", "epsilon_paper", 1.5), "a text field holds something else"),
        (changed("release-charged/1", "day", 1.5), "a text field holds something else"),
        (changed("release-abandoned/1", "refunded", 1), "a true-or-false field holds something else"),
    ],
)
def test_what_is_no_entry_of_this_version_is_told(body: bytes, told: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is compared below
        entry_of_bytes(body)
    assert str(refused.value).startswith(told)


IN_A_SERIES = {"name": "s", "number": 1, "spec_digest": "5" * 64}


@pytest.mark.parametrize(
    ("kind", "place", "sound", "wrong"),
    [
        ("dataset-added/1", "epsilon", ["0.000001", "1"], ["0", "-1"]),
        ("dataset-added/1", "delta", ["0", "0.999999"], ["1", "1.5"]),
        ("dataset-added/1", "survey_rate", [None, "0.000001", "0.999999"], ["0", "1", "2"]),
        ("dataset-added/1", "rows_per_person", [1, 2], [0, -1]),
        ("dataset-added/1", "dataset", ["naïve café", "人口", "x" * 200], ["", " x", "two\nlines", "x" * 201]),
        ("dataset-added/2", "accounting.order", ["1.000001", "100"], ["1", "0.5"]),
        ("dataset-added/2", "accounting.allowance", ["0.000001"], ["0"]),
        ("dataset-added/2", "accounting.tail_delta", ["0", "0.000000999"], ["0.000001", "0.1"]),
        ("dataset-added/2", "survey_rate", [None], ["0.1"]),
        ("dataset-added/3", "unit.column", ["who", "a:b"], [None, ""]),
        ("dataset-added/3", "unit.name", ["household"], ["record", "family"]),
        ("budget-raised/1", "epsilon", ["0"], ["-1", "1E-6", "0.10", "01", "+1", ".5", "1.", "NaN", "١", "1e400", ""]),
        ("budget-raised/1", "delta", ["0.999999"], ["1"]),
        ("series-registered/1", "series", ["x" * 100, "a-b"], ["", " x", "a/b", "a b", "-a", "x" * 101]),
        ("release-charged/1", "price.releases", [1], [0, 2, -1]),
        ("release-charged/1", "epsilon_paper", [None, "0"], ["-1"]),
        ("release-charged/1", "series", [None, IN_A_SERIES], [IN_A_SERIES | {"number": 0}]),
        (
            "release-charged/1",
            "release_id",
            ["a.b-c", "x" * 128],
            ["", "..", ".hidden", "a/b", "x" * 129, "ü", "a b", "-x"],
        ),
        ("release-charged/1", "spec_digest", ["0" * 64], ["A" * 64, "0" * 63]),
        ("release-charged/3", "filter_charge.order", ["1.000001"], ["1"]),
        ("release-charged/3", "selection_sample_id", [None, "8" * 64], ["8" * 63]),
        ("release-charged/3", "series", [None], [IN_A_SERIES]),
        ("release-published/1", "output_hashes", [{"a.csv": "4" * 64}], [{}, {"a.csv": "4"}, {"": "4" * 64}]),
        ("token-added/1", "expires", ["2026-03-05"], ["2026-03-04", "2026-03-03"]),
        ("token-added/1", "name", ["x"], ["", "a\nb"]),
        ("release-abandoned/1", "reason", ["x" * 2000], ["", " ", "x" * 2001]),
        ("token-revoked/1", "token_id", ["7" * 16], ["7" * 15, "7" * 15 + "A"]),
    ],
)
def test_a_field_is_taken_up_to_its_bounds(kind: str, place: str, sound: list[Any], wrong: list[Any]) -> None:
    for value in sound:
        assert bytes_of_entry(entry_of_bytes(changed(kind, place, value))) == changed(kind, place, value)
    for value in wrong:
        with pytest.raises(ValueError):  # noqa: PT011 - each has a message of its own
            entry_of_bytes(changed(kind, place, value))


def test_a_number_in_floating_point_is_never_written() -> None:
    with pytest.raises(TypeError, match="can't hold a value of type float"):
        bytes_of_entry(dataclasses.replace(request().entry, mechanism=(("sampling_rate", 0.1),)))


def test_a_place_in_a_series_is_that_of_a_release_with_a_series() -> None:
    for charge, number in ((request(), 1), (of_series("one"), None)):
        with pytest.raises(ValueError, match="a number exactly where it has a series"):
            charge.entry_at(number)


def test_what_takes_of_a_filter_budget_says_so_and_nothing_else_does() -> None:
    entries = {kind: entry_of_bytes(body) for kind, body in BODIES.items()}
    taking = {kind for kind, entry in entries.items() if getattr(entry, "of_filter", None) is not None}
    assert taking == {"series-registered/3", "release-charged/3"}
    purposes = {kind: [purpose for purpose, _ in entries[kind].samples] for kind in ENTRY_TYPES if "charged" in kind}
    assert purposes == {
        "release-charged/1": ["release"],
        "release-charged/2": ["release", "selection"],
        "release-charged/3": ["release"],
    }
    both = dataclasses.replace(entries["release-charged/3"], selection_sample_id="6" * 64)
    assert both.samples == (("release", both.sample_id), ("selection", "6" * 64))


def test_a_series_has_parts_only_where_its_record_is_of_different_mechanisms() -> None:
    free = entry_of_bytes(BODIES["series-registered/2"])
    assert isinstance(free, FreeSeriesRegistered)
    assert free.mixed is None
    answers = CountAnswer(epsilon=Decimal("0.05"), relation="add/remove", groups=1, sampling_rate=None)
    assert dataclasses.replace(free, mechanism=sorted_fields(mechanism_record(answers))).mixed is None
    assert dataclasses.replace(free, mechanism=(("kind", MIXED),)).mixed is None
    year = MixedSeries(parts="2 x k=20,rate=0.1; 1 x k=50,rate=0.05")
    assert dataclasses.replace(free, mechanism=sorted_fields(mechanism_record(year))).mixed == year
    assert entry_of_bytes(BODIES["series-registered/1"]).decoded_mechanism.k == 20


def test_a_unit_is_read_as_it_is_shown() -> None:
    for unit in (("record", None), ("person", "who"), ("household", "home"), ("person", "a:b")):
        shown = DatasetUnit(name=unit[0], column=unit[1])
        assert DatasetUnit.of_text(str(shown)) == shown
    for text in ("person", "person:", "record:who", "family:home", "", "person: \n"):
        with pytest.raises(ValueError, match=r"unit|identified by a column"):
            DatasetUnit.of_text(text)


amounts = st.decimals(min_value=0, max_value=10**6, places=20)
names = st.text(min_size=1, max_size=40).filter(lambda name: name.isprintable() and name == name.strip() != "")


@settings(derandomize=True, max_examples=100)
@given(name=names, reason=names, epsilon=amounts, day=st.dates())
def test_what_is_written_is_read_back(name: str, reason: str, epsilon: Decimal, day: date) -> None:
    entry = BudgetRaised(dataset=name, epsilon=epsilon, delta=Decimal("0.5"), reason=reason, by="me", day=day)
    body = bytes_of_entry(entry)
    assert entry_of_bytes(body) == entry
    assert body.isascii()
    assert b"\n" not in body


def test_a_link_hash_is_the_one_of_the_first_version() -> None:
    # sha256 of the domain line, the hash before, the place in 8 bytes and the body, by the coreutils program.
    first = "a89c7ae4d7aef4d6886a5532e6248db28fd4cf238d862656b4086a92d9d7f036"
    assert link_hash(previous=GENESIS, position=0, body=b"body") == first
    fourth = "769775c7b351b155e097a020775062875c996c9d80298ceb161dbcceb68cd79b"
    assert link_hash(previous="01" * 32, position=3, body=b"body") == fourth
    for previous in ("", "00" * 31, "00" * 33, "0" * 63):
        with pytest.raises(ValueError, match=r"32 bytes|non-hexadecimal"):
            link_hash(previous=previous, position=0, body=b"")


def test_a_head_has_a_ledger_a_place_and_a_hash() -> None:
    sound = {"ledger_id": "a" * 64, "position": 0, "hash": "b" * 64}
    assert Head(**sound).position == 0
    for wrong in (
        {"ledger_id": "a"},
        {"hash": "b"},
        *({"position": position} for position in (-1, True, 1.0, "1", None)),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
            Head(**sound | wrong)
