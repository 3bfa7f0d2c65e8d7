"""A later version brings a ledger to its own tables and keeps every entry; before that, nothing can be done with it.

There is no earlier revision than the present one. So the later version is made up: this one's sources with one revision
more, which gives each release's row its label; or this very process with one revision more.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from crowdblend.accounting.ledger.chain.signed_state import sign_state, signer_of, vouched
from crowdblend.accounting.ledger.database import creation, schema, store
from crowdblend.accounting.ledger.database.creation import MIGRATIONS, Migrated, migrate_ledger
from crowdblend.accounting.ledger.database.schema import (
    EARLIER_REVISIONS,
    OBJECTS,
    SCHEMA_REVISION,
    UNSIGNED_REVISIONS,
    VERSION_TABLE,
)
from crowdblend.accounting.ledger.database.store import present_head
from crowdblend.accounting.ledger.private_store.signing import SigningKey
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.errors import AccountantRefused, InputRefused
from sqlalchemy import text

LEDGER = MIGRATIONS.resolve().parents[1]
SOURCES = LEDGER.parents[1]
ROOMS = ("mechanisms", "accounting", "tasks", "flows", "deploy")
LATER = "9999"
REVISION = """
from alembic import op

revision, down_revision, branch_labels, depends_on = "9999", "{present}", None, None


def upgrade():
    connection, guards = op.get_bind(), []
    sqlite = connection.dialect.name == "sqlite"
    label = "json_extract(body, '$.label')" if sqlite else "body::json->>'label'"
    if sqlite:
        found = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'release'"
        guards = connection.exec_driver_sql(found).fetchall()
    for name, _ in guards:
        op.execute(f"DROP TRIGGER {{name}}")
    op.execute("ALTER TABLE release ADD COLUMN label TEXT NOT NULL DEFAULT ''")
    if not sqlite:
        op.execute("ALTER TABLE release DISABLE TRIGGER release_append_only")
    op.execute(f"UPDATE release SET label = (SELECT {{label}} FROM entry WHERE entry.position = release.position)")
    for _, definition in guards:
        connection.exec_driver_sql(definition)
    if not sqlite:
        op.execute("ALTER TABLE release ENABLE TRIGGER release_append_only")
