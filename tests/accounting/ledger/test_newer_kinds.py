"""A ledger that a later version has written to says so, and who doesn't know what it wrote refuses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import ClassVar

import pytest
from crowdblend.accounting.ledger.chain.append import append_entry
from crowdblend.accounting.ledger.database import store
from crowdblend.accounting.ledger.entries import codec
from crowdblend.accounting.ledger.entries.kinds import DataAccess
from crowdblend.accounting.ledger.rules.rule import StoredState
from crowdblend.mechanisms.errors import AccountantRefused


@dataclass(frozen=True, kw_only=True, slots=True)
class LaterLook(DataAccess):
    """An entry of a later version's own."""

    KIND: ClassVar[str] = "later-look/1"


def written_by_a_later_version(books) -> None:
    look = LaterLook(dataset="census", what="a sketch", by="steward", day=date(2026, 1, 2))
    with pytest.MonkeyPatch.context() as later:
        later.setattr(store, "KINDS", {**codec.KINDS, LaterLook.KIND: LaterLook})
        with books.writer() as writer, writer._store.writing() as connection:
            append_entry(connection, look, StoredState(connection))
        with books.writer():
            pass


def test_who_does_not_know_a_kind_of_its_entries_neither_writes_nor_relies_on_it(books) -> None:
    books.add()
    books.charge("one")
    written_by_a_later_version(books)
    refusal = r"the ledger has 1 entry of kinds that this version doesn't know. Nothing was read or written"
    with pytest.raises(AccountantRefused, match=refusal):
        books.writer()
    with books.reader() as reader, pytest.raises(AccountantRefused, match=refusal):
        reader.require_anchored(books.anchoring)
