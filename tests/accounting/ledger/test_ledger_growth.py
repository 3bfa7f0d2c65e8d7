"""An entry costs as much after many thousands as after a few."""

from __future__ import annotations

import hashlib
import statistics
import time
from decimal import Decimal

import pytest
from crowdblend.accounting.ledger.chain.append import append_entry
from crowdblend.accounting.ledger.database.store import open_store
from crowdblend.accounting.ledger.rules import state_tree
from crowdblend.accounting.ledger.rules.rule import StoredState
from crowdblend.mechanisms.errors import ReleaseFailed


def grow(books, *, first: int, count: int) -> None:
    """Charge many releases, a hundred in a transaction, by the writer's own parts."""
    store = open_store(books.url, anchoring=books.anchoring)
    for begin in range(first, first + count, 100):  # PostgreSQL keeps each version of a row until a transaction ends
        with store.writing() as connection:
            for number in range(begin, min(begin + 100, first + count)):
                entry = books.request(f"r{number}", sample_id=hashlib.sha256(str(number).encode()).hexdigest()).entry
                append_entry(connection, entry, StoredState(connection))
    store.close()


def work_of_a_charge(books, label: str) -> float:
    """Statements and nodes of a charge in the median: what it asks of the database, however busy the machine is."""
    from sqlalchemy import event

    asked: list[int] = []

    def count(connection, cursor, statement, values, context, many) -> None:
        asked.append(len(values) if many else 1)

    with books.writer() as writer:
        event.listen(writer._store.engine, "before_cursor_execute", count)
        charges = []
        for number in range(20):
            asked.clear()
            writer.charge(books.request(f"{label}{number}"))
            charges.append(sum(asked))
    return statistics.median(charges)


@pytest.mark.long
def test_appending_does_not_slow_down(books) -> None:
    books.add(epsilon=Decimal(10**6), delta=Decimal("0.5"))
    grow(books, first=0, count=100)
    small = work_of_a_charge(books, "small")
    grow(books, first=100, count=20_000)
    large = work_of_a_charge(books, "large")
    assert large < 1.5 * small, (small, large)
    started = time.perf_counter()
    assert books.findings() == []
    print(f"a charge: {small} statements and nodes, then {large}; ", end="")
    print(f"20,000 entries verified in {time.perf_counter() - started:.1f} s")


def test_no_look_up_of_a_charge_scans_a_table(sqlite_books) -> None:
    """The same promise without a clock: every statement of a charge goes by an index."""
    books = sqlite_books
    books.add()
    statements: list[tuple[str, object]] = []
    from sqlalchemy import event

    with books.writer() as writer:
        engine = writer._store.engine
        event.listen(
            engine,
            "before_cursor_execute",
            lambda connection, cursor, statement, values, *_: statements.append((statement, values)),
        )
        receipt = writer.charge(books.request())
        writer.mark_reading(receipt)
        writer.mark_published(receipt, (("data.csv", "c" * 64),))
        with writer._store.writing() as connection:
            for statement, values in list(statements):
                if statement.startswith("SELECT"):
                    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
                    steps = [str(row[3]) for row in plan]
                    whole = [step for step in steps if "TEMP B-TREE" in step or "SCAN" in step]
                    assert not whole or "LIMIT" in statement, (statement, steps)
                    assert not any("TEMP B-TREE" in step for step in steps), (statement, steps)
    assert len(statements) > 10


def test_what_does_not_fit_in_memory_is_verified_from_disk(sqlite_books, monkeypatch) -> None:
    """The tree that is built from facts on disk is the stored one, and a forged node is found as always."""
    books = sqlite_books
    books.add()
    for name in ("one", "two"):
        books.charge(name)
    spilled: list[int] = []
    spill = state_tree.WholeState._spill
    monkeypatch.setattr(state_tree, "KEPT", 4 * 64)
    monkeypatch.setattr(state_tree.WholeState, "_spill", lambda self: (spilled.append(self._kept), spill(self)))
    assert books.findings() == []
    assert len(spilled) > 1
    books.sql("UPDATE state_node SET children = children || 'a' WHERE path = ''")
    (finding,) = books.findings()
    assert finding.startswith("1 nodes of the ledger's state don't follow")
    books.sql("INSERT INTO state_node VALUES ('zz', ''), ('zy', '')")
    (finding,) = books.findings()
    assert finding.startswith("3 nodes")


def test_where_the_disk_takes_no_facts_the_verification_says_so(sqlite_books, monkeypatch, tmp_path) -> None:
    sqlite_books.add()
    monkeypatch.setattr(state_tree, "KEPT", 64)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(ReleaseFailed, match="can't be kept on disk") as refused:
        sqlite_books.findings()
    assert refused.value.where == str(tmp_path / "missing")
