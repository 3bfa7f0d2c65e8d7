"""A forger who gets past the guards, and knows all but the signing key, lets no charge through and no figure be shown.

Every table is changed in each way that could let something wrong through: less spent, a larger budget, a place or a
sample or a release given back, a row taken out. The writer refuses, the reader doesn't show it, the verification finds
it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.ledger.chain.append import append_entry
from crowdblend.accounting.ledger.chain.signed_state import head_of, sign_state, signer_of
from crowdblend.accounting.ledger.database.schema import METADATA, entry, signed_state
from crowdblend.accounting.ledger.database.store import open_store, present_head
from crowdblend.accounting.ledger.entries.kinds import BudgetRaised, DataAccess, TokenAdded
from crowdblend.accounting.ledger.private_store.signing import SigningKey
from crowdblend.accounting.ledger.queries import account_of, ledger_id_of
from crowdblend.accounting.ledger.rules.rule import StoredState
from crowdblend.mechanisms.errors import AccountantRefused, Refusal
from sqlalchemy import Connection, create_engine, delete, func, insert, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool
from support.guards import past_guards

DAY = date(2026, 3, 5)
FILES = (("data.csv", "c" * 64),)
SAYS_SO = "anchor vouches|signed chain|no signature holds|ledger's (signed )?state|constraint of the ledger's database"


def publish(books: Any, release_id: str, receipt: Any) -> None:
    with books.writer() as writer:
        writer.mark_reading(receipt)
        writer.mark_published(receipt, FILES)


@pytest.fixture
def full(books) -> Any:
    """A ledger with something in every table: what is open, what is closed, what was given back."""
    books.add()
    books.add("survey", survey_rate=Decimal("0.1"))
    books.register(releases=2)
    publish(books, "one", books.charge("one"))
    with books.writer() as writer:
        writer.mark_reading(books.charge("reading"))
    publish(books, "of-survey", books.charge("of-survey", dataset="survey"))
    for release_id in ("first", "second"):
        books.writer().charge(books.of_series(release_id, releases=2))
    books.charge("back")
    books.abandon("back")
    with books.writer() as writer:
        writer.add_token(name="alice", expires=date(2026, 6, 2), by="b", day=DAY, randomness=os.urandom)
        writer.add_token(name="bob", expires=date(2026, 6, 2), by="b", day=DAY, randomness=os.urandom)
        writer.revoke_token(name="alice", by="b", day=DAY)
        writer.record_look(dataset="census", what="a table", by="steward", day=DAY)
    return books


@contextmanager
def past_guards_of(books: Any) -> Iterator[Connection]:
    engine = create_engine(books.url, poolclass=NullPool)
    with engine.begin() as connection, past_guards(connection):
        yield connection
    engine.dispose()


@contextmanager
def forged(books: Any, *work: str | Callable[[Connection], Any]) -> Iterator[None]:
    """The ledger with a change past its guards, which is undone at the end."""
    with past_guards_of(books) as connection:
        kept = {table: connection.execute(select(table)).mappings().all() for table in METADATA.sorted_tables}
        for one in work:
            changed = (
                connection.execute(text(one.replace(":", "\\:"))).rowcount if isinstance(one, str) else one(connection)
            )
            assert changed != 0, one
    yield
    with past_guards_of(books) as connection:
        for table in reversed(METADATA.sorted_tables):
            connection.execute(delete(table))
        for table, rows in kept.items():
            if rows:
                connection.execute(insert(table), [dict(row) for row in rows])


def length(books: Any) -> int:
    return books.raw(lambda connection: connection.execute(select(func.count()).select_from(entry)).scalar())


def sample_of(release_id: str) -> str:
    from hashlib import sha256

    return sha256(release_id.encode()).hexdigest()


# What a writer is asked to do; each succeeds, or is refused for a reason of its own, where nothing was forged.
ATTEMPTS: dict[str, Callable[[Any], Any]] = {
    "charge": lambda books: books.charge("fresh"),
    "raise": lambda books: books.writer().raise_budget(
        name="census", epsilon=Decimal(20), delta=Decimal("0.01"), reason="more", by="b", day=DAY
    ),
    "add": lambda books: books.add(),
    "sample": lambda books: books.charge("of-sample", sample_id=sample_of("one")),
    "again": lambda books: books.charge("one"),
    "survey": lambda books: books.charge("survey-again", dataset="survey"),
    "series": lambda books: books.writer().charge(books.of_series("third", releases=2)),
    "register": lambda books: books.register(releases=2),
    "abandon": lambda books: books.abandon("reading"),
    "of series": lambda books: books.abandon("first"),
    "token": lambda books: books.writer().revoke_token(name="alice", by="b", day=DAY),
    "open": lambda books: books.writer(),
}
READS: dict[str, Callable[[Any], Any]] = {
    "datasets": lambda reader: reader.datasets(),
    "overview": lambda reader: reader.overview(latest=3),
    "series": lambda reader: reader.all_series(),
    "releases": lambda reader: reader.releases(),
    "tokens": lambda reader: reader.tokens(),
    "looks": lambda reader: reader.private_looks(),
}


@dataclass(frozen=True)
class Forgery:
    """Statements past the guards, what the writer must refuse after them, and what the reader must not show."""

    statements: tuple[str, ...]
    attempts: tuple[str, ...]
    reads: tuple[str, ...] = ("overview",)


LAST = "(SELECT max(sequence) FROM account WHERE dataset = 'census')"
FORGERIES: dict[str, Forgery] = {
    "less spent": Forgery(
        (f"UPDATE account SET epsilon_spent = '0' WHERE dataset = 'census' AND sequence = {LAST}",),
        ("charge", "raise"),
        ("datasets", "overview"),
    ),
    "a larger budget": Forgery(
        (f"UPDATE account SET epsilon_budget = '1000' WHERE dataset = 'census' AND sequence = {LAST}",),
        ("charge", "raise"),
        ("datasets", "overview"),
    ),
    "an account's last row gone": Forgery(
        (f"DELETE FROM account WHERE dataset = 'census' AND sequence = {LAST}",), ("charge",), ("datasets", "overview")
    ),
    "an account gone": Forgery(
        ("DELETE FROM account WHERE dataset = 'census'",), ("charge",), ("datasets", "overview")
    ),
    "a later account": Forgery(
        (
            "INSERT INTO account SELECT dataset, sequence + 40, 0, '0', '0', '9', '0.1' "
            "FROM account WHERE sequence = 0 AND dataset = 'census'",
        ),
        ("charge",),
        ("datasets", "overview"),
    ),
    "a data set gone": Forgery(
        ("DELETE FROM dataset WHERE name = 'census'",), ("charge", "add"), ("datasets", "overview")
    ),
    "another registration": Forgery(
        ("UPDATE dataset SET position = 900 WHERE name = 'census'",),
        ("charge",),
        ("datasets", "overview"),
    ),
    "more records of a person": Forgery(
        ("""UPDATE entry SET body = replace(body, '"rows_per_person":1', '"rows_per_person":2') WHERE position = 1""",),
        ("charge",),
        ("datasets", "overview"),
    ),
    "a sample gone": Forgery((f"DELETE FROM sample WHERE sample_id = '{sample_of('one')}'",), ("sample",)),
    "another sample": Forgery(
        (f"UPDATE sample SET sample_id = '{'e' * 64}' WHERE sample_id = '{sample_of('one')}'",), ("sample",), ()
    ),
    "a release gone": Forgery(("DELETE FROM release WHERE release_id = 'one'",), ("again",), ("overview", "releases")),
    "a charge rewritten": Forgery(
        ("""UPDATE entry SET body = replace(body, '"spec_digest":"a', '"spec_digest":"b') WHERE body LIKE '%one%'""",),
        ("again",),
        ("releases",),
    ),
    "reading forgotten": Forgery(
        ("DELETE FROM release_stage WHERE release_id = 'reading' AND stage = 'reading'",),
        ("abandon",),
        ("overview", "releases"),
    ),
    "given back": Forgery(
        ("INSERT INTO release_stage VALUES ('first', 'closed', 'refunded', 0)",),
        ("series", "of series"),
        ("overview", "series", "releases"),
    ),
    "given up": Forgery(
        ("UPDATE release_stage SET outcome = 'refunded' WHERE release_id = 'of-survey' AND stage = 'closed'",),
        ("survey",),
        ("overview", "releases"),
    ),
    "a survey's release gone": Forgery(
        (
            "DELETE FROM survey_use",
            "DELETE FROM release_stage WHERE release_id = 'of-survey'",
            "DELETE FROM sample WHERE release_id = 'of-survey'",
            "DELETE FROM release WHERE release_id = 'of-survey'",
        ),
        ("survey",),
    ),
    "a survey not used": Forgery(("DELETE FROM survey_use",), ()),
    "a place gone": Forgery(
        ("DELETE FROM series_release WHERE release_id = 'second'",), ("series",), ("overview", "series")
    ),
    "another place": Forgery(("UPDATE series_release SET number = 9 WHERE release_id = 'second'",), ("series",), ()),
    "a series gone": Forgery(("DELETE FROM series",), ("series", "register"), ("overview", "series")),
    "a longer series": Forgery(("UPDATE series SET releases = 50",), ("series",), ("overview", "series")),
    "a longer series' price": Forgery(
        ("""UPDATE entry SET body = replace(body, '"releases":2', '"releases":9') WHERE kind LIKE 'series-%'""",),
        ("series",),
        ("overview", "series"),
    ),
    "a token not revoked": Forgery(("DELETE FROM entry WHERE kind = 'token-revoked/1'",), ("token",), ("tokens",)),
    "a token for somebody else": Forgery(
        ("UPDATE entry SET body = replace(body, 'bob', 'eve') WHERE kind = 'token-added/1' AND body LIKE '%bob%'",),
        ("token",),
        ("tokens",),
    ),
    "a look forgotten": Forgery(("UPDATE entry SET kind = 'nothing/1' WHERE kind = 'private-look/1'",), (), ("looks",)),
    "the last entry gone": Forgery(
        ("DELETE FROM entry WHERE position = (SELECT max(position) FROM entry)",), ("open", "charge"), tuple(READS)
    ),
    "no state": Forgery(("DELETE FROM state_node",), ("charge",), ("datasets", "overview", "releases")),
    "no topmost node": Forgery(("DELETE FROM state_node WHERE path = ''",), ("charge",), ("datasets", "overview")),
    "another node": Forgery(
        ("UPDATE state_node SET children = replace(children, 'a', 'b')",), ("charge",), ("datasets", "overview")
    ),
    "another root": Forgery((f"UPDATE signed_state SET root = '{'e' * 64}'",), ("open",), tuple(READS)),
    "no signature": Forgery(("UPDATE signed_state SET statement = ''",), ("open",), tuple(READS)),
    "no signed state": Forgery(("DELETE FROM signed_state",), ("open",), tuple(READS)),
    "another signature": Forgery(
        ("""UPDATE signed_state SET statement = replace(statement, '"position":', '"position":1')""",),
        ("open",),
        tuple(READS),
    ),
}


@pytest.mark.slow
def test_what_nobody_forged_is_shown_and_goes_on(full) -> None:
    """The control: each attempt ends as it should, and every read tells."""
    own = {
        "add": "in the ledger already",
        "sample": "a sample serves one release",
        "again": "in the ledger already",
        "survey": "can be released once",
        "series": "releases are taken",
        "register": "in the ledger already",
        "token": "no such token",
    }
    with forged(full):
        pass
    assert full.findings() == []
    for name, attempt in ATTEMPTS.items():
        if name in own:
            with pytest.raises(Refusal, match=own[name]):
                attempt(full)
        else:
            attempt(full)
    with full.reader() as reader:
        for read in READS.values():
            assert read(reader)
    assert full.findings() == []


def outcome(work: Callable[[Any], Any], on: Any) -> str:
    """What a refusal by the signed state says; otherwise what else happened."""
    try:
        work(on)
    except AccountantRefused as refused:
        advised = "crowdblend ledger verify" in refused.message and refused.exit_code == 3
        return "forged" if advised and re.search(SAYS_SO, refused.message) else refused.message
    return "done"


def test_forged_rows_of_every_table_are_refused_and_not_shown(full) -> None:
    wrong = []
    for name, forgery in FORGERIES.items():
        with forged(full, *forgery.statements):
            before = length(full)
            wrong += [(name, "found by nobody")] if not full.findings() else []
            wrong += [
                (name, attempt, said)
                for attempt in forgery.attempts
                if (said := outcome(ATTEMPTS[attempt], full)) != "forged"
            ]
            wrong += [(name, "written")] if length(full) != before else []
            with full.reader() as reader:
                wrong += [
                    (name, read, said) for read in forgery.reads if (said := outcome(READS[read], reader)) != "forged"
                ]
    assert wrong == []
    assert full.findings() == []


def test_every_table_has_its_forgery() -> None:
    words = " ".join(statement for forgery in FORGERIES.values() for statement in forgery.statements)
    for table in METADATA.tables:
        assert f" {table} " in f"{words} ", table


def raised(connection: Connection) -> int:
    """A larger budget with all that follows from it, by the ledger's own programs, but for the signature."""
    more = BudgetRaised(
        dataset="census", epsilon=Decimal(1000), delta=Decimal("0.9"), reason="more", by="forger", day=DAY
    )
    signer_of(connection, present_head(connection))
    return append_entry(connection, more, StoredState(connection)).position


