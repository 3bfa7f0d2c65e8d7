"""Whoever changes a ledger past its guards is found: by the chain, or by the rules applied again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from crowdblend.accounting.ledger.chain.hashing import GENESIS, link_hash
from crowdblend.accounting.ledger.database.schema import DERIVED_TABLES, OBJECTS
from crowdblend.accounting.ledger.entries.kinds import DatasetUnit, Entry
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from support.guards import past_guards

FILES = (("data.csv", "c" * 64),)


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A ledger with every kind of entry that this version writes; copied by each test."""
    return tmp_path_factory.mktemp("original") / "ledger.db"


@pytest.fixture
def victim(sqlite_books, original):
    path = Path(sqlite_books.url.removeprefix("sqlite:///"))
    if not original.exists():
        fill(sqlite_books)
        assert sqlite_books.findings() == []
        sqlite_books.raw(lambda connection: None)
        shutil.copy(path, original)
    for beside in path.parent.glob("ledger.db*"):
        beside.unlink()
    shutil.copy(original, path)
    assert sqlite_books.findings() == []
    return sqlite_books


def fill(books) -> None:
    books.add()
    books.add("survey", survey_rate=Decimal("0.05"))
    for release_id, dataset in (("one", "census"), ("of-survey", "survey")):
        receipt = books.charge(release_id, dataset=dataset)
        with books.writer() as writer:
            writer.mark_reading(receipt)
            writer.mark_published(receipt, FILES)
    books.charge("refunded")
    books.abandon("refunded")
    with books.writer() as writer:
        writer.raise_budget(
            name="census",
            epsilon=Decimal(11),
            delta=Decimal("0.001"),
            reason="r",
            by="b",
            day=books.request().day,
        )
        writer.record_look(dataset="census", what="a report", by="b", day=books.request().day)
        writer.record_refusal(release_id=None, dataset="census", cause="x", reason="y", day=books.request().day)
    books.register()
    books.writer().charge(books.of_series("given-back"))
    books.abandon("given-back")
    for number in range(3):
        books.writer().charge(books.of_series(f"of-series-{number}"))
    with books.writer() as writer:
        for name in ("alice", "bob"):
            writer.add_token(name=name, expires=date(2026, 6, 2), by="b", day=date(2026, 3, 4), randomness=os.urandom)
        writer.revoke_token(name="bob", by="b", day=date(2026, 3, 5))
    books.writer().charge(books.of_two_samples("chosen"))
    books.register("free", free_columns=True)
    books.add_filter("filtered")
    books.charge("of-filter", dataset="filtered")
    books.register("of-filter", releases=2, dataset="filtered")
    books.add("visits", unit=DatasetUnit(name="person", column="who"))
    books.add_filter("homes", unit=DatasetUnit(name="household", column="home"))
    books.charge("last")


def past_the_guards(books, work: Callable[[Connection], Any]) -> None:
    """Do something as somebody would who first removes the triggers, and then puts them back."""

    def tampered(connection: Connection) -> None:
        with past_guards(connection):
            work(connection)

    books.raw(tampered)


def entries(connection: Connection) -> list[Any]:
    return list(connection.execute(text("SELECT * FROM entry ORDER BY position")).mappings())


def change_body(connection: Connection, position: int, **fields: Any) -> None:
    """Change fields of an entry and compute every hash from there on again."""
    rows = entries(connection)
    previous = GENESIS
    for row in rows:
        body = row["body"]
        if row["position"] == position:
            document = json.loads(body) | fields
            body = json.dumps(document, sort_keys=True, separators=(",", ":"))
        own = link_hash(previous=previous, position=row["position"], body=body.encode())
        connection.execute(
            text("UPDATE entry SET body = :body, hash = :own, previous = :previous WHERE position = :position"),
            {"body": body, "own": own, "previous": f"{row['position']:f>64}", "position": row["position"]},
        )
        connection.execute(
            text("UPDATE entry SET previous = :previous WHERE position = :position"),
            {"previous": previous, "position": row["position"]},
        )
        previous = own


def position_of(books, kind: str, **fields: Any) -> int:
    rows = books.raw(entries)
    return next(
        row["position"] for row in rows if row["kind"] == kind and fields.items() <= json.loads(row["body"]).items()
    )


def test_the_control_ledger_has_every_kind(victim) -> None:
    assert set(victim.kinds()) == {kind.KIND for kind in get_args(Entry)}


@pytest.mark.long
def test_every_field_of_every_entry_is_covered(victim) -> None:
    """Each column of each row, and each value inside each body, changed alone, is found.

    In one entry of each kind `forgery/test_entry_mutations.py` changes them, with all hashes made to fit besides.
    """
    for row in victim.raw(entries):
        place = {"position": row["position"]}
        changes: list[tuple[str, Any]] = [
            ("previous", "e" * 64),
            ("hash", "e" * 64),
            ("kind", "release-reading/9"),
            ("position", 1000),
            ("body", row["body"] + " "),
        ]
        for name, value in json.loads(row["body"]).items():
            other = json.dumps(json.loads(row["body"]) | {name: changed(value)}, sort_keys=True, separators=(",", ":"))
            changes.append(("body", other))
        for column, value in changes:
            found = findings_after(
                victim,
                f"UPDATE entry SET {column} = :value WHERE position = :position",
                value=value,
                **place,
            )
            assert found, (column, value)


