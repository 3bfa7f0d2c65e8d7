"""Ledgers that an earlier version wrote: this version answers about each of them as that one did."""

from __future__ import annotations

import pytest
from support.earlier_ledgers import answers, expected_answers, ledger_names, load_ledger


@pytest.mark.parametrize("name", ledger_names())
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_stored_ledger_is_answered_about_as_by_its_own_version(request, tmp_path, database, name) -> None:
    server = request.getfixturevalue("postgresql_server") if database == "postgresql" else None
    placed = load_ledger(name, place=tmp_path, server=server)
    assert answers(placed.url, placed.home) == expected_answers()[name]
