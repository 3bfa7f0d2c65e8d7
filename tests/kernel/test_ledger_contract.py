"""What a ledger keeps whoever writes: whole steps, durable and alone, in a chain that continues its anchor."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import sys
from contextlib import closing, nullcontext
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.ledger import database as store
from crowdblend.accounting.kernel.ledger import transactions
from crowdblend.accounting.kernel.ledger import writer as ledger_writer
from crowdblend.accounting.kernel.ledger.database import WRITERS_LOCK
from crowdblend.accounting.kernel.ledger.entries import DataAccess, Head, ReleaseRefused
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState, Series
from crowdblend.accounting.kernel.ledger.snapshot import ForgedState
from crowdblend.accounting.kernel.ledger.transactions import Look, looking, writing
from crowdblend.accounting.keys.anchor import Anchoring, line_of_head
from crowdblend.accounting.keys.signing_upkeep import rotate_key
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from sqlalchemy import make_url, text
from support.ledger_books import CHOSEN, FILES, Books, anchoring_at, costs_of, of_two_samples

LOOK = DataAccess(dataset="census", what="a table", by="steward", day=date(2026, 3, 5))


def test_a_release_goes_from_charge_to_publication(books: Books) -> None:
    books.add()
    receipt = books.charge()
    with books.writer() as writer, books.reader() as reader:
        state = reader.release("one")
        assert state is not None
        assert (state.stage, state.receipt, state.refunded) == ("charged", receipt, False)
        assert writer.charged(receipt) == state.charge
        writer.mark_reading(receipt)
        assert reader.release("one").stage == "reading"
        writer.mark_published(receipt, FILES)
        state = reader.release("one")
        assert (state.stage, state.output_hashes) == ("published", FILES)
        assert state.charge.price.epsilon == books.price.epsilon
        assert reader.releases() == (state,)
        assert reader.release("another") is None
    steps = ["release-charged/1", "release-reading/1", "release-published/1"]
    assert books.kinds() == ["ledger-created/1", "dataset-added/1", *steps]
    assert books.spent() == (books.price.epsilon, books.price.delta)
    assert books.findings() == []


def test_a_resumed_release_may_repeat_its_steps_and_changes_nothing(books: Books) -> None:
    books.add()
    receipt = books.charge()
    with books.writer() as writer:
        with pytest.raises(AccountantRefused, match="release 'one'"):
            writer.mark_published(receipt, FILES)  # before anything was read
        for _ in range(2):
            writer.mark_reading(receipt)
        for _ in range(2):
            writer.mark_published(receipt, FILES)
        with pytest.raises(AccountantRefused, match="release 'one'"):
            writer.mark_published(receipt, (("data.csv", "d" * 64),))
        with pytest.raises(AccountantRefused, match="release 'one'"):
            writer.mark_reading(receipt)
        assert writer.has_release("one")
        assert not writer.has_release("two")
        assert writer.charged_before("one") == (receipt, writer.charged(receipt))
        with pytest.raises(AccountantRefused, match="this release can't go on"):
            writer.charged_before("two")
    assert len(books.kinds()) == 5
    assert books.findings() == []


def test_a_receipt_pays_in_its_own_ledger_for_its_own_release_and_sample(sqlite_books: Books) -> None:
    sqlite_books.add()
    receipt = sqlite_books.charge()
    with sqlite_books.writer() as writer:
        for forged in ({"ledger_id": "0" * 64}, {"hash": "0" * 64}, {"sample_id": "0" * 64}, {"release_id": "never"}):
            with pytest.raises(AccountantRefused, match="receipt"):
                writer.mark_reading(dataclasses.replace(receipt, **forged))
    with pytest.raises(dataclasses.FrozenInstanceError):
        receipt.sample_id = "5" * 64


def test_a_cost_is_given_back_only_where_nothing_was_read(sqlite_books: Books) -> None:
    books = sqlite_books
    books.add()
    books.charge("unread")
    assert books.abandon("unread") is True
    assert books.spent() == (0, 0)
    receipt = books.charge("read")
    with books.writer() as writer:
        writer.mark_reading(receipt)
    assert books.abandon("read") is False
    assert books.spent() == (books.price.epsilon, books.price.delta)
    with books.writer() as writer:
        for release_id in ("unread", "read"):
            with pytest.raises(AccountantRefused):
                books.abandon(release_id)
            with pytest.raises(AccountantRefused, match="this release can't go on"):
                writer.charged_before(release_id)
    assert books.findings() == []


def test_both_samples_are_taken_in_one_entry(books: Books) -> None:
    books.add()
    receipt = books.writer().charge(of_two_samples("one", selection_sample_id="e" * 64))
    assert receipt.selection_sample_id == "e" * 64
    assert books.kinds()[-1] == "release-charged/2"
    taken = "SELECT release_id, sample_id, selection_sample_id FROM entry WHERE position = 2"
    [row] = books.raw(lambda connection: connection.execute(text(taken)).all())
    assert tuple(row) == ("one", receipt.sample_id, "e" * 64)
    whole: EpsilonSafeRelease = dataclasses.replace(CHOSEN, selection_rate=None)
    assert books.writer().charge(of_two_samples("two", mechanism=whole)).selection_sample_id is None
    assert books.kinds()[-1] == "release-charged/1"
    assert books.findings() == []


def test_a_release_takes_the_next_free_place_of_its_series_and_costs_nothing_more(books: Books) -> None:
    books.add()
    paid = books.register(releases=3).price
    assert books.price.epsilon < paid.epsilon < 3 * books.price.epsilon
    taken = []
    for number in range(4):
        books.writer().charge(books.of_series(f"r{number}"))
        taken.append(books.number(f"r{number}"))
        if number == 0:
            assert books.abandon("r0")
    assert taken == [1, 2, 3, 1]
    assert books.spent() == (paid.epsilon, paid.delta)
    with pytest.raises(AccountantRefused) as refused:
        books.writer().charge(books.of_series("more"))
    assert refused.value.cause == "series-finished"
    assert books.findings() == []


def test_a_release_takes_the_next_free_place_of_its_part(sqlite_books: Books) -> None:
    books, mixed = sqlite_books, MixedSeries(parts="2 x k=20,rate=0.1; 1 x k=50,rate=0.05")
    year = costs_of(mixed, releases=3)
    books.add()
    books.register("year", free_columns=True, unit=None, **year)
    rarer = {"mechanism": dataclasses.replace(costs_of()["mechanism"], k=50, sampling_rate=Decimal("0.05"))}
    for release_id, part, number in (("a", 2, 3), ("b", 1, 1), ("c", 1, 2)):
        books.writer().charge(books.of_series(release_id, name="year", **year | rarer | {"part": part}))
        assert books.number(release_id) == number
    with pytest.raises(AccountantRefused) as refused:
        books.writer().charge(books.of_series("d", name="year", **year | rarer | {"part": 2}))
    assert refused.value.cause == "series-finished"
    assert books.series("year").taken_of_parts == (2, 1)
    assert books.findings() == []


def test_a_series_that_is_gone_by_the_time_of_the_charge_pays_for_nothing(sqlite_books: Books, monkeypatch) -> None:
    """Such as in a ledger that was put back between the look and the charge."""
    sqlite_books.add()
    before = LedgerState(series={"monthly": Series(registered=sqlite_books.registration().entry, position=1)})
    monkeypatch.setattr(ledger_writer, "looking", lambda _: nullcontext(Look(connection=None, state=before)))
    with pytest.raises(InputRefused, match="no series of this name"):
        sqlite_books.writer().charge(sqlite_books.of_series("one"))
    assert sqlite_books.spent() == (0, 0)


def test_a_charge_to_a_filter_budget_records_what_it_takes(sqlite_books: Books) -> None:
    books = sqlite_books
    books.add_filter()
    books.charge("one")
    books.register(releases=3)
    books.writer().charge(books.of_series("of-series"))
    assert books.kinds()[2:] == ["release-charged/3", "series-registered/3", "release-charged/1"]
    one, series, _ = books.entries()[2:]
    both = one.of_filter.divergence + series.of_filter.divergence, one.of_filter.tail + series.of_filter.tail
    assert books.spent() == both
    assert books.findings() == []


def test_the_accountants_refusal_is_recorded_and_a_mistake_is_not(sqlite_books: Books) -> None:
    books = sqlite_books
    books.add(epsilon=books.price.epsilon / 2)
    books.add("many", rows_per_person=2)
    with pytest.raises(AccountantRefused) as refused:
        books.charge()
    last = books.entries()[-1]
    assert isinstance(last, ReleaseRefused)
    assert (last.cause, last.release_id, last.reason) == ("over-budget", "one", str(refused.value))
    with pytest.raises(AccountantRefused) as refused:
        books.charge("two", dataset="many")
    assert refused.value.cause == books.entries()[-1].cause == "rows-per-person"
    before = books.kinds()
    for mistake in (lambda: books.charge(dataset="unknown"), books.add, lambda: books.register(dataset="unknown")):
        with pytest.raises(InputRefused):
            mistake()
    assert books.kinds() == before
    assert books.findings() == []


def test_an_entry_that_no_reader_could_read_is_refused_and_the_ledger_goes_on(sqlite_books: Books) -> None:
    """True passes for the number 1 in Python, and is another word in JSON."""
    with pytest.raises(InputRefused, match="another type than is read back"):
        sqlite_books.add(rows_per_person=True)
    sqlite_books.add()
    sqlite_books.charge()
    assert sqlite_books.kinds() == ["ledger-created/1", "dataset-added/1", "release-charged/1"]
    assert sqlite_books.findings() == []


def test_a_writer_waits_its_time_and_is_then_refused(books: Books, monkeypatch) -> None:
    """Whether the others came before it opened the ledger or after."""
    assert store.SECONDS_TO_WAIT == 60
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


def test_what_only_the_databases_constraints_see_is_refused_by_them(books: Books) -> None:
    """A writer without rules of its own lets two releases have one sample: nothing of them is kept."""
    books.add()
    twice = books.request("one", sample_id="5" * 64), books.request("two", sample_id="5" * 64)
    with pytest.raises(AccountantRefused, match=r"a constraint of the ledger's database refuses.*ledger verify"):
        books.append(twice[0].entry, twice[1].entry)
    assert books.kinds() == ["ledger-created/1", "dataset-added/1"]


def test_a_database_that_fails_is_told(books: Books) -> None:
    opened = open_store(books.url, read_only=False)
    for work, told in ((opened.reading, "can't be read"), (opened.changing, "can't be written")):
        with pytest.raises(ReleaseFailed, match=f"the ledger {told}"), work() as connection:
            connection.execute(text("SELECT * FROM nothing"))
    opened.close()
    looked = open_store(books.url, read_only=True)
    with pytest.raises(ReleaseFailed, match="open for looking only"), looked.changing():
        pass
    looked.close()


def test_sqlite_keeps_its_promises(sqlite_books: Books) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "recursive_triggers")
    with sqlite_books.writer() as writer, writer._store.changing() as connection:
        pragmas = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1}


def test_postgresql_shows_a_writer_what_was_committed_while_it_waited(postgresql_books: Books) -> None:
    """Whatever the server, the database or the role sets as the default of transactions."""
    books = postgresql_books
    name = make_url(books.url).database
    books.sql(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    with books.writer() as writer, writer._store.changing() as connection:
        assert connection.exec_driver_sql("SHOW default_transaction_isolation").scalar() == "repeatable read"
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"


def test_a_damaged_schema_is_a_ledger_that_can_not_be_opened(sqlite_books: Books) -> None:
    """SQLite quotes what it can't read, which may be no text at all."""
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


