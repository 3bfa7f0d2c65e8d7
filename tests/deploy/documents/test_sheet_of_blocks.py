"""The sheet of a release whose rows are in several tables: each by itself, and what they don't tell together."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

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
    page = re.sub(r"<[^>]+>", " ", texts[form]) if form.endswith("html") else texts[form]
    text = " ".join(page.replace("&#39;", "'").split())
    for said in (
        "Rows of different tables can't be linked",
        "takes them as independent but for the counted pairs",
        "only within a table that has them all",
        "its estimate is a model's, and its note says so",
        "by three columns that both have they may differ",
    ):
        assert said in text


def test_the_map_says_which_table_each_column_is_in(texts) -> None:
    [picture] = re.findall(r'<svg class="picture".*?</svg>', texts["-sheet.html"], re.DOTALL)
    assert picture.count('class="member"') == 4, "age is in both"
    assert "1: home; 2: rest" in picture
    assert "1 home, 2 rest" in texts["-sheet.html"]


def test_the_lookup_file_brings_rows_of_every_stage_to_the_last_ones_labels(blocked: Path, texts) -> None:
    coarser = {
        (row["block"], row["column"], row["stage"], row["label"]): row["coarser"]
        for row in csv.DictReader(io.StringIO(texts["-labels.csv"]))
    }
    for table in sheet_facts(verified_release(blocked)).tables:
        for column in table.columns:
            last = {
                label
                for block, name, stage, label in coarser
                if (block, name, stage) == (table.block, column.name, "2")
            }
            for row in pq.read_table(blocked / table.file).to_pylist():
                assert coarser[table.block, column.name, str(row["stage"]), row[column.name]] in last


def test_the_citation_names_every_table(texts, blocked: Path) -> None:
    files = json.loads((blocked / "certificate.json").read_text())["files"]
    for name in ("data-home.parquet", "data-rest.parquet"):
        assert f"{name}: {files[name]}" in texts["-sheet.md"]
