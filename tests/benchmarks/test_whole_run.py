"""The whole run's benchmark: a small run of it measures every command and splits up a release."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "whole-run.md"
ROW = re.compile(r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]*) \|$", re.MULTILINE)


@pytest.mark.long
def test_a_small_run_measures_all_and_writes_the_pages_table(benchmark, tmp_path):
    page = tmp_path / PAGE.name
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    rows = ROW.findall(benchmark("whole_run", "--rows", "50000", "--rounds", "1", "--write", page))
    assert ROW.findall(page.read_text(encoding="utf-8")) == rows
    before = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert [name.replace("10,000,000", "50,000") for name, *_ in before] == [name for name, *_ in rows]
    assert all(float(cpu) > 0 for name, _, cpu in rows if ":" not in name or "refusal" in name)
    found = {name.partition(": ")[2]: float(wall) for name, wall, _ in rows if name.startswith("50,000")}
    work = sum(found[name] for name in ("charge", "count", "publish", "close"))
    assert work == pytest.approx(found["charge, count, publish and close"], abs=0.05)
    assert found["start"] + work + found["select"] <= found["the whole command"]
