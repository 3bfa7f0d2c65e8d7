"""The comparison of shares, small: every file is read, and ways are compared by place."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.utility import shares


@pytest.mark.parametrize("name", shares.FILES)
def test_each_file_has_the_columns_and_labels_that_become_coarser(name: str) -> None:
    table = shares.read_table(name, shares.FILES[name])
    assert table.records.shape[0] == len(shares.FILES[name])
    assert table.records.shape[1] > 3_000
    for own, size in zip(table.records, table.sizes, strict=True):
        assert np.unique(own).size == size > 1
    assert all(len(set(labels)) <= 5 for labels in table.labels.values())


def test_what_is_proposed_is_among_what_is_compared() -> None:
    compared = [(one, each) for _, one, each in shares.ways()]
    assert compared[0] == (shares.PairShares(), 1)
    assert (shares.PairShares(), shares.PROPOSED) in compared


def test_a_way_is_held_against_the_best_at_each_place() -> None:
    lines = shares.lines_of({"a": {"x": 900.0, "y": 800.0}, "b": {"x": 890.0, "y": 820.0}})
    assert lines[2:] == ["| a | 850.0 | 20.0 |", "| b | 855.0 | 10.0 |"]