def let_in(connection: Connection) -> int:
    """A token of the forger's own, as a sound entry."""
    added = TokenAdded(
        token_id="f" * 16, name="eve", secret_digest="e" * 64, expires=date(2027, 1, 1), by="forger", day=DAY
    )
    signer_of(connection, present_head(connection))
    return append_entry(connection, added, StoredState(connection)).position


@pytest.mark.parametrize("work", [raised, let_in])
def test_a_sound_entry_that_no_writer_signed_is_refused(full, work) -> None:
    """The chain, the rows and the state all fit: only the signature is missing, or is the forger's own."""
    forger = SigningKey(seed=b"\x07" * 32)

    def signs(connection: Connection) -> None:
        root = connection.execute(select(signed_state.c.root)).scalar()
        sign_state(connection, present_head(connection), forger, root=root)

    with forged(full, work):
        with pytest.raises(AccountantRefused, match="no signature holds over the last entry"):
            full.charge("fresh")
        with full.reader() as reader, pytest.raises(AccountantRefused, match="no signature holds"):
            reader.datasets()
        assert any("no signature holds" in what for what in full.findings())
    with forged(full, work, signs):
        for attempt in ("charge", "open", "token"):
            with pytest.raises(AccountantRefused, match=f"signed by the key {forger.public.key_id}"):
                ATTEMPTS[attempt](full)
        with full.reader() as reader:
            anchor = full.anchoring.anchor_of(reader.ledger_id).path
            with pytest.raises(AccountantRefused, match=f"signed by the key {forger.public.key_id}"):
                reader.require_anchored(full.anchoring)
            check = reader.verify_anchor(anchor, trusted=full.anchoring.keys.public_keys())
        assert any(f"signed by the key {forger.public.key_id}" in what for what in check.findings)
    full.charge("fresh")