def anchored(books: Books, *heads: tuple[int, str]) -> None:
    """Put heads of the ledger into its anchor, after those that are there."""
    anchor = books.anchoring.anchor_of(books.state().ledger_id)
    with anchor.path.open("ab") as file:
        for position, link in heads:
            head = Head(ledger_id=books.state().ledger_id, position=position, hash=link)
            file.write(line_of_head(head, books.anchoring.keys.current()))


def test_a_ledger_that_does_not_continue_its_anchor_is_not_written(sqlite_books: Books, tmp_path) -> None:
    books = sqlite_books
    books.add()
    stranger = dataclasses.replace(books, anchoring=anchoring_at(tmp_path / "other"))
    anchor = books.anchoring.anchor_of(books.state().ledger_id).path
    sound = anchor.read_bytes()
    elsewhere = stranger.anchoring.anchor_of(books.state().ledger_id).path
    elsewhere.parent.mkdir()
    last = books.state().head
    elsewhere.write_bytes(
        line_of_head(
            Head(ledger_id=books.state().ledger_id, position=last.position, hash=last.hash),
            stranger.anchoring.keys.current(),
        )
    )
    with pytest.raises(AccountantRefused, match=r"the last entry, 1, is signed by the key .* isn't of this private"):
        stranger.add("more")
    anchored(books, (7, "d" * 64))
    with pytest.raises(AccountantRefused, match="ends at entry 1, and its anchor vouches for entry 7"):
        books.add("more")
    anchor.write_bytes(b"".join(sound.splitlines(keepends=True)[:-1]))
    anchored(books, (1, "d" * 64))
    with pytest.raises(AccountantRefused, match="entry 1 is not the one that the anchor vouches for"):
        books.add("more")
    anchor.unlink()
    with pytest.raises(AccountantRefused, match="this ledger's anchor is missing") as refused:
        books.add("more")
    assert refused.value.cause == "anchor-missing"
    anchor.write_bytes(sound)
    rotate_key(books.anchoring.keys, os.urandom)
    books.add("more")  # what an earlier key of the store signed holds


