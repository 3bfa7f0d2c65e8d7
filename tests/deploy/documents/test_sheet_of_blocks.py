"""The sheet of a release whose rows are in several tables: each by itself, and what they don't tell together."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from crowdblend.deploy.documents.document_registry import verified_release
from crowdblend.deploy.documents.sheet.facts import sheet_facts
from crowdblend.deploy.documents.sheet.render_sheet import sheet_texts


@pytest.fixture(scope="module")
def texts(blocked: Path) -> dict[str, str]:
    return sheet_texts(verified_release(blocked))


def test_each_table_has_its_own_rows_stages_and_columns(blocked: Path, texts) -> None:
    facts = sheet_facts(verified_release(blocked))
    published = json.loads((blocked / "certificate.json").read_text())["published"]
    assert [table.block for table in facts.tables] == ["home", "rest"]
    for table, block in zip(facts.tables, published["blocks"], strict=True):
        rows = pq.read_table(blocked / f"data-{block['name']}.parquet")
        assert (table.rows, table.records) == (rows.num_rows, block["records"])
        assert sorted(column.name for column in table.columns) == sorted(block["columns"])
        assert [stage["published_records"] for stage in table.deletion.stages] == [
            stage["published_records"] for stage in block["stages"]
        ]
        assert f"### {table.file}" in texts["-sheet.md"]
    assert (facts.rows, facts.records) == (sum(table.rows for table in facts.tables), published["records"])
    assert [column.name for column in facts.columns] == ["the town", "age", "secret"]
    assert "data-home.parquet: Home &amp; age" in texts["-sheet.html"]
    levels = {(one.name, one.level) for one in facts.codebook}
    assert levels == {("the town", 0), ("the town", 1), ("age", 1), ("age", 2), ("secret", 0)}


@pytest.mark.parametrize("form", ["-sheet.html", "-sheet.md"])
def test_it_says_what_tables_do_not_tell_together(texts, form: str) -> None:
    text = " ".join(re.sub(r"<[^>]+>", " ", texts[form]).replace("&#39;", "'").split())
    for said in (
        "Rows of different tables can't be linked",
        "takes them as independent but for the counted pairs",
        "only within a table that has them all",
        "by three columns that both have they may differ",
    ):
        assert said in text


def test_the_map_says_which_table_each_column_is_in(texts) -> None:
    [picture] = re.findall(r'<svg class="picture".*?</svg>', texts["-sheet.html"], re.DOTALL)
    assert picture.count('class="member"') == 4, "age is in both"
    assert "1: home; 2: rest" in picture
    assert "1 home, 2 rest" in texts["-sheet.html"]


def test_the_cross_table_s_code_counts_one_table_by_its_own_labels(blocked: Path, texts, monkeypatch, tmp_path) -> None:
    """The labels of the first stage become those of the last, by the lookup file's rows of this block alone."""
    facts = sheet_facts(verified_release(blocked))
    for file in blocked.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / facts.labels_file).write_text(texts["-labels.csv"])
    monkeypatch.chdir(tmp_path)
    table = facts.of_cross
    [code] = re.findall(r"## A cross table.*?### pandas\n\n```python\n(.*?)```", texts["-sheet.md"], re.DOTALL)
    space: dict = {}
    exec(code, space)  # noqa: S102 - what a researcher would run
    coarser = {
        (row["column"], row["stage"], row["label"]): row["coarser"]
        for row in csv.DictReader(io.StringIO(texts["-labels.csv"]))
        if row["block"] == table.block
    }
    expected: dict[tuple[str, ...], float] = {}
    for row in pq.read_table(blocked / table.file).to_pylist():
        key = tuple(coarser[name, str(row["stage"]), row[name]] for name in table.cross)
        expected[key] = expected.get(key, 0.0) + row["weight"]
    found = {key: people for key, people in space["people"].items() if people}
    assert found == pytest.approx(expected)
    assert len(expected) > 3
    assert isinstance(space["shown"], pd.DataFrame)


def test_the_citation_names_every_table(texts, blocked: Path) -> None:
    files = json.loads((blocked / "certificate.json").read_text())["files"]
    for name in ("data-home.parquet", "data-rest.parquet"):
        assert f"{name}: {files[name]}" in texts["-sheet.md"]
