"""A preview of rows in several tables: each as if it were alone, with the noise that all of them share the price of."""

from __future__ import annotations

import re

import numpy as np
import pytest

HEAD = """
[release]
name = "wide"
output = "out"
[data]
dataset = "people"
source = "people.csv"
"""
COLUMNS = {
    "sex": 'values = ["f", "m"]\nlevels = [0, 0]\n',
    "age": "interval = { lower = 0, upper = 100, widths = [10, 50] }\nlevels = [1, 2]\n",
    "work": 'values = ["a", "b", "c"]\nlevels = [0, 1]\n',
    "home": 'values = ["x", "y"]\nlevels = [0, 1]\n',
}
PRIVACY = "[privacy]\nepsilon = 1\ndelta = 1e-6\n"


@pytest.fixture
def people(desk):
    draws = np.random.default_rng(4)
    rows = zip(
        draws.choice(["f", "m"], 4_000),
        draws.integers(0, 100, 4_000),
        draws.choice(["a", "b", "c"], 4_000, p=[0.7, 0.27, 0.03]),
        draws.choice(["x", "y"], 4_000, p=[0.9, 0.1]),
        strict=True,
    )
    lines = [",".join(map(str, row)) for row in rows]
    (desk.folder / "public.csv").write_text("\n".join(["sex,age,work,home", *lines]) + "\n", encoding="utf-8")
    return desk


def write_spec(desk, name: str, tables: str, columns: dict[str, str]):
    path = desk.folder / f"{name}.toml"
    path.write_text(HEAD + tables + "".join(f"[columns.{one}]\n{text}" for one, text in columns.items()))
    return path


def previewed(desk, spec, *words: str) -> dict:
    return desk.succeed("preview", spec, "--public", "public.csv", "--json", *words).json


def test_each_table_is_that_of_a_release_of_its_columns_with_the_same_noise(people) -> None:
    blocks = '[margins]\npairs = "auto"\n[blocks]\npinned = ["sex"]\n[blocks.a]\ncolumns = ["age"]\n[blocks.b]\n'
    blocks += 'columns = ["work", "home"]\n'
    spec = write_spec(people, "blocks", f"[deletion]\n{PRIVACY}{blocks}", COLUMNS)
    together = previewed(people, spec)
    mechanism = people.succeed("explain", spec, "--json").json["mechanism"]
    noise = f'[deletion]\nshape = "gaussian"\nscale = {mechanism["scale"]}\nwidth = {mechanism["width"]}\n'
    assert [table["block"] for table in together["tables"]] == ["a", "b"]
    for table in together["tables"]:
        own = {name: COLUMNS[name] for name in table["columns"]}
        alone = previewed(
            people, write_spec(people, f"alone-{table['block']}", f"{noise}[privacy]\nepsilon = 9\ndelta = 1e-6\n", own)
        )
        assert alone["expected_deletion"] == together["expected_deletion"]
        for key in ("published", "groups", "deleted"):
            assert table[key] == pytest.approx(alone[key]), key
        assert table["telling"]["informative"] == pytest.approx(alone["telling"]["informative"])
        assert table["telling"]["columns_told"] == alone["telling"]["columns_told"]
        stages = [stage for stage in together["stages"] if stage["block"] == table["block"]]
        assert [stage["published"] for stage in stages] == pytest.approx([one["published"] for one in alone["stages"]])
    assert together["published"] == pytest.approx(sum(table["published"] for table in together["tables"]))
    assert together["deleted"] == pytest.approx(np.mean([table["deleted"] for table in together["tables"]]))
    assert [point["epsilon"] for point in together["by_epsilon"] if point["chosen"]] == [together["epsilon"]]
    deleted = [point["deleted"] for point in together["by_epsilon"]]
    assert deleted == sorted(deleted, reverse=True), "a higher price never loses more"


def test_found_tables_are_shown_with_what_will_be_told_of_each_column(people) -> None:
    columns = {name: re.sub(r"levels = .*", 'levels = "auto"', text) for name, text in COLUMNS.items()}
    blocks = f'[deletion]\n{PRIVACY}[margins]\npairs = "auto"\n[blocks]\nnumber = 2\npinned = ["age"]\n'
    spec = write_spec(people, "found", blocks, columns)
    made = previewed(people, spec, "--population", "8000")
    assert {name for table in made["tables"] for name in table["columns"]} == set(COLUMNS)
    assert all("age" in table["columns"] for table in made["tables"])
    told = {one["column"]: one for one in made["told"]["columns"]}
    assert made["told"]["records"] == 8_000
    assert (told["age"]["least_tables"], told["work"]["least_tables"]) == (2, 1)
    page = people.folder / "found.html"
    said = " ".join(people.succeed("preview", spec, "--public", "public.csv", "--html", page).out.split())
    assert "of 2 tables would be informative" in said
    text = page.read_text(encoding="utf-8")
    assert "<h2>What will be told of each column</h2>" in text
    assert "<h2>Table by table</h2>" in text
    assert "which can&#39;t be linked" in text


def test_other_deletions_have_no_tables_and_nothing_told_beforehand(people) -> None:
    made = previewed(people, write_spec(people, "plain", f"[deletion]\n{PRIVACY}", COLUMNS))
    assert (made["tables"], made["told"]) == ([], None)
