"""A ledger of the first version keeps every entry, verifies, and goes on; nothing else can be done with it before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from crowdblend.accounting.ledger import migration
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.migration import migrate_ledger
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.accounting.ledger.schema import GUARDS, METADATA, SCHEMA_REVISION, VERSION_TABLE
from crowdblend.mechanisms.refusal import AccountantRefused, InputRefused
from sqlalchemy import text

VECTORS = Path(__file__).parents[2] / "vectors" / "ledger_0001"
LATER = SCHEMA_REVISION != "0001"
FILES = (("data.csv", "c" * 64),)


@pytest.fixture
def first(empty_url, tmp_path, golden_ledger):
    """The ledger of the first version, on either database."""
    return golden_ledger(empty_url, tmp_path / "home")


def chain(books):
    return books.raw(lambda connection: connection.execute(text("SELECT * FROM entry ORDER BY position")).all())


def revision(books) -> str:
    return books.raw(lambda connection: connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar())


def test_every_entry_is_kept_and_the_ledger_holds(first) -> None:
    before = chain(first)
    assert revision(first) == "0001"
    done = migrate_ledger(first.url, anchoring=first.anchoring)
    assert (done.before, done.after, done.entries) == ("0001", SCHEMA_REVISION, len(before))
    assert chain(first) == before
    assert revision(first) == SCHEMA_REVISION
    assert first.findings() == []
    with first.reader() as reader:
        check = reader.verify_anchor(VECTORS / "anchor.jsonl", trusted=first.anchoring.keys.public_keys())
        assert check.findings == ()
        assert reader.overview(latest=None).release_counts == {
            "charged": 4,
            "reading": 1,
            "published": 3,
            "abandoned": 3,
        }
    again = migrate_ledger(first.url, anchoring=first.anchoring)
    assert again.before == again.after == SCHEMA_REVISION


def test_it_goes_on_where_it_was(first) -> None:
    """What was open is finished, what is closed stays closed, and what was spent stays spent."""
    migrate_ledger(first.url, anchoring=first.anchoring)
    spent = first.spent()
    with first.reader() as reader:
        receipt = reader.release("reading").receipt
        assert reader.release("one").stage == "published"
        assert reader.series("monthly").remaining == 0
    with first.writer() as writer:
        writer.mark_published(receipt, FILES)
    assert first.abandon("charged")
    for again in ("one", "refunded", "burnt", "of-series-0"):
        with pytest.raises(AccountantRefused, match="in the ledger already"):
            first.charge(again)
    with pytest.raises(AccountantRefused, match="a sample serves one release"):
        first.charge("fresh", sample_id=first.request("burnt").sample_id)
    with pytest.raises(AccountantRefused, match="can be released once"):
        first.charge("fresh", dataset="survey")
    first.charge("fresh")
    assert first.spent() == spent
    assert first.findings() == []


def test_its_tables_and_guards_are_those_of_a_fresh_ledger(first, tmp_path, anchoring) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    def differences(connection):
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return compare_metadata(context, METADATA)

    migrate_ledger(first.url, anchoring=first.anchoring)
    assert first.raw(differences) == []
    if first.dialect == "postgresql":
        return
    create_ledger(f"sqlite:///{tmp_path / 'fresh.db'}", anchoring=anchoring)
    made = []
    for path in (first.url.removeprefix("sqlite:///"), tmp_path / "fresh.db"):
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        made.append({name.strip('"'): " ".join(sql.replace('"', "").split()) for name, sql in rows})
    assert made[0] == made[1]
    assert GUARDS["sqlite"] <= made[0].keys()


def test_it_is_refused_until_it_is_migrated_with_the_command_named(first) -> None:
    if not LATER:
        return
    for attempt in (first.reader, first.writer):
        with pytest.raises(InputRefused, match=r"schema revision 0001.*crowdblend ledger migrate"):
            attempt()
    assert revision(first) == "0001"


def test_a_ledger_that_does_not_hold_is_not_migrated(first, forge_past_guards) -> None:
    if not LATER:
        return
    before = forge_past_guards(first, "UPDATE account SET epsilon_spent = '0' WHERE sequence = 1")
    with pytest.raises(AccountantRefused, match=r"would not hold: entry .*account.*Nothing was changed"):
        migrate_ledger(first.url, anchoring=first.anchoring)
    assert (revision(first), chain(first)) == ("0001", before)


def test_a_ledger_behind_its_anchor_is_not_migrated(first, forge_past_guards) -> None:
    if not LATER:
        return
    forge_past_guards(first, "DELETE FROM account WHERE position = 32", "DELETE FROM entry WHERE position = 32")
    with pytest.raises(AccountantRefused, match="anchor vouches for entry 32"):
        migrate_ledger(first.url, anchoring=first.anchoring)
    assert revision(first) == "0001"


def test_a_ledger_of_a_later_version_is_not_touched(first) -> None:
    migrate_ledger(first.url, anchoring=first.anchoring)
    first.sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    for attempt in (first.reader, first.writer, lambda: migrate_ledger(first.url, anchoring=first.anchoring)):
        with pytest.raises(InputRefused, match=r"schema revision 9999.*a later one"):
            attempt()
    assert revision(first) == "9999"


def test_there_must_be_a_ledger(empty_url, anchoring) -> None:
    with pytest.raises(InputRefused, match="no ledger here"):
        migrate_ledger(empty_url, anchoring=anchoring)
    with pytest.raises(InputRefused, match="no ledger here"):
        open_reader(empty_url)


def test_revisions_form_one_chain_from_the_first() -> None:
    from alembic.script import ScriptDirectory

    scripts = [script.revision for script in ScriptDirectory(str(migration.MIGRATIONS)).walk_revisions()]
    assert scripts == [f"{number:04d}" for number in range(len(scripts), 0, -1)]
    assert scripts[0] == SCHEMA_REVISION
