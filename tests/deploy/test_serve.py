"""`crowdblend serve` on one machine: its own Prefect server, schedules that fire, and refusals before it stays."""

from __future__ import annotations

import os
import signal
import time

import pytest


def test_what_would_refuse_every_release_is_refused_at_once(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    answer = desk("serve", spec, "--series", "none", "--cron", "0 3 1 * *", "--output", "published")
    assert answer.code == 2
    assert "none" in answer.err


@pytest.mark.long
def test_one_machine_serves_a_series(desk, command, tmp_path) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    assert desk("series", "add", "minutes", spec, "--releases", "2").code == 0
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")}
    words = ("serve", spec, "--series", "minutes", "--cron", "* * * * *", "--output", tmp_path / "published")
    running = command(*words, environment=environment).process
    deadline = time.monotonic() + 900
    try:
        while not list(tmp_path.glob("published/minutes@*/certificate.json")):
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < deadline
            time.sleep(1)
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=600)
    releases = desk("ledger", "show", "--json").json["releases"]
    assert 1 <= len(releases) <= 2
    assert all(release["release_id"].startswith("minutes@") for release in releases)
    assert releases[0]["stage"] == "published"
