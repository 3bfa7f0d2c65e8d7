"""A release with a column of decimal numbers: from the specification to the certificate and the researcher's sheet."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

INTERVAL = "interval = { lower = 0.0, upper = 2.5, widths = [0.5] }"


def with_decimals(text: str) -> str:
    return text.replace("interval = { lower = 0, upper = 100, widths = [10, 50] }", INTERVAL)


@pytest.mark.slow
def test_decimal_numbers_are_published_in_their_intervals_and_verify(desk):
    desk.add_dataset()
    people = pa.table(
        {
            "colour": ["red", "blue"] * 600,
            "age": pa.array([Decimal("0.30"), Decimal("1.57"), Decimal("7.00")] * 400, type=pa.decimal128(9, 2)),
            "town": ["Lyon"] * 1_200,
        }
    )
    pq.write_table(people, desk.folder / "people.parquet")
    spec = desk.write_spec(source="people.parquet", rate="0.5", edit=with_decimals)
    assert "decimal" not in desk.succeed("explain", spec).err
    answer = desk("run", spec, "--json")
    assert answer.code == 0, answer.err
    table = pq.read_table(Path(answer.json["output"]) / "data.parquet")
    assert set(table["age"].to_pylist()) == {"[0.0, 0.5)", "[1.5, 2.0)", ">= 2.5"}
    desk.succeed("verify", answer.json["certificate"])
    whole = desk.write_spec(source="people.parquet", output="whole")
    assert "no value of it is declared" in desk("run", whole, "--dry-run").err
    wrong = desk.write_spec(
        source="people.parquet", edit=lambda text: with_decimals(text).replace("[0.5]", "[0.5, 0.7]")
    )
    refused = desk("run", wrong)
    assert refused.code == 2
    assert "each dividing the next" in refused.err
    desk.succeed("ledger", "verify")
