"""The whole run's benchmark: a small run of it splits its time and leaves nothing out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[2] / "benchmarks" / "whole_run.py"


@pytest.mark.long
def test_a_small_run_is_split_up():
    done = subprocess.run(
        [sys.executable, COMMAND, "--rows", "50000", "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {
        name: float(value) for name, value in re.findall(r"^\| (\w+) \| (-?[\d.]+) \|$", done.stdout, re.MULTILINE)
    }
    stages = sum(found[name] for name in ("start", "charge", "select", "count", "publish", "close"))
    assert stages == pytest.approx(found["stages"], abs=0.05)
    assert found["stages"] + found["interpreter"] == pytest.approx(found["wall"], abs=0.05)
    assert 0 < found["count"] < found["wall"]
