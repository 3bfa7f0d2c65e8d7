"""What `ledger show` prints for people: ids and days are whole, in a pipe and on a terminal of 80 columns."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from crowdblend.deploy.terminal.tables import FactTable

NAME = "household-survey-of-the-northern-region"
RELEASE = f"{NAME}-monthly@20260101T030000Z"


@pytest.fixture
def long_names(desk):
    """A ledger whose data set, series and release have long names; gives the day of the charge."""
    desk.succeed("dataset", "add", NAME, "--epsilon", "10", "--delta", "1e-3")
    spec = desk.write_spec(edit=lambda text: text.replace('dataset = "people"', f'dataset = "{NAME}"'))
    desk.succeed("series", "add", f"{NAME}-monthly", spec, "--releases", "2")
    desk.succeed("run", spec, "--series", f"{NAME}-monthly", "--release-id", RELEASE)
    return desk("ledger", "show", "--json").json["releases"][0]["day"]


def at_terminal(columns: int, *words: str) -> list[str]:
    """The lines that a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "crowdblend.deploy", *words], stdout=theirs, stderr=theirs, stdin=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = bytearray()
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.slow
def test_ids_and_days_are_whole_in_a_pipe_and_at_80_columns(desk, long_names) -> None:
    piped = desk("ledger", "show").out.splitlines()
    assert any(RELEASE in line and NAME in line and long_names in line for line in piped)
    shown = at_terminal(80, "ledger", "show")
    for whole in (RELEASE, NAME, f"{NAME}-monthly", long_names):
        assert any(whole in line for line in shown), whole
    tables = [line for line in shown if line.startswith(("  ", NAME)) and "estimate" not in line]
    assert tables
    assert all(len(line) <= 80 for line in tables)


def test_a_row_that_does_not_fit_becomes_a_paragraph_of_whole_cells() -> None:
    table = FactTable(
        title="T", headers=("id", "day", "what"), rows=(("a" * 50, "2026-01-01", "b" * 30), ("c", "", "d"))
    )
    assert table.fitted(None).splitlines()[2] == f"{'a' * 50}  2026-01-01  {'b' * 30}"
    assert table.fitted(94) == table.fitted(None)
    assert table.fitted(40).splitlines() == ["T", "a" * 50, "  day 2026-01-01,", f"  what {'b' * 30}", "c", "  what d"]
