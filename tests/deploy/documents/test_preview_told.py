"""A preview counts records that tell anything, ranks what would have more told, and names undeclared values."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

HEAD = """
[release]
name = "told"
output = "out"
[data]
dataset = "people"
source = "people.csv"
{data}
"""
DELETION = "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n"
SAMPLED = "[sampling]\nrate = 0.3\n[suppression]\nk = 15\n[privacy]\ndelta = 1e-6\n"
COLUMNS = {
    "sex": 'values = ["f", "m"]',
    "age": "interval = { lower = 0, upper = 100, widths = [10, 50] }",
    "code": "interval = { lower = 0, upper = 3000, widths = [1000] }",
}
CHAIN = {"sex": "levels = [0, 0, 1]", "age": "levels = [0, 2, 3]", "code": "levels = [0, 1, 2]"}
WITHOUT_STARS = {name: f"{levels[:-4]}]" for name, levels in CHAIN.items()}
SINGLE = {"sex": "level = 0", "age": "level = 1", "code": "level = 1"}


def write_spec(desk, tables: str, levels: dict[str, str], *, file: str = "told.toml", data: str = "", **columns: str):
    own = COLUMNS | columns
    parts = [f"[columns.{name}]\n{own[name]}\n{levels[name]}\n" for name in levels]
    path = desk.folder / file
    path.write_text(HEAD.format(data=data) + tables + "".join(parts), encoding="utf-8")
    return path


def write_public(desk, *, rows: int = 3_000) -> None:
    """Two columns with large groups, and one by which nobody is like another."""
    draws = np.random.default_rng(4)
    ages = draws.choice([22, 35, 61], rows, p=[0.5, 0.4, 0.1])
    lines = [f"{'fm'[place % 3 == 0]},{age},{place}" for place, age in enumerate(ages)]
    (desk.folder / "public.csv").write_text("\n".join(["sex,age,code", *lines]) + "\n", encoding="utf-8")


def previewed(desk, spec, *words: str) -> dict:
    return desk.succeed("preview", spec, "--public", "public.csv", "--json", *words).json


def test_a_last_stage_of_stars_counts_as_nothing(desk) -> None:
    write_public(desk)
    spec = write_spec(desk, DELETION, CHAIN)
    told = previewed(desk, spec)
    published = [stage["published"] for stage in told["stages"]]
    assert published[2] > 100, "the control: the last stage publishes some"
    assert told["telling"]["informative"] == pytest.approx(published[0] + published[1])
    page = desk.folder / "told.html"
    text = " ".join(desk.succeed("preview", spec, "--public", "public.csv", "--html", page).out.split())
    nothing = 1 - told["telling"]["informative"] / told["people"]
    first = re.match(
        r"Of the records (.*)% would tell nothing: (.*)% would be deleted, (.*)% published as \* in every", text
    )
    assert [float(share) for share in first.groups()] == pytest.approx(
        [100 * nothing, 100 * told["deleted"], 100 * published[2] / told["people"]], abs=0.051
    )
    assert "records would be informative, with a label that isn't *" in text
    assert "would tell nothing" in page.read_text(encoding="utf-8")
    assert not re.search(r"with levels .*\[[0-9, ]*, 3\]", text), "no stage of * is proposed"


@pytest.mark.parametrize(("tables", "levels"), [(DELETION, WITHOUT_STARS), (SAMPLED, SINGLE)])
def test_what_a_change_would_bring_back_is_what_a_preview_of_it_says(desk, tables: str, levels: dict[str, str]) -> None:
    write_public(desk)
    told = previewed(desk, write_spec(desk, tables, levels))
    changes = {(one["column"], one["change"]): one["telling"] for one in told["changes"]}
    information = [one["telling"]["information"] for one in told["changes"]]
    assert information == sorted(information, reverse=True)
    others = {name: level for name, level in levels.items() if name != "code"}
    without = previewed(desk, write_spec(desk, tables, others))["telling"]
    found = changes["code", "left out"]
    assert found["informative"] == pytest.approx(without["informative"])
    assert found["columns_told"] == without["columns_told"] == 2
    assert found["information"] == pytest.approx(without["information"] * 2 / 3)
    coarser = {"code": "levels = [1, 1]" if tables is DELETION else "level = 1"}
    if tables is DELETION:
        moved = previewed(desk, write_spec(desk, tables, levels | coarser))["telling"]
        assert changes["code", "at level 1, 1"] == pytest.approx(moved)


def test_the_columns_that_are_worth_keeping_leave_out_what_costs_more_than_it_tells(desk) -> None:
    write_public(desk)
    spec = write_spec(desk, DELETION, dict.fromkeys(COLUMNS, "level = 0"))
    told = previewed(desk, spec)
    assert told["telling"]["informative"] < 30, "the control: a code of one's own loses nearly everybody"
    kept = {one["column"]: one["levels"] for one in told["kept"]}
    assert set(list(kept)[:2]) == {"age", "sex"}
    assert kept["age"] == kept["sex"] == [0]
    amounts = [one["telling"]["information"] for one in told["kept"]]
    assert amounts == sorted(amounts)
    assert told["kept"][1]["telling"]["informative"] > 2_500
    text = desk.succeed("preview", spec, "--public", "public.csv").out
    assert "The columns that are worth keeping" in text
    assert "One column left out, or a level coarser" in text


VALUES = 'values = ["Female", "Male"]'
INCOME = "interval = { lower = 0, upper = 100000, widths = [10000] }"
FAULTY = {"sex": "level = 0", "income": "level = 1", "town": "level = 0"}
TOWNS = 'values = ["Lyon", "Lille"]'


def faulty_spec(desk, **changes: str):
    own = {"sex": VALUES, "income": INCOME, "town": TOWNS}
    return write_spec(desk, DELETION, FAULTY, **(own | changes))


def undeclared(desk, spec, public: str = "public.csv") -> dict[str, tuple[float, list[str]]]:
    told = desk.succeed("preview", spec, "--public", public, "--json").json["undeclared"]
    return {one["column"]: (round(one["share"], 4), one["values"]) for one in told}


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_values_that_are_not_declared_are_named_with_their_share(desk, kind: str) -> None:
    """A German file with incomes as decimals, and a town that the list lacks in one record of ten."""
    towns = ["Lyon"] * 8 + ["Rome", ""]
    rows = [
        {"sex": ("weiblich", "männlich")[place % 2], "income": f"{1000 * (place % 7)}.0", "town": towns[place % 10]}
        for place in range(700)
    ]
    table = pa.Table.from_pylist(rows)
    if kind == "parquet":
        pq.write_table(table, desk.folder / "public.parquet", row_group_size=100)
    else:
        with pa.output_stream(desk.folder / f"public.{kind}", compression="detect") as file:
            pa.csv.write_csv(table, file)
    spec = faulty_spec(desk)
    found = undeclared(desk, spec, f"public.{kind}")
    assert found == {
        "sex": (1.0, ["weiblich", "männlich"]),
        "income": (1.0, ["0.0", "1000.0", "2000.0"]),
        "town": (0.2, ["Rome"]),
    }
    text = desk.succeed("preview", spec, "--public", f"public.{kind}").out
    assert "Published as * already at the finest level" in text
    assert '"weiblich", "männlich"' in text
    mended = faulty_spec(desk, sex='values = ["weiblich", "männlich"]', data="whole_floats = true")
    assert undeclared(desk, mended, f"public.{kind}") == {"town": (0.2, ["Rome"])}


def test_numbers_with_decimals_and_missing_ones_are_told_apart(desk) -> None:
    incomes = pa.array([0.5, None, float("nan"), 7.0] * 100)
    columns = {"sex": ["Male"] * 400, "income": incomes, "town": [None, "Lyon"] * 200}
    pq.write_table(pa.table(columns), desk.folder / "public.parquet")
    assert undeclared(desk, faulty_spec(desk), "public.parquet") == {"income": (0.75, ["0.5"]), "town": (0.5, [])}
    text = desk.succeed("preview", faulty_spec(desk), "--public", "public.parquet").out
    assert "missing values" in text
