"""The coverage of regressions by answered requests, small: each is asked, and where ε is large none is refused."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_each_regression_is_asked(benchmark) -> None:
    said = benchmark("answer_coverage", "--draws", 3, "--sizes", 2_000, "--epsilon", 100)
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in said.splitlines()[2:]]
    assert [row[0].count("+") for row in rows] == [0, 1, 1, 4]
    assert {(row[1], row[3]) for row in rows} == {("2,000", "100%")}
    assert all(float(row[5].removesuffix(" times")) < 1 for row in rows)
