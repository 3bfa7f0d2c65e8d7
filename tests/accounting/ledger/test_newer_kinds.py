"""A ledger that a later version has written to says so, and who doesn't know what it wrote refuses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import ClassVar

import pytest
from crowdblend.accounting.kernel.ledger import entries as codec
from crowdblend.accounting.kernel.ledger.entries import DataAccess
from crowdblend.mechanisms.kernel.errors import AccountantRefused


@dataclass(frozen=True, kw_only=True, slots=True)
class LaterLook(DataAccess):
    """An entry of a later version's own."""

    KIND: ClassVar[str] = "later-look/1"


def test_who_does_not_know_a_kind_of_its_entries_neither_writes_nor_relies_on_it(books) -> None:
    books.add()
    books.charge("one")
    with pytest.MonkeyPatch.context() as later:
        later.setitem(codec.ENTRY_TYPES, LaterLook.KIND, LaterLook)  # type: ignore[arg-type]
        books.append(LaterLook(dataset="census", what="a sketch", by="steward", day=date(2026, 1, 2)))
        assert books.findings() == []
    refusal = r"the ledger has entries of 1 kind that this version doesn't know. Nothing was read or written"
    with pytest.raises(AccountantRefused, match=refusal) as refused:
        books.writer()
    assert refused.value.cause == "newer-ledger"
    with books.reader() as reader:
        for look in (reader.datasets, reader.releases, lambda: reader.require_anchored(books.anchoring)):
            with pytest.raises(AccountantRefused, match=refusal):
                look()
        assert any("later-look/1" in str(finding) for finding in reader.verify())
