"""The page on filter budgets shows what the command writes now, and no figure is above the ones it was designed for."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ledger import filter_budgets

PAGE = Path(__file__).parents[2] / "docs" / "filter-budgets.md"


@pytest.mark.slow
def test_the_page_has_the_table_that_the_command_writes(capsys):
    filter_budgets.main([])
    assert capsys.readouterr().out in PAGE.read_text(encoding="utf-8")
