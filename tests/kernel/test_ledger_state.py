"""The ledger has one state, by one fold; its snapshot is that state, and a rule is one function for all who ask."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import date
from itertools import product
from typing import Any, get_args

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey
from crowdblend.accounting.kernel.ledger import snapshot
from crowdblend.accounting.kernel.ledger.entries import Entry, ReleaseCharged, entry_of_bytes
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState, Release
from crowdblend.accounting.kernel.ledger.rules import RULES, Violation
from crowdblend.accounting.kernel.ledger.snapshot import (
    ForgedState,
    bytes_of_state,
    sign_state,
    signed_state,
    state_of_bytes,
)
from crowdblend.accounting.kernel.ledger.transactions import stored_state
from crowdblend.mechanisms.kernel.errors import AccountantRefused, Refusal
from sqlalchemy import create_engine
from support.folding import abandoned, dataset, fold, revoked, sound_state, token
from support.golden_ledger import GOLDEN
from support.ledger_books import of_series, of_two_samples, registration, request


def golden_entries() -> Iterator[Entry]:
    return map(entry_of_bytes, (GOLDEN / "entries.jsonl").read_bytes().splitlines())


def test_the_snapshot_of_every_prefix_of_a_ledger_of_every_kind_is_its_fold() -> None:
    """A state that was read back goes on as the one that was folded does, to the last byte."""
    entries = list(golden_entries())
    assert {entry.KIND for entry in entries} == {kind.KIND for kind in get_args(Entry)}
    state, links = LedgerState(), [f"{position:064x}" for position in range(len(entries))]
    for entry, link in zip(entries, links, strict=True):
        state.apply(entry, link)
        content = bytes_of_state(state)
        read = state_of_bytes(content)
        assert read == state
        assert bytes_of_state(read) == content
        state = read
    whole, faults = fold(entries)
    assert (bytes_of_state(whole), faults) == (content, [])


def test_the_stored_snapshot_is_the_fold_of_the_entries(empty_url, golden_ledger, tmp_path) -> None:
    books = golden_ledger(empty_url, tmp_path / "home")
    state = LedgerState()
    with books.reader() as reader:
        for recorded in reader.entries():
            state.apply(recorded.entry, recorded.hash)
    stored = books.raw(lambda connection: connection.exec_driver_sql("SELECT state FROM snapshot").scalar())
    assert stored.encode() == bytes_of_state(state)
    assert books.state() == state


def test_an_excerpt_has_the_latest_and_what_data_sets_with_few_charges_have(monkeypatch) -> None:
    """By the numbers that stored statements were made by: by others each of them would be taken for a forged one."""
    assert (snapshot.LISTED, snapshot.ESTIMATED) == (50, 1_000)
    monkeypatch.setattr(snapshot, "LISTED", 2)
    monkeypatch.setattr(snapshot, "ESTIMATED", 2)
    state = sound_state(
        dataset("many"),
        dataset("few"),
        request("few-0", dataset="few").entry,
        registration("series-of-few", dataset="few").entry,
        *(registration(f"series-{number}", dataset="many").entry for number in range(3)),
        *(request(f"many-{number}", dataset="many").entry for number in range(4)),
        token(),
    )
    excerpt = snapshot.excerpt_of(state)["state"]
    assert excerpt["releases"]["release_id"] == ("few-0", "many-2", "many-3")
    assert [json.loads(text)["series"] for _, text in excerpt["series"]] == ["series-of-few", "series-1", "series-2"]
    assert excerpt["tokens"] == []


@pytest.mark.parametrize("slots", [(0,), (), (1,), (-1,), (0, 1), (1, 0), (0, 0)], ids=repr)
def test_a_state_is_stored_once_and_at_its_place(slots) -> None:
    """The table's constraints say so too, and whoever has the database can drop them."""
    with create_engine("sqlite://").connect() as connection:
        for table in ("snapshot (slot, state, statement)", "entry (position, hash)"):
            connection.exec_driver_sql(f"CREATE TABLE {table}")
        state = LedgerState()
        content = bytes_of_state(state)
        row = (content.decode(), sign_state(state, content, SigningKey(seed=b"\x09" * 32)))
        for slot in slots:
            connection.exec_driver_sql("INSERT INTO snapshot VALUES (?, ?, ?)", (slot, *row))
        if slots == (0,):
            assert stored_state(connection)[0] == state
            return
        with pytest.raises(ForgedState, match="no signature holds over the last entry"):
            stored_state(connection)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{}", b"[" * 100_000, b"\xff"])
def test_bytes_that_are_no_state_are_told(content) -> None:
    with pytest.raises(AccountantRefused, match="snapshot of the ledger's state is damaged"):
        state_of_bytes(content)


@pytest.mark.parametrize("place", ["before the chain", "past its end"])
@pytest.mark.parametrize("column", ["position", "closed"])
def test_a_release_at_a_place_outside_of_the_chain_is_told(column, place) -> None:
    state, _ = fold(golden_entries())
    document = json.loads(bytes_of_state(state))
    document["releases"][column][0] = -1 if place == "before the chain" else len(list(golden_entries()))
    with pytest.raises(AccountantRefused, match="snapshot of the ledger's state is damaged"):
        state_of_bytes(json.dumps(document).encode())


def values_in(document: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each value of a document, itself included."""
    yield path
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from values_in(document[key], *path, key)


@pytest.mark.parametrize("other", [None, -1, "x", [], {}], ids=repr)
def test_a_value_of_another_form_in_a_state_is_told_or_read_and_never_an_error(other) -> None:
    """Only who has a signing key could write one."""
    state, _ = fold(golden_entries())
    document = json.loads(bytes_of_state(state))
    for path in values_in(document):
        if len(path) == 0:
            continue
        changed = json.loads(bytes_of_state(state))
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = other
        try:
            state_of_bytes(json.dumps(changed).encode())
        except AccountantRefused:
            continue


def test_a_release_that_a_stranger_signed_into_the_snapshot_is_told_and_never_an_error(golden_ledger, tmp_path) -> None:
    """Whoever can write the database can sign by some key; who only looks asks for no key of his own."""
    books = golden_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "home")
    state, stranger = books.state(), SigningKey(seed=b"\x09" * 32)
    sound = bytes_of_state(state)
    for name, other in product(Release._fields, (None, -1, 3, 1 << 80, "x", "published", True, [[]], {})):
        document = json.loads(sound)
        document["releases"][name][0] = other
        content = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        statement = sign_state(state, content, stranger)
        books.sql("UPDATE snapshot SET state = :state, statement = :said", state=content.decode(), said=statement)
        with books.reader() as reader:
            for look in (reader.releases, lambda: reader.overview(latest=None), lambda: reader.release("one")):
                with contextlib.suppress(Refusal):
                    look()


def test_a_new_rule_is_one_function_and_one_line(books, monkeypatch) -> None:
    """The writer refuses by it, records why, and the verification finds what was written before it was there."""

    def no_label_of_ours(entry: ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
        if entry.label == "ours" and entry.dataset in state.datasets:
            yield Violation(cause="ours", fault="its label is ours", where="x")

    books.add()
    books.charge("before", label="ours")
    assert books.findings() == []
    monkeypatch.setitem(RULES, ReleaseCharged, (*RULES[ReleaseCharged], no_label_of_ours))
    assert books.findings() == ["entry 2: its label is ours"]
    with pytest.raises(AccountantRefused, match="its label is ours"):
        books.charge("after", label="ours")
    assert books.entries()[-1].cause == "ours"
    books.charge("theirs", label="theirs")
    assert books.findings() == ["entry 2: its label is ours"]


NEVER = {
    "a charge to nothing": ((), request().entry, "the entry's data set is missing"),
    "a data set twice": ((dataset(),), dataset(), "the entry's data set was added before"),
    "a series twice": ((dataset(), registration().entry), registration().entry, "series was registered before"),
    "a release twice": ((dataset(), request().entry), request().entry, "the entry's release was charged before"),
    "a place in no series": ((dataset(),), of_series("one").entry_at(1), "the series that paid for the release is"),
    "a step of nothing": ((), abandoned(refunded=True), "the entry's release is missing"),
    "a revocation of nothing": ((), revoked(), "the entry revokes a token that was never added"),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_can_not_follow_is_not_taken_over(name: str) -> None:
    before, entry, told = NEVER[name]
    state = sound_state(*before)
    sound = json.loads(bytes_of_state(state))
    with pytest.raises(ValueError, match=told):
        state.apply(entry, "f" * 64)
    after = json.loads(bytes_of_state(state))
    assert after.pop("position") == sound.pop("position") + 1
    for changing in ("hash", "kinds"):
        del after[changing], sound[changing]
    assert after == sound


def test_a_state_of_other_entries_or_of_another_ledger_is_told() -> None:
    """Signed by whomever: whose key it is isn't asked here."""
    state, key = sound_state(dataset(), token()), SigningKey(seed=b"\x09" * 32)
    assert (state.tokens["7" * 16].opens(date(2026, 6, 1)), state.tokens["7" * 16].opens(date(2026, 6, 2))) == (
        True,
        False,
    )
    document = json.loads(bytes_of_state(state))
    document["tokens"][0][1] = document["datasets"][0][1]
    with pytest.raises(AccountantRefused, match="snapshot of the ledger's state is damaged"):
        state_of_bytes(json.dumps(document).encode())
    other = json.dumps(json.loads(bytes_of_state(state)) | {"ledger_id": "2" * 64}).encode()
    with pytest.raises(AccountantRefused, match="the snapshot of the state is of another ledger"):
        signed_state(sign_state(state, other, key), other.decode(), last=state.head)


def test_a_release_knows_its_samples() -> None:
    state = sound_state(dataset(), request().entry, of_two_samples("two").entry)
    assert {len(state.releases[name].samples) for name in ("one", "two")} == {1, 2}
    assert [state.samples[sample] for name in ("one", "two") for sample in state.releases[name].samples] == [
        "one",
        "two",
        "two",
    ]