def test_a_ledger_of_its_first_entry_alone_may_be_anybodys(sqlite_books: Books, tmp_path) -> None:
    """Nothing was spent by it yet."""
    stranger = dataclasses.replace(sqlite_books, anchoring=anchoring_at(tmp_path / "other"))
    stranger.add()
    with pytest.raises(AccountantRefused, match=r"anchor vouches for|signed by the key|anchor is missing"):
        sqlite_books.add("more")


DAMAGE = {
    "a body": (
        "UPDATE entry SET body = replace(body, 'steward', 'nobody') WHERE position = 1",
        "entry 1 is not the one",
    ),
    "no ASCII": ("UPDATE entry SET body = body || 'é' WHERE position = 1", "entry 1 is not the one"),
    "a hash": (f"UPDATE entry SET hash = '{'e' * 64}' WHERE position = 1", "entry 1 is not the one"),
    "a missing entry": ("DELETE FROM entry WHERE position = 1", "entry 1 is not the one"),
    "a charge's column": ("UPDATE entry SET release_id = 'other' WHERE position = 2", "what entry 2 takes for itself"),
    "a missing end": ("DELETE FROM entry WHERE position = 5", "no signature holds over the last entry, 4"),
    "every entry": ("DELETE FROM entry", "no signature holds over the last entry, -1"),
    "a state": (
        "UPDATE snapshot SET state = replace(state, 'one', 'two')",
        "no signature holds over the last entry, 5",
    ),
    "a statement": ("UPDATE snapshot SET statement = '{}'", "no signature holds over the last entry, 5"),
    "no snapshot": ("DELETE FROM snapshot", "no signature holds over the last entry, 5"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_was_changed_past_the_writers_is_refused(sqlite_books: Books, forge_past_guards, damage: str) -> None:
    books, (statement, told) = sqlite_books, DAMAGE[damage]
    books.add()
    books.read_and_publish(books.charge("one"))
    books.charge("two")
    opened = books.writer()
    forge_past_guards(books, statement)
    for charge in (lambda: opened.charge(books.request("three")), lambda: books.charge("three")):
        with pytest.raises(ForgedState, match=told):
            charge()
    opened.close()


def test_an_entry_that_was_cut_off_while_a_writer_works_is_missed(sqlite_books: Books, monkeypatch) -> None:
    """As in a database that lets a writer's next statement see what others have committed since its first one."""
    books = sqlite_books
    books.add()
    monkeypatch.setattr(transactions, "stored_rows", lambda *_: iter(()))
    opened = open_store(books.url, read_only=False)
    told = "the chain ends at entry -1, and the signed head is 1"
    with pytest.raises(ForgedState, match=told), writing(opened, books.anchoring) as ledger:
        ledger.append(LOOK)
    opened.close()


def test_what_the_snapshot_says_of_a_release_is_held_against_its_entries(sqlite_books: Books) -> None:
    """Whoever only looks asks for no key of his own, so that a stranger could have signed another state."""
    books = sqlite_books
    books.add()
    books.read_and_publish(books.charge("one"))
    opened = open_store(books.url, read_only=True)
    with looking(opened) as ledger:
        one = ledger.state.releases["one"]
        created = ledger.connection.execute(text("SELECT hash FROM entry WHERE position = 0")).scalar()
        with pytest.raises(ForgedState, match="the charge of release 'one' is not what the snapshot says"):
            ledger.charge_of(one._replace(position=0, link=created))
        with pytest.raises(ForgedState, match="entry 2 is missing or changed"):
            ledger.charge_of(one._replace(link="0" * 64))
    opened.close()


def test_the_anchor_is_read_before_the_ledger(sqlite_books: Books) -> None:
    """A head is anchored after its commit: who reads the anchor after the ledger would miss an entry that is there."""
    sqlite_books.add()

    class Overtaken(Anchoring):
        def last_of(self, ledger_id):
            sqlite_books.charge("by-others")
            return Anchoring.last_of(self, ledger_id)

    with sqlite_books.reader() as reader:
        reader.require_anchored(Overtaken(home=sqlite_books.anchoring.home, file=None))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE entry SET body = '{}' WHERE position = 0", "the first entry is damaged"),
        ("UPDATE entry SET body = 'ü' WHERE position = 0", "the first entry is damaged"),
        (
            "UPDATE entry SET body = (SELECT body FROM entry WHERE position = 1) WHERE position = 0",
            "the first entry is damaged",
        ),
        ("UPDATE entry SET hash = zeroblob(64) WHERE position = 1", "the last entry is damaged"),
    ],
)
def test_a_damaged_end_is_told(sqlite_books: Books, forge_past_guards, damage: str, told: str) -> None:
    sqlite_books.add()
    forge_past_guards(sqlite_books, damage)
    with sqlite_books.reader() as reader, pytest.raises((ForgedState, ReleaseFailed), match=told):
        _ = reader.ledger_id, reader.head()
