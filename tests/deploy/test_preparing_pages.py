"""What the pages about preparing a release tell people to type is typed here."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    lines = [line.strip() for block in blocks(page, "sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("crowdblend ")]


@pytest.mark.slow
def test_the_page_of_hierarchies(desk) -> None:
    (desk.folder / "regions.csv").write_text("Lyon;South;*\nNice;South;*\nLille;North;*\n")
    (desk.folder / "communes.txt").write_text("Lyon\nNice\nLille\n")
    (desk.folder / "ages.csv").write_text("".join(f"{age};*\n" for age in range(120)))
    (desk.folder / "zip-codes.txt").write_text("75001\n75002\n69001\n")
    (desk.folder / "industries.txt").write_text("62.01\n62.02\n01.11\n")
    page = (DOCS / "hierarchies.md").read_text(encoding="utf-8")
    outline = [line[8:] for line in page.splitlines() if line.startswith(" " * 8)]
    (desk.folder / "outline.txt").write_text("\n".join(outline))
    (desk.folder / "codes.csv").write_text("A;\nA00;A\nA01;A\nB;\n")
    (desk.folder / "arx-hierarchy.csv").write_text("Lyon;South;*\nLille;North;*\n")
    (desk.folder / "old.csv").write_bytes("all,region,town\nall,South,Nîmes\nall,North,Lille\n".encode("cp1252"))
    done = 0
    for words in commands("hierarchies.md"):
        output = desk.folder / words[words.index("--output") + 1] if "--output" in words else None
        if output is not None:
            output.unlink(missing_ok=True)
        answer = desk(*words)
        assert answer.code == 0, (words, answer.err)
        assert output is None or desk("hierarchy", "check", output).code == 0
        done += 1
    assert done >= 11


def test_the_page_about_starting_from_a_file(desk) -> None:
    (desk.folder / "people.csv").write_text("sex,age,region\nF,17,south\nM,41,north\n")
    (desk.folder / "public").mkdir()
    (desk.folder / "public" / "region.csv").write_text("south;*\nnorth;*\n")
    duckdb.sql("COPY (FROM read_csv('people.csv')) TO 'people.parquet' (FORMAT parquet)")
    fields = [
        {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    ]
    (desk.folder / "schema.json").write_text(json.dumps({"fields": fields}))
    members = ("household_id,line,age,sex\n1,1,41,F\n1,2,7,M\n", "household_id,line,age,sex\n1,1,52,M\n2,1,30,F\n")
    for name, records in zip(("census.csv", "earlier.csv"), members, strict=True):
        (desk.folder / name).write_text(records)
    for words in commands("starting-from-a-file.md"):
        desk.succeed(*words)
    (chosen,) = blocks("starting-from-a-file.md", "sql")
    duckdb.sql(chosen)
    assert pq.read_table("adults.parquet").to_pylist() == [{"sex": "M", "decade": 4, "region": "NORTH"}]
    books, database, lake = blocks("starting-from-a-file.md", "python")
    with sqlite3.connect("people.sqlite") as office:
        office.execute("CREATE TABLE people (sex TEXT, code TEXT)")
        office.execute("INSERT INTO people VALUES ('F', '007')")
    office.close()
    space: dict = {}
    exec(database, space)  # noqa: S102 - what the page tells people to run
    space["office"].close()
    assert pq.read_table("people.parquet").to_pylist() == [{"sex": "F", "code": "007"}]
    assert "read_excel" in books
    assert "DeltaTable" in lake