"""
EDITS = {
    "database/schema.py": {
        f'SCHEMA_REVISION = "{SCHEMA_REVISION}"': f'SCHEMA_REVISION = "{LATER}"',
        "EARLIER_REVISIONS: tuple[str, ...] = ()": f'EARLIER_REVISIONS: tuple[str, ...] = ("{SCHEMA_REVISION}",)',
        'Column("release_id", WORDS, primary_key=True),\n    Column("dataset"': 'Column("release_id", WORDS, '
        'primary_key=True),\n    Column("label", WORDS, nullable=False),\n    Column("dataset"',
    },
    "chain/append.py": {
        '"dataset": entry.dataset}),\n        *(': '"dataset": entry.dataset, "label": entry.label}),\n        *('
    },
}


@pytest.fixture(scope="module")
def later(tmp_path_factory) -> Callable[..., Any]:
    """Runs a command of the later version; gives its exit code, its object and all that it says."""
    package = tmp_path_factory.mktemp("later") / "crowdblend"
    for room in ROOMS:
        shutil.copytree(SOURCES / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    ledger = package / LEDGER.relative_to(SOURCES)
    for name, edits in EDITS.items():
        content = (ledger / name).read_text(encoding="utf-8")
        for before, after in edits.items():
            assert content.count(before) == 1, before
            content = content.replace(before, after)
        (ledger / name).write_text(content, encoding="utf-8")
    objects = ledger / OBJECTS.resolve().relative_to(LEDGER)
    made = json.loads(objects.read_bytes())
    made["postgresql"]["column release.label"] = "4 text t default ''::text"
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(made["sqlite"]["table release"].removeprefix("release "))
        database.execute("ALTER TABLE release ADD COLUMN label TEXT NOT NULL DEFAULT ''")
        [definition] = database.execute("SELECT sql FROM sqlite_master WHERE name = 'release'").fetchone()
    made["sqlite"]["table release"] = f"release {definition}"
    objects.write_text(json.dumps(made), encoding="utf-8")
    revision = REVISION.format(present=SCHEMA_REVISION)
    (ledger / MIGRATIONS.resolve().relative_to(LEDGER) / "versions" / f"r{LATER}_labels.py").write_text(
        revision, encoding="utf-8"
    )

    def run(books: Any, *words: str) -> tuple[int, dict[str, Any], str]:
        places = {"CROWDBLEND_LEDGER": books.url, "CROWDBLEND_HOME": str(books.anchoring.home)}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "crowdblend.deploy", *words, "--json"],
            env=os.environ | places | {"PYTHONPATH": str(package.parent)},
            cwd=books.anchoring.home,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, json.loads(done.stdout or "{}"), done.stdout + done.stderr

    return run


@pytest.fixture
def golden(empty_url, tmp_path, golden_ledger):
    """A ledger with entries of every kind, on either database."""
    return golden_ledger(empty_url, tmp_path / "home")


def chain(books):
    return books.raw(lambda connection: connection.execute(text("SELECT * FROM entry ORDER BY position")).all())


def revision(books) -> str:
    return books.raw(lambda connection: connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar())


@pytest.mark.slow
@pytest.mark.parametrize("empty_url", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)], indirect=True)
def test_a_later_version_keeps_every_entry_and_goes_on(golden, later) -> None:
    before = chain(golden)
    for words in (("ledger", "verify"), ("dataset", "list")):
        code, _, said = later(golden, *words)
        assert code == 2
        assert f"schema revision {SCHEMA_REVISION}" in said
        assert "crowdblend ledger migrate" in said
    done = {"before": SCHEMA_REVISION, "after": LATER, "entries": len(before)}
    assert later(golden, "ledger", "migrate")[:2] == (0, done)
    assert (chain(golden), revision(golden)) == (before, LATER)
    assert golden.raw(lambda connection: signer_of(connection, present_head(connection))) in (
        golden.anchoring.keys.public_keys()
    )
    labels = "SELECT count(*), count(DISTINCT label), min(length(label)) FROM release"
    count, different, shortest = golden.raw(lambda connection: connection.execute(text(labels)).one())
    assert count > different >= 1
    assert shortest > 0
    anchor = golden.anchoring.anchor_of(json.loads(before[0].body)["ledger_id"]).path
    code, told, _ = later(golden, "ledger", "verify", "--anchor", str(anchor))
    assert (code, told["findings"]) == (0, [])
    assert later(golden, "ledger", "migrate")[:2] == (0, done | {"before": LATER})
    for attempt in (golden.reader, golden.writer, lambda: migrate_ledger(golden.url, anchoring=golden.anchoring)):
        with pytest.raises(InputRefused, match=rf"schema revision {LATER}.*a later one"):
            attempt()
    later_entry = ("token", "add", "an auditor", "--expires", "9d")
    assert later(golden, *later_entry)[0] == 0
    assert chain(golden)[:-1] == before
    assert later(golden, "ledger", "verify")[0] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("forgery", "told"),
    [
        (("UPDATE account SET epsilon_spent = '0' WHERE sequence = 1",), "would not hold: entry"),
        (
            ("DELETE FROM account WHERE position = {last}", "DELETE FROM entry WHERE position = {last}"),
            "anchor vouches",
        ),
    ],
)
def test_a_ledger_that_does_not_hold_is_not_migrated(golden, later, forge_past_guards, forgery, told) -> None:
    last = len(chain(golden)) - 1
    before = forge_past_guards(golden, *(statement.format(last=last) for statement in forgery))
    code, _, said = later(golden, "ledger", "migrate")
    assert code == 3
    assert told in said
    assert (revision(golden), chain(golden)) == (SCHEMA_REVISION, before)


@pytest.fixture
def one_revision_more(tmp_path, monkeypatch, golden_ledger) -> Callable[..., Any]:
    """Makes this process a version with one revision more, which runs some SQL; gives a ledger of the one before."""

    def make(*statements: str) -> Any:
        golden = golden_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "home")
        shutil.copytree(MIGRATIONS, tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / f"migrations/versions/r{LATER}.py").write_text(
            f"from alembic import op\n"
            f'revision, down_revision, branch_labels, depends_on = "{LATER}", "{SCHEMA_REVISION}", None, None\n'
            f"def upgrade():\n"
            f"    for statement in {statements!r}:\n"
            f"        op.execute(statement)\n",
            encoding="utf-8",
        )
        monkeypatch.setattr(creation, "MIGRATIONS", tmp_path / "migrations")
        monkeypatch.setattr(creation, "SCHEMA_REVISION", LATER)
        monkeypatch.setattr(schema, "SCHEMA_REVISION", LATER)
        made = json.loads(OBJECTS.read_bytes())
        made["sqlite"]["table later"] = "later CREATE TABLE later (place INTEGER)"
        monkeypatch.setattr(schema, "OBJECTS", tmp_path / "objects.json")
        (tmp_path / "objects.json").write_text(json.dumps(made), encoding="utf-8")
        monkeypatch.setattr(creation, "EARLIER_REVISIONS", (SCHEMA_REVISION,))
        return golden

    return make


def everything(books) -> list[Any]:
    """All rows and definitions of a database."""

    def read(connection) -> list[Any]:
        definitions = connection.execute(text("SELECT name, type, sql FROM sqlite_master ORDER BY type, name")).all()
        tables = [name for name, kind, _ in definitions if kind == "table"]
        return [definitions, *(connection.execute(text(f"SELECT * FROM {name}")).all() for name in tables)]

    return books.raw(read)


def test_a_migration_keeps_every_entry_and_a_second_one_changes_nothing(one_revision_more, monkeypatch) -> None:
    golden = one_revision_more("CREATE TABLE later (place INTEGER)")
    monkeypatch.setattr(store, "SCHEMA_REVISION", LATER)
    monkeypatch.setattr(store, "EARLIER_REVISIONS", (SCHEMA_REVISION,))
    for attempt in (golden.reader, golden.writer):
        with pytest.raises(
            InputRefused, match=rf"{SCHEMA_REVISION}.*Nothing was read.*crowdblend ledger migrate"
        ) as told:
            attempt()
        assert str(told.value.where).endswith("ledger.db")
    before, key = chain(golden), golden.anchoring.keys.rotate(os.urandom)
    done = Migrated(before=SCHEMA_REVISION, after=LATER, entries=len(before))
    assert migrate_ledger(golden.url, anchoring=golden.anchoring) == done
    assert (chain(golden), revision(golden)) == (before, LATER)
    assert golden.raw(lambda connection: signer_of(connection, present_head(connection))) == key
    migrated = everything(golden)
    assert migrate_ledger(golden.url, anchoring=golden.anchoring) == dataclasses.replace(done, before=LATER)
    assert everything(golden) == migrated
    with golden.reader() as reader:
        assert len(list(reader.entries())) == len(before)


def test_a_migration_that_changes_what_follows_from_the_entries_is_undone(one_revision_more) -> None:
    damage = "DROP TRIGGER account_no_update", "UPDATE account SET epsilon_spent = '0' WHERE sequence = 1"
    golden = one_revision_more(*damage)
    before = everything(golden)
    with pytest.raises(AccountantRefused, match=r"the migrated ledger would not hold: entry \d+: ") as refused:
        migrate_ledger(golden.url, anchoring=golden.anchoring)
    assert str(refused.value.where).endswith("ledger.db")
    assert refused.value.not_done == "Nothing was changed in it."
    assert "crowdblend ledger verify" in refused.value.remedy
    assert everything(golden) == before


def test_a_ledger_that_was_cut_back_is_not_migrated(one_revision_more, forge_past_guards) -> None:
    golden = one_revision_more("CREATE TABLE later (place INTEGER)")
    last = len(chain(golden)) - 1
    forge_past_guards(golden, *(f"DELETE FROM {name} WHERE position = {last}" for name in ("account", "entry")))
    before = everything(golden)
    with pytest.raises(AccountantRefused, match=f"anchor vouches for entry {last}"):
        migrate_ledger(golden.url, anchoring=golden.anchoring)
    assert everything(golden) == before


def test_what_no_writer_signed_is_not_signed_by_a_migration(one_revision_more) -> None:
    """Every row fits the chain, and the signature is a forger's: no migration puts the steward's in its place."""
    golden = one_revision_more("CREATE TABLE later (place INTEGER)")

    def forge(connection) -> None:
        head = present_head(connection)
        signer_of(connection, head)
        sign_state(connection, head, SigningKey(seed=b"\x07" * 32), root=vouched(connection).root)

    golden.raw(forge)
    before = everything(golden)
    with pytest.raises(AccountantRefused, match=r"isn't of this private store"):
        migrate_ledger(golden.url, anchoring=golden.anchoring)
    assert everything(golden) == before


def test_there_must_be_a_ledger(empty_url, anchoring) -> None:
    with pytest.raises(InputRefused, match="no ledger here"):
        migrate_ledger(empty_url, anchoring=anchoring)
    with pytest.raises(InputRefused, match="no ledger here"):
        open_reader(empty_url)


@pytest.mark.parametrize(("number", "commit"), UNSIGNED_REVISIONS.items())
def test_a_ledger_of_a_revision_that_was_never_signed_names_what_reads_it(golden, number: str, commit: str) -> None:
    golden.sql(f"UPDATE {VERSION_TABLE} SET version_num = '{number}'")
    for attempt in (golden.reader, golden.writer, lambda: migrate_ledger(golden.url, anchoring=golden.anchoring)):
        with pytest.raises(
            InputRefused, match=rf"schema revision {number}.*No later version reads it.*commit {commit}"
        ):
            attempt()


def test_a_ledger_of_an_unknown_revision_is_not_touched(golden) -> None:
    golden.sql(f"UPDATE {VERSION_TABLE} SET version_num = '9001'")
    for attempt in (golden.reader, golden.writer, lambda: migrate_ledger(golden.url, anchoring=golden.anchoring)):
        with pytest.raises(InputRefused, match=r"schema revision 9001.*version of crowdblend that wrote it"):
            attempt()
    assert revision(golden) == "9001"


def test_the_revisions_that_are_known_form_one_chain() -> None:
    from alembic.script import ScriptDirectory

    scripts = [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()]
    assert tuple(reversed(scripts)) == (*EARLIER_REVISIONS, SCHEMA_REVISION)
