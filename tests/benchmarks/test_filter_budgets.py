"""The page on filter budgets shows what the command writes now, and no figure is above the ones it was designed for."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.kinds.microdata_prices import composed_price_fixed
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

from benchmarks.ledger import filter_budgets

PAGE = Path(__file__).parents[2] / "docs" / "filter-budgets.md"
DESIGNED = {
    ("20, 0.1", "12"): ("2.91", "0.48", "0.42"),
    ("20, 0.1", "52"): ("14.6", "0.91", "0.83"),
    ("20, 0.1", "365"): ("123", "2.40", "2.23"),
    ("50, 0.05", "52"): ("2.64", "0.236", "0.215"),
}
"""k and rate, releases → ε added up, in a filter budget, and as one series composed, at a δ of 1e-6."""


def shown():
    """The page's table: k and rate, releases → ε added up, in a filter budget, and as one series."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin, end = (next(place for place, line in enumerate(lines) if f"{word} of " in line) for word in ("begin", "end"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin + 3 : end]]
    return {(row[0], row[1]): [Decimal(text) for text in row[2:5]] for row in rows}


@pytest.mark.slow
def test_the_page_has_the_table_that_the_command_writes(capsys):
    filter_budgets.main([])
    assert capsys.readouterr().out in PAGE.read_text(encoding="utf-8")


def test_no_figure_of_the_page_is_two_percent_above_the_design():
    """What is added up is the same price; filter budgets and series have become cheaper."""
    found = shown()
    assert found.keys() == DESIGNED.keys()
    for row, figures in found.items():
        summed, in_budget, as_series = map(Decimal, DESIGNED[row])
        assert summed * Decimal("0.99") <= figures[0] <= summed * Decimal("1.02")
        assert figures[1] <= in_budget * Decimal("0.92")
        assert figures[2] <= as_series * Decimal("0.92")
        assert figures[2] < figures[1] < figures[0]


@pytest.mark.parametrize("row", [row for row in DESIGNED if row[1] != "365"], ids="-".join)
def test_composed_series_cost_what_the_design_says(row):
    k, rate = row[0].split(", ")
    release = StronglySafeRelease(k=int(k), sampling_rate=Decimal(rate))
    found = composed_price_fixed(release, delta=Decimal("1e-6"), releases=int(row[1])).epsilon
    assert Decimal(DESIGNED[row][2]) * Decimal("0.99") <= found <= Decimal(DESIGNED[row][2]) * Decimal("1.02")
