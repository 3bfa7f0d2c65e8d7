"""A ledger of 100,000 entries: a charge costs what it cost at 1,000, and looking and verifying stay quick."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool


@pytest.fixture
def postgresql_url(postgresql_server):
    engine = create_engine(postgresql_server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE ledger_scale"))
    yield postgresql_server.replace("/postgres?", "/ledger_scale?")
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE ledger_scale"))


@pytest.mark.slow
def test_the_command_runs_small(benchmark) -> None:
    assert json.loads(benchmark("ledger.scale", "--json", "--entries", "1200"))["entries"] == 1200


@pytest.mark.long
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_hundred_thousand_entries(benchmark, database, request) -> None:
    words = () if database == "sqlite" else ("--ledger", request.getfixturevalue("postgresql_url"))
    scale = json.loads(benchmark("ledger.scale", "--json", *words))
    print(json.dumps(scale))
    assert scale["charge_large"] < 2 * scale["charge_small"]
    assert scale["verify"] + scale["verify_anchor"] < 30
    assert scale["verify_command"] < 30
    assert scale["show"] < 1
    assert scale["verify_memory"] < 1000
