"""What Prefect is handed of a stage: a call that is closed to it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pathlib import Path
from crowdblend.deploy.prefect_environment import configure_prefect, configured_api
from crowdblend.tasks.stages.stage import stage
wait = configure_prefect(Path(sys.argv[1]))
from prefect import flow
class Labels(list):
    walked = 0
    def __iter__(self):
        Labels.walked += 1
        return super().__iter__()
@stage("count")
def counted(labels, *, more):
    return len(labels) + len(more)
@flow(name="release", validate_parameters=False)
def release():
    return counted(Labels("abc"), more={"map": Labels("de")})
wait()
with configured_api():
    print(release(), Labels.walked, counted.fn([1], more=()))
"""


@pytest.mark.slow
def test_prefect_walks_no_argument_of_a_stage(tmp_path):
    """It looks for futures in every argument, twice, down to each label of a hierarchy."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "private")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4", "0", "1"]
