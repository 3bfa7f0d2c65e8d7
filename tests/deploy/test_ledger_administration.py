"""The owner of a ledger's tables limits two roles; a whole release then runs as the one, and the other only looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool


@dataclass(frozen=True)
class Addresses:
    owner: str
    writer: str
    auditor: str


@pytest.fixture
def addresses(postgresql_server: str) -> Iterator[Addresses]:
    """A fresh database of an owner who is no superuser, and two more roles."""
    engine = create_engine(postgresql_server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    names = ("lm_owner", "lm_writer", "lm_auditor")
    with engine.connect() as connection:
        for name in names:
            connection.execute(text(f"CREATE ROLE {name} LOGIN"))
        connection.execute(text("CREATE DATABASE lm_ledger OWNER lm_owner"))
        connection.execute(text("ALTER DATABASE lm_ledger SET client_min_messages = warning"))
    ledger = create_engine(postgresql_server.replace("/postgres?", "/lm_ledger?"), poolclass=NullPool)
    with ledger.begin() as connection:
        functions = "lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea)"
        connection.execute(text(f"REVOKE EXECUTE ON FUNCTION {functions} FROM PUBLIC"))
    of = {name: postgresql_server.replace("postgres@/postgres?", f"{name}@/lm_ledger?") for name in names}
    yield Addresses(owner=of["lm_owner"], writer=of["lm_writer"], auditor=of["lm_auditor"])
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE lm_ledger"))
        for name in names:
            connection.execute(text(f"DROP ROLE {name}"))


@pytest.mark.slow
def test_a_release_runs_as_the_writer_and_the_auditor_sees_it(desk, addresses, monkeypatch) -> None:
    monkeypatch.setenv("CROWDBLEND_LEDGER", addresses.owner)
    desk.succeed("ledger", "init")
    words = ("ledger", "roles", "--writer", "lm_writer", "--auditor", "lm_auditor")
    printed = desk.succeed(*words)
    assert "GRANT INSERT ON" in printed.out
    assert "Nothing was changed" in printed.err
    monkeypatch.setenv("CROWDBLEND_LEDGER", addresses.writer)
    assert desk("ledger", "show").code == 2
    applied = desk.succeed(*words, "--apply", "--ledger", addresses.owner)
    assert applied.out == printed.out

    desk.add_dataset()
    desk.write_spec()
    desk.succeed("run", "spec.toml", "--json")
    assert desk(*words, "--apply").code == 2
    desk.succeed("ledger", "migrate")

    monkeypatch.setenv("CROWDBLEND_LEDGER", addresses.auditor)
    shown = desk("ledger", "show", "--json").json
    assert [release["stage"] for release in shown["releases"]] == ["published"]
    anchor = desk.home / "anchors" / next(path.name for path in (desk.home / "anchors").iterdir())
    assert desk("ledger", "verify", "--anchor", anchor, "--json").json["ok"]
    lines = [json.loads(line) for line in desk("ledger", "export").out.splitlines()]
    assert desk.succeed("ledger", "export", "--json").json == {"entries": lines}
    kinds = [line["entry"]["kind"] for line in lines]
    assert kinds[-1] == "release-published/1"
    for command in (
        ("run", "spec.toml", "--output", "again"),
        ("dataset", "add", "more", "--epsilon", "1", "--delta", "0"),
        ("dataset", "raise", "people", "--epsilon", "99", "--delta", "0.5", "--reason", "none"),
    ):
        answer = desk(*command)
        assert answer.code == 2, (command, answer.err)
        assert "InsufficientPrivilege" in answer.err
    assert desk("ledger", "show", "--json").json == shown
    assert not (desk.folder / "again").exists()


def test_roles_are_refused_where_there_are_none(desk) -> None:
    desk.add_dataset()
    answer = desk("ledger", "roles", "--writer", "a", "--auditor", "b")
    assert answer.code == 2
    assert "no roles" in answer.err
    assert desk("ledger", "roles", "--writer", "a", "--auditor", "a").code == 2


REFUSED = {
    "a name with a line break": ("pe\nople",),
    "an empty name": ("",),
    "a rate above 1": ("people", "--survey-rate", "1.5"),
    "a rate of 0": ("people", "--survey-rate", "0"),
    "a sample of people with several records": ("people", "--survey-rate", "0.5", "--rows-per-person", "2"),
    "no record of a person": ("people", "--rows-per-person", "0"),
    "an unknown unit": ("people", "--unit", "foo"),
    "rubbish that is expected": ("people", "--accounting", "filter", "--expect", "rubbish"),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_data_set_that_is_refused_leaves_no_ledger_and_no_key(desk, words: tuple[str, ...]) -> None:
    before = desk.contents()
    desk.refuse("dataset", "add", *words, "--epsilon", "1", "--delta", "1e-6")
    assert desk.contents() == before


def test_a_present_ledger_needs_no_migration(desk) -> None:
    desk.add_dataset()
    before = desk("ledger", "export").out
    answer = desk("ledger", "migrate")
    assert answer.code == 0
    assert "nothing was done" in answer.out
    done = desk("ledger", "migrate", "--json").json
    assert done["before"] == done["after"]
    assert done["entries"] == len(before.splitlines())
    assert done["mended"] is False
    assert desk("ledger", "export").out == before


def test_a_migration_says_that_it_made_the_snapshot_again(desk) -> None:
    desk.add_dataset()
    before = desk("ledger", "show", "--json").json
    for words in ((), ("--json",)):
        ledger = create_engine(f"sqlite:///{desk.folder / 'ledger.db'}", poolclass=NullPool)
        with ledger.begin() as connection:
            connection.execute(text("UPDATE snapshot SET state = ''"))
        assert desk("ledger", "show").code == 3
        answer = desk("ledger", "migrate", *words)
        assert answer.code == 0
        assert answer.json["mended"] if words else "was made again from the entries" in answer.out
        assert desk("ledger", "show", "--json").json == before


def test_show_lists_the_latest_and_counts_all(desk) -> None:
    desk.add_dataset()
    shown = desk("ledger", "show", "--latest", "1", "--json").json
    assert shown["release_counts"] == {"charged": 0, "reading": 0, "published": 0, "abandoned": 0}
    assert shown["series_count"] == 0
