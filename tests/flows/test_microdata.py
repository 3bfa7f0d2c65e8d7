"""A whole release, through the command line, Prefect and Dask, on real files."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

LABELS = {
    "colour": {"blue", "green", "red", "*"},
    "age": {"[20, 30)", "[30, 40)", "*"},
    "town": {"North", "South", "*"},
}


def rows_of(folder: Path) -> list[dict]:
    if (folder / "data.parquet").exists():
        return pq.read_table(folder / "data.parquet").to_pylist()
    with (folder / "data.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def released(desk, **changes: str) -> tuple[dict, list[dict]]:
    spec = desk.write_spec(**changes)
    answer = desk.succeed("run", spec, "--json")
    return answer.json, rows_of(Path(answer.json["output"]))


def test_a_release_publishes_truthful_groups_of_at_least_k(desk) -> None:
    desk.add_dataset()
    result, rows = released(desk)

    groups = Counter(tuple(row.values()) for row in rows)
    assert groups
    assert min(groups.values()) >= 20
    for row in rows:
        assert set(row) == set(LABELS)
        for column, value in row.items():
            assert value in LABELS[column]
    keys = [tuple(row.values()) for row in rows]
    assert keys == sorted(keys), "their order is their own"
    assert result["published_records"] == len(rows)
    assert result["published_groups"] == len(groups)
    assert result["levels"] == {"colour": 0, "age": 1, "town": 1}
    assert result["mechanism"]["k"] == 20
    assert sorted(result["timings"]) == ["charge", "close", "count", "publish", "select", "start"]
    assert sorted(os.listdir(result["output"])) == ["certificate.json", "data.parquet"]


@pytest.mark.slow
def test_every_form_and_format_tells_the_same(desk) -> None:
    """The same coins, injected here only, in four ledgers."""
    counted = []
    for form in ("microdata", "counts"):
        for file_format in ("parquet", "csv"):
            name = f"{form}-{file_format}"
            spec = desk.write_spec(form=form, file_format=file_format, output=name)
            result = desk.release(spec, ledger=name, coins=lambda size: b"\x07" * size)
            counts: Counter = Counter()
            for row in rows_of(Path(result["output"])):
                counts[tuple(row[column] for column in LABELS)] += int(row.get("count", 1))
            counted.append(counts)
    assert counted[0]
    assert all(counts == counted[0] for counts in counted)


def test_over_budget_is_3_and_the_source_is_never_opened(desk) -> None:
    """The source is a pipe that nobody writes to: opening it would hang."""
    desk.add_dataset(epsilon="0.01")
    (desk.folder / "people.csv").unlink()
    os.mkfifo(desk.folder / "people.csv")
    desk.refuse("run", desk.write_spec(), "--json", code=3, said="0.01")
    assert not (desk.folder / "out").exists()


@pytest.mark.slow
def test_persisted_results_do_not_repeat_a_sample(desk) -> None:
    from prefect.settings import PREFECT_RESULTS_PERSIST_BY_DEFAULT, temporary_settings

    desk.add_dataset()
    with temporary_settings({PREFECT_RESULTS_PERSIST_BY_DEFAULT: True}):
        first, one = released(desk, output="one")
        second, two = released(desk, output="two")
    assert first["sample_id"] != second["sample_id"]
    assert Counter(map(str, one)) != Counter(map(str, two))
