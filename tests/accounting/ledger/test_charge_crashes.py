"""A charge killed before each of its system calls: the ledger is whole, as before it or as after it.

The calls are not listed here: a charge that nobody kills tells how many they are, from the first statement of its
transaction to the last byte of its anchor. A release as a whole is killed at its steps by `flows/test_crash_matrix.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from crowdblend.accounting.kernel.ledger import transactions
from crowdblend.accounting.kernel.prices.mechanism_kind import Price
from crowdblend.accounting.ledger.reader import LedgerReader
from crowdblend.mechanisms.kernel.errors import Refusal
from support.system_calls import Work, system_calls


@dataclass(frozen=True)
class Standing:
    """Where a ledger stands: its last place, its releases, and what is spent."""

    head: int
    releases: tuple[str, ...]
    spent: tuple[Decimal, Decimal]

    @classmethod
    def of(cls, reader: LedgerReader) -> Standing:
        account = reader.dataset("census").account
        releases = tuple(release.release_id for release in reader.releases())
        return cls(reader.head().position, releases, (account.epsilon_spent, account.delta_spent))

    def charged(self, release_id: str, price: Price) -> Standing:
        epsilon, delta = self.spent
        return Standing(self.head + 1, (*self.releases, release_id), (epsilon + price.epsilon, delta + price.delta))


def charging(books: Any, release_id: str, broken: Work = lambda: None) -> Callable[[], Work]:
    """A charge by a writer that is open before it."""

    def prepare() -> Work:
        broken()
        writer = books.writer()
        request = books.request(release_id)
        return lambda: writer.charge(request) and None

    return prepare


def faults(books: Any, release_id: str, before: Standing, seen: Counter[str]) -> Iterator[str]:
    """What is wrong of a ledger whose writer was killed in a charge."""
    after = before.charged(release_id, books.price)
    with books.reader() as reader:
        now, ledger_id = Standing.of(reader), reader.ledger_id
        anchor = books.anchoring.anchor_of(ledger_id).path
        yield from map(str, reader.verify())
        yield from reader.verify_anchor(anchor, trusted=books.anchoring.keys.public_keys()).findings
    if now not in (before, after):
        yield f"neither as before the charge nor as after it: {now}"
    anchored = books.anchoring.last_of(ledger_id).head.position
    if anchored not in (before.head, now.head):
        yield f"entry {anchored} is anchored, and the ledger ends at {now.head}"
    seen["not charged" if now == before else "anchored" if anchored > before.head else "not anchored"] += 1
    try:
        with books.writer():
            pass
    except Refusal as refusal:
        yield f"the next writer is refused: {refusal.what}"
        return
    if books.anchoring.last_of(ledger_id).head.position != now.head:
        yield "the next write does not make up for the anchor"
    if now == before:
        books.charge(release_id)
        with books.reader() as reader:
            if Standing.of(reader) != after:
                yield "the charge can't be done again"


def killed_at(books: Any, place: int, seen: Counter[str], *, broken: Work = lambda: None) -> list[str]:
    """Every fault that a charge leaves that is killed before one of its calls."""
    release_id = f"killed-{place}"
    with books.reader() as reader:
        before = Standing.of(reader)
    seen["calls"] = system_calls(charging(books, release_id, broken), kill_before=place)
    return [f"killed before call {place}: {fault}" for fault in faults(books, release_id, before, seen)]


def calls_of(books: Any) -> int:
    """How many system calls a charge makes; the ledger has room for one more at each of them."""
    books.add(epsilon=Decimal(1000), delta=Decimal("0.5"))
    books.charge("warm")  # what is loaded and computed once
    return system_calls(charging(books, "whole"), kill_before=None)


@pytest.mark.parametrize("every", [pytest.param(12, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)])
def test_killed_before_any_system_call_a_charge_is_done_or_not(books, every: int) -> None:
    calls, seen, found = calls_of(books), Counter(), []
    for place in count(step=every):
        found += killed_at(books, place, seen)
        if seen["calls"] <= place:  # it has ended before
            break
    print(f"{books.dialect}: {dict(seen)}")
    assert found == []
    assert calls // 2 < seen["calls"] < 2 * calls
    assert all(seen[outcome] > 0 for outcome in ("not charged", "not anchored", "anchored")), seen


def anchor_too_early() -> None:
    """Break the ledger: the head is anchored before its commit."""
    keep = transactions.keep_snapshot
    anchorings = []
    continued = transactions.require_continued

    def begin(connection: Any, head: Any, signer: Any, anchoring: Any, last: Any) -> None:
        anchorings.append(anchoring)
        continued(connection, head, signer, anchoring, last)

    def keep_and_anchor(connection: Any, state: Any, key: Any) -> None:
        keep(connection, state, key)
        anchorings[-1].record(transactions.head_in(state), key, written=True)

    transactions.require_continued, transactions.keep_snapshot = begin, keep_and_anchor


def test_a_ledger_that_anchors_before_its_commit_is_caught(books) -> None:
    """The control: the same of a ledger that breaks what it is for."""
    calls, found, seen = calls_of(books), [], Counter()
    for place in range(calls - 1, 0, -8):  # from the end, where the commit is, of many calls
        if found := killed_at(books, place, seen, broken=anchor_too_early):
            break
    assert any("cut back" in fault for fault in found), found
    assert any("the next writer is refused" in fault for fault in found), found
