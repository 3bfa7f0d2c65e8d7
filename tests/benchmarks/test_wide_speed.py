"""Wide files' times: both contestants count the same pairs, another answer is caught, and a tiny run prints a table."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.wide import wide_speed
from benchmarks.wide.wide_speed import blocks_of, counted_pairs


def test_both_count_the_same_pairs_and_another_answer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    [codes] = blocks_of(3_000, 5)
    assert min(min(taken) for taken in counted_pairs(codes, rounds=1).values()) >= 0
    counts = wide_speed.ours
    monkeypatch.setattr(wide_speed, "ours", lambda codes: lambda: [np.roll(one, 1) for one in counts(codes)()])
    with pytest.raises(RuntimeError, match="answers differ"):
        counted_pairs(codes, rounds=1)


@pytest.mark.long
def test_a_tiny_run_tells_of_counting_and_of_the_whole(benchmark) -> None:
    told = benchmark("wide.wide_speed", "--rows", "2000", "--columns", "6", "--rounds", "1", "--runs", "2000x6")
    [ratios] = re.findall(r"^\| DuckDB's over ours \| ([\d.]+) \| ([\d.]+) \|$", told, re.MULTILINE)
    assert min(map(float, ratios)) > 0
    assert re.search(r"^\| 2,000 records, 6 columns \|( [\d.]+ \|){4} \d+ \|$", told, re.MULTILINE)
