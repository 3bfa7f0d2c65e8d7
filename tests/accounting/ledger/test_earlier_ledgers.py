"""Ledgers that an earlier version wrote: migrated, this version answers about each of them as that one did.

Those that don't hold stay as they are, for the version that wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.ledger.creation import Migrated, migrate_ledger
from crowdblend.accounting.ledger.database_schema import OBJECTS
from crowdblend.accounting.ledger.ledger_writer import dataset_entry, open_writer
from crowdblend.accounting.ledger.opening import SCHEMA_REVISION
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool
from support.earlier_ledgers import (
    PlacedLedger,
    answers,
    database_content,
    expected_answers,
    ledger_names,
    load_ledger,
    private_files,
    stored_entries,
)
from support.guards import past_guards

REFUSED = {
    "false-price": "does not hold: entry 3: ε is recorded as 0.1, but its mechanism's is",
    "sample-twice": "does not hold: entry 11: its sample was used by release 'one'",
    "over-budget": "does not hold: entry 9: the budget of dataset 'census' is exceeded",
    "survey-twice": "does not hold: entry 11: dataset 'survey' is itself a sample and is released a second time",
    "refund-after-reading": "does not hold: entry 13: a cost is given back exactly where nothing was read",
    "published-unread": "does not hold: entry 4: release 'one' is published without reading",
    "changed-entry": "does not hold: entry 1: the entry's content differs from its hash",
    "truncated": "the ledger ends at entry 10, and its anchor vouches for entry 12",
    "strangers-key": "entry, 12, is signed by the key 9ebdc850b1afad78, which isn't of this private store",
}
"""Ledgers whose entries don't hold → why they are not migrated."""
VERIFICATIONS = ("ledger verify", "ledger verify, without an anchor")


@pytest.fixture(params=["sqlite", "postgresql"])
def load(request, tmp_path) -> Callable[[str], PlacedLedger]:
    """Puts a stored ledger into either database."""
    server = request.getfixturevalue("postgresql_server") if request.param == "postgresql" else None
    return lambda name: load_ledger(name, place=tmp_path, server=server)


def change_past_guards(url: str, *statements: str, guarded: bool = False) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection, nullcontext() if guarded else past_guards(connection):
        for statement in statements:
            connection.execute(text(statement))


def expected(name: str) -> dict[str, Any]:
    """What is to be answered after the migration."""
    of_0003 = expected_answers()[name]
    for command in VERIFICATIONS:
        of_0003[command]["answer"].pop("resumed")  # of a verification that kept how far it had come
        if name == "changed-row":
            # What was changed doesn't exist any more: what it said follows from the entries again, and they hold.
            of_0003[command]["code"] = 0
            of_0003[command]["answer"] |= {"ok": True, "findings": []}
    return of_0003


@pytest.mark.parametrize("name", [name for name in ledger_names() if name not in REFUSED])
def test_a_migrated_ledger_is_answered_about_as_by_its_own_version(load, name) -> None:
    placed = load(name)
    entries, files = stored_entries(placed.url), private_files(placed.home)
    done = Migrated(before="0003", after=SCHEMA_REVISION, entries=len(entries), mended=False)
    assert migrate_ledger(placed.url, anchoring=placed.anchoring) == done
    assert answers(placed.url, placed.home) == expected(name)
    assert stored_entries(placed.url) == entries
    assert private_files(placed.home) == files  # an anchor that is behind stays so until the next write
    dialect = "sqlite" if placed.url.startswith("sqlite") else "postgresql"
    migrated = database_content(placed.url)
    assert migrated["objects"] == json.loads(OBJECTS.read_bytes())[dialect] | {"schema revision": SCHEMA_REVISION}
    again = Migrated(before=SCHEMA_REVISION, after=SCHEMA_REVISION, entries=len(entries), mended=False)
    assert migrate_ledger(placed.url, anchoring=placed.anchoring) == again
    assert database_content(placed.url) == migrated


@pytest.mark.parametrize("name", ["first-entry", "filters", "anchor-behind", "anchor-begun"])
def test_a_migrated_ledger_goes_on(load, name) -> None:
    placed = load(name)
    entries = stored_entries(placed.url)
    migrate_ledger(placed.url, anchoring=placed.anchoring)
    with open_writer(placed.url, anchoring=placed.anchoring) as writer:
        added = {
            "relation": "add/remove",
            "survey_rate": None,
            "rows_per_person": 1,
            "by": "us",
            "day": date(2026, 3, 4),
        }
        writer.add_dataset(dataset_entry(name="one more", epsilon=Decimal(1), delta=Decimal(0), **added))
    assert stored_entries(placed.url)[:-1] == entries
    with open_reader(placed.url) as reader:
        assert reader.verify() == ()
        last = placed.anchoring.last_of(reader.ledger_id)
        assert last is not None
        assert last.head.position == len(entries)


@pytest.mark.parametrize("name", REFUSED)
def test_a_ledger_that_does_not_hold_is_not_migrated(load, name) -> None:
    placed = load(name)
    before, files = database_content(placed.url), private_files(placed.home)
    with pytest.raises(AccountantRefused, match=REFUSED[name]) as refused:
        migrate_ledger(placed.url, anchoring=placed.anchoring)
    assert refused.value.not_done
    assert "ledger verify" in refused.value.remedy or name == "truncated"
    assert (database_content(placed.url), private_files(placed.home)) == (before, files)
    with pytest.raises(InputRefused, match=r"schema revision 0003.*Nothing was read or changed.*ledger migrate"):
        open_reader(placed.url)


FORGED = {
    "the signature is gone": ("DELETE FROM signed_state", "no signature holds over the last entry, 12"),
    "the signature is another text": ("UPDATE signed_state SET statement = 'nothing'", "no signature holds"),
    "its first entry is damaged": ("UPDATE entry SET body = 'ö' WHERE position = 0", "entry 0: the entry's content"),
    "an entry is no JSON": ("UPDATE entry SET body = '{' WHERE position = 5", "entry 5: the entry's content differs"),
    "an entry is gone": ("DELETE FROM entry WHERE position = 5", "entry 5 is missing"),
    "all entries are gone": ("DELETE FROM entry", "the ledger has no entry"),
    "its last entries were cut off": ("DELETE FROM entry WHERE position > 10", "no signature holds over the last"),
    "somebody's table is beside it": ("CREATE TABLE apart (x INTEGER)", "has a (table apart|column apart.x), which no"),
}


@pytest.mark.parametrize("damage", FORGED)
def test_a_damaged_ledger_is_not_migrated(load, damage) -> None:
    placed, (statement, told) = load("changed-row"), FORGED[damage]
    change_past_guards(placed.url, statement)
    before, files = database_content(placed.url), private_files(placed.home)
    with pytest.raises(AccountantRefused, match=told):
        migrate_ledger(placed.url, anchoring=placed.anchoring)
    assert (database_content(placed.url), private_files(placed.home)) == (before, files)


def test_what_followed_from_the_entries_may_be_lost(load) -> None:
    """The entries and the signature over the last of them are enough."""
    placed, whole = load("changed-row"), expected("changed-row")
    sqlite = placed.url.startswith("sqlite")
    guard = "DROP TRIGGER entry_no_update" if sqlite else "DROP FUNCTION ledger_append_only() CASCADE"
    change_past_guards(placed.url, "DELETE FROM sample", f"UPDATE signed_state SET root = '{'0' * 64}'")
    change_past_guards(placed.url, "DROP TABLE account", guard, guarded=True)
    migrate_ledger(placed.url, anchoring=placed.anchoring)
    assert answers(placed.url, placed.home) == whole
