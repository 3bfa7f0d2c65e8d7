"""The benchmarks and pictures of the mechanisms run, small."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mechanism_pictures import PICTURES

PROJECT = Path(__file__).parents[2]
PAGES = PROJECT / "docs" / "mechanisms"


@pytest.mark.long
def test_every_picture_is_drawn(benchmark, tmp_path):
    benchmark("mechanism_pictures", "--output", tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {f"{name}.svg" for name in PICTURES}


@pytest.mark.slow
@pytest.mark.parametrize("page", ["histograms", "answers", "local-reports", "points", "biased-samples"])
def test_the_examples_of_the_pages_run(page):
    (code,) = re.findall(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_benchmark_of_local_reports_runs_small(benchmark, tmp_path):
    work = tmp_path / "work"
    told = benchmark(
        "local_reports", "--sketches", "4000", "--vectors", "20000", "--loop", "2000", "--peer", "50", "--work", work
    )
    rows = [line for line in told.splitlines() if line.startswith("| ") and "this project" in line]
    assert [row.split("|")[2].strip() for row in rows] == ["4,000", "20,000"]
    assert "standard error" in told
    for kind, count in (("sketch", 4_000), ("vectors", 20_000)):
        whole, loop, batches = (
            json.loads(
                benchmark(
                    "local_reports", "--stage", f"{who}-{kind}", "--work", work / f"{kind}-{count}",
                    "--loop", str(count),
                )
            )
            for who in ("ours", "loop", "batches")
        )  # fmt: skip
        assert whole["reports"] == loop["reports"] == batches["reports"] == count
        assert whole["estimate"] == pytest.approx(loop["estimate"], rel=1e-6)
        assert whole["estimate"] == pytest.approx(batches["estimate"], rel=1e-6)
