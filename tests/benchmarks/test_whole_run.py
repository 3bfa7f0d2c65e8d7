"""The whole run's benchmark: a small run of it measures every command and splits up a release."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[2] / "benchmarks" / "whole_run.py"


@pytest.mark.long
def test_a_small_run_measures_all_and_splits_up_a_release():
    done = subprocess.run(
        [sys.executable, COMMAND, "--rows", "50000", "--rounds", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    costs = re.findall(r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \|$", done.stdout, re.MULTILINE)
    assert [name.partition(",")[0].partition(":")[0] for name, _, _ in costs] == [
        *("run", "run", "run", "plan", "explain", "ledger show", "ledger verify", "verify", "refusal", "refusal")
    ]
    assert all(float(cpu) > 0 for _, _, cpu in costs)
    found = {
        name: float(value) for name, value in re.findall(r"^\| ([^|]+) \| ([\d.]+) \|$", done.stdout, re.MULTILINE)
    }
    work = sum(found[name] for name in ("charge", "count", "publish", "close"))
    assert work == pytest.approx(found["charge + count + publish + close"], abs=0.05)
    assert found["start"] + work + found["select"] <= found["wall"]
