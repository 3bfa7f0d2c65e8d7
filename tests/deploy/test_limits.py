"""What is silent, endless, or too large to be held is refused in time, in words and before anything is charged."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from crowdblend.deploy import prefect_environment, run
from crowdblend.deploy.commands import doctor
from crowdblend.flows import prepare
from crowdblend.flows.spec import MOST_COLUMNS
from crowdblend.tasks.inputs import list as listing

LONG = "x" * 300


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


def require_refused(desk, told, *words: str) -> None:
    assert told.code == 2, (told.out, told.err)
    for word in words:
        assert word in told.err
    assert "Internal fault" not in told.err
    if Path(desk.folder / "ledger.db").exists():
        assert desk("ledger", "show", "--json").json["releases"] == []


def test_a_scheduler_that_accepts_and_stays_silent(desk, silent, monkeypatch) -> None:
    desk.add_dataset()
    monkeypatch.setattr(run, "ANSWERED_WITHIN_SECONDS", 0.2)
    told = desk("run", desk.write_spec(), "--scheduler", f"tcp://127.0.0.1:{silent}")
    require_refused(desk, told, "the scheduler can't be reached (TimeoutError)")


def test_a_prefect_server_that_accepts_and_stays_silent(desk, silent, monkeypatch) -> None:
    desk.add_dataset()
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{silent}/api")
    monkeypatch.setattr(prefect_environment, "ANSWERED_WITHIN_SECONDS", 0.2)
    told = desk("run", desk.write_spec())
    require_refused(desk, told, "PREFECT_API_URL", "doesn't answer within 0.2 seconds", "unset the variable")


def test_a_listing_that_does_not_end(desk, monkeypatch) -> None:
    """The folder answers only once the release is refused."""
    desk.add_dataset()
    refused = threading.Event()
    real = listing._local_files

    def listed(*given: object) -> object:
        refused.wait()
        return real(*given)

    monkeypatch.setattr(listing, "_local_files", listed)
    monkeypatch.setenv("CROWDBLEND_LISTING_SECONDS", "0.01")
    try:
        told = desk("run", desk.write_spec())
    finally:
        refused.set()
    require_refused(desk, told, "takes longer than 0.01 seconds", "CROWDBLEND_LISTING_SECONDS")


def test_a_listing_of_all_there_is(desk, commands) -> None:
    desk.add_dataset()
    spec = desk.write_spec(source="/**", output="memory://elsewhere")
    patience = os.environ | desk.settings | {"CROWDBLEND_LISTING_SECONDS": "0.2"}
    told = commands.run("run", spec, "--dry-run", folder=desk.folder, environment=patience)
    assert told.returncode == 2, told.stderr
    assert "takes longer than 0.2 seconds" in told.stderr


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf"])
def test_a_time_that_is_none(desk, monkeypatch, seconds) -> None:
    desk.add_dataset()
    monkeypatch.setenv("CROWDBLEND_LISTING_SECONDS", seconds)
    require_refused(desk, desk("run", desk.write_spec(), "--dry-run"), "no number of seconds above 0")


def test_more_columns_than_a_release_has(desk) -> None:
    more = "".join(f'[columns.c{number}]\nvalues = ["a"]\nlevel = 0\n' for number in range(MOST_COLUMNS))
    spec = desk.write_spec(edit=lambda text: text + more)
    require_refused(desk, desk("explain", spec), f"there are {MOST_COLUMNS + 3} columns")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("k = " + "9" * 5_000, "too many digits"),
        ("rate = 1e-1" + "0" * 21, "too large an exponent"),
        ("values = " + "[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)
@pytest.mark.parametrize("file", ["spec.toml", "crowdblend.toml"])
def test_what_no_number_and_no_list_can_hold(desk, text, words, file) -> None:
    spec = desk.write_spec()
    (desk.folder / file).write_text(text)
    require_refused(desk, desk("explain", spec), file, words)


@pytest.mark.parametrize("key", ["source", "output"])
def test_a_name_with_a_nul_character(desk, key) -> None:
    desk.add_dataset()
    spec = desk.write_spec(**{key: "peo\\u0000ple.csv"})
    for words in (("run", spec), ("run", spec, "--dry-run"), ("explain", spec)):
        require_refused(desk, desk(*words), f".{key}", "NUL character")


@pytest.mark.parametrize("source", ["reference://x", f"{LONG}.csv", f"{LONG}/*.csv", f"{LONG}/people.csv"])
def test_a_source_that_cannot_be_asked_for(desk, source) -> None:
    desk.add_dataset()
    spec = desk.write_spec(source=source)
    for words in (("run", spec), ("run", spec, "--dry-run")):
        require_refused(desk, desk(*words), source)


@pytest.mark.parametrize("words", [("ledger", "show"), ("ledger", "verify"), ("run", "spec.toml")])
def test_a_ledger_whose_name_is_too_long(desk, monkeypatch, words) -> None:
    desk.write_spec()
    monkeypatch.setenv("CROWDBLEND_LEDGER", f"sqlite:///{desk.folder / LONG}.db")
    require_refused(desk, desk(*words), LONG)
    told = desk("dataset", "add", "people", "--epsilon", "1", "--delta", "1e-3")
    require_refused(desk, told, "can't be looked at (File name too long)")
    assert desk("doctor").code == 1


def test_a_private_store_whose_name_is_too_long(desk, monkeypatch) -> None:
    desk.add_dataset()
    monkeypatch.setenv("CROWDBLEND_HOME", str(desk.folder / LONG))
    for words in (("run", desk.write_spec()), ("run", desk.write_spec(), "--dry-run")):
        told = desk(*words)
        assert told.code == 2, told.err
        assert "Internal fault" not in told.err


class LongAgo(datetime):
    """A clock that was never set."""

    @classmethod
    def now(cls, tz=None):
        return datetime(1966, 12, 8, tzinfo=tz or UTC)


def test_a_clock_before_1970(desk, monkeypatch) -> None:
    desk.add_dataset()
    for module in (prepare, doctor):
        monkeypatch.setattr(module, "datetime", LongAgo)
    for words in ((), ("--dry-run",)):
        require_refused(desk, desk("run", desk.write_spec(), *words), "1966-12-08, before 1970")
    told = desk("doctor")
    assert told.code == 1
    assert "clock: it says 1966-12-08, before 1970" in told.out
