"""The deletion path's benchmark: a small run of it checks every answer and runs the whole flow."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.deletion_path import answered
from benchmarks.record_path.census_data import generate
from benchmarks.record_path.contestants import Question, duckdb, ours


def test_both_count_every_record_and_another_answer_is_caught(tmp_path) -> None:
    records = generate(tmp_path, rows=20_000)
    question = Question(files=tuple(map(str, records.files)), rate=None, k=1)
    for contestant in (ours, duckdb):
        assert min(answered(contestant(question), records)) >= 0
        labels, counts = contestant(question)()
        with pytest.raises(RuntimeError, match="not those of the records"):
            answered(lambda labels=labels, counts=counts: (labels, counts + (np.arange(counts.size) == 0)), records)


@pytest.mark.long
def test_a_small_run_tells_of_counting_and_of_the_whole(benchmark) -> None:
    told = benchmark("deletion_path", "--rows", "20000", "--rounds", "1")
    [times] = re.findall(r"^\| ours over DuckDB's \| ([\d.]+) \| ([\d.]+) \|$", told, re.MULTILINE)
    assert min(map(float, times)) > 0
    [figures] = re.findall(r"^\| microdata \|(.*)\|$", told, re.MULTILINE)
    [*stages, whole, processor, mebibytes] = map(float, figures.split("|"))
    assert len(stages) == 5
    assert sum(stages) <= whole + 0.05
    assert processor > 0
    assert 100 < mebibytes < 1024
