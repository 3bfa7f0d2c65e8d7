"""Pairs of columns with many labels: counted at coarser ones, with tables that fit in memory."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from crowdblend.flows.columns import MOST_LABELS, MOST_MARGIN_LABELS, margin_map
from crowdblend.flows.releases.paired_parts import MOST_PAIR_CELLS, pair_details
from crowdblend.flows.spec_tables import ColumnTable
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from crowdblend.mechanisms.pair_model.paired_plan import pair_candidates

SPEC = """
[release]
name = "chosen"
output = "out"
[data]
dataset = "people"
source = "people.csv"
[deletion]
[privacy]
epsilon = 1
delta = 1e-6
[margins]
pairs = "auto"
[columns.place]
interval = {{ lower = 0, upper = {values}, widths = [2, {widest}] }}
levels = "auto"
min_level = 0
[columns.work]
interval = {{ lower = 0, upper = {values}, widths = [2, {widest}] }}
levels = "auto"
min_level = 0
"""


def hierarchy(values: int) -> IntervalHierarchy:
    """Values, and intervals of 2, 8 and 64."""
    return IntervalHierarchy(lower=0, upper=values, widths=(2, 8, 64))


def levels_of(sizes: list[int], given: dict[int, int]) -> GeneralizationMap:
    own = {f"c{place}": hierarchy(size) for place, size in enumerate(sizes)}
    tables = {name: ColumnTable(levels="auto", margin_level=given.get(place)) for place, name in enumerate(own)}
    return margin_map(Path("spec.toml"), tables, [(name, one, one.levels - 1) for name, one in own.items()])


def test_columns_are_counted_by_their_finest_labels_as_long_as_all_together_have_few() -> None:
    assert {column.level for column in levels_of([90] * 60, {}).columns} == {0}
    assert {column.level for column in levels_of([900] * 6, {}).columns} == {0}
    assert [column.level for column in levels_of([3_000, 900], {}).columns] == [2, 0]
    many = levels_of([960] * 20 + [64] * 40, {})
    assert [column.level for column in many.columns] == [2] * 20 + [0] * 40
    assert sum(many.sizes) <= MOST_LABELS
    # A level that is given stays and leaves less for the others, but half of all labels at least.
    assert [column.level for column in levels_of([5_632] + [320] * 10, {0: 0}).columns] == [0] + [1] * 10
    assert [column.level for column in levels_of([5_632] + [320] * 60, {0: 0}).columns] == [0] + [2] * 60
    assert levels_of([64] * 2_000, {}).columns[0].level == 3, "no column is made one that tells nothing"


@pytest.mark.parametrize("seed", range(5))
def test_no_column_is_counted_by_coarser_labels_than_it_must_be(seed: int) -> None:
    coins = np.random.default_rng(seed)
    sizes = (64 * coins.integers(1, 30, 100)).tolist()
    found = levels_of(sizes, {})
    assert sum(found.sizes) <= MOST_LABELS
    most = max(found.sizes)
    for column in found.columns:
        finer = column.hierarchy.size(column.level - 1) if column.level else MOST_LABELS
        assert finer > min(most, MOST_MARGIN_LABELS)


def test_every_pair_can_be_counted_and_pairs_of_few_labels_as_before() -> None:
    def of(sizes: list[int], level: int = 0) -> GeneralizationMap:
        columns = (
            MappedColumn(name=f"c{place}", hierarchy=hierarchy(one), level=level) for place, one in enumerate(sizes)
        )
        return GeneralizationMap(columns=tuple(columns))

    few = of([192, 100, 64])
    assert pair_details(few, (few, of([192, 100, 64], level=1))) == (few, of([192, 100, 64], level=1))
    assert pair_details(few, (few,)) == (few,)
    many = of([1_984, 1_984, 12])
    details = pair_details(many, (many, of([1_984, 1_984, 12], level=1)))
    assert len(details) == 3
    candidates = pair_candidates(details, most_cells=MOST_PAIR_CELLS)
    assert {(one.first, one.second) for one in candidates} == set(combinations(range(3), 2))
    for one in candidates:
        sizes = details[one.detail].sizes
        assert sizes[one.first] * sizes[one.second] <= MOST_PAIR_CELLS


@pytest.mark.parametrize("values", [600, pytest.param(2_000, marks=pytest.mark.slow)])
def test_two_columns_of_many_labels_are_counted_at_coarser_ones(desk, monkeypatch, values: int) -> None:
    """Neither by their finest labels nor by those one level above are they counted; verified from what is published."""
    coins = np.random.default_rng(8)
    place = coins.integers(0, values, 4_000)
    work = np.where(coins.random(4_000) < 0.8, place, coins.integers(0, values, 4_000))
    lines = [f"{one},{other}" for one, other in zip(place.tolist(), work.tolist(), strict=True)]
    (desk.folder / "people.csv").write_text("\n".join(["place,work", *lines]) + "\n")
    (desk.folder / "chosen.toml").write_text(SPEC.format(values=values, widest=values // 20))
    desk.add_dataset(epsilon=20)
    monkeypatch.setenv("CROWDBLEND_MEMORY", "0.01")
    refused = desk("run", "chosen.toml")
    assert refused.code == 2
    assert "[columns]: the tables of all pairs of columns, by the labels of their margins, need 1 GiB" in refused.err
    assert "a coarser min_level" in refused.err
    assert desk("ledger", "show", "--json").json["releases"] == []
    monkeypatch.delenv("CROWDBLEND_MEMORY")
    result = desk.succeed("run", "chosen.toml", "--json").json
    [pair] = result["pairs"]
    assert pair["levels"] == [2, 2]
    assert pair["cells"] <= MOST_PAIR_CELLS
    desk.succeed("verify", result["certificate"])
