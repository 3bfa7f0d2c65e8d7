"""A run's own Prefect server is inside the run's process: nobody else can reach it, and its records go with it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

PROGRAM = """
import json, os, sys, threading
import psutil
from pathlib import Path
from crowdblend.deploy.prefect_environment import configure_prefect, configured_api
wait = configure_prefect(Path(sys.argv[1]))
from prefect import flow, flow_engine, task
from prefect.runtime import flow_run
from prefect.settings import get_current_settings
seen = {"beats": 0, "waited": False}
join, emit = threading.Thread.join, flow_engine.BaseFlowRunEngine._emit_flow_run_heartbeat
def joined(thread, timeout=None):
    seen["waited"] |= sys._getframe(1).f_code.co_name == "_send_heartbeats"
    join(thread, timeout)
def emitted(*words):
    seen["beats"] += 1
    emit(*words)
threading.Thread.join, flow_engine.BaseFlowRunEngine._emit_flow_run_heartbeat = joined, emitted
@task
def work():
    this = psutil.Process()
    seen["children"] = len(this.children(recursive=True))
    seen["listening"] = [c.laddr for p in (this, *this.children()) for c in p.net_connections() if c.status == "LISTEN"]
    seen["id"] = str(flow_run.id)
    seen["heartbeats"] = get_current_settings().flows.heartbeat_frequency is not None
@flow(name="told", flow_run_name="this-one", validate_parameters=False)
def told():
    work()
wait()
for _ in range(2):
    with configured_api():
        told()
home = Path(os.environ["PREFECT_HOME"])
seen |= {"home": str(home), "mode": oct(home.stat().st_mode), "database": (home / "prefect.db").exists()}
import sqlite3
with sqlite3.connect(home / "prefect.db") as database:
    seen["runs"] = database.execute("SELECT name, state_type FROM flow_run").fetchall()
    seen["tasks"] = database.execute("SELECT count(*) FROM task_run").fetchone()[0]
    seen["events"] = database.execute("SELECT count(*) FROM events").fetchone()[0]
print(json.dumps(seen))
"""
WITHOUT_PARTS = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "prefect.server.api.flow_runs":
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
"""


def seen_by(program: str, private: Path, **variables: str) -> dict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")}
    environment.pop("PREFECT_HOME", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(private)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | variables,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_nobody_else_can_reach_it_and_its_records_go(tmp_path):
    seen = seen_by(PROGRAM, tmp_path / "private")
    assert (seen["children"], seen["listening"]) == (0, [])
    assert Path(seen["home"]).parent == tmp_path / "private"
    assert seen["mode"] == "0o40700"
    assert seen["runs"] == [["this-one", "COMPLETED"]] * 2
    assert (seen["tasks"], seen["events"]) == (0, 0)
    assert not seen["heartbeats"], "the end of a flow would wait for their thread, which sleeps whole seconds"
    assert [path.name for path in (tmp_path / "private").iterdir()] == ["cache"]


@pytest.mark.slow
def test_where_its_parts_are_missing_a_whole_server_is_started(tmp_path, give_template):
    give_template(tmp_path / "private")
    seen = seen_by(WITHOUT_PARTS + PROGRAM, tmp_path / "private")
    assert seen["children"] == 1
    assert seen["runs"] == [["this-one", "COMPLETED"]] * 2
    assert [path.name for path in (tmp_path / "private").iterdir()] == ["cache"]


@pytest.mark.slow
def test_records_that_are_kept_are_complete(tmp_path, give_template):
    """Who names PREFECT_HOME keeps them: a whole server in a process of its own records the tasks too."""
    give_template(tmp_path / "private")
    kept = tmp_path / "kept"
    kept.mkdir()
    seen = seen_by(PROGRAM, tmp_path / "private", PREFECT_HOME=str(kept))
    assert (seen["home"], seen["children"], seen["heartbeats"]) == (str(kept), 1, True)
    assert (seen["beats"], seen["waited"]) == (2, False), "it sends a heartbeat, and no flow waits for its thread"
    with closing(sqlite3.connect(kept / "prefect.db")) as database:
        assert database.execute("SELECT state_type FROM flow_run").fetchall() == [("COMPLETED",)] * 2
        assert database.execute("SELECT state_type FROM task_run").fetchall() == [("COMPLETED",)] * 2
