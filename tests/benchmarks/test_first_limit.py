"""The model of a release on 64 workers: its arithmetic, on costs that are easy to follow, and a small run of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchmarks.record_path.first_limit import BY, Assumed, Part, Travel, memory_limit, parts_of
from benchmarks.record_path.plan import Costs

COSTS = Costs(
    record=1e-8,
    row_group=0.0,
    bytes_of_record=8.0,
    serial=0.1,
    walls={1: 1.0, 2: 0.6},
    tasks={("threads", 10): 1.0, ("cluster", 10): 1e-3},
)
TRAVEL = Travel(file=1e-3, row_group=1e-6, told_row_group=10.0, sent_group=16.0, merged_group=1e-8, memory_group=30.0)
ASSUMED = Assumed(workers=64, processors=16, memory=64e9, network=1e9, storage=1e9)


def seconds(*, groups: int = 10_000, costs: Costs = COSTS, assumed: Assumed = ASSUMED) -> dict[str, float]:
    parts: list[Part] = parts_of(costs, TRAVEL, assumed, groups=groups, row_group=1_000_000)
    return {part.name: part.seconds for part in parts}


def test_each_part_takes_what_its_costs_say() -> None:
    found = seconds()
    assert found["counting"] == pytest.approx(1e11 * 1e-8 / 1024)
    assert found["reading the files"] == pytest.approx(8e11 / 64 / 1e9)
    assert found["the files' footers"] == pytest.approx(1e4 * 1e-3 + 1e5 * 1e-6)
    assert found["scheduling tasks"] == pytest.approx(23_842 * 1e-3)
    # 23,842 tasks with 10,000 groups each, in sums of eight: 2,981, 373, 47, 6 and 1 of them.
    into = [(2981, 23_842), (373, 2981), (47, 373), (6, 47), (1, 6)]
    assert found["adding counts up"] == pytest.approx(sum(n * 10_000 * 1e-8 / min(made, 1024) for made, n in into))


def test_more_workers_and_better_links_shorten_what_they_hold_up() -> None:
    before, twice = seconds(), seconds(assumed=replace(ASSUMED, workers=128))
    faster = seconds(groups=10**7, assumed=replace(ASSUMED, network=2e9))
    assert twice["counting"] == pytest.approx(before["counting"] / 2)
    assert twice["scheduling tasks"] == before["scheduling tasks"]
    assert faster["sending counts"] == pytest.approx(seconds(groups=10**7)["sending counts"] / 2)


def test_memory_is_short_from_some_number_of_groups_on() -> None:
    least = memory_limit(TRAVEL, ASSUMED)
    assert 10**7 < least < 10**10
    assert memory_limit(TRAVEL, replace(ASSUMED, memory=128e9)) > least
    assert memory_limit(replace(TRAVEL, memory_group=0.0), ASSUMED) == 0


@pytest.mark.long
def test_a_small_run_measures_and_names_what_breaks_first(benchmark, tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"<!-- begin of {BY} -->\n<!-- end of {BY} -->\n")
    small = ("--rows", "200000", "--rounds", "1", "--tasks", "20", "--groups", "20000")
    benchmark("record_path.first_limit", *small, "--write", page)
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^\| \*\*reaches its limit first\*\* \| \|( [a-z' ]+ \|){4}$", text, re.MULTILINE)) == 2
    assert "row groups of 65,536" in text.lower()
    assert not re.search(r"-\d|nan|inf\b", re.sub(r"---", "", text))
