"""The example of a release inside somebody's own Prefect flow, run as its reader would run it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-flow"
AGAIN = 'import runpy; runpy.run_path("flow.py", run_name="__main__")'


@pytest.mark.slow
def test_a_release_is_a_subflow_on_the_same_server_and_a_repeat_is_the_same_release(
    desk, own_prefect_server, commands
) -> None:
    here = desk.folder / "own-flow"
    shutil.copytree(EXAMPLE, here, ignore=shutil.ignore_patterns("people.csv", "out", "__pycache__"))
    desk.succeed("dataset", "add", "survey", "--epsilon", "2", "--delta", "1e-5")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "DO_NOT_TRACK"))}
    home = own_prefect_server.folder
    environment = kept | {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": own_prefect_server.api_url,
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
    }
    told = subprocess.run(
        [sys.executable, "flow.py"], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    estimates = told.stdout.splitlines()
    assert [line.partition(":")[0] for line in estimates] == ["North", "South"]
    for line in estimates:  # 3,000 people each; ± 6 standard deviations of the sample's count
        assert abs(int(line.split("about ")[1].split()[0]) - 3_000) < 6 * (3_000 * 0.8 / 0.2) ** 0.5
    again = commands.run(folder=here, environment=environment, script=AGAIN)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines() == estimates
    [release] = desk("ledger", "show", "--json").json["releases"]
    assert (release["release_id"], release["stage"]) == ("survey-2026-q1", "published")
    with sqlite3.connect(home / "prefect.db") as database:
        rows = database.execute("SELECT name, parent_task_run_id FROM flow_run").fetchall()
    parents = dict(rows)
    assert len(rows) == 3  # two runs of the example, and one of the release
    assert parents["survey-2026-q1"] is not None
    kept_files = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert kept_files
    assert not any(b"region,age" in content for content in kept_files)  # no record is kept by Prefect


TOLD = """
import runpy
runpy.run_path("flow.py", run_name="example")
from prefect._internal.analytics.enabled import is_telemetry_enabled
from prefect.settings import get_current_settings
print(is_telemetry_enabled(), get_current_settings().server.analytics_enabled)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (str, "False False"),
        pytest.param(lambda text: text.replace("environ.", "environ.copy()."), "True True", marks=pytest.mark.long),
    ],
)
def test_it_has_prefect_report_nothing_to_its_makers(tmp_path: Path, edit, told: str) -> None:
    """Prefect's own switches, without the variables that tests set; the second shows that they are the example's."""
    (tmp_path / "flow.py").write_text(edit((EXAMPLE / "flow.py").read_text(encoding="utf-8")), encoding="utf-8")
    silent = ("PREFECT_", "DO_NOT_TRACK", "CI", "GITHUB_", "CROWDBLEND_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(silent)}
    environment["PREFECT_HOME"] = str(tmp_path / "prefect")
    done = subprocess.run(
        [sys.executable, "-c", TOLD], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == told
