"""A release whose map is drawn, through the command line: what is published, charged, certified and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

SELECTION = '\n[selection]\nepsilon = 0.2\n'


def chosen(selection: str = SELECTION, **columns: str):
    """Make a specification's fixed levels a choice; a column's levels and weight may be bounded instead."""

    def edit(text: str) -> str:
        tables = text.split("[columns.")
        kept = [tables[0] + selection.lstrip("\n") + "\n"]
        for table in tables[1:]:
            name = table.partition("]")[0]
            lines = [line for line in table.splitlines() if not line.startswith("level")]
            kept.append("\n".join([*lines, columns.get(name, "")]) + "\n")
        return "[columns.".join(kept)

    return edit


def test_the_drawn_map_is_the_published_one(desk) -> None:
    desk.add_dataset()
    answer = desk("run", desk.write_spec(edit=chosen()), "--json")
    assert answer.code == 0, answer.err
    result = answer.json
    assert result["mechanism"] == {
        "kind": "epsilon-safe-release/1",
        "k": 20,
        "sampling_rate": "0.1",
        "selection_epsilon": "0.2",
        "selection_rate": "whole",
    }
    assert result["timings"]["select"] > 0
    certificate = json.loads(Path(result["certificate"]).read_text())
    drawn = {column["column"]: column["level"] for column in certificate["map"]["columns"]}
    assert drawn == result["levels"]
    assert certificate["map"]["selection"]["maps"] == 2 * 4 * 3
    table = pq.read_table(Path(result["output"]) / "data.parquet")
    assert table.num_rows == result["published_records"]
    assert desk("verify", result["certificate"]).code == 0
    assert desk("ledger", "verify").code == 0