def test_an_earlier_state_with_its_signature_is_refused(full) -> None:
    """The tables, the state and the signature of an earlier day, under the chain of today."""
    with past_guards_of(full) as connection:
        kept = {table: connection.execute(select(table)).mappings().all() for table in METADATA.sorted_tables}
    full.charge("later")

    def back(connection: Connection) -> None:
        for table in reversed(METADATA.sorted_tables):
            if table is not entry:
                connection.execute(delete(table))
        for table, rows in kept.items():
            if table is not entry:
                connection.execute(insert(table), [dict(row) for row in rows])

    with forged(full, back):
        for attempt in ("charge", "again"):
            with pytest.raises(AccountantRefused, match="no signature holds"):
                ATTEMPTS[attempt](full)


def test_a_new_ledger_of_another_store_is_taken_up_and_a_forged_one_is_not(books) -> None:
    """A ledger with nothing but its first entry may be another store's; its tables must be empty all the same."""
    forger = SigningKey(seed=b"\x07" * 32)

    def signs(connection: Connection) -> None:
        assert head_of(connection).position == 0
        assert ledger_id_of(connection)
        root = connection.execute(select(signed_state.c.root)).scalar()
        sign_state(connection, present_head(connection), forger, root=root)

    with forged(books, signs):
        books.writer()
    books.add()
    with forged(books, "DELETE FROM account", "DELETE FROM dataset", "DELETE FROM entry WHERE position = 1", signs):
        with pytest.raises(AccountantRefused, match="anchor vouches for entry 1"):
            books.writer()
        books.anchoring.anchor_of(books.raw(ledger_id_of)).path.unlink()
        with pytest.raises(AccountantRefused, match="signed by the key"):
            books.writer()


def test_what_is_changed_while_a_writer_works_decides_nothing(postgresql_books) -> None:
    """PostgreSQL lets a writer's next statement see what others have committed since its first one.

    What vouches for the rows can't be changed meanwhile: it is what writers lock.
    """
    books = postgresql_books
    books.add()
    look = DataAccess(dataset="census", what="a table", by="steward", day=DAY)
    store = open_store(books.url, anchoring=books.anchoring)
    with store.writing() as connection:
        with pytest.raises(OperationalError, match="lock timeout"):
            books.sql("SET lock_timeout = '100ms'", f"UPDATE signed_state SET root = '{'e' * 64}'")
        assert account_of(connection, "census").account.epsilon_spent == 0
        append_entry(connection, look, StoredState(connection))
    assert books.findings() == []

    def attempt() -> None:
        with store.writing() as connection:
            books.sql(
                "INSERT INTO entry SELECT position + 1, hash, repeat('e', 64), 'x', 'x' FROM entry "
                "ORDER BY position DESC LIMIT 1"
            )
            append_entry(connection, look, StoredState(connection))

    with pytest.raises(AccountantRefused, match="constraint"):
        attempt()
    store.close()
