"""`crowdblend doctor` finds what would keep a release from running, says what to do, and changes nothing."""

from __future__ import annotations

import os
import pwd
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

NAMES = ["installation", "permissions", "keys", "leftovers", "ledger", "anchor", "Prefect", "Dask", "clock"]
NOBODY = pwd.getpwnam("nobody")


def wrong(desk) -> dict[str, dict]:
    answer = desk("doctor", "--json")
    checks = answer.json["checks"]
    assert [check["name"] for check in checks] == NAMES
    found = {check["name"]: check for check in checks if not check["ok"]}
    assert (answer.code, answer.json["ok"]) == ((1, False) if found else (0, True))
    assert all(check["remedy"] for check in found.values())
    return found


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)


def test_a_healthy_desk(desk) -> None:
    desk.add_dataset()
    before = desk.contents()
    assert wrong(desk) == {}
    answer = desk("doctor")
    assert answer.code == 0
    assert [line.partition(":")[0] for line in answer.out.splitlines()] == [f"ok     {name}" for name in NAMES]
    assert desk.contents() == before


def test_an_empty_folder_is_left_empty(desk) -> None:
    found = wrong(desk)
    assert set(found) == {"keys", "ledger", "anchor"}
    assert "crowdblend dataset add" in found["ledger"]["remedy"]
    assert not desk.home.exists()
    assert not (desk.folder / "ledger.db").exists()


def test_a_store_that_others_can_look_into(desk) -> None:
    desk.add_dataset()
    desk.home.chmod(0o755)
    assert "chmod 700" in wrong(desk)["permissions"]["remedy"]
    assert desk.home.stat().st_mode & 0o777 == 0o755


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Make a folder that every account can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def unprivileged() -> Iterator[str]:
    """Be an account without privileges; its name."""
    if os.geteuid() != 0:
        yield pwd.getpwuid(os.geteuid()).pw_name
        return
    os.seteuid(NOBODY.pw_uid)
    try:
        yield NOBODY.pw_name
    finally:
        os.seteuid(0)


def closed_store(folder: Path, kind: str) -> Path:
    """Make a private store that an account without privileges can't open."""
    store = folder / "outer" / "home"
    store.mkdir(parents=True)
    if kind == "owner":
        if os.geteuid() == 0:
            os.chown(store, NOBODY.pw_uid, NOBODY.pw_gid)
        store.chmod(0o500)
    elif os.geteuid() != 0:  # whose folders are all its own
        return Path("/root") if kind == "stranger" else Path("/root/home")
    else:
        (store if kind == "stranger" else store.parent).chmod(0o700)
    return store


@pytest.mark.parametrize("kind", ["stranger", "outer", "owner"])
def test_a_store_that_cannot_be_opened_is_the_one_fault(desk, monkeypatch, elsewhere: Path, kind: str) -> None:
    store = closed_store(elsewhere, kind)
    monkeypatch.chdir(elsewhere)  # settings are looked for here
    monkeypatch.setenv("CROWDBLEND_HOME", str(store))
    monkeypatch.setenv("CROWDBLEND_LEDGER", f"sqlite:///{elsewhere}/none.db")
    # What is installed may lie where an account without privileges can't look: it is loaded and read before.
    installed = desk("doctor", "--json").json["checks"][0]["what"]
    monkeypatch.setattr("crowdblend.deploy.commands.doctor._installation", lambda: installed)
    with unprivileged() as name:
        answer = desk("doctor", "--json")
    found = {check["name"]: check for check in answer.json["checks"]}
    assert list(found) == ["installation", "permissions", "ledger", "Prefect", "Dask", "clock"]
    assert [name for name, check in found.items() if not check["ok"]] == ["permissions", "ledger"]
    assert "there is no ledger here" in found["ledger"]["what"], "a fault of its own"
    assert found["clock"]["what"].endswith("no ledger could be read to compare it with.")
    fault = found["permissions"]
    assert f"the private store {store}" in fault["what"]
    barred, owner, mode = {
        "stranger": (f"account {name} can't read and write the private store {store}", "root", "0700"),
        "outer": (f"account {name} can't enter {store.parent}", "root", "0700"),
        "owner": (f"account {name} can't read and write the private store {store}", name, "0500"),
    }[kind]
    assert f"{barred}, which belongs to account {owner} and has mode {mode}." in fault["what"]
    does = f"chmod 700 '{store}'" if kind == "owner" else "Run as its owner, or name a private store of your own"
    assert does in fault["remedy"]


def test_a_store_that_is_a_file(desk, monkeypatch) -> None:
    monkeypatch.setenv("CROWDBLEND_HOME", str(desk.folder / "towns.csv"))
    [_, found] = desk("doctor", "--json").json["checks"][:2]
    assert (found["name"], "towns.csv is no folder" in found["what"]) == ("permissions", True)


def test_a_missing_key_and_a_missing_anchor(desk) -> None:
    desk.add_dataset()
    for path in [path for path in desk.home.rglob("*") if path.is_file() and "anchor" in str(path)]:
        path.unlink()
    assert set(wrong(desk)) == {"anchor"}
    for path in [path for path in desk.home.rglob("*") if path.is_file() and path.stat().st_size == 32]:
        path.unlink()
    assert "keys" in wrong(desk)


def test_servers_that_do_not_answer(desk, monkeypatch) -> None:
    desk.add_dataset()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{port}/api")
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", f"tcp://127.0.0.1:{port}")
    assert set(wrong(desk)) == {"Prefect", "Dask"}


class Late(BaseHTTPRequestHandler):
    """A server whose clock stands still."""

    def do_GET(self) -> None:
        self.send_response_only(200)
        self.send_header("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def late() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Late)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    server.server_close()


def test_a_clock_that_differs_from_the_servers(desk, monkeypatch, late: str) -> None:
    desk.add_dataset()
    monkeypatch.setenv("PREFECT_API_URL", late)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert set(wrong(desk)) == {"clock"}
