"""A release with a column of days: from the specification to the certificate and the researcher's sheet."""

from __future__ import annotations

import csv
import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DATES = 'dates = { from = "1900-01-01", to = "2010-12-31", levels = ["month", "quarter", "year", "decade"] }'
DECLARED = {
    "kind": "dates/1",
    "from": "1900-01-01",
    "to": "2010-12-31",
    "levels": ["month", "quarter", "year", "decade"],
}
DAYS = [date(1931, 1, 31), date(1931, 2, 28), date(2010, 12, 31), date(2011, 1, 1)]


def at(level: int):
    return lambda text: text.replace(
        "interval = { lower = 0, upper = 100, widths = [10, 50] }\nlevel = 1", f"{DATES}\nlevel = {level}"
    )


@pytest.mark.slow
def test_days_of_both_formats_are_published_at_their_level_and_verify(desk) -> None:
    desk.add_dataset()
    people = pa.table({"colour": ["red"] * 1_600, "age": DAYS * 400, "town": ["Lyon"] * 1_600})
    pq.write_table(people, desk.folder / "people.parquet")
    lines = "".join(f"red;{DAYS[i % 4]};Lyon\n" for i in range(1_600))
    (desk.folder / "people.csv").write_text("colour;age;town\n" + lines)
    shown: list[set[str]] = []
    for source, level, out in (("people.parquet", 2, "a"), ("people.csv", 2, "b"), ("people.csv", 0, "c")):
        spec = desk.write_spec(source=source, rate="0.5", file_format="csv", output=out, name=out, edit=at(level))
        desk.succeed("explain", spec)
        answer = desk("run", spec, "--json")
        assert answer.code == 0, answer.err
        folder = Path(answer.json["output"])
        with (folder / "data.csv").open() as file:
            shown.append({row["age"] for row in csv.DictReader(file)})
        desk.succeed("verify", answer.json["certificate"])
        column = json.loads(Path(answer.json["certificate"]).read_text())["map"]["columns"][1]
        assert (column["hierarchy"], column["level"]) == (DECLARED, level)
        desk.succeed("sheet", str(folder), "--output", str(desk.folder / f"sheet-{out}"))
    assert shown == [{"1931-Q1", "2010-Q4", "*"}] * 2 + [{"1931-01-31", "1931-02-28", "2010-12-31", "*"}]
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_columns_that_hold_no_day_are_told_before_the_charge(desk) -> None:
    desk.add_dataset()
    for column, code, words in (
        (pa.array([1] * 9), 0, "no value of it is declared"),
        (pa.array([0] * 9, type=pa.timestamp("us")), 0, ""),
        (pa.array([0] * 9, type=pa.timestamp("us", tz="UTC")), 2, "has the type timestamp[us, tz=UTC]"),
        (pa.array([0] * 9, type=pa.date32()), 0, ""),
    ):
        table = pa.table({"colour": ["red"] * 9, "age": column, "town": ["Lyon"] * 9})
        pq.write_table(table, desk.folder / "people.parquet")
        answer = desk("run", desk.write_spec(source="people.parquet", edit=at(1)), "--dry-run")
        assert answer.code == code, answer.err
        assert words in answer.err
        assert ("no value of it is declared" in answer.err) is ("declared" in words)
