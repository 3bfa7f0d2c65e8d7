"""What the ledger can't hold, do or read is refused in words, and nothing of it is left behind."""

from __future__ import annotations

import dataclasses
import sqlite3
import sys
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.ledger import database as store
from crowdblend.accounting.kernel.ledger.database import WRITERS_LOCK
from crowdblend.accounting.kernel.ledger.entries import ChargedPrice, SeriesPlace, TokenRevoked, bytes_of_entry
from crowdblend.accounting.ledger.charge_request import RECORDS
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from sqlalchemy import text

DAY = date(2026, 3, 4)
BUDGET = {"name": "census", "epsilon": Decimal(11), "delta": Decimal("0.001"), "reason": "why", "by": "b", "day": DAY}
REFUSAL = {"release_id": None, "dataset": "census", "cause": "x", "reason": "y", "day": DAY}


@pytest.mark.parametrize(
    ("attempt", "what"),
    [
        (lambda books, writer: writer.raise_budget(**BUDGET | {"reason": ""}), "reason"),
        (lambda books, writer: writer.raise_budget(**BUDGET | {"epsilon": Decimal("NaN")}), "ε"),
        (lambda books, writer: writer.record_refusal(**REFUSAL | {"cause": "two\nlines"}), "cause"),
        (lambda books, writer: writer.record_refusal(**REFUSAL | {"release_id": "../x"}), "release"),
        (lambda books, writer: writer.charge(books.request("two", label="two\nlines")), "label|name"),
        (lambda books, writer: writer.charge(books.request("two", spec_digest="A" * 64)), "digest"),
        (lambda books, writer: writer.charge(books.request("two", series="monthly", series_digest="x")), "digest"),
        (lambda books, writer: writer.abandon(release_id="one", reason="", by="b", day=DAY), "reason"),
        (lambda books, writer: writer.abandon(release_id="one", reason="why", by="\n", day=DAY), "by|who|name"),
        (lambda books, writer: writer.revoke_token(name="auditor", by="", day=DAY), "by|who|name"),
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
            attempt(books, writer)
    assert (books.kinds(), books.spent()) == (before, spent)
    assert books.findings() == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ChargedPrice(epsilon=Decimal(1), delta=Decimal(0), rule="x/1", relation="add/remove", releases=0),
        lambda: SeriesPlace(name="monthly", number=0, spec_digest="a" * 64),
        lambda: TokenRevoked(token_id="7" * 15, by="b", day=DAY),
        lambda: TokenRevoked(token_id="7" * 15 + "A", by="b", day=DAY),
    ],
)
def test_an_entry_out_of_range_is_none(wrong) -> None:
    with pytest.raises(ValueError, match=r"must be at least 1, not 0|16 lower-case hexadecimal"):
        wrong()


def test_a_number_in_floating_point_is_never_written(sqlite_books) -> None:
    entry = sqlite_books.request().entry
    with pytest.raises(TypeError, match="can't hold a value of type float"):
        bytes_of_entry(dataclasses.replace(entry, mechanism=(("sampling_rate", 0.1),)))


def test_a_place_in_a_series_is_that_of_a_release_with_a_series(sqlite_books) -> None:
    alone, of_series = sqlite_books.request(), sqlite_books.of_series("one")
    for charge, number in ((alone, 1), (of_series, None)):
        with pytest.raises(ValueError, match="a number exactly where it has a series"):
            charge.entry_at(number)


def test_a_look_at_a_series_that_the_ledger_does_not_have_is_the_callers_mistake(books) -> None:
    books.add()
    with books.reader() as reader, pytest.raises(InputRefused, match=r"'monthly'"):
        reader.look_at_series(
            name="monthly",
            dataset="census",
            spec_digest="c" * 64,
            mechanism=StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")),
            unit=RECORDS,
        )


def test_an_address_is_shown_without_its_password(books) -> None:
    with open_reader(books.url.replace("postgres@", "postgres:sesame-7@")) as reader:
        assert "sesame-7" not in reader.shown
        assert reader.shown.startswith(books.dialect)


