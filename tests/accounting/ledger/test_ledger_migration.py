"""A migration is one transaction, whatever stops it, and nobody else writes meanwhile; it mends a damaged snapshot.

What it makes of each ledger that an earlier version wrote is in `test_earlier_ledgers`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.kernel.ledger import database as store
from crowdblend.accounting.kernel.ledger.transactions import head_in, keep_snapshot, stored_state
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.ledger import creation
from crowdblend.accounting.ledger.creation import MIGRATIONS, Migrated, migrate_ledger
from crowdblend.accounting.ledger.opening import (
    EARLIER_REVISIONS,
    SCHEMA_REVISION,
    UNSIGNED_REVISIONS,
    VERSION_TABLE,
    open_store,
)
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.accounting.ledger.roles import Roles, grant_roles
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal, ReleaseFailed
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.pool import NullPool
from support.earlier_ledgers import PlacedLedger, database_content, load_ledger, private_files
from support.interruptions import run_interrupted
from support.system_calls import Work, system_calls

DONE = Migrated(before="0003", after=SCHEMA_REVISION, entries=13, mended=False)
TAKEN_BACK = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "LOCK TABLE signed_state IN EXCLUSIVE MODE"}
"""How a writer of the earlier version keeps others out."""


@pytest.fixture(params=["sqlite", "postgresql"])
def load_earlier(request, tmp_path_factory) -> Callable[[], PlacedLedger]:
    """Puts a ledger of the earlier revision into a new database; its anchor is behind."""
    server = request.getfixturevalue("postgresql_server") if request.param == "postgresql" else None
    return lambda: load_ledger("anchor-behind", place=tmp_path_factory.mktemp("earlier"), server=server)


@pytest.fixture
def earlier(load_earlier) -> PlacedLedger:
    """A ledger of the earlier revision, in either database."""
    return load_earlier()


@pytest.fixture
def migrated(load_earlier) -> dict[str, Any]:
    """What a migration that nothing disturbs makes of the same ledger."""
    other = load_earlier()
    migrate_ledger(other.url, anchoring=other.anchoring)
    return database_content(other.url)


@contextmanager
def failing_statement(number: int) -> Iterator[None]:
    """Let the database find a fault in one of the statements that this process sends, counted from 0."""
    sent = count()

    def fail(connection, cursor, statement, parameters, context, many) -> tuple[str, Any]:
        faulty = "SELECT nothing FROM nowhere", [()] if many else ()
        return faulty if next(sent) == number else (statement, parameters)

    event.listen(Engine, "before_cursor_execute", fail, retval=True)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", fail)


def test_a_statement_that_fails_leaves_the_ledger_as_it_was(earlier, migrated) -> None:
    before, files = database_content(earlier.url), private_files(earlier.home)
    for number in count():
        done = None
        with failing_statement(number), suppress(InputRefused, ReleaseFailed):
            done = migrate_ledger(earlier.url, anchoring=earlier.anchoring)
        if done is not None:
            break
        assert database_content(earlier.url) == before, number
    assert done == DONE
    assert number > 30  # each table, guard and part of the entries has a statement
    assert (database_content(earlier.url), private_files(earlier.home)) == (migrated, files)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [True, False])
def test_a_migration_that_is_interrupted_can_be_repeated(earlier, migrated, commands, killed) -> None:
    fault = "full disk" if earlier.url.startswith("sqlite") else "lost connection"
    fault = "kill" if killed else fault
    before, files = database_content(earlier.url), private_files(earlier.home)
    environment = {**os.environ, "CROWDBLEND_LEDGER": earlier.url, "CROWDBLEND_HOME": str(earlier.home)}
    codes = set()
    for step in count():
        code, out, err, steps = run_interrupted(
            commands, ("ledger", "migrate"), folder=earlier.home.parent, environment=environment, fault=fault, at=step
        )
        codes.add(code)
        if code == 0:
            break
        assert "Traceback" not in err
        assert out == ""
        assert database_content(earlier.url) == before, (step, steps[-1])
    assert steps[-1] == "commit"
    assert step == len(steps)
    assert codes == ({0, -9} if fault == "kill" else {0, 1})
    assert "from schema revision 0003 to 0004" in out
    assert (database_content(earlier.url), private_files(earlier.home)) == (migrated, files)


@pytest.mark.parametrize("every", [pytest.param(24, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)])
def test_killed_before_any_system_call_a_migration_is_done_or_not(earlier, migrated, load_earlier, every) -> None:
    """The calls are not listed here: a migration that nobody kills ends before the last of them."""
    before, files = database_content(earlier.url), private_files(earlier.home)
    seen, ledger = Counter[str](), earlier
    for place in count(step=every):
        calls = system_calls(partial(migrating, ledger), kill_before=place)
        wait_for_the_server(ledger.url)
        content = database_content(ledger.url)
        assert content in (before, migrated), place
        assert private_files(ledger.home) == files, place
        seen["migrated" if content == migrated else "as before"] += 1
        if calls <= place:  # it has ended before
            break
        if content == migrated:
            ledger = load_earlier()
    print(f"{calls} calls: {dict(seen)}")
    assert content == migrated
    assert seen["as before"] * every > calls // 2
    assert seen["migrated"] > 1 or every > 1


def migrating(ledger: PlacedLedger) -> Work:
    return lambda: migrate_ledger(ledger.url, anchoring=ledger.anchoring) and None


def wait_for_the_server(url: str) -> None:
    """Wait until PostgreSQL has ended what it does for a process that was killed."""
    engine = create_engine(url, poolclass=NullPool)
    others = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with engine.connect() as connection:
        while engine.dialect.name == "postgresql" and connection.execute(text(others)).scalar():
            connection.rollback()  # what is asked for is the same throughout a transaction
            time.sleep(0.005)


@pytest.mark.slow
def test_of_two_migrations_at_once_one_finds_nothing_to_do(earlier, migrated, commands) -> None:
    environment = {**os.environ, "CROWDBLEND_LEDGER": earlier.url, "CROWDBLEND_HOME": str(earlier.home)}
    words = ("ledger", "migrate")
    both = [commands.start(*words, folder=earlier.home, environment=environment) for _ in range(2)]
    ended = [process.finish() for process in both]
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert sorted("already" in out for _, out, _ in ended) == [False, True]
    assert database_content(earlier.url) == migrated


def test_a_migration_that_comes_second_changes_nothing(earlier, migrated, monkeypatch) -> None:
    """It has looked for the revision before the first one ended."""
    migrate_ledger(earlier.url, anchoring=earlier.anchoring)
    monkeypatch.setattr(creation, "revision_of", lambda _: "0003")
    assert migrate_ledger(earlier.url, anchoring=earlier.anchoring) == replace(DONE, before=SCHEMA_REVISION)
    assert database_content(earlier.url) == migrated


def test_a_migration_waits_for_a_writer_of_the_earlier_version(earlier, monkeypatch) -> None:
    monkeypatch.setattr(store, "SECONDS_TO_WAIT", 1)
    before, engine = database_content(earlier.url), create_engine(earlier.url, poolclass=NullPool)
    with engine.connect() as writer:
        writer.exec_driver_sql(TAKEN_BACK[engine.dialect.name])
        with pytest.raises(AccountantRefused, match="other writers held the ledger"):
            migrate_ledger(earlier.url, anchoring=earlier.anchoring)
        writer.rollback()
    assert database_content(earlier.url) == before
    assert migrate_ledger(earlier.url, anchoring=earlier.anchoring) == DONE


@pytest.fixture
def postgresql_ledger(postgresql_server, tmp_path) -> PlacedLedger:
    """A ledger of the earlier revision, on PostgreSQL."""
    return load_ledger("anchor-behind", place=tmp_path, server=postgresql_server)


def test_the_owner_alone_migrates_and_grants_again_what_roles_may(postgresql_ledger) -> None:
    roles = Roles(writer=f"writer_{os.getpid()}", auditor=f"auditor_{os.getpid()}")
    owner = create_engine(postgresql_ledger.url, poolclass=NullPool)
    with owner.begin() as connection:
        for name in (roles.writer, roles.auditor):
            connection.execute(text(f"CREATE ROLE {name} LOGIN"))
            connection.execute(text(f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO {name}"))
        connection.execute(text(f"GRANT UPDATE ON signed_state, state_node TO {roles.writer}"))
        functions = "lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea)"
        connection.execute(text(f"REVOKE EXECUTE ON FUNCTION {functions} FROM PUBLIC"))
    before = database_content(postgresql_ledger.url)
    of = {name: postgresql_ledger.url.replace("postgres@", f"{name}@") for name in (roles.writer, roles.auditor)}
    for url in of.values():
        with pytest.raises(ReleaseFailed, match=r"can't be written \(InsufficientPrivilege\)"):
            migrate_ledger(url, anchoring=postgresql_ledger.anchoring)
    assert database_content(postgresql_ledger.url) == before
    migrate_ledger(postgresql_ledger.url, anchoring=postgresql_ledger.anchoring)
    for url in of.values():
        with pytest.raises(Refusal, match="InsufficientPrivilege"), open_reader(url) as reader:
            list(reader.entries())
    grant_roles(postgresql_ledger.url, roles, apply=True)
    for url in of.values():
        with open_reader(url) as reader:
            assert reader.verify() == ()


@pytest.fixture
def golden(empty_url, tmp_path, golden_ledger):
    """A ledger with entries of every kind, on either database."""
    return golden_ledger(empty_url, tmp_path / "home")


GARBLED = {
    "cut off": "UPDATE snapshot SET state = substr(state, 1, 100)",
    "one figure changed": "UPDATE snapshot SET state = replace(state, '1', '2')",
    "empty": "UPDATE snapshot SET state = ''",
    "no JSON": "UPDATE snapshot SET state = 'ö'",
}


@pytest.mark.parametrize("garbled", GARBLED)
def test_a_damaged_snapshot_is_made_again(golden, garbled) -> None:
    whole, files = database_content(golden.url), private_files(golden.anchoring.home)
    golden.sql(GARBLED[garbled])
    with pytest.raises(AccountantRefused, match="no signature holds over the last entry"):
        golden.add("one more")
    done = migrate_ledger(golden.url, anchoring=golden.anchoring)
    assert done == Migrated(before=SCHEMA_REVISION, after=SCHEMA_REVISION, entries=len(whole["entry"]), mended=True)
    assert (database_content(golden.url), private_files(golden.anchoring.home)) == (whole, files)
    assert not migrate_ledger(golden.url, anchoring=golden.anchoring).mended
    golden.add("one more")
    assert golden.findings() == []


NOT_MENDED = {
    "the statement is gone": ("UPDATE snapshot SET statement = ''", "no signature holds over the last entry"),
    "the snapshot is gone": ("DELETE FROM snapshot", "no signature holds over the last entry"),
    "an entry was changed": (
        "UPDATE entry SET body = replace(body, '2026', '2025') WHERE position = {last}",
        "does not hold: entry {last}: the entry's content differs from its hash",
    ),
    "a charge takes something else": (
        "UPDATE entry SET release_id = 'another' WHERE position = (SELECT MIN(position) FROM entry WHERE release_id "
        "IS NOT NULL)",
        "what it takes for itself alone differs",
    ),
    "the last entry was cut off": (
        "DELETE FROM entry WHERE position = {last}",
        "no signature holds over the last entry",
    ),
}


@pytest.mark.parametrize("damage", NOT_MENDED)
def test_nothing_is_made_again_of_what_nobody_signed(golden, forge_past_guards, damage) -> None:
    statement, told = NOT_MENDED[damage]
    last = len(database_content(golden.url)["entry"]) - 1
    forge_past_guards(golden, GARBLED["cut off"], statement.format(last=last))
    before = database_content(golden.url)
    with pytest.raises(AccountantRefused, match=told.format(last=last)) as refused:
        migrate_ledger(golden.url, anchoring=golden.anchoring)
    assert "ledger verify" in refused.value.remedy
    assert database_content(golden.url) == before


@pytest.mark.parametrize("told", ["which isn't of this private store", "its anchor vouches for entry"])
def test_a_snapshot_is_not_made_again_of_what_others_signed_or_of_an_older_copy(golden, tmp_path, told: str) -> None:
    with closing(open_store(golden.url, read_only=False)) as opened, opened.changing() as connection:
        state, _ = stored_state(connection)
        if "vouches" in told:
            later = replace(head_in(state), position=len(database_content(golden.url)["entry"]), hash="0" * 64)
            golden.anchoring.record(later, golden.anchoring.keys.current(), written=True)
        else:
            others = SigningKeys(home=tmp_path / "others")
            create_where_none(others, bytes)
            keep_snapshot(connection, state, others.current())
    golden.sql(GARBLED["empty"])
    before = database_content(golden.url)
    with pytest.raises(AccountantRefused, match=told):
        migrate_ledger(golden.url, anchoring=golden.anchoring)
    assert database_content(golden.url) == before


def test_there_must_be_a_ledger(empty_url, anchoring) -> None:
    with pytest.raises(InputRefused, match="no ledger here"):
        migrate_ledger(empty_url, anchoring=anchoring)
    with pytest.raises(InputRefused, match="no ledger here"):
        open_reader(empty_url)


UNKNOWN = {
    **{number: f"No later version reads it.*commit {commit}" for number, commit in UNSIGNED_REVISIONS.items()},
    "9001": "version of crowdblend that wrote it, or a later one",
}


@pytest.mark.parametrize("number", UNKNOWN)
def test_a_ledger_of_another_revision_is_not_touched_and_its_remedy_told(golden, number) -> None:
    golden.sql(f"UPDATE {VERSION_TABLE} SET version_num = '{number}'")
    before = database_content(golden.url)
    for attempt in (golden.reader, golden.writer, lambda: migrate_ledger(golden.url, anchoring=golden.anchoring)):
        with pytest.raises(InputRefused, match=rf"schema revision {number}.*{UNKNOWN[number]}"):
            attempt()
    assert database_content(golden.url) == before


def test_the_revisions_that_are_known_form_one_chain() -> None:
    from alembic.script import ScriptDirectory

    scripts = [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()]
    assert tuple(reversed(scripts)) == (*EARLIER_REVISIONS, SCHEMA_REVISION)
