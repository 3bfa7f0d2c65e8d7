"""A ledger of 100,000 entries: a charge grows no faster than the ledger, and looking and verifying stay quick."""

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
    (scale,) = [json.loads(line) for line in benchmark("ledger.scale", "--json", "--entries", "300").splitlines()]
    assert scale["entries"] == 300


@pytest.mark.long
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_hundred_thousand_entries(benchmark, database, request) -> None:
    words = () if database == "sqlite" else ("--ledger", request.getfixturevalue("postgresql_url"))
    lines = benchmark("ledger.scale", "--json", *words).splitlines()
    print("\n".join(lines))
    small, *_, large = [json.loads(line) for line in lines]
    larger = large["entries"] / small["entries"]  # a writer checks every entry: docs/operations/ledger.md
    assert large["charge_processor"] < 1.5 * larger * small["charge_processor"]
    assert large["verify"]["processor"] < 30
    assert large["show"] < 1
    assert large["verify"]["memory"] < 300