def changed(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value[:-1] + ("1" if value[-1:] != "1" else "2")
        case dict():
            return {name: changed(member) for name, member in value.items()}
        case _:
            return "1"


def findings_after(books, statement: str, **values: Any) -> list[str]:
    """Findings after a change past the guards; the change is undone afterwards."""
    path = Path(books.url.removeprefix("sqlite:///"))
    keep = path.with_suffix(".kept")
    shutil.copy(path, keep)
    try:
        past_the_guards(books, lambda connection: connection.execute(text(statement), values))
        found = books.findings()
    except IntegrityError as refused:  # a check of the table itself
        found = [str(refused)]
    for beside in path.parent.glob("ledger.db*"):
        beside.unlink()
    keep.rename(path)
    return found


@pytest.mark.parametrize("kind", ["a", "z"])
def test_another_kind_beside_an_entry_is_named(victim, kind) -> None:
    (finding,) = findings_after(victim, "UPDATE entry SET kind = :value WHERE position = 2", value=kind)
    assert "entry 2: the entry's kind differs from its content" in str(finding)


def test_a_deleted_entry_is_found_even_at_the_end(victim) -> None:
    for position in range(len(victim.kinds())):
        assert findings_after(victim, "DELETE FROM entry WHERE position = :position", position=position)


@pytest.mark.slow
def test_swapped_entries_are_found(victim) -> None:
    count = len(victim.kinds())

    def swap(connection: Connection, left: int, right: int) -> None:
        rows = entries(connection)
        for place, row in ((left, rows[right]), (right, rows[left])):
            connection.execute(
                text("UPDATE entry SET kind = :kind, body = :body WHERE position = :position"),
                {"kind": row["kind"], "body": row["body"], "position": place},
            )

    for left in range(count - 1):
        past_the_guards(victim, lambda connection, left=left: swap(connection, left, left + 1))
        assert victim.findings()
        past_the_guards(victim, lambda connection, left=left: swap(connection, left, left + 1))
    assert victim.findings() == []


@pytest.mark.long
def test_every_column_of_every_derived_row_is_covered(victim) -> None:
    """Of some rows of each table `forgery/test_row_mutations.py` changes them, on both databases."""
    for table in DERIVED_TABLES:
        count = victim.raw(lambda c, t=table: c.execute(text(f"SELECT count(*) FROM {t.name}")).scalar_one())
        assert count
        for row in range(count):
            this = f"rowid = (SELECT rowid FROM {table.name} LIMIT 1 OFFSET {row})"
            for column in table.columns:
                assert findings_after(
                    victim,
                    f"UPDATE {table.name} SET {column.name} = '977' WHERE {this}",
                ), (table.name, column.name)
            assert findings_after(victim, f"DELETE FROM {table.name} WHERE {this}")


def test_a_row_that_follows_from_nothing_is_found(victim) -> None:
    found = findings_after(victim, "INSERT INTO release VALUES ('forged', 'census', 0)")
    assert found == ["entry 0: a row in the table release does not follow from it"]


def place(name: str, number: int, digit: str = "c") -> dict[str, Any]:
    return {"name": name, "number": number, "spec_digest": digit * 64}


@pytest.mark.parametrize(
    ("kind", "where", "fields", "what"),
    [
        (
            "release-charged/1",
            {"release_id": "last"},
            {"mechanism": {"k": 19, "kind": "strongly-safe-release/1", "sampling_rate": "0.1"}},
            "ε is recorded as",
        ),
        (
            "release-charged/1",
            {"release_id": "last"},
            {"mechanism": {"k": 20, "kind": "strongly-safe-release/9", "sampling_rate": "0.1"}},
            "can't be priced",
        ),
        ("release-charged/1", {"release_id": "last"}, {"epsilon_paper": "0.1"}, "the paper's ε"),
        ("release-charged/1", {"release_id": "last"}, {"release_id": "one"}, "charged a second time"),
        ("release-charged/1", {"release_id": "last"}, {"dataset": "elsewhere"}, "not in the ledger"),
        ("release-charged/1", {"release_id": "last"}, {"dataset": "survey"}, "released a second time"),
        ("release-charged/1", {"release_id": "last"}, {"series": place("s", 1)}, "has not paid"),
        ("release-charged/1", {"release_id": "of-series-1"}, {"series": None}, "the price of one release"),
        ("release-charged/1", {"release_id": "of-series-1"}, {"series": place("monthly", 4)}, "this is one more"),
        (
            "release-charged/1",
            {"release_id": "of-series-1"},
            {"series": place("monthly", 2)},
            "release 'of-series-0' has this place",
        ),
        (
            "release-charged/1",
            {"release_id": "of-series-1"},
            {"series": place("monthly", 3, "d")},
            "has not paid for this release: specification",
        ),
        ("release-charged/1", {"release_id": "of-series-1"}, {"map_digest": "d" * 64}, "generalization map"),
        ("series-registered/1", {}, {"dataset": "survey"}, "is itself a sample and has a series"),
        ("series-registered/1", {}, {"map_digest": "d" * 64}, "generalization map"),
        (
            "dataset-added/1",
            {"dataset": "census"},
            {"epsilon": "0.01"},
            "budget of dataset 'census' is exceeded",
        ),
        ("dataset-added/1", {"dataset": "census"}, {"relation": "replacement"}, "neighbouring relations"),
        ("dataset-added/1", {"dataset": "census"}, {"rows_per_person": 2}, "the rule is recorded as"),
        ("dataset-added/1", {"dataset": "survey"}, {"dataset": "census"}, "added a second time"),
        ("budget-raised/1", {}, {"epsilon": "9"}, "lowered"),
        ("private-look/1", {}, {"dataset": "unknown"}, "not in the ledger"),
        ("release-abandoned/1", {}, {"refunded": False}, "given back"),
        ("release-abandoned/1", {}, {"release_id": "one"}, "closed before"),
        ("release-reading/1", {"release_id": "one"}, {"release_id": "never"}, "never charged"),
        ("release-reading/1", {"release_id": "one"}, {"release_id": "last"}, "without reading"),
        ("release-reading/1", {"release_id": "of-survey"}, {"release_id": "one"}, "begins to read a second time"),
        ("ledger-created/1", {}, {"kind": "release-reading/1"}, "can't be read"),
    ],
)
def test_a_forger_who_computes_every_hash_again_is_found_by_the_rules(victim, kind, where, fields, what) -> None:
    position = position_of(victim, kind, **where)
    past_the_guards(victim, lambda connection: change_body(connection, position, **fields))
    found = victim.findings()
    assert not any("differs from its hash" in finding or "does not continue" in finding for finding in found)
    assert any(what in finding for finding in found), found


def test_a_sample_used_twice_is_found_by_the_rules(victim) -> None:
    used = victim.request("one").sample_id
    position = position_of(victim, "release-charged/1", release_id="last")
    past_the_guards(victim, lambda connection: change_body(connection, position, sample_id=used))
    assert any("its sample was used by release 'one'" in finding for finding in victim.findings())


def test_a_forged_price_is_found_wherever_it_is_changed(victim) -> None:
    position = position_of(victim, "release-charged/1", release_id="last")
    sound = json.loads(victim.raw(entries)[position]["body"])["price"]
    for name, value in (
        ("epsilon", "0.05"),
        ("epsilon", "5"),
        ("delta", "0.0000001"),
        ("rule", "guess/1"),
        ("relation", "replacement"),
        ("releases", 2),
    ):
        forged = sound | {name: value}
        past_the_guards(victim, lambda connection, forged=forged: change_body(connection, position, price=forged))
        assert any(finding.startswith(f"entry {position}: ") for finding in victim.findings()), name
        past_the_guards(victim, lambda connection: change_body(connection, position, price=sound))
    assert victim.findings() == []


def test_a_forged_price_of_a_series_is_found_wherever_it_is_changed(victim) -> None:
    """A series that is said to be cheaper, or to have more releases for its price, differs from its mechanism's."""
    position = position_of(victim, "series-registered/1")
    sound = json.loads(victim.raw(entries)[position]["body"])["price"]
    for name, value in (("epsilon", "0.2"), ("delta", "0.0000001"), ("rule", "guess/1"), ("releases", 4)):
        forged = sound | {name: value}
        past_the_guards(victim, lambda connection, forged=forged: change_body(connection, position, price=forged))
        assert any(
            finding.startswith(f"entry {position}: the ") or "ε is recorded" in finding for finding in victim.findings()
        ), name
        past_the_guards(victim, lambda connection: change_body(connection, position, price=sound))
    assert victim.findings() == []


def _guards() -> list[str]:
    made = json.loads(OBJECTS.read_bytes())["sqlite"]
    return [name.removeprefix("guard ") for name in made if name.startswith("guard ")]


@pytest.mark.slow
def test_a_missing_guard_is_found(victim) -> None:
    for guard in _guards():
        path = Path(victim.url.removeprefix("sqlite:///"))
        keep = path.with_suffix(".kept")
        shutil.copy(path, keep)
        victim.sql(f"DROP TRIGGER {guard}")
        assert victim.findings() == [f"the database's guard {guard} is missing"]
        keep.rename(path)


def test_missing_guards_are_found_on_both_databases(books) -> None:
    table = {"sqlite": "", "postgresql": " ON entry"}[books.dialect]
    books.sql(f"DROP TRIGGER entry_in_order{table}")
    assert books.findings() == ["the database's guard entry_in_order is missing"]


def test_a_disabled_guard_is_a_missing_guard(books) -> None:
    if books.dialect == "postgresql":
        books.sql("ALTER TABLE sample DISABLE TRIGGER sample_append_only")
        assert books.findings() == ["the database's guard sample_append_only is missing"]
