"""A `run` that is broken off or waits says which release it is, what it has cost, and what can be done."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import threading

import pytest


def read_until(process, pattern: str) -> list[str]:
    """The lines of a process's standard error up to one that has a pattern."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if re.search(pattern, line):
            return lines
    raise AssertionError(f"{pattern!r} did not come:\n{''.join(lines)}")


@pytest.fixture(scope="module")
def many_records(rig, tmp_path_factory):
    """Records that take seconds to count, so that an interruption comes before their end on a busy machine too."""
    folder = tmp_path_factory.mktemp("records") / "many"
    rig.write_records(folder, 2_000_000, files=1)
    for copy in range(1, 50):
        shutil.copyfile(folder / "0.parquet", folder / f"{copy}.parquet")
    return folder


@pytest.fixture
def many(desk, many_records):
    """A desk with these records."""
    desk.add_dataset()
    return desk.write_spec(source=str(many_records))


def test_ctrl_c_in_a_run_tells_the_commands_that_finish_or_abandon_it(desk, many, command, rig, prefect_server) -> None:
    running = command("run", "spec.toml", "--output", "other", "--json", environment=prefect_server.environment)
    told = read_until(running.process, "crowdblend: release ")
    release_id = told[-1].split()[-1]
    rig.await_stage(desk.folder / "ledger.db", release_id, "reading")
    running.process.send_signal(signal.SIGINT)
    code, out, err = running.finish()
    assert code == 1, err
    assert "is spent, since reading had begun" in err
    assert "Traceback" not in err
    assert json.loads(out)["release_id"] == release_id
    [finish] = re.findall(r"Finish it at no new charge: crowdblend (.*)", err)
    [give_up] = re.findall(r"Or give it up \(its cost stays spent\): crowdblend (.*)", err)
    assert shlex.split(give_up) == ["abandon", release_id, "--reason", "TEXT"]
    [before] = desk("ledger", "show", "--json").json["releases"]
    code, out, err = command(*shlex.split(finish), "--json", environment=prefect_server.environment).finish()
    assert code == 0, err
    result = json.loads(out)
    assert (result["release_id"], result["sample_id"]) == (release_id, before["sample_id"])
    desk.succeed("verify", "other/certificate.json")


def test_an_interruption_that_prefect_stumbles_over_is_told_as_one(desk, monkeypatch) -> None:
    """Its engine asks for the state of a task that has none yet, and fails, where the interruption comes that early."""

    def stumble(*_, **__) -> None:
        try:
            raise KeyboardInterrupt  # noqa: TRY301
        except KeyboardInterrupt:
            raise ValueError("Task run is not set")  # noqa: B904 - as Prefect raises it

    desk.add_dataset()
    monkeypatch.setattr("crowdblend.flows.release.run_flow", stumble)
    told = desk("run", desk.write_spec())
    assert told.code == 1
    assert "Interrupted. Nothing was charged." in told.err
    assert "fault" not in told.err


CLOSING = """
import sys
from crowdblend.deploy import cli
from sqlalchemy.engine.default import DefaultDialect
def interrupted(self, connection):
    raise KeyboardInterrupt
DefaultDialect.do_close = interrupted
cli.main(sys.argv[1:])
"""


def test_an_interruption_while_a_connection_is_closed_shows_no_frames(desk, commands) -> None:
    """SQLAlchemy's pool logs it, with its frames, before it raises it."""
    desk.add_dataset()
    told = commands.run("ledger", "show", folder=desk.folder, environment=os.environ | desk.settings, script=CLOSING)
    assert told.returncode == 1, told.stderr
    assert told.stderr == "\ncrowdblend: Interrupted. Nothing was charged.\n"


def test_the_id_is_told_before_anything_is_charged(desk, prefect_server, command) -> None:
    """Prefect's server is not there, so the release comes no further than that."""
    desk.add_dataset()
    desk.write_spec()
    nowhere = prefect_server.environment | {"PREFECT_API_URL": "http://127.0.0.1:1/api"}
    code, _, err = command("run", "spec.toml", environment=nowhere).finish()
    assert code == 2
    assert re.match(r"crowdblend: release people-2026-[0-9a-f]{12}\n", err)
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_a_run_whose_workers_are_all_dead_says_so_and_goes_on_with_a_new_one(
    desk, many, cluster, command, rig, prefect_server
) -> None:
    environment = cluster.environment | prefect_server.environment | {"DASK_CONFIG": str(cluster.tls)}
    words = ("run", "spec.toml", "--release-id", "alone", "--scheduler", cluster.address)
    running = command(*words, environment=environment)
    rig.await_stage(desk.folder / "ledger.db", "alone", "reading")
    for name in [name for name in cluster.processes if name.startswith("worker")]:
        cluster.kill(name)
    told = read_until(running.process, "no worker is left at tls://.*; waiting for [0-9]+ s")
    assert "on; if it is broken off instead, it can be finished later by its release id" in told[-1]
    again = read_until(running.process, "no worker is left at tls://.*; waiting for [0-9]+ s")
    seconds = [int(re.findall(r"waiting for (\d+) s", line)[0]) for line in (told[-1], again[-1])]
    assert seconds[0] < seconds[1]
    starting = threading.Thread(target=cluster.start_worker, args=("late",))
    starting.start()
    code, _, err = running.finish()
    starting.join()
    assert code == 0, err
    assert "a worker is there again" in err
