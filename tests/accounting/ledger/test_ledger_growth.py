"""A charge asks the same of the database however large the ledger is, and reads each entry once."""

from __future__ import annotations

import hashlib
import time
from decimal import Decimal

import pytest
from sqlalchemy import event


def grow(books, *, first: int, count: int) -> None:
    """Charge many releases in one transaction."""
    samples = {f"r{number}": hashlib.sha256(str(number).encode()).hexdigest() for number in range(first, first + count)}
    books.append(*(books.request(name, sample_id=taken).entry for name, taken in samples.items()))


def statements_of_a_charge(books, label: str) -> list[str]:
    asked: list[str] = []
    with books.writer() as writer:
        event.listen(writer._store.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
        writer.charge(books.request(label))
    return asked


@pytest.mark.long
def test_appending_asks_the_same_after_many_thousand_entries(books) -> None:
    books.add(epsilon=Decimal(10**6), delta=Decimal("0.5"))
    grow(books, first=0, count=100)
    small = statements_of_a_charge(books, "small")
    grow(books, first=100, count=20_000)
    started = time.perf_counter()
    assert statements_of_a_charge(books, "large") == small
    charged = time.perf_counter()
    assert books.findings() == []
    print(f"a charge after 20,000 entries: {charged - started:.1f} s; ", end="")
    print(f"they are verified in {time.perf_counter() - charged:.1f} s")


def test_a_charge_reads_the_entries_once_and_everything_else_by_an_index(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    scans = []
    for statement in statements_of_a_charge(books, "one"):
        if statement.startswith("SELECT"):
            query, values = f"EXPLAIN QUERY PLAN {statement}", (0,) * statement.count("?")
            plan = books.raw(lambda connection, asked=(query, values): connection.exec_driver_sql(*asked).all())
            scans += [statement for row in plan if "SCAN" in row[3] and "LIMIT" not in statement]
            assert not any("TEMP B-TREE" in row[3] for row in plan), statement
    assert len(scans) == 1