def test_a_ledger_that_is_open_for_looking_is_never_written(sqlite_books) -> None:
    opened = open_store(sqlite_books.url, read_only=True)
    with pytest.raises(ReleaseFailed, match="open for looking only"), opened.changing():
        pass
    opened.close()


def test_a_writer_waits_its_time_and_is_then_refused(books, monkeypatch) -> None:
    """Whether the others came before it opened the ledger or after."""
    monkeypatch.setattr(store, "SECONDS_TO_WAIT", 0.2)
    books.add()
    alone = {"sqlite": "BEGIN IMMEDIATE", "postgresql": WRITERS_LOCK}

    def meanwhile(held) -> None:
        held.execute(text(alone[books.dialect]))
        for attempt in (books.charge, lambda: writer.charge(books.request())):
            with pytest.raises(AccountantRefused, match=r"other writers held the ledger for .* seconds.*Try again"):
                attempt()

    with books.writer() as writer:
        books.raw(meanwhile)
    assert books.kinds() == ["ledger-created/1", "dataset-added/1"]
    books.charge()
    assert books.findings() == []


def test_what_only_the_databases_constraints_see_is_refused_by_them(books) -> None:
    """A writer without rules of its own lets two releases have one sample: nothing of them is kept."""
    books.add()
    twice = books.request("one", sample_id="5" * 64), books.request("two", sample_id="5" * 64)
    with pytest.raises(AccountantRefused, match=r"a constraint of the ledger's database refuses.*ledger verify"):
        books.append(twice[0].entry, twice[1].entry)
    assert books.kinds() == ["ledger-created/1", "dataset-added/1"]
    assert books.findings() == []


@pytest.mark.parametrize("body", ["", "[]", '{"kind":"dataset-added/9"}', "ü"])
def test_a_damaged_entry_is_told_with_its_place(sqlite_books, forge_past_guards, body) -> None:
    books = sqlite_books
    books.add()
    forge_past_guards(books, f"UPDATE entry SET body = '{body}' WHERE position = 1")
    with books.reader() as reader, pytest.raises(ReleaseFailed, match=r"entry 1 can't be read.*ledger verify"):
        list(reader.entries())


def test_a_ledger_whose_first_entry_is_damaged_is_not_written_to(books, forge_past_guards) -> None:
    forge_past_guards(books, "UPDATE entry SET body = '{}' WHERE position = 0")
    with pytest.raises(AccountantRefused, match=r"entry 0 is not the one that the signed head binds.*ledger verify"):
        books.add()
    with books.reader() as reader, pytest.raises(ReleaseFailed, match=r"first entry is damaged.*ledger verify"):
        _ = reader.ledger_id


def test_a_damaged_schema_is_a_ledger_that_can_not_be_opened(sqlite_books) -> None:
    """SQLite quotes what it can't read, which may be no text at all."""
    sqlite_books.add()
    path = Path(sqlite_books.url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sound = path.read_bytes()
    assert sound.count(b"CREATE TABLE snapshot") == 1
    path.write_bytes(sound.replace(b"CREATE TABLE snapshot", b"CREATE \xff\xfeBLE snapshot"))
    for attempt in (sqlite_books.reader, sqlite_books.writer):
        with pytest.raises(InputRefused, match=r"the ledger can't be opened \(DatabaseError\)"):
            attempt()


def test_postgresql_without_its_driver_is_told_with_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputRefused, match=r"PostgreSQL needs its driver.*pip install 'crowdblend\[postgres\]'"):
        open_reader("postgresql://somebody@localhost/ledger")


def test_what_a_ledger_said_of_another_ones_release_is_not_made_up(sqlite_books) -> None:
    sqlite_books.add()
    receipt = sqlite_books.charge("one")
    with sqlite_books.reader() as reader:
        assert reader.dataset_context(receipt).rows_per_person == 1
        with pytest.raises(InputRefused, match="dataset 'elsewhere': the ledger has no data set of this name"):
            reader.dataset_context(dataclasses.replace(receipt, dataset="elsewhere"))
