"""Days, decimal numbers and fields of several lines: from the specification to the certificate and the sheet."""

from __future__ import annotations

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

DAYS = [date(1931, 1, 31), date(1931, 2, 28), date(1932, 12, 31), date(1933, 1, 1)]
AMOUNTS = [Decimal("0.30"), Decimal("1.57"), Decimal("7.00"), Decimal("7.00")]
DECLARED = {
    "day": {
        "kind": "dates/1",
        "from": "1930-01-01",
        "to": "1932-12-31",
        "levels": ["month", "quarter", "year", "decade"],
    },
    "amount": {"kind": "decimal-interval/1", "lower": "0.0", "upper": "2.5", "widths": ["0.5"]},
}
SPEC = """
[release]
name = "values"
output = "{output}"
format = "csv"
[data]
dataset = "people"
source = "{source}"
[sampling]
rate = 0.5
[suppression]
k = 20
[privacy]
delta = 1e-6
[columns.day]
dates = {{ from = "1930-01-01", to = "1932-12-31", levels = ["month", "quarter", "year", "decade"] }}
level = {level}
[columns.amount]
interval = {{ lower = 0.0, upper = 2.5, widths = [0.5] }}
level = 1
"""


@pytest.mark.slow
def test_days_and_decimal_numbers_of_both_formats_are_published_at_their_levels(desk) -> None:
    desk.add_dataset()
    people = pa.table({"day": DAYS * 400, "amount": pa.array(AMOUNTS * 400, type=pa.decimal128(9, 2))})
    pq.write_table(people, desk.folder / "people.parquet")
    pa.csv.write_csv(people, desk.folder / "people.csv")
    shown = []
    for source, level, output in (("people.parquet", 2, "a"), ("people.csv", 2, "b"), ("people.csv", 0, "c")):
        spec = desk.folder / "values.toml"
        spec.write_text(SPEC.format(source=source, level=level, output=output))
        assert "no value of it is declared" not in desk.succeed("explain", spec).err
        result = desk.succeed("run", spec, "--json").json
        with (Path(result["output"]) / "data.csv").open() as file:
            rows = list(csv.DictReader(file))
        shown.append({row["day"] for row in rows})
        assert {row["amount"] for row in rows} == {"[0.0, 0.5)", "[1.5, 2.0)", ">= 2.5"}
        desk.succeed("verify", result["certificate"])
        columns = json.loads(Path(result["certificate"]).read_text())["map"]["columns"]
        assert {column["column"]: column["hierarchy"] for column in columns} == DECLARED
        desk.succeed("sheet", result["output"], "--output", desk.folder / f"sheet-{output}")
    assert shown == [{"1931-Q1", "1932-Q4", "*"}] * 2 + [{"1931-01-31", "1931-02-28", "1932-12-31", "*"}]
    spec.write_text(spec.read_text().replace("[0.5]", "[0.5, 0.7]"))
    desk.refuse("run", spec, said="each dividing the next")
