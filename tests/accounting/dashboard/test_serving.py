"""The server says where it is, leaves with an interruption, and refuses an address that it can't have."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import pytest
from crowdblend.accounting.dashboard.server.access import Options
from crowdblend.mechanisms.kernel.errors import InputRefused


@pytest.mark.slow
def test_an_interruption_ends_it_in_order(serve, town) -> None:
    with serve(town, "--host", "localhost") as running:
        assert running.url.startswith("http://localhost:")
        assert running.get("/health").json() == {"status": "ok"}
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=600) == 0
        events = [json.loads(line)["event"] for line in running.log.read_text().splitlines()]
        assert "request" in events


@pytest.mark.slow
def test_an_address_in_use_is_refused(town) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "crowdblend.deploy", "dashboard", "--port", str(port)],
            env=town.environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "this address can't be had (Address already in use)." in ended.stderr
    assert f"127.0.0.1, port {port}" in ended.stderr


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"port": -1}, "--port"),
        ({"port": 65_536}, "--port"),
        ({"public_names": ("https://audit.example",)}, "--public-name"),
        ({"public_names": ("audit.example:80",)}, "--public-name"),
        ({"proxy_header": "Authorization"}, "--proxy-header"),
        ({"proxy_header": "HOST"}, "--proxy-header"),
        ({"proxy_header": "X User"}, "--proxy-header"),
        ({"hold_back_minutes": -1.0}, "--hold-back"),
        ({"hold_back_minutes": float("nan")}, "--hold-back"),
        ({"hold_back_minutes": float("inf")}, "--hold-back"),
        ({"host": "192.0.2.1"}, "--host"),
    ],
)
def test_a_setting_that_would_let_in_others_than_was_meant_is_refused(wrong, where) -> None:
    with pytest.raises(InputRefused) as refused:
        Options(ledger_url="sqlite:///x", **wrong)
    assert refused.value.where == where


def test_settings_are_shown_without_the_ledgers_password() -> None:
    shown = repr(Options(ledger_url="postgresql://auditor:secret@host/ledger"))
    assert "secret" not in shown
    assert "127.0.0.1" in shown
