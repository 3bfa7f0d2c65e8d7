"""`serve` tries a charged release again whatever came in its way, and says of each attempt what is so."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

KILL_AT = Path(__file__).parents[2] / "support" / "kill_at"


@pytest.mark.slow
def test_an_anchor_that_is_gone_at_the_close_is_waited_for(desk, serve, outside, prefect) -> None:
    desk.add_dataset()
    desk.succeed("series", "add", "monthly", desk.write_spec(), "--releases", "2")
    [anchor] = (desk.home / "anchors").glob("*.jsonl")
    elsewhere = Path(f"{anchor}.elsewhere")
    harm = {
        "TEST_HARM_AT": "close",
        "TEST_HARM": f"test -e {desk.folder}/harmed || mv {anchor} {elsewhere}; touch {desk.folder}/harmed",
    }
    serving = serve("monthly", "--retry-for", "100s", environment=outside | harm | {"PYTHONPATH": str(KILL_AT)})
    serving.await_line("Next run at")
    prefect.trigger("monthly")
    first = serving.await_line("Waiting")
    assert "this ledger's anchor is missing" in first
    assert "is spent, since reading had begun. Its output is in view at" in first
    again = serving.await_line("Waiting")
    assert "this ledger's anchor is missing. Nothing was written" in again
    elsewhere.rename(anchor)
    serving.await_line("Published release")
    assert serving.end(signal.SIGTERM) in (0, 1)  # 1 where its process had not ended yet
    desk.succeed("ledger", "verify")
