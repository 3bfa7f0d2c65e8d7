"""The benchmark of quotes: a small run of it compares both readings of each file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMAND = Path(__file__).parents[2] / "benchmarks" / "csv_quotes.py"


def test_a_small_run_compares_both_readings():
    done = subprocess.run(
        [sys.executable, COMMAND, "--megabytes", "1", "--rounds", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [row[0].removeprefix("| ") for row in rows] == ["plain", "plain", "every", "every", "lines", "lines"]
    assert all(float(row[5]) > 0 for row in rows)
