"""A run's Prefect server begins with a copy of an empty database; nothing of a run ever gets into the template."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from crowdblend.deploy.prefect_environment import lay_out_database

SERVER = """
import sys
from pathlib import Path
from crowdblend.deploy.prefect_environment import configure_prefect, configured_api
wait = configure_prefect(Path(sys.argv[1]))
from prefect import flow
@flow(name="told")
def told():
    pass
wait()
with configured_api():
    told()
"""


def run_flow_in(private: Path) -> Path:
    """Run one flow with a server of its own; the template that is there afterwards."""
    # Tests that ran before in this process may have named a server or a folder, whose database is no template's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-W", "ignore", "-c", SERVER, str(private)]
    subprocess.run(command, env=environment, check=True, timeout=900)
    [template] = (private / "cache").iterdir()
    return template


def tables_and_rows(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: opened.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}


@pytest.mark.long
def test_the_template_is_private_empty_and_used_again(tmp_path):
    private = tmp_path / "private"
    template = run_flow_in(private)
    rows = tables_and_rows(template)
    assert {name for name, count in rows.items() if count} <= {"alembic_version"}
    assert "flow_run" in rows
    assert stat.S_IMODE(template.stat().st_mode) == 0o600
    assert stat.S_IMODE(template.parent.stat().st_mode) == 0o700
    made = template.read_bytes(), template.stat().st_ino
    assert run_flow_in(private) == template
    assert (template.read_bytes(), template.stat().st_ino) == made
    template.write_bytes(made[0][:5000])  # damaged: it is made anew, and the flow runs
    assert tables_and_rows(run_flow_in(private)) == rows


def test_a_home_with_a_database_is_left_alone(tmp_path):
    (tmp_path / "prefect.db").write_bytes(b"mine")
    lay_out_database(tmp_path, tmp_path / "template.db")
    assert (tmp_path / "prefect.db").read_bytes() == b"mine"


def test_a_database_that_somebody_chose_is_left_alone(tmp_path):
    """Prefect's settings in this process name another file than the one in this folder."""
    lay_out_database(tmp_path, tmp_path / "template.db")
    assert list(tmp_path.iterdir()) == []
