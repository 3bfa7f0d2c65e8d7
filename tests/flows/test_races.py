"""Processes that race for one release id, one sample or the last of a budget: one publishes, the others say why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "crowdblend.deploy"]


def start(desk, *words: str) -> subprocess.Popen:
    environment = os.environ | {"CROWDBLEND_LEDGER": desk.ledger, "CROWDBLEND_HOME": str(desk.home)}
    return subprocess.Popen(
        [*COMMAND, *words],
        cwd=desk.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_ten_processes_race_for_one_release_id(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    racers = [start(desk, "run", "spec.toml", "--release-id", "the-one", "--json") for _ in range(10)]
    ends = [finish(racer) for racer in racers]
    codes = sorted(code for code, _, _ in ends)
    assert codes == [0] + [3] * 9, ends
    for code, out, err in ends:
        assert "Traceback" not in err
        if code == 3:
            assert "the-one" in err
            assert json.loads(out)["error"]["exit_code"] == 3
    shown = desk("ledger", "show", "--json").json
    [release] = shown["releases"]
    assert release["stage"] == "published"
    assert shown["datasets"][0]["epsilon_spent"] == release["epsilon"]
    assert desk("ledger", "verify").code == 0


def test_the_last_of_a_budget_serves_one(desk) -> None:
    desk.write_spec()
    price = desk("plan", "--k", "20", "--sampling-rate", "0.1", "--delta", "1e-6", "--json").json["epsilon"]
    desk.add_dataset(epsilon=str(1.5 * price))
    racers = [start(desk, "run", "spec.toml", "--output", f"out-{number}") for number in range(4)]
    ends = [finish(racer) for racer in racers]
    assert sorted(code for code, _, _ in ends) == [0, 3, 3, 3], ends
    assert len(list(desk.folder.glob("out-*"))) == 1


def test_a_killed_release_is_resumed_with_its_sample_and_one_charge(desk) -> None:
    """SIGKILL while records are being read; the retry has the same sample and costs nothing more."""
    desk.write_people(2_000_000)
    desk.add_dataset()
    desk.write_spec()
    first = start(desk, "run", "spec.toml", "--release-id", "killed")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        releases = desk("ledger", "show", "--json").json["releases"]
        if releases and releases[0]["stage"] == "reading":
            break
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    [release] = desk("ledger", "show", "--json").json["releases"]
    assert release["stage"] == "reading"
    assert not (desk.folder / "out").exists()

    code, out, err = finish(start(desk, "run", "spec.toml", "--release-id", "killed", "--json"))
    assert code == 0, err
    assert json.loads(out)["sample_id"] == release["sample_id"]
    shown = desk("ledger", "show", "--json").json
    assert shown["datasets"][0]["epsilon_spent"] == release["epsilon"]
    assert desk("ledger", "verify").code == 0
    assert sorted(path.name for path in Path(desk.folder / "out").iterdir()) == [
        "certificate.json",
        "data.parquet",
    ]


def test_after_a_kill_nothing_may_have_changed(desk) -> None:
    desk.write_people(2_000_000)
    desk.add_dataset()
    desk.write_spec()
    first = start(desk, "run", "spec.toml", "--release-id", "killed")
    while not (releases := desk("ledger", "show", "--json").json["releases"]) or releases[0]["stage"] != "reading":
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()

    desk.write_people(2_000_001)
    answer = desk("run", "spec.toml", "--release-id", "killed")
    assert answer.code == 3
    assert "input files" in answer.err
    desk.write_spec(rate="0.2")
    assert desk("run", "spec.toml", "--release-id", "killed").code == 3
    assert desk("abandon", "killed", "--reason", "new delivery").code == 0
    [dataset] = desk("ledger", "show", "--json").json["datasets"]
    assert dataset["epsilon_spent"] > 0
    desk.write_spec()
    assert desk("run", "spec.toml", "--release-id", "killed").code == 3
