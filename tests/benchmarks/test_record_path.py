"""The record path's benchmark: a small run of it, and a check that no wrong answer passes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.record_path.agreement import faults
from benchmarks.record_path.census_data import cells, generate
from benchmarks.record_path.check import KINDS, RECORDED, slower
from benchmarks.record_path.contestants import CONTESTANTS, Question, cell_counts


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("records"), rows=600_000, row_group=100_000)


@pytest.fixture
def asked(records):
    return Question(files=tuple(map(str, records.files)), rate=0.1, k=5)


def wrong(answer, records, *, k: int = 5) -> list[str]:
    return faults(cell_counts(answer), exact=records.exact, rate=0.1, k=k)


@pytest.mark.long
def test_a_small_run_times_checks_and_draws(benchmark, tmp_path):
    cases = [word for name in ("small-row-groups", "csv", "all-records") for word in (f"--{name}", "30000")]
    benchmark("record_path", "--rows", "30000", "--rounds", "1", *cases, "--output", tmp_path)
    page = (tmp_path / "record-path.md").read_text(encoding="utf-8")
    for name in ("ours", "ours, pyarrow alone", "DuckDB", "Polars", "dask.dataframe"):
        without = {"Polars": 1, "dask.dataframe": 3}.get(name, 0)
        assert len(re.findall(rf"^\| {name} \| \d", page, flags=re.MULTILINE)) == 6 - without, name
    for case in ("row groups of 65,536", "row groups of 122,880", "bytes, CSV\n", "CSV in gzip", "without sampling"):
        assert case in page, case
    assert (tmp_path / "record-path.svg").stat().st_size > 2_000


def test_the_same_arguments_give_the_same_records_whatever_the_row_groups(records, tmp_path):
    other = generate(tmp_path, rows=600_000, row_group=65_536)
    assert np.array_equal(other.exact, records.exact)
    assert records.exact.size == cells()
    assert records.exact.sum() == records.rows
    assert records.size / records.rows < 7


def swap_labels(column):
    return replace(column, labels=column.labels[::-1])


FAULTS = {
    "a rate a tenth too high": lambda asked: replace(asked, rate=0.11),
    "a rate a tenth too low": lambda asked: replace(asked, rate=0.09),
    "a threshold one too low": lambda asked: replace(asked, k=4),
    "a threshold one too high": lambda asked: replace(asked, k=6),
    "a column mapped backwards": lambda asked: replace(
        asked, columns=(*asked.columns[:2], swap_labels(asked.columns[2]), *asked.columns[3:])
    ),
}


@pytest.mark.parametrize(
    "name", ["ours", *(pytest.param(name, marks=pytest.mark.slow) for name in ("DuckDB", "Polars", "dask.dataframe"))]
)
def test_right_answers_pass_and_a_deliberate_error_in_any_contestant_does_not(name, asked, records):
    """False-alarm rate of the right answer below 6e-9. Each error is built into the contestant that is asked.

    A rate a tenth off lies about 18 standard deviations away with these records, so none is missed by chance.
    """
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert wrong(CONTESTANTS[name](asked)(), records) == []
        for what, broken in FAULTS.items():
            assert wrong(CONTESTANTS[name](broken(asked))(), records) != [], what


def test_a_sample_that_is_drawn_group_by_group_does_not_pass(records):
    """Right in its sum, wrong in its spread: whole groups are kept or dropped together."""
    rng = np.random.default_rng(3)
    exact = records.exact * 40
    right = rng.binomial(exact, 0.1)
    assert faults(np.where(right >= 5, right, 0), exact=exact, rate=0.1, k=5) == []
    halves = 2 * rng.binomial(exact // 2, 0.1) + rng.binomial(exact % 2, 0.1)
    assert faults(np.where(halves >= 5, halves, 0), exact=exact, rate=0.1, k=5) != []


@pytest.mark.long
def test_few_of_many_groups_are_counted_by_both_and_released_in_stages(benchmark):
    told = benchmark("record_path.many_groups", "--rows", "50000", "--columns", "age", "occupation")
    assert "| DuckDB |" in told
    assert "| ours: a whole deletion release of 3 stages, with " in told


@pytest.mark.long
def test_files_of_other_writers_are_released_beside_duckdb(benchmark, tmp_path):
    told = benchmark("record_path.outside_files", "--rows", "50000", "--rounds", "1", "--data", tmp_path)
    assert [f"\n| {writer}: 1 × " in told for writer in ("DuckDB", "Polars", "pandas")] == [True] * 3


def test_a_fifth_slower_than_recorded_does_not_pass():
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["ratios"]
    assert sorted(recorded) == sorted(f"{case}, {kind}" for case, kinds in KINDS.items() for kind in kinds)
    assert slower(recorded, recorded) == []
    assert slower({name: ratio / 1.15 for name, ratio in recorded.items()}, recorded) == []
    for name, ratio in recorded.items():
        [told] = slower({**recorded, name: ratio / 1.21}, recorded)
        assert told.startswith(name)
        [told] = slower({**recorded, name: float("nan")}, recorded)
        assert told.startswith(name)
        others = {other: ratio for other, ratio in recorded.items() if other != name}
        assert slower(others, recorded) == [f"{name} was recorded and not measured"]
        assert slower(recorded, others) == [f"{name} was never recorded"]
