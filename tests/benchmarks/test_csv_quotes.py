"""The benchmark of quotes: a small run of it compares both readings of each file."""

from __future__ import annotations


def test_a_small_run_compares_both_readings(benchmark):
    told = benchmark("record_path.csv_quotes", "--megabytes", "1", "--rounds", "1")
    rows = [line.split(" | ") for line in told.splitlines()[2:]]
    assert [row[0].removeprefix("| ") for row in rows] == ["plain", "plain", "every", "every", "lines", "lines"]
    assert all(float(row[5]) > 0 for row in rows)
