"""What a forger leaves that is nowhere in the chain, or is in it twice, is found; so are numbers nobody can price."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from crowdblend.accounting.ledger.charge import price_faults
from crowdblend.accounting.ledger.database.creation import MIGRATIONS
from crowdblend.accounting.ledger.database.schema import DERIVED_TABLES
from crowdblend.accounting.ledger.entries.kinds import TokenRevoked
from crowdblend.accounting.ledger.rules.audit import Replay
from crowdblend.mechanisms.errors import AccountantRefused

DAY = date(2026, 3, 4)


def replayed(books) -> tuple[Replay, list[Any]]:
    """A replay of the whole ledger, in which nothing was found, and its entries."""
    replay = Replay()
    with books.reader() as reader:
        entries = [recorded.entry for recorded in reader.entries()]
    for position, entry in enumerate(entries):
        assert replay.apply(entry, position=position) == ()
    return replay, entries


def test_what_happens_once_is_found_where_it_happens_twice(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.register()
    with books.writer() as writer:
        writer.add_token(name="alice", expires=date(2026, 6, 2), by="b", day=DAY, randomness=os.urandom)
        token_id = writer.revoke_token(name="alice", by="b", day=DAY)
    replay, entries = replayed(books)
    for entry, what in (
        (entries[2], "series 'monthly' is registered a second time"),
        (TokenRevoked(token_id="9" * 16, by="b", day=DAY), f"token {'9' * 16} was never added"),
        (TokenRevoked(token_id=token_id, by="b", day=DAY), f"token {token_id} is revoked a second time"),
        (entries[3], f"token {token_id} is added a second time"),
    ):
        assert replay.apply(entry, position=len(entries)) == (what,)


def test_a_ledger_is_created_by_its_first_entry_and_once(sqlite_books) -> None:
    sqlite_books.add()
    replay, entries = replayed(sqlite_books)
    assert replay.apply(entries[0], position=2) == ("a ledger is created once, by its first entry",)
    assert Replay().apply(entries[1], position=0) == ("the first entry does not create the ledger",)


def test_an_emptied_ledger_is_no_sound_one(books, forge_past_guards) -> None:
    books.add()
    books.charge()
    tables = [table.name for table in reversed(DERIVED_TABLES)]
    forge_past_guards(books, *(f"DELETE FROM {name}" for name in (*tables, "entry")))
    assert books.findings() == ["the ledger has no entry"]


def test_a_data_set_without_an_account_is_told(books, forge_past_guards) -> None:
    books.add()
    forge_past_guards(books, "DELETE FROM account")
    with books.reader() as reader, pytest.raises(AccountantRefused, match=r"the account of data set .* is missing"):
        reader.datasets()


def test_rows_that_name_no_place_in_the_chain_are_found(sqlite_books) -> None:
    """SQLite keeps a text in a column of whole numbers where a program asks it not to check."""
    sqlite_books.add()
    path = Path(sqlite_books.url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as database:
        for guard, definition in database.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            if definition.split(" ON ")[1].split()[0] == "release":
                database.execute(f"DROP TRIGGER {guard}")
        database.execute("PRAGMA ignore_check_constraints = ON")
        for release_id, place in (("one", "nowhere"), ("two", 0.5)):
            database.execute("INSERT INTO release VALUES (?, 'census', ?)", (release_id, place))
        database.commit()
    found = sqlite_books.findings()
    assert "2 rows in the table release name no place in the chain" in found


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
    replay, entries = replayed(sqlite_books)
    forged = dataclasses.replace(charge, mechanism=record)
    assert any("can't be priced" in what for what in replay.apply(forged, position=len(entries)))


def test_more_releases_than_can_be_computed_with_are_a_finding(sqlite_books) -> None:
    charge = sqlite_books.request().entry
    price = dataclasses.replace(charge.price, releases=10**400)
    [fault] = price_faults(mechanism=charge.mechanism, price=price, epsilon_paper=None, rows_per_person=1)
    assert "numbers are too large or too small to compute with" in fault


def test_no_ledger_is_ever_taken_back_to_an_earlier_version() -> None:
    from alembic.script import ScriptDirectory

    for revision in ScriptDirectory(str(MIGRATIONS)).walk_revisions():
        with pytest.raises(NotImplementedError, match="never taken back"):
            revision.module.downgrade()
