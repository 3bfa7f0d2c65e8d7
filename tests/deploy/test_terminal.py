"""The terminal shows a steward how fast the count goes and how long it will take; a log gets the stages' names."""

from __future__ import annotations

import io
import subprocess
import sys
import time

import pytest
from crowdblend.deploy.terminal.stages import Stages, pace
from crowdblend.deploy.terminal.tables import FactTable
from rich.console import Console


def test_the_pace_is_in_rows_and_bytes_a_second():
    assert pace(share=0.5, seconds=2.0, records=10_000_000, n_bytes=55_000_000) == "2.5 M rows/s, 13.8 MB/s"
    assert pace(share=1.0, seconds=2.0, records=1_000, n_bytes=2_000) == "500 rows/s, 1.0 kB/s"
    assert pace(share=1.0, seconds=1.0, records=2_000, n_bytes=2_000) == "2.0 k rows/s, 2.0 kB/s"
    assert pace(share=0.25, seconds=1.0, records=None, n_bytes=4_000_000) == "1.0 MB/s"
    assert pace(share=0.0, seconds=1.0, records=5, n_bytes=5) == ""


def drawn(*, terminal: bool, expect: bool) -> str:
    """What is drawn of a stage that is half done."""
    stages = Stages()
    shown = io.StringIO()
    stages._console = Console(file=shown, force_terminal=terminal, width=140)
    if expect:
        stages.expect(records=1_000, n_bytes=5_000)
    with stages.stage("count"):
        stages.on_progress(5, 10)
    return shown.getvalue()


def test_rows_bytes_and_time_left_are_drawn_at_a_terminal_only(capsys: pytest.CaptureFixture[str]):
    at_terminal = drawn(terminal=True, expect=True)
    assert "rows/s" in at_terminal
    assert "left" in at_terminal
    assert "rows/s" not in drawn(terminal=True, expect=False)
    assert drawn(terminal=False, expect=True) == ""
    assert capsys.readouterr().err == "crowdblend: count\n"


def test_the_start_counts_from_the_beginning_of_the_process():
    program = (
        "import time; time.sleep(0.5); from crowdblend.deploy.terminal.stages import Stages, process_begun\n"
        "stages = Stages(begun=process_begun())\n"
        "with stages.stage('charge'): pass\n"
        "print(stages.seconds['start'])"
    )
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert 0.5 < float(done.stdout) <= time.perf_counter() - begun + 0.02


def test_a_row_that_does_not_fit_becomes_a_paragraph_of_whole_cells() -> None:
    table = FactTable(
        title="T", headers=("id", "day", "what"), rows=(("a" * 50, "2026-01-01", "b" * 30), ("c", "", "d"))
    )
    assert table.fitted(None).splitlines()[2] == f"{'a' * 50}  2026-01-01  {'b' * 30}"
    assert table.fitted(94) == table.fitted(None)
    assert table.fitted(40).splitlines() == ["T", "a" * 50, "  day 2026-01-01,", f"  what {'b' * 30}", "c", "  what d"]
