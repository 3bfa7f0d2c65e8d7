"""The coverage of the researcher's kit, small: every way of releasing is asked, and most intervals hold."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_every_way_of_releasing_is_asked(benchmark) -> None:
    said = benchmark("analysis_coverage", "--draws", 1, "--sizes", 2_000)
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in said.splitlines()]
    assert {row[0] for row in rows} == {"chosen pairs", "named pairs", "sample with margins"}
    for way in ("chosen pairs", "named pairs", "sample with margins"):
        [labels] = [row for row in rows if row[:2] == [way, "count, a label"]]
        assert float(labels[2].rstrip("%")) > 80
        assert float(labels[4].rstrip("%")) < 100, "narrower than one table's"
