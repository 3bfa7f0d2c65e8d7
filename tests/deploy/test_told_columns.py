"""Before anything is spent, `explain` says of each column what will be told and how exactly."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from crowdblend.flows.releases.told_columns import group_sizes
from crowdblend.mechanisms.kinds.deletion_noise import (
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    deletion_weights,
)

SPEC = """
[release]
name = "told"
[data]
dataset = "people"
source = "people.csv"
[deletion]
[privacy]
epsilon = 1
delta = 1e-6
[margins]
pairs = "auto"
{blocks}
[columns.age]
interval = {{ lower = 0, upper = 100, widths = [10] }}
levels = "auto"
[columns.day]
dates = {{ from = "2000-01-01", to = "2001-12-31", levels = ["month"] }}
levels = "auto"
[columns.sex]
values = ["f", "m"]
levels = "auto"
[columns.code]
interval = {{ lower = 0, upper = 900, widths = [100] }}
levels = "auto"
"""


@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize(
    "noise",
    [
        OptimalDeletion(epsilon=Decimal(1), delta=Decimal("1e-6")),
        GeometricDeletion(epsilon=Decimal("0.5"), width=20),
        GaussianDeletion(scale=Decimal("15.7"), width=81),
    ],
    ids=lambda noise: type(noise).__name__,
)
def test_a_group_of_the_likely_size_is_the_least_that_is_shown_in_19_of_20_releases(noise: DeletionNoise, k) -> None:
    """A group of n is shown where at least k of it are left: by summing the noise's own probabilities."""
    weights = deletion_weights(noise)

    def shown(people: int) -> Fraction:
        return Fraction(sum(weight for z, weight in enumerate(weights) if people - z >= k), sum(weights))

    likely, certain = group_sizes(noise, k=k)
    assert shown(likely) >= Fraction(19, 20) > shown(likely - 1)
    assert shown(certain) == 1 > shown(certain - 1)


def told_of(desk, blocks: str = "", *words: str) -> dict:
    (desk.folder / "people.csv").write_text("age,day,sex,code\n1,2000-01-01,f,3\n")
    (desk.folder / "told.toml").write_text(SPEC.format(blocks=blocks))
    return desk.succeed("explain", "told.toml", "--json", *words).json


def test_each_column_has_its_counts_and_their_error_as_a_share_of_the_records(desk) -> None:
    explained = told_of(desk, "", "--records", "20000")
    told, error = explained["told"], explained["margins"]["standard_error"]
    assert told["records"] == 20_000
    for column in told["columns"]:
        levels = next(one["levels"] for one in explained["columns"] if one["column"] == column["column"])
        # `*` is counted besides, and of intervals what lies outside them.
        outside = 2 if column["column"] in ("age", "code") else 0
        assert column["labels"] == levels[column["level"]]["labels"] + 1 + outside
        assert column["standard_error"] == error
        assert math.isclose(column["share"], error / 20_000)
        assert (column["least_tables"], column["most_tables"]) == (1, 1)
    assert sum(column["labels"] for column in told["columns"]) == explained["margins"]["cells"]
    pairs = {column["column"]: (column["pairs"], column["pairs_by_coarser_labels"]) for column in told["columns"]}
    # 904 labels of code by 732 days are too many cells: these two can be counted by coarser labels alone.
    assert pairs == {"age": (3, 2), "sex": (3, 0), "day": (3, 2), "code": (3, 2)}
    assert told_of(desk)["told"]["columns"][0]["share"] is None


@pytest.mark.parametrize(
    ("blocks", "tables"),
    [
        ('[blocks]\nnumber = 2\npinned = ["sex"]', {"age": (1, 2), "day": (1, 2), "sex": (2, 2), "code": (1, 2)}),
        (
            '[blocks.a]\ncolumns = ["age", "sex"]\n[blocks.b]\ncolumns = ["day", "sex"]\n'
            '[blocks.c]\ncolumns = ["code"]',
            {"age": (1, 1), "day": (1, 1), "sex": (2, 2), "code": (1, 1)},
        ),
    ],
)
def test_each_column_has_its_tables_of_rows(desk, blocks: str, tables: dict) -> None:
    told = told_of(desk, blocks)["told"]
    assert {one["column"]: (one["least_tables"], one["most_tables"]) for one in told["columns"]} == tables
    assert told["tables"] == blocks.count("[blocks.") or 2
    said = " ".join(desk.succeed("explain", "told.toml", "--records", "5000").out.split())
    assert f"Rows are in {told['tables']} tables, which can't be linked" in said
    assert f"a group of rows that {told['likely_group']} people share is shown in 19 of 20 releases" in said


def test_other_releases_have_no_such_table(desk) -> None:
    desk.add_dataset()
    assert "told" not in desk.succeed("explain", desk.write_spec(), "--json").json
