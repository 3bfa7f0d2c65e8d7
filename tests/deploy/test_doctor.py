"""`crowdblend doctor` finds what would keep a release from running, says what to do, and changes nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

NAMES = ["installation", "permissions", "keys", "leftovers", "ledger", "anchor", "Prefect", "Dask", "clock"]


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
