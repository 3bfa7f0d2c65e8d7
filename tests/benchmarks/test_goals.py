"""The goals of speed as a program: it measures each, writes a page, and says by its exit code whether all are met."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import goals

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "goals.md"


@pytest.mark.slow
@pytest.mark.parametrize("met", [True, False])
def test_all_goals_are_measured_written_and_judged(met, monkeypatch, tmp_path, capsys) -> None:
    page = tmp_path / PAGE.name
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    # No verdict hangs on the clock: with these bounds all are met, or none is.
    bound, measure = 1e9 if met else 0.0, goals.goals
    monkeypatch.setattr(goals, "goals", lambda **given: (replace(one, most=bound) for one in measure(**given)))
    code = goals.main(["--entries", "300", "--rounds", "1", "--write", str(page)])
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.endswith(("| yes |", "| no |"))]
    assert len(rows) == 5
    printed = capsys.readouterr().out
    assert all(row in printed for row in rows)
    assert all(row.endswith("| yes |") is met for row in rows)
    assert code == (0 if met else 1)
